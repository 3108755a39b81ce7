//go:build linux

package synthetic_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/servertest"
	"spillway/servers/synthetic"
)

// room is a section that holds its books to account: nobody is in twice, nobody leaves who is not in. Its server serialises the calls.
type room struct {
	places  int
	inside  map[uint64]bool
	waiting *control.Parked
	fault   string
	most    int
}

func newRoom(places int) *room {
	return &room{places: places, inside: map[uint64]bool{}, waiting: control.NewParked()}
}

func (r *room) blame(format string, args ...any) {
	if r.fault == "" {
		r.fault = fmt.Sprintf(format, args...)
	}
}

func (r *room) Enter(now clock.Instant, q *control.Request, m control.Mode) control.Decision {
	switch {
	case r.inside[q.ID]:
		r.blame("request %d enters twice", q.ID)
	case len(r.inside) < r.places:
		r.inside[q.ID] = true
		r.most = max(r.most, len(r.inside))
	case m == control.Try, m == control.WaitWithinBudget && q.Budget > 0 && q.Waited >= q.Budget:
		return control.Decision{Verdict: control.Reject, Reason: control.Memory}
	default:
		r.waiting.Push(now, q)
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{Verdict: control.Admit}
}

func (r *room) Leave(now clock.Instant, q *control.Request, out []control.Action) []control.Action {
	if !r.inside[q.ID] {
		r.blame("request %d leaves and is not in", q.ID)
	}
	delete(r.inside, q.ID)
	if r.waiting.Len() == 0 {
		return out
	}
	next := r.waiting.Pop(now)
	r.inside[next.ID] = true
	return append(out, control.Action{Kind: control.Resume, Request: next})
}

func (r *room) check(t *testing.T) {
	t.Helper()
	if r.fault != "" || len(r.inside) > 0 || r.waiting.Len() > 0 || r.most > r.places {
		t.Errorf("%s; in the end %d are inside and %d wait; at most %d of %d were inside", r.fault, len(r.inside), r.waiting.Len(), r.most, r.places)
	}
}

// door is a room out of whose queue one can go before one's turn.
type door struct{ *room }

func (d door) Withdraw(_ clock.Instant, id uint64, out []control.Action) (bool, []control.Action) {
	return d.waiting.Withdraw(id), out
}

// diary is a controller that writes down how requests ended.
type diary struct {
	control.None
	finished []control.Event
	signals  []control.Signals
}

func (d *diary) Observe(_ clock.Instant, e control.Event) {
	if e.Kind == control.Finished {
		d.finished = append(d.finished, e)
	}
}

func (d *diary) Tick(now clock.Instant, s control.Signals) clock.Instant {
	d.signals = append(d.signals, s)
	return now.Add(time.Millisecond)
}

func hostUnder(t testing.TB, loops int, stack control.Stack) (addr string, stop func() error) {
	t.Helper()
	h, err := synthetic.NewHost(synthetic.Config{Memory: 16 << 20, Buffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Serve(t, h, stack, func(c *servers.Config) { c.Loops = loops })
}

// TestFullSectionRefuses: in the mode Try whoever finds the memory section full is dropped, with credits if it asked, and its slot and its
// memory are given back. Other sections let everybody in.
func TestFullSectionRefuses(t *testing.T) {
	t.Parallel()
	memory, book := newRoom(1), &diary{}
	addr, stop := hostUnder(t, 2, control.Stack{Controller: book, Memory: memory, Mode: control.Try})
	in, other := servertest.Dial(t, addr), servertest.Dial(t, addr)
	in.Send("mg e0,d1h,x0 O1\r\n")
	other.Await("spillway", "in_service", 1)
	other.Do("mg m4096,e0,c1us O2\r\nmg e1,c1us,x1 O3\r\nget e0,x0\r\n", "SERVER_ERROR overloaded memory\r\nHD O3\r\nSERVER_ERROR overloaded memory\r\n")
	other.Send("mg e0 L O2\r\n")
	if got := other.Line(); !strings.HasPrefix(got, "SERVER_ERROR overloaded memory L") {
		t.Errorf("got %q", got)
	}
	other.Await("", "memory_held", 0)
	if got := other.Stats("spillway"); got["shed_memory"] != "3" || got["failed"] != "3" || got["finished"] != "4" || got["shed_get_memory"] != "3" {
		t.Errorf("%v", got)
	}
	in.Abort()
	other.Await("spillway", "in_service", 0)
	other.Do("mg e0,c1us,x0 O4\r\nmg e0,c1us O5\r\nmg e0,x0,x0 O6\r\n", "HD O4\r\nHD O5\r\nHD O6\r\n") // left twice, or by itself at the end
	if err := stop(); err != nil {
		t.Error(err)
	}
	memory.check(t)
	failed := 0
	for _, e := range book.finished {
		if e.Failed {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("%d requests ended as failed, want the three that were dropped and the one that was left alone", failed)
	}
}

// TestWaitsAddUp: what a request waits for its turn in a section is in its Waited, and a budget acts on that at the lock behind it. What a
// request waits by its own wish is not.
func TestWaitsAddUp(t *testing.T) {
	t.Parallel()
	const budget = 30 * time.Millisecond
	memory, lock, book := newRoom(1), newRoom(1), &diary{}
	const somebody = 1 << 60
	lock.inside[somebody] = true // and stays
	addr, stop := hostUnder(t, 3, control.Stack{
		Controller: book, Memory: memory, Mode: control.WaitMode, Budget: budget, NewLock: func() control.Section { return lock },
	})
	watcher, first, second := servertest.Dial(t, addr), servertest.Dial(t, addr), servertest.Dial(t, addr)
	first.Send("mg e0,d1h O0\r\n")
	watcher.Await("spillway", "in_service", 1)
	second.Send("mg e0,l1:1us O2\r\n")
	watcher.Await("spillway", "in_service", 2)
	for began := time.Now(); time.Since(began) < 2*budget; {
		watcher.Await("spillway", "in_service", 2)
	}
	first.Abort()
	second.Do("", "SERVER_ERROR overloaded memory\r\n")
	if err := stop(); err != nil {
		t.Error(err)
	}
	delete(lock.inside, somebody)
	memory.check(t)
	lock.check(t)
	if len(book.finished) != 2 {
		t.Fatalf("%d requests ended, want 2", len(book.finished))
	}
	for i, e := range book.finished {
		waited := e.Request.Waited
		switch {
		case !e.Failed:
			t.Errorf("request %d did not fail", i)
		case i == 0 && waited > e.Service/2:
			t.Errorf("the first was in service for %v and has waited for %v, though only by its own wish", e.Service, waited)
		case i == 1 && waited < 2*budget:
			t.Errorf("the second was in service for %v and has waited for %v, want at least %v", e.Service, waited, 2*budget)
		}
	}
}

// TestNothingStaysInside: whatever clients ask for, nested as deep as they like, and whenever they go away, in the end everybody has left every
// section and lock, exactly once. With and without sections whose queues one can leave.
func TestNothingStaysInside(t *testing.T) {
	t.Parallel()
	for _, withdraws := range []bool{true, false} {
		t.Run(fmt.Sprintf("withdraws=%v", withdraws), func(t *testing.T) {
			t.Parallel()
			var rooms []*room
			make := func(places int) control.Section {
				r := newRoom(places)
				rooms = append(rooms, r)
				if withdraws {
					return door{r}
				}
				return r
			}
			addr, stop := hostUnder(t, 4, control.Stack{
				Controller: control.None{}, Memory: make(2), Mode: control.WaitMode, Budget: 2 * time.Millisecond,
				NewLock: func() control.Section { return make(1) },
			})
			var clients sync.WaitGroup
			for i := range 16 {
				rng := rand.New(rand.NewPCG(2, uint64(i)))
				clients.Go(func() { comeAndGo(t, addr, rng) })
			}
			clients.Wait()
			c := servertest.Dial(t, addr)
			for _, figure := range []string{"in_service", "queued"} {
				c.Await("spillway", figure, 0)
			}
			c.Await("", "memory_held", 0)
			c.Do("mg e0,l0:1us,l1:1us,x0 O1\r\n", "HD O1\r\n")
			if got := c.Stats("spillway"); got["started"] != got["finished"] {
				t.Errorf("%s started, %s finished", got["started"], got["finished"])
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			for _, r := range rooms {
				r.check(t)
			}
		})
	}
}

// comeAndGo is a client that asks for nested work, and sometimes leaves in the middle of it.
func comeAndGo(t *testing.T, addr string, rng *rand.Rand) {
	for range 10 {
		c := servertest.Dial(t, addr)
		n := 1 + rng.IntN(20)
		for range n {
			c.Send(fmt.Sprintf("mg e0,m%d,l%d:%dus,e0,d%dus,l%d:3us,x0,s%d O1\r\n",
				1+rng.IntN(9000), rng.IntN(2), rng.IntN(30), rng.IntN(300), rng.IntN(2), rng.IntN(9000)))
		}
		switch rng.IntN(3) {
		case 0:
			for range n {
				if line := c.Line(); line != "HD O1" && line != "SERVER_ERROR overloaded memory" {
					t.Errorf("got %q", line)
				}
			}
			_ = c.Close()
		case 1: // leaves without waiting for replies
			_ = c.Close()
		default:
			c.Abort()
		}
	}
}

// TestBytesAreAccountedWhileTheyMove: controllers and the stats see a long stream grow.
func TestBytesAreAccountedWhileTheyMove(t *testing.T) {
	t.Parallel()
	book := &diary{}
	addr, stop := hostUnder(t, 2, control.Stack{Controller: book})
	c, watcher := servertest.Dial(t, addr), servertest.Dial(t, addr)
	const all = 2 << 20
	c.Send(fmt.Sprintf("mg s%d@100000000 O1\r\n", all)) // 20 ms
	some := func() (n int64) {
		_, _ = fmt.Sscan(watcher.Stats("spillway")["accounted_bytes"], &n)
		return n
	}
	for some() == 0 {
	}
	if n := some(); n >= all {
		t.Skipf("this computer was too busy to look at it in between: %d bytes", n)
	}
	c.Do("", "HD O1\r\n")
	watcher.Await("spillway", "accounted_bytes", all)
	if err := stop(); err != nil {
		t.Error(err)
	}
	partly, last := false, control.Signals{}
	for _, s := range book.signals {
		if s.MemAt <= last.MemAt && last.MemAt > 0 || s.MemBytes < last.MemBytes {
			t.Fatalf("after %+v came %+v", last, s)
		}
		partly = partly || s.MemBytes > 0 && s.MemBytes < all
		last = s
	}
	if !partly || last.MemAt == 0 {
		t.Errorf("%d signals, none of them of a part of the stream", len(book.signals))
	}
}

// TestSectionsOnBothMachines: the same requests meet the same sections on a modelled machine.
func TestSectionsOnBothMachines(t *testing.T) {
	t.Parallel()
	memory := newRoom(1)
	spec := machine.Spec{Cores: 4, Network: 0}
	addr, stop := servertest.Serve(t, synthetic.New(), control.Stack{Controller: control.None{}, Memory: memory, Mode: control.Try}, func(c *servers.Config) {
		c.Model = &servers.Model{Machine: spec, Scale: 10, Costs: synthetic.Costs{}}
	})
	c := servertest.Dial(t, addr)
	c.Send("mg e0,d1ms,x0 L1 O1\r\nmg e0,c1us,x0 L1 O2\r\nmg e1,c1us,x1 L1 O3\r\n")
	for _, want := range []string{"SERVER_ERROR overloaded memory L0.000,0.000,* O2", "HD L0.000,1.000,* O3", "HD L0.000,1000.000,* O1"} {
		line := c.Line()
		if head, tail, _ := strings.Cut(want, "*"); !strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) {
			t.Errorf("got %q, want %q", line, want)
		}
	}
	if got := c.Stats("spillway"); got["shed_memory"] != "1" {
		t.Errorf("%v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	memory.check(t)
}

// TestSectionsAllocateNothing counts all allocations of the process while requests go in and out.
func TestSectionsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	addr, _ := hostUnder(t, 1, control.Stack{Controller: control.None{}, Memory: newRoom(1), Mode: control.WaitMode})
	c := servertest.Dial(t, addr)
	const depth = 16
	send, got := []byte(strings.Repeat("mg e0,c1us,l0:1us,d1us,x0#x O1\r\n", depth)), make([]byte, depth*len("HD O1\r\n"))
	each := allocations(t, 100, func() {
		if _, err := c.Write(send); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.In, got); err != nil {
			t.Fatal(err)
		}
	}) / depth
	if each > 0.05 {
		t.Errorf("%.3f allocations a request, want none", each)
	}
}
