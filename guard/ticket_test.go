package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/catalog"
	"spillway/guard"
)

func newStackGuard(t testing.TB, controller string, settings map[string]any, gate control.GateConfig) *guard.Guard {
	t.Helper()
	stack, err := catalog.New(controller, settings, catalog.Env{Cores: 4, SLO: 500 * time.Millisecond, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.NewFromStack(stack, guard.Config{Gate: gate, Memory: new(guard.Accounted)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// full are the settings of a memory section with one place.
func full(mode string) map[string]any {
	return map[string]any{"section": mode, "bandit": "fixed", "capacity": 1}
}

func begin(t testing.TB, g *guard.Guard, ctx context.Context) *guard.Ticket {
	t.Helper()
	ticket, err := g.Begin(ctx, control.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// diary writes down what happens, for cleanups.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(what string) func() {
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lines = append(d.lines, what)
	}
}

func (d *diary) is(want ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Equal(d.lines, want)
}

// However a request ends, each cleanup is called once, or not at all when it was served and nobody asked for it.
func TestCleanupsAreCalledOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *guard.Ticket, gone func(), release func())
		want []string
	}{
		"served":                              {func(t *guard.Ticket, _, _ func()) { t.Done(false) }, nil},
		"served, released":                    {func(t *guard.Ticket, _, release func()) { release(); release(); t.Done(false) }, []string{"b"}},
		"failed":                              {func(t *guard.Ticket, _, _ func()) { t.Done(true); t.Done(false) }, nil},
		"dropped":                             {func(t *guard.Ticket, _, release func()) { _ = t.Drop(control.Memory); release(); t.Done(true) }, []string{"c", "b", "a"}},
		"released, then dropped":              {func(t *guard.Ticket, _, release func()) { release(); _ = t.Drop(control.Memory); t.Done(true) }, []string{"b", "c", "a"}},
		"dropped twice":                       {func(t *guard.Ticket, _, _ func()) { _ = t.Drop(control.Memory); _ = t.Drop(control.Lock); t.Done(true) }, []string{"c", "b", "a"}},
		"dropped after the end":               {func(t *guard.Ticket, _, _ func()) { t.Done(false); _ = t.Drop(control.Lock) }, nil},
		"the client has gone, and it failed":  {func(t *guard.Ticket, gone, _ func()) { gone(); t.Done(true) }, []string{"c", "b", "a"}},
		"the client has gone, it was served":  {func(t *guard.Ticket, gone, _ func()) { gone(); t.Done(false) }, nil},
		"the client has gone, Check finds it": {func(t *guard.Ticket, gone, _ func()) { gone(); _ = t.Check(); _ = t.Check(); t.Done(true) }, []string{"c", "b", "a"}},
		"the section is full":                 {func(t *guard.Ticket, _, _ func()) { _, _ = t.Memory(); t.Done(true) }, []string{"c", "b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newStackGuard(t, "none", full("try"), control.GateConfig{})
			defer g.Close()
			holder := begin(t, g, t.Context())
			leave, err := holder.Memory()
			if err != nil {
				t.Fatal(err)
			}
			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			var d diary
			ticket := begin(t, g, ctx)
			ticket.OnDrop(d.note("a"))
			release := ticket.OnDrop(d.note("b"))
			ticket.OnDrop(d.note("c"))
			c.end(ticket, gone, release)
			if !d.is(c.want...) {
				t.Errorf("called %v, want %v", d.lines, c.want)
			}
			late := new(diary)
			ticket.OnDrop(late.note("late"))() // nobody else would call it any more
			if !late.is("late") {
				t.Errorf("after the end: %v", late.lines)
			}
			leave()
			leave()
			holder.Done(false)
			if s, m := g.Stats(), g.Meters(); s.InService != 0 || m["memsem_inside"] != 0 {
				t.Errorf("left behind: %+v, %v", s, m)
			}
		})
	}
}

// A request that is dropped in the innermost of several sections gives back all of them at once, while its handler is still on its way out;
// one whose handler forgets to leave gives them back when it ends.
func TestNestedSectionsAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"refused", "client gone", "panic in a cleanup", "forgotten", "checked"} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newStackGuard(t, "none", full("wait"), control.GateConfig{Slots: 8})
				defer g.Close()
				outer, inner := g.NewMutex(), guard.NewMutex(aqm.NewLock(aqm.LockConfig{Policy: control.LockQLen}), clock.NewReal())
				if !inner.TryLock() {
					t.Fatal("the inner lock is taken")
				}
				ctx, gone := context.WithCancel(t.Context())
				defer gone()
				ticket := begin(t, g, ctx)
				if _, err := ticket.Memory(); err != nil {
					t.Fatal(err)
				}
				if _, err := ticket.Lock(outer); err != nil {
					t.Fatal(err)
				}
				free := func() bool {
					synctest.Wait()
					if g.Meters()["memsem_inside"] != 0 || !outer.TryLock() {
						return false
					}
					outer.Unlock()
					return true
				}
				if free() {
					t.Fatal("holds nothing")
				}
				switch ending {
				case "refused":
					if err := ticket.Drop(control.Lock); reasonOf(err) != control.Lock || !free() {
						t.Errorf("%v, everything free: %v", err, free())
					}
					if _, err := ticket.Memory(); reasonOf(err) != control.Lock {
						t.Errorf("a dropped request may not go in: %v", err)
					}
				case "client gone":
					waits := inBackground(func() error { _, err := ticket.Lock(inner); return err })
					wantWaits(t, "for the inner lock", waits)
					gone()
					wantResult(t, "the client is gone", waits, context.Canceled)
					if !free() {
						t.Error("something is held for a client that has gone")
					}
				case "panic in a cleanup":
					ticket.OnDrop(func() { panic("in a cleanup") })
					func() {
						defer func() { _ = recover() }()
						_ = ticket.Drop(control.Cancelled)
					}()
					if !free() {
						t.Error("the panic kept sections from being left")
					}
				case "forgotten":
					ticket.Done(false)
					if !free() {
						t.Error("something is held by a request that has ended")
					}
				case "checked":
					ticket.AddWait(time.Minute)
					if err := ticket.Check(); err != nil {
						t.Errorf("without a budget: %v", err)
					}
					gone()
					if err := ticket.Check(); !errors.Is(err, context.Canceled) || !free() {
						t.Errorf("%v, everything free: %v", err, free())
					}
				}
				ticket.Done(true)
				inner.Unlock()
				if s := g.Stats(); s.InService != 0 || s.Finished != 1 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// The budget of the stack is that of every request; waiting counts from the Gate's queue on, and Check drops whoever has waited longer.
func TestBudgetIsSpentByWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack := control.Stack{Controller: control.None{}, Budget: time.Second}
		g, err := guard.NewFromStack(stack, guard.Config{Gate: control.GateConfig{Slots: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		first := begin(t, g, t.Context())
		var second *guard.Ticket
		waits := inBackground(func() (err error) {
			second, err = g.Begin(t.Context(), control.Request{})
			return err
		})
		wantWaits(t, "the second", waits)
		<-time.After(600 * time.Millisecond)
		first.Done(false)
		wantResult(t, "the second", waits, nil)
		if got, ok := guard.TicketFrom(second.Context()); !ok || got != second {
			t.Errorf("the context has ticket %v", got)
		}
		if r := second.Request(); r.Budget != time.Second || r.Waited != 600*time.Millisecond || second.Spent() || second.Check() != nil {
			t.Errorf("%+v, spent %v, %v", r, second.Spent(), second.Err())
		}
		second.AddWait(-time.Hour) // of no effect
		second.AddWait(401 * time.Millisecond)
		if err := second.Check(); !second.Spent() || reasonOf(err) != control.Cancelled || !errors.Is(second.Err(), err) {
			t.Errorf("spent %v, %v", second.Spent(), err)
		}
		second.Done(false) // it was dropped, so it counts as failed all the same
		if s := g.Stats(); s.Failed != 1 || s.Finished != 2 {
			t.Errorf("stats %+v", s)
		}
		if _, ok := guard.TicketFrom(t.Context()); ok {
			t.Error("a ticket from nowhere")
		}
	})
}

func TestNewFromStackWantsASensor(t *testing.T) {
	t.Parallel()
	for bandit, wrong := range map[string]bool{"egreedy": true, "fixed": false} {
		settings := map[string]any{"section": "try", "bandit": bandit}
		if !wrong {
			settings["capacity"] = 2
		}
		stack, err := catalog.New("none", settings, catalog.Env{Cores: 4})
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.NewFromStack(stack, guard.Config{})
		if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "give it a Sensor") {
			t.Errorf("%s without a sensor: %v", bandit, err)
		}
		if err == nil {
			g.Close()
		}
	}
}

// A handler that is dropped halfway returns, and the Guard answers for it.
func TestHandlerAnswersForTheDropped(t *testing.T) {
	t.Parallel()
	g := newStackGuard(t, "none", full("try"), control.GateConfig{})
	defer g.Close()
	holder := begin(t, g, t.Context())
	if _, err := holder.Memory(); err != nil {
		t.Fatal(err)
	}
	var d diary
	memory := func(r *http.Request) error {
		ticket, _ := guard.TicketFrom(r.Context())
		ticket.OnDrop(d.note("cleanup"))
		_, err := ticket.Memory()
		return err
	}
	w := serve(g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if memory(r) == nil {
			t.Error("the section is not full")
		}
	}), nil))
	if w.Code != http.StatusServiceUnavailable || w.Body.String() != "overloaded: memory\n" || w.Header().Get("Retry-After") != "1" || !d.is("cleanup") {
		t.Errorf("%d %q, Retry-After %q, cleanups %v", w.Code, w.Body, w.Header().Get("Retry-After"), d.lines)
	}
	w = serve(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if memory(r) != nil {
			http.Error(w, "my own words", http.StatusTeapot)
		}
	}), nil))
	if w.Code != http.StatusTeapot || !d.is("cleanup", "cleanup") {
		t.Errorf("%d %q, cleanups %v", w.Code, w.Body, d.lines)
	}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("panic %v", p)
			}
		}()
		serve(g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ticket, _ := guard.TicketFrom(r.Context())
			ticket.OnDrop(d.note("after panic"))
			panic(http.ErrAbortHandler)
		}), nil))
	}()
	if !d.is("cleanup", "cleanup", "after panic") {
		t.Errorf("cleanups %v", d.lines)
	}
	holder.Done(false)
	if s := g.Stats(); s.InService != 0 || s.Failed != 3 || s.Finished != 4 {
		t.Errorf("stats %+v", s)
	}
}

// TestTicketsUnderFire has many requests enter nested sections while their clients go away at any moment, and finds everything free in
// the end, each cleanup called once at most, and exactly once for the dropped.
func TestTicketsUnderFire(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"try", "wait", "wait-if-uncongested"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := newStackGuard(t, "none", map[string]any{"section": mode, "bandit": "fixed", "capacity": 2}, control.GateConfig{Slots: 6})
			defer g.Close()
			lock := g.NewMutex()
			var all sync.WaitGroup
			for i := range 12 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(2, uint64(i)))
					for range 80 {
						fire(t, g, lock, rng)
					}
				})
			}
			all.Wait()
			s, m := g.Stats(), g.Meters()
			if s.InService != 0 || s.Queued != 0 || s.Started != s.Finished || m["memsem_inside"] != 0 || m["memsem_waiting"] != 0 || !lock.TryLock() {
				t.Errorf("left behind: %+v, %v", s, m)
			}
		})
	}
}

func fire(t *testing.T, g *guard.Guard, lock *guard.Mutex, rng *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	delay := rng.IntN(60)
	other.Go(func() {
		for range delay {
			_ = g.Stats()
		}
		cancel()
	})
	defer other.Wait()
	ticket, err := g.Begin(ctx, control.Request{Budget: time.Second})
	if err != nil {
		return
	}
	calls := 0
	release := ticket.OnDrop(func() { calls++ })
	if leave, err := ticket.Memory(); err == nil {
		if unlock, err := ticket.Lock(lock); err == nil && rng.IntN(2) == 0 {
			unlock()
		}
		if rng.IntN(2) == 0 {
			leave() // or forgets to
		}
	}
	failed := rng.IntN(2) == 0
	ticket.Done(failed)
	want := 0
	if ticket.Err() != nil {
		want = 1
	}
	if calls != want {
		t.Errorf("cleanup called %d times, dropped: %v", calls, ticket.Err())
	}
	release()
	if calls != 1 {
		t.Errorf("cleanup called %d times in the end", calls)
	}
}
