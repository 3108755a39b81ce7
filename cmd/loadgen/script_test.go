package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
}

// built is the folder that build made, for TestMain to remove.
var built string

// build builds both commands once for all tests and returns the folder they are in.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spillway")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("go", "build", "-o", dir, "spillway/cmd/loadgen", "spillway/cmd/refserver").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return dir, nil
})

// binaries is where the commands were built; tests put it into PATH.
func binaries(t testing.TB) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestScripts(t *testing.T) {
	t.Parallel()
	scripts(t, "testdata/script")
}

// TestScriptsAlone has the scripts that keep every core busy: beside others, those would not be valid. A test that is not parallel runs before all
// that are.
func TestScriptsAlone(t *testing.T) { scripts(t, "testdata/alone") }

func scripts(t *testing.T, of string) {
	t.Helper()
	dir := binaries(t)
	testscript.Run(t, testscript.Params{
		Dir: of,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("TERM", "dumb")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"measured": measured,
			"at":       at,
			"server":   startServer,
			"rows":     rows,
		},
	})
}

// exits runs a command and checks its exit code: exits 2 loadgen run nothing
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// noisyTries is how often a measurement is tried whose points come out not valid. That they do on a machine which is busy with other
// things is what they should; a test of something else must not fail for it.
const noisyTries = 4

// measured runs a command that measures on this machine and wants it to end with 0. When its points are not valid (exit code 3) it
// removes what --out named and tries again.
func measured(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: measured COMMAND [ARG...]")
	}
	for try := 1; ; try++ {
		code := exitCode(ts, ts.Exec(args[0], args[1:]...))
		if code == 0 {
			return
		}
		if code != 3 || try == noisyTries {
			ts.Fatalf("exit code %d at try %d", code, try)
		}
		ts.Logf("not valid at try %d: this machine is busy", try)
		if i := slices.Index(args, "--out"); i >= 0 {
			ts.Check(os.RemoveAll(ts.MkAbs(args[i+1])))
		}
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	var ee *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ee):
		return ee.ExitCode()
	default:
		ts.Fatalf("%v", err)
		return -1
	}
}

// at runs a command, sends it SIGINT when a line of its standard error matches, and checks its exit code. Both its outputs go to the file
// named by OUT.
//
//	at REGEXP CODE OUT COMMAND [ARG...]
func at(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: at REGEXP CODE OUT COMMAND [ARG...]")
	}
	pattern := regexp.MustCompile(args[0])
	cmd := exec.Command(inPath(ts, args[3]), args[4:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TERM=dumb"}
	var out strings.Builder
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	seen, sent := "", false
	for in := bufio.NewScanner(stderr); in.Scan(); {
		seen += in.Text() + "\n"
		if !sent && pattern.MatchString(in.Text()) {
			sent = true
			ts.Check(cmd.Process.Signal(syscall.SIGINT))
		}
	}
	code := exitCode(ts, cmd.Wait())
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(out.String()+seen), 0o666))
	if !sent {
		ts.Fatalf("no line matched %q:\n%s", args[0], seen)
	}
	if strconv.Itoa(code) != args[1] {
		ts.Fatalf("exit code %d, want %s:\n%s%s", code, args[1], out.String(), seen)
	}
}

// inPath looks a command up in the script's PATH, which is not that of this process.
func inPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	ts.Fatalf("%s is not in PATH", name)
	return ""
}

// rows counts the rows of a points.csv that match: rows FILE REGEXP COUNT
func rows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: rows FILE REGEXP COUNT")
	}
	pattern := regexp.MustCompile(args[1])
	n := 0
	text := ts.ReadFile(args[0])
	for _, line := range strings.Split(text, "\n")[1:] {
		if pattern.MatchString(line) {
			n++
		}
	}
	if strconv.Itoa(n) != args[2] {
		ts.Fatalf("%d rows match %q, want %s:\n%s", n, args[1], args[2], text)
	}
}

// startServer starts a server that is stopped when the script ends, and puts its address into a variable: server KIND VARIABLE
//
// The kinds are refserver, memcached (Debian's, over a socket file), http (no memcached) and mute (a memcached that takes reads and
// never answers one).
func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 2 && args[0] != "refserver" {
		ts.Fatalf("usage: server KIND VARIABLE, or server refserver VARIABLE FLAG...")
	}
	var url string
	var err error
	switch args[0] {
	case "refserver":
		var p *exec.Cmd
		if p, url, err = launchRefserver(args[2:]...); err == nil {
			ts.Defer(func() { stopServer(p) })
		}
	case "memcached":
		socket := ts.MkAbs("mc.sock")
		cmd := exec.Command("memcached", "-s", socket, "-U", "0", "-u", "root")
		if err = cmd.Start(); err == nil {
			ts.Defer(func() { stopServer(cmd) })
			url, err = "memcached://"+socket, awaitSocket(socket)
		}
	case "http", "mute":
		var stop func()
		if url, stop, err = fakeServer(args[0] == "mute"); err == nil {
			ts.Defer(stop)
		}
	default:
		ts.Fatalf("no server of kind %s", args[0])
	}
	ts.Check(err)
	ts.Setenv(args[1], url)
}

// launchRefserver starts a refserver on a free port.
func launchRefserver(args ...string) (*exec.Cmd, string, error) {
	dir, err := build()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(filepath.Join(dir, "refserver"), append([]string{"memcached", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "refserver: listening on ")
	if !found {
		stopServer(cmd)
		return nil, "", fmt.Errorf("refserver said %q (%w)", line, err)
	}
	return cmd, "memcached://" + strings.TrimPrefix(addr, "tcp://"), nil
}

func stopServer(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_, _ = cmd.Process.Wait()
}
