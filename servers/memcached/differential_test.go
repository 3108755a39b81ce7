//go:build linux

package memcached_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/servers"
	"spillway/servers/memcached"
)

// Our server is held against Debian's memcached 1.6.18: both get the same bytes on a fresh connection each, and must send the same
// back. What is known to differ stands in exceptions_test.go.

const debian = "/usr/bin/memcached"

// startDebian starts memcached on a socket file.
func startDebian(t *testing.T) (path string) {
	t.Helper()
	if _, err := os.Stat(debian); err != nil {
		t.Skipf("not compared with memcached: %v (apt-get install memcached)", err)
	}
	path = filepath.Join(t.TempDir(), "s")
	// What our server has not, memcached can be without.
	args := []string{"-s", path, "-m", "64", "-t", "1", "-W", "-X", "-o", "no_lru_crawler,no_lru_maintainer,no_slab_reassign"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root")
	}
	cmd := exec.Command(debian, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			return path
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// startOurs starts our server and returns where it listens.
func startOurs(t testing.TB, c memcached.Config, addr string) string {
	t.Helper()
	backend, err := memcached.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return serveOurs(t, backend, c, addr)
}

// serveOurs serves a backend, which it owns, until the test ends.
func serveOurs(t testing.TB, backend *memcached.Backend, c memcached.Config, addr string) string {
	t.Helper()
	return serveUnder(t, backend, control.Stack{Controller: control.None{}}, c, addr)
}

// under returns a controller that hands out credits, which has no reason to shed anything here.
func under(t testing.TB, name string) control.Stack {
	t.Helper()
	stack, err := catalog.New(name, nil, catalog.Env{Cores: 2, SLO: time.Minute, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return stack
}

// startUnder starts our server under a controller of that name.
func startUnder(t testing.TB, name, addr string) string {
	t.Helper()
	c := memcached.DefaultConfig()
	backend, err := memcached.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return serveUnder(t, backend, under(t, name), c, addr)
}

func serveUnder(t testing.TB, backend *memcached.Backend, stack control.Stack, c memcached.Config, addr string) string {
	t.Helper()
	config := servers.Default()
	config.Listen, config.Loops, config.MaxItem = []string{addr}, 2, c.MaxItem
	s, err := servers.New(backend, stack, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Addrs()[0]
}

// ask sends text on a connection of its own and returns all that comes back.
func ask(t *testing.T, path string, text []byte) []byte {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(text) // the server may close before it has taken all
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	<-sent
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("%.60q: %v", text, err)
	}
	return got
}

var (
	casNumber = regexp.MustCompile(`( c)\d+`)
	valueCAS  = regexp.MustCompile(`(?m)^(VALUE \S+ \d+ \d+) \d+`)
	seconds   = regexp.MustCompile(`( [tl])\d+`)
	timings   = regexp.MustCompile(` L\d+,\d+`)
	debugLine = regexp.MustCompile(`(?m)^(ME .* exp=-?)\d+( la=)\d+( cas=)\d+( fetch=\w+ cls=)\d+`)
)

func normal(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("-spillway"), nil)
	b = casNumber.ReplaceAll(b, []byte("${1}N"))
	b = valueCAS.ReplaceAll(b, []byte("$1 N"))
	b = seconds.ReplaceAll(b, []byte("${1}N"))
	b = debugLine.ReplaceAll(b, []byte("${1}N${2}N${3}N${4}N"))
	return timings.ReplaceAll(b, nil)
}

// pair starts memcached and our server, each on a socket file.
func pair(t *testing.T) (theirs, ours string) {
	t.Helper()
	theirs = startDebian(t)
	return theirs, strings.TrimPrefix(startOurs(t, memcached.DefaultConfig(), "unix://"+filepath.Join(t.TempDir(), "s")), "unix://")
}

func TestEdgesLikeMemcached(t *testing.T) {
	t.Parallel()
	theirs, ours := pair(t)
	for _, text := range edges() {
		compare(t, theirs, ours, []byte(text))
	}
}

// TestEdgesUnderControl: a server that hands out credits says so to whoever asks, and is the same in everything else.
func TestEdgesUnderControl(t *testing.T) {
	t.Parallel()
	credits := regexp.MustCompile(`( P)\d+`)
	theirs := startDebian(t)
	for _, name := range []string{"protego", "svalinn"} {
		ours := strings.TrimPrefix(startUnder(t, name, "unix://"+filepath.Join(t.TempDir(), "s")), "unix://")
		ask(t, theirs, []byte("flush_all\r\n"))
		handedOut := 0
		for _, text := range edges() {
			want, got := normal(ask(t, theirs, []byte(text))), normal(ask(t, ours, []byte(text)))
			handedOut += len(credits.FindAll(got, -1))
			if got = credits.ReplaceAll(got, nil); !bytes.Equal(want, got) {
				t.Errorf("%s: %.1000q\nmemcached: %.600q\nours:      %.600q", name, text, want, got)
			}
		}
		if handedOut == 0 {
			t.Errorf("%s has told nobody of credits", name)
		}
	}
}

// TestSequencesLikeMemcached sends seeded sequences of valid, odd and hostile commands. State carries over from one to the next, on both
// sides.
func TestSequencesLikeMemcached(t *testing.T) {
	t.Parallel()
	theirs, ours := pair(t)
	rounds := 3000
	if testing.Short() || memcached.RaceEnabled {
		rounds = 600
	}
	for seed := range rounds {
		g := generator{rng: rand.New(rand.NewPCG(uint64(seed), 7)), large: seed%2 == 0}
		var b bytes.Buffer
		b.WriteString("mn\r\n") // so that a first byte from the garbage does not choose the binary protocol
		for range 1 + g.rng.IntN(20) {
			b.WriteString(g.command())
		}
		b.WriteString("\r\n\r\nmn\r\n") // completes a block that was announced too long: memcached closes in silence within one
		if !compare(t, theirs, ours, b.Bytes()) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func compare(t *testing.T, theirs, ours string, text []byte) bool {
	t.Helper()
	want, got := normal(ask(t, theirs, text)), normal(ask(t, ours, text))
	if bytes.Equal(want, got) {
		return true
	}
	t.Errorf("%.1000q\nmemcached: %.600q\nours:      %.600q", text, want, got)
	return false
}
