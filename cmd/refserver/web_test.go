package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemon is a refserver that speaks HTTP, as a process of its own.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   string
	stderr *transcript
	ended  chan struct{}
}

// transcript is what a process has said so far.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func daemonise(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: exec.Command(os.Args[0], args...), stderr: new(transcript), ended: make(chan struct{})}
	d.cmd.Env = append(os.Environ(), "REFSERVER_TEST_MAIN=1")
	d.cmd.Stderr = d.stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { _ = d.cmd.Wait(); close(d.ended) }()
	t.Cleanup(d.kill)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "refserver: listening on ")
	if !ok {
		d.kill()
		t.Fatalf("it said %q, %v: %s", line, err, d.stderr)
	}
	d.addr = addr
	return d
}

// kill ends the process at once.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
}

// stop ends the process as a service manager does, and wants it to end well.
func (d *daemon) stop() {
	d.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	<-d.ended
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		d.t.Errorf("exit code %d: %s", code, d.stderr)
	}
}

func (d *daemon) url(path string) string { return "http://" + d.addr + "/" + path }

// read decodes a page of JSON.
func (d *daemon) read(page string, to any) error {
	reply, err := http.Get(d.url(page))
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	return json.NewDecoder(reply.Body).Decode(to)
}

// await waits until a figure of the server is as wanted.
func (d *daemon) await(patience time.Duration, name string, wanted func(float64) bool) {
	d.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline, last := time.After(patience), 0.0
	for {
		figures := map[string]float64{}
		err := d.read("stats", &figures)
		if last = figures[name]; err == nil && wanted(last) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			d.t.Fatalf("%s is %g after %v (%v)", name, last, patience, err)
		}
	}
}

func TestWebUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"web extra":                   "unknown command",
		"web --listen 8080":           "write host:port",
		"web --store rocks":           "there are kv and synthetic",
		"web --class a --class a":     "different from each other",
		"web --class a,slo=5":         "has no unit",
		"web --class a,prio=5":        "write NAME,slo=5ms,priority=1",
		"web --class a,priority=256":  "to 255",
		"web --class a --otherwise b": "there is no such class; there are a",
		"web --control none-such":     `unknown controller "none-such"`,
		"web --control staging":       "there is nothing to watch",
		"web --upstream 127.0.0.1:80": "write http://host:port",
		"web --edge a":                "--edge and --allocator belong together",
		"web --listen 127.0.0.1:0 --edge a --allocator http://127.0.0.1:1":              "say --control capacity",
		"web --listen 127.0.0.1:0 --control capacity --edge a --allocator 127.0.0.1:80": "write http://host:port",
		"web --header-timeout 0s": "slow client",
		"web -m 1x":               "memory: size",
		"web --slots -2":          "at least -1",
		"allocator":               "budget",
		"allocator --budget 10":   "at least one class and one location",
		"allocator --budget 10 --class a=0.5 --location x":          "they must sum to 1",
		"allocator --budget 10 --class a --location x":              "write NAME=SHARE",
		"allocator --budget 10 --class a=1,borrow=1 --location x":   "write NAME=SHARE",
		"allocator --budget 10 --class a=1 --location x=heavy":      "write NAME or NAME=WEIGHT",
		"allocator --budget 10 --class a=1 --location x --lease 5s": "it must be at least 6s",
		"allocator --config none-such.json":                         "no such file",
		"allocator --config none-such.json --budget 1":              "the file of --config has it",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit code %d, stderr %q, want something about %q", args, code, stderr.String(), want)
		}
	}
}

func TestWebServes(t *testing.T) {
	t.Parallel()
	d := daemonise(t, "web", "--listen", "127.0.0.1:0", "--store", "kv,synthetic", "--stream-buffer", "1MiB", "--control", "bouncer", "--class", "a,slo=20ms,priority=1", "--class", "b,slo=1s", "--level", "heap=1GB")
	for path, want := range map[string]int{"kv/x": 404, "work/c1us": 204, "healthz": 200, "metrics": 200, "nowhere": 404} {
		reply, err := http.Get(d.url(path))
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("%s: %s", path, reply.Status)
		}
	}
	d.stop()
}

// idleConnections is what the issue asks for. Both ends need a descriptor each, in different processes.
const idleConnections = 10_000

// TestIdleConnections: ten thousand connections that nobody uses cost little memory, keep nobody from being served, and are closed in time.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	n := idleConnections
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(limit.Cur) - 500; n > most {
		n = most
		t.Logf("only %d connections: this process may have no more files open (ulimit -n is %d)", n, limit.Cur)
	}
	d := daemonise(t, "web", "--listen", "127.0.0.1:0", "-c", strconv.Itoa(n+10), "--header-timeout", "8s")
	before := residentMB(t, d.cmd.Process.Pid)
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range n {
		c, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatalf("connection %d: %v", len(conns), err)
		}
		conns = append(conns, c)
	}
	d.await(20*time.Second, "curr_connections", func(got float64) bool { return got >= float64(n) })
	if reply, err := http.Get(d.url("healthz")); err != nil || reply.StatusCode != 200 {
		t.Errorf("with %d idle connections: %v, %v", n, reply, err)
	} else {
		_ = reply.Body.Close()
	}
	after := residentMB(t, d.cmd.Process.Pid)
	t.Logf("%d idle connections: resident %d MB, before %d MB", n, after, before)
	const most = 40 // kB each: a goroutine with its stack, and buffers of 4 kB
	if !raceDetector && after-before > n*most/1000+50 {
		t.Errorf("%d idle connections take %d MB", n, after-before)
	}
	d.await(60*time.Second, "curr_connections", func(got float64) bool { return got < 10 })
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(c); err != nil {
			t.Fatalf("connection %d was not closed clearly: %v", i, err)
		}
	}
	d.stop()
}

// residentMB returns the memory of a process.
func residentMB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kB int
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatal(err)
	}
	return kB / 1000
}
