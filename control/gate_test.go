package control_test

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

// scripted is a controller whose answers a test sets.
type scripted struct {
	arrival, dequeue control.Decision
	next             clock.Instant
	seen             []control.Request // at Decide
	events           []control.Event
	signals          control.Signals // of the last tick
}

func (s *scripted) Decide(_ clock.Instant, stage control.Stage, r *control.Request) control.Decision {
	s.seen = append(s.seen, *r)
	r.Tag, r.Waited = 99, 99 // controllers are shown a copy: this must not come back
	if stage == control.AtArrival {
		return s.arrival
	}
	return s.dequeue
}

func (s *scripted) Observe(_ clock.Instant, e control.Event) { s.events = append(s.events, e) }

func (s *scripted) Tick(_ clock.Instant, signals control.Signals) clock.Instant {
	s.signals = signals
	return s.next
}

func TestGateKeepsTags(t *testing.T) {
	t.Parallel()
	c := &scripted{arrival: control.Decision{Tag: 5}, dequeue: control.Decision{Verdict: control.Wait}}
	g := control.NewGate(c, control.GateConfig{})
	g.Arrive(10, control.Request{ID: 1}, nil)
	if got := c.seen[len(c.seen)-1]; got.Tag != 5 {
		t.Errorf("tag at dequeue = %d, want that of the arrival, 5", got.Tag)
	}
	c.dequeue = control.Decision{Verdict: control.Wait, Tag: 6}
	g.Tick(20, control.Signals{}, nil)
	c.dequeue = control.Decision{}
	out, _ := g.Tick(30, control.Signals{}, nil)
	if len(out) != 1 || out[0].Kind != control.Start || out[0].Request.Tag != 6 || out[0].Request.Waited != 20 {
		t.Fatalf("actions %+v, want a start with tag 6 that waited 20 ns", out)
	}
	g.Finish(40, out[0].Request, 10, true, nil)
	last := c.events[len(c.events)-1]
	if last.Kind != control.Finished || !last.Failed || last.Service != 10 || last.Request.Tag != 6 {
		t.Errorf("last event %+v", last)
	}
}

func TestGateAddsToEarlierWaits(t *testing.T) {
	t.Parallel()
	c := &scripted{dequeue: control.Decision{Verdict: control.Wait}}
	g := control.NewGate(c, control.GateConfig{})
	g.Arrive(100, control.Request{ID: 1, Waited: 7, Arrived: 3}, nil)
	g.Tick(130, control.Signals{}, nil)
	if got := c.seen[len(c.seen)-1].Waited; got != 37 {
		t.Errorf("waited at the second question = %d, want 7 + 30", got)
	}
	c.dequeue = control.Decision{Verdict: control.Reject, Reason: control.QueueDelay}
	out, _ := g.Tick(150, control.Signals{}, nil)
	if len(out) != 1 || out[0].Kind != control.Refuse || out[0].Reason != control.QueueDelay || out[0].Request.Waited != 57 {
		t.Errorf("actions %+v, want a refusal that waited 7 + 50", out)
	}
}

// TestGateKeepsTheDriversDelay: somebody waits in the Gate, and a core may be idle all the same, which only the driver knows. What it says of
// the queueing delay is what the controller sees.
func TestGateKeepsTheDriversDelay(t *testing.T) {
	t.Parallel()
	c := &scripted{dequeue: control.Decision{Verdict: control.Wait}, next: 123}
	g := control.NewGate(c, control.GateConfig{})
	g.Arrive(100, control.Request{ID: 1}, nil)
	for _, given := range []time.Duration{0, 10, 80} {
		_, next := g.Tick(150, control.Signals{QueueDelay: given, MemBytes: 3}, nil)
		if c.signals.QueueDelay != given || c.signals.MemBytes != 3 || next != 123 {
			t.Errorf("signals %+v, next %d; want a queueing delay of %d, next 123", c.signals, next, given)
		}
		g.Arrive(150, control.Request{ID: 2, QueueDelay: given, Tag: 9}, nil)
		if got := c.events[len(c.events)-1].Request; got.QueueDelay != given || got.Tag != 0 {
			t.Errorf("an arrival is shown a queueing delay of %d and a tag of %d, want %d and none", got.QueueDelay, got.Tag, given)
		}
	}
	if d := g.QueueDelay(150); d != 50 {
		t.Errorf("queue delay %v, want 50ns", d)
	}
}

// A head that its controller made wait may start by now: the newcomer is judged after it has left the queue.
func TestGateBringsTheQueueUpToDateFirst(t *testing.T) {
	t.Parallel()
	c := &scripted{dequeue: control.Decision{Verdict: control.Wait}}
	g := control.NewGate(c, control.GateConfig{Slots: 1, Queue: 1})
	g.Arrive(0, control.Request{ID: 1}, nil)
	c.dequeue = control.Decision{}
	out := g.Arrive(10, control.Request{ID: 2}, nil)
	if len(out) != 2 || out[0].Kind != control.Start || out[0].Request.ID != 1 || out[1].Kind != control.Queue {
		t.Errorf("actions %+v, want 1 started and 2 queued", out)
	}
}

func TestGateWithdrawTwice(t *testing.T) {
	t.Parallel()
	g := control.NewGate(control.None{}, control.GateConfig{Slots: 1})
	g.Arrive(0, control.Request{ID: 1}, nil)
	place := g.Arrive(0, control.Request{ID: 2}, nil)[0].Place
	if removed, _ := g.Withdraw(1, place, nil); !removed {
		t.Fatal("the waiter was not withdrawn")
	}
	// The room is used again by another request, which an old place must not name.
	again := g.Arrive(2, control.Request{ID: 3}, nil)[0].Place
	for _, p := range []control.Place{place, 0, 1 << 40, again + 1} {
		if removed, _ := g.Withdraw(3, p, nil); removed {
			t.Errorf("withdrew from %x, where nobody waits", p)
		}
	}
	if removed, _ := g.Withdraw(3, again, nil); !removed {
		t.Error("the second waiter was not withdrawn")
	}
}

func TestGatePanicsOnMistakes(t *testing.T) {
	t.Parallel()
	unreasoned := &scripted{arrival: control.Decision{Verdict: control.Reject}}
	for name, mistake := range map[string]func(){
		"no controller":  func() { control.NewGate(nil, control.GateConfig{}) },
		"negative slots": func() { control.NewGate(control.None{}, control.GateConfig{Slots: -1}) },
		"negative queue": func() { control.NewGate(control.None{}, control.GateConfig{Queue: -1}) },
		"finish too much": func() {
			control.NewGate(control.None{}, control.GateConfig{}).Finish(0, control.Request{}, 0, false, nil)
		},
		"no reason":      func() { control.NewGate(unreasoned, control.GateConfig{}).Arrive(0, control.Request{}, nil) },
		"empty chain":    func() { control.NewChain() },
		"nil in a chain": func() { control.NewChain(control.None{}, nil) },
		"two issuers":    func() { control.NewChain(issuer{}, issuer{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			mistake()
		}()
	}
}

// The queue takes memory for the most that ever waited together, not for all that came and went.
func TestGateQueueIsReused(t *testing.T) {
	g := control.NewGate(control.None{}, control.GateConfig{Slots: 1})
	g.Arrive(0, control.Request{}, nil) // keeps the slot
	first := g.Arrive(0, control.Request{ID: 1}, nil)[0].Place
	out := make([]control.Action, 0, 4)
	allocs := testing.AllocsPerRun(10, func() {
		for id := range uint64(10_000) { // many more than a chunk, behind one that stays
			out = g.Arrive(1, control.Request{ID: 2 + id}, out[:0])
			g.Withdraw(2, out[0].Place, nil)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if removed, _ := g.Withdraw(3, first, nil); !removed {
		t.Error("the first waiter is gone")
	}
}
