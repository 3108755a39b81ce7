package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
	"spillway/control/memsem"
	"spillway/guard"
)

// fixedMemory returns a memory semaphore of a fixed capacity.
func fixedMemory(t testing.TB, capacity int) *memsem.Semaphore {
	t.Helper()
	c := memsem.Default()
	c.Bandit, c.Capacity = "fixed", capacity
	s, err := memsem.Build(c, capacity, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inBackground calls f in a goroutine.
func inBackground(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// result returns what has come to c once all goroutines of the bubble are at rest; ok is false when nothing has.
func result(c <-chan error) (err error, ok bool) {
	synctest.Wait()
	select {
	case err := <-c:
		return err, true
	default:
		return nil, false
	}
}

// wantResult fails the test unless c has exactly this error, or none.
func wantResult(t *testing.T, what string, c <-chan error, want error) {
	t.Helper()
	if err, ok := result(c); !ok || !errors.Is(err, want) {
		t.Errorf("%s: %v (over: %v), want %v", what, err, ok, want)
	}
}

func wantWaits(t *testing.T, what string, c <-chan error) {
	t.Helper()
	if err, ok := result(c); ok {
		t.Errorf("%s does not wait, but has %v", what, err)
	}
}

// reasonOf returns why err says that a request was turned away.
func reasonOf(err error) control.Reason {
	var overloaded *guard.Overloaded
	if errors.As(err, &overloaded) {
		return overloaded.Reason
	}
	return control.NoReason
}

// stubborn hides that waiters can be taken out of a section.
type stubborn struct{ control.Section }

func TestSemaphoreWaits(t *testing.T) {
	t.Parallel()
	for name, section := range map[string]control.Section{
		"memsem": fixedMemory(t, 1), "limit": limit.NewSection(1, control.Memory), "one that cannot withdraw": stubborn{limit.NewSection(1, control.Memory)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := guard.NewSemaphore(section, clock.NewReal(), nil)
				defer s.Close()
				wait := func(ctx context.Context) <-chan error {
					c := inBackground(func() error { return s.Wait(ctx) })
					synctest.Wait()
					return c
				}
				if !s.TryWait() || s.TryWait() {
					t.Fatal("the first goes in, the second does not")
				}
				first := wait(t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				second := wait(ctx)
				third := wait(t.Context())
				wantWaits(t, "the first", first)
				cancel()
				wantResult(t, "the one that gave up", second, context.Canceled)
				s.Post()
				wantResult(t, "the first", first, nil)
				wantWaits(t, "the third", third)
				s.Post()
				wantResult(t, "the third", third, nil)
				s.Post()
				if !s.TryWait() {
					t.Error("a place was lost")
				}
				wantResult(t, "with a context that has ended", wait(ctx), context.Canceled)
				fourth := wait(t.Context())
				s.Close()
				wantResult(t, "at Close", fourth, guard.ErrClosed)
				wantResult(t, "after Close", wait(t.Context()), guard.ErrClosed)
				s.Post()
			})
		})
	}
}

// What a request waits in sections counts against its budget, and what it waited before does as well.
func TestWaitIfUncongestedKnowsTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(control.None{}, 0)
		defer g.Close()
		s := guard.NewSemaphore(fixedMemory(t, 1), clock.NewReal(), nil)
		defer s.Close()
		begin := func(budget time.Duration) *guard.Ticket {
			ticket, err := g.Begin(t.Context(), control.Request{Budget: budget})
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		patient, hasty, waiting := begin(0), begin(time.Second), begin(time.Second)
		if !s.TryWait() {
			t.Fatal("the first does not go in")
		}
		c := inBackground(func() error { return s.WaitIfUncongested(waiting.Context()) })
		wantWaits(t, "nobody waits yet", c)
		<-time.After(2 * time.Second)
		if err := s.WaitIfUncongested(hasty.Context()); reasonOf(err) != control.Memory {
			t.Errorf("behind one that has waited 2 s: %v, want overloaded by memory", err)
		}
		if err := hasty.Err(); err != nil {
			t.Errorf("a semaphore by itself drops nobody: %v", err)
		}
		d := inBackground(func() error { return s.WaitIfUncongested(patient.Context()) })
		wantWaits(t, "one without a budget", d)
		s.Post()
		wantResult(t, "the one that waited", c, nil)
		if w := waiting.Request().Waited; w != 2*time.Second || !waiting.Spent() || hasty.Spent() {
			t.Errorf("waited %v, spent %v and %v; want 2s, true and false", w, waiting.Spent(), hasty.Spent())
		}
		s.Post()
		wantResult(t, "the patient one", d, nil)
		s.Post()
		for _, ticket := range []*guard.Ticket{patient, hasty, waiting} {
			ticket.Done(false)
		}
	})
}

func TestMutex(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(control.None{}, 0)
		defer g.Close()
		m := guard.NewMutex(aqm.NewLock(aqm.LockConfig{Policy: control.LockQDelay, Budget: time.Second}), clock.NewReal())
		if !m.TryLock() || m.TryLock() {
			t.Fatal("the lock is free once")
		}
		first := inBackground(func() error { return m.LockIfUncongested(t.Context()) })
		wantWaits(t, "the first", first)
		<-time.After(1100 * time.Millisecond)
		if err := m.LockIfUncongested(t.Context()); reasonOf(err) != control.Lock {
			t.Errorf("behind one that has waited longer than the budget: %v, want overloaded by lock", err)
		}
		second := inBackground(func() error { return m.Lock(t.Context()) })
		wantWaits(t, "one that insists", second)
		m.Unlock()
		wantResult(t, "the first", first, nil)
		m.Unlock()
		wantResult(t, "the second", second, nil)
		m.Unlock()
		// A Guard without a stack makes locks that everybody waits for.
		plain := g.NewMutex()
		if err := plain.LockIfUncongested(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := inBackground(func() error { return plain.LockIfUncongested(t.Context()) })
		<-time.After(time.Hour)
		fourth := inBackground(func() error { return plain.LockIfUncongested(t.Context()) })
		wantWaits(t, "the third", third)
		wantWaits(t, "the fourth", fourth)
		for _, c := range []<-chan error{third, fourth} {
			plain.Unlock()
			wantResult(t, "its turn", c, nil)
		}
		plain.Unlock()
	})
}

// A semaphore that learns is ticked, and finds the knee of a bus that three workers fill: everybody adds what it moves.
func TestSemaphoreLearns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const knee, cores = 3, 8
		section, err := memsem.Build(memsem.Default(), cores, nil, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		moved := new(guard.Accounted)
		s := guard.NewSemaphore(section, clock.NewReal(), moved)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var inside atomic.Int64
		var workers sync.WaitGroup
		for range 2 * cores {
			workers.Go(func() {
				for s.Wait(ctx) == nil {
					n := inside.Add(1)
					// A megabyte at a millisecond alone; more than three share what three can move.
					<-time.After(20 * time.Microsecond * time.Duration(max(n, knee)) / knee)
					moved.Add(20_000)
					inside.Add(-1)
					s.Post()
				}
			})
		}
		sum, n := 0.0, 0.0
		for range 100 {
			<-time.After(10 * time.Millisecond)
			sum, n = sum+s.Meters()["memsem"], n+1
		}
		if mean := sum / n; mean < knee-1 || mean > knee+1.5 {
			t.Errorf("capacity %.1f on average, want about %d", mean, knee)
		}
		workers.Wait()
		if m := s.Meters(); m["memsem_inside"] != 0 || m["memsem_waiting"] != 0 {
			t.Errorf("left behind: %v", m)
		}
		s.Close() // goleak sees that the ticking has ended
		defer func() {
			if recover() == nil {
				t.Error("no panic for a semaphore that has nothing to learn from")
			}
		}()
		guard.NewSemaphore(section, clock.NewReal(), nil)
	})
}

// TestGrantAgainstCancelInSections lets contexts end at the very moment at which places are given, in every mode and in sections that can
// and cannot withdraw, and then counts the places.
func TestGrantAgainstCancelInSections(t *testing.T) {
	t.Parallel()
	const places, callers, rounds = 3, 12, 80
	for name, section := range map[string]control.Section{
		"memsem": fixedMemory(t, places), "limit": limit.NewSection(places, control.Memory), "stubborn": stubborn{limit.NewSection(places, control.Memory)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := guard.NewSemaphore(section, clock.NewReal(), nil)
			defer s.Close()
			var inside atomic.Int64
			use := func() {
				if n := inside.Add(1); n > places {
					t.Errorf("%d inside", n)
				}
				inside.Add(-1)
				s.Post()
			}
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for range rounds {
						ctx, cancel := context.WithCancel(t.Context())
						var other sync.WaitGroup
						other.Go(func() {
							for range rng.IntN(50) {
								_ = s.Meters() // passes time and contends for the lock
							}
							cancel()
						})
						switch i % 3 {
						case 0:
							if s.TryWait() {
								use()
							}
						case 1:
							if s.Wait(ctx) == nil {
								use()
							}
						default:
							if s.WaitIfUncongested(ctx) == nil {
								use()
							}
						}
						other.Wait()
					}
				})
			}
			all.Wait()
			for range places {
				if !s.TryWait() {
					t.Fatal("a place was lost")
				}
			}
			if s.TryWait() {
				t.Error("a place too many")
			}
			for range places {
				s.Post()
			}
		})
	}
}
