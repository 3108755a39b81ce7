//go:build linux

package target

import (
	"context"
	"time"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/memproto"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// conn is one connection and the requests under way on it.
type conn struct {
	poll.Conn

	out       []byte // encoded requests
	written   int    // of them, what the kernel has taken
	taken     uint64 // position of the oldest request that the kernel has not taken whole
	takenPart int    // what it has taken of that one
	dirty     bool   // has requests that have not been handed over

	pending    ring
	parser     memproto.ReplyParser
	rest       []byte // the beginning of a reply line
	replyBytes int64  // read so far of the reply that is being read
	hits       uint8  // items of that reply

	questions int  // open ones
	unasked   bool // one is to be asked once the connection stands

	// Of a connection that keeps clients and server in step.
	pacer    bool
	awaits   bool          // a promise has not been answered
	free     bool          // the server is not waited for
	promised clock.Instant // what it was told last
	told     clock.Instant // what it has said last of how far it is
	reached  clock.Instant // and up to where everything has been read that it said before
	asked    time.Time     // when it was told

	added bool // beyond those of clients
	fresh bool // has never been established
	roomy bool // among MemcachedTarget.roomy

	retryAt clock.Instant // when down: of the next attempt; when connecting: when it is given up
	backoff time.Duration
}

// compact moves what is unwritten to the front of the buffer once as much has been written, so that the buffer stays bounded while
// the server is slow.
func (c *conn) compact() {
	if c.written >= len(c.out)-c.written {
		n := copy(c.out, c.out[c.written:])
		c.out, c.written = c.out[:n], 0
	}
}

// take notes that the kernel has taken n more bytes, but not everything.
func (c *conn) take(n int) {
	p := &c.pending
	if c.taken < p.first { // answered before it was taken whole
		c.taken, c.takenPart = p.first, 0
	}
	for c.taken != p.tail {
		left := int(p.at(c.taken).BytesOut) - c.takenPart
		if n < left {
			c.takenPart += n
			return
		}
		n -= left
		c.taken, c.takenPart = c.taken+1, 0
	}
}

// full reports whether a connection has its bound of requests or bytes under way.
func (c *conn) full(window int) bool {
	return c.pending.len() >= window || len(c.out)-c.written > maxUnwritten
}

// awaitsItems reports whether the oldest request is one that is answered with several items.
func (c *conn) awaitsItems() bool {
	return c.pending.len() > 0 && workloads.Kind(c.pending.head().Kind) == workloads.MultiGet
}

// stamp marks the requests issued on a connection since the last time as sent.
func (m *MemcachedTarget) stamp(c *conn, now clock.Instant) {
	if m.clients != nil {
		m.clients.stamp(c, now)
		return
	}
	for i := c.pending.tail; i != c.pending.first && c.pending.at(i-1).Sent == 0; i-- {
		c.pending.at(i - 1).Sent = now
	}
}

// dial establishes a connection; it blocks.
func (m *MemcachedTarget) dial(ctx context.Context, addr string) (*conn, error) {
	network, addr, err := ParseAddr(addr)
	if err != nil {
		return nil, err
	}
	c, err := m.poller.Dial(ctx, network, addr, m.cfg.DialTimeout, uint64(len(m.conns)))
	return &conn{Conn: c}, err
}

// lose gives a connection up: whatever is under way on it has failed.
func (m *MemcachedTarget) lose(c *conn) {
	now := m.cfg.Clock.Now()
	m.counters.Lost++
	m.delivered = true
	m.retry(c, now)
}

// retry closes a connection and decides when it is tried again. What waited for it has failed.
func (m *MemcachedTarget) retry(c *conn, now clock.Instant) {
	if m.clients == nil {
		m.abandon(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
	}
	stood := c.State == poll.Up
	_ = c.disconnect() // nothing can be done about an error here; the descriptor is gone in any case
	c.backoff = poll.Backoff(c.backoff)
	c.retryAt = now.Add(c.backoff)
	m.checkBy(c.retryAt)
	if c.pacer {
		c.awaits, c.promised = false, 0
	} else if m.clients != nil && stood {
		m.clients.lose(now, c)
	}
}

// abandon settles what is pending on a connection with one outcome.
func (m *MemcachedTarget) abandon(c *conn, r load.Reply) {
	for c.pending.len() > 0 {
		rec := c.pending.head()
		if rec.Fate == reqlog.Pending && !c.pending.answered(c.pending.first) {
			if rec.Sent == 0 {
				rec.Sent = r.At // it was about to be handed over
			}
			m.cfg.judge(rec, r)
		}
		c.pending.pop()
	}
}

// giveUp settles what has waited for a connection that could not be established in time.
func (m *MemcachedTarget) giveUp(c *conn, now clock.Instant) {
	for i := c.pending.first; i != c.pending.tail; i++ {
		if c.pending.at(i).Fate == reqlog.Pending {
			m.counters.TimedOutDial++
			m.delivered = true
		}
	}
	m.abandon(c, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
}

// disconnect closes the socket and forgets what was half read and half written.
func (c *conn) disconnect() error {
	if c.State == poll.Down {
		return nil
	}
	c.out, c.written = c.out[:0], 0
	c.taken, c.takenPart = c.pending.tail, 0
	c.rest, c.replyBytes, c.hits = c.rest[:0], 0, 0
	c.parser = memproto.ReplyParser{}
	return c.Close()
}

// connect starts to establish a connection anew, without waiting for it.
func (m *MemcachedTarget) connect(c *conn, now clock.Instant) {
	if err := c.Connect(); err != nil {
		m.retry(c, now)
		return
	}
	c.retryAt = now.Add(clock.On(m.cfg.Clock, m.cfg.DialTimeout))
	m.checkBy(c.retryAt)
}

// connected is called when the kernel has finished with an attempt to connect.
func (m *MemcachedTarget) connected(c *conn) {
	err := c.Connected()
	now := m.cfg.Clock.Now()
	if err != nil {
		m.delivered = m.delivered || c.pending.len() > 0
		m.retry(c, now)
		return
	}
	if c.fresh {
		c.fresh = false
	} else {
		m.counters.Reconnects++
	}
	m.offer(c)
	if m.clients != nil {
		m.clients.meet(now, c)
	}
	if len(c.out) > 0 { // requests have waited for it
		m.stamp(c, now)
		if err := m.write(c); err != nil {
			m.lose(c)
		}
	}
}

// checkBy makes Wait look at timeouts and retries at that instant.
func (m *MemcachedTarget) checkBy(at clock.Instant) { m.nextCheck = min(m.nextCheck, at) }

// check settles requests that have timed out and tries lost connections again.
func (m *MemcachedTarget) check(now clock.Instant) {
	m.nextCheck = clock.Never
	for _, c := range m.conns {
		if c.State != poll.Up && now >= c.retryAt {
			if c.State == poll.Connecting {
				m.giveUp(c, now)
				m.retry(c, now)
			} else {
				m.connect(c, now)
			}
		}
		if c.State != poll.Up {
			m.checkBy(c.retryAt)
		}
		if m.clients == nil {
			m.expire(c, now)
		}
	}
	if m.clients != nil {
		m.clients.expire(now)
	}
}

// expire settles the requests of a connection that have timed out. They keep their places, because their replies, should these
// still come, must be matched.
func (m *MemcachedTarget) expire(c *conn, now clock.Instant) {
	p := &c.pending
	for p.waiting = max(p.waiting, p.first); p.waiting != p.tail; p.waiting++ {
		rec := p.at(p.waiting)
		if p.answered(p.waiting) {
			continue
		}
		if at := rec.Intended.Add(m.cfg.Timeout + m.grace()); at > now {
			m.checkBy(at)
			return
		}
		if rec.Sent == 0 {
			rec.Sent = now // it was about to be handed over
		}
		m.delivered = true
		switch {
		case c.State != poll.Up:
			m.counters.TimedOutDial++
		case c.Blocked && p.waiting >= c.taken:
			m.counters.TimedOutWrite++
		default:
			m.counters.TimedOutReply++
		}
		gaveUp := now
		if m.cfg.Model != nil {
			gaveUp = rec.Intended.Add(m.cfg.Timeout)
		}
		m.cfg.judge(rec, load.Reply{At: gaveUp, Outcome: load.Abandoned, Queued: -1, Service: -1})
	}
}
