package aqm_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/machine"
	"spillway/machine/station"
)

const us = clock.Instant(time.Microsecond)

// lockOf returns a lock with waiters that came at the given instants, the first of which holds it, and whose last hold times were as given.
func lockOf(c aqm.LockConfig, holds []time.Duration, entered ...clock.Instant) control.Section {
	l := aqm.NewLock(c)
	now := clock.Instant(0)
	for _, d := range holds {
		l.Enter(now, &control.Request{ID: 1}, control.WaitMode)
		now = now.Add(d)
		l.Leave(now, &control.Request{ID: 1}, nil)
	}
	for i, at := range entered {
		l.Enter(at, &control.Request{ID: uint64(i)}, control.WaitMode)
	}
	return l
}

// Drop before waiting: waited + age of the oldest waiter > budget (Protego §4), or waited + mean hold × waiters > budget (Svalinn).
func TestLockDropsBeforeWaiting(t *testing.T) {
	t.Parallel()
	const budget = 200 * time.Microsecond
	holds := []time.Duration{100 * time.Microsecond, 50 * time.Microsecond} // mean: 0.2·(0.8·100) + 0.8·50 = 56 µs
	for _, c := range []struct {
		what    string
		policy  string
		entered []clock.Instant // in µs; the first holds the lock
		now     clock.Instant
		request control.Request
		config  time.Duration
		want    control.Verdict
	}{
		{"free", control.LockQLen, nil, 1000, control.Request{Waited: budget + 1, Budget: budget}, 0, control.Admit},
		{"nobody waits, however long it has been held", control.LockQDelay, []clock.Instant{200}, 5000, control.Request{Budget: budget}, 0, control.Wait},
		{"oldest just young enough", control.LockQDelay, []clock.Instant{200, 800, 900}, 1000, control.Request{Budget: budget}, 0, control.Wait},
		{"oldest too old", control.LockQDelay, []clock.Instant{200, 799, 900}, 1000, control.Request{Budget: budget}, 0, control.Reject},
		{"its own waits count", control.LockQDelay, []clock.Instant{200, 900}, 1000, control.Request{Budget: budget, Waited: 101 * time.Microsecond}, 0, control.Reject},
		{"the lock's budget", control.LockQDelay, []clock.Instant{200, 799}, 1000, control.Request{}, budget, control.Reject},
		{"its own budget goes before the lock's", control.LockQDelay, []clock.Instant{200, 799}, 1000, control.Request{Budget: time.Second}, budget, control.Wait},
		{"no budget at all", control.LockQDelay, []clock.Instant{200, 300}, 1e6, control.Request{}, 0, control.Wait},
		{"a burst is young", control.LockQDelay, []clock.Instant{1000, 1000, 1000, 1000, 1000}, 1000, control.Request{Budget: budget}, 0, control.Wait},
		{"but long: 4 × 56 µs", control.LockQLen, []clock.Instant{1000, 1000, 1000, 1000, 1000}, 1000, control.Request{Budget: budget}, 0, control.Reject},
		{"3 × 56 µs", control.LockQLen, []clock.Instant{1000, 1000, 1000, 1000}, 1000, control.Request{Budget: budget}, 0, control.Wait},
		{"3 × 56 µs and 33 µs before", control.LockQLen, []clock.Instant{1000, 1000, 1000, 1000}, 1000, control.Request{Budget: budget, Waited: 33 * time.Microsecond}, 0, control.Reject},
		{"old, but short", control.LockQLen, []clock.Instant{200, 300}, 1000, control.Request{Budget: budget}, 0, control.Wait},
		{"off", control.LockOff, []clock.Instant{200, 300, 300}, 1e6, control.Request{Budget: 1}, 1, control.Wait},
	} {
		var entered []clock.Instant
		for _, at := range c.entered {
			entered = append(entered, at*us)
		}
		l := lockOf(aqm.LockConfig{Policy: c.policy, Budget: c.config}, holds, entered...)
		c.request.ID = 99
		d := l.Enter(c.now*us, &c.request, control.WaitWithinBudget)
		if d.Verdict != c.want || d.Verdict == control.Reject && d.Reason != control.Lock {
			t.Errorf("%s: %+v, want verdict %d", c.what, d, c.want)
		}
	}
	l := lockOf(aqm.LockConfig{Policy: control.LockQDelay}, nil, 0, 0)
	if d := l.Enter(us, &control.Request{ID: 99, Budget: 1, Waited: 5}, control.WaitMode); d.Verdict != control.Wait {
		t.Errorf("whoever insists on waiting gets %+v", d)
	}
	if d := l.Enter(us, &control.Request{ID: 100}, control.Try); d.Verdict != control.Reject || d.Reason != control.Lock {
		t.Errorf("whoever only tries gets %+v", d)
	}
}

// A condition variable drops by the age of its oldest waiter, under every policy but off.
func TestCond(t *testing.T) {
	t.Parallel()
	for policy, last := range map[string]control.Verdict{control.LockQDelay: control.Reject, control.LockQLen: control.Reject, control.LockOff: control.Wait} {
		c := aqm.NewCond(aqm.LockConfig{Policy: policy, Budget: 100 * time.Microsecond})
		for id, at := range []clock.Instant{0, 50 * us, 100 * us} {
			if d := c.Wait(at, &control.Request{ID: uint64(id)}); d.Verdict != control.Wait {
				t.Errorf("%s: the one at %v gets %+v", policy, at, d)
			}
		}
		if d := c.Wait(101*us, &control.Request{ID: 3}); d.Verdict != last || last == control.Reject && d.Reason != control.Lock {
			t.Errorf("%s: when the oldest is beyond the budget: %+v, want verdict %d", policy, d, last)
		}
		var woken []uint64
		var waited []time.Duration
		note := func(actions []control.Action) {
			for _, a := range actions {
				if a.Kind != control.Resume {
					t.Errorf("action %+v", a)
				}
				woken, waited = append(woken, a.Request.ID), append(waited, a.Request.Waited)
			}
		}
		note(c.Signal(110*us, nil))
		removed, _ := c.Withdraw(111*us, 1, nil)
		again, _ := c.Withdraw(111*us, 1, nil)
		note(c.Broadcast(120*us, nil))
		note(c.Signal(130*us, nil))
		want := []uint64{0, 2}
		if last == control.Wait {
			want = append(want, 3)
		}
		if !removed || again || !slices.Equal(woken, want) || waited[0] != 110*time.Microsecond || waited[1] != 20*time.Microsecond {
			t.Errorf("%s: withdrawn %v and %v, woken %v after %v; want true, false, %v after 110 and 20 µs", policy, removed, again, woken, waited, want)
		}
	}
}

func TestViolated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    control.Request
		want bool
	}{
		{control.Request{Waited: 200, Budget: 200}, false}, {control.Request{Waited: 201, Budget: 200}, true}, {control.Request{Waited: 201}, false},
	} {
		if got := aqm.Violated(&c.r); got != c.want {
			t.Errorf("waited %d of %d: %v", c.r.Waited, c.r.Budget, got)
		}
	}
}

func TestLockConfigCheck(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]aqm.LockConfig{
		`lock policy is "", must be off, qdelay or qlen`: {},
		"lock budget is -1ns, must not be negative":      {Policy: control.LockQLen, Budget: -1},
	} {
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}

// Whoever enters, gives up and leaves, there is one holder, and the lock goes to those who wait in the order in which they came.
func TestLockIsHandedOverInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]string{control.LockOff, control.LockQDelay, control.LockQLen}).Draw(t, "policy")
		l := aqm.NewLock(aqm.LockConfig{Policy: policy, Budget: 50})
		now, lastID := clock.Instant(0), uint64(0)
		holder, waiting := uint64(0), []uint64{}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				lastID++
				switch d := l.Enter(now, &control.Request{ID: lastID}, control.WaitWithinBudget); {
				case d.Verdict == control.Admit && holder == 0:
					holder = lastID
				case d.Verdict == control.Wait && holder != 0:
					waiting = append(waiting, lastID)
				case d.Verdict != control.Reject || holder == 0 || policy == control.LockOff:
					t.Fatalf("%+v while %d holds and %v wait", d, holder, waiting)
				}
			},
			"leave": func(t *rapid.T) {
				if holder == 0 {
					t.Skip("free")
				}
				actions := l.Leave(now, &control.Request{ID: holder}, nil)
				holder = 0
				if len(actions) != min(1, len(waiting)) {
					t.Fatalf("%d resumed of %d", len(actions), len(waiting))
				}
				for _, a := range actions {
					if holder = a.Request.ID; holder != waiting[0] {
						t.Fatalf("%d goes on, want %d", holder, waiting[0])
					}
					waiting = waiting[1:]
				}
			},
			"withdraw": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "who")
				if removed, actions := l.(control.Withdrawer).Withdraw(now, waiting[i], nil); !removed || len(actions) > 0 {
					t.Fatalf("withdrawn %v, %+v", removed, actions)
				}
				waiting = slices.Delete(waiting, i, i+1)
			},
			"": func(t *rapid.T) { now += clock.Instant(rapid.IntRange(0, 30).Draw(t, "ns")) },
		})
	})
}

// end is what came of one request at a station.
type end struct {
	At      clock.Instant
	Reply   station.Reply
	Latency time.Duration
}

// With policy off the queue in front of a lock makes no difference to the machine's own: random jobs through the same station end at
// the same nanoseconds, having waited as long.
func TestLockOffIsTheMachinesOwn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		own, queues := lockRun(seed, 0), lockRun(seed, 3)
		if len(own) != lockRequests {
			t.Fatalf("%d of %d requests ended", len(own), lockRequests)
		}
		if diff := cmp.Diff(own, queues); diff != "" {
			t.Fatalf("seed %d: the machine's own locks (-) and queues in front of them (+):\n%s", seed, diff[:min(len(diff), 2000)])
		}
	}
}

const lockRequests = 500

// lockRun lets random jobs with computing, locks, streams and waits through a small station. queues says how many of its three locks
// have a queue of their own.
func lockRun(seed uint64, queues int) map[uint64]end {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := station.Config{
		Controller: control.None{}, Gate: control.GateConfig{Slots: rng.IntN(12)}, Locks: 3,
		Machine: machine.Spec{Cores: 1 + rng.IntN(4), Bus: machine.Bus{Total: 10e9, PerCore: 4e9}},
	}
	for range queues {
		c.LockQueues = append(c.LockQueues, aqm.NewLock(aqm.LockConfig{Policy: control.LockOff}))
	}
	s := station.New(c)
	ends, came := map[uint64]end{}, map[uint64]clock.Instant{}
	now := clock.Instant(0)
	note := func(replies []station.Reply) {
		for _, r := range replies {
			ends[r.Token] = end{At: now, Reply: r, Latency: now.Sub(came[r.Token])}
		}
	}
	next := clock.Instant(0)
	for token := uint64(1); len(ends) < lockRequests; {
		if token > lockRequests || s.Next() < next {
			now = s.Next()
			note(s.Advance(now))
			continue
		}
		now = next
		came[token] = now
		note(s.Arrive(now, control.Request{Budget: 1}, lockSteps(rng), token, station.NoDemand))
		token++
		next = now.Add(time.Duration(rng.ExpFloat64() * 20e3))
	}
	return ends
}

func lockSteps(rng *rand.Rand) []machine.Step {
	some := func(mean float64) time.Duration { return time.Duration(1 + rng.ExpFloat64()*mean) }
	var steps []machine.Step
	for range 1 + rng.IntN(4) {
		switch rng.IntN(5) {
		case 0:
			steps = append(steps, machine.Step{Kind: machine.Compute, Duration: some(10e3)})
		case 1:
			steps = append(steps, machine.Step{Kind: machine.Stream, Bytes: int64(some(40e3))})
		case 2:
			steps = append(steps, machine.Step{Kind: machine.Delay, Duration: some(10e3)})
		default:
			steps = append(steps, machine.Step{Kind: machine.Lock, Index: uint16(rng.IntN(3)), Duration: some(8e3)})
		}
	}
	return steps
}

func TestLockDoesNotAllocate(t *testing.T) {
	for _, policy := range []string{control.LockOff, control.LockQDelay, control.LockQLen} {
		u := lockUser{lock: aqm.NewLock(aqm.LockConfig{Policy: policy, Budget: time.Millisecond})}
		for range 100 {
			u.turn()
		}
		if n := testing.AllocsPerRun(100, u.turn); n != 0 {
			t.Errorf("%s: %v allocations", policy, n)
		}
	}
}

// lockUser passes ten requests through a lock.
type lockUser struct {
	lock control.Section
	now  clock.Instant
	id   uint64
	out  []control.Action
	r    control.Request // the one that enters; a local variable would be allocated for the interface
}

func (u *lockUser) turn() {
	u.out = u.out[:0]
	for range 10 {
		u.id++
		u.r = control.Request{ID: u.id}
		if u.lock.Enter(u.now, &u.r, control.WaitWithinBudget).Verdict == control.Admit {
			u.out = append(u.out, control.Action{Request: u.r})
		}
	}
	for i := 0; i < len(u.out); i++ {
		u.now += 10 * us
		u.out = u.lock.Leave(u.now, &u.out[i].Request, u.out)
	}
}

func BenchmarkLock(b *testing.B) {
	for _, policy := range []string{control.LockOff, control.LockQDelay, control.LockQLen} {
		b.Run(policy, func(b *testing.B) {
			u := lockUser{lock: aqm.NewLock(aqm.LockConfig{Policy: policy, Budget: time.Second})}
			b.ReportAllocs()
			for b.Loop() {
				u.turn()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*10), "ns/request")
		})
	}
}
