package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"spillway/internal/reproduce"
)

// TestExitCodesOfReproduce: wrong usage, failed, a claim that does not hold, not valid, done.
func TestExitCodesOfReproduce(t *testing.T) {
	t.Parallel()
	bad := reproduce.Result{Counts: reproduce.Counts{Holds: 1, DoesNotHold: 1, Undecided: 1}, Invalid: 2}
	interrupted := bad
	interrupted.Interrupted = true
	for _, tt := range []struct {
		result reproduce.Result
		err    error
		want   int
	}{
		{reproduce.Result{Counts: reproduce.Counts{Holds: 3}}, nil, exitDone},
		{reproduce.Result{Counts: reproduce.Counts{Holds: 3, Undecided: 2}}, nil, exitDone},
		{reproduce.Result{Counts: reproduce.Counts{Holds: 3, Undecided: 2}, Invalid: 1}, nil, exitInvalid},
		{bad, nil, exitWorse},
		{interrupted, nil, exitFailed},
		{bad, errors.New("disk"), exitFailed},
		{bad, fmt.Errorf("folder: %w", reproduce.ErrUsage), exitUsage},
	} {
		got := exitDone
		if err := reproduced(&tt.result, tt.err); err != nil {
			var e *exit
			if !errors.As(err, &e) {
				t.Fatalf("%v has no exit code", err)
			}
			got = e.code
		}
		if got != tt.want {
			t.Errorf("%+v, %v: exit code %d, want %d", tt.result, tt.err, got, tt.want)
		}
	}
}

// TestKilledRunGoesOn kills a run with SIGKILL, twice, and goes on with it: the files are those of a run that was not killed.
func TestKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	loadgen, dir := filepath.Join(binaries(t), "loadgen"), t.TempDir()
	whole, part := filepath.Join(dir, "whole"), filepath.Join(dir, "part")
	size := []string{"--set", "repeats=5", "--set", "window=20s", "--set", "workload.shape=steps:1@5s,4@5s,1@10s", "--jobs", "1"}
	command := func(args ...string) *exec.Cmd { return exec.Command(loadgen, args...) }
	if out, err := command(append([]string{"run", "staging-mailbox", "--quiet", "--out", whole}, size...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	killAfter(t, command(append([]string{"run", "staging-mailbox", "--json-progress", "--out", part}, size...)...), 3)
	if text, err := os.ReadFile(filepath.Join(part, "manifest.json")); err != nil || !bytes.Contains(text, []byte(`"state": "running"`)) {
		t.Fatalf("it is not what a killed run leaves: %v\n%s", err, text)
	}
	killAfter(t, command("run", "--resume", part, "--jobs", "1", "--json-progress"), 2)
	out, err := command("run", "--resume", part, "--jobs", "1").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "going on after ") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"points.csv", "trace.csv", "histograms.hlog", "claims.csv"} {
		a, aerr := os.ReadFile(filepath.Join(whole, name))
		b, berr := os.ReadFile(filepath.Join(part, name))
		if err := errors.Join(aerr, berr); err != nil {
			t.Fatal(err)
		}
		if len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %d bytes, and %d of the run that was killed", name, len(a), len(b))
		}
	}
	// Once it is complete there is nothing to go on with, and another run is refused.
	if out, err := command("run", "--resume", part, "--jobs", "1").CombinedOutput(); err != nil || !strings.Contains(string(out), "is complete") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := command("run", "staging-mailbox", "--resume", part).CombinedOutput(); err == nil || !strings.Contains(string(out), "has another run: the profile differs") {
		t.Errorf("%v\n%s", err, out)
	}
}

// killAfter runs a command that tells its progress as JSON and kills it once so many points are finished.
func killAfter(t *testing.T, cmd *exec.Cmd, points int) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	for in := bufio.NewScanner(stderr); in.Scan(); {
		seen += in.Text() + "\n"
		if strings.Contains(in.Text(), `"event":"point"`) {
			if points--; points == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var ee *exec.ExitError
	if err := cmd.Wait(); points > 0 || !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it was not killed: %v\n%s", err, seen)
	}
}
