//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/memproto"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
)

// connState is where a connection stands.
type connState uint8

const (
	down connState = iota // lost, and to be tried again at retryAt
	connecting
	up
)

// conn is one connection and the requests under way on it.
type conn struct {
	token uint64
	fd    int
	peer  unix.Sockaddr
	state connState

	out     []byte // encoded requests
	written int    // of them, what the kernel has taken
	blocked bool   // the kernel takes no more for now
	dirty   bool   // has requests that have not been handed over

	pending    ring
	parser     memproto.ReplyParser
	rest       []byte // the beginning of a reply line
	replyBytes int64  // read so far of the reply that is being read

	retryAt clock.Instant // when down: of the next attempt; when connecting: when it is given up
	backoff time.Duration
}

// Reconnecting begins at once and slows down, so that a server that restarts is found soon and one that is gone is left in peace.
const (
	minBackoff = time.Millisecond
	maxBackoff = time.Second
)

// compact moves what is unwritten to the front of the buffer once as much has been written, so that the buffer stays bounded while
// the server is slow.
func (c *conn) compact() {
	if c.written >= len(c.out)-c.written {
		n := copy(c.out, c.out[c.written:])
		c.out, c.written = c.out[:n], 0
	}
}

// stamp marks the requests issued since the last time as sent.
func (c *conn) stamp(now clock.Instant) {
	for i := c.pending.tail; i != c.pending.first && c.pending.at(i-1).Sent == 0; i-- {
		c.pending.at(i - 1).Sent = now
	}
}

// again reports whether a socket was merely not ready. Package poll returns that error as it is.
func again(err error) bool { return err == unix.EAGAIN }

// dial establishes the first connection of a token; it blocks.
func (m *MemcachedTarget) dial(ctx context.Context, token uint64) (*conn, error) {
	network, addr, err := ParseAddr(m.cfg.Addr)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	timeout := m.cfg.DialTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	fd, err := poll.Dial(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	c := &conn{token: token, fd: fd, state: up}
	c.peer, err = unix.Getpeername(fd)
	if err == nil {
		err = m.poller.Add(fd, token, false)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	return c, nil
}

// lose gives a connection up: whatever is under way on it has failed.
func (m *MemcachedTarget) lose(c *conn) {
	now := m.cfg.Clock.Now()
	m.counters.Lost++
	m.abandon(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
	m.delivered = true
	m.retry(c, now)
}

// retry closes a connection and decides when it is tried again.
func (m *MemcachedTarget) retry(c *conn, now clock.Instant) {
	_ = m.disconnect(c) // nothing can be done about an error here; the descriptor is gone in any case
	c.backoff = min(max(2*c.backoff, minBackoff), maxBackoff)
	c.retryAt = now.Add(c.backoff)
	m.checkBy(c.retryAt)
}

// abandon settles what is pending on a connection with one outcome.
func (m *MemcachedTarget) abandon(c *conn, r load.Reply) {
	for c.pending.len() > 0 {
		rec := c.pending.head()
		if rec.Fate == reqlog.Pending {
			if rec.Sent == 0 {
				rec.Sent = r.At // it was about to be handed over
			}
			m.judge(rec, r)
		}
		c.pending.pop()
	}
}

// disconnect closes the socket and forgets what was half read and half written.
func (m *MemcachedTarget) disconnect(c *conn) error {
	if c.state == down {
		return nil
	}
	err := errors.Join(m.poller.Remove(c.fd), unix.Close(c.fd))
	c.state, c.fd = down, -1
	c.out, c.written, c.blocked = c.out[:0], 0, false
	c.rest, c.replyBytes = c.rest[:0], 0
	c.parser = memproto.ReplyParser{}
	return err
}

// connect starts to establish a connection anew, without waiting for it.
func (m *MemcachedTarget) connect(c *conn, now clock.Instant) {
	family := unix.AF_INET
	switch c.peer.(type) {
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	case *unix.SockaddrUnix:
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		m.retry(c, now)
		return
	}
	if family != unix.AF_UNIX {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		if err = unix.Connect(fd, c.peer); errors.Is(err, unix.EINPROGRESS) {
			err = nil
		}
	}
	if err == nil {
		err = m.poller.Add(fd, c.token, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		m.retry(c, now)
		return
	}
	c.fd, c.state = fd, connecting
	c.retryAt = now.Add(m.cfg.DialTimeout)
	m.checkBy(c.retryAt)
}

// connected is called when the kernel has finished with an attempt to connect.
func (m *MemcachedTarget) connected(c *conn) {
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code == 0 {
		err = m.poller.Modify(c.fd, c.token, false)
	}
	if err != nil || code != 0 {
		m.retry(c, m.cfg.Clock.Now())
		return
	}
	c.state = up
	m.counters.Reconnects++
}

// checkBy makes Wait look at timeouts and retries at that instant.
func (m *MemcachedTarget) checkBy(at clock.Instant) { m.nextCheck = min(m.nextCheck, at) }

// check settles requests that have timed out and tries lost connections again.
func (m *MemcachedTarget) check(now clock.Instant) {
	m.nextCheck = clock.Never
	for _, c := range m.conns {
		if c.state != up && now >= c.retryAt {
			if c.state == connecting {
				m.retry(c, now)
			} else {
				m.connect(c, now)
			}
		}
		if c.state != up {
			m.checkBy(c.retryAt)
		}
		m.expire(c, now)
	}
}

// expire settles the requests of a connection that have timed out. They keep their places, because their replies, should these
// still come, must be matched.
func (m *MemcachedTarget) expire(c *conn, now clock.Instant) {
	p := &c.pending
	for p.waiting = max(p.waiting, p.first); p.waiting != p.tail; p.waiting++ {
		rec := p.at(p.waiting)
		if at := rec.Intended.Add(m.cfg.Timeout); at > now {
			m.checkBy(at)
			return
		}
		if rec.Sent == 0 {
			rec.Sent = now // it was about to be handed over
		}
		m.delivered = true
		m.judge(rec, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
	}
}

// ring is a queue of records that grows as needed. Positions count up for ever; the record of position i is at i modulo the size.
type ring struct {
	records     []reqlog.Record // a power of two of them
	first, tail uint64          // the oldest, and one past the newest
	waiting     uint64          // the oldest that has not timed out, as far as is known
}

const firstRing = 64

func (r *ring) len() int                   { return int(r.tail - r.first) }
func (r *ring) at(i uint64) *reqlog.Record { return &r.records[i&uint64(len(r.records)-1)] }
func (r *ring) head() *reqlog.Record       { return r.at(r.first) }
func (r *ring) pop()                       { r.first++ }

func (r *ring) push(rec *reqlog.Record) {
	if r.len() == len(r.records) {
		grown := make([]reqlog.Record, max(2*len(r.records), firstRing))
		for i := r.first; i != r.tail; i++ {
			grown[i&uint64(len(grown)-1)] = *r.at(i)
		}
		r.records = grown
	}
	*r.at(r.tail) = *rec
	r.tail++
}
