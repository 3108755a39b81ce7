package machine

import (
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

var xl170 = Spec{Cores: 18, Bus: Bus{Total: 36e9, PerCore: 6e9}}

// twoClasses is the half-and-half workload of DESIGN §6, offered far above what the machine can do.
func twoClasses() []Demand {
	d := []Demand{{Offered: 500e3}, {Offered: 500e3}}
	d[0].Mean(Step{Kind: Compute, Duration: 72 * time.Microsecond}, xl170.Bus)
	d[1].Mean(Step{Kind: Stream, Bytes: 819200}, xl170.Bus)
	return d
}

// TestOptimumArithmetic: the bus passes 36 GB/s / 819 200 B = 43 945 requests a second, whose streams of 136.5 µs hold 6 cores; the other 12
// do 12/72 µs = 166 667. A controller that must admit half and half stops when the bus is full.
func TestOptimumArithmetic(t *testing.T) {
	t.Parallel()
	near := func(name string, got []float64, want ...float64) {
		t.Helper()
		if !floats.EqualApprox(got, want, 1) { // one request per second
			t.Errorf("%s: %.0f, want %.0f", name, got, want)
		}
	}
	near("optimum", Optimum(xl170, twoClasses()), 166_667, 43_945)
	near("ceiling", Ceiling(xl170, twoClasses()), 43_945, 43_945)
	total, err := GreatestTotal(xl170, twoClasses())
	if err != nil {
		t.Fatal(err)
	}
	near("greatest total", total, 250_000, 0)
	if got := Headroom(xl170, twoClasses()) * 1e6; math.Abs(got-87_890) > 1 {
		t.Errorf("capacity %.0f, want 87 890", got)
	}
	light := twoClasses()
	light[0].Offered, light[1].Offered = 1000, 1000
	near("optimum below capacity", Optimum(xl170, light), 1000, 1000)
	near("ceiling below capacity", Ceiling(xl170, light), 1000, 1000)
}

// TestOptimumWithLock: 10 µs under one lock allow 100 000 a second, however many cores there are.
func TestOptimumWithLock(t *testing.T) {
	t.Parallel()
	d := []Demand{{Offered: 1e6}, {Offered: 1e6}}
	d[0].Mean(Step{Kind: Lock, Index: 1, Duration: 10 * time.Microsecond}, xl170.Bus)
	d[1].Mean(Step{Kind: Compute, Duration: 34 * time.Microsecond}, xl170.Bus)
	got := Optimum(xl170, d)
	if want := []float64{100e3, 500e3}; !floats.EqualApprox(got, want, 1) { // 18 cores − 1 under the lock = 17 for the others
		t.Errorf("optimum %.0f, want %.0f", got, want)
	}
}

// TestOptimumProperties: on random machines and classes no resource is overdrawn, the optimum serves at least the ceiling of every
// class, the greatest total is no less than the optimum's, and no class could be raised without one of its resources being full.
func TestOptimumProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Cores: rapid.IntRange(1, 64).Draw(t, "cores"), Bus: Bus{Total: rapid.Float64Range(1e9, 2e11).Draw(t, "total"), PerCore: 6e9}}
		demands := make([]Demand, rapid.IntRange(1, 5).Draw(t, "classes"))
		for c := range demands {
			demands[c] = Demand{
				Offered: rapid.Float64Range(0, 1e6).Draw(t, "offered"),
				Core:    time.Duration(rapid.IntRange(0, 200_000).Draw(t, "core")),
				Bytes:   float64(rapid.IntRange(0, 1_000_000).Draw(t, "bytes")),
				Locks:   []float64{rapid.Float64Range(0, 1e-4).Draw(t, "lock")},
			}
		}
		r := resourcesOf(spec, demands)
		optimum, ceiling := Optimum(spec, demands), Ceiling(spec, demands)
		total, err := GreatestTotal(spec, demands)
		if err != nil {
			t.Fatal(err)
		}
		full := make([]bool, len(r.limit))
		for i := range r.limit {
			used := floats.Dot(r.use[i], optimum)
			if used > r.limit[i]*(1+1e-9) {
				t.Fatalf("resource %d is overdrawn: %g of %g", i, used, r.limit[i])
			}
			full[i] = used > r.limit[i]*(1-1e-9)
		}
		for c := range demands {
			if optimum[c] < ceiling[c]*(1-1e-9) {
				t.Fatalf("class %d: optimum %g below ceiling %g", c, optimum[c], ceiling[c])
			}
			stopped := optimum[c] >= demands[c].Offered*(1-1e-9)
			for i := range full {
				stopped = stopped || (full[i] && r.use[i][c] > 0)
			}
			if !stopped {
				t.Fatalf("class %d could be raised", c)
			}
		}
		if a, b := floats.Sum(total), floats.Sum(optimum); a < b*(1-1e-6)-1e-6 {
			t.Fatalf("greatest total %g below the optimum's %g", a, b)
		}
	})
}

func TestOptimumOfNothing(t *testing.T) {
	t.Parallel()
	if got := Optimum(xl170, nil); len(got) != 0 {
		t.Errorf("no classes: %v", got)
	}
	idle := []Demand{{Offered: 0, Core: time.Microsecond}}
	if got := Optimum(xl170, idle); got[0] != 0 {
		t.Errorf("nothing offered: %v", got)
	}
	free := []Demand{{Offered: 10}}
	if got := Optimum(xl170, free); got[0] != 10 {
		t.Errorf("work that uses nothing: %v", got)
	}
}
