package station

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
	"spillway/internal/dist"
	"spillway/machine"
)

// witness admits everybody and writes down what it sees.
type witness struct {
	control.None
	asked  func(now clock.Instant, r *control.Request)
	waited map[uint32]time.Duration // of the finished, by client
}

func (w *witness) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtArrival && w.asked != nil {
		w.asked(now, r)
	}
	return w.None.Decide(now, s, r)
}

func (w *witness) Observe(_ clock.Instant, e control.Event) {
	if e.Kind == control.Finished {
		w.waited[e.Request.Client] = e.Request.Waited
	}
}

// flatBus has room for every core, so that n bytes take n ns, whoever else is on it.
func flatBus(cores int) machine.Bus { return machine.Bus{Total: float64(cores) * 1e9, PerCore: 1e9} }

// draw makes up a request's steps, of amounts that it is given, and says how long they take without any wait. Sections 0 and 1 nest, in this order.
func draw(t *rapid.T, amount func() int64) (steps []machine.Step, work time.Duration) {
	add := func(s machine.Step) {
		steps = append(steps, s)
		work += s.Duration + time.Duration(s.Bytes)
	}
	body := func() {
		for range rapid.IntRange(0, 2).Draw(t, "body") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				add(machine.Step{Kind: machine.Compute, Duration: time.Duration(amount())})
			case 1:
				add(machine.Step{Kind: machine.Stream, Bytes: amount()})
			case 2:
				add(machine.Step{Kind: machine.Delay, Duration: time.Duration(amount())})
			case 3:
				add(machine.Step{Kind: machine.Lock, Index: uint16(rapid.IntRange(0, 1).Draw(t, "lock")), Duration: time.Duration(amount())})
			}
		}
	}
	body()
	depth := uint16(rapid.IntRange(0, 2).Draw(t, "sections"))
	for i := range depth {
		add(machine.Step{Kind: machine.Enter, Index: i})
		body()
	}
	for i := range depth {
		add(machine.Step{Kind: machine.Leave, Index: depth - 1 - i})
		body()
	}
	return steps, work
}

// short draws amounts that are small, so that things often happen at the same instant.
func short(t *rapid.T) func() int64 {
	return func() int64 { return rapid.Int64Range(0, 3000).Draw(t, "amount") }
}

// distinct draws amounts of which no sums are alike, so that no two things happen at the same instant unless one brings about the other.
func distinct(t *rapid.T) func() int64 {
	rng := dist.Stream(rapid.Uint64().Draw(t, "seed"), "amounts", 0)
	return func() int64 { return 1 + rng.Int64N(1<<36) }
}

// TestWaitedIsEveryWait: when a request finishes, what it has waited is all of its time at the server that it did not work: in the Gate, for
// a core, for locks whoever keeps their queue, and in sections.
func TestWaitedIsEveryWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &witness{waited: map[uint32]time.Duration{}}
		cores := rapid.IntRange(1, 4).Draw(t, "cores")
		d := newDriver(Config{
			Controller: w, Gate: control.GateConfig{Slots: rapid.IntRange(0, 6).Draw(t, "slots")},
			Machine: machine.Spec{Cores: cores, Bus: flatBus(cores)},
			Locks:   2, LockQueues: []control.Section{nil, limit.NewSection(1, control.Lock)},
			Sections: []Section{{limit.NewSection(2, control.Memory), control.WaitMode}, {limit.NewSection(1, control.Memory), control.WaitMode}},
		})
		work, came := map[uint32]time.Duration{}, map[uint32]clock.Instant{}
		for token := range uint32(rapid.IntRange(1, 40).Draw(t, "requests")) {
			d.run(d.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "gap"))))
			steps, takes := draw(t, short(t))
			work[token], came[token] = takes, d.now
			d.arrive(uint64(token), steps...)
		}
		d.run(clock.Instant(time.Second))
		for token, takes := range work {
			if got, want := w.waited[token], d.at[uint64(token)].Sub(came[token])-takes; got != want {
				t.Fatalf("request %d has waited %v, was there for %v and worked for %v", token, got, want+takes, takes)
			}
		}
	})
}

// TestLockQueueWithoutPolicyIsALock: a section of one place that lets everybody wait changes nothing, and neither does the queue of package
// aqm without a policy: each request ends at the same instant, after the same waits. What happens at one instant without having to do with each other may happen in another order, so none of that is
// asked for here.
func TestLockQueueWithoutPolicyIsALock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cores, slots := rapid.IntRange(1, 4).Draw(t, "cores"), rapid.IntRange(0, 6).Draw(t, "slots")
		off := func() control.Section { return aqm.NewLock(aqm.LockConfig{Policy: control.LockOff, Budget: 1}) }
		queues := [...][]control.Section{nil, {limit.NewSection(1, control.Lock), limit.NewSection(1, control.Lock)}, {off(), off()}}
		var drivers [len(queues)]*driver
		var waits [len(queues)]*witness
		for i := range drivers {
			waits[i] = &witness{waited: map[uint32]time.Duration{}}
			c := Config{
				Controller: waits[i], Gate: control.GateConfig{Slots: slots},
				Machine: machine.Spec{Cores: cores, Bus: flatBus(cores)}, Locks: 2, Sections: make([]Section, 2), LockQueues: queues[i],
			}
			drivers[i] = newDriver(c)
		}
		amount := distinct(t)
		for token := range uint64(rapid.IntRange(1, 40).Draw(t, "requests")) {
			now := drivers[0].now.Add(time.Duration(amount()))
			steps, _ := draw(t, amount)
			for _, d := range drivers {
				d.run(now)
				d.arrive(token, steps...)
			}
		}
		for _, d := range drivers {
			d.run(clock.Instant(24 * time.Hour))
		}
		for i := 1; i < len(queues); i++ {
			if diff := cmp.Diff(drivers[0].replies, drivers[i].replies); diff != "" {
				t.Fatalf("the machine's lock (-) and queue %d (+):\n%s", i, diff)
			}
			if diff := cmp.Diff(drivers[0].at, drivers[i].at); diff != "" {
				t.Fatalf("replies leave at other instants (-) with queue %d (+):\n%s", i, diff)
			}
			if diff := cmp.Diff(waits[0].waited, waits[i].waited); diff != "" {
				t.Fatalf("waits (-) with queue %d (+):\n%s", i, diff)
			}
		}
	})
}

// TestDroppedInNestedSectionsHoldsNothing: sections and lock queues inside each other refuse requests at any depth, and when all is over
// every place is free again.
func TestDroppedInNestedSectionsHoldsNothing(t *testing.T) {
	t.Parallel()
	refused := map[control.Reason]int{}
	rapid.Check(t, func(t *rapid.T) {
		cores := rapid.IntRange(1, 4).Draw(t, "cores")
		budget := time.Duration(rapid.IntRange(1, 2000).Draw(t, "budget"))
		sections := []control.Section{
			aqm.NewLock(aqm.LockConfig{Policy: control.LockQDelay}), aqm.NewLock(aqm.LockConfig{Policy: control.LockQLen}),
			limit.NewSection(rapid.IntRange(1, 2).Draw(t, "outer places"), control.Memory),
			limit.NewSection(rapid.IntRange(1, 2).Draw(t, "inner places"), control.Memory),
		}
		modes := []control.Mode{control.Try, control.WaitMode, control.WaitWithinBudget}
		d := newDriver(Config{
			Controller: control.None{}, Machine: machine.Spec{Cores: cores, Bus: flatBus(cores)},
			Locks: 2, LockQueues: sections[:2],
			Sections: []Section{{sections[2], rapid.SampledFrom(modes).Draw(t, "outer")}, {sections[3], rapid.SampledFrom(modes).Draw(t, "inner")}},
		})
		n := rapid.IntRange(1, 40).Draw(t, "requests")
		for token := range uint64(n) {
			d.run(d.now.Add(time.Duration(rapid.IntRange(0, 500).Draw(t, "gap"))))
			steps, _ := draw(t, short(t))
			d.note(d.s.Arrive(d.now, control.Request{Client: uint32(token), Budget: budget}, steps, token, NoDemand))
		}
		d.run(clock.Instant(time.Second))
		if len(d.replies) != n {
			t.Fatalf("%d requests, %d replies", n, len(d.replies))
		}
		for _, r := range d.replies {
			if r.Reason != control.NoReason {
				refused[r.Reason]++
			}
		}
		for i, s := range sections {
			for meter, v := range s.(control.Meter).Meters() {
				if (meter == "inside" || meter == "waiting" || meter == "lock_waiting") && v != 0 {
					t.Fatalf("section %d: %s is %g when all is over", i, meter, v)
				}
			}
		}
		for i, s := range sections { // what is free lets in whoever comes
			if s.Enter(d.now, &control.Request{ID: 1 << 40}, control.Try).Verdict != control.Admit {
				t.Fatalf("section %d is taken when all is over", i)
			}
		}
		if m, s := d.s.Machine(), d.s.Gate().Stats(); m.BusyCores() != 0 || m.QueueLen() != 0 || m.Streams() != 0 || s.InService != 0 {
			t.Fatalf("something stays held: %d cores, %+v", m.BusyCores(), s)
		}
	})
	if refused[control.Lock] == 0 || refused[control.Memory] == 0 {
		t.Errorf("refused were %v: locks and sections should both be tested", refused)
	}
}

// TestQueueDelayOfRequests: a request is shown the age of the oldest that waits for a core, and 0 as long as one is idle.
func TestQueueDelayOfRequests(t *testing.T) {
	t.Parallel()
	var d *driver
	var seen []string
	w := &witness{waited: map[uint32]time.Duration{}}
	w.asked = func(now clock.Instant, r *control.Request) {
		seen = append(seen, fmt.Sprintf("%v: %d of 2 busy, %v", now, d.s.Machine().BusyCores(), r.QueueDelay))
	}
	d = newDriver(Config{
		Controller: w, Machine: machine.Spec{Cores: 2}, Sections: []Section{{limit.NewSection(1, control.Memory), control.WaitMode}},
	})
	inside := []machine.Step{{Kind: machine.Enter}, compute(10 * us), {Kind: machine.Leave}}
	d.arrive(0, inside...) // a core until 10 µs
	d.arrive(1, inside...) // parked until 10 µs
	d.run(clock.Instant(5 * us))
	d.arrive(2, compute(20*us)) // the other core until 25 µs
	d.arrive(3, compute(20*us)) // queues, gets the first core at 10 µs, since it came before the parked one was resumed
	d.run(clock.Instant(9 * us))
	d.arrive(4, compute(us))
	d.run(clock.Instant(12 * us))
	d.arrive(5, compute(us))
	d.run(clock.Instant(time.Second))
	d.arrive(6, compute(us))
	want := []string{
		"0s: 0 of 2 busy, 0s",
		"0s: 1 of 2 busy, 0s",
		"5µs: 1 of 2 busy, 0s",   // somebody waits in the section, but a core is idle
		"5µs: 2 of 2 busy, 0s",   // nobody waits for a core
		"9µs: 2 of 2 busy, 4µs",  // request 3 does
		"12µs: 2 of 2 busy, 3µs", // request 4 does, since 9 µs
		"1s: 0 of 2 busy, 0s",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
