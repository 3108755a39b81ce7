//go:build linux

package synthetic_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

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

// do sends text and reads exactly want.
func (c *client) do(text, want string) {
	c.t.Helper()
	c.send(text)
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.in, got); err != nil || string(got) != want {
		c.t.Fatalf("%q: got %q (%v), want %q", text, got[:n], err, want)
	}
}

// abort closes the connection such that the server notices at once: after an ordinary close it still writes its replies.
func (c *client) abort() {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = c.Close()
}

// line reads a line, without its end.
func (c *client) line() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatalf("got %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// closed waits for the server to close the connection without another word.
func (c *client) closed() {
	c.t.Helper()
	if got, err := io.ReadAll(c.in); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Fatalf("got %q, %v", got, err)
	}
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
