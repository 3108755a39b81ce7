package control

import (
	"iter"

	"spillway/clock"
)

// Chain is several controllers in a row that act as one. Each must agree before a request goes on.
//
// They are asked from left to right. The first Reject ends the asking and is the Chain's answer. So does the first Wait at
// AtDequeue; at AtArrival, where Wait only says that the request will not start at once, the others are asked all the same.
// A request is queued only when all have been asked and none rejected it.
//
// Events follow the asking. A request refused at arrival is reported to those that were asked about it, the one that rejected it
// included, so that they can give back what they set aside; those further right have never heard of it and are told nothing. When
// the Gate itself refuses (QueueFull), all were asked and all are told. Everything that happens after Queued is told to all.
//
// At AtDequeue a member further left may be asked several times about one request, because one further right said Wait. Those that
// say Wait (concurrency limits) therefore belong on the left of those that judge how long a request has waited (queue management),
// which should be asked only when it is about to leave the queue.
//
// A request carries one tag: that of the leftmost member that gave one. At most one member should use tags. It is Express when one member
// says so. The newest go first when one member wants it, and nobody may wait for longer than the most impatient member allows.
type Chain struct {
	members  []Controller
	orderers []Orderer // those of them that are
	asked    int       // how many were asked about the request that arrived last
}

var (
	_ Controller = (*Chain)(nil)
	_ Meter      = (*Chain)(nil)
	_ Orderer    = (*Chain)(nil)
	_ Issuer     = (*issuingChain)(nil)
)

// issuingChain is a Chain with a member that hands out credits. It is a type of its own so that a Chain without such a member is no
// Issuer.
type issuingChain struct {
	*Chain
	Issuer
}

// NewChain returns a Chain of members. It is an Issuer when one of them is, and a Meter with the meters of all. It panics without
// members, and with more than one Issuer: a client cannot hold the credits of two pools.
func NewChain(members ...Controller) Controller {
	if len(members) == 0 {
		panic("control: chain without members")
	}
	c := &Chain{members: append([]Controller(nil), members...)}
	var issuer Issuer
	for _, m := range members {
		if m == nil {
			panic("control: chain with a nil member")
		}
		if o, ok := m.(Orderer); ok {
			c.orderers = append(c.orderers, o)
		}
		i, ok := m.(Issuer)
		if ok && issuer != nil {
			panic("control: chain with two issuers of credits")
		}
		if ok {
			issuer = i
		}
	}
	if issuer != nil {
		return &issuingChain{c, issuer}
	}
	return c
}

// Members returns the controllers that c consists of: the members of a Chain, or c itself.
func Members(c Controller) []Controller {
	switch c := c.(type) {
	case *Chain:
		return c.members
	case *issuingChain:
		return c.members
	}
	return []Controller{c}
}

// Decide asks the members as the Chain's documentation says.
func (c *Chain) Decide(now clock.Instant, s Stage, r *Request) Decision {
	var d Decision
	asked := 0
	for _, m := range c.members {
		asked++
		a := m.Decide(now, s, r)
		if d.Tag == 0 {
			d.Tag = a.Tag
		}
		d.Express = d.Express || a.Express
		if a.Verdict == Admit {
			continue
		}
		d.Verdict, d.Reason = a.Verdict, a.Reason
		if a.Verdict == Reject || s == AtDequeue {
			break
		}
	}
	if s == AtArrival {
		c.asked = asked
	}
	return d
}

// Observe passes e on to the members that were asked about its request.
func (c *Chain) Observe(now clock.Instant, e Event) {
	for _, m := range c.told(e.Kind, e.Stage) {
		m.Observe(now, e)
	}
}

// Observe is Chain's, written once more: as a promoted method it would be reached by way of a copy of e, which costs as much as the rest of it.
func (c *issuingChain) Observe(now clock.Instant, e Event) {
	for _, m := range c.told(e.Kind, e.Stage) {
		m.Observe(now, e)
	}
}

// told returns the members that are to be told of an event.
func (c *Chain) told(k EventKind, s Stage) []Controller {
	if k == Refused && s == AtArrival {
		// The Gate reports a refusal at arrival before it asks about another arrival, so the count is still that of this request.
		return c.members[:c.asked]
	}
	return c.members
}

// Order is what the members that care for it agree on.
func (c *Chain) Order(now clock.Instant) (order Order) {
	for _, o := range c.orderers {
		wanted := o.Order(now)
		order.Newest = order.Newest || wanted.Newest
		if wanted.MaxAge > 0 && (order.MaxAge == 0 || wanted.MaxAge < order.MaxAge) {
			order.MaxAge = wanted.MaxAge
		}
	}
	return order
}

// Tick ticks all members and returns the earliest instant that one of them wants.
func (c *Chain) Tick(now clock.Instant, s Signals) clock.Instant {
	next := clock.Never
	for _, m := range c.members {
		next = min(next, m.Tick(now, s))
	}
	return next
}

// Meters yields the meters of all members, from left to right.
func (c *Chain) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, m := range c.members {
			meter, ok := m.(Meter)
			if !ok {
				continue
			}
			for name, value := range meter.Meters() {
				if !yield(name, value) {
					return
				}
			}
		}
	}
}
