package control_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
)

// ordering is a controller that lets nobody start while closed, and whose order and express requests a test sets.
type ordering struct {
	control.None
	order   control.Order
	closed  bool
	express bool
}

func (o *ordering) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s == control.AtDequeue && o.closed {
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{Express: o.express}
}

func (o *ordering) Order(clock.Instant) control.Order { return o.order }

// line is what a test expects of the Gate's queue: who waits, in order of arrival.
type line struct {
	express, plain []control.Request
}

// leaves returns who must leave the queue next at now with a free slot, and whether it is because it has expired.
func (l *line) leaves(now clock.Instant, o control.Order) (id uint64, expired, ok bool) {
	late := func(r control.Request) bool { return r.Deadline != 0 && now > r.Deadline }
	switch {
	case len(l.express) > 0 && late(l.express[0]):
		return l.express[0].ID, true, true
	case len(l.plain) > 0 && (late(l.plain[0]) || o.MaxAge > 0 && now.Sub(l.plain[0].Arrived) > o.MaxAge):
		return l.plain[0].ID, true, true
	case len(l.express) > 0:
		return l.express[0].ID, false, true
	case len(l.plain) == 0:
		return 0, false, false
	case o.Newest:
		last := l.plain[len(l.plain)-1]
		return last.ID, late(last), true
	default:
		return l.plain[0].ID, false, true
	}
}

func (l *line) remove(id uint64) {
	is := func(r control.Request) bool { return r.ID == id }
	l.express, l.plain = slices.DeleteFunc(l.express, is), slices.DeleteFunc(l.plain, is)
}

// TestGateOrder drives a Gate whose controller changes its mind about the order all the time, alone and in a Chain.
func TestGateOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := &ordering{}
		var c control.Controller = o
		if rapid.Bool().Draw(t, "chained") {
			c = control.NewChain(control.None{}, o, control.None{})
		}
		g := control.NewGate(c, control.GateConfig{Slots: rapid.IntRange(0, 2).Draw(t, "slots")})
		var l line
		var now clock.Instant
		var lastID uint64
		places := map[uint64]control.Place{}
		var serving []control.Request
		apply := func(out []control.Action) {
			for _, a := range out {
				if a.Kind == control.Queue {
					places[a.Request.ID] = a.Place
					continue
				}
				id, expired, ok := l.leaves(now, o.order)
				if !ok || id != a.Request.ID || expired != (a.Kind == control.Refuse) {
					t.Fatalf("at %d %v under %+v: request %d, action %d; want %d, expired %v", now, l, o.order, a.Request.ID, a.Kind, id, expired)
				}
				l.remove(id)
				if a.Kind == control.Start {
					serving = append(serving, a.Request)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += clock.Instant(rapid.IntRange(0, 5).Draw(t, "pause"))
			o.closed = rapid.Bool().Draw(t, "closed")
			o.order = control.Order{Newest: rapid.Bool().Draw(t, "newest"), MaxAge: time.Duration(rapid.IntRange(0, 15).Draw(t, "age"))}
			switch rapid.SampledFrom([]string{"arrive", "arrive", "finish", "withdraw", "tick"}).Draw(t, "event") {
			case "arrive":
				// What is due at this instant leaves before the newcomer is looked at.
				out, _ := g.Tick(now, control.Signals{}, nil)
				apply(out)
				lastID++
				r := control.Request{ID: lastID, Arrived: now}
				if rapid.Bool().Draw(t, "has a deadline") {
					r.Deadline = now + clock.Instant(rapid.IntRange(1, 20).Draw(t, "deadline"))
				}
				if o.express = rapid.Bool().Draw(t, "express"); o.express {
					l.express = append(l.express, r)
				} else {
					l.plain = append(l.plain, r)
				}
				apply(g.Arrive(now, r, nil))
			case "finish":
				if len(serving) > 0 {
					r := serving[0]
					serving = serving[1:]
					apply(g.Finish(now, r, 1, false, nil))
				}
			case "withdraw":
				waiting := slices.Concat(l.express, l.plain)
				if len(waiting) > 0 {
					r := rapid.SampledFrom(waiting).Draw(t, "who")
					l.remove(r.ID)
					removed, out := g.Withdraw(now, places[r.ID], nil)
					if !removed {
						t.Fatalf("%d waits, but cannot be withdrawn", r.ID)
					}
					if again, _ := g.Withdraw(now, places[r.ID], nil); again {
						t.Fatalf("%d was withdrawn twice", r.ID)
					}
					apply(out)
				}
			case "tick":
				out, _ := g.Tick(now, control.Signals{}, nil)
				apply(out)
			}
			oldest := now
			for _, r := range slices.Concat(l.express, l.plain) {
				oldest = min(oldest, r.Arrived)
			}
			if s := g.Stats(); s.Queued != len(l.express)+len(l.plain) || g.QueueDelay(now) != now.Sub(oldest) {
				t.Fatalf("%d queued for %v, want %d for %v", s.Queued, g.QueueDelay(now), len(l.express)+len(l.plain), now.Sub(oldest))
			}
		}
	})
}

// TestChainOrder: the newest go first when one member wants it, and the most impatient member sets the age.
func TestChainOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members []control.Controller
		want    control.Order
	}{
		{[]control.Controller{control.None{}}, control.Order{}},
		{[]control.Controller{&ordering{order: control.Order{MaxAge: 5}}, &ordering{order: control.Order{MaxAge: 3}}}, control.Order{MaxAge: 3}},
		{[]control.Controller{&ordering{order: control.Order{MaxAge: 3}}, &ordering{order: control.Order{Newest: true}}}, control.Order{Newest: true, MaxAge: 3}},
	} {
		if got := control.NewChain(c.members...).(control.Orderer).Order(0); got != c.want {
			t.Errorf("order %+v, want %+v", got, c.want)
		}
	}
}

// Taking from either end, and past those who wait, costs no memory once the queues have been as long as they get.
func TestGateOrderAllocatesNothing(t *testing.T) {
	o := &ordering{closed: true}
	g := control.NewGate(o, control.GateConfig{})
	out := make([]control.Action, 0, 2000)
	now := clock.Instant(0)
	pass := func() {
		o.closed = true
		for id := range uint64(500) {
			now++
			o.express = id%5 == 0
			out = g.Arrive(now, control.Request{ID: id}, out[:0])
		}
		o.closed, o.order.Newest = false, !o.order.Newest
		out, _ = g.Tick(now, control.Signals{}, out[:0])
		if len(out) != 500 {
			t.Fatalf("%d left the queue, want 500", len(out))
		}
		for i := range out {
			g.Finish(now, out[i].Request, 1, false, nil)
		}
	}
	pass()
	if allocs := testing.AllocsPerRun(20, pass); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
