package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The end-to-end tests run this test binary as refserver: it is the same code, and nothing has to be built first.
func TestMain(m *testing.M) {
	if os.Getenv("REFSERVER_TEST_MAIN") == "1" {
		main()
	}
	os.Exit(m.Run())
}

func TestUsage(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, tc := range []struct {
		args string
		code int
		want string // in what goes to standard error
	}{
		{"", 2, "which kind of server"},
		{"memcachedd", 2, `unknown kind of server "memcachedd"; there is: memcached`},
		{"memcached --no-such", 2, "unknown flag: --no-such"},
		{"memcached extra", 2, "unknown command"},
		{"memcached --control none-such", 2, `unknown controller "none-such"`},
		{"memcached --control codel --control-set target", 2, "want key=value"},
		{"memcached --control codel --control-set tarket=1ms", 2, "tarket"},
		{"memcached --control codel --control-set target=5", 2, "target"},
		{"memcached --slo 5", 2, "has no unit"},
		{"memcached --deadline -1ms", 2, "must not be negative"},
		{"memcached -m 64X", 2, "memory: size"},
		{"memcached -I 40m", 2, "at most half of the memory"},
		{"memcached -I 100B", 2, "from 1 KiB to 1 GiB"},
		{"memcached -m -5", 2, "out of range"},
		{"memcached --reply some", 2, "full or header"},
		{"memcached --slots -2", 2, "at least -1"},
		{"memcached --queue -1", 2, "must not be negative"},
		{"memcached -c 0", 2, "at least 1"},
		{"memcached -p 70000", 2, "from 0 to 65535"},
		{"memcached --listen nonsense", 2, "write host:port"},
		{"memcached --listen 127.0.0.1:0 -p 5", 2, "not both"},
		{"memcached --listen " + busy.Addr().String(), 1, "address already in use; stop what uses it, or choose another port"},
		{"memcached --listen 127.0.0.1:0 --metrics " + busy.Addr().String(), 1, "metrics page: listen"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(tc.args), &stdout, &stderr)
		if code != tc.code || !strings.Contains(stderr.String(), tc.want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, want %d; stderr %q, want something about %q; stdout %q", tc.args, code, tc.code, stderr.String(), tc.want, stdout.String())
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--help":           "memcached",
		"memcached --help": "--control-set",
		"version":          "refserver ",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout.String(), stderr.String())
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"64": 64 << 20, "1m": 1 << 20, "512K": 512 << 10, "2g": 2 << 30, "1000B": 1000, "64MiB": 64 << 20, "1GB": 1e9, "3kB": 3000, "0": 0,
	} {
		if got, err := parseSize(text, 1<<20); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "1.5", "x", "9999999999999999999", "99999999999999g", "-1", "-1MiB"} {
		if got, err := parseSize(text, 1<<20); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

// launch starts refserver memcached as a process of its own and returns where it listens.
func launch(t *testing.T, args ...string) (cmd *exec.Cmd, addrs []string, stderr *bufio.Reader) {
	t.Helper()
	listeners := max(strings.Count(strings.Join(args, " "), "--listen"), 1)
	cmd = exec.Command(os.Args[0], append([]string{"memcached"}, args...)...)
	cmd.Env = append(os.Environ(), "REFSERVER_TEST_MAIN=1")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr = bufio.NewReader(errs)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for range listeners {
		if !lines.Scan() {
			said, _ := io.ReadAll(stderr)
			t.Fatalf("no line; stderr %q", said)
		}
		addr, ok := strings.CutPrefix(lines.Text(), "refserver: listening on ")
		if !ok {
			t.Fatalf("it said %q", lines.Text())
		}
		addrs = append(addrs, addr)
	}
	return cmd, addrs, stderr
}

func talk(t *testing.T, addr, text, want string) {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		network, addr = "unix", path
	}
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

func TestServesUntilSignalled(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		path := filepath.Join(t.TempDir(), "s")
		cmd, addrs, stderr := launch(t, "--listen", "127.0.0.1:0", "--listen", "unix://"+path, "-m", "8", "-t", "2", "--control", "codel",
			"--control-set", "target=5ms", "--slo", "50ms", "--reply", "header")
		for _, addr := range addrs {
			talk(t, addr, "set a 0 0 3\r\nxyz\r\nmg a s v\r\n", "STORED\r\nHD s3\r\n")
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(stderr)
		if err := cmd.Wait(); err != nil || len(said) > 0 {
			t.Errorf("%v: %v, stderr %q", sig, err, said)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the socket file is still there: %v", err)
		}
	}
}

func TestMetricsPage(t *testing.T) {
	t.Parallel()
	cmd, addrs, stderr := launch(t, "-p", "0", "--metrics", "127.0.0.1:0")
	talk(t, addrs[0], "get a\r\n", "END\r\n")
	line, err := stderr.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "refserver: metrics on ")
	if err != nil || !ok {
		t.Fatalf("stderr %q: %v", line, err)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(page), "spillway_arrivals_total 1\n") {
		t.Errorf("%v: no arrivals on the page", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
