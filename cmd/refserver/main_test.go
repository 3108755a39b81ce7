package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
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
		{"memcachedd", 2, `unknown kind of server "memcachedd"; did you mean "memcached"?`},
		{"zzzzzzzz", 2, `unknown kind of server "zzzzzzzz"; there are: memcached, rocksdb, dataframe, synthetic,`},
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
		{"memcached --large 5x", 2, "large: size"},
		{"memcached --large 1000", 2, "do not reach memory"},
		{"memcached --machine xl170 --lock-queues", 2, "--lock-queues is for a real machine"},
		{"memcached --slots -2", 2, "at least -1"},
		{"memcached --queue -1", 2, "must not be negative"},
		{"memcached -c 0", 2, "at least 1"},
		{"memcached -p 70000", 2, "from 0 to 65535"},
		{"memcached --time-scale 10", 2, "--time-scale is for a modelled machine: add --machine"},
		{"memcached --costs memcached", 2, "--costs is for a modelled machine"},
		{"memcached --machine none-such", 2, "none-such"},
		{"memcached --machine xl170 --costs none-such", 2, "none-such"},
		{"memcached --machine xl170 --time-scale 0", 2, "time scale 0: must be from 1 to 1000000"},
		{"memcached --machine xl170 -t 2", 2, "--threads is for a real machine"},
		{"synthetic extra", 2, "unknown command"},
		{"synthetic --sensor crystal-ball", 2, "it is auto, accounted, or one of intel-imc"},
		{"synthetic --sensor self-probe", 2, "it tells how contended memory is and not how many bytes move"},
		{"synthetic --sensor accounted --sensor-period 1us", 2, "the shortest is 5µs"},
		{"graph --sensor accounted --vertices 100", 2, "does not account for the bytes"},
		{"synthetic --trace-period 10us", 2, "the shortest is 1ms"},
		{"synthetic --machine xl170 --trace-period 10ms", 2, "of a modelled one the bus is read"},
		{"synthetic --control none-such", 2, `unknown controller "none-such"`},
		{"synthetic --slots -2", 2, "at least -1"},
		{"synthetic --listen nonsense", 2, "write host:port"},
		{"synthetic --memory 1x", 2, "memory: size"},
		{"synthetic --stream-buffer 1x", 2, "stream buffer: size"},
		{"synthetic --machine xl170 --memory 1GiB", 2, "--memory and --stream-buffer are for a real machine"},
		{"synthetic --time-scale 10", 2, "--time-scale is for a modelled machine"},
		{"memcached --listen nonsense", 2, "write host:port"},
		{"memcached --listen 127.0.0.1:0 -p 5", 2, "not both"},
		{"memcached --listen 127.0.0.1:0 -s /tmp/x", 2, "not both"},
		{"memcached -U 11211", 2, "UDP is not spoken here"},
		{"memcached -d", 2, "stays in the foreground"},
		{"memcached -R 0", 2, "at least 1"},
		{"memcached -a 999 -p 0", 2, "octal"},
		{"memcached -a 1777 -p 0", 2, "octal"},
		{"memcached -l 127.0.0.1,,::1 -p 0", 2, "empty"},
		{"memcached -u no-such-user -p 0", 2, "no user"},
		{"memcached -m 512KiB -I 1k", 2, "at least 1 MiB"},
		{"memcached -m 4096 -I 2g", 2, "from 1 KiB to 1 GiB"},
		{"memcached -c 100000000 -p 0", 1, "open files"},
		{"memcached -n 48", 2, "unknown shorthand flag"},
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
		"memcached -h":     "--disable-evictions",
		"memcached -V":     "refserver ",
		"version":          "refserver ",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout.String(), stderr.String())
		}
	}
}

// launch starts refserver as a process of its own and returns where it listens.
func launch(t *testing.T, kind string, args ...string) (cmd *exec.Cmd, addrs []string, stderr *bufio.Reader) {
	t.Helper()
	line := strings.Join(args, " ")
	listeners := strings.Count(line, "--listen")
	if listeners == 0 {
		listeners = max(strings.Count(line, "-s ")+strings.Count(line, "-l ")+strings.Count(line, ","), 1)
	}
	cmd = exec.Command(os.Args[0], append([]string{kind}, args...)...)
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
		cmd, addrs, stderr := launch(t, "memcached", "--listen", "127.0.0.1:0", "--listen", "unix://"+path, "-m", "8", "-t", "2", "--control", "codel",
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
	cmd, addrs, stderr := launch(t, "memcached", "-p", "0", "--metrics", "127.0.0.1:0")
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

// TestFlagsOfMemcached: what people type for memcached does here what it does there.
func TestFlagsOfMemcached(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	cmd, addrs, stderr := launch(t, "memcached", "-s", path, "-a", "0770", "-l", "127.0.0.1,[::1]:0", "-p", "0", "-m", "16", "-I", "2m", "-c", "3", "-t", "1", "-R", "20", "-U", "0", "-M", "-vv")
	for _, addr := range addrs {
		talk(t, addr, "version\r\nquit\r\n", "VERSION 1.6.18-spillway\r\n")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o770 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "stats settings\r\nstats conns\r\n"+strings.Repeat("set a 0 0 1\r\nx\r\n", 100)+"quit\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(got), "STORED") != 100 {
		t.Errorf("%v after %d bytes", err, len(got))
	}
	for _, want := range []string{
		"maxbytes 16777216", "item_size_max 2097152", "maxconns 3", "num_threads 1", "reqs_per_event 20", "evictions off", "umask 770", "verbosity 2", "domain_socket " + path,
		"inter 127.0.0.1,::1", "udpport 0", ":addr unix:" + path, ":state conn_listening", ":listen_addr unix:" + path,
	} {
		if !strings.Contains(string(got), want+"\r\n") {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"new client connection", "stats settings", "set a 0 0 1", "connection closed"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("no %q in what it said", want)
		}
	}
}

func TestRunsAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run as somebody else")
	}
	if _, err := user.Lookup("nobody"); err != nil {
		t.Skip(err)
	}
	cmd, addrs, _ := launch(t, "memcached", "-u", "nobody", "-p", "0")
	talk(t, addrs[0], "version\r\n", "VERSION")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil || regexp.MustCompile(`(?m)^(Uid|Gid):.*\b0\b`).Match(status) {
		t.Errorf("%v: it still has rights of root:\n%s", err, status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
