package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/report"
)

// deathProfile is a profile of two points, each with a server of its own.
const deathProfile = `name: death
server: {kind: memcached}
workload:
  kind: kv
  connections: 2
  classes: [{name: r, share: 1, slo: 10s, keys: 10, value: 10B}]
load: {rates: [200]}
controllers: [{name: none}]
timeout: 1s
drain: 1s
warmup: 100ms
window: 500ms
repeats: 2
`

// running starts `loadgen run` on deathProfile, with more flags, and calls during with the process of its server when the first line of
// its progress contains phrase. It returns when loadgen has ended.
func running(t *testing.T, phrase string, during func(loadgen *os.Process, server int), flags ...string) (out string, code int, log string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "death.yaml")
	if err := os.WriteFile(path, []byte(deathProfile), 0o666); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(dir, "out")
	cmd := exec.Command(filepath.Join(binaries(t), "loadgen"), append([]string{"run", path, "--verbose", "--out", out}, flags...)...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	called := false
	for in := bufio.NewScanner(stderr); in.Scan(); {
		log += in.Text() + "\n"
		if !called && strings.Contains(in.Text(), phrase) {
			called = true
			server, err := childOf(cmd.Process.Pid)
			if err != nil {
				t.Error(err)
			}
			during(cmd.Process, server)
		}
	}
	_ = cmd.Wait()
	if !called {
		t.Fatalf("no line has %q:\n%s", phrase, log)
	}
	return out, cmd.ProcessState.ExitCode(), log + stdout.String()
}

// childOf returns the one child of a process.
func childOf(pid int) (int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	var children []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	if len(children) != 1 {
		return 0, fmt.Errorf("process %d has the children %v, want one", pid, children)
	}
	return children[0], nil
}

// TestServerThatDiesIsAFinding kills the server of the first point under load: the point is written with a warning, the second point runs
// on a server of its own, and the exit code is not that of a failure.
func TestServerThatDiesIsAFinding(t *testing.T) {
	t.Parallel()
	out, code, log := running(t, ": window", func(_ *os.Process, server int) {
		if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	run, err := report.ReadDir(out)
	if err != nil || code == exitFailed || code == exitUsage || run.Manifest.State != report.StateComplete {
		t.Fatalf("exit code %d, state %q, %v\n%s", code, run.Manifest.State, err, log)
	}
	var died, whole int
	for _, r := range run.Rows {
		switch {
		case r.Class != report.AllClasses:
		case slices.Contains(r.Warnings, "server_died"):
			died++
			if r.Fates.Failed == 0 {
				t.Errorf("the server died and no request failed: %+v", r.Fates)
			}
		case r.Fates.OK == r.Fates.Arrivals():
			whole++
		}
	}
	if !strings.Contains(log, "  server_died (1): ") || !strings.Contains(log, "repeat 1: signal: killed\n") && !strings.Contains(log, "repeat 2: signal: killed\n") {
		t.Errorf("what happened to the server is not said:\n%s", log)
	}
	if died != 1 || whole != 1 {
		t.Errorf("%d points with a dead server, %d with all requests answered, want one each:\n%s", died, whole, log)
	}
}

// TestServerGoesWithLoadgen kills loadgen, which cannot clean up then: its server must not stay behind.
func TestServerGoesWithLoadgen(t *testing.T) {
	t.Parallel()
	var server int
	running(t, ": warm-up", func(loadgen *os.Process, child int) {
		server = child
		if err := loadgen.Kill(); err != nil {
			t.Error(err)
		}
	}, "--warmup", "60s")
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(server, 0) == nil; <-time.After(10 * time.Millisecond) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", server)); err == nil && bytes.Contains(stat, []byte(") Z ")) {
			return // dead, and waiting for whoever adopted it
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server, process %d, outlived loadgen by 10 s", server)
		}
	}
}
