//go:build linux

package web

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// turnAway is what a connection beyond the bound is told before it is closed. It has not said which version of HTTP it speaks; all
	// that clients send here begin with the first.
	turnAway = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n" + HeaderReason + ": resource\r\nConnection: close\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
	// lingerTime is how long such a connection may still send, so that what it has sent does not make the kernel take back our words.
	lingerTime = 250 * time.Millisecond
	// maxLingering bounds how many of them there are; beyond it they are closed at once.
	maxLingering = 64
)

// limitedListener accepts up to so many connections, and turns away what comes beyond. In the kernel's queue they would wait without a word,
// behind those that nobody uses.
type limitedListener struct {
	net.Listener
	connections *connections
}

// connections are the counts of all listeners together.
type connections struct {
	most      int64
	open      atomic.Int64
	total     atomic.Uint64
	turned    atomic.Uint64 // away at the bound
	lingering atomic.Int64
	running   sync.WaitGroup
}

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.connections.open.Add(1) <= l.connections.most {
			l.connections.total.Add(1)
			return &countedConn{Conn: c, connections: l.connections}, nil
		}
		l.connections.open.Add(-1)
		l.connections.turned.Add(1)
		l.connections.turnAway(c)
	}
}

func (n *connections) turnAway(c net.Conn) {
	if n.lingering.Add(1) > maxLingering {
		n.lingering.Add(-1)
		_ = c.Close()
		return
	}
	n.running.Go(func() {
		defer n.lingering.Add(-1)
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(lingerTime))
		if _, err := io.WriteString(c, turnAway); err != nil {
			return
		}
		if tcp, ok := c.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, c) // until it has gone, or the time is up
		}
	})
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	connections *connections
	closed      atomic.Bool
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.connections.open.Add(-1)
	}
	return c.Conn.Close()
}
