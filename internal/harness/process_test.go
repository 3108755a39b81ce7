//go:build linux

package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script makes an executable of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProcessListens(t *testing.T) {
	t.Parallel()
	p, err := startProcess(t.Context(), script(t, `echo "refserver: listening on 127.0.0.1:$1"; echo more; exec sleep 60`),
		[]string{"4321"}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if p.addr != "127.0.0.1:4321" || p.died() {
		t.Errorf("address %q, died %v", p.addr, p.died())
	}
	group, err := syscall.Getpgid(p.cmd.Process.Pid)
	if err != nil || group != p.cmd.Process.Pid {
		t.Errorf("process group %d, %v: Ctrl-C would reach the server", group, err)
	}
	p.stop()
	if !p.died() {
		t.Error("still there after stop")
	}
	p.stop() // once more does no harm
}

func TestProcessThatDoesNotListen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`echo "bind: address already in use" >&2; exit 1`: "the server ended at once (exit status 1): bind: address already in use",
		`exit 0`:                               "the server ended at once (exit status 0)",
		`echo "Usage: something"; sleep 60`:    `the server said "Usage: something" instead of where it listens`,
		`kill -KILL $$`:                        "the server ended at once (signal: killed)",
		`echo "refserver:listening"; sleep 60`: `the server said "refserver:listening"`,
	} {
		_, err := startProcess(t.Context(), script(t, text), nil, os.Environ())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if _, err := startProcess(t.Context(), "/no/such/server", nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: error %v", err)
	}
}

// TestProcessIsNotAwaitedForEver cancels the start of a server that says nothing.
func TestProcessIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p, err := startProcess(ctx, script(t, `exec sleep 60`), nil, os.Environ())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if !p.died() {
		t.Error("the server was left behind")
	}
}

// TestStoppedProcessCanBeStopped sends SIGSTOP first: a server that somebody froze must not outlive us.
func TestStoppedProcessCanBeStopped(t *testing.T) {
	t.Parallel()
	p, err := startProcess(t.Context(), script(t, `echo "refserver: listening on x:1"; exec sleep 60`), nil, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.stop()
	if !p.died() {
		t.Error("still there after stop")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var tl tail
	for range lastWords {
		if n, err := tl.Write([]byte("ab")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = tl.Write([]byte("end"))
	if s := tl.String(); len(s) != lastWords || !strings.HasSuffix(s, "abend") {
		t.Errorf("kept %d bytes that end with %q", len(s), s[max(len(s)-10, 0):])
	}
}
