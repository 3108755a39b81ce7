package allocator

import (
	"fmt"
	"math"
	"testing"
	"time"

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

func near(got []float64, want ...float64) bool {
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-6 {
			return false
		}
	}
	return true
}

// TestShift: what one edge does not need another gets within a few messages of the cycle's beginning; and gives it back as fast.
func TestShift(t *testing.T) {
	t.Parallel()
	w := newWorld(testConfig(2)) // high: 233.3 and 466.7, low: 100 and 200
	w.places[0].demand, w.places[1].demand = []float64{700, 1000}, []float64{100, 0}
	const messages = 8 // begin, report, less, confirmed, more; and the second step of those who give one class and take another
	now := w.run(0, 1).Add(messages * oneWay)
	w.advance(now)
	// The class high has 700 and is asked for 800; of low's 300 nothing is wanted at b, all of it at a, and high lacks 100 of it first.
	if a := w.places[0].holds(now); !near(a, 600, 300) && !near(a, 700, 200) {
		t.Errorf("a holds %v", a)
	}
	if b := w.places[1].holds(now); !near(b, 100, 0) {
		t.Errorf("b holds %v", b)
	}
	w.places[1].demand = []float64{2000, 2000}
	w.places[0].demand = []float64{2000, 2000}
	now = clock.Instant(0).Add(2*w.config.Cycle + messages*oneWay)
	w.advance(now)
	for i, p := range w.places {
		share := float64(1+i) / 3
		if !near(p.holds(now), 700*share, 300*share) {
			t.Errorf("edge %d holds %v when both are asked for everything", i, p.holds(now))
		}
	}
}

// TestDeath: the baseline of an edge that has gone is in use elsewhere a cycle after Absorb cycles without a word from it.
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
	now = w.run(now, 2)
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
	r := arrival{seq: 5, demand: []float64{1, 1}, holds: []float64{700, 300}}
	if err := w.book.arrive(0, 0, &r); err != nil {
		t.Fatal(err)
	}
	for _, seq := range []int64{5, 4} {
		r.seq = seq
		if err := w.book.arrive(0, 0, &r); err != errStale {
			t.Errorf("number %d: %v", seq, err)
		}
	}
	r.seq, r.demand = 6, []float64{-1, 0}
	if err := w.book.arrive(0, 0, &r); err == nil {
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
		"cycle of years":    func(c *Config) { c.Cycle, c.Absorb = 500_000*time.Hour, 0 }, // six of them overflow
		"absorb":            func(c *Config) { c.Absorb = mostCycles + 1 },
		"floor":             func(c *Config) { c.Floor = 1.1 },
		"negative floor":    func(c *Config) { c.Floor = -0.1 },
		"floor of nothing":  func(c *Config) { c.Floor = math.NaN() },
		"heavy":             func(c *Config) { c.Locations[0].Weight, c.Locations[1].Weight = 1e308, 1e308 },
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
