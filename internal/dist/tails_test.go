package dist

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestTails holds the heavy-tailed distributions against their own formulas.
func TestTails(t *testing.T) {
	t.Parallel()
	const n = 200_000
	for _, tc := range []struct {
		text string
		unit Unit
		mean float64
		cdf  func(float64) float64
	}{
		{"gpareto:0B,214.476B,0.348238", Bytes, 214.476 / (1 - 0.348238), func(x float64) float64 {
			return 1 - math.Pow(1+0.348238*x/214.476, -1/0.348238)
		}},
		{"gpareto:10us,16us,0", Nanoseconds, 26_000, func(x float64) float64 { return 1 - math.Exp(-(x-10_000)/16_000) }},
		{"gev:30.7984B,8.20449B,0.078688", Bytes, 30.7984 + 8.20449*(math.Gamma(1-0.078688)-1)/0.078688, func(x float64) float64 {
			return math.Exp(-math.Pow(1+0.078688*(x-30.7984)/8.20449, -1/0.078688))
		}},
		{"gev:100,2,0", Number, 100 + 2*0.57721566490153286, func(x float64) float64 { return math.Exp(-math.Exp(-(x - 100) / 2)) }},
		{"mix:0.25@uniform:0..1;0.75@exp:4", Number, 3.125, func(x float64) float64 {
			return 0.25*min(x, 1) + 0.75*(1-math.Exp(-x/4))
		}},
	} {
		d, err := Parse(tc.text, tc.unit)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(d.Mean()/tc.mean-1) > 1e-9 {
			t.Errorf("%s: mean %v, want %v", tc.text, d.Mean(), tc.mean)
		}
		if got := fmt.Sprint(d); got != tc.text {
			t.Errorf("%s is written %s", tc.text, got)
		}
		rng := Stream(2, tc.text, 0)
		values, sum := make([]float64, n), 0.0
		for i := range values {
			values[i] = d.Sample(rng)
			sum += values[i]
		}
		if math.Abs(sum/n/tc.mean-1) > 0.03 {
			t.Errorf("%s: the mean of the samples is %v, want %v", tc.text, sum/n, tc.mean)
		}
		if got := ksDistance(values, tc.cdf); got > ksBound(n) {
			t.Errorf("%s: Kolmogorov-Smirnov distance %v, bound %v", tc.text, got, ksBound(n))
		}
	}
}

func TestTailsRefuse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"gpareto:1us,1us":        "LOCATION,SCALE,SHAPE",
		"gpareto:1us,0us,0.1":    "above 0",
		"gpareto:1us,1us,1":      "below 1",
		"gev:1us,1us,x":          "a number",
		"gev:1us,1,0.1":          "no unit",
		"mix:0.5@1us;0.4@2us":    "must sum to 1",
		"mix:0.5@1us;0.5@gauss:": "unknown form",
		"mix:1us":                "PROBABILITY@DISTRIBUTION",
		"mix:-1@1us;2@1us":       "negative",
	} {
		if _, err := Parse(text, Nanoseconds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %q", text, err, want)
		}
	}
}

// TestRanks compares how often ranks are drawn with how often they should be, by χ².
func TestRanks(t *testing.T) {
	t.Parallel()
	const n, samples = 1000, 200_000
	for text, weight := range map[string]func(k int) float64{
		"uniform":         func(int) float64 { return 1.0 / n },
		"":                func(int) float64 { return 1.0 / n },
		"hotspot:0.9@0.1": func(k int) float64 { return map[bool]float64{true: 0.9 / 100, false: 0.1 / 900}[k < 100] },
		"hotspot:0.5@1":   func(int) float64 { return 1.0 / n },
		"sequential":      func(int) float64 { return 1.0 / n },
	} {
		r, err := ParseRanks(text, n)
		if err != nil {
			t.Fatal(err)
		}
		rng, counts := Stream(3, text, 0), make([]float64, n)
		for range samples {
			counts[r.Sample(rng)]++ // out of range panics
		}
		chi := 0.0
		for k, got := range counts {
			want := samples * weight(k)
			chi += (got - want) * (got - want) / want
		}
		if chi > chiSquareBound(n-1) {
			t.Errorf("%s: χ² %v, bound %v", text, chi, chiSquareBound(n-1))
		}
	}
	s, _ := ParseRanks("sequential", 3)
	for i := range uint64(7) {
		if got := s.Sample(nil); got != i%3 {
			t.Errorf("draw %d is rank %d", i, got)
		}
	}
	for _, bad := range []string{"zipf", "zipf:x", "zipf:-1", "hotspot:0.9", "hotspot:2@0.1", "hotspot:0.5@0", "sequential:1", "normal"} {
		if _, err := ParseRanks(bad, 10); err == nil {
			t.Errorf("popularity %q was accepted", bad)
		}
	}
}

// TestRanksOfABillionKeys takes no time when set-up does not depend on the number of keys, and for ever when it does.
func TestRanksOfABillionKeys(t *testing.T) {
	t.Parallel()
	const n = 1_000_000_000
	for _, text := range []string{"uniform", "zipf:0.99", "zipf:1", "hotspot:0.9@0.1", "sequential"} {
		r, err := ParseRanks(text, n)
		if err != nil {
			t.Fatal(err)
		}
		rng := Stream(4, text, 0)
		for range 1000 {
			if k := r.Sample(rng); k >= n {
				t.Fatalf("%s: rank %d of %d", text, k, n)
			}
		}
	}
}

func TestTailsAllocateNothing(t *testing.T) {
	rng := Stream(1, "allocs", 0)
	d, err := Parse("mix:0.5@gpareto:0,1,0.3;0.5@gev:1,1,0.1", Number)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ParseRanks("hotspot:0.9@0.1", 100)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { d.Sample(rng); h.Sample(rng) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
