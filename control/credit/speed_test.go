package credit

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

// path is all that a server asks and tells a law about one request, with nobody waiting.
type path struct {
	controller control.Controller
	issuer     control.Issuer
	now        clock.Instant
	id         uint64
	out        []control.Action
	asked      control.Request    // as in a Gate: a local one would be allocated at each call
	under      [8]control.Request // in service
}

const clientsOfPath = 100

func newPath(t testing.TB, l law) *path {
	t.Helper()
	p := &path{controller: l.stack.Controller, issuer: l.stack.Controller.(control.Issuer)}
	for id := range uint32(clientsOfPath) {
		p.issuer.Demand(0, id, 1)
		p.issuer.Credits(0, id)
	}
	for range 10000 {
		p.step() // the pool grows until everybody takes part
	}
	return p
}

// step lets one request arrive and the oldest of those in service finish.
func (p *path) step() {
	p.now += clock.Instant(3 * time.Microsecond)
	p.id++
	r := &p.asked
	*r = control.Request{ID: p.id, Client: uint32(p.id*7) % clientsOfPath, Arrived: p.now}
	p.issuer.Demand(p.now, r.Client, int(p.id%3))
	d := p.controller.Decide(p.now, control.AtArrival, r)
	r.Tag = d.Tag
	p.controller.Observe(p.now, control.Event{Kind: control.Queued, Request: *r})
	p.controller.Decide(p.now, control.AtDequeue, r)
	p.controller.Observe(p.now, control.Event{Kind: control.Started, Request: *r})
	p.out = p.issuer.Wake(p.now, p.out[:0])
	done := &p.under[p.id%uint64(len(p.under))]
	if done.ID != 0 {
		p.controller.Observe(p.now, control.Event{Kind: control.Finished, Request: *done, Service: 20 * time.Microsecond})
		p.out = p.issuer.Wake(p.now, p.out)
		p.issuer.Credits(p.now, done.Client)
	}
	*done = *r
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, l := range laws(t, 18, slo) {
		t.Run(l.name, func(t *testing.T) {
			p := newPath(t, l)
			if allocs := testing.AllocsPerRun(20000, p.step); allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
			checkPool(t, l.pool)
		})
	}
}

func TestWalletDoesNotAllocate(t *testing.T) {
	o := DefaultClient().NewOutbox(nil)
	var out []control.Dispatch
	now, sum := clock.Instant(0), 0.0
	step := func() {
		now += us
		out = o.Offer(now, control.Outgoing{Token: 1}, out[:0])
		out = o.Hear(now, control.Notice{Kind: control.Told, Credits: 2}, out)
		out = o.Hear(now, control.Notice{Kind: control.Replied, Credits: int(now/us) % 3}, out)
		for _, v := range o.Throttle().(*Wallet).Meters() {
			sum += v
		}
	}
	step()
	if allocs := testing.AllocsPerRun(1000, step); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// BenchmarkRequest measures what a law costs a request: its demand, its arrival, its start, its end, the credits on its reply.
func BenchmarkRequest(b *testing.B) {
	for _, l := range laws(b, 18, slo) {
		b.Run(l.name, func(b *testing.B) {
			p := newPath(b, l)
			b.ReportAllocs()
			for b.Loop() {
				p.step()
			}
		})
	}
}
