package capacity_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spillway/control/capacity"
)

// TestSpread: what is spare becomes the same headroom for all, the sum stays, nobody is left with less than it asks for, what a class may not lend stays
// with it, and where somebody lacks something nothing changes.
func TestSpread(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := capacity.Policy{Grid: capacity.Grid{Classes: rapid.IntRange(1, 3).Draw(t, "classes"), Locations: rapid.IntRange(1, 4).Draw(t, "locations")}}
		rates := rapid.SampledFrom([]float64{0, 1, 10, 50, 100})
		var demand []float64
		for range p.Cells() {
			p.Baseline, demand = append(p.Baseline, rates.Draw(t, "baseline")), append(demand, rates.Draw(t, "demand"))
		}
		for range p.Classes {
			p.Lend = append(p.Lend, rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "lend"))
		}
		grants := make([]float64, p.Cells())
		p.Allocate(demand, grants)
		before := slices.Clone(grants)
		p.Spread(demand, grants)
		sum, scarce := 0.0, false
		for c, g := range grants {
			sum += g
			scarce = scarce || before[c] < demand[c]*(1-1e-6)
			if g < min(demand[c], before[c])-1e-9 || g < (1-p.Lend[c/p.Locations])*(before[c]-demand[c])-1e-9 {
				t.Fatalf("cell %d asks for %g, had %g and is left with %g", c, demand[c], before[c], g)
			}
		}
		if budget := p.Budget(); math.Abs(sum-budget) > 1e-9*max(budget, 1) {
			t.Fatalf("the grants sum to %g, the budget is %g", sum, budget)
		}
		if scarce && !slices.Equal(before, grants) {
			t.Fatalf("somebody lacks something, and %v became %v", before, grants)
		}
		for c, g := range grants {
			for o, other := range grants {
				free := p.Lend[c/p.Locations] == 1 && p.Lend[o/p.Locations] == 1 && demand[c] > 0 && demand[o] > 0
				if !scarce && free && math.Abs(g/demand[c]-other/demand[o]) > 1e-6 {
					t.Fatalf("cells %d and %d have a headroom of %g and %g", c, o, g/demand[c], other/demand[o])
				}
			}
		}
	})
}

// TestSpreadAllocatesNothing cannot be parallel: what others allocate would count.
func TestSpreadAllocatesNothing(t *testing.T) {
	p := capacity.Policy{Grid: capacity.Grid{Classes: 2, Locations: 2}, Baseline: []float64{40, 30, 20, 10}}
	demand, grants := []float64{40, 40, 5, 5}, make([]float64, 4)
	if n := testing.AllocsPerRun(100, func() { p.Allocate(demand, grants); p.Spread(demand, grants) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if want := 40 * 100.0 / 90; math.Abs(grants[0]-want) > 1e-9 {
		t.Errorf("%v", grants)
	}
}
