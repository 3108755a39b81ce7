//go:build linux

package memcached_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"spillway/internal/memproto"
	"spillway/servers/memcached"
)

// hostile is what a client sends that means no good, or does not know what it does.
func hostile(g *generator) string {
	switch g.rng.IntN(12) {
	case 0:
		return g.garbage() + "\n"
	case 1:
		return "set k 0 0 " + fmt.Sprint(g.rng.IntN(1<<21)) + "\r\n" + g.garbage() // announces more than it sends
	case 2:
		return "ms k " + fmt.Sprint(g.rng.IntN(1<<20)) + " " + g.garbage() + "\r\n" + g.garbage()
	case 3:
		return strings.Repeat(g.pick("get ", "x", " ", "mg ", "\x00"), g.rng.IntN(1200)) // endless lines
	case 4:
		return "get" + strings.Repeat(" k", g.rng.IntN(2000)) + "\r\n"
	case 5:
		return "\x80" + g.garbage()
	case 6:
		return "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	case 7:
		return "set " + strings.Repeat("k", 200+g.rng.IntN(100)) + " 0 0 5\r\nhello\r\n"
	case 8:
		return "mg " + g.garbage() + " " + g.flags("v", "b", "k", "T-1", "N-1", "R0", "O"+strings.Repeat("x", 40)) + "\r\n"
	case 9:
		return "set k 0 0 3\r\nabcdef\r\n\r\n\r\n"
	}
	return g.command()
}

// settled returns the memory that the process has after a collection, and how many descriptors are open.
func settled(t *testing.T) (heap int64, files int) {
	t.Helper()
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return int64(m.HeapAlloc), len(open)
}

// TestHostileConnections: connections that send garbage, or stop in the middle, or read nothing, leave nothing behind.
func TestHostileConnections(t *testing.T) {
	backend, path := startBackend(t)
	rounds := 4000
	if testing.Short() || memcached.RaceEnabled {
		rounds = 800
	}
	attack := func(from, to int) {
		for seed := from; seed < to; seed++ {
			g := generator{rng: rand.New(rand.NewPCG(uint64(seed), 3)), large: seed%2 == 0}
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			for range 1 + g.rng.IntN(8) {
				if _, err := io.WriteString(conn, hostile(&g)); err != nil {
					break // it has been thrown out
				}
			}
			switch g.rng.IntN(3) {
			case 0: // closes without reading anything
			case 1:
				_ = conn.(*net.UnixConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			case 2: // reads a little, if there is anything
				_ = conn.SetDeadline(time.Now().Add(time.Millisecond))
				_, _ = io.ReadFull(conn, make([]byte, 10))
			}
			_ = conn.Close()
		}
	}
	watch, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	in := bufio.NewReader(watch)
	alone := func() { // waits until the server has got rid of all others
		for open := 0; open != 1; {
			if _, err := io.WriteString(watch, "stats\r\n"); err != nil {
				t.Fatal(err)
			}
			for line := ""; line != "END\r\n"; {
				if line, err = in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				_, _ = fmt.Sscanf(line, "STAT curr_connections %d", &open)
			}
		}
	}
	attack(0, rounds/4) // everything grows to the size that it needs
	alone()
	heap, files := settled(t)
	attack(rounds/4, rounds)
	alone()
	heapNow, filesNow := settled(t)
	if heapNow > heap+4<<20 || filesNow > files {
		t.Errorf("%d bytes and %d files before, %d and %d after %d hostile connections", heap, files, heapNow, filesNow, rounds)
	}
	if n := backend.Pinned(); n != 0 {
		t.Errorf("%d items are still pinned", n)
	}
}

// startBackend is startOurs for a test that looks into the store.
func startBackend(t *testing.T) (*memcached.Backend, string) {
	t.Helper()
	backend, err := memcached.New(memcached.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	serveOurs(t, backend, memcached.DefaultConfig(), "unix://"+path)
	return backend, path
}

// TestAMillionHostileSequences takes what a million hostile connections would send to parser and store, without the sockets.
func TestAMillionHostileSequences(t *testing.T) {
	backend, err := memcached.New(memcached.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	}()
	rounds := 1_000_000
	if testing.Short() || memcached.RaceEnabled {
		rounds = 50_000
	}
	// Sequences are made up before, since that is what would take the time; each round cuts another piece out of one.
	var texts [][]byte
	for seed := range 2000 {
		g := generator{rng: rand.New(rand.NewPCG(uint64(seed), 4))}
		var b strings.Builder
		for range 1 + g.rng.IntN(6) {
			b.WriteString(hostile(&g))
		}
		texts = append(texts, []byte(b.String()))
	}
	rng := rand.New(rand.NewPCG(5, 5))
	var w memproto.Writer
	attack := func(n int) {
		for range n {
			text := texts[rng.IntN(len(texts))]
			from := rng.IntN(len(text))
			devour(t, backend, &w, text[from:from+rng.IntN(len(text)-from+1)])
		}
	}
	attack(rounds / 10)
	heap, _ := settled(t)
	attack(rounds)
	if now, _ := settled(t); now > heap+1<<20 {
		t.Errorf("%d bytes before, %d after", heap, now)
	}
	if n := backend.Pinned(); n != 0 {
		t.Errorf("%d items are still pinned", n)
	}
}

// devour does with text what a server does with what a connection sends, and forgets the replies.
func devour(t *testing.T, backend *memcached.Backend, w *memproto.Writer, text []byte) {
	p := memproto.Parser{MaxItem: 1 << 20}
	var c memproto.Command
	for len(text) > 0 {
		n, s := p.Parse(text, &c)
		text = text[n:]
		if s == memproto.NeedMore || s == memproto.Block || s == memproto.Close {
			break
		}
		if s == memproto.Ready && !c.Verb.Admin() {
			if err := backend.Do(&c, w); err != nil {
				t.Fatal(err)
			}
			w.End(&c, memproto.Extras{})
		}
	}
	w.Reset()
}

// FuzzCommands: whatever is sent, nothing breaks and nothing stays pinned.
func FuzzCommands(f *testing.F) {
	for _, text := range edges() {
		if len(text) < 500 {
			f.Add([]byte(text))
		}
	}
	backend, err := memcached.New(memcached.DefaultConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = backend.Close() })
	var w memproto.Writer
	f.Fuzz(func(t *testing.T, text []byte) {
		devour(t, backend, &w, text)
		if n := backend.Pinned(); n != 0 {
			t.Errorf("%d items are still pinned", n)
		}
	})
}
