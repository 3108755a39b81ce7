package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
	"spillway/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newGuard(c control.Controller, slots int) *guard.Guard {
	return guard.New(control.NewGate(c, control.GateConfig{Slots: slots}), clock.NewReal(), nil)
}

// acquired is what a call of Acquire in another goroutine came to.
type acquired struct {
	done func(bool)
	err  error
}

func acquire(ctx context.Context, g *guard.Guard, r control.Request) <-chan acquired {
	c := make(chan acquired, 1)
	go func() {
		done, err := g.Acquire(ctx, r)
		c <- acquired{done, err}
	}()
	return c
}

// settled returns what has come to c once all goroutines of the bubble are at rest, and fails the test if nothing has.
func settled(t *testing.T, c <-chan acquired) acquired {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		return a
	default:
		t.Fatal("still waits")
		return acquired{}
	}
}

func waits(t *testing.T, c <-chan acquired) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-c:
		t.Fatalf("does not wait, but has %+v", a)
	default:
	}
}

func TestAcquireWaitsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(control.None{}, 1)
		defer g.Close()
		first := settled(t, acquire(t.Context(), g, control.Request{}))
		second := acquire(t.Context(), g, control.Request{})
		waits(t, second)
		third := acquire(t.Context(), g, control.Request{})
		waits(t, third)
		first.done(false)
		first.done(true) // only the first call counts
		settled(t, second).done(true)
		settled(t, third).done(false)
		if s := g.Stats(); s.Finished != 3 || s.Failed != 1 || s.InService != 0 || s.Queued != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestAcquireSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(limit.NewFixed(limit.FixedConfig{Limit: 1}, 0), 0)
		defer g.Close()
		defer settled(t, acquire(t.Context(), g, control.Request{})).done(false)
		_, err := g.Acquire(t.Context(), control.Request{})
		var overloaded *guard.Overloaded
		if !errors.As(err, &overloaded) || overloaded.Reason != control.Limit {
			t.Errorf("error %v, want overloaded by limit", err)
		}
	})
}

func TestCancelledWaiterLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(control.None{}, 1)
		defer g.Close()
		first := settled(t, acquire(t.Context(), g, control.Request{}))
		ctx, cancel := context.WithCancel(t.Context())
		second := acquire(ctx, g, control.Request{})
		third := acquire(t.Context(), g, control.Request{})
		waits(t, second)
		waits(t, third)
		cancel()
		if a := settled(t, second); !errors.Is(a.err, context.Canceled) {
			t.Errorf("error %v, want that of the context", a.err)
		}
		waits(t, third)
		first.done(false)
		settled(t, third).done(false)
		if _, err := g.Acquire(ctx, control.Request{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v for a context that has ended before", err)
		}
		if s := g.Stats(); s.Arrived != 3 || s.Shed[control.Cancelled] != 1 || s.Finished != 2 || s.InService != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(control.None{}, 1)
		defer g.Close()
		first := settled(t, acquire(t.Context(), g, control.Request{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := acquire(ctx, g, control.Request{})
		third := acquire(t.Context(), g, control.Request{Deadline: clock.Instant(time.Second)})
		waits(t, second)
		<-time.After(2 * time.Second)
		if a := settled(t, second); !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the context", a.err)
		}
		// Nothing else has happened since: the slot is still taken.
		var overloaded *guard.Overloaded
		if a := settled(t, third); !errors.As(a.err, &overloaded) || overloaded.Reason != control.Expired {
			t.Errorf("error %v, want overloaded by expiry", a.err)
		}
		if s := g.Stats(); s.Shed[control.Expired] != 1 || s.Shed[control.Cancelled] != 1 {
			t.Errorf("shed %v, want one expired and one cancelled", s.Shed)
		}
		first.done(false)
	})
}

// The deadline of a context is known to the controller as soon as the request arrives.
func TestContextDeadlineBecomesTheRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &periodic{}
		g := newGuard(c, 0)
		defer g.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, own := range []clock.Instant{0, 77} { // not over yet: time stands still in a bubble
			done, err := g.Acquire(ctx, control.Request{Deadline: own})
			if err != nil {
				t.Fatal(err)
			}
			done(false)
		}
		if c.deadlines[0] != clock.Instant(time.Second) || c.deadlines[1] != 77 {
			t.Errorf("deadlines %v, want 1s and 77ns", c.deadlines)
		}
	})
}

func TestCloseTurnsWaitersAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(control.None{}, 1)
		first := settled(t, acquire(t.Context(), g, control.Request{}))
		var others []<-chan acquired
		for range 5 {
			others = append(others, acquire(t.Context(), g, control.Request{}))
		}
		synctest.Wait()
		g.Close()
		g.Close()
		for _, c := range others {
			if a := settled(t, c); !errors.Is(a.err, guard.ErrClosed) {
				t.Errorf("error %v, want closed", a.err)
			}
		}
		if _, err := g.Acquire(t.Context(), control.Request{}); !errors.Is(err, guard.ErrClosed) {
			t.Errorf("error %v, want closed", err)
		}
		first.done(false)
		if s := g.Stats(); s.InService != 0 || s.Queued != 0 || s.Finished != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// periodic is a controller with work every second, which opens for one request at a time: it says Wait with nothing in service.
type periodic struct {
	control.None
	every     time.Duration
	ticks     int
	tokens    int
	delays    []time.Duration // at ticks
	found     []time.Duration // at arrivals
	deadlines []clock.Instant
}

func (p *periodic) Decide(_ clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtArrival {
		p.deadlines = append(p.deadlines, r.Deadline)
		p.found = append(p.found, r.QueueDelay)
	}
	if s == control.AtDequeue && p.every > 0 && p.tokens == 0 {
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{}
}

func (p *periodic) Observe(_ clock.Instant, e control.Event) {
	if e.Kind == control.Started {
		p.tokens--
	}
}

func (p *periodic) Tick(now clock.Instant, s control.Signals) clock.Instant {
	p.ticks++
	p.tokens = 1
	p.delays = append(p.delays, s.QueueDelay)
	if p.every == 0 {
		return clock.Never
	}
	return now.Add(p.every)
}

func TestPeriodicWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &periodic{every: time.Second}
		sensors := func() control.Signals { return control.Signals{QueueDelay: time.Minute} }
		g := guard.New(control.NewGate(c, control.GateConfig{}), clock.NewReal(), sensors)
		first := acquire(t.Context(), g, control.Request{})
		settled(t, first).done(false)
		second, third := acquire(t.Context(), g, control.Request{}), acquire(t.Context(), g, control.Request{})
		waits(t, second)
		waits(t, third)
		<-time.After(1500 * time.Millisecond)
		// Which of the two came first is up to the scheduler; one tick lets one of them go.
		if len(second)+len(third) != 1 {
			t.Errorf("after one tick %d of 2 go on, want 1", len(second)+len(third))
		}
		<-time.After(time.Second)
		settled(t, second).done(false)
		settled(t, third).done(false)
		g.Close()
		ticks := c.ticks
		<-time.After(time.Minute)
		if c.ticks != ticks || ticks != 3 {
			t.Errorf("%d ticks before Close and %d after, want 3 and 0", ticks, c.ticks-ticks)
		}
		if c.delays[0] != time.Minute {
			t.Errorf("queueing delay %v, want that of the sensors", c.delays[0])
		}
	})
}

// A Guard knows nothing of cores: what its controller sees as queueing delay is the age of the oldest who waits to be let in.
func TestQueueDelayIsTheGates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &periodic{every: time.Second}
		g := guard.New(control.NewGate(c, control.GateConfig{Slots: 1}), clock.NewReal(), func() control.Signals { return control.Signals{} })
		first := acquire(t.Context(), g, control.Request{})
		done := settled(t, first).done
		<-time.After(1250 * time.Millisecond)
		second := acquire(t.Context(), g, control.Request{})
		waits(t, second)
		<-time.After(250 * time.Millisecond)
		third := acquire(t.Context(), g, control.Request{})
		waits(t, third)
		<-time.After(time.Second)
		done(false)
		settled(t, second).done(false)
		<-time.After(time.Second)
		settled(t, third).done(false)
		g.Close()
		if want := []time.Duration{0, 0, 750 * time.Millisecond}; !slices.Equal(c.delays[:3], want) {
			t.Errorf("ticks have seen %v, want %v", c.delays, want)
		}
		if want := []time.Duration{0, 0, 250 * time.Millisecond}; !slices.Equal(c.found, want) {
			t.Errorf("arrivals have seen %v, want %v", c.found, want)
		}
	})
}

// A controller that is always due must not keep a core busy.
func TestEagerTicksArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &periodic{every: 1}
		g := newGuard(c, 0)
		<-time.After(time.Second)
		g.Close()
		if c.ticks < 100 || c.ticks > 11_000 {
			t.Errorf("%d ticks in a second", c.ticks)
		}
	})
}

// TestGrantAgainstCancel lets contexts end at the very moment at which slots are granted, many times, and then counts the slots.
func TestGrantAgainstCancel(t *testing.T) {
	t.Parallel()
	const slots, callers, rounds = 3, 24, 300
	g := newGuard(limit.NewFixed(limit.FixedConfig{Limit: slots, Queue: callers / 2}, 0), 0)
	defer g.Close()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				var other sync.WaitGroup
				other.Go(func() {
					for range rng.IntN(200) {
						_ = g.Stats() // passes time and contends for the lock
					}
					cancel()
				})
				if done, err := g.Acquire(ctx, control.Request{}); err == nil {
					done(false)
				}
				other.Wait()
			}
		})
	}
	all.Wait()
	s := g.Stats()
	if s.InService != 0 || s.Queued != 0 || s.Started != s.Finished {
		t.Fatalf("left behind: %+v", s)
	}
	if s.Arrived != s.Finished+s.Shed[control.Limit]+s.Shed[control.Cancelled] {
		t.Errorf("fates do not sum to the arrivals: %+v", s)
	}
	for range slots {
		if _, err := g.Acquire(t.Context(), control.Request{}); err != nil {
			t.Fatalf("a slot was lost: %v", err)
		}
	}
	if s := g.Stats(); s.InService != slots || s.Queued != 0 {
		t.Errorf("%d in service and %d queued, want %d and 0", s.InService, s.Queued, slots)
	}
}
