package catalog_test

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
)

// whole is everything that a server asks of Svalinn as the catalog makes it, through the Gate: the demand of each request, its arrival and
// start, the memory section for every other one, its end, the credits on its reply, whom to wake, and the ticks of credits and section.
type whole struct {
	stack   control.Stack
	gate    *control.Gate
	issuer  control.Issuer
	now     clock.Instant
	tick    clock.Instant
	id      uint64
	actions []control.Action
	asked   control.Request
	under   [8]control.Request // in service
	inside  [8]bool            // the section
	served  int
	dropped int
	ticks   int
}

const (
	clientsOfWhole = 100
	paceOfWhole    = 3 * time.Microsecond // 333 000 requests a second
)

func newWhole(t testing.TB) *whole {
	t.Helper()
	stack, err := catalog.New("svalinn", nil, catalog.Env{Cores: 18, SLO: 500 * time.Microsecond, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &whole{stack: stack, gate: control.NewGate(stack.Controller, control.GateConfig{}), issuer: stack.Controller.(control.Issuer)}
	for client := range uint32(clientsOfWhole) {
		w.issuer.Demand(0, client, 1)
		w.issuer.Credits(0, client)
	}
	for range 50_000 {
		w.step()
	}
	return w
}

// step lets one request arrive and the oldest of those in service end.
func (w *whole) step() {
	w.now = w.now.Add(paceOfWhole)
	w.actions = w.actions[:0]
	if w.now >= w.tick {
		w.ticks++
		w.actions, w.tick = w.gate.Tick(w.now, control.Signals{MemBytes: uint64(w.now) * 30, MemAt: w.now}, w.actions)
	}
	w.id++
	client := uint32(w.id*7) % clientsOfWhole
	w.issuer.Demand(w.now, client, int(w.id%3))
	w.actions = w.gate.Arrive(w.now, control.Request{ID: w.id, Client: client, Budget: w.stack.Budget}, w.actions)
	for i := range w.actions {
		if w.actions[i].Kind == control.Start {
			w.asked = w.actions[i].Request
		}
	}
	slot := w.id % uint64(len(w.under))
	w.finish(slot)
	w.under[slot], w.inside[slot] = w.asked, false
	if w.id%2 == 0 {
		w.inside[slot] = w.stack.Memory.Enter(w.now, &w.asked, w.stack.Mode).Verdict == control.Admit
		if !w.inside[slot] {
			w.dropped++
		}
	}
}

func (w *whole) finish(slot uint64) {
	r := &w.under[slot]
	if r.ID == 0 {
		return
	}
	if w.inside[slot] {
		w.actions = w.stack.Memory.Leave(w.now, r, w.actions)
	}
	w.actions = w.gate.Finish(w.now, *r, 24*time.Microsecond, r.ID%2 == 0 && !w.inside[slot], w.actions)
	w.issuer.Credits(w.now, r.Client)
	w.actions = w.issuer.Wake(w.now, w.actions)
	w.served++
}

func TestTheWholePathDoesNotAllocate(t *testing.T) {
	w := newWhole(t)
	if allocs := testing.AllocsPerRun(20_000, w.step); allocs != 0 {
		t.Errorf("%v allocations a request", allocs)
	}
	if s := w.gate.Stats(); s.Finished+uint64(len(w.under)) != s.Started || w.dropped == 0 || w.ticks < 100 {
		t.Errorf("%d started, %d finished, %d dropped at the section, %d ticks", s.Started, s.Finished, w.dropped, w.ticks)
	}
}

// BenchmarkWholePath measures what Svalinn costs a request on one core, Gate and section included. The aim is 200 ns at most.
func BenchmarkWholePath(b *testing.B) {
	w := newWhole(b)
	b.ReportAllocs()
	for b.Loop() {
		w.step()
	}
}
