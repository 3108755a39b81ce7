package memsem_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/bandit"
	"spillway/control/memsem"
)

// capacities is a bandit that chooses what the test says.
type capacities struct{ next int }

func (*capacities) Reward(int, float64)        {}
func (c *capacities) Choose(clock.Instant) int { return c.next }

// meter returns what s shows under a name.
func meter(t interface{ Fatalf(string, ...any) }, s *memsem.Semaphore, name string) float64 {
	for n, v := range s.Meters() {
		if n == name {
			return v
		}
	}
	t.Fatalf("no meter %s", name)
	return 0
}

// model is the account that the test keeps of a semaphore.
type model struct {
	semaphore *memsem.Semaphore
	bandit    *capacities
	now       clock.Instant
	lastID    uint64
	bytes     uint64
	inside    []control.Request
	waiting   []control.Request // in order
	since     map[uint64]clock.Instant
}

// TestPlacesAreConserved enters, leaves, withdraws, shrinks and grows at random. At every step there are as many inside as the test counts,
// nobody goes in while the section is full, those who wait go in by turns and are told how long they waited, and somebody is inside
// whenever somebody waits; in the end everybody has been in or has given up.
func TestPlacesAreConserved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &capacities{next: 1}
		m := &model{
			semaphore: memsem.New(b, bandit.NewReward(0.7, 1, 8, 0), 500*time.Microsecond), bandit: b, since: map[uint64]clock.Instant{},
		}
		m.semaphore.Tick(0, control.Signals{})
		t.Repeat(map[string]func(*rapid.T){
			"enter":    m.enter,
			"leave":    m.leave,
			"withdraw": m.withdraw,
			"resize":   m.resize,
			"":         m.check,
		})
		for len(m.inside) > 0 {
			m.leave(t)
			m.check(t)
		}
		if len(m.waiting) > 0 {
			t.Fatalf("stranded: %v", m.waiting)
		}
	})
}

func (m *model) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ns")))
}

func (m *model) enter(t *rapid.T) {
	m.pass(t)
	m.lastID++
	r := control.Request{
		ID: m.lastID, Arrived: 77, Waited: time.Duration(rapid.IntRange(0, 50_000).Draw(t, "waited")),
		Budget: time.Duration(rapid.SampledFrom([]int{0, 20_000, 100_000}).Draw(t, "budget")),
	}
	mode := rapid.SampledFrom([]control.Mode{control.Try, control.WaitMode, control.WaitWithinBudget}).Draw(t, "mode")
	capacity := int(meter(t, m.semaphore, "memsem"))
	want := control.Wait
	age := time.Duration(0)
	if len(m.waiting) > 0 {
		age = m.now.Sub(m.since[m.waiting[0].ID])
	}
	switch {
	case len(m.inside) < capacity && len(m.waiting) == 0:
		want = control.Admit
	case mode == control.Try, mode == control.WaitWithinBudget && r.Budget > 0 && r.Waited+age > r.Budget:
		want = control.Reject
	}
	d := m.semaphore.Enter(m.now, &r, mode)
	if d.Verdict != want || want == control.Reject && d.Reason != control.Memory {
		t.Fatalf("%d enters with mode %d: %+v, want verdict %d", r.ID, mode, d, want)
	}
	switch want {
	case control.Admit:
		m.inside = append(m.inside, r)
	case control.Wait:
		m.waiting = append(m.waiting, r)
		m.since[r.ID] = m.now
	}
}

func (m *model) leave(t *rapid.T) {
	if len(m.inside) == 0 {
		t.Skip("nobody inside")
	}
	m.pass(t)
	i := rapid.IntRange(0, len(m.inside)-1).Draw(t, "who")
	r := m.inside[i]
	m.inside = slices.Delete(m.inside, i, i+1)
	m.resumed(t, m.semaphore.Leave(m.now, &r, nil))
}

func (m *model) withdraw(t *rapid.T) {
	if len(m.waiting) == 0 {
		if removed, _ := m.semaphore.Withdraw(m.now, 1, nil); removed {
			t.Fatalf("withdrew somebody who does not wait")
		}
		return
	}
	m.pass(t)
	i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "who")
	id := m.waiting[i].ID
	m.waiting = slices.Delete(m.waiting, i, i+1)
	removed, actions := m.semaphore.Withdraw(m.now, id, nil)
	if again, _ := m.semaphore.Withdraw(m.now, id, nil); !removed || again {
		t.Fatalf("withdrew %d: %v, and again: %v", id, removed, again)
	}
	m.resumed(t, actions)
}

func (m *model) resumed(t *rapid.T, actions []control.Action) {
	for _, a := range actions {
		if a.Kind != control.Resume || len(m.waiting) == 0 {
			t.Fatalf("unexpected %+v", a)
		}
		want := m.waiting[0]
		want.Waited += m.now.Sub(m.since[want.ID])
		if a.Request != want {
			t.Fatalf("resumed %+v, want %+v", a.Request, want)
		}
		m.inside = append(m.inside, want)
		m.waiting = m.waiting[1:]
	}
	// Whoever is left found no room.
	if capacity := int(meter(t, m.semaphore, "memsem")); len(m.waiting) > 0 && len(m.inside) < capacity {
		t.Fatalf("%d wait although %d of %d are inside", len(m.waiting), len(m.inside), capacity)
	}
}

func (m *model) resize(t *rapid.T) {
	m.bandit.next = rapid.IntRange(0, 8).Draw(t, "capacity") // 0 is a bandit's mistake
	m.now = m.now.Add(time.Millisecond)
	m.bytes += 1000
	next := m.semaphore.Tick(m.now, control.Signals{MemBytes: m.bytes, MemAt: m.now})
	if next <= m.now || next > m.now.Add(time.Millisecond) {
		t.Fatalf("next tick at %v, it is %v", next, m.now)
	}
}

func (m *model) check(t *rapid.T) {
	inside, waiting, capacity := int(meter(t, m.semaphore, "memsem_inside")), int(meter(t, m.semaphore, "memsem_waiting")), meter(t, m.semaphore, "memsem")
	if inside != len(m.inside) || waiting != len(m.waiting) {
		t.Fatalf("%d inside and %d waiting, want %d and %d", inside, waiting, len(m.inside), len(m.waiting))
	}
	if waiting > 0 && inside == 0 || capacity < 1 {
		t.Fatalf("%d wait for nobody, capacity %v", waiting, capacity)
	}
}

// A bandit learns only from periods in which somebody came or went, from fresh samples, at most once a period.
func TestStepsOnlyOnWhatItCaused(t *testing.T) {
	t.Parallel()
	const period = 500 * time.Microsecond
	count := new(counting)
	s := memsem.New(count, bandit.NewReward(1, 1, 8, 0), period)
	at, bytes := clock.Instant(0), uint64(0)
	tick := func(d time.Duration, moved uint64) {
		at, bytes = at.Add(d), bytes+moved
		s.Tick(at, control.Signals{MemBytes: bytes, MemAt: at})
	}
	tick(0, 0)
	for range 3 {
		tick(period, 10)
	}
	r := control.Request{ID: 1}
	for i, c := range []struct {
		what string
		do   func()
		want []float64 // rewards so far: bandwidth, since α = 1 and the first is the greatest
	}{
		{"idle", func() { tick(period, 10) }, nil},
		{"a request enters", func() { s.Enter(at, &r, control.Try); tick(period, 100) }, []float64{1}},
		{"it stays", func() { tick(period, 100) }, []float64{1}},
		{"another is refused", func() { s.Enter(at, &control.Request{ID: 2}, control.Try); tick(period, 50) }, []float64{1, 0.5}},
		{"it leaves too soon after", func() { s.Leave(at, &r, nil); tick(period/2, 1) }, []float64{1, 0.5}},
		{"the period is over", func() { tick(period/2, 24) }, []float64{1, 0.5, 0.25}},
		{"the same sample again", func() { s.Enter(at, &r, control.Try); s.Tick(at+10, control.Signals{MemBytes: bytes, MemAt: at}) }, []float64{1, 0.5, 0.25}},
		{"an idle period is not blamed on the next", func() { tick(period, 100); s.Leave(at, &r, nil); tick(2*period, 100) }, []float64{1, 0.5, 0.25, 1, 0.5}},
		{"the counter began again", func() { s.Enter(at, &r, control.Try); bytes = 0; tick(period, 0) }, []float64{1, 0.5, 0.25, 1, 0.5}},
	} {
		c.do()
		if !slices.Equal(count.rewards, c.want) {
			t.Fatalf("step %d, %s: rewards %v, want %v", i, c.what, count.rewards, c.want)
		}
	}
}

// counting writes its rewards down and always chooses 1.
type counting struct{ rewards []float64 }

func (c *counting) Reward(_ int, r float64) { c.rewards = append(c.rewards, r) }
func (*counting) Choose(clock.Instant) int  { return 1 }

// With a sensor of any pace there are at least ten of its readings in each period that a choice is judged by, but for the first few
// readings, and no more than it takes.
func TestPeriodSpansTenReadings(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{
		time.Microsecond, 40 * time.Microsecond, 75 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 333 * time.Microsecond,
		time.Millisecond, 10 * time.Millisecond,
	} {
		spans := new(spacing)
		s := memsem.New(spans, bandit.NewReward(0.7, 1, 8, 0), 500*time.Microsecond)
		for now := clock.Instant(0); now < clock.Instant(3*time.Second); {
			s.Enter(now, &control.Request{ID: 1}, control.Try) // the first goes in, the others are refused: somebody always asks
			at := now / clock.Instant(every) * clock.Instant(every)
			now = s.Tick(now, control.Signals{MemBytes: uint64(at), MemAt: at})
		}
		want := max(500*time.Microsecond, 10*every)
		// A few of the first, and some while a pace just above the limit is taken for one just below, are shorter.
		short := 0
		for _, d := range spans.between[min(5, len(spans.between)):] {
			if d < want*9/10 {
				short++
			}
		}
		mean := spans.last.Sub(spans.first) / time.Duration(len(spans.between))
		t.Logf("sensor every %v: %d choices, %v apart, %d shorter than %v", every, len(spans.between), mean, short, want)
		if short*10 > len(spans.between) || mean > want*3/2 {
			t.Errorf("sensor every %v: %d of %d periods are shorter than %v, and they are %v apart", every, short, len(spans.between), want, mean)
		}
	}
}

// spacing is a bandit that notes when it is asked.
type spacing struct {
	first, last clock.Instant
	between     []time.Duration
}

func (*spacing) Reward(int, float64) {}

func (s *spacing) Choose(now clock.Instant) int {
	if s.last > 0 {
		s.between = append(s.between, now.Sub(s.last))
	} else {
		s.first = now
	}
	s.last = now
	return 1
}

func TestSemaphoreDoesNotAllocate(t *testing.T) {
	for _, name := range bandit.Names() {
		c := memsem.Default()
		c.Bandit = name
		if name == "fixed" {
			c.Capacity = 2
		}
		s, err := memsem.Build(c, 18, func(clock.Instant) int { return 3 }, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		b := busy{semaphore: s}
		for range 100 {
			b.turn()
		}
		if n := testing.AllocsPerRun(100, b.turn); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// busy passes thirty requests through a semaphore that has room for fewer, and ticks.
type busy struct {
	semaphore *memsem.Semaphore
	now       clock.Instant
	id        uint64
	out       []control.Action
}

func (b *busy) turn() {
	b.out = b.out[:0]
	for range 30 {
		b.id++
		r := control.Request{ID: b.id}
		if b.semaphore.Enter(b.now, &r, control.WaitMode).Verdict == control.Admit {
			b.out = append(b.out, control.Action{Request: r})
		}
	}
	b.semaphore.Withdraw(b.now, b.id, nil)
	for i := 0; i < len(b.out); i++ {
		b.now += 20_000
		b.out = b.semaphore.Leave(b.now, &b.out[i].Request, b.out)
	}
	b.semaphore.Tick(b.now, control.Signals{MemBytes: uint64(b.now), MemAt: b.now})
}

func BenchmarkTryAndLeave(b *testing.B) {
	s, err := memsem.Build(memsem.Default(), 18, nil, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		b.Fatal(err)
	}
	r := control.Request{ID: 1}
	b.ReportAllocs()
	for b.Loop() {
		s.Enter(0, &r, control.Try)
		s.Leave(0, &r, nil)
	}
}

func BenchmarkWaitAndResume(b *testing.B) {
	c := memsem.Default()
	c.Bandit, c.Capacity = "fixed", 1
	s, err := memsem.Build(c, 18, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	out := make([]control.Action, 0, 1)
	r := control.Request{}
	s.Enter(0, &r, control.WaitMode)
	b.ReportAllocs()
	for b.Loop() {
		r.ID++
		s.Enter(0, &r, control.WaitMode)
		out = s.Leave(0, &r, out[:0])
	}
}

func BenchmarkTick(b *testing.B) {
	s, err := memsem.Build(memsem.Default(), 18, nil, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		b.Fatal(err)
	}
	r := control.Request{ID: 1}
	now := clock.Instant(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Enter(now, &r, control.Try)
		now = now.Add(500 * time.Microsecond)
		s.Tick(now, control.Signals{MemBytes: uint64(now), MemAt: now})
		s.Leave(now, &r, nil)
	}
}
