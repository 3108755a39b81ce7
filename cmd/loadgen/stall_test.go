package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/report"
)

// stall is how long something is stopped in the tests below, in a window of two seconds: long enough that what the machine does on its
// own is small beside it.
const stall = 500 * time.Millisecond

// driven runs `loadgen drive` on a refserver for two seconds of constant arrivals, calls during once the window has begun, and returns
// the pooled row and the exit code.
func driven(t *testing.T, slo string, during func(loadgen, server *os.Process)) (row report.Row, code int) {
	t.Helper()
	server, url, err := launchRefserver()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(server) })
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(filepath.Join(binaries(t), "loadgen"), "drive", url, "--rate", "1k", "--duration", "2s", "--arrivals", "constant",
		"--slo", slo, "--out", out, "--verbose")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	began := false
	for in := bufio.NewScanner(stderr); in.Scan(); {
		if !began && strings.Contains(in.Text(), ": window") {
			began = true
			during(cmd.Process, server.Process)
		}
	}
	_ = cmd.Wait()
	run, err := report.ReadDir(out)
	if err != nil || len(run.Rows) != 2 || !began {
		t.Fatalf("no results: %v\n%s", err, stdout.String())
	}
	return run.Rows[1], cmd.ProcessState.ExitCode()
}

// stopFor sends SIGSTOP and, a stall later, SIGCONT. It returns how long the process was stopped at least.
func stopFor(t *testing.T, p *os.Process) time.Duration {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	<-time.After(stall)
	lasted := time.Since(stopped)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	return lasted
}

// TestStoppedServerShowsInLatency stops the server for a quarter of the window. Requests come evenly, so those of the stop wait for
// what is left of it: the share that waits longer than x is (stop − x)/window. The percentiles follow. A generator that measured from
// the send, or sent nothing while it got no replies, would report a handful of slow requests.
func TestStoppedServerShowsInLatency(t *testing.T) {
	t.Parallel()
	var stopped time.Duration
	row, code := driven(t, "10s", func(_, server *os.Process) { stopped = stopFor(t, server) })
	if code != exitDone || !row.Valid || row.Fates.OK != 2000 {
		t.Errorf("exit code %d, valid %v, %d ok, warnings %v", code, row.Valid, row.Fates.OK, row.Warnings)
	}
	const window = 2 * time.Second
	for _, q := range []struct {
		share float64
		got   report.Value
	}{{0.10, row.Latency.P90}, {0.01, row.Latency.P99}, {0, row.Latency.Max}} {
		// Only the lower side is certain: a busy machine may lengthen the stop, nothing can shorten it. The histogram has three digits.
		least := 0.99 * float64(stopped-time.Duration(q.share*float64(window))) / 1e3
		if got, ok := q.got.Get(); !ok || got < least-5e3 {
			t.Errorf("the latency that a share of %v exceeds is %v us, want at least %.0f us", q.share, got, least)
		}
	}
	if p50, _ := row.Latency.P50.Get(); p50 > float64(stall)/1e3 {
		t.Errorf("the median is %v us, though three quarters of the requests met a server that ran", p50)
	}
}

// TestStarvedGeneratorIsNotValid stops the generator itself: its requests leave late, which must be held against it, not against the
// server.
func TestStarvedGeneratorIsNotValid(t *testing.T) {
	t.Parallel()
	row, code := driven(t, "100ms", func(loadgen, _ *os.Process) { stopFor(t, loadgen) })
	if code != exitInvalid || row.Valid || !strings.Contains(strings.Join(row.Warnings, ";"), "send_lag") {
		t.Errorf("exit code %d, valid %v, warnings %v; want 3, false and send_lag", code, row.Valid, row.Warnings)
	}
	if row.Fates.Arrivals() != 2000 {
		t.Errorf("%d requests were due, want 2000: a stop of the generator must not thin out the load", row.Fates.Arrivals())
	}
	if lag, _ := row.SendLagP99.Get(); lag < float64(stall)/1e3*0.9 {
		t.Errorf("p99 send lag is %v us, want about the stop", lag)
	}
}
