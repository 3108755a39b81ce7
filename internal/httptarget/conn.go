//go:build linux

package httptarget

import (
	"context"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
)

// conn is one connection and the request under way on it. It is established when it is needed.
type conn struct {
	poll.Conn

	busy    bool // a request is under way
	rec     reqlog.Record
	out     []byte // the request
	written int    // of it, what the kernel has taken
	parser  parser
	got     int64 // bytes of the reply

	used  bool // has answered before, so the server may be closing it for being idle
	added bool // beyond those of clients
	idle  bool // among Target.idle

	before, after *conn // with a request under way, in the order of issue
}

// dial establishes a connection; it blocks.
func (t *Target) dial(ctx context.Context, address string) (*conn, error) {
	c, err := t.poller.Dial(ctx, "tcp", address, dialTimeout, uint64(len(t.conns)))
	return &conn{Conn: c}, err
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
	c := &conn{Conn: own.Another(uint64(len(t.conns))), added: true}
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
	c.disconnect()
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
	c.disconnect()
	c.rec.Attempts++
	c.written = 0
	t.counters.Reconnects++
	if now := t.cfg.Clock.Now(); !t.connect(c, now) {
		t.counters.Lost++
		t.settle(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
	}
}

// disconnect closes the socket.
func (c *conn) disconnect() error {
	c.used = false
	return c.Close()
}

// connect starts to establish a connection, without waiting for it. It returns false when that has failed already. A server that refuses
// connections is left in peace for a while, and requests that need one fail at once meanwhile.
func (t *Target) connect(c *conn, now clock.Instant) bool {
	if now < t.refusedUntil {
		return false
	}
	if err := c.Connect(); err != nil {
		t.refused(now)
		return false
	}
	return true
}

// refused takes note that a connection could not be established.
func (t *Target) refused(now clock.Instant) {
	t.backoff = poll.Backoff(t.backoff)
	t.refusedUntil = now.Add(t.backoff)
}

// connected is called when the kernel has finished with an attempt to connect.
func (t *Target) connected(c *conn) {
	if err := c.Connected(); err != nil {
		now := t.cfg.Clock.Now()
		t.refused(now)
		c.disconnect()
		if c.busy {
			t.settle(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		}
		return
	}
	t.backoff = 0
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
		case c.State != poll.Up:
			t.counters.TimedOutDial++
		case c.written < len(c.out):
			t.counters.TimedOutWrite++
		default:
			t.counters.TimedOutReply++
		}
		c.disconnect()
		t.settle(c, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
	}
}
