//go:build linux

// Package servertest is what the tests of servers have in common: a server around a backend, and a connection to it that holds replies against what is
// wanted.
package servertest

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/control"
	"spillway/servers"
)

// Serve serves backend on a free port, with two loops unless change has others, until the test ends or stop is called, which returns what Serve returned. A
// stack without a controller has none.
func Serve(t testing.TB, backend servers.Backend, stack control.Stack, change func(*servers.Config)) (addr string, stop func() error) {
	t.Helper()
	config := servers.Default()
	config.Listen, config.Loops = []string{"127.0.0.1:0"}, 2
	if change != nil {
		change(&config)
	}
	if stack.Controller == nil {
		stack.Controller = control.None{}
	}
	s, err := servers.New(backend, stack, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	end := sync.OnceValue(func() error { cancel(); return <-ended })
	stopped := false
	t.Cleanup(func() {
		if err := end(); err != nil && !stopped { // otherwise the test has seen it
			t.Error(err)
		}
	})
	return s.Addrs()[0], func() error { stopped = true; return end() }
}

// Client is a connection of a test. What does not come as wanted fails the test.
type Client struct {
	net.Conn
	In *bufio.Reader // of what comes
	t  testing.TB
}

const (
	patience = 60 * time.Second // with which a lost reply fails the test
	awaiting = 20 * time.Second
)

// Dial connects until the end of the test.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &Client{Conn: conn, t: t, In: bufio.NewReaderSize(conn, 64<<10)}
}

// Send sends text.
func (c *Client) Send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// Do sends text and reads exactly want.
func (c *Client) Do(text, want string) {
	c.t.Helper()
	c.Send(text)
	c.Want(text, want)
}

// Want reads exactly want, the replies to text.
func (c *Client) Want(text, want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.In, got); err != nil || string(got) != want {
		at := 0
		for at < n && got[at] == want[at] {
			at++
		}
		at = max(at-30, 0)
		c.t.Fatalf("%.200q: from byte %d got %.300q (%v), want %.300q", text, at, got[at:n], err, want[at:])
	}
}

// Line reads a line, without its end.
func (c *Client) Line() string {
	c.t.Helper()
	line, err := c.In.ReadString('\n')
	if err != nil {
		c.t.Fatalf("got %.100q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// Abort closes the connection such that the server notices at once: after an ordinary close it still writes its replies.
func (c *Client) Abort() {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = c.Close()
}

// Closed waits for the server to close the connection without another word.
func (c *Client) Closed() {
	c.t.Helper()
	if got, err := io.ReadAll(c.In); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Fatalf("got %q, %v", got, err)
	}
}

// Stats asks for `stats NAME`, or `stats`.
func (c *Client) Stats(name string) map[string]string {
	c.t.Helper()
	c.Send(strings.TrimSpace("stats "+name) + "\r\n")
	stats := map[string]string{}
	for {
		line := c.Line()
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

// Await asks for a figure until it is as wanted.
func (c *Client) Await(name, figure string, want int) {
	c.t.Helper()
	for deadline := time.Now().Add(awaiting); ; {
		got := c.Stats(name)[figure]
		if n, err := strconv.Atoi(got); err == nil && n == want {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s is %q, want %d", figure, got, want)
		}
	}
}
