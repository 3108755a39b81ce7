package control

import (
	"slices"
	"time"

	"spillway/clock"
)

// Throttle is a controller's other half, at one client of one server: it decides whether a request leaves at all. Like everything here it
// is a state machine of its owner.
type Throttle interface {
	// Permit is asked about the oldest request that waits in the client's Outbox. Admit lets it leave now, and counts as sent. Wait leaves
	// it where it is; Reject refuses it at the client, at no cost to the server.
	Permit(now clock.Instant, r *Outgoing) Verdict
	// Hear is told what came of a request, and what the server said with it.
	Hear(now clock.Instant, n Notice)
	// Next returns when Permit may answer otherwise although nothing is heard; clock.Never if only news from the server can change it.
	Next(now clock.Instant) clock.Instant
	// Ask returns whether the client should now ask the server for credits without a request. It has asked when that returns true: the
	// next Heard notice of kind Told is the answer. waiting is how many requests wait.
	Ask(now clock.Instant, waiting int) bool
}

// Outgoing is a request at its client.
type Outgoing struct {
	Token    uint64 // names it to the driver
	Class    uint16
	Priority uint16
}

// NoticeKind says what a client has heard.
type NoticeKind uint8

// What a client may hear.
const (
	Replied NoticeKind = iota // to a request that Permit admitted; exactly one of Replied and Lost for each
	Lost                      // the client stopped waiting for it, or its connection broke
	Told                      // the answer to a question without a request, or the reply to one that counts as lost already
	Parted                    // the connection broke: what the server knew of this client is gone, and open questions have no answer
)

// Notice is what a client heard.
type Notice struct {
	Kind    NoticeKind
	Shed    bool          // of Replied: the server refused it
	Latency time.Duration // of Replied: since it was due to leave
	Credits int           // what the server said, as in Issuer.Credits; -1 when it said nothing
}

// OutboxConfig bounds what waits at a client.
type OutboxConfig struct {
	Queue  int           // how many requests may wait; one more refuses the oldest. 0 for no limit
	MaxAge time.Duration // how long one may wait until it is refused; 0 for no limit
}

// Outbox is the queue of requests of one client that its Throttle does not let go yet, first in, first out.
type Outbox struct {
	throttle Throttle
	config   OutboxConfig
	waiting  []pending // the first head of them have gone
	head     int
	now      clock.Instant
}

type pending struct {
	Outgoing
	since clock.Instant
}

// DispatchKind says what a driver has to do for a client.
type DispatchKind uint8

// What there is to do.
const (
	Send   DispatchKind = iota // the request, with Demand
	Shun                       // the request is refused: it never leaves
	Inform                     // send a question for credits, with Demand
)

// Dispatch is one thing to do. Demand is how many requests wait behind it.
type Dispatch struct {
	Kind   DispatchKind
	Token  uint64
	Demand int
}

// NewOutbox returns an empty Outbox. It panics when a number in c is negative.
func NewOutbox(t Throttle, c OutboxConfig) *Outbox {
	if t == nil || c.Queue < 0 || c.MaxAge < 0 {
		panic("control: outbox without a throttle, or with negative bounds")
	}
	return &Outbox{throttle: t, config: c}
}

// Offer brings a request that is due. What to do, about this one and others, is appended to out.
func (o *Outbox) Offer(now clock.Instant, r Outgoing, out []Dispatch) []Dispatch {
	out = o.pump(now, out)
	if o.config.Queue > 0 && o.Len() >= o.config.Queue {
		out = append(out, Dispatch{Kind: Shun, Token: o.pop().Token})
	}
	o.waiting = append(o.waiting, pending{Outgoing: r, since: now})
	return o.pump(now, out)
}

// Hear passes on what the client has heard, and lets go what may go now.
func (o *Outbox) Hear(now clock.Instant, n Notice, out []Dispatch) []Dispatch {
	o.throttle.Hear(now, n)
	return o.pump(now, out)
}

// Tick lets go or refuses what time has made due.
func (o *Outbox) Tick(now clock.Instant, out []Dispatch) []Dispatch { return o.pump(now, out) }

// Withdraw takes out a request whose sender has stopped waiting for it. Left where it is, it would count as demand, keep a place in the queue, and
// in the end spend a credit or a token on nothing. found is false when it does not wait here: it has left, or been refused. What may go in its
// place is appended to out.
func (o *Outbox) Withdraw(now clock.Instant, token uint64, out []Dispatch) (found bool, _ []Dispatch) {
	// Senders give up the oldest first, so the search ends at its beginning, but for requests that have been offered to another server before.
	i := slices.IndexFunc(o.waiting[o.head:], func(p pending) bool { return p.Token == token })
	switch {
	case i < 0:
		return false, out
	case i == 0:
		o.pop()
	default:
		o.waiting = slices.Delete(o.waiting, o.head+i, o.head+i+1)
	}
	return true, o.pump(now, out)
}

// Next returns when Tick should be called; clock.Never when nothing waits for time to pass.
func (o *Outbox) Next() clock.Instant {
	if o.Len() == 0 {
		return clock.Never
	}
	next := o.throttle.Next(o.now)
	if o.config.MaxAge > 0 {
		next = min(next, o.waiting[o.head].since.Add(o.config.MaxAge))
	}
	return next
}

// Throttle returns what NewOutbox was given, for its meters.
func (o *Outbox) Throttle() Throttle { return o.throttle }

// Len returns how many requests wait.
func (o *Outbox) Len() int { return len(o.waiting) - o.head }

// pump lets requests go, oldest first, until one has to wait.
func (o *Outbox) pump(now clock.Instant, out []Dispatch) []Dispatch {
	o.now = now
	for o.Len() > 0 {
		p := &o.waiting[o.head]
		if o.config.MaxAge > 0 && now >= p.since.Add(o.config.MaxAge) {
			out = append(out, Dispatch{Kind: Shun, Token: o.pop().Token})
			continue
		}
		verdict := o.throttle.Permit(now, &p.Outgoing)
		if verdict == Wait {
			break
		}
		kind := Send
		if verdict == Reject {
			kind = Shun
		}
		token := o.pop().Token
		out = append(out, Dispatch{Kind: kind, Token: token, Demand: o.Len()})
	}
	if o.throttle.Ask(now, o.Len()) {
		out = append(out, Dispatch{Kind: Inform, Demand: o.Len()})
	}
	return out
}

func (o *Outbox) pop() pending {
	p := o.waiting[o.head]
	o.head++
	if o.head > len(o.waiting)/2 {
		n := copy(o.waiting, o.waiting[o.head:])
		o.waiting, o.head = o.waiting[:n], 0
	}
	return p
}
