package report

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// runOf makes a run of controllers whose parts are the sets, in one point each; worth is their goodput.
func runOf(sets []uint64, worth map[uint64]float64) *Run {
	run := &Run{Manifest: Manifest{Name: "p"}}
	for _, s := range sets {
		parts := []string{}
		for i := range 64 {
			if s&(1<<i) != 0 {
				parts = append(parts, fmt.Sprintf("part%d", i))
			}
		}
		label := fmt.Sprintf("c%d", s)
		run.Manifest.Controllers = append(run.Manifest.Controllers, ControllerInfo{Label: label, Name: "svalinn", Parts: parts})
		for _, class := range []string{"get", AllClasses} {
			run.Rows = append(run.Rows, Row{
				Profile: "p", Controller: label, OfferedTargetRPS: Known(100), Repeat: 1, Class: class, GoodputRPS: Known(worth[s]), Valid: true,
			})
		}
	}
	return run
}

// TestSharesSumToTheWhole: for any measured combinations and any goodputs. Where all combinations were measured, the shares are Shapley's,
// computed here as he did: over all orders.
func TestSharesSumToTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "parts")
		full := rapid.Bool().Draw(t, "full")
		var sets []uint64
		worth := map[uint64]float64{}
		for s := range uint64(1) << n {
			if full || rapid.Bool().Draw(t, "measured") {
				sets = append(sets, s)
				worth[s] = rapid.Float64Range(0, 1e6).Draw(t, "goodput")
			}
		}
		if len(sets) == 0 {
			return
		}
		sets = rapid.Permutation(sets).Draw(t, "order")
		run := runOf(sets, worth)
		list := run.Attributions()
		p, ok := run.attributionPlan()
		if !ok || (p.why == "") != (len(list) > 0) {
			t.Fatalf("plan %+v, %d attributions", p, len(list))
		}
		for _, a := range list {
			sum := 0.0
			for _, s := range a.Shares {
				if !s.RPS.Value.known {
					t.Fatalf("no share in %+v", a)
				}
				sum += s.RPS.Value.number
			}
			if gain := a.ToRPS.number - a.FromRPS.number; math.Abs(sum-gain) > 1e-6 {
				t.Fatalf("%s: shares sum to %v, the gain is %v: %+v", a.Form, sum, gain, a)
			}
			if full {
				byOrders(t, n, worth, &a)
			}
		}
	})
}

// byOrders holds an attribution against the mean over all orders of adding the parts.
func byOrders(t *rapid.T, n int, worth map[uint64]float64, a *Attribution) {
	want, orders := map[string]float64{}, 0.0
	var add func(set uint64, shares map[int]float64)
	add = func(set uint64, shares map[int]float64) {
		if bits.OnesCount64(set) == n {
			orders++
			for part, s := range shares {
				want[fmt.Sprintf("part%d", part)] += s
			}
			return
		}
		for part := range n {
			if set&(1<<part) == 0 {
				shares[part] = worth[set|1<<part] - worth[set]
				add(set|1<<part, shares)
				delete(shares, part)
			}
		}
	}
	add(0, map[int]float64{})
	if form := a.Form; form != FormShapley || len(a.Shares) != n {
		t.Fatalf("form %s of %d shares, want %s of %d", form, len(a.Shares), FormShapley, n)
	}
	for _, s := range a.Shares {
		if math.Abs(s.RPS.Value.number-want[s.Part]/orders) > 1e-6 {
			t.Fatalf("%s has %v, want %v", s.Part, s.RPS.Value, want[s.Part]/orders)
		}
	}
}

func TestFormsOfAttribution(t *testing.T) {
	t.Parallel()
	const credits, aqm, section = 1, 2, 4
	worth := map[uint64]float64{0: 10, credits: 20, aqm: 15, section: 30, credits | aqm: 40, credits | section: 60, credits | aqm | section: 100}
	for name, tt := range map[string]struct {
		sets []uint64
		want string
	}{
		"one order":        {[]uint64{0, 1, 3, 7}, "chain: part0 10, part1 20, part2 60"},
		"two of six":       {[]uint64{0, 1, 3, 5, 7}, "orders: part0 10, part1 30, part2 50"},
		"leaves out":       {[]uint64{0, 1, 3, 7, 4}, "chain: part0 10, part1 20, part2 60; left c4"},
		"steps of several": {[]uint64{0, 1, 7}, "chain: part0 10, part1 + part2 80"},
		"from something":   {[]uint64{1, 3, 7}, "chain: part1 20, part2 60"},
		"without a whole":  {[]uint64{0, 1, 4}, "chain: part0 10; left c4"},
		"nothing in common": {
			[]uint64{1, 2, 4}, "no controller has the parts of another and more",
		},
		"one alone": {[]uint64{3}, "no controller has the parts of another and more"},
		"twice":     {[]uint64{0, 1, 1}, "shapley: part0 10; left c1"},
	} {
		run := runOf(tt.sets, worth)
		p, _ := run.attributionPlan()
		got := p.why
		if got == "" {
			var parts []string
			for _, s := range run.Attributions()[0].Shares {
				parts = append(parts, s.Part+" "+s.RPS.Value.String())
			}
			got = p.form + ": " + strings.Join(parts, ", ")
			if len(p.left) > 0 {
				got += "; left " + strings.Join(p.left, ", ")
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
	// A bandit without a section is nothing: of 24 orders those remain in which the section comes first.
	var sets []uint64
	for s := range uint64(16) {
		if s&4 != 0 || s&8 == 0 {
			sets = append(sets, s)
		}
	}
	if p, _ := runOf(sets, worth).attributionPlan(); p.form != FormOrders || p.orders() != 12 || len(p.left) != 0 {
		t.Errorf("%s of %v orders, left %v; want %s of 12", p.form, p.orders(), p.left, FormOrders)
	}
	if _, ok := (&Run{Manifest: Manifest{Controllers: []ControllerInfo{{Label: "x"}}}}).attributionPlan(); ok {
		t.Error("a plan of controllers without parts")
	}
}

// TestAttributionInDoubt: a combination that was not measured, or not validly, is said, and nothing is made up for it.
func TestAttributionInDoubt(t *testing.T) {
	t.Parallel()
	run := runOf([]uint64{0, 1}, map[uint64]float64{0: 10, 1: 30})
	run.Rows[2].Valid, run.Rows[2].Warnings = false, []string{"little"}
	a := run.Attributions()[0]
	if a.Shares[0].RPS.Value.String() != "20" || !slices.Contains(a.Doubts, "c1 at 100, repeat 1, is not valid (little)") {
		t.Errorf("%+v", a)
	}
	run.Rows = run.Rows[:2]
	a = run.Attributions()[0]
	if a.Shares[0].RPS.Value.known || !slices.Contains(a.Doubts, "c1 has no row of class get at 100") {
		t.Errorf("%+v", a)
	}
}
