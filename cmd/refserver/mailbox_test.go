package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startMailbox starts refserver mailbox under a limit of 100 MB. It skips the test where there is no such limit.
func startMailbox(t *testing.T, by string, flags ...string) (cmd *exec.Cmd, addr string, stderr *bytes.Buffer) {
	t.Helper()
	args := append([]string{"mailbox", "--listen", "127.0.0.1:0", "--threads", "1", "--limit", "100MB", "--limit-by", by}, flags...)
	cmd, stderr = exec.Command(os.Args[0], args...), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), "REFSERVER_TEST_MAIN=1")
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "refserver: listening on tcp://")
	if !ok {
		addr, ok = strings.CutPrefix(strings.TrimSpace(line), "refserver: listening on ")
	}
	if !ok {
		_ = cmd.Wait()
		if strings.Contains(stderr.String(), "limit of 100MB: ") {
			t.Skipf("no such limit here: %s", stderr)
		}
		t.Fatalf("it said %q, %s", line, stderr)
	}
	return cmd, addr, stderr
}

// ask sends so many requests for 2 MB each, held for half a second, and returns how many were answered before the connection ended.
func ask(t *testing.T, addr string, requests int) (answered int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Repeat("get !2000000:500ms\r\n", requests)); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(conn); answered < requests && in.Scan(); {
		if in.Text() == "END" {
			answered++
		}
	}
	return answered
}

// TestOverCommitment is the experiment of the staging queue with real memory, small enough for any computer: a server that may take 100 MB is
// asked for 120 MB at once. Without control it dies, and only it; with the staging queue it serves all of it.
func TestOverCommitment(t *testing.T) {
	t.Parallel()
	const requests = 60
	for _, by := range []string{"cgroup", "rlimit"} {
		t.Run(by+"/none", func(t *testing.T) {
			t.Parallel()
			cmd, addr, stderr := startMailbox(t, by)
			answered := ask(t, addr, requests)
			err := cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || answered == requests {
				t.Errorf("%d answered, then %v; want that it was killed: %s", answered, err, stderr)
			}
			if by == "rlimit" && !strings.Contains(stderr.String(), "out of memory: 2000000 bytes") {
				t.Errorf("stderr %q does not say why", stderr)
			}
		})
		t.Run(by+"/staging", func(t *testing.T) {
			t.Parallel()
			cmd, addr, stderr := startMailbox(t, by, "--level", "memory", "--control", "staging", "--control-set", "burst=2")
			// What is started between two looks comes on top of the level at which it stops: two looks of 4 MB, since the level may be
			// one look old, must fit between that and the limit.
			if answered := ask(t, addr, requests); answered != requests {
				t.Errorf("%d answered: %s", answered, stderr)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, stderr)
			}
		})
	}
}

func TestMailboxUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"mailbox --control staging":                 "there is nothing to watch; add --level",
		"mailbox --level memory":                    "add --limit",
		"mailbox --level rss":                       "it needs a limit, such as 200MB",
		"mailbox --level rss=0B":                    "must be above 0",
		"mailbox --level psi=2":                     "is not a share",
		"mailbox --level files=none":                "is not a number of files",
		"mailbox --level rss=1GB,rss=2GB":           "level rss: stands there twice",
		"memcached --level held=1GB":                "--level held: unknown; there are address, cgroup, cpu, files, heap, psi, rss",
		"synthetic --machine xl170 --level rss=1GB": "--level is for a real machine",
		"mailbox --size 5":                          "size: distribution",
		"mailbox --largest 0B":                      "largest mailbox has 0 bytes",
		"mailbox --rate 0B":                         "rate at which mailboxes are fetched is 0",
		"mailbox --limit 5":                         "limit: size",
		"mailbox --limit 5MB --limit-by nothing":    "must be any, cgroup or rlimit",
		"mailbox --put-back 0.5":                    "a share of --limit, which is missing",
		"mailbox --rival 5MB":                       "write BYTES@AFTER+FOR",
		"mailbox --rival 5MB@1+2s":                  "has no unit",
		"mailbox --machine xl170 --limit 5MB":       "--limit is for a real machine",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, stderr %q, want something about %q", args, code, stderr.String(), want)
		}
	}
}
