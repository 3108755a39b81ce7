//go:build linux

package target

import (
	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/memproto"
)

// reply takes the reply to the oldest request of a connection. It returns false if it is not an answer to that.
func (c *clients) reply(to *conn, r *memproto.Reply, now clock.Instant) bool {
	if to.pacer {
		return c.paced(to, r)
	}
	if c.cfg.Model != nil {
		return c.modelReply(to, r, now)
	}
	token, i := to.pending.token(to.pending.first), uint32(to.Token)
	if token == question {
		if r.Kind != memproto.ReplyNoop {
			return false
		}
		to.pending.pop()
		if to.questions--; r.Credits == 0 && to.questions == 0 {
			// The server could not hold it any longer, because something else was sent behind it. It is asked again.
			c.ask(now, i, c.boxes[i].Len())
			return true
		}
		c.answered(now, i, token, load.Reply{}, int(r.Credits))
		return true
	}
	f := &c.list[token]
	if r.HasOpaque && r.Opaque != f.rec.Seq {
		return false
	}
	answer, ok := to.answer(&f.rec, r, now)
	if !ok {
		return false
	}
	to.backoff = 0
	to.pending.pop()
	c.answered(now, i, token, answer, int(r.Credits))
	return true
}

// modelReply takes a reply of the model ground, whose instant is computed, and holds it until then.
func (c *clients) modelReply(to *conn, r *memproto.Reply, now clock.Instant) bool {
	p := &to.pending
	at, ok := p.place(r)
	if !ok {
		return false
	}
	h := heldReply{conn: uint32(to.Token), token: p.token(at), credits: r.Credits, reply: load.Reply{At: now}}
	due := clock.Instant(r.Leaves).Add(c.cfg.Model.Network)
	if h.token == question {
		if r.Leaves == 0 {
			return false
		}
		to.questions--
		h.reply.At = due
		asked := p.at(at)
		c.judgeLateness(asked.Sent, asked.Done, c.acted(h.conn, due), r, now)
	} else {
		f := &c.list[h.token]
		if h.reply, ok = to.answer(&f.rec, r, now); !ok || f.stamped == 0 {
			return false
		}
		if r.Leaves > 0 {
			h.reply.At = due
			gaveUp := !f.waiting && due <= f.rec.Intended.Add(c.cfg.Timeout)
			c.judgeLateness(f.left, f.stamped, gaveUp || c.acted(h.conn, due), r, now)
		} else if h.reply.Outcome != load.Broken {
			c.model.untimed++ // it was asked in a form that has no room for an instant, so what was observed is all there is
			c.counters.Disturbed++
		}
	}
	p.answer(at)
	to.backoff = 0
	c.delivered = true
	c.model.held.Push(uint64(h.reply.At), h)
	return true
}

// acted reports whether the client of connection i has done something after an instant that may depend on what it hears at that instant.
func (c *clients) acted(i uint32, at clock.Instant) bool {
	if c.saved == nil {
		return c.last[i] > at
	}
	for k := range c.count {
		if c.last[i/c.count*c.count+k] > at {
			return true
		}
	}
	return false
}

// place returns where the request stands that a reply of the model ground is to. Of questions there is one open at most that matters, so the
// answer is to the oldest. What has no opaque leaves the server when its request is the oldest.
func (p *ring) place(r *memproto.Reply) (at uint64, ok bool) {
	if r.HasOpaque {
		return r.Opaque, r.Opaque-p.first < uint64(p.len()) && !p.answered(r.Opaque) && p.token(r.Opaque) != question
	}
	for at = p.first; at != p.tail; at++ {
		if !p.answered(at) && (p.token(at) == question) == (r.Kind == memproto.ReplyNoop) {
			return at, true
		}
	}
	return 0, false
}

// advance lets happen what is due by an instant, in the order of instants and, of one instant, in that of the simulator.
func (c *clients) advance(upTo clock.Instant) {
	for {
		reply, check, alarm := c.model.next(), c.nextCheck, c.next()
		switch next := min(reply, check, alarm); {
		case next > upTo:
			return
		case next == reply:
			h := c.model.held.Pop()
			c.answered(next, h.conn, h.token, h.reply, int(h.credits))
		case next == check:
			c.check(next)
		default:
			c.wake(next)
		}
	}
}

// meet asks what could not be asked while a connection did not stand.
func (c *clients) meet(now clock.Instant, to *conn) {
	if to.unasked {
		to.unasked = false
		c.ask(now, uint32(to.Token), c.boxes[to.Token].Len())
	}
}

// answered is a reply that a client has read at now. pos is where its request, or question, stood.
func (c *clients) answered(now clock.Instant, i, token uint32, r load.Reply, credits int) {
	if token == question {
		c.hear(now, i, control.Notice{Kind: control.Told, Credits: credits})
		return
	}
	f := &c.list[token]
	if !f.waiting {
		c.counters.LateAfter++
		// Its client has given it up, and has told its own control so.
		c.done(token)
		c.hear(now, i, control.Notice{Kind: control.Told, Credits: credits})
		return
	}
	shed, latency := r.Outcome == load.Shed, now.Sub(f.rec.Intended)
	f.away = false
	if !shed || !c.resend(now, token, r) {
		c.settle(token, r)
		c.done(token)
	}
	c.hear(now, i, control.Notice{Kind: control.Replied, Shed: shed, Latency: latency, Credits: credits})
}

// abandonAll settles everything: the clients stop waiting.
func (c *clients) abandonAll(now clock.Instant) {
	for c.oldest != none {
		token := c.oldest
		f := &c.list[token]
		if f.away {
			f.handedOver(now) // if it was about to be
		}
		c.settle(token, load.GivenUp(&f.rec, now))
	}
}

// stamp marks what has been issued on a connection since the last time as handed over.
func (c *clients) stamp(to *conn, now clock.Instant) {
	p := &to.pending
	for p.stamped = max(p.stamped, p.first); p.stamped != p.tail; p.stamped++ {
		token := p.token(p.stamped)
		if token == question {
			p.at(p.stamped).Done = now
			continue
		}
		f := &c.list[token]
		f.stamped = now
		f.handedOver(now)
		if f.waiting && !f.handed {
			f.handed = true
			c.held--
		}
	}
	if c.changed != nil {
		c.changed(now)
	}
}

// Observe has changed called when requests are handed over and when they are settled, which both happen within Wait too. It returns false where
// clients just send: then requests are handed over by Flush.
func (m *MemcachedTarget) Observe(changed func(at clock.Instant)) bool {
	if m.clients == nil {
		return false
	}
	m.clients.changed = changed
	return true
}

// Waiting returns how many requests wait at their clients and have never been handed over.
func (m *MemcachedTarget) Waiting() int64 {
	if m.clients == nil {
		return 0
	}
	return m.clients.held
}
