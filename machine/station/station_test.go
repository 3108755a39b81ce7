package station

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
	"spillway/machine"
)

const us = time.Microsecond

func compute(d time.Duration) machine.Step { return machine.Step{Kind: machine.Compute, Duration: d} }

// driver brings requests to a station at given instants and keeps its replies by token.
type driver struct {
	s       *Station
	now     clock.Instant
	replies map[uint64]Reply
	at      map[uint64]clock.Instant
}

func newDriver(c Config) *driver {
	return &driver{s: New(c), replies: map[uint64]Reply{}, at: map[uint64]clock.Instant{}}
}

// run lets happen what happens up to and including end.
func (d *driver) run(end clock.Instant) {
	for d.s.Next() <= end {
		d.now = d.s.Next()
		d.note(d.s.Advance(d.now))
	}
	d.now = end
}

func (d *driver) arrive(token uint64, steps ...machine.Step) {
	d.note(d.s.Arrive(d.now, control.Request{Client: uint32(token)}, steps, token, NoDemand))
}

func (d *driver) note(replies []Reply) {
	for _, r := range replies {
		if _, twice := d.replies[r.Token]; twice {
			panic("a request has two replies")
		}
		d.replies[r.Token], d.at[r.Token] = r, d.now
	}
}

// TestQueuedAndService: with unlimited slots requests queue for cores in the machine; what they wait there is queueing, not service.
func TestQueuedAndService(t *testing.T) {
	t.Parallel()
	d := newDriver(Config{Controller: control.None{}, Machine: machine.Spec{Cores: 1}})
	d.arrive(1, compute(10*us))
	d.arrive(2, compute(5*us))
	d.run(clock.Instant(9 * us))
	if got := d.s.QueueDelay(d.now); got != 9*us {
		t.Errorf("queueing delay %v, want 9µs", got)
	}
	d.run(clock.Instant(time.Second))
	if got, want := d.replies[2], (Reply{Token: 2, Queued: 10 * us, Service: 5 * us, Started: true, Client: 2, Credits: -1}); got != want || d.at[2] != clock.Instant(15*us) {
		t.Errorf("%+v at %v, want %+v at 15µs", got, d.at[2], want)
	}
	if got := d.s.QueueDelay(d.now); got != 0 {
		t.Errorf("queueing delay %v on an idle machine", got)
	}
}

// TestGateSlots: with as many slots as cores, requests wait in the Gate, where a controller sees them.
func TestGateSlots(t *testing.T) {
	t.Parallel()
	d := newDriver(Config{
		Controller: limit.NewFixed(limit.FixedConfig{Limit: 1, Queue: 1}, 1), Gate: control.GateConfig{Slots: 1}, Machine: machine.Spec{Cores: 1},
	})
	for token := range uint64(3) {
		d.arrive(token, compute(10*us))
	}
	if got := d.replies[2]; got.Reason != control.Limit || d.at[2] != 0 {
		t.Errorf("the third request got %+v at %v, want a refusal at once", got, d.at[2])
	}
	d.run(clock.Instant(time.Second))
	if got := d.replies[1]; got.Queued != 10*us || got.Service != 10*us || got.Reason != control.NoReason {
		t.Errorf("the second request got %+v", got)
	}
	if s := d.s.Gate().Stats(); s.Finished != 2 || s.InService != 0 || s.Shed[control.Limit] != 1 {
		t.Errorf("gate: %+v", s)
	}
}

// TestSections: a full section parks a request under WaitMode, and its core goes to another; under Try it is refused, and what it held in an
// outer section comes back.
func TestSections(t *testing.T) {
	t.Parallel()
	inside := []machine.Step{{Kind: machine.Enter, Index: 0}, {Kind: machine.Enter, Index: 1}, compute(10 * us), {Kind: machine.Leave, Index: 1}, {Kind: machine.Leave, Index: 0}}
	outer, inner := limit.NewSection(2, control.Lock), limit.NewSection(1, control.Memory)
	d := newDriver(Config{
		Controller: control.None{}, Machine: machine.Spec{Cores: 2},
		Sections: []Section{{outer, control.WaitMode}, {inner, control.Try}},
	})
	d.arrive(1, inside...)
	d.arrive(2, inside...) // enters the outer section, is refused at the inner one
	if got := d.replies[2]; got.Reason != control.Memory {
		t.Errorf("the second request got %+v, want dropped for memory", got)
	}
	d.arrive(3, inside...)
	if got := d.replies[3]; got.Reason != control.Memory {
		t.Errorf("the third got %+v: the place of the second in the outer section is not free", got)
	}
	d.arrive(4, compute(us))
	d.run(clock.Instant(time.Second))
	if len(d.replies) != 4 || d.replies[1].Reason != control.NoReason {
		t.Errorf("replies: %+v", d.replies)
	}
	for name, section := range map[string]*limit.Section{"outer": outer, "inner": inner} {
		for meter, v := range section.Meters() {
			if meter != "places" && v != 0 {
				t.Errorf("%s section: %s is %g when all is over", name, meter, v)
			}
		}
	}
	if m := d.s.Machine(); m.BusyCores() != 0 {
		t.Errorf("%d cores stay held", m.BusyCores())
	}
}

func TestParkedRequestGivesUpItsCore(t *testing.T) {
	t.Parallel()
	work := []machine.Step{{Kind: machine.Enter}, compute(10 * us), {Kind: machine.Leave}}
	d := newDriver(Config{
		Controller: control.None{}, Machine: machine.Spec{Cores: 2},
		Sections: []Section{{limit.NewSection(1, control.Memory), control.WaitMode}},
	})
	d.arrive(1, work...)
	d.arrive(2, work...)
	d.arrive(3, compute(3*us))
	d.run(clock.Instant(time.Second))
	if got := d.at[3]; got != clock.Instant(3*us) {
		t.Errorf("the request behind the parked one is done at %v, want 3µs", got)
	}
	if got := d.at[2]; got != clock.Instant(20*us) {
		t.Errorf("the parked request is done at %v, want 20µs", got)
	}
}

// TestEveryRequestHasOneReply: whatever arrives when, under limits and sections, each request is answered once, and nothing stays held.
func TestEveryRequestHasOneReply(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cores := rapid.IntRange(1, 4).Draw(t, "cores")
		modes := []control.Mode{control.Try, control.WaitMode, control.WaitWithinBudget}
		d := newDriver(Config{
			Controller: limit.NewFixed(limit.FixedConfig{Limit: rapid.IntRange(1, 6).Draw(t, "limit"), Queue: rapid.IntRange(0, 5).Draw(t, "queue")}, cores),
			Gate:       control.GateConfig{Slots: rapid.IntRange(0, 6).Draw(t, "slots")},
			Machine:    machine.Spec{Cores: cores, Bus: machine.Bus{Total: 4e9, PerCore: 2e9}},
			Locks:      1,
			Sections:   []Section{{limit.NewSection(rapid.IntRange(1, 3).Draw(t, "places"), control.Memory), rapid.SampledFrom(modes).Draw(t, "mode")}, {}},
		})
		n := rapid.IntRange(1, 60).Draw(t, "requests")
		for token := range uint64(n) {
			d.run(d.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "gap"))))
			amount := time.Duration(rapid.IntRange(0, 3000).Draw(t, "amount"))
			section := uint16(rapid.IntRange(0, 1).Draw(t, "section"))
			d.arrive(token, compute(amount), machine.Step{Kind: machine.Enter, Index: section},
				machine.Step{Kind: machine.Stream, Bytes: int64(amount)}, machine.Step{Kind: machine.Leave, Index: section},
				machine.Step{Kind: machine.Lock, Duration: amount / 4})
		}
		d.run(clock.Instant(time.Second))
		if len(d.replies) != n {
			t.Fatalf("%d requests, %d replies", n, len(d.replies))
		}
		s, m := d.s.Gate().Stats(), d.s.Machine()
		if s.InService != 0 || s.Queued != 0 || m.BusyCores() != 0 || m.QueueLen() != 0 || m.Streams() != 0 {
			t.Fatalf("something stays held: %+v, %d cores", s, m.BusyCores())
		}
	})
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	d := New(Config{Controller: control.None{}, Gate: control.GateConfig{Slots: 2}, Machine: machine.Spec{Cores: 2}})
	steps := []machine.Step{compute(us), compute(us)}
	now := clock.Instant(0)
	round := func() {
		for token := range uint64(10) {
			d.Arrive(now, control.Request{}, steps, token, NoDemand)
		}
		for d.Next() != clock.Never {
			now = d.Next()
			d.Advance(now)
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%g allocations a round of ten requests", n)
	}
}
