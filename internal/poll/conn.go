//go:build linux

package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// State is where a Conn stands.
type State uint8

// The states of a Conn.
const (
	Down State = iota // it has no socket
	Connecting
	Up
)

// Conn is the socket of a client, watched by a Poller: Dial establishes it and waits for that, Connect establishes it anew without anybody
// waiting. Its fields are for reading. It belongs to the goroutine that the Poller belongs to.
type Conn struct {
	Token   uint64        // of its events
	FD      int           // -1 while it is down
	Peer    unix.Sockaddr // whom Connect connects to
	State   State
	Blocked bool // the kernel took only a part of what Send was last given; an event says when it takes more

	poller *Poller
}

// Dial establishes a connection to addr ("tcp" with host:port, "unix" with a path) and watches it for reading. It waits for it until timeout
// or ctx ends. Errors are those of package net; one that is due to a limit of this computer says what to do about it.
func (p *Poller) Dial(ctx context.Context, network, addr string, timeout time.Duration, token uint64) (Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return Conn{}, explainLimit(err)
	}
	fd, err := detach(conn)
	if err != nil {
		return Conn{}, explainLimit(err)
	}
	peer, err := unix.Getpeername(fd)
	if err == nil {
		err = p.Add(fd, token, false)
	}
	if err != nil {
		_ = unix.Close(fd)
		return Conn{}, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	return Conn{Token: token, FD: fd, Peer: peer, State: Up, poller: p}, nil
}

// explainLimit says what to do about running out of descriptors or ports, which looks like the server's fault and is not.
func explainLimit(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: this computer's limit on open files, not the server's; raise it with ulimit -n", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this computer has no local port left for this server; use fewer connections, or widen net.ipv4.ip_local_port_range", err)
	}
	return err
}

// Another returns a connection to the same server that is yet to be established.
func (c *Conn) Another(token uint64) Conn {
	return Conn{Token: token, FD: -1, Peer: c.Peer, poller: c.poller}
}

// Connect begins to establish a connection that is down. The first event of one that is Connecting says that Connected will know what came
// of it. With an error it is still down.
func (c *Conn) Connect() error {
	family := unix.AF_INET
	switch c.Peer.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("poll: socket: %w", err)
	}
	err = sendAtOnce(fd, c.Peer)
	if err == nil {
		if err = unix.Connect(fd, c.Peer); errors.Is(err, unix.EINPROGRESS) {
			err = nil
		}
	}
	if err == nil {
		err = c.poller.Add(fd, c.Token, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	c.FD, c.State = fd, Connecting
	return nil
}

// Connected takes what has come of Connect. Without an error the connection is Up; with one it is of no use and has yet to be closed.
func (c *Conn) Connected() error {
	code, err := unix.GetsockoptInt(c.FD, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err == nil {
		err = c.poller.Modify(c.FD, c.Token, false)
	}
	if err == nil {
		c.State = Up
	}
	return err
}

// Send hands bytes to the kernel and returns how many it took. When these are not all, the connection is Blocked until the rest has been
// taken, which is to be sent when an event says Writable.
func (c *Conn) Send(b []byte) (n int, err error) {
	if n, err = Send(c.FD, b); err != nil && err != unix.EAGAIN {
		return 0, err
	}
	if blocked := n < len(b); blocked != c.Blocked {
		c.Blocked = blocked
		return n, c.poller.Modify(c.FD, c.Token, blocked)
	}
	return n, nil
}

// Recv reads what has arrived. It returns 0 and no error when nothing has, and io.EOF at the end of the stream.
func (c *Conn) Recv(b []byte) (n int, err error) {
	switch n, err = Recv(c.FD, b); {
	case err == unix.EAGAIN:
		return 0, nil
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Close closes the socket, if there is one. The connection may be established anew.
func (c *Conn) Close() error {
	if c.State == Down {
		return nil
	}
	err := errors.Join(c.poller.Remove(c.FD), unix.Close(c.FD))
	c.FD, c.State, c.Blocked = -1, Down, false
	return err
}

// A server that refuses connections is left in peace for a while, longer and longer: one that restarts is found soon, and one that is gone
// costs little.
const (
	minBackoff = time.Millisecond
	maxBackoff = time.Second
)

// Backoff returns how long to wait before connecting again to a server that has refused, when the wait before was last; 0 for none.
func Backoff(last time.Duration) time.Duration { return min(max(2*last, minBackoff), maxBackoff) }
