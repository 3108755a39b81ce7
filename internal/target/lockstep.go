//go:build linux

package target

import (
	"context"
	"errors"
	"time"

	"spillway/clock"
	"spillway/internal/memproto"
	"spillway/internal/poll"
)

// On the model ground what a client does depends on what it hears, and neither side can wait for the other by looking at the clock: computers
// stop a process for longer than a modelled network takes. So clients and servers keep in step, over a connection of their own to each server.
// The client promises that it sends nothing any more with an instant before one that it has reached; the server answers once its machine has
// come one network delay further. Until then its replies of later instants may come, and the client waits with whatever is later than one more delay
// (docs/adr/0020).

// stepPatience is how long a server may take to say how far it has come, on the wall clock, before clients go on without it.
const stepPatience = 10 * time.Second

// leastStep is the shortest network delay, on the wall clock, at which clients and servers keep in step: with a shorter one they would do
// nothing but talk to each other, and fall behind. The clock then has to do, and most likely the point is not valid.
const leastStep = 50 * time.Microsecond

// stepPause is how long a wait is that a server's word ends, on the wall clock.
const stepPause = 2 * time.Millisecond

// pace connects to a server to keep in step with it.
func (c *clients) pace(ctx context.Context, addr string) error {
	to, err := c.dial(ctx, addr)
	if err != nil {
		return err
	}
	to.pacer = true
	c.conns = append(c.conns, to)
	c.pacers = append(c.pacers, to)
	return nil
}

// keepStep has the servers wait from now on, before the first request could be late for one that goes on by itself.
func (c *clients) keepStep(ctx context.Context) error {
	c.through = c.cfg.Clock.Now()
	c.promise()
	c.Flush(c.through)
	for deadline := time.Now().Add(stepPatience); ; {
		open := false
		for _, p := range c.pacers {
			open = open || p.awaits
			if p.State != poll.Up || time.Now().After(deadline) {
				return errors.New("a server on a modelled machine does not say how far it has come: is it of another version?")
			}
		}
		if !open {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.look(time.Millisecond)
		c.listen()
	}
}

// horizon returns up to which instant all is known that may come.
func (c *clients) horizon() clock.Instant {
	limit := clock.Never
	for _, p := range c.pacers {
		if p.State == poll.Up && !p.free {
			limit = min(limit, p.reached.Add(c.cfg.Model.Network))
		}
	}
	return limit
}

// promise tells the servers how far the clients have come.
func (c *clients) promise() {
	for _, p := range c.pacers {
		if p.State != poll.Up || p.awaits || c.through <= p.promised {
			continue
		}
		p.promised, p.awaits, p.asked = c.through, true, time.Now()
		p.out = memproto.AppendMetaNoop(p.out, memproto.Asks{Timed: true, Sent: int64(c.through)})
		c.touch(p)
	}
}

// paced takes a server's answer. It counts once everything has been read that the server said before.
func (c *clients) paced(to *conn, r *memproto.Reply) bool {
	if r.Kind != memproto.ReplyNoop || r.Leaves == 0 || !to.awaits {
		return false
	}
	to.awaits, to.told = false, clock.Instant(r.Leaves)
	c.heard = true
	return true
}

// listen reads all that has come, after an answer for as long as there is something, and lets the answer count then.
func (c *clients) listen() {
	if !c.heard {
		return
	}
	for c.look(0) > 0 {
	}
	c.heard = false
	for _, p := range c.pacers {
		p.reached = max(p.reached, p.told)
	}
}

// move lets happen what is due by an instant, as far as it is known, and says how far that is.
func (c *clients) move(to clock.Instant) {
	to = min(to, c.horizon())
	c.advance(to)
	c.through = max(c.through, to)
	c.promise()
	c.Flush(c.cfg.Clock.Now())
}

// reach lets happen what is due by an instant, and waits for the servers to come so far.
func (c *clients) reach(to clock.Instant) {
	for {
		c.move(to)
		if c.horizon() >= to {
			return
		}
		c.look(time.Millisecond)
		c.listen()
		c.impatient()
	}
}

// impatient goes on without servers that do not say how far they have come.
func (c *clients) impatient() {
	for _, p := range c.pacers {
		p.free = p.awaits && time.Since(p.asked) > stepPatience
	}
}
