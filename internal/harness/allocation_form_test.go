//go:build linux

package harness

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spillway/control/capacity"
	"spillway/profiles"
	"spillway/sim/allocation"
)

// TestClosedFormAgrees: worked out apart, class by class, it is what the allocator under test arrives at by its own way over cells.
func TestClosedFormAgrees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := capacity.Policy{Grid: capacity.Grid{Classes: rapid.IntRange(1, 4).Draw(t, "classes"), Locations: rapid.IntRange(1, 3).Draw(t, "locations")}}
		rates := rapid.SampledFrom([]float64{0, 1, 10, 50, 100, 300})
		var demand, reserved, asked []float64
		for range p.Cells() {
			p.Baseline, demand = append(p.Baseline, rates.Draw(t, "baseline")), append(demand, rates.Draw(t, "demand"))
		}
		var lends []string
		for k := range p.Classes {
			lends = append(lends, strconv.FormatFloat(rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "lend"), 'g', -1, 64))
			reserved, asked = append(reserved, total(capacity.Row(p.Grid, p.Baseline, k))), append(asked, total(capacity.Row(p.Grid, demand, k)))
		}
		c := profiles.Controller{Name: "two-level", Settings: map[string]string{"lend": strings.Join(lends, ","), "order": rapid.SampledFrom([]string{"importance", "alike"}).Draw(t, "order")}}
		allocator, err := allocation.New(c.Name, c.Settings, p)
		if err != nil {
			t.Fatal(err)
		}
		grants := make([]float64, p.Cells())
		allocator.Allocate(demand, grants)
		lend, alike := lending(&c, p.Classes)
		for k, want := range ideal(reserved, lend, asked, alike) {
			if got := total(capacity.Row(p.Grid, grants, k)); math.Abs(got-want) > 1e-9*max(1, total(p.Baseline)) {
				t.Fatalf("class %d is allocated %g, by the closed form %g", k, got, want)
			}
		}
	})
}

// TestReservoir: what a bucket serves is what flows into it, less what it cannot hold.
func TestReservoir(t *testing.T) {
	t.Parallel()
	var short, calm, waves reservoir
	for range 10 {
		if got := short.draw(20, 10, 1, 1, 17); got != 10 {
			t.Errorf("asked for 20 and filled at 10: %g", got)
		}
		if got := calm.draw(5, 10, 1, 1, 7); got != 7 {
			t.Errorf("asked for less than it gets: %g of the 7 that were asked for", got)
		}
	}
	// It is full when it is calm, and carries that into the rush, once.
	served := 0.0
	for n := range 10 {
		rate := 5.0
		if n >= 5 {
			rate = 30
		}
		served += waves.draw(rate, 10, 1, 1, rate)
	}
	if want := 5*5 + 10 + 5*10.0; served != want {
		t.Errorf("a calm and a rush: %g, want %g", served, want)
	}
	var exact reservoir
	if got := exact.draw(10, 10, 1, 1, 12); got != 12 {
		t.Errorf("asked for just what it gets: %g of 12", got)
	}
}

// TestMomentary: the rates of a scenario, with the users of edges that are down at the others, in turn.
func TestMomentary(t *testing.T) {
	t.Parallel()
	p := edgesProfile(t, "locations: 2", "locations: 3", "high: {level: 0.8}", "high: {level: 0.8, swing: {by: 0.5, every: 4s}}").Runs()[0]
	r := &liveRun{profile: p, fleet: &fleet{policy: policy(&p.Workload, p.Workload.Scenario())}}
	for n, want := range [][]float64{{26.6667, 38.2137, 15.1196}, {40, 20, 20}} { // by its sine, a third of a period apart
		all := r.momentary(nil)(n)
		for i, w := range want {
			if n == 1 {
				w = 26.6667 * (1 + 0.5*math.Sin(math.Pi/2+2*math.Pi*float64(i)/3))
			}
			if math.Abs(all[i]-w) > 0.001 {
				t.Errorf("cycle %d, edge %d: %g, want %g", n, i+1, all[i], w)
			}
		}
		down := r.momentary([]int{1})(n)
		if down[1] != 0 || math.Abs(down[0]-all[0]-all[1]/2) > 1e-9 || math.Abs(down[2]-all[2]-all[1]/2) > 1e-9 {
			t.Errorf("with an edge down: %v, all up %v", down[:3], all[:3])
		}
	}
}
