package allocator

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control/capacity"
)

// testConfig shares 1000 requests per second over edges of different weights and two classes.
func testConfig(edges int) Config {
	c := Default()
	c.Budget, c.Absorb = 1000, 0
	c.Classes = []Class{{Name: "high", Share: 0.7, Lend: 1}, {Name: "low", Share: 0.3, Lend: 1}}
	for i := range edges {
		c.Locations = append(c.Locations, Location{Name: string(rune('a' + i)), Weight: float64(1 + i)})
	}
	return c
}

// place is an edge in virtual time: the real controller, and a link that loses things.
type place struct {
	limiter   *capacity.Limiter
	baseline  []float64
	seq, last int64
	demand    []float64
	reach     bool // the allocator can be reached
}

func (p *place) holds(now clock.Instant) []float64 {
	rates := make([]float64, len(p.baseline))
	for k := range rates {
		rates[k], _ = p.limiter.Quota(now, uint16(k))
	}
	return rates
}

// message is something under way.
type message struct {
	at    clock.Instant
	place int
	do    func(now clock.Instant)
}

// world is an allocator and its edges.
type world struct {
	config   Config
	book     *book
	lives    int64
	places   []*place
	messages []message
}

func newWorld(c Config) *world {
	w := &world{config: c}
	w.restart(0)
	p := c.Policy()
	for i := range c.Locations {
		var rates []string
		own := &place{demand: make([]float64, len(c.Classes)), reach: true}
		for k := range c.Classes {
			b := p.Baseline[p.Cell(k, i)]
			own.baseline = append(own.baseline, b)
			rates = append(rates, strconv.FormatFloat(b, 'g', -1, 64))
		}
		config := capacity.DefaultLimiter()
		config.Baseline, config.Cycle = strings.Join(rates, ","), c.Cycle
		own.limiter = capacity.NewLimiter(config)
		w.places = append(w.places, own)
	}
	return w
}

// restart gives the allocator another life, which knows nothing.
func (w *world) restart(now clock.Instant) {
	w.lives++
	book, err := newBook(w.config, now, w.lives*1_000_000_000)
	if err != nil {
		panic(err)
	}
	w.book = book
}

// exchange begins the exchange of one edge. ask and reply are how long its halves take; less than 0 is never.
func (w *world) exchange(now clock.Instant, i int, ask, reply time.Duration) {
	p := w.places[i]
	p.seq++
	r := arrival{seq: p.seq, last: p.last, demand: slices.Clone(p.demand), holds: p.holds(now)}
	if ask < 0 || !p.reach {
		return
	}
	life := w.lives
	w.messages = append(w.messages, message{now.Add(ask), i, func(at clock.Instant) {
		if life != w.lives {
			return // the connection has ended with the process
		}
		rates := make([]float64, len(r.demand))
		id, err := w.book.report(at, i, &r, rates)
		if err != nil || reply < 0 || ask+reply > w.config.Cycle { // its patience has an end
			return
		}
		w.messages = append(w.messages, message{at.Add(reply), i, func(back clock.Instant) {
			if p.seq != r.seq {
				return // it has given up waiting
			}
			p.last = id
			if err := p.limiter.GrantBorrowed(back, rates, now.Add(w.config.borrowed()), back.Add(w.config.Lease)); err != nil {
				panic(err)
			}
		}})
	}})
}

// deliver does what is due by now.
func (w *world) deliver(now clock.Instant) {
	for {
		next := -1
		for i := range w.messages {
			if w.messages[i].at <= now && (next < 0 || w.messages[i].at < w.messages[next].at) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		m := w.messages[next]
		w.messages = slices.Delete(w.messages, next, next+1)
		m.do(m.at)
	}
}

// inForce returns the sum of all rates in force.
func (w *world) inForce(now clock.Instant) (sum float64) {
	for _, p := range w.places {
		for _, r := range p.holds(now) {
			sum += r
		}
	}
	return sum
}

// TestBudgetHolds: whatever is lost, delayed, cut off or started anew, what is in force never sums to more than the budget.
func TestBudgetHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := testConfig(rapid.IntRange(1, 5).Draw(t, "edges"))
		c.Keep = rapid.IntRange(0, 4).Draw(t, "keep")
		c.Lease = time.Duration(rapid.IntRange(leastLease, 12).Draw(t, "lease")) * c.Cycle
		if rapid.Bool().Draw(t, "no lending") {
			c.Classes[1].Lend = 0
		}
		w := newWorld(c)
		const parts = 10 // of a cycle
		offsets := rapid.SliceOfN(rapid.IntRange(0, parts-1), len(w.places), len(w.places)).Draw(t, "offsets")
		allocator := rapid.IntRange(0, parts-1).Draw(t, "allocator's offset")
		delay := rapid.OneOf(rapid.Just(0), rapid.IntRange(-1, 2*parts))
		alive := true
		for n := range 40 * parts {
			now := clock.Instant(int64(n) * int64(c.Cycle) / parts)
			if n%parts == 0 {
				switch rapid.IntRange(0, 30).Draw(t, "fortune") {
				case 0:
					w.restart(now)
				case 1:
					alive = !alive
				case 2, 3:
					p := rapid.SampledFrom(w.places).Draw(t, "edge")
					p.reach = !p.reach
				}
			}
			w.deliver(now)
			if n%parts == allocator {
				w.book.cycle()
			}
			for i, p := range w.places {
				if n%parts != offsets[i] || !alive {
					continue
				}
				for k := range p.demand {
					if rapid.IntRange(0, 4).Draw(t, "change") > 0 {
						continue // what is settled can be disturbed
					}
					p.demand[k] = rapid.SampledFrom([]float64{0, 10, 100, 300, 900, 2000}).Draw(t, "demand")
				}
				step := c.Cycle / parts
				w.exchange(now, i, time.Duration(delay.Draw(t, "ask"))*step, time.Duration(delay.Draw(t, "reply"))*step)
			}
			w.deliver(now)
			if sum := w.inForce(now); sum > c.Budget*(1+1e-9) {
				t.Fatalf("after %v, %g requests per second are in force, the budget is %g", now, sum, c.Budget)
			}
		}
	})
}

// TestRestart: an allocator that knows nothing gives nobody more, as long as somebody it has not heard of may have borrowed it.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(testConfig(2))
	w.places[0].demand, w.places[1].demand = []float64{2000, 2000}, []float64{0, 0}
	now := w.run(0, 5) // a has everything
	w.restart(now)
	w.places[0].reach, w.places[1].demand = false, []float64{2000, 2000}
	for range 20 {
		now = w.run(now, 1)
		if sum := w.inForce(now); sum > 1000*(1+1e-9) {
			t.Fatalf("%g in force at %v", sum, now)
		}
	}
	if got := w.places[1].holds(now); !near(got, w.places[1].baseline...) {
		t.Errorf("b holds %v in the end", got)
	}
}

// TestLenderCutOff: what is lent ends before the lender, who cannot be reached any more, returns to its baseline by itself.
func TestLenderCutOff(t *testing.T) {
	t.Parallel()
	c := testConfig(2)
	c.Keep = 30 // the allocator goes by the last demand for longer than the lender can
	w := newWorld(c)
	w.places[0].demand, w.places[1].demand = []float64{2000, 2000}, []float64{0, 0}
	now := w.run(0, 5)
	w.places[1].reach = false
	for range 20 {
		now = w.run(now, 1)
		if sum := w.inForce(now); sum > 1000*(1+1e-9) {
			t.Fatalf("%g in force at %v", sum, now)
		}
	}
	if got := w.places[1].holds(now); !near(got, w.places[1].baseline...) {
		t.Errorf("b holds %v in the end", got)
	}
}

// run lets the world go on without trouble for so many cycles, with the edges one after the other.
func (w *world) run(from clock.Instant, cycles int) (now clock.Instant) {
	const parts = 10
	for n := range cycles * parts {
		now = from.Add(time.Duration(n) * w.config.Cycle / parts)
		if n%parts == 0 {
			w.book.cycle()
		}
		for i := range w.places {
			if n%parts == 1+i {
				w.exchange(now, i, 0, 0)
			}
		}
		w.deliver(now)
	}
	return now.Add(w.config.Cycle / parts)
}

func near(got []float64, want ...float64) bool {
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-6 {
			return false
		}
	}
	return true
}

// TestShift: what one edge does not need another gets, in four cycles at most; and gives it back as fast.
func TestShift(t *testing.T) {
	t.Parallel()
	w := newWorld(testConfig(2)) // high: 233.3 and 466.7, low: 100 and 200
	w.places[0].demand, w.places[1].demand = []float64{700, 1000}, []float64{100, 0}
	now := w.run(0, 4)
	// The class high has 700 and is asked for 800; of low's 300 nothing is wanted at b, all of it at a, and high lacks 100 of it first.
	if a := w.places[0].holds(now); !near(a, 600, 300) && !near(a, 700, 200) {
		t.Errorf("a holds %v", a)
	}
	if b := w.places[1].holds(now); !near(b, 100, 0) {
		t.Errorf("b holds %v", b)
	}
	w.places[1].demand = []float64{2000, 2000}
	w.places[0].demand = []float64{2000, 2000}
	now = w.run(now, 4)
	for i, p := range w.places {
		share := float64(1+i) / 3
		if !near(p.holds(now), 700*share, 300*share) {
			t.Errorf("edge %d holds %v when both are asked for everything", i, p.holds(now))
		}
	}
}

// TestDeath: the baseline of an edge that has gone is in use elsewhere after Absorb cycles and the four of a shift.
func TestDeath(t *testing.T) {
	t.Parallel()
	c := testConfig(3)
	c.Absorb = 10
	w := newWorld(c)
	for _, p := range w.places {
		p.demand = []float64{2000, 2000}
	}
	now := w.run(0, 4)
	w.places[2].reach = false
	now = w.run(now, c.Absorb)
	live := func() float64 { return w.places[0].holds(now)[0] + w.places[1].holds(now)[0] }
	if got := live(); got > 351 {
		t.Errorf("the others have %g while the dead one may still be serving", got)
	}
	now = w.run(now, 4)
	if got := live(); math.Abs(got-700) > 1e-6 {
		t.Errorf("the others have %g of the class's 700 after %v", got, now)
	}
	if s := w.book.state(now); !s.Locations[2].CountGone || s.Bound > c.Budget+1e-6 {
		t.Errorf("state %+v", s)
	}
}

// TestAllocatorDies: with nobody to ask, all are on their baselines when the lease has passed, and go on from there when it comes back.
func TestAllocatorDies(t *testing.T) {
	t.Parallel()
	c := testConfig(2)
	w := newWorld(c)
	w.places[0].demand, w.places[1].demand = []float64{2000, 2000}, []float64{0, 0}
	now := w.run(0, 5)
	if got := w.places[0].holds(now); !near(got, 700, 300) {
		t.Fatalf("a holds %v", got)
	}
	now = now.Add(c.borrowed())
	if got := w.places[0].holds(now); !near(got, w.places[0].baseline...) {
		t.Errorf("a still holds %v at the end of what it has borrowed", got)
	}
	if got := w.places[1].holds(now); !near(got, 0, 0) {
		t.Errorf("b holds %v before the lease has ended", got)
	}
	now = now.Add(c.Lease)
	if got := w.places[1].holds(now); !near(got, w.places[1].baseline...) {
		t.Errorf("b holds %v after the lease", got)
	}
	w.restart(now)
	if !w.book.learning(now) {
		t.Error("a new life does not know that it knows nothing")
	}
	now = w.run(now, 5)
	if got := w.places[0].holds(now); !near(got, 700, 300) {
		t.Errorf("a holds %v from the allocator's second life", got)
	}
}

func TestReportsAreInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(testConfig(1))
	rates := make([]float64, 2)
	r := arrival{seq: 5, demand: []float64{1, 1}, holds: []float64{700, 300}}
	if _, err := w.book.report(0, 0, &r, rates); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int64{5, 4} {
		r.seq = seq
		if _, err := w.book.report(0, 0, &r, rates); err != errStale {
			t.Errorf("number %d: %v", seq, err)
		}
	}
	r.seq, r.demand = 6, []float64{-1, 0}
	if _, err := w.book.report(0, 0, &r, rates); err == nil {
		t.Error("a demand of -1 was taken")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c, err := ReadConfig([]byte(`{"budget": 900, "classes": [{"name": "high", "share": 0.7}, {"name": "low", "share": 0.3, "lend": 0.5}],
		"locations": [{"name": "a", "weight": 2}, {"name": "b"}], "cycle": "100ms", "lease": "1s", "keep": 1, "absorb": 11, "floor": 0.1, "alike": true}`))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policy()
	want := fmt.Sprint([]float64{420, 210, 180, 90})
	if got := fmt.Sprintf("%.0f", p.Baseline); got != want || p.Lend[0] != 1 || p.Lend[1] != 0.5 || p.Order != capacity.Alike || p.Floor != 0.1 {
		t.Errorf("%+v, want baselines %s", p, want)
	}
	if c.Cycle != 100*time.Millisecond || c.Lease != time.Second || c.Keep != 1 || c.Absorb != 11 {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{`{"budgett": 1}`, `{} {}`, `{"budget": 1`, `{"cycle": "1"}`, `{}`} {
		if _, err := ReadConfig([]byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
	for name, change := range map[string]func(*Config){
		"no budget":         func(c *Config) { c.Budget = 0 },
		"not a number":      func(c *Config) { c.Budget = math.NaN() },
		"no classes":        func(c *Config) { c.Classes = nil },
		"no locations":      func(c *Config) { c.Locations = nil },
		"shares":            func(c *Config) { c.Classes[0].Share = 0.8 },
		"lend":              func(c *Config) { c.Classes[0].Lend = 1.1 },
		"same class":        func(c *Config) { c.Classes[0].Name = "low" },
		"same location":     func(c *Config) { c.Locations[0].Name = "b" },
		"negative weight":   func(c *Config) { c.Locations[0].Weight = -1 },
		"no weight":         func(c *Config) { c.Locations[0].Weight, c.Locations[1].Weight = 0, 0 },
		"short lease":       func(c *Config) { c.Lease = leastLease*c.Cycle - 1 },
		"gone before lease": func(c *Config) { c.Absorb = int(c.Lease / c.Cycle) },
		"keep":              func(c *Config) { c.Keep = -1 },
		"cycle":             func(c *Config) { c.Cycle = 0 },
	} {
		wrong := testConfig(2)
		if err := wrong.Check(); err != nil {
			t.Fatal(err)
		}
		change(&wrong)
		if wrong.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
