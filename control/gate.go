package control

import (
	"time"

	"spillway/clock"
)

// GateConfig says how much a Gate serves and holds.
type GateConfig struct {
	Slots int // how many requests may be in service at once; 0 for no limit
	Queue int // how many requests may wait; 0 for no limit
}

// Gate is a queue in front of a number of slots, under one Controller. It decides nothing itself except three things: nobody starts
// without a slot, nobody is queued beyond the bound (QueueFull), nobody starts after its deadline (Expired). The queue is first in, first
// out, except that those whom a controller calls Express go past the others, and that an Orderer may have the newest go first.
//
// Its driver calls Arrive when a request has been read, Finish when one has been served, Withdraw when the sender of a waiting one
// went away, Tick when the instant that the last Tick returned has come; and then does what the returned actions say, in order. The
// instants passed in must not decrease.
//
// What a controller may rely on: Decide(AtArrival) is followed by exactly one event of the same request, Queued or
// Refused(AtArrival), before anything else is asked or told. Decide(AtDequeue) is asked only about who is next and only
// while a slot is free; Admit is followed at once by Started, Reject by Refused(AtDequeue), and Wait means that the same request
// will be asked about again after the next call to the Gate. A controller that says Wait while nothing is in service must
// therefore always return an instant from Tick, never clock.Never: no Finish is to come that would ask it again.
type Gate struct {
	controller Controller
	issuer     Issuer  // the controller, if it is one
	orderer    Orderer // likewise
	slots      int
	bound      int
	queue      waiting
	express    waiting // those who go first; not made before there is one
	inFlight   int     // counted apart from queue and service, so that check can compare
	asked      Request // the request that Decide is shown; a field, because a local one would be allocated at each call
	stats      Stats
}

// Stats are a Gate's counts since it was made. At any time Arrived = Started + Queued + the sum of Shed, and
// Started = Finished + InService.
type Stats struct {
	Arrived   uint64
	Started   uint64
	Finished  uint64             // the failed ones included
	Failed    uint64             // finished with an error
	Shed      [NumReasons]uint64 // refused, by reason; the withdrawn are Cancelled or Expired
	Queued    int                // waiting now
	InService int                // started and not yet finished
	MaxQueued int                // the most that ever waited
}

// NewGate returns a Gate that asks c. It panics when a number in config is negative.
func NewGate(c Controller, config GateConfig) *Gate {
	switch {
	case c == nil:
		panic("control: gate without a controller")
	case config.Slots < 0:
		panic("control: negative slots")
	case config.Queue < 0:
		panic("control: negative queue")
	}
	g := &Gate{controller: c, slots: config.Slots, bound: config.Queue, queue: newWaiting()}
	g.issuer, _ = c.(Issuer)
	g.orderer, _ = c.(Orderer)
	return g
}

// Arrive takes in a request. Among the actions is exactly one that names r: Start, Refuse, or Queue with the Place it waits at.
// r.Arrived is set here, and r.Tag is the controller's. r.QueueDelay is the driver's: a driver that knows of no run queue and no idle
// core passes QueueDelay.
//
// As after every call, there may be Credit actions of a controller that is an Issuer.
func (g *Gate) Arrive(now clock.Instant, r Request, out []Action) []Action {
	g.stats.Arrived++
	r.Arrived, r.Tag = now, 0
	if g.queued() > 0 {
		// Those at the head may have expired, or their controller changed its mind with time: r must not be refused for the room
		// that they no longer need.
		out = g.pump(now, out)
	}
	d := g.ask(now, AtArrival, &r)
	if d.Verdict != Reject && g.full() {
		d.Verdict, d.Reason = Reject, QueueFull
	}
	if d.Verdict == Reject {
		return g.wake(now, g.refuse(now, AtArrival, d.Reason, r, out))
	}
	g.controller.Observe(now, Event{Kind: Queued, Request: r})
	g.inFlight++
	place := g.push(&r, d.Express)
	out = g.pump(now, out)
	if g.queued() == 0 {
		return out
	}
	if _, _, waits := g.find(place); waits {
		g.stats.MaxQueued = max(g.stats.MaxQueued, g.queued())
		out = append(out, Action{Kind: Queue, Place: place, Request: r})
	}
	return out
}

// Finish takes note that r, as its Start action gave it, has been served in the time service, and starts whoever can start now. The driver
// has added to r.Waited what r waited since it was started, for a core, a lock or a section. It must be
// called once for each Start: the Gate counts those in service and does not know them by name, so a second call would give away the
// slot of another.
func (g *Gate) Finish(now clock.Instant, r Request, service time.Duration, failed bool, out []Action) []Action {
	if g.stats.InService == 0 {
		panic("control: finish with nothing in service")
	}
	g.stats.InService--
	g.inFlight--
	g.stats.Finished++
	if failed {
		g.stats.Failed++
	}
	g.controller.Observe(now, Event{Kind: Finished, Failed: failed, Service: service, Request: r})
	return g.pump(now, out)
}

// Withdraw takes the request waiting at p out of the queue, because its sender went away or does not want to wait any longer. It counts as
// refused with reason Cancelled, or Expired when its deadline has passed, but no action names it: whoever withdraws it knows. removed
// is false when it no longer waits at p, because it has been started or refused: an action has said so. The cost does not depend on the
// length of the queue.
//
// The Gate itself looks at deadlines whenever it is called, at the head of the queue. A driver that must answer an expired request at its
// deadline, though everybody before it waits on and nothing else happens, withdraws it then.
func (g *Gate) Withdraw(now clock.Instant, p Place, out []Action) (removed bool, _ []Action) {
	q, w, ok := g.find(p)
	if !ok {
		return false, out
	}
	r := w.request
	r.Waited += now.Sub(r.Arrived)
	g.leave(q, w)
	why := Cancelled
	if r.expired(now) {
		why = Expired
	}
	g.observeRefused(now, AtDequeue, why, r)
	return true, g.pump(now, out)
}

// Tick lets the controller do its periodic work, starts whoever can start now, and returns the instant at which it wants to be called
// next. The controller sees s as it is, its QueueDelay too: see Arrive.
func (g *Gate) Tick(now clock.Instant, s Signals, out []Action) ([]Action, clock.Instant) {
	next := g.controller.Tick(now, s)
	return g.pump(now, out), next
}

// QueueDelay returns the age of the oldest waiter, 0 when nobody waits. Whether it is what controllers are to see only the driver knows: a
// request may wait here for a limit or a controller while cores are idle, and then there is no queueing delay.
func (g *Gate) QueueDelay(now clock.Instant) time.Duration {
	return max(g.queue.age(now), g.express.age(now))
}

// Stats returns the counts so far.
func (g *Gate) Stats() Stats {
	s := g.stats
	s.Queued = g.queued()
	return s
}

// pump refuses those who have expired at the old ends of the queues, and starts those that may start.
func (g *Gate) pump(now clock.Instant, out []Action) []Action {
	var order Order
	if g.orderer != nil && g.queue.n > 0 {
		order = g.orderer.Order(now)
	}
	for g.queued() > 0 {
		// Expired ones go even while no slot is free: their senders learn of it sooner, and newcomers find room.
		out = g.expire(now, &g.express, 0, out)
		out = g.expire(now, &g.queue, order.MaxAge, out)
		q, w := g.next(order.Newest)
		if w == nil || g.slots > 0 && g.stats.InService >= g.slots {
			break
		}
		r := w.request
		r.Waited += now.Sub(r.Arrived)
		if order.Newest && r.expired(now) { // it may be, though the oldest is not
			g.leave(q, w)
			out = g.refuse(now, AtDequeue, Expired, r, out)
			continue
		}
		d := g.ask(now, AtDequeue, &r)
		if d.Verdict == Wait {
			w.request.Tag = r.Tag
			break
		}
		g.leave(q, w)
		if d.Verdict == Reject {
			out = g.refuse(now, AtDequeue, d.Reason, r, out)
			continue
		}
		g.inFlight++ // it left the queue, not the Gate
		g.stats.InService++
		g.stats.Started++
		g.controller.Observe(now, Event{Kind: Started, Request: r})
		out = append(out, Action{Kind: Start, Request: r})
	}
	g.check()
	return g.wake(now, out)
}

// expire refuses those at the old end of q whose deadline has passed, or who have waited for longer than maxAge if that is not 0.
func (g *Gate) expire(now clock.Instant, q *waiting, maxAge time.Duration, out []Action) []Action {
	for w := q.oldest(); w != nil; w = q.oldest() {
		age := now.Sub(w.request.Arrived)
		if !w.request.expired(now) && (maxAge == 0 || age <= maxAge) {
			break
		}
		r := w.request
		r.Waited += age
		g.leave(q, w)
		out = g.refuse(now, AtDequeue, Expired, r, out)
	}
	return out
}

// next returns who is next, nil when nobody waits.
func (g *Gate) next(newest bool) (*waiting, *waiter) {
	switch {
	case g.express.n > 0:
		return &g.express, g.express.oldest()
	case newest:
		return &g.queue, g.queue.newest()
	default:
		return &g.queue, g.queue.oldest()
	}
}

// wake appends what silent clients are to be told.
func (g *Gate) wake(now clock.Instant, out []Action) []Action {
	if g.issuer == nil {
		return out
	}
	return g.issuer.Wake(now, out)
}

// expired reports whether the deadline of r has passed.
func (r *Request) expired(now clock.Instant) bool { return r.Deadline != 0 && now > r.Deadline }

// ask puts r before the controller and keeps the tag of its answer with r. The controller is shown a copy, so it cannot change r.
func (g *Gate) ask(now clock.Instant, s Stage, r *Request) Decision {
	g.asked = *r
	d := g.controller.Decide(now, s, &g.asked)
	if d.Tag != 0 {
		r.Tag = d.Tag
	}
	return d
}

// expressPlace marks the places of those who go first. Places count waiters in their lower half, and never have that many.
const expressPlace Place = 1 << 31

func (g *Gate) push(r *Request, express bool) Place {
	if !express {
		return g.queue.push(r)
	}
	if g.express.made == 0 {
		g.express = newWaiting()
	}
	return g.express.push(r) | expressPlace
}

func (g *Gate) find(p Place) (*waiting, *waiter, bool) {
	q := &g.queue
	if p&expressPlace != 0 {
		q = &g.express
	}
	w, ok := q.find(p &^ expressPlace)
	return q, w, ok
}

// leave takes w out of q.
func (g *Gate) leave(q *waiting, w *waiter) {
	q.remove(w)
	g.inFlight--
}

// queued returns how many wait.
func (g *Gate) queued() int { return g.queue.n + g.express.n }

func (g *Gate) refuse(now clock.Instant, s Stage, why Reason, r Request, out []Action) []Action {
	g.observeRefused(now, s, why, r)
	return append(out, Action{Kind: Refuse, Reason: why, Request: r})
}

func (g *Gate) observeRefused(now clock.Instant, s Stage, why Reason, r Request) {
	if why == NoReason {
		panic("control: controller rejected without a reason")
	}
	g.stats.Shed[why]++
	g.controller.Observe(now, Event{Kind: Refused, Stage: s, Reason: why, Request: r})
}

// full reports whether the queue is at its bound.
func (g *Gate) full() bool { return g.bound > 0 && g.queued() >= g.bound }

// check panics when the Gate's own counts contradict each other. It costs three comparisons and stays on: a lost slot would show as
// nothing but a slower server.
func (g *Gate) check() {
	switch busy := g.stats.InService; {
	case g.slots > 0 && busy > g.slots:
		panic("control: more in service than slots")
	case g.bound > 0 && g.queued() > g.bound:
		panic("control: more queued than the bound")
	case g.inFlight != g.queued()+busy:
		panic("control: in-flight is not queued plus in service")
	}
}
