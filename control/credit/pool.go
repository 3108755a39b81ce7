// Package credit bounds how many requests are under way by credits, which clients hold before they send. A credit is permission to have one
// request under way; who has none lets its requests wait, or gives them up, where that costs the server nothing.
//
// A Pool shares a number of credits out among clients; it is the same for every law here. A law moves the size of the pool: Breakwater
// by the queueing delay, Protego by what more requests bring in completions, Svalinn by pairs of small experiments on a utility. Each law
// also turns requests away at arrival when the queueing delay is beyond what they may be asked to bear. The client's half is the Wallet.
package credit

import (
	"time"

	"spillway/clock"
	"spillway/control"
)

// Window is how many requests of one client the published servers have room for. A client is granted one credit less than that at most
// (reference: the servers of Breakwater, Protego and Svalinn, in which a full window would leave no room to tell full from empty). The pool is
// bounded by a whole Window for each client, as there, so that the laws move in the published range.
const (
	Window   = 64
	maxGrant = Window - 1
)

// PoolConfig is what the distribution of credits has to know.
type PoolConfig struct {
	Cores       int           // the least size of the pool, and the first one
	RTT         time.Duration // between server and clients, without queues: how often clients without credits are looked after
	ClientDelay time.Duration // for how long requests wait at a client without credits; 0 for as long as it takes
}

// Pool is a number of credits and its distribution over clients, for a law to embed. It implements control.Issuer.
//
// A client exists for the Pool from its first Demand until it is forgotten. Requests of others, who have never said how much they would like
// to send, hold no credits and are not held against anybody. The number of a client that has gone should not be used again while
// requests of it are under way: the credits of the new one would be gone with a reply that nobody reads.
//
// What a client holds is worked out when a reply to it is written, and only then: it grows while the pool has unused credits, to what
// the client has under way and would like to send and a little beyond (overcommit), and shrinks by one for each reply while more is granted
// than there is. A client that is left without credits and without requests is drained. Nobody replies to it, so when credits are free it is
// told so explicitly: first those that have something to send, the latest first, then the others, the earliest first.
//
// Reference: Breakwater (OSDI '20), section 4, and its code, the part that Protego and Svalinn took over.
type Pool struct {
	config  PoolConfig
	stale   time.Duration // age at which the demand of a drained client is out of date; negative for never
	size    int           // credits that there are
	used    int           // credits that are granted: the sum over clients
	n       int           // registered clients
	clients map[uint32]*client
	last    *client // the client of the last call; most calls come in pairs
	high    drained // clients with a demand
	low     drained // clients without
	changed bool    // the size has changed since drained clients were last looked after
	woke    clock.Instant
	told    []*client // those that are being told; a field, so that it is allocated once
}

// client is what the Pool knows of one client.
type client struct {
	id         uint32
	credits    int
	pending    int // requests at the server that came while it was registered
	demand     int
	registered bool
	shed       bool // one of its requests was turned away since its credits were last worked out
	list       *drained
	prev, next *client
	since      clock.Instant // when it was put on its list
}

var _ control.Issuer = (*Pool)(nil)

// counted marks, in the tag of a request, that it is among the pending ones of its client. The bits above are the law's.
const counted = 1

// newPool returns the pool of a server without clients.
func newPool(c PoolConfig) Pool {
	if c.Cores < 1 {
		panic("credit: a pool without cores")
	}
	stale := time.Duration(-1)
	if c.ClientDelay > 0 {
		// What a client wanted when it sent has been given up by the time an answer would reach it.
		stale = max(c.ClientDelay-c.RTT, 0)
	}
	return Pool{config: c, stale: stale, size: c.Cores, clients: make(map[uint32]*client)}
}

// Size returns how many credits there are.
func (p *Pool) Size() int { return p.size }

// Used returns how many credits are granted.
func (p *Pool) Used() int { return p.used }

// Clients returns how many clients are registered.
func (p *Pool) Clients() int { return p.n }

// find returns what is known of a client, nil when nothing is.
func (p *Pool) find(id uint32) *client {
	if p.last != nil && p.last.id == id {
		return p.last
	}
	c := p.clients[id]
	if c != nil {
		p.last = c
	}
	return c
}

// Demand records how many requests a client would like to send beside those already sent.
func (p *Pool) Demand(_ clock.Instant, id uint32, n int) {
	c := p.find(id)
	if c == nil {
		c = &client{id: id}
		p.clients[id], p.last = c, c
	}
	if !c.registered {
		c.registered = true
		p.n++
	}
	c.demand = max(n, 0)
	if c.list != nil {
		c.list.remove(c) // it will hear of its credits by the reply
	}
}

// arrive counts a request in when its client is registered, and takes back what that client holds beyond its needs. It reports whether the
// request is counted.
func (p *Pool) arrive(id uint32) bool {
	c := p.find(id)
	if c == nil || !c.registered {
		return false
	}
	c.pending++
	if most := c.pending + c.demand; c.credits > most {
		p.grant(c, most)
	}
	return true
}

// end counts a request out that arrive has counted in.
func (p *Pool) end(e *control.Event) {
	if e.Request.Tag&counted == 0 {
		return
	}
	c := p.find(e.Request.Client)
	if c == nil || c.pending == 0 {
		return // somebody else's tag, by a Chain with two that use tags
	}
	c.pending--
	c.shed = c.shed || e.Kind == control.Refused || e.Failed
	p.release(c)
}

// release forgets a client that is gone once nothing of it is under way any more. Until then it is kept: should it come back, its old requests
// are still there.
func (p *Pool) release(c *client) {
	if c.registered || c.pending > 0 {
		return
	}
	delete(p.clients, c.id)
	if p.last == c {
		p.last = nil
	}
}

// Credits works out what a client holds from now on, and returns it.
func (p *Pool) Credits(now clock.Instant, id uint32) int {
	c := p.find(id)
	if c == nil || !c.registered {
		return 0
	}
	if c.list != nil {
		c.list.remove(c)
	}
	p.update(c, false)
	c.shed = false
	if c.credits == 0 && c.pending == 0 {
		c.since = now
		if c.demand > 0 {
			p.high.pushFront(c)
		} else {
			p.low.pushBack(c)
		}
	}
	return c.credits
}

// update is the rule by which credits are distributed.
func (p *Pool) update(c *client, woken bool) {
	unused := p.size - p.used
	overcommit := max(unused/p.n, 1)
	want := c.credits
	switch {
	case unused > 0:
		want = min(c.pending+c.demand+overcommit, c.credits+unused)
	case unused < 0:
		want--
	}
	if woken || p.n <= p.config.Cores {
		want = max(want, overcommit)
	}
	if c.credits > 0 && want == 0 && !c.shed {
		want = overcommit // who was served need not be silenced
	}
	want = max(want, c.pending)
	p.grant(c, min(want, maxGrant, c.pending+c.demand+overcommit))
}

// grant sets what a client holds.
func (p *Pool) grant(c *client, credits int) {
	p.used += credits - c.credits
	c.credits = credits
}

// Wake tells drained clients of credits when the size of the pool has changed, or a round trip after the last time. Each gets one, as far
// as they go; when that leaves some, what they get is what the rule gives them.
func (p *Pool) Wake(now clock.Instant, out []control.Action) []control.Action {
	if !p.changed && now.Sub(p.woke) <= p.config.RTT {
		return out
	}
	p.changed, p.woke = false, now
	p.told = p.told[:0]
	for unused := p.size - p.used; unused > 0; unused-- {
		c := p.nextDrained(now)
		if c == nil {
			break
		}
		p.grant(c, 1)
		p.told = append(p.told, c)
	}
	for _, c := range p.told {
		p.update(c, true)
		out = append(out, control.Action{Kind: control.Credit, Credits: int32(c.credits), Request: control.Request{Client: c.id}})
	}
	return out
}

// demotions is how many clients change lists at most whenever one is taken off them. It is more than one, so that they are soon through, and
// few, so that nobody waits until a hundred thousand are.
const demotions = 8

// nextDrained takes the client off its list whose turn it is, nil when nobody is drained.
func (p *Pool) nextDrained(now clock.Instant) *client {
	for range demotions {
		c := p.high.last
		if c == nil || !p.outdated(now, c) {
			break
		}
		p.high.remove(c)
		c.demand = 0
		p.low.pushBack(c)
	}
	c := p.high.first
	if c == nil || p.outdated(now, c) {
		c = p.low.first
	}
	if c != nil {
		c.list.remove(c)
	}
	return c
}

// outdated reports whether a drained client has given up by now what it wanted when it was drained.
func (p *Pool) outdated(now clock.Instant, c *client) bool {
	return p.stale >= 0 && now.Sub(c.since) > p.stale
}

// Forget takes back what a client holds that has gone. When it was the last, the pool is as it was at first.
func (p *Pool) Forget(_ clock.Instant, id uint32) {
	c := p.find(id)
	if c == nil || !c.registered {
		return
	}
	if c.list != nil {
		c.list.remove(c)
	}
	p.grant(c, 0)
	c.registered, c.demand, c.shed = false, 0, false
	p.n--
	p.release(c)
	if p.n == 0 {
		p.resize(p.config.Cores)
	} else {
		p.resize(p.size) // the bound is lower
	}
}

// resize sets the size of the pool, within its bounds.
func (p *Pool) resize(size int) {
	size = max(min(size, p.n*Window), p.config.Cores)
	if size != p.size {
		p.size, p.changed = size, true
	}
}

// admit counts an arrival and returns the decision on it: rejected for its queueing delay, or not. tag is the law's.
func (p *Pool) admit(r *control.Request, tooLate bool, tag uint32) control.Decision {
	d := control.Decision{Tag: tag &^ counted}
	if p.arrive(r.Client) {
		d.Tag |= counted
	}
	if tooLate {
		d.Verdict, d.Reason = control.Reject, control.QueueDelay
	}
	return d
}

// meters yields what every law shows, and reports whether more is wanted.
func (p *Pool) meters(yield func(string, float64) bool) bool {
	return yield("credits", float64(p.size)) && yield("credits_used", float64(p.used)) && yield("clients", float64(p.n))
}
