//go:build linux

package servers_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/control"
	"spillway/servers"
	"spillway/servers/memcached"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server that runs for one test.
type fixture struct {
	*servers.Server
	addr string
	stop func() error // ends it and returns what Serve returned
}

// start serves a memcached backend under c on a free port, until the test ends.
func start(t testing.TB, c control.Controller, change func(*servers.Config, *memcached.Config)) *fixture {
	t.Helper()
	config, store := servers.Default(), memcached.DefaultConfig()
	config.Listen, config.Loops = []string{"127.0.0.1:0"}, 2
	if change != nil {
		change(&config, &store)
	}
	backend, err := memcached.New(store)
	if err != nil {
		t.Fatal(err)
	}
	return serveConfig(t, backend, control.Stack{Controller: c}, config)
}

// serveConfig serves backend under stack as config says, until the test ends.
func serveConfig(t testing.TB, backend servers.Backend, stack control.Stack, config servers.Config) *fixture {
	t.Helper()
	s, err := servers.New(backend, stack, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	f := &fixture{Server: s, addr: s.Addrs()[0]}
	f.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// client is a connection of a test.
type client struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func (f *fixture) dial(t testing.TB) *client {
	t.Helper()
	network, addr := "tcp", f.addr
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		network, addr = "unix", path
	}
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil { // so that a lost reply fails the test
		t.Fatal(err)
	}
	return &client{Conn: conn, t: t, in: bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads exactly want.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.in, got)
	if err != nil || string(got) != want {
		c.t.Fatalf("got %q (%v), want %q", clip(got[:n]), err, clip([]byte(want)))
	}
}

func clip(b []byte) string {
	if len(b) > 300 {
		return string(b[:300]) + "..."
	}
	return string(b)
}

func (c *client) do(text, want string) {
	c.t.Helper()
	c.send(text)
	c.expect(want)
}

// expectEnd reads to the end of the stream, before which there must be nothing but want.
func (c *client) expectEnd(want string) {
	c.t.Helper()
	got, err := io.ReadAll(c.in)
	if err != nil || string(got) != want {
		c.t.Fatalf("got %q (%v), want %q and then the end", clip(got), err, want)
	}
}

// stats returns what a stats command shows.
func (c *client) stats(arg string) map[string]string {
	c.t.Helper()
	c.send("stats " + arg + "\r\n")
	stats := map[string]string{}
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		words := strings.SplitN(strings.TrimRight(line, "\r\n"), " ", 3)
		switch {
		case words[0] == "END":
			return stats
		case words[0] != "STAT" || len(words) != 3:
			c.t.Fatalf("not a line of statistics: %q", line)
		}
		stats[words[1]] = words[2]
	}
}

// number returns one figure of a stats command.
func (c *client) number(arg, name string) int {
	c.t.Helper()
	text := c.stats(arg)[name]
	v, err := strconv.Atoi(text)
	if err != nil {
		c.t.Fatalf("%s is %q", name, text)
	}
	return v
}

// await asks for a figure until it has the value.
func (c *client) await(arg, name string, want int) {
	c.t.Helper()
	for {
		got := c.number(arg, name) // the deadline of the connection ends this
		if got == want {
			return
		}
		runtime.Gosched()
	}
}

func TestPipelinedRepliesInOrder(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, 3} {
		f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.Loops = loops })
		var clients sync.WaitGroup
		for id := range 4 {
			c := f.dial(t)
			clients.Go(func() {
				var send, want strings.Builder
				for i := range 1500 {
					key := fmt.Sprintf("c%d-%d", id, i%7)
					value := strings.Repeat(strconv.Itoa(i), 1+i%40)
					fmt.Fprintf(&send, "set %s %d 0 %d\r\n%s\r\n", key, i, len(value), value)
					fmt.Fprintf(&send, "get %s\r\nmg %s v s O%x\r\nmn\r\nbogus\r\nmd none%d q O1\r\n", key, key, i, i)
					fmt.Fprintf(&want, "STORED\r\nVALUE %s %d %d\r\n%s\r\nEND\r\n", key, i, len(value), value)
					fmt.Fprintf(&want, "VA %d s%d O%x\r\n%s\r\nMN\r\nERROR\r\nNF O1\r\n", len(value), len(value), i, value)
				}
				go func() { _, _ = io.WriteString(c, send.String()) }()
				c.expect(want.String())
			})
		}
		clients.Wait()
	}
}

func TestLargeValues(t *testing.T) {
	t.Parallel()
	size := 128 << 20
	if raceEnabled || testing.Short() {
		size = 8 << 20
	}
	f := start(t, control.None{}, func(c *servers.Config, m *memcached.Config) {
		m.Memory, m.MaxItem = 600<<20, size+1024
		c.MaxItem = m.MaxItem
	})
	c := f.dial(t)
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i * 7 / 3)
	}
	for range 2 { // the second time over the first
		c.send(fmt.Sprintf("set big 7 0 %d\r\n", size))
		if _, err := c.Write(append(value, "\r\n"...)); err != nil {
			t.Fatal(err)
		}
		c.expect("STORED\r\n")
	}
	c.send("get big\r\nget big nothing\r\nmg big v O1\r\nversion\r\n")
	head := fmt.Sprintf("VALUE big 7 %d\r\n", size)
	for _, around := range [][2]string{{head, "\r\nEND\r\n"}, {head, "\r\nEND\r\n"}, {fmt.Sprintf("VA %d O1\r\n", size), "\r\nVERSION"}} {
		c.expect(around[0])
		got := make([]byte, size)
		if _, err := io.ReadFull(c.in, got); err != nil || !bytes.Equal(got, value) {
			t.Fatal("another value came back:", err)
		}
		c.expect(around[1])
	}
}

func TestBlockInManyPieces(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, nil)
	c := f.dial(t)
	value := strings.Repeat("0123456789abcdef", 5000)
	for _, piece := range []int{1, 7, 1000, 65536} {
		text := fmt.Sprintf("set k 0 0 %d\r\n%s\r\nget k\r\n", len(value), value)
		if piece == 1 {
			text = "set k 0 0 3\r\nxyz\r\nset k 0 0 3 noreply\r\nxyzz\r\nms k 3 q\r\nabc\r\nget k\r\n"
		}
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			c.send(rest[:n])
			rest = rest[n:]
		}
		if piece == 1 {
			c.expect("STORED\r\nERROR\r\nVALUE k 0 3\r\nabc\r\nEND\r\n")
			continue
		}
		c.expect(fmt.Sprintf("STORED\r\nVALUE k 0 %d\r\n%s\r\nEND\r\n", len(value), value))
	}
}

func TestHalfClosedClientIsAnswered(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, nil)
	c := f.dial(t)
	c.send("set a 0 0 1\r\nx\r\nget a\r\nset never 0 0 10\r\nhalf")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.expectEnd("STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
}

func TestConnectionsThatAreEnded(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, nil)
	for send, want := range map[string]string{
		"version\r\nquit\r\nversion\r\n":      "VERSION 1.6.18-spillway\r\n",
		"\x80\x0b\x00\x00\x00\x00":            "CLIENT_ERROR the binary protocol is not spoken here, use the text protocol\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":   "",
		strings.Repeat("x", 3000):             "",
		"mn\r\n" + strings.Repeat("y", 3000):  "MN\r\n",
		"get " + strings.Repeat("k ", 600000): "",
	} {
		c := f.dial(t)
		go func() { _, _ = io.WriteString(c, send) }() // the server may close before it has read all
		got, _ := io.ReadAll(c.in)
		if string(got) != want {
			t.Errorf("%.30q: got %q, want %q", send, got, want)
		}
	}
	c := f.dial(t) // a get with many keys is no endless line
	c.do("get "+strings.Repeat("k ", 30000)+"\r\nmn\r\n", "END\r\nMN\r\n")
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.MaxConns = 2 })
	a, b := f.dial(t), f.dial(t)
	a.do("mn\r\n", "MN\r\n")
	b.do("mn\r\n", "MN\r\n")
	f.dial(t).expectEnd("ERROR Too many open connections\r\n")
	if n := a.number("", "rejected_connections"); n != 1 {
		t.Errorf("rejected_connections is %d", n)
	}
	_ = b.Close()
	a.await("", "curr_connections", 1)
	f.dial(t).do("mn\r\n", "MN\r\n") // there is room again
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.IdleTimeout = 300 * time.Millisecond })
	idle := f.dial(t)
	half := f.dial(t) // a value that never comes keeps nothing open
	if _, err := io.WriteString(half, "set k 0 0 100\r\nabc"); err != nil {
		t.Fatal(err)
	}
	idle.do("mn\r\n", "MN\r\n")
	idle.expectEnd("")
	half.expectEnd("")
}

// TestSlowReader: a client that takes no replies is not read any further, costs a bounded amount of memory, and gets all its replies
// once it reads.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) { c.Pipeline, c.OutBytes = 64, 64<<10 })
	c, other := f.dial(t), f.dial(t)
	value := strings.Repeat("v", 100<<10)
	c.do(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", len(value), value), "STORED\r\n")
	before := other.number("", "cmd_get")
	const gets = 3000
	go func() { _, _ = io.WriteString(c, strings.Repeat("get k\r\n", gets)) }()
	other.do("get k\r\n", fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", len(value), value))
	for range 200 {
		if n := other.number("", "cmd_get") - before; n > 1000 {
			t.Fatalf("%d gets were executed for a client that reads nothing", n)
		}
	}
	want := fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", len(value), value)
	for range gets {
		c.expect(want)
	}
}

func TestHeldValuesAreBounded(t *testing.T) {
	t.Parallel()
	hold := &holding{}
	f := start(t, hold, func(c *servers.Config, _ *memcached.Config) { c.HeldBytes = 100 << 10 })
	c, other := f.dial(t), f.dial(t)
	value := strings.Repeat("v", 10<<10)
	const sets = 400
	go func() {
		_, _ = io.WriteString(c, strings.Repeat(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", len(value), value), sets))
	}()
	other.await("spillway", "queued", 10)
	for range 100 {
		if n := other.number("spillway", "queued"); n > 10 {
			t.Fatalf("%d values of 10 KiB are held, the bound is 100 KiB", n)
		}
	}
	hold.release()
	c.expect(strings.Repeat("STORED\r\n", sets))
}
