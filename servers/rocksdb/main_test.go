//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/control"
	"spillway/internal/memproto"
	"spillway/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(benchEnv) != "" {
		if err := benchServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// testConfig is that of a small store in a folder of the test.
func testConfig(t testing.TB) Config {
	t.Helper()
	c := Default()
	c.Dir, c.Create, c.Workers = t.TempDir(), true, 2
	c.BlockCache, c.WriteBuffer = 8<<20, 4<<20
	return c
}

func openBackend(t testing.TB, c Config) *Backend {
	t.Helper()
	b, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve answers on the store of c until stop is called, or the test ends. What has been pinned must then have been given back, each once: a
// second time would have panicked.
func serve(t testing.TB, c Config, stack control.Stack, change func(*servers.Config)) (b *Backend, addr string, stop func()) {
	t.Helper()
	b = openBackend(t, c)
	front := servers.Default()
	front.Listen, front.Loops, front.Slots, front.MaxItem, front.Grace = []string{"127.0.0.1:0"}, 2, 4, c.ItemLimit(), 2*time.Second
	if change != nil {
		change(&front)
	}
	if stack.Controller == nil {
		stack.Controller = control.None{}
	}
	s, err := servers.New(b, stack, front)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if ever, now := b.pinned(); now != 0 {
			t.Errorf("%d of %d values are still pinned", now, ever)
		}
		if taken, freed := b.pins.counts(); taken != freed {
			t.Errorf("replies had %d values and gave %d back", taken, freed)
		}
	}
	t.Cleanup(stop)
	return b, s.Addrs()[0], stop
}

// client is a connection of a test.
type client struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil { // so that a lost reply fails the test
		t.Fatal(err)
	}
	return &client{Conn: conn, t: t, in: bufio.NewReaderSize(conn, 64<<10)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// do sends text and reads exactly want.
func (c *client) do(text, want string) {
	c.t.Helper()
	c.send(text)
	c.want(text, want)
}

func (c *client) want(text, want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.in, got); err != nil || string(got) != want {
		at := 0
		for at < n && got[at] == want[at] {
			at++
		}
		at = max(at-30, 0)
		c.t.Fatalf("%.200q: from byte %d got %.300q (%v), want %.300q", text, at, got[at:n], err, want[at:])
	}
}

// line reads a line, without its end.
func (c *client) line() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatalf("got %.100q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// abort closes the connection such that the server notices at once.
func (c *client) abort() {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = c.Close()
}

func (c *client) stats(name string) map[string]string {
	c.t.Helper()
	c.send(strings.TrimSpace("stats "+name) + "\r\n")
	stats := map[string]string{}
	for {
		line := c.line()
		if line == "END" {
			return stats
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) != 3 {
			c.t.Fatalf("%q", line)
		}
		stats[words[1]] = words[2]
	}
}

// await asks for a figure until it is as wanted.
func (c *client) await(name, figure string, want int) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		got := c.stats(name)[figure]
		if n, err := strconv.Atoi(got); err == nil && n == want {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s is %q, want %d", figure, got, want)
		}
	}
}

// set stores a value.
func (c *client) set(key, value string) {
	c.t.Helper()
	c.do(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value), "STORED\r\n")
}

// value returns the text of a get's reply with one value.
func valueReply(key, value string) string {
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(value), value)
}

// direct executes commands without a server.
type direct struct {
	*Backend
	t testing.TB
	p memproto.Parser
	w memproto.Writer
}

func newDirect(t testing.TB, c Config) *direct {
	t.Helper()
	b := openBackend(t, c)
	t.Cleanup(func() {
		if ever, now := b.pinned(); now != 0 {
			t.Errorf("%d of %d values are still pinned", now, ever)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &direct{Backend: b, t: t, p: memproto.Parser{MaxItem: c.ItemLimit()}}
}

// do executes the commands in text and returns the replies.
func (d *direct) do(text string) string {
	d.t.Helper()
	var out strings.Builder
	for buf := []byte(text); len(buf) > 0; {
		var c memproto.Command
		n, s := d.p.Parse(buf, &c)
		if s != memproto.Ready {
			d.t.Fatalf("%.60q: status %v %s", buf, s, c.Error)
		}
		buf = buf[n:]
		if err := d.Do(&c, &d.w); err != nil {
			d.w.Fail("SERVER_ERROR " + err.Error())
		}
		d.w.End(&c, memproto.Extras{})
		at := 0
		for _, ref := range d.w.Refs {
			out.Write(d.w.Buf[at:ref.At])
			out.Write(ref.Data)
			at = ref.At
		}
		out.Write(d.w.Buf[at:])
		d.w.Reset()
	}
	return out.String()
}

func (d *direct) want(text, want string) {
	d.t.Helper()
	if got := d.do(text); got != want {
		d.t.Errorf("%.100q: got %.300q, want %.300q", text, got, want)
	}
}
