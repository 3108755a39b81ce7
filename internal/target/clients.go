//go:build linux

package target

import (
	"math"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/dist"
	"spillway/internal/evq"
	"spillway/internal/load"
	"spillway/internal/memproto"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// clients are the sending ends of all connections where requests may wait at their clients or be sent twice: an Outbox for each client and
// server, and all requests under way. On the model ground it lives in computed instants: what happens to a client happens in the order of
// those, and what it does then is done at them, as in the simulator.
type clients struct {
	*MemcachedTarget
	flights

	boxes  []*control.Outbox // by the number of the connection; nil altogether when clients just send
	alarms evq.Alarms        // when each of them wants to be ticked
	out    []control.Dispatch
	saved  *load.Savings   // retries; nil without
	count  uint32          // connections of a client: servers that it may send to
	first  int             // servers among which clients are spread, when each has one
	last   []clock.Instant // by the number of the connection: when something last happened to its client's control of that server
	base   clock.Instant   // what Outboxes are told counts from here: theirs is a clock that begins with the run

	pacers  []*conn       // on the model ground: one to each server
	through clock.Instant // up to where everything has been done
	heard   bool          // an answer of one of them that does not count yet

	live uint32 // the flight whose operation is op
	op   *workloads.Op

	changed func(at clock.Instant) // is told when more or fewer requests are under way; nil for nobody
}

// newClients returns the clients of m, whose connections stand: count for each client.
func newClients(m *MemcachedTarget, count, servers int) *clients {
	c := &clients{
		MemcachedTarget: m, flights: flights{oldest: none, newest: none}, count: uint32(count), first: servers, live: none,
		base: m.cfg.Clock.Now(), last: make([]clock.Instant, len(m.conns)),
	}
	if m.cfg.NewClient != nil {
		c.boxes = make([]*control.Outbox, len(m.conns))
		c.alarms.Grow(len(m.conns))
		for i := range c.boxes {
			client, server := c.global(uint32(i)), c.server(uint32(i))
			// The streams of one server's clients have the same numbers however many servers there are.
			c.boxes[i] = m.cfg.NewClient(dist.Stream(m.cfg.Seed, "client", server<<32|client))
		}
	}
	c.saved = m.cfg.Retry.Savings(len(m.conns) / count)
	return c
}

// global returns the number of the client of connection i among those of all senders.
func (c *clients) global(i uint32) uint64 {
	return uint64(i/c.count)*uint64(c.cfg.Shards) + uint64(c.cfg.Shard)
}

// server returns which server connection i leads to.
func (c *clients) server(i uint32) uint64 {
	if c.count > 1 {
		return uint64(i % c.count)
	}
	return c.global(i) % uint64(c.first)
}

// index numbers the connection of a client to a server.
func (c *clients) index(f *flight) uint32 { return f.client*c.count + uint32(f.server) }

// primary returns which of its connections a client uses first.
func (c *clients) primary(client uint32) uint8 {
	return c.cfg.Retry.Primary(c.global(client*c.count), c.count)
}

// at returns the instant at which something happens on connection i that should have happened at t. It must not be before what has happened
// there already, which on the model ground a message can be that was late.
func (c *clients) at(i uint32, t clock.Instant) clock.Instant {
	c.last[i] = max(c.last[i], t)
	return c.last[i]
}

// issue brings a request to its client.
func (c *clients) issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, client uint32) {
	if c.cfg.Model != nil {
		c.reach(rec.Intended)
		now = rec.Intended
	}
	token := c.take()
	f := &c.list[token]
	f.rec, f.client, f.away, f.handed, f.second, f.kept = *rec, client/uint32(c.cfg.Shards), false, false, false, false
	f.offered = now
	c.saved.Earn(f.client)
	f.server = c.primary(f.client)
	c.link(token)
	c.held++
	c.checkBy(rec.Intended.Add(c.cfg.Timeout))
	c.live, c.op = token, op
	c.offer(now, token)
	if c.live == token { // it waits
		c.list[token].keep(op)
		c.live = none
	}
	c.op = nil
}

// offer brings a request to what controls sending to its server.
func (c *clients) offer(now clock.Instant, token uint32) {
	if c.boxes == nil {
		c.launch(now, token, noDemand)
		return
	}
	f := &c.list[token]
	i := c.index(f)
	now = c.at(i, now)
	begin := len(c.out)
	c.out = c.boxes[i].Offer(now-c.base, control.Outgoing{Token: uint64(token), Class: f.rec.Class, Priority: c.priority(&f.rec)}, c.out)
	c.dispatch(now, i, begin)
}

// hear tells a client's control of a server what it has heard.
func (c *clients) hear(now clock.Instant, i uint32, n control.Notice) {
	if c.boxes == nil {
		return
	}
	now = c.at(i, now)
	begin := len(c.out)
	c.out = c.boxes[i].Hear(now-c.base, n, c.out)
	c.dispatch(now, i, begin)
}

// dispatch does what an Outbox has said from begin on. What is done may make this or another Outbox say more, which goes on top and is
// done first; so the list is a stack of lists, and nothing is allocated.
func (c *clients) dispatch(now clock.Instant, i uint32, begin int) {
	for k := begin; k < len(c.out); k++ {
		c.do(now, i, c.out[k])
	}
	c.out = c.out[:begin]
	next := c.boxes[i].Next()
	if next != clock.Never {
		// An alarm at the instant itself could go off for ever: whoever waits for time to pass waits for some of it.
		next = max(next+c.base, now+1)
	}
	c.alarms.Set(i, uint64(next))
}

func (c *clients) do(now clock.Instant, i uint32, d control.Dispatch) {
	if d.Kind == control.Inform {
		c.ask(now, i, d.Demand)
		return
	}
	token := uint32(d.Token)
	switch {
	case d.Kind == control.Send:
		c.launch(now, token, d.Demand)
	case !c.resend(now, token, load.Reply{Queued: -1, Service: -1}):
		c.settle(token, load.TurnedAway(&c.list[token].rec, now))
		c.done(token)
	}
}

// noDemand says that a client does not say how much it would like to send, since nothing keeps it from sending.
const noDemand = -1

// launch hands a request to its connection.
func (c *clients) launch(now clock.Instant, token uint32, demand int) {
	f := &c.list[token]
	i := c.index(f)
	to := c.conns[i]
	if to.State != poll.Up || to.full(c.cfg.Window) {
		outcome := load.Broken // the connection was offered the request in time; that there is none is not the generator's fault
		if to.State == poll.Up {
			c.counters.WindowFull++
			outcome = load.NotSent
		} else if f.rec.Attempts == 0 {
			f.left = now
			f.handedOver(now)
			f.rec.Attempts = 1
		}
		c.settle(token, load.Reply{At: now, Outcome: outcome, Queued: -1, Service: -1})
		c.done(token)
		c.hear(now, i, control.Notice{Kind: control.Lost, Credits: -1})
		return
	}
	f.away, f.left, f.stamped = true, now, 0
	if c.cfg.Model != nil {
		f.handedOver(now)
	}
	f.rec.Attempts++
	op := &f.op
	if c.live == token {
		op = c.op
		if c.saved != nil {
			f.keep(op) // it may have to be sent again
		}
		c.live = none
	}
	before := len(to.out)
	asks := c.asks(&f.rec, now)
	asks.HasDemand, asks.Demand = demand >= 0, wireDemand(demand)
	c.encode(to, &f.rec, op, asks)
	f.rec.BytesOut = uint32(min(len(to.out)-before, math.MaxUint32))
	to.pending.tag(&f.rec, token)
	c.touch(to)
}

// wireDemand is a demand as it goes over the wire.
func wireDemand(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

// ask sends a question for credits.
func (c *clients) ask(now clock.Instant, i uint32, demand int) {
	to := c.conns[i]
	if to.State != poll.Up {
		to.unasked = true // until it stands again
		return
	}
	asks := memproto.Asks{HasDemand: true, Demand: wireDemand(demand)}
	if c.cfg.Model != nil {
		asks.Timed, asks.Sent = true, int64(now)
	}
	before := len(to.out)
	to.out = memproto.AppendMetaNoop(to.out, asks)
	to.questions++
	// Of its record, Sent is the instant at which it was asked, and Done that at which it was handed over.
	to.pending.tag(&reqlog.Record{BytesOut: uint32(len(to.out) - before), Sent: now}, question)
	c.touch(to)
}

// resend offers a request to the next server, if it may be retried. r is what the server that shed it has said; without a reason its client's
// own control refused it.
func (c *clients) resend(now clock.Instant, token uint32, r load.Reply) bool {
	f := &c.list[token]
	if f.second || !c.saved.Has(f.client) {
		return false
	}
	next := uint8((uint32(f.server) + 1) % c.count)
	if c.conns[f.client*c.count+uint32(next)].State != poll.Up {
		return false // what one server has shed did not fail because another is away
	}
	c.saved.Spend(f.client)
	f.second, f.away = true, false
	f.rec.Reason, f.rec.Queued, f.rec.Service = uint8(r.Reason), r.Queued, r.Service
	f.server = next
	c.offer(now, token)
	return true
}

// settle decides the fate of a request whose client waits.
func (c *clients) settle(token uint32, r load.Reply) {
	f := &c.list[token]
	if !f.handed {
		c.held--
	}
	c.unlink(token)
	c.delivered = true
	c.cfg.judge(&f.rec, r)
	if c.changed != nil {
		c.changed(r.At)
	}
}

// done frees a flight that nothing refers to.
func (c *clients) done(token uint32) {
	if c.live == token {
		c.live = none
	}
	c.give(token)
}

// lose settles what was under way on a connection that is broken, and tells its client. The client hears first that the connection is gone:
// otherwise it would send others in place of those that are lost.
func (c *clients) lose(now clock.Instant, to *conn) {
	i := uint32(to.Token)
	to.questions = 0
	c.hear(now, i, control.Notice{Kind: control.Parted, Credits: -1})
	for to.pending.len() > 0 {
		at := to.pending.first
		answered, token := to.pending.answered(at), to.pending.token(at)
		to.pending.pop()
		if answered || token == question {
			continue
		}
		waited := c.list[token].waiting
		if waited {
			c.list[token].handedOver(now) // it was about to be
			c.settle(token, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		}
		c.done(token)
		if waited {
			c.hear(now, i, control.Notice{Kind: control.Lost, Credits: -1})
		}
	}
}

// expire settles the requests whose clients stop waiting by now.
func (c *clients) expire(now clock.Instant) {
	for c.oldest != none {
		token := c.oldest
		f := &c.list[token]
		giveUp := f.rec.Intended.Add(c.cfg.Timeout)
		if giveUp > now {
			c.checkBy(giveUp)
			return
		}
		at := now
		if c.cfg.Model != nil {
			at = giveUp
		}
		to := c.conns[c.index(f)]
		if f.away {
			f.handedOver(now) // if it was about to be
			if to.Blocked {
				c.counters.TimedOutWrite++
			} else {
				c.counters.TimedOutReply++
			}
		}
		away, i := f.away, c.index(f)
		c.settle(token, load.GivenUp(&f.rec, at))
		if away {
			c.hear(at, i, control.Notice{Kind: control.Lost, Credits: -1})
		} else {
			c.withdraw(at, i, token)
		}
	}
}

// withdraw takes a request that its client has given up out of the Outbox in which it waits.
func (c *clients) withdraw(now clock.Instant, i, token uint32) {
	now = c.at(i, now)
	c.done(token)
	begin := len(c.out)
	_, c.out = c.boxes[i].Withdraw(now-c.base, uint64(token), c.out)
	c.dispatch(now, i, begin)
}

// wake ticks the Outbox whose alarm is due first, at the instant of the alarm: what leaves then and is handed over later, because this thread was
// late, was not kept back by its client's control for so long. If nothing comes of that it is the present for this Outbox too.
func (c *clients) wake(now clock.Instant) {
	i := c.alarms.First()
	at := c.at(i, min(c.next(), now))
	begin := len(c.out)
	c.out = c.boxes[i].Tick(at-c.base, c.out)
	if len(c.out) == begin && at < now {
		at = c.at(i, now)
		c.out = c.boxes[i].Tick(at-c.base, c.out)
	}
	c.dispatch(at, i, begin)
}

// next returns when something happens by itself.
func (c *clients) next() clock.Instant { return clock.Instant(c.alarms.Next()) }

// turn lets happen what time has made due, and hands over what that has let go.
func (c *clients) turn(now clock.Instant) {
	for c.cfg.Model == nil && c.next() <= now {
		c.wake(now)
	}
	c.Flush(now)
}
