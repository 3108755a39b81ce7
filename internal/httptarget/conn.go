//go:build linux

package httptarget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
)

// connState is where a connection stands.
type connState uint8

const (
	down connState = iota // to be established when it is needed
	connecting
	up
)

// conn is one connection and the request under way on it.
type conn struct {
	token uint64
	fd    int
	peer  unix.Sockaddr
	state connState

	busy    bool // a request is under way
	rec     reqlog.Record
	out     []byte // the request
	written int    // of it, what the kernel has taken
	blocked bool   // the kernel takes no more for now
	parser  parser
	got     int64 // bytes of the reply

	used  bool // has answered before, so the server may be closing it for being idle
	added bool // beyond those of clients
	idle  bool // among Target.idle

	before, after *conn // with a request under way, in the order of issue
}

// A server that refuses connections is left in peace for a while, longer and longer. Requests that need one fail at once meanwhile.
const (
	minBackoff = time.Millisecond
	maxBackoff = time.Second
)

// again reports whether a socket was merely not ready. Package poll returns that error as it is.
func again(err error) bool { return err == unix.EAGAIN }

// dial establishes a connection; it blocks.
func (t *Target) dial(ctx context.Context, address string) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	timeout := dialTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	fd, err := poll.Dial("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	c := &conn{token: uint64(len(t.conns)), fd: fd, state: up}
	c.peer, err = unix.Getpeername(fd)
	if err == nil {
		err = t.poller.Add(fd, c.token, false)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	return c, nil
}

// pick returns a connection with nothing under way, nil if there may be no more: that of the client, or one that was added, or a new one.
func (t *Target) pick(client uint32) *conn {
	own := t.conns[int(client)/t.cfg.Shards%t.own]
	if !own.busy {
		return own
	}
	if last := len(t.idle) - 1; last >= 0 {
		c := t.idle[last]
		t.idle = t.idle[:last]
		c.idle = false
		return c
	}
	if len(t.conns)-t.own >= t.mayAdd() {
		return nil
	}
	c := &conn{token: uint64(len(t.conns)), fd: -1, peer: own.peer, added: true}
	t.conns = append(t.conns, c)
	t.counters.Grown++
	return c
}

// mayAdd returns this sender's part of the connections that may be added.
func (t *Target) mayAdd() int {
	all := t.cfg.MaxConns - t.cfg.Conns
	part := all / t.cfg.Shards
	if t.cfg.Shard < all%t.cfg.Shards {
		part++
	}
	return part
}

// enlist puts a connection at the end of those with a request under way.
func (t *Target) enlist(c *conn) {
	c.busy, c.before, c.after = true, t.last, nil
	if t.last == nil {
		t.first = c
	} else {
		t.last.after = c
	}
	t.last = c
}

// settle ends the request of a connection, which is free then.
func (t *Target) settle(c *conn, r load.Reply) {
	if c.before == nil {
		t.first = c.after
	} else {
		c.before.after = c.after
	}
	if c.after == nil {
		t.last = c.before
	} else {
		c.after.before = c.before
	}
	c.busy, c.before, c.after = false, nil, nil
	t.delivered = true
	if c.rec.Sent == 0 && r.Outcome != load.NotSent {
		c.rec.Sent = r.At // the connection was offered the request in time; that there is none is not the generator's fault
	}
	t.judge(&c.rec, r)
	if c.added && !c.idle {
		c.idle = true
		t.idle = append(t.idle, c)
	}
}

// lose gives a connection up whose request has failed.
func (t *Target) lose(c *conn) {
	t.counters.Lost++
	t.disconnect(c)
	t.settle(c, load.Reply{At: t.cfg.Clock.Now(), Outcome: load.Broken, Queued: -1, Service: -1})
}

// broken takes note that a connection is no more of use. A server may close one that it holds to be idle in the same moment in which a
// request leaves. Nobody can tell from that whether the request was served, but all that are sent here may be repeated (RFC 9110, section
// 9.2.2), so it leaves once more, as in any client.
func (t *Target) broken(c *conn) {
	if !c.used || c.parser.begun() || c.rec.Attempts > 1 {
		t.lose(c)
		return
	}
	t.disconnect(c)
	c.rec.Attempts++
	c.written = 0
	t.counters.Reconnects++
	if now := t.cfg.Clock.Now(); !t.connect(c, now) {
		t.counters.Lost++
		t.settle(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
	}
}

// disconnect closes the socket.
func (t *Target) disconnect(c *conn) error {
	if c.state == down {
		return nil
	}
	err := errors.Join(t.poller.Remove(c.fd), unix.Close(c.fd))
	c.state, c.fd, c.blocked, c.used = down, -1, false, false
	return err
}

// connect starts to establish a connection, without waiting for it. It returns false when that has failed already.
func (t *Target) connect(c *conn, now clock.Instant) bool {
	if now < t.refusedUntil {
		return false
	}
	family := unix.AF_INET
	if _, six := c.peer.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.refused(now)
		return false
	}
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err == nil {
		if err = unix.Connect(fd, c.peer); errors.Is(err, unix.EINPROGRESS) {
			err = nil
		}
	}
	if err == nil {
		err = t.poller.Add(fd, c.token, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		t.refused(now)
		return false
	}
	c.fd, c.state = fd, connecting
	return true
}

// refused takes note that a connection could not be established.
func (t *Target) refused(now clock.Instant) {
	t.backoff = min(max(2*t.backoff, minBackoff), maxBackoff)
	t.refusedUntil = now.Add(t.backoff)
}

// connected is called when the kernel has finished with an attempt to connect.
func (t *Target) connected(c *conn) {
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code == 0 {
		err = t.poller.Modify(c.fd, c.token, false)
	}
	now := t.cfg.Clock.Now()
	if err != nil || code != 0 {
		t.refused(now)
		t.disconnect(c)
		if c.busy {
			t.settle(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		}
		return
	}
	c.state, t.backoff = up, 0
	if c.busy {
		t.send(c)
	}
}

// expire settles requests that have timed out. Their connections are closed: that tells the server that nobody waits any more, and what it
// may still say could not be told from the reply to another request.
func (t *Target) expire(now clock.Instant) {
	for t.first != nil && t.first.rec.Intended.Add(t.cfg.Timeout) <= now {
		c := t.first
		switch {
		case c.state != up:
			t.counters.TimedOutDial++
		case c.written < len(c.out):
			t.counters.TimedOutWrite++
		default:
			t.counters.TimedOutReply++
		}
		t.disconnect(c)
		t.settle(c, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
	}
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
