package credit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
)

// checkPool fails unless the books of p are in order: what is granted is what is used, nobody holds more than a window or less than nothing,
// and whoever is on a list is on it once and holds nothing.
func checkPool(t interface{ Fatalf(string, ...any) }, p *Pool) {
	used, registered, listed := 0, 0, 0
	for id, c := range p.clients {
		used += c.credits
		if c.registered {
			registered++
		}
		switch {
		case c.id != id:
			t.Fatalf("client %d is filed as %d", c.id, id)
		case c.credits < 0 || c.credits > maxGrant:
			t.Fatalf("client %d holds %d credits", id, c.credits)
		case c.pending < 0:
			t.Fatalf("client %d has %d requests under way", id, c.pending)
		case !c.registered && (c.credits > 0 || c.list != nil || c.pending == 0):
			t.Fatalf("client %d has gone, and is still there as %+v", id, *c)
		case c.list != nil && c.credits > 0:
			t.Fatalf("client %d is drained and holds %d credits", id, c.credits)
		}
		if c.list != nil {
			listed++
		}
	}
	for _, l := range []*drained{&p.high, &p.low} {
		var before *client
		for c := l.first; c != nil; before, c = c, c.next {
			if c.list != l || c.prev != before || p.clients[c.id] != c {
				t.Fatalf("a list of drained clients is broken at %d", c.id)
			}
			listed--
		}
		if l.last != before {
			t.Fatalf("a list of drained clients ends elsewhere")
		}
	}
	switch {
	case used != p.used:
		t.Fatalf("%d credits are granted, %d are used", used, p.used)
	case registered != p.n:
		t.Fatalf("%d clients are registered, %d are counted", registered, p.n)
	case listed != 0:
		t.Fatalf("%d clients are drained and on no list, or on several", listed)
	case p.size < p.config.Cores || p.size > max(p.config.Cores, p.n*Window):
		t.Fatalf("%d credits for %d cores and %d clients", p.size, p.config.Cores, p.n)
	case p.n == 0 && p.size != p.config.Cores:
		t.Fatalf("%d credits without clients", p.size)
	}
}

// poolModel drives a Pool as a bad network and bad clients would.
type poolModel struct {
	pool  Pool
	now   clock.Instant
	under []control.Request // at the server
	ids   uint64
}

func (m *poolModel) step(t *rapid.T) {
	m.now += clock.Instant(rapid.IntRange(0, 20).Draw(t, "pause")) * clock.Instant(time.Microsecond)
	id := rapid.Uint32Range(0, 6).Draw(t, "client")
	p := &m.pool
	switch rapid.SampledFrom([]string{"request", "request", "request", "bare", "end", "end", "end", "credits", "wake", "poll", "forget", "resize"}).Draw(t, "event") {
	case "request":
		p.Demand(m.now, id, rapid.IntRange(0, 20).Draw(t, "demand"))
		m.arrive(id)
	case "bare": // without a demand
		m.arrive(id)
	case "end":
		if len(m.under) > 0 {
			m.end(t, rapid.IntRange(0, len(m.under)-1).Draw(t, "which"), rapid.Bool().Draw(t, "replied"))
		}
	case "credits": // a reply that was not asked for, or the same one twice
		m.credits(t, id)
	case "poll":
		p.Demand(m.now, id, rapid.IntRange(0, 3).Draw(t, "demand"))
		m.credits(t, id)
	case "wake":
		m.wake(t)
	case "forget":
		p.Forget(m.now, id)
	case "resize":
		p.resize(rapid.IntRange(-5, 600).Draw(t, "size"))
	}
	checkPool(t, p)
}

func (m *poolModel) arrive(id uint32) {
	m.ids++
	r := control.Request{ID: m.ids, Client: id}
	d := m.pool.admit(&r, false, 0)
	r.Tag = d.Tag
	m.under = append(m.under, r)
}

func (m *poolModel) end(t *rapid.T, i int, replied bool) {
	e := control.Event{Kind: control.Finished, Request: m.under[i], Failed: rapid.Bool().Draw(t, "failed")}
	if rapid.Bool().Draw(t, "refused") {
		e.Kind = control.Refused
	}
	m.under = append(m.under[:i], m.under[i+1:]...)
	m.pool.end(&e)
	if replied {
		m.credits(t, e.Request.Client)
	}
}

// credits checks how far one reply may take a client and the pool.
func (m *poolModel) credits(t *rapid.T, id uint32) {
	p := &m.pool
	c := p.clients[id]
	if c == nil || !c.registered {
		if n := p.Credits(m.now, id); n != 0 {
			t.Fatalf("client %d is unknown and holds %d", id, n)
		}
		return
	}
	before, used := c.credits, p.used
	overcommit := max((p.size-p.used)/p.n, 1)
	n := p.Credits(m.now, id)
	switch {
	case n != c.credits:
		t.Fatalf("client %d is told of %d credits and holds %d", id, n, c.credits)
	case n > c.pending+c.demand+overcommit:
		t.Fatalf("client %d has %d under way and wants %d, but holds %d", id, c.pending, c.demand, n)
	case n < min(c.pending, maxGrant):
		t.Fatalf("client %d has %d under way and holds %d", id, c.pending, n)
	case used >= p.size && n > before && n > max(c.pending, overcommit):
		t.Fatalf("client %d got %d more while %d of %d are used", id, n-before, used, p.size)
	case used < p.size && p.used > p.size && n > max(c.pending, overcommit):
		t.Fatalf("client %d took the pool from %d to %d of %d", id, used, p.used, p.size)
	case used < p.size && n == 0:
		t.Fatalf("client %d was left without while %d of %d are used", id, used, p.size)
	}
}

func (m *poolModel) wake(t *rapid.T) {
	p := &m.pool
	used := p.used
	actions := p.Wake(m.now, nil)
	for _, a := range actions {
		if a.Kind != control.Credit || a.Credits < 1 {
			t.Fatalf("woken by %+v", a)
		}
	}
	if p.used > max(p.size, used) {
		t.Fatalf("waking took the pool from %d to %d of %d", used, p.used, p.size)
	}
}

// TestCreditsAreConserved: whatever is lost, late, answered twice, sent without a demand or forgotten, what is granted is what is used, and
// when everything is over nothing is left.
func TestCreditsAreConserved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &poolModel{pool: newPool(PoolConfig{
			Cores:       rapid.IntRange(1, 8).Draw(t, "cores"),
			RTT:         10 * time.Microsecond,
			ClientDelay: time.Duration(rapid.IntRange(0, 40).Draw(t, "client delay")) * time.Microsecond,
		})}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			m.step(t)
		}
		for id := range uint32(7) {
			m.pool.Forget(m.now, id)
			checkPool(t, &m.pool)
		}
		for len(m.under) > 0 {
			m.end(t, 0, true)
			checkPool(t, &m.pool)
		}
		if len(m.pool.clients) > 0 || m.pool.used != 0 {
			t.Fatalf("left behind: %d clients with %d credits", len(m.pool.clients), m.pool.used)
		}
	})
}

// told returns whom Wake tells of what.
func told(p *Pool, now clock.Instant) string {
	text := ""
	for _, a := range p.Wake(now, nil) {
		text += fmt.Sprintf("%d:%d ", a.Request.Client, a.Credits)
	}
	return text
}

// TestDrainedClients checks in which order clients without credits are told of new ones: those with a demand before those without, the former
// the latest first, the latter the earliest first, and a demand counts only as long as clients wait for credits.
func TestDrainedClients(t *testing.T) {
	t.Parallel()
	const at = clock.Instant(100 * time.Microsecond)
	drain := func() *Pool {
		p := newPool(PoolConfig{Cores: 1, RTT: 10 * time.Microsecond, ClientDelay: 40 * time.Microsecond})
		p.Demand(at, 100, 0)
		p.Credits(at, 100) // holds the only credit
		for id, demand := range []int{0, 3, 0, 2} {
			p.Demand(at+clock.Instant(id), uint32(id), demand)
			if n := p.Credits(at+clock.Instant(id), uint32(id)); n != 0 {
				t.Fatalf("client %d got %d credits", id, n)
			}
		}
		return &p
	}
	for _, c := range []struct {
		name string
		size int
		now  clock.Instant
		want string
	}{
		{"one credit", 2, at + 10, "3:1 "},
		{"two credits", 3, at + 10, "3:1 1:1 "},
		{"three credits", 4, at + 10, "3:1 1:1 0:1 "},
		{"for all", 5, at + 10, "3:1 1:1 0:1 2:1 "},
		{"more than for all", 10, at + 10, "3:3 1:4 0:1 2:1 "},
		{"old demands", 5, at.Add(35 * time.Microsecond), "0:1 2:1 1:1 3:1 "},
		{"one old demand", 5, at.Add(30*time.Microsecond) + 2, "3:1 0:1 2:1 1:1 "},
	} {
		p := drain()
		p.resize(c.size)
		if got := told(p, c.now); got != c.want {
			t.Errorf("%s: told %s, want %s", c.name, got, c.want)
		}
		checkPool(t, p)
	}
}

// TestWakePace: clients are looked after when the size of the pool has changed, and else once in a round trip.
func TestWakePace(t *testing.T) {
	t.Parallel()
	p := newPool(PoolConfig{Cores: 1, RTT: 10 * time.Microsecond})
	now := clock.Instant(time.Millisecond)
	for id := range uint32(3) {
		p.Demand(now, id, 1)
		p.Credits(now, id)
	}
	told(&p, now) // nothing to tell, but the pace begins
	p.Forget(now, 0)
	if got := told(&p, now.Add(10*time.Microsecond)); got != "" {
		t.Errorf("told %s within a round trip", got)
	}
	if got := told(&p, now.Add(10*time.Microsecond)+1); got != "2:1 " {
		t.Errorf("told %s after a round trip", got)
	}
	p.resize(2)
	if got := told(&p, now.Add(10*time.Microsecond)+1); got != "1:1 " {
		t.Errorf("told %s when the pool had grown", got)
	}
}

// TestCredits checks the rule of distribution, line by line. Reference: the code of Breakwater's and Svalinn's servers.
func TestCredits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                     string
		cores, size, others      int // others: clients with a credit each
		credits, pending, demand int
		shed                     bool
		want                     int
	}{
		{"grows to what it needs and the overcommit", 1, 20, 4, 3, 2, 4, false, 2 + 4 + 2},
		{"grows to what is left", 1, 9, 4, 3, 2, 9, false, 3 + 2},
		{"stays when all is used", 1, 7, 4, 3, 2, 9, false, 3},
		{"shrinks by one when too much is used", 1, 6, 4, 3, 2, 9, false, 2},
		{"but keeps what is under way", 1, 5, 4, 3, 3, 9, false, 3},
		{"is not silenced after service", 1, 4, 4, 1, 0, 9, false, 1},
		{"is silenced after a refusal", 1, 4, 4, 1, 0, 9, true, 0},
		{"has one for each core", 8, 8, 4, 0, 0, 0, false, 1},
		{"has its share of few clients' credits", 8, 24, 4, 0, 0, 0, false, 4},
		{"has a window at most", 1, 320, 4, 60, 60, 60, false, 63},
		{"has no more than it needs", 1, 5, 4, 9, 1, 2, false, 1 + 2 + 1},
	} {
		p := newPool(PoolConfig{Cores: c.cores, RTT: time.Microsecond})
		for id := range uint32(c.others) {
			p.Demand(0, id, 0)
			p.grant(p.clients[id], 1)
		}
		p.Demand(0, 99, c.demand)
		us := p.clients[99]
		p.grant(us, c.credits)
		us.pending, us.shed = c.pending, c.shed
		p.resize(c.size)
		if p.size != c.size {
			t.Fatalf("%s: cannot be set up", c.name)
		}
		if got := p.Credits(0, 99); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
		checkPool(t, &p)
	}
}

// TestDemandTakesBack: a request that says how little its client needs gives back the rest at once.
func TestDemandTakesBack(t *testing.T) {
	t.Parallel()
	p := newPool(PoolConfig{Cores: 10, RTT: time.Microsecond})
	p.Demand(0, 1, 0)
	if got := p.Credits(0, 1); got != 10 {
		t.Fatalf("the only client got %d", got)
	}
	p.Demand(0, 1, 2)
	p.arrive(1)
	if got := p.clients[1].credits; got != 3 || p.used != 3 {
		t.Errorf("it holds %d with one under way and two to come", got)
	}
}
