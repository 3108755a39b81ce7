package capacity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
	"pgregory.net/rapid"

	"spillway/control/capacity"
)

// drawPolicy draws a grid with baselines, and demands for it.
func drawPolicy(t *rapid.T, classes int) (p capacity.Policy, demand []float64) {
	if classes == 0 {
		classes = rapid.IntRange(1, 4).Draw(t, "classes")
	}
	p.Grid = capacity.Grid{Classes: classes, Locations: rapid.IntRange(1, 9).Draw(t, "locations")}
	amount := rapid.Map(rapid.IntRange(0, 1_000_000), func(n int) float64 { return float64(n) / 7 })
	p.Baseline = rapid.SliceOfN(amount, p.Cells(), p.Cells()).Draw(t, "baseline")
	p.Order = capacity.Order(rapid.IntRange(0, 1).Draw(t, "order"))
	p.Sharing = capacity.Sharing(rapid.IntRange(0, 1).Draw(t, "sharing"))
	if rapid.Bool().Draw(t, "lending limits") {
		p.Lend = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.3, 1}), classes, classes).Draw(t, "lend")
	}
	p.Floor = rapid.SampledFrom([]float64{0, 0, 0.05, 1}).Draw(t, "floor")
	return p, rapid.SliceOfN(amount, p.Cells(), p.Cells()).Draw(t, "demand")
}

func total(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum
}

func TestAllocateConserves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, demand := drawPolicy(t, 0)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		budget, grants := p.Budget(), make([]float64, p.Cells())
		p.Allocate(demand, grants)
		if gap := math.Abs(total(grants) - budget); gap > 1e-9*budget {
			t.Fatalf("grants sum to %g, the budget is %g", total(grants), budget)
		}
		for c, g := range grants {
			if g < -1e-9*budget {
				t.Fatalf("cell %d is granted %g", c, g)
			}
			if floor := p.Floor * p.Baseline[c]; p.Sharing == capacity.ByDeficit && g < min(floor, demand[c])-1e-6 && g < floor-1e-6 {
				t.Fatalf("cell %d is granted %g, its floor is %g", c, g, floor)
			}
		}
		// Nothing is carried over: the same demand gives the same grants, whatever came between.
		again := make([]float64, p.Cells())
		p.Allocate(make([]float64, p.Cells()), again)
		p.Allocate(demand, again)
		if !slices.Equal(grants, again) {
			t.Fatal("the same demand gives other grants the second time")
		}
		// Whole numbers sum to the budget exactly, and are less than one away from the shares.
		whole, order := make([]int64, p.Cells()), make([]int32, p.Cells())
		capacity.Whole(int64(budget), grants, whole, order)
		sum := int64(0)
		for c, n := range whole {
			sum += n
			if n < 0 || math.Abs(float64(n)-grants[c]*float64(int64(budget))/max(budget, 1e-300)) > 1+1e-6 {
				t.Fatalf("cell %d: %d, its share is %g", c, n, grants[c])
			}
		}
		if sum != int64(budget) {
			t.Fatalf("whole numbers sum to %d, not %d", sum, int64(budget))
		}
	})
}

// Where everybody lends all, a budget that is wanted is used to the last, and each class has what is reserved for it if it wants it.
func TestAllocateUsesTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, demand := drawPolicy(t, 0)
		p.Lend, p.Floor = nil, 0
		budget, grants := p.Budget(), make([]float64, p.Cells())
		p.Allocate(demand, grants)
		slack := 1e-9*budget + 1e-9
		for k := range p.Classes {
			asked, reserved, got := total(capacity.Row(p.Grid, demand, k)), total(capacity.Row(p.Grid, p.Baseline, k)), total(capacity.Row(p.Grid, grants, k))
			if got < min(asked, reserved)-slack {
				t.Fatalf("class %d is granted %g, asks for %g and has %g reserved", k, got, asked, reserved)
			}
		}
		if total(demand) < budget {
			for c, g := range grants {
				if g < demand[c]-slack {
					t.Fatalf("cell %d is granted %g of %g, though there is enough for all", c, g, demand[c])
				}
			}
			return
		}
		for c, g := range grants {
			if g > demand[c]+slack {
				t.Fatalf("cell %d is granted %g and asks for %g: capacity lies idle", c, g, demand[c])
			}
		}
	})
}

// A cell gets at least the smaller of its demand and its baseline, whatever others say that they want: who lies can take a surplus, and nothing else.
func TestNobodyLosesItsOwn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, demand := drawPolicy(t, 0)
		p.Floor, p.Sharing = 0, capacity.ByDeficit
		for range rapid.IntRange(0, 3).Draw(t, "liars") {
			demand[rapid.IntRange(0, p.Cells()-1).Draw(t, "liar")] *= 1e6
		}
		grants := make([]float64, p.Cells())
		p.Allocate(demand, grants)
		for c, g := range grants {
			if g < min(demand[c], p.Baseline[c])-1e-9*p.Budget()-1e-9 {
				t.Fatalf("cell %d is granted %g, asks for %g and has a baseline of %g", c, g, demand[c], p.Baseline[c])
			}
		}
	})
}

// The closed form of two classes: the first gets its reservation and what the second leaves of its own.
func TestAllocateClosedForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, demand := drawPolicy(t, 2)
		p.Lend, p.Floor = nil, 0
		grants := make([]float64, p.Cells())
		p.Allocate(demand, grants)
		high, low := total(capacity.Row(p.Grid, demand, 0)), total(capacity.Row(p.Grid, demand, 1))
		reservedHigh, reservedLow := total(capacity.Row(p.Grid, p.Baseline, 0)), total(capacity.Row(p.Grid, p.Baseline, 1))
		want := min(high, reservedHigh+max(0, reservedLow-low))
		got := 0.0
		for i, g := range capacity.Row(p.Grid, grants, 0) {
			got += min(g, demand[i])
		}
		if math.Abs(got-want) > 1e-9*p.Budget()+1e-9 {
			t.Fatalf("the first class is served %g, want %g", got, want)
		}
	})
}

func TestAllocatePermutes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, demand := drawPolicy(t, 0)
		grants := make([]float64, p.Cells())
		p.Allocate(demand, grants)
		places := make([]int, p.Locations)
		for i := range places {
			places[i] = i
		}
		places = rapid.Permutation(places).Draw(t, "order of the locations")
		q := p
		q.Baseline = make([]float64, p.Cells())
		moved, got := make([]float64, p.Cells()), make([]float64, p.Cells())
		for k := range p.Classes {
			for i, j := range places {
				q.Baseline[q.Cell(k, j)] = p.Baseline[p.Cell(k, i)]
				moved[q.Cell(k, j)] = demand[p.Cell(k, i)]
			}
		}
		q.Allocate(moved, got)
		for k := range p.Classes {
			for i, j := range places {
				if a, b := grants[p.Cell(k, i)], got[q.Cell(k, j)]; math.Abs(a-b) > 1e-9*p.Budget()+1e-9 {
					t.Fatalf("class %d at location %d: %g, with the locations in another order %g", k, i, a, b)
				}
			}
		}
	})
}

func TestAllocateLendingLimits(t *testing.T) {
	t.Parallel()
	p := capacity.Policy{
		Grid: capacity.Grid{Classes: 3, Locations: 2}, Baseline: []float64{50, 50, 50, 50, 50, 50},
		Order: capacity.ByImportance,
	}
	// The third class wants nothing; the first lacks 60, the second 100.
	demand := []float64{100, 60, 150, 50, 0, 0}
	for _, c := range []struct {
		lend  []float64
		order capacity.Order
		want  []float64
	}{
		{nil, capacity.ByImportance, []float64{100, 60, 90, 50, 0, 0}},
		{nil, capacity.Alike, []float64{50 + 50*0.625, 50 + 10*0.625, 50 + 100*0.625, 50, 0, 0}},
		{[]float64{1, 1, 0}, capacity.ByImportance, []float64{50, 50, 50, 50, 50, 50}},
		{[]float64{1, 1, 0.3}, capacity.ByImportance, []float64{75, 55, 50, 50, 35, 35}},
	} {
		p.Lend, p.Order = c.lend, c.order
		got := make([]float64, 6)
		p.Allocate(demand, got)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("lend %v, order %d: %v, want %v", c.lend, c.order, got, c.want)
				break
			}
		}
	}
}

func TestAllocateByDemand(t *testing.T) {
	t.Parallel()
	p := capacity.Policy{Grid: capacity.Grid{Classes: 1, Locations: 3}, Baseline: []float64{60, 30, 10}, Sharing: capacity.ByDemand}
	got := make([]float64, 3)
	p.Allocate([]float64{100, 50, 50}, got)
	if want := []float64{50, 25, 25}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAllocateCaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, demand := drawPolicy(t, 0)
		p.Floor = 0
		p.Caps = make([]float64, p.Locations)
		for i := range p.Caps {
			for k := range p.Classes {
				p.Caps[i] += p.Baseline[p.Cell(k, i)]
			}
			p.Caps[i] *= rapid.SampledFrom([]float64{1, 1.5, 10}).Draw(t, "cap")
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		budget, grants := p.Budget(), make([]float64, p.Cells())
		p.Allocate(demand, grants)
		slack := 1e-9*budget + 1e-9
		if total(grants) > budget+slack {
			t.Fatalf("grants sum to %g, the budget is %g", total(grants), budget)
		}
		for i, limit := range p.Caps {
			here := 0.0
			for k := range p.Classes {
				here += grants[p.Cell(k, i)]
				if grants[p.Cell(k, i)] < 0 {
					t.Fatalf("location %d is granted %g", i, grants[p.Cell(k, i)])
				}
			}
			if here > limit+slack {
				t.Fatalf("location %d is granted %g, its cap is %g", i, here, limit)
			}
		}
	})
}

// TestTwoClassIsOptimal holds the greedy solution against a solver of linear programmes.
func TestTwoClassIsOptimal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := capacity.Grid{Classes: 2, Locations: rapid.IntRange(1, 4).Draw(t, "locations")}
		demand := rapid.SliceOfN(rapid.Float64Range(1, 100), g.Cells(), g.Cells()).Draw(t, "demand")
		budget := rapid.Float64Range(1, 500).Draw(t, "budget")
		// Maximise Σ x with x ≤ demand and Σ x ≤ budget, in standard form with a slack for each constraint.
		n := g.Cells()
		costs, bounds := make([]float64, 2*n+1), make([]float64, n+1)
		a := mat.NewDense(n+1, 2*n+1, nil)
		for c := range n {
			costs[c] = -1
			a.Set(c, c, 1)
			a.Set(c, n+c, 1)
			a.Set(n, c, 1)
			bounds[c] = demand[c]
		}
		a.Set(n, 2*n, 1)
		bounds[n] = budget
		best, _, err := lp.Simplex(costs, a, bounds, 1e-10, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tie := range []capacity.Tie{capacity.ProRata, capacity.VolumeFirst, capacity.FirstFirst} {
			grants := make([]float64, n)
			capacity.TwoClass(g, budget, demand, grants, tie)
			if got := total(grants); math.Abs(got+best) > 1e-6 {
				t.Fatalf("tie %d: %g served, the solver says %g", tie, got, -best)
			}
			for c := range grants {
				if grants[c] < 0 || grants[c] > demand[c]+1e-9 {
					t.Fatalf("tie %d: cell %d is granted %g of %g", tie, c, grants[c], demand[c])
				}
			}
		}
		// The one-class programme is the same with the other class's demand taken away.
		single := make([]float64, n)
		capacity.SingleClass(g, budget, demand, single)
		if want := min(budget, total(capacity.Row(g, demand, 0))); math.Abs(total(single)-want) > 1e-9*budget {
			t.Fatalf("single class: %g, want %g", total(single), want)
		}
	})
}

func TestTies(t *testing.T) {
	t.Parallel()
	g := capacity.Grid{Classes: 2, Locations: 1}
	for tie, want := range map[capacity.Tie][]float64{
		capacity.ProRata: {25, 75}, capacity.VolumeFirst: {0, 100}, capacity.FirstFirst: {50, 50},
	} {
		got := make([]float64, 2)
		capacity.TwoClass(g, 100, []float64{50, 150}, got, tie)
		if !slices.Equal(got, want) {
			t.Errorf("tie %d: %v, want %v", tie, got, want)
		}
	}
}

// The example of Doorman's documentation.
func TestProportionalShareExample(t *testing.T) {
	t.Parallel()
	got := make([]float64, 3)
	capacity.ProportionalShare(120, []float64{1000, 50, 10}, got)
	if s := fmt.Sprintf("%.2f", got); s != "[69.69 40.31 10.00]" {
		t.Error(s)
	}
}

func TestBorrowing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "levels")
		levels, high, budget := make([]capacity.Borrower, n), make([]float64, n), 0.0
		for i := range levels {
			levels[i] = capacity.Borrower{
				Nominal: rapid.Float64Range(1, 100).Draw(t, "nominal"), Lend: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "lend"), Borrow: -1,
			}
			demand := rapid.Float64Range(0, 300).Draw(t, "demand")
			levels[i].Observe(demand, 0)
			high[i] = demand
			budget += levels[i].Nominal
		}
		grants := make([]float64, n)
		capacity.Borrowing(budget, levels, high, grants)
		if math.Abs(total(grants)-budget) > 1e-6*budget {
			t.Fatalf("grants sum to %g, the budget is %g", total(grants), budget)
		}
		for i, g := range grants {
			if least := min(levels[i].Nominal, max(levels[i].Nominal*(1-levels[i].Lend), high[i])); g < least-1e-6 {
				t.Fatalf("level %d is granted %g, at least %g is its own", i, g, least)
			}
		}
	})
	// It rises at once and falls slowly.
	var b capacity.Borrower
	b.Observe(100, 10)
	b.Observe(0, 0)
	if b.Smoothed != 110*0.977 {
		t.Errorf("smoothed demand %g, want %g", b.Smoothed, 110*0.977)
	}
}

func TestWholeIsExact(t *testing.T) {
	t.Parallel()
	out, order := make([]int64, 4), make([]int32, 4)
	capacity.Whole(10, []float64{3.4, 3.4, 1.6, 1.6}, out, order)
	if want := []int64{3, 3, 2, 2}; !slices.Equal(out, want) {
		t.Errorf("%v, want %v", out, want)
	}
	capacity.Whole(7, []float64{0, 0, 0, 0}, out, order)
	if want := []int64{2, 2, 2, 1}; !slices.Equal(out, want) {
		t.Errorf("%v, want %v", out, want)
	}
	capacity.Whole(3, []float64{1, 1, 1, 1}, out, order)
	if want := []int64{1, 1, 1, 0}; !slices.Equal(out, want) {
		t.Errorf("ties: %v, want %v", out, want)
	}
	const large = int64(1) << 52
	capacity.Whole(large, []float64{1, 2, 3, 4}, out, order)
	if sum := out[0] + out[1] + out[2] + out[3]; sum != large {
		t.Errorf("%d is missing", large-sum)
	}
}

func TestPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*capacity.Policy){
		"no classes":        func(p *capacity.Policy) { p.Classes = 0 },
		"too few baselines": func(p *capacity.Policy) { p.Baseline = p.Baseline[1:] },
		"negative baseline": func(p *capacity.Policy) { p.Baseline[0] = -1 },
		"not a number":      func(p *capacity.Policy) { p.Baseline[0] = math.NaN() },
		"lending":           func(p *capacity.Policy) { p.Lend = []float64{0, 1.1} },
		"lending classes":   func(p *capacity.Policy) { p.Lend = []float64{0} },
		"caps":              func(p *capacity.Policy) { p.Caps = []float64{1} },
		"cap too low":       func(p *capacity.Policy) { p.Caps = []float64{3, 5} },
		"floor":             func(p *capacity.Policy) { p.Floor = 1.5 },
		"sharing":           func(p *capacity.Policy) { p.Sharing = 9 },
	} {
		p := capacity.Policy{Grid: capacity.Grid{Classes: 2, Locations: 2}, Baseline: []float64{1, 2, 3, 4}}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		change(&p)
		if p.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// sized returns a policy with demands of so many cells.
func sized(classes, locations int) (p capacity.Policy, demand []float64) {
	rng := rand.New(rand.NewPCG(1, uint64(locations)))
	p.Grid = capacity.Grid{Classes: classes, Locations: locations}
	for range p.Cells() {
		p.Baseline, demand = append(p.Baseline, rng.Float64()), append(demand, 2*rng.Float64())
	}
	return p, demand
}

func TestACycleDoesNotAllocate(t *testing.T) {
	p, demand := sized(2, 22)
	grants, whole, order := make([]float64, p.Cells()), make([]int64, p.Cells()), make([]int32, p.Cells())
	if allocs := testing.AllocsPerRun(100, func() {
		p.Allocate(demand, grants)
		capacity.Whole(1000, grants, whole, order)
		capacity.TwoClass(p.Grid, 10, demand, grants, capacity.VolumeFirst)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkAllocate(b *testing.B) {
	for _, locations := range []int{22, 100, 1000, 10_000, 50_000, 100_000} {
		b.Run(fmt.Sprint("2x", locations), func(b *testing.B) {
			p, demand := sized(2, locations)
			grants := make([]float64, p.Cells())
			for b.Loop() {
				p.Allocate(demand, grants)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.Cells()), "ns/cell")
		})
	}
}

func BenchmarkWhole(b *testing.B) {
	for _, locations := range []int{22, 1000, 100_000} {
		b.Run(fmt.Sprint("2x", locations), func(b *testing.B) {
			p, demand := sized(2, locations)
			out, order := make([]int64, p.Cells()), make([]int32, p.Cells())
			for b.Loop() {
				capacity.Whole(1_000_000, demand, out, order)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.Cells()), "ns/cell")
		})
	}
}
