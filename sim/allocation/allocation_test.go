package allocation_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/control/capacity"
	"spillway/sim/allocation"
)

const budget = 100_000.0

// cdn returns the scenarios of the reference, by number from 1, under no allocator yet. high and low are shares of the budget.
func cdn(number int) allocation.Config {
	weights := allocation.Weights(22, 0.8)
	reversed := slices.Clone(weights)
	slices.Reverse(reversed)
	only := func(from, to int) []float64 {
		list := make([]float64, len(weights))
		total := 0.0
		for i := from; i < to; i++ {
			total += weights[i]
		}
		for i := from; i < to; i++ {
			list[i] = weights[i] / total
		}
		return list
	}
	high := allocation.Demand{Level: 0.8 * budget, Weights: weights}
	low := allocation.Demand{Weights: weights}
	switch number {
	case 1:
		low.Level = 0.5 * budget
	case 2:
		low.Level = 5 * budget
	case 3:
		high.Weights, low.Level = reversed, 2*budget
	case 4, 5:
		high.Level, low.Level, low.Weights = 0.9*budget, 3*budget, only(0, 3)
		if number == 5 {
			low.Weights = only(19, 22)
		}
	case 6:
		high.Level, low.Level = 1.05*budget, budget
	case 7, 8:
		low.Level, low.Pulse = 3*budget, allocation.Pulse{On: 20, Of: 60, Calm: 0.15 * budget}
		if number == 8 {
			low.Pulse.On, low.Pulse.Of = 2, 6
		}
	}
	return allocation.Config{
		Policy:    capacity.Policy{Grid: capacity.Grid{Classes: 2, Locations: 22}, Baseline: allocation.Baselines(budget, []float64{0.7, 0.3}, weights)},
		Allocator: "two-level", Demand: []allocation.Demand{high, low}, Cycle: time.Second, Cycles: 600, Lag: 1, Noise: 0.05, Seed: 1,
	}
}

func share(t testing.TB, c allocation.Config, class int) (served, utilisation float64) {
	t.Helper()
	out, err := allocation.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return out.Classes[class].Served / out.Classes[class].Arrivals, out.Utilisation
}

// The eight scenarios against the toy results that they were first worked out with, which are ours and not the paper's: another program, with
// another noise (admission-and-allocation §2.5).
func TestScenarios(t *testing.T) {
	t.Parallel()
	want := [][4]float64{
		{0.875, 0.875, 0.769, 1.000}, {0.874, 0.875, 0.173, 1.000}, {0.868, 0.868, 0.357, 0.994}, {0.778, 0.778, 0.256, 1.000},
		{0.778, 0.778, 0.256, 1.000}, {0.666, 0.667, 0.488, 1.000}, {0.939, 0.875, 0.755, 0.950}, {0.940, 0.875, 0.754, 0.935},
	}
	for i, w := range want {
		c := cdn(i + 1)
		ours, used := share(t, c, 0)
		c.Settings = map[string]string{"lend": "0"}
		alone, _ := share(t, c, 0)
		c.Allocator, c.Settings = "two-class", nil
		programme, _ := share(t, c, 0)
		for j, got := range []float64{ours, alone, programme, used} {
			if math.Abs(got-w[j]) > 0.01 {
				t.Errorf("scenario %d, figure %d: %.3f, the reference has %.3f", i+1, j, got, w[j])
			}
		}
	}
}

// drawn returns a scenario of any kind under one of the allocators.
func drawn(t *rapid.T) allocation.Config {
	classes, locations := rapid.IntRange(1, 4).Draw(t, "classes"), rapid.IntRange(1, 8).Draw(t, "locations")
	weights := allocation.Weights(locations, rapid.Float64Range(0, 2).Draw(t, "skew"))
	shares := make([]float64, classes)
	for k := range shares {
		shares[k] = 1 / float64(classes)
	}
	c := allocation.Config{
		Policy:    capacity.Policy{Grid: capacity.Grid{Classes: classes, Locations: locations}, Baseline: allocation.Baselines(1000, shares, weights)},
		Allocator: rapid.SampledFrom(allocation.Names()).Draw(t, "allocator"), Cycle: time.Second,
		WarmUp: rapid.IntRange(0, 5).Draw(t, "warm-up"), Cycles: rapid.IntRange(1, 30).Draw(t, "cycles"), Lag: rapid.IntRange(0, 3).Draw(t, "lag"),
		Noise: rapid.Float64Range(0, 0.3).Draw(t, "noise"), Seed: rapid.Uint64().Draw(t, "seed"),
	}
	for range classes {
		d := allocation.Demand{Level: rapid.Float64Range(0, 3000).Draw(t, "level"), Weights: slices.Clone(weights)}
		if rapid.Bool().Draw(t, "pulses") {
			of := rapid.IntRange(1, 10).Draw(t, "of")
			d.Pulse = allocation.Pulse{On: rapid.IntRange(0, of).Draw(t, "on"), Of: of, Calm: rapid.Float64Range(0, 1000).Draw(t, "calm")}
		}
		if rapid.Bool().Draw(t, "swing") {
			d.Swing = allocation.Swing{By: rapid.Float64Range(0, 1).Draw(t, "by"), Every: rapid.IntRange(2, 20).Draw(t, "every")}
		}
		c.Demand = append(c.Demand, d)
	}
	if classes > 1 && rapid.Bool().Draw(t, "waiting") {
		clears := rapid.Float64Range(0, 1).Draw(t, "clears")
		c.Waiting = &allocation.Waiting{Class: 1, To: 0, Clears: clears, Leaves: rapid.Float64Range(0, 1-clears).Draw(t, "leaves")}
	}
	return c
}

// Whatever is asked for and whoever allocates: nobody is served more than was asked for or granted, every request has one fate, nothing is granted
// beyond the budget, and the same seed gives the same.
func TestEveryRequestHasOneFate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawn(t)
		sums := make([]float64, c.Policy.Classes)
		c.Observe = func(cycle allocation.Cycle) {
			for i, s := range cycle.Served {
				if s < 0 || s > cycle.Demand[i] || s > cycle.Granted[i]+1e-6 {
					t.Fatalf("cycle %d, cell %d: asked %g, granted %g, served %g", cycle.Number, i, cycle.Demand[i], cycle.Granted[i], s)
				}
				sums[i/c.Policy.Locations] += s
			}
		}
		out, err := allocation.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		for k, cl := range out.Classes {
			if gap := cl.Arrivals - cl.Served - cl.Rejected - cl.Left; math.Abs(gap) > 1e-6*(1+cl.Arrivals) || math.Abs(cl.Served-sums[k]) > 1e-6*(1+sums[k]) {
				t.Fatalf("class %d: %+v, %g are without a fate; %g were served", k, cl, gap, sums[k])
			}
		}
		if out.OverCommit > 1e-9 || out.CurrentOverCommit > 1e-9 {
			t.Fatalf("%s granted %g of the budget too much", c.Allocator, max(out.OverCommit, out.CurrentOverCommit))
		}
		c.Observe = nil
		again, err := allocation.Run(c)
		if err != nil || !slices.Equal(again.Served, out.Served) {
			t.Fatalf("the same seed gives other results, %v", err)
		}
	})
}

// So little demand that the budget is no finite multiple of it gets the whole budget all the same, where an allocator gives out what is left.
func TestNextToNothingIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, level := range []float64{5.7e-306, math.SmallestNonzeroFloat64} {
		for _, name := range allocation.Names() {
			weights := allocation.Weights(1, 0)
			out, err := allocation.Run(allocation.Config{
				Policy:    capacity.Policy{Grid: capacity.Grid{Classes: 1, Locations: 1}, Baseline: allocation.Baselines(1000, []float64{1}, weights)},
				Allocator: name, Cycle: time.Second, Cycles: 3,
				Demand: []allocation.Demand{{Level: level, Weights: weights}},
			})
			if err != nil {
				t.Errorf("%s, demand %g: %v", name, level, err)
			} else if out.OverCommit > 1e-9 {
				t.Errorf("%s, demand %g: granted %g of the budget too much", name, level, out.OverCommit)
			}
		}
	}
}

// Known demand is met as far as the budget goes: the two levels leave nothing idle and conserve the budget, in whole numbers too.
func TestTwoLevelUsesTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawn(t)
		c.Allocator, c.Waiting = "two-level", nil
		c.Settings = map[string]string{
			"sharing": rapid.SampledFrom([]string{"deficit", "demand"}).Draw(t, "sharing"),
			"order":   rapid.SampledFrom([]string{"importance", "alike"}).Draw(t, "order"),
		}
		slack := 1e-9
		if rapid.Bool().Draw(t, "whole") {
			c.Settings["whole"] = "true"
			slack = float64(c.Policy.Cells()) / 1000 // a request for each cell
			c.Observe = func(cycle allocation.Cycle) {
				sum := 0.0
				for _, g := range cycle.Granted {
					sum += g
				}
				if sum != 1000 { // whole numbers have no rounding
					t.Fatalf("cycle %d: %g is granted in whole requests, not 1000", cycle.Number, sum)
				}
			}
		}
		out, err := allocation.Run(c)
		if err != nil {
			t.Fatal(err)
		}
		if out.CurrentIdle > slack || out.Conservation > 1e-9 {
			t.Fatalf("%g of the budget is idle on current demand, grants differ from it by %g", out.CurrentIdle, out.Conservation)
		}
	})
}

// A step of demand is settled as soon as the allocator knows of it: after exactly the lag.
func TestSettledAfterTheLag(t *testing.T) {
	t.Parallel()
	for lag := range 4 {
		c := cdn(7)
		c.Noise, c.Lag, c.Cycles = 0, lag, 120
		var grants [][]float64
		c.Observe = func(cycle allocation.Cycle) { grants = append(grants, slices.Clone(cycle.Granted)) }
		if _, err := allocation.Run(c); err != nil {
			t.Fatal(err)
		}
		// The attack of the second minute begins in cycle 60.
		for n := 60; n < 80; n++ {
			if settled := slices.Equal(grants[n], grants[79]); settled != (n >= 60+lag) {
				t.Errorf("lag %d: settled in cycle %d after the step: %v", lag, n-60, settled)
			}
		}
	}
}

// Requests that wait come again, and some as another class. By hand: of 100 a cycle 50 are served, of the rest a tenth is cleared and a fifth
// leaves, so 35 ask again; in the second cycle 135 ask.
func TestWaiting(t *testing.T) {
	t.Parallel()
	out, err := allocation.Run(allocation.Config{
		Policy:    capacity.Policy{Grid: capacity.Grid{Classes: 2, Locations: 1}, Baseline: []float64{50, 50}},
		Allocator: "static", Demand: []allocation.Demand{{Level: 20, Weights: []float64{1}}, {Level: 100, Weights: []float64{1}}},
		Waiting: &allocation.Waiting{Class: 1, To: 0, Clears: 0.1, Leaves: 0.2}, Cycle: 2 * time.Second, Cycles: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	// First class: 20, then 25; at the end 8.5 that were cleared in the second cycle have had no answer. Second: 185 left over in total in cycles of 2 s.
	want := []allocation.Class{{Arrivals: 2 * 53.5, Served: 2 * 45, Left: 2 * 8.5}, {Arrivals: 2 * 186.5, Served: 2 * 100, Left: 2 * 86.5}}
	for k := range want {
		got, w := out.Classes[k], want[k]
		for _, pair := range [][2]float64{{got.Arrivals, w.Arrivals}, {got.Served, w.Served}, {got.Rejected, w.Rejected}, {got.Left, w.Left}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("class %d: %+v, want %+v", k, got, w)
				break
			}
		}
	}
	if math.Abs(out.Demand[1]-117.5) > 1e-9 {
		t.Errorf("mean demand %g, want 117.5 with what waits", out.Demand[1])
	}
}

// Kubernetes' borrowing looks back over a period: what has been asked for then is granted in the next.
func TestBorrowingDecidesOnceAPeriod(t *testing.T) {
	t.Parallel()
	a, err := allocation.New("borrowing", map[string]string{"period": "3", "lend": "1"}, capacity.Policy{Grid: capacity.Grid{Classes: 2, Locations: 1}, Baseline: []float64{50, 50}})
	if err != nil {
		t.Fatal(err)
	}
	grants := make([]float64, 2)
	for n := range 3 {
		a.Allocate([]float64{90, 10}, grants)
		if decided := math.Abs(grants[0]-90) < 1e-3; decided != (n == 2) {
			t.Errorf("cycle %d: granted %v", n, grants)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	p := capacity.Policy{Grid: capacity.Grid{Classes: 2, Locations: 2}, Baseline: []float64{40, 30, 20, 10}}
	for _, c := range []struct{ name, key, value, want string }{
		{"two-level", "lend", "0.5,1", ""},
		{"two-level", "lend", "0.5,1,1", "one for each of 2 classes"},
		{"two-level", "lend", "2", "a share is a number from 0 to 1"},
		{"two-level", "sharing", "need", "it is deficit or demand"},
		{"two-level", "floor", "1.5", "out of range"},
		{"two-level", "cap", "0.5", "is at least 1"},
		{"two-level", "capp", "2", "it takes lend, sharing, order, floor, cap, whole"},
		{"static", "lend", "1", "it has none"},
		{"two-class", "tie", "none", "it is pro-rata or volume-first or first-first"},
		{"single-class", "budget", "half", "it is all or reservation"},
		{"borrowing", "period", "0", "out of range"},
		{"borrowing", "borrow", "x", "is not a number"},
	} {
		_, err := allocation.New(c.name, map[string]string{c.key: c.value}, p)
		var wrong *allocation.SettingError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %s=%s: %v", c.name, c.key, c.value, err)
		case c.want != "" && (!errors.As(err, &wrong) || wrong.Setting != c.key || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %s=%s: error %v, want one about %q", c.name, c.key, c.value, err, c.want)
		}
	}
	if _, err := allocation.New("three-level", nil, p); err == nil || !strings.Contains(err.Error(), "two-level") {
		t.Errorf("an unknown allocator: %v", err)
	}
	// A floor and sharing by demand exclude each other.
	if _, err := allocation.New("two-level", map[string]string{"floor": "0.1", "sharing": "demand"}, p); err == nil {
		t.Error("a floor under sharing by demand is accepted")
	}
}

func TestMistakesOfAConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*allocation.Config){
		"no cycles":        func(c *allocation.Config) { c.Cycles = 0 },
		"lag":              func(c *allocation.Config) { c.Lag = -1 },
		"demands":          func(c *allocation.Config) { c.Demand = c.Demand[:1] },
		"weights":          func(c *allocation.Config) { c.Demand[0].Weights = nil },
		"noise":            func(c *allocation.Config) { c.Noise = math.NaN() },
		"waits for itself": func(c *allocation.Config) { c.Waiting = &allocation.Waiting{} },
		"shares":           func(c *allocation.Config) { c.Waiting = &allocation.Waiting{Class: 1, Clears: 0.7, Leaves: 0.7} },
		"allocator":        func(c *allocation.Config) { c.Allocator = "none" },
	} {
		c := cdn(1)
		change(&c)
		if _, err := allocation.Run(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAllocatorsDoNotAllocate(t *testing.T) {
	c := cdn(3)
	demand, grants := make([]float64, c.Policy.Cells()), make([]float64, c.Policy.Cells())
	for i := range demand {
		demand[i] = float64(i * 100)
	}
	for _, name := range allocation.Names() {
		a, err := allocation.New(name, nil, c.Policy)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(50, func() { a.Allocate(demand, grants) }); n != 0 {
			t.Errorf("%s allocates %v times in a cycle", name, n)
		}
	}
}

func BenchmarkScenario(b *testing.B) {
	for b.Loop() {
		if _, err := allocation.Run(cdn(7)); err != nil {
			b.Fatal(err)
		}
	}
}
