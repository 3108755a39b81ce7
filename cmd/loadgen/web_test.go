package main

import (
	"bufio"
	table "encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startWeb starts a refserver web with spelled work and values, and returns its address.
func startWeb(t *testing.T, args ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries(t), "refserver"),
		append([]string{"web", "--listen", "127.0.0.1:0", "--store", "kv,synthetic", "--stream-buffer", "1MiB"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(cmd) })
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "refserver: listening on ")
	if !found {
		t.Fatalf("refserver said %q (%v)", line, err)
	}
	return addr
}

// driveHTTP runs loadgen drive and returns the columns of the row of all classes. valid says that the numbers may be believed.
func driveHTTP(t *testing.T, url string, args ...string) (row map[string]string, valid bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(filepath.Join(binaries(t), "loadgen"), append([]string{"drive", url, "--out", dir, "--quiet"}, args...)...)
	said, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 3 {
		t.Fatalf("loadgen drive %s: %v\n%s", url, err, said)
	}
	file, err := os.Open(filepath.Join(dir, "points.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := table.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	row = map[string]string{}
	for i, name := range rows[0] {
		row[name] = rows[len(rows)-1][i]
	}
	return row, row["valid"] == "true"
}

// TestDriveHTTP drives a server that sheds: every request has its fate, and the server's own timings fill their columns.
func TestDriveHTTP(t *testing.T) {
	t.Parallel()
	addr := startWeb(t, "--class", "read", "--class", "write", "--control", "capacity", "--control-set", "baseline=100000,100", "--control-set", "burst=0.1")
	row, _ := driveHTTP(t, "http://"+addr+"/kv/{key}", "--rate", "1k", "--duration", "1s", "--arrivals", "constant", "--timeout", "5s",
		"--classes", "[{name: read, share: 0.5, keys: 100, value: 1kB}, {name: write, share: 0.5, keys: 100, value: 100B, op: set}]")
	number := func(name string) float64 {
		v, err := strconv.ParseFloat(row[name], 64)
		if err != nil {
			t.Errorf("%s is %q", name, row[name])
		}
		return v
	}
	if sum := number("ok") + number("rejected") + number("timed_out") + number("failed") + number("unsent"); sum != 1000 || number("failed") != 0 {
		t.Errorf("%v of 1000 requests have a fate: %v", sum, row)
	}
	if rejected := number("rejected"); rejected < 300 || rejected > 450 {
		t.Errorf("%v of about 500 writes were rejected, 100 a second are granted", rejected)
	}
	if row["controller"] != "capacity" {
		t.Errorf("its controller is called %q", row["controller"])
	}
	if number("service_mean_us") <= 0 || number("queue_mean_us") < 0 || strings.Contains(row["warnings"], "server_count") {
		t.Errorf("%v", row)
	}
}

var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkMedian = regexp.MustCompile(`50%\s+([0-9.]+)(us|ms|s)`)
)

// TestDriveAgreesWithWrk asks one server for the same with Debian's wrk and with ours. wrk is a closed loop, so it is asked first: so many connections as
// make a rate that both can hold, of work that waits five milliseconds and needs no core. Its rate is then the one that ours offers, evenly
// spaced as a closed loop of constant service is: throughputs must be within 2 %. Neither has a queue at the server, so the
// medians are of the same thing, up to what this machine adds: a tenth, and half a millisecond for timers. A point that is not valid because the
// machine was busy may agree all the same; one that was disturbed does not, and is measured again.
func TestDriveAgreesWithWrk(t *testing.T) {
	path, err := exec.LookPath("wrk")
	if err != nil {
		t.Skipf("not compared with wrk: %v (apt-get install wrk)", err)
	}
	url := "http://" + startWeb(t) + "/" + "work/d5ms"
	for try := 1; ; try++ {
		out, err := exec.Command(path, "-t1", "-c8", "-d2s", "--latency", url).CombinedOutput()
		if err != nil || strings.Contains(string(out), "Non-2xx") {
			t.Fatalf("%v\n%s", err, out)
		}
		rate, median := wrkRate.FindSubmatch(out), wrkMedian.FindSubmatch(out)
		if rate == nil || median == nil {
			t.Fatalf("wrk said\n%s", out)
		}
		theirs, _ := strconv.ParseFloat(string(rate[1]), 64)
		span, err := time.ParseDuration(string(median[1]) + string(median[2]))
		if err != nil {
			t.Fatal(err)
		}
		row, valid := driveHTTP(t, url, "--rate", strconv.FormatFloat(theirs, 'f', 0, 64), "--duration", "2s", "--arrivals", "constant")
		ours, _ := strconv.ParseFloat(row["throughput_rps"], 64)
		p50, _ := strconv.ParseFloat(row["latency_p50_us"], 64)
		micros := float64(span.Microseconds())
		t.Logf("try %d: wrk %.0f a second at p50 %v, ours %.0f at p50 %s, valid %v", try, theirs, span, ours, fmt.Sprint(time.Duration(p50*1000)), valid)
		if math.Abs(ours/theirs-1) <= 0.02 && math.Abs(p50-micros) <= 0.1*micros+500 {
			return
		}
		if try == noisyTries {
			t.Fatal("they do not agree")
		}
	}
}
