package machine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
)

// owner drives a machine through its completions and writes down what it reports.
type owner struct {
	m   *Machine
	now clock.Instant
	out []Event
	log []string
}

func newOwner(s Spec, locks int) *owner { return &owner{m: New(s, locks)} }

func (o *owner) submit(id uint64, steps ...Step) *Job {
	j := &Job{ID: id, Steps: steps}
	o.note(o.m.Submit(o.now, j, o.out[:0]))
	return j
}

// run advances to every completion up to and including end.
func (o *owner) run(end clock.Instant) {
	for o.m.Next() <= end {
		o.now = o.m.Next()
		o.note(o.m.Advance(o.now, o.out[:0]))
	}
	o.now = end
}

func (o *owner) note(events []Event) {
	kinds := map[EventKind]string{Done: "done", Hook: "hook", Died: "died"}
	for _, e := range events {
		o.log = append(o.log, fmt.Sprintf("%v %s %d", o.now, kinds[e.Kind], e.Job.ID))
	}
	o.out = events
}

func (o *owner) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, o.log); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func compute(d time.Duration) Step { return Step{Kind: Compute, Duration: d} }
func stream(bytes int64) Step      { return Step{Kind: Stream, Bytes: bytes} }

const us = time.Microsecond

func TestRunQueueIsFIFOAndRunsToCompletion(t *testing.T) {
	t.Parallel()
	o := newOwner(Spec{Cores: 2}, 0)
	for id := range uint64(4) {
		o.submit(id, compute(10*us), compute(time.Duration(id)*us))
	}
	if got := o.m.QueueLen(); got != 2 {
		t.Errorf("%d jobs queue behind 2 cores, want 2", got)
	}
	o.now = clock.Instant(5 * us)
	if got := o.m.QueueDelay(o.now); got != 5*us {
		t.Errorf("age of the oldest waiter %v, want 5µs", got)
	}
	o.run(clock.Instant(time.Second))
	o.expect(t, "10µs done 0", "11µs done 1", "22µs done 2", "24µs done 3")
	if got := o.m.BusyTime(o.now); got != 46*us {
		t.Errorf("core-time %v, want 46µs", got)
	}
	if o.m.BusyCores() != 0 || o.m.QueueDelay(o.now) != 0 {
		t.Error("an empty machine has busy cores or a queue")
	}
}

// TestBusEqualShares: with six 6 GB/s streams the 36 GB/s bus is just full, the seventh slows all of them down.
func TestBusEqualShares(t *testing.T) {
	t.Parallel()
	const bytes = 6_000_000 // a millisecond alone
	for _, tc := range []struct {
		streams int
		want    time.Duration
	}{{1, time.Millisecond}, {6, time.Millisecond}, {9, 1500 * us}, {18, 3 * time.Millisecond}} {
		o := newOwner(Spec{Cores: 18, Bus: Bus{Total: 36e9, PerCore: 6e9}}, 0)
		for id := range uint64(tc.streams) {
			o.submit(id, stream(bytes))
		}
		o.run(clock.Instant(10 * time.Millisecond))
		if len(o.log) != tc.streams {
			t.Fatalf("%d of %d streams finished", len(o.log), tc.streams)
		}
		for id, line := range o.log {
			if want := fmt.Sprintf("%v done %d", tc.want, id); line != want {
				t.Errorf("%d streams: got %q, want %q", tc.streams, line, want)
			}
		}
		if got, want := o.m.BytesMoved(o.now), uint64(tc.streams*bytes); math.Abs(float64(got)-float64(want)) > float64(tc.streams)*6 {
			t.Errorf("%d bytes moved, want %d to within a nanosecond's worth a stream", got, want)
		}
	}
}

// TestBusStreamJoinsAndLeaves: a stream alone for half its bytes, then sharing a bus for one and a half.
func TestBusStreamJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	o := newOwner(Spec{Cores: 2, Bus: Bus{Total: 1e9, PerCore: 1e9}}, 0)
	o.submit(1, stream(1000)) // alone: 1 µs
	o.now = clock.Instant(500)
	o.submit(2, stream(1000))
	o.run(clock.Instant(us) * 10)
	// Job 1 has 500 B left at 0.5 µs and gets half the bus: 1.5 µs. Job 2 then has 500 B left and the bus to itself: 2 µs.
	o.expect(t, "1.5µs done 1", "2µs done 2")
}

// TestBusMaxMinFair: what slow access patterns cannot use goes to those that can.
func TestBusMaxMinFair(t *testing.T) {
	t.Parallel()
	o := newOwner(Spec{Cores: 3, Bus: Bus{Total: 10e9, PerCore: 6e9}}, 0)
	o.submit(1, Step{Kind: Stream, Bytes: 2000, Rate: 1e9}) // 1 B/ns by itself: 2 µs
	o.submit(2, stream(9000))                               // 4.5 B/ns of the 9 left: 2 µs
	o.submit(3, stream(18000))                              // 4.5 B/ns for 2 µs, then 6 (its own limit) for the other 9000: 3.5 µs
	o.run(clock.Instant(us) * 10)
	o.expect(t, "2µs done 1", "2µs done 2", "3.5µs done 3")
}

func TestBusDecay(t *testing.T) {
	t.Parallel()
	b := Bus{Total: 36e9, PerCore: 6e9, Decay: 0.05}
	for n, want := range map[int]float64{1: 36e9, 6: 36e9, 7: 34.2e9, 8: 32.4e9, 100: 6e9} {
		if got := b.Effective(n); math.Abs(got-want) > 1 {
			t.Errorf("%d streams can move %g B/s, want %g", n, got, want)
		}
	}
}

// TestLock: waiters give up their cores, ownership passes in order, and the new owner keeps the lock while it queues for a core.
func TestLock(t *testing.T) {
	t.Parallel()
	lock := Step{Kind: Lock, Duration: 10 * us}
	o := newOwner(Spec{Cores: 2}, 1)
	o.submit(1, lock)
	o.submit(2, lock)             // blocks, frees its core
	o.submit(3, compute(15*us))   // takes that core
	o.submit(4, compute(10*us))   // queues: job 1 holds the other core
	o.submit(5, lock, compute(0)) // queues behind 4
	o.run(clock.Instant(time.Second))
	// 10: job 1 done, job 2 owns the lock and joins the run queue behind 4 and 5; 4 gets the core. 15: 3 done; 5 gets that core,
	// finds the lock taken and blocks; 2 gets the core and the critical section begins. 20: 4 done. 25: 2 done, 5 owns the lock.
	o.expect(t, "10µs done 1", "15µs done 3", "20µs done 4", "25µs done 2", "35µs done 5")
}

func TestDelayHoldsNothing(t *testing.T) {
	t.Parallel()
	o := newOwner(Spec{Cores: 1}, 0)
	o.submit(1, Step{Kind: Delay, Duration: 100 * us}, compute(5*us))
	o.submit(2, compute(10*us))
	o.submit(3, Step{Kind: Delay, Duration: 50 * us})
	o.run(clock.Instant(time.Second))
	o.expect(t, "10µs done 2", "60µs done 3", "105µs done 1")
}

func TestMemoryIsHeldToTheEndAndRunsOut(t *testing.T) {
	t.Parallel()
	o := newOwner(Spec{Cores: 4, RAM: 100}, 0)
	hold := func(b int64) Step { return Step{Kind: Memory, Bytes: b} }
	o.submit(1, hold(60), compute(10*us))
	o.submit(2, hold(40), compute(20*us))
	if o.m.RAM() != 100 || o.m.Dead() {
		t.Fatalf("RAM %d, dead %v: the limit itself is allowed", o.m.RAM(), o.m.Dead())
	}
	o.run(clock.Instant(10 * us))
	if o.m.RAM() != 40 {
		t.Errorf("RAM %d after job 1, want 40", o.m.RAM())
	}
	o.submit(3, hold(61), compute(10*us))
	if !o.m.Dead() || o.m.Next() != clock.Never {
		t.Error("one byte over the limit and the machine lives")
	}
	o.submit(4, compute(us))
	busy := o.m.BusyTime(o.now)
	o.run(clock.Instant(time.Second))
	o.expect(t, "10µs done 1", "10µs died 3")
	if got := o.m.BusyTime(o.now); got != busy {
		t.Errorf("core-time %v a second after death, want the %v of its instant", got, busy)
	}
}

// TestHooks: the owner lets one job in, parks the second and drops the third; nothing stays held.
func TestHooks(t *testing.T) {
	t.Parallel()
	enter, leave := Step{Kind: Enter}, Step{Kind: Leave}
	o := newOwner(Spec{Cores: 1, RAM: 1000}, 0)
	body := []Step{{Kind: Memory, Bytes: 10}, enter, compute(10 * us), leave, compute(us)}
	first := o.submit(1, body...)
	second := o.submit(2, body...)
	third := o.submit(3, body...)
	o.note(o.m.Continue(o.now, first, o.out[:0]))
	o.run(clock.Instant(10 * us)) // first is at Leave and holds the only core
	o.note(o.m.Continue(o.now, first, o.out[:0]))
	o.run(clock.Instant(11 * us))
	o.note(o.m.Park(o.now, second, o.out[:0])) // its core goes to the third, which asks
	o.note(o.m.Drop(o.now, third, o.out[:0]))
	if got := o.m.BusyCores(); got != 0 {
		t.Errorf("%d cores are held by a parked and a dropped job", got)
	}
	if got := o.m.RAM(); got != 10 {
		t.Errorf("RAM %d, want the parked job's 10", got)
	}
	o.now = clock.Instant(50 * us)
	o.note(o.m.Continue(o.now, second, o.out[:0]))
	o.run(clock.Instant(60 * us))
	o.note(o.m.Continue(o.now, second, o.out[:0]))
	o.run(clock.Instant(time.Second))
	o.expect(t, "0s hook 1", "10µs hook 1", "11µs done 1", "11µs hook 2", "11µs hook 3", "60µs hook 2", "61µs done 2")
	if o.m.RAM() != 0 || o.m.BusyCores() != 0 {
		t.Error("something stays held on an empty machine")
	}
}

func TestAdvanceMaySkipNothing(t *testing.T) {
	t.Parallel()
	o := newOwner(Spec{Cores: 1}, 0)
	o.submit(1, compute(us))
	defer func() {
		if recover() == nil {
			t.Error("time moved past a completion without a panic")
		}
	}()
	o.m.Advance(clock.Instant(2*us), nil)
}

// TestConservation: whatever the mix, every job finishes once, cores and RAM come back, busy cores never exceed cores, the bus never
// exceeds its total, and core-time is at least what the jobs asked for.
func TestConservation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cores := rapid.IntRange(1, 6).Draw(t, "cores")
		spec := Spec{Cores: cores, Bus: Bus{Total: 8e9, PerCore: 3e9}}
		o := newOwner(spec, 2)
		jobs := rapid.IntRange(1, 40).Draw(t, "jobs")
		var asked time.Duration
		for id := range uint64(jobs) {
			steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
				d := time.Duration(rapid.IntRange(0, 5000).Draw(t, "d"))
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0:
					return compute(d)
				case 1:
					return Step{Kind: Stream, Bytes: int64(d), Rate: float64(rapid.IntRange(0, 2).Draw(t, "rate")) * 1e9}
				case 2:
					return Step{Kind: Lock, Index: uint16(rapid.IntRange(0, 1).Draw(t, "lock")), Duration: d}
				case 3:
					return Step{Kind: Delay, Duration: d}
				}
				return Step{Kind: Memory, Bytes: int64(d)}
			}), 0, 5).Draw(t, "steps")
			for _, s := range steps {
				if s.Kind == Compute || s.Kind == Lock {
					asked += s.Duration
				}
			}
			o.submit(id, steps...)
			at := o.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")))
			for o.m.Next() <= at {
				before, from := o.m.BytesMoved(o.now), o.now
				o.now = o.m.Next()
				o.note(o.m.Advance(o.now, o.out[:0]))
				if moved, most := float64(o.m.BytesMoved(o.now)-before), 8*float64(o.now.Sub(from))+1; moved > most {
					t.Fatalf("%g bytes moved in %v", moved, o.now.Sub(from))
				}
				if o.m.BusyCores() > cores {
					t.Fatalf("%d of %d cores busy", o.m.BusyCores(), cores)
				}
			}
			o.now = at
		}
		o.run(clock.Instant(time.Hour))
		if len(o.log) != jobs {
			t.Fatalf("%d of %d jobs finished", len(o.log), jobs)
		}
		if o.m.BusyCores() != 0 || o.m.RAM() != 0 || o.m.Streams() != 0 || o.m.QueueLen() != 0 {
			t.Fatal("something stays held on an empty machine")
		}
		if got := o.m.BusyTime(o.now); got < asked {
			t.Fatalf("core-time %v is less than the %v asked for", got, asked)
		}
	})
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	o := newOwner(Spec{Cores: 4, Bus: Bus{Total: 8e9, PerCore: 3e9}}, 1)
	jobs := make([]Job, 32)
	work := [][]Step{
		{compute(3 * us), stream(2000)},
		{{Kind: Lock, Duration: us}, {Kind: Delay, Duration: 2 * us}, {Kind: Stream, Bytes: 500, Rate: 1e9}},
	}
	var out []Event
	round := func() {
		for i := range jobs {
			jobs[i].Steps = work[i%len(work)]
			out = o.m.Submit(o.now, &jobs[i], out[:0])
		}
		for o.m.Next() != clock.Never {
			o.now = o.m.Next()
			out = o.m.Advance(o.now, out[:0])
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%g allocations a round of %d jobs, want none", n, len(jobs))
	}
}

func TestSpecCheck(t *testing.T) {
	t.Parallel()
	good := Spec{Cores: 18, Bus: Bus{Total: 36e9, PerCore: 6e9, Decay: 0.01}, Network: 5 * us, RAM: 1 << 30}
	if err := good.Check(); err != nil {
		t.Errorf("a good machine is refused: %v", err)
	}
	for name, breakIt := range map[string]func(*Spec){
		"no cores":         func(s *Spec) { s.Cores = 0 },
		"negative network": func(s *Spec) { s.Network = -1 },
		"negative ram":     func(s *Spec) { s.RAM = -1 },
		"no per-core rate": func(s *Spec) { s.Bus.PerCore = 0 },
		"negative total":   func(s *Spec) { s.Bus.Total = -1 },
		"NaN total":        func(s *Spec) { s.Bus.Total = math.NaN() },
		"decay over one":   func(s *Spec) { s.Bus.Decay = 1.5 },
	} {
		bad := good
		breakIt(&bad)
		if bad.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// BenchmarkEvents is the cost of one completion, with 16 jobs on 8 cores, by kind of step.
func BenchmarkEvents(b *testing.B) {
	for name, steps := range map[string][]Step{
		"compute": {compute(us)},
		"stream":  {stream(1000)},
		"delay":   {{Kind: Delay, Duration: us}},
	} {
		b.Run(name, func(b *testing.B) {
			m := New(Spec{Cores: 8, Bus: Bus{Total: 8e9, PerCore: 3e9}}, 0)
			var out []Event
			now := clock.Instant(0)
			for range 16 {
				out = m.Submit(now, &Job{Steps: steps}, out)
			}
			out = out[:0]
			b.ReportAllocs()
			for b.Loop() {
				now = m.Next()
				out = m.Advance(now, out[:0])
				for _, e := range out {
					m.Submit(now, e.Job, nil)
				}
			}
		})
	}
}
