package arrival

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/internal/dist"
)

// instants returns the instants of p before end.
func instants(p Process, seed uint64, end clock.Instant) (all []clock.Instant) {
	rng := dist.Stream(seed, "arrivals", 0)
	for at := p.Next(rng); at < end; at = p.Next(rng) {
		all = append(all, at)
	}
	return all
}

func TestConstantIsExact(t *testing.T) {
	t.Parallel()
	const start = clock.Instant(12345)
	for _, tc := range []struct {
		rate float64
		span time.Duration
		want int
	}{
		{0.1, 10 * time.Second, 1},
		{1, 5 * time.Second, 5},
		{3, time.Second, 3},
		{10, 100 * time.Millisecond, 1},
		{51, 10 * time.Second, 510}, // a generator with 20 ms quanta makes 500 of it
		{75, 10 * time.Second, 750},
		{300_000, time.Second, 300_000}, // an interval cut to whole ns makes 300 030 of it
		{700_000, time.Second, 700_000},
		{333_333.5, 2 * time.Second, 666_667},
		{0.5, 3 * time.Second, 2}, // due at 0 and 2 s
		{1e9, time.Millisecond, 1_000_000},
	} {
		p, err := New(KindConstant, tc.rate, start)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(instants(p, 1, start.Add(tc.span))); got != tc.want {
			t.Errorf("%v/s for %v: %d arrivals, want %d", tc.rate, tc.span, got, tc.want)
		}
	}
}

func TestConstantHasNoBursts(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{70, 1999, 12_345, 98_765} {
		all := instants(NewConstant(rate, 0), 1, clock.Instant(3*time.Second))
		// However a span of 100 ms is laid over the sequence, it holds rate/10 arrivals, rounded down or up.
		const span = 100 * time.Millisecond
		low, high := int(math.Floor(rate/10)), int(math.Ceil(rate/10))
		for from := clock.Instant(0); from.Add(span) <= clock.Instant(2900*time.Millisecond); from = from.Add(1_234_567) {
			first, _ := slices.BinarySearch(all, from)
			past, _ := slices.BinarySearch(all, from.Add(span))
			if n := past - first; n < low || n > high {
				t.Fatalf("%v/s: %d arrivals in the 100 ms from %v, want %d or %d", rate, n, from, low, high)
			}
		}
		gap := time.Duration(1e9 / rate)
		for i := 1; i < len(all); i++ {
			if got := all[i].Sub(all[i-1]); got < gap || got > gap+1 {
				t.Fatalf("%v/s: gap %d is %v, want %v or 1 ns more", rate, i, got, gap)
			}
		}
	}
}

// TestConstantAfterAYear is about drift and overflow: the instants are computed, not summed up.
func TestConstantAfterAYear(t *testing.T) {
	t.Parallel()
	c := NewConstant(3, 0)
	c.k = 3 * 86400 * 365
	if got, want := c.Next(nil), clock.Instant(365*24*time.Hour); got != want {
		t.Errorf("the first arrival after a year is due at %v, want %v", got, want)
	}
	c.k = math.MaxUint64
	if got := c.Next(nil); got != clock.Never {
		t.Errorf("beyond the end of time: %v, want never", got)
	}
}

func TestPoissonWithinFourSigma(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rate float64
		span time.Duration
	}{{1, 400 * time.Second}, {100, 10 * time.Second}, {20_000, 5 * time.Second}, {1e6, time.Second}} {
		for seed := range uint64(5) {
			p, err := New(KindPoisson, tc.rate, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := float64(len(instants(p, seed, clock.Instant(tc.span))))
			want := tc.rate * tc.span.Seconds()
			if math.Abs(got-want) > 4*math.Sqrt(want) {
				t.Errorf("%v/s for %v, seed %d: %v arrivals, want %v ± %v", tc.rate, tc.span, seed, got, want, 4*math.Sqrt(want))
			}
		}
	}
}

// TestPoissonGaps holds the gaps against the exponential distribution: Kolmogorov-Smirnov, exceeded once in a million seeds.
func TestPoissonGaps(t *testing.T) {
	t.Parallel()
	const rate = 1000
	all := instants(NewPoisson(rate, 0), 3, clock.Instant(100*time.Second))
	n := float64(len(all))
	gaps, before := make([]float64, len(all)), clock.Instant(0)
	for i, at := range all {
		gaps[i] = at.Sub(before).Seconds()
		before = at
	}
	slices.Sort(gaps)
	worst := 0.0
	for i, g := range gaps {
		p := 1 - math.Exp(-rate*g)
		worst = max(worst, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
	}
	if bound := math.Sqrt(math.Log(2/1e-6) / (2 * n)); worst > bound {
		t.Errorf("distance %v over %v gaps, bound %v", worst, n, bound)
	}
}

// TestPoissonDispersion: counts of a Poisson process in equal spans have a variance as large as their mean.
func TestPoissonDispersion(t *testing.T) {
	t.Parallel()
	const rate, seconds = 5000, 20
	all := instants(NewPoisson(rate, 0), 4, clock.Instant(seconds*time.Second))
	for _, span := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		counts := make([]float64, seconds*time.Second/span)
		for _, at := range all {
			counts[time.Duration(at)/span]++
		}
		mean := float64(len(all)) / float64(len(counts))
		variance := 0.0
		for _, c := range counts {
			variance += (c - mean) * (c - mean) / float64(len(counts)-1)
		}
		// The index of dispersion of n counts has a standard deviation of √(2/n).
		if limit := 5 * math.Sqrt(2/float64(len(counts))); math.Abs(variance/mean-1) > limit {
			t.Errorf("dispersion at %v is %v, want 1 ± %v", span, variance/mean, limit)
		}
	}
}

func TestNeverBackwards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(minRate, maxRate).Draw(t, "rate")
		kind := rapid.SampledFrom(Kinds()).Draw(t, "kind")
		if kind == KindBursty {
			rate = max(rate, 1)
		}
		p, err := New(kind, rate, 5)
		if err != nil {
			t.Fatal(err)
		}
		rng := dist.Stream(rapid.Uint64().Draw(t, "seed"), "arrivals", 0)
		last := clock.Instant(5)
		for range 50 {
			at := p.Next(rng)
			if at < last {
				t.Fatalf("%v after %v", at, last)
			}
			last = at
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), 2e9, 1e-9} {
		if _, err := New(KindPoisson, rate, 0); err == nil {
			t.Errorf("rate %v was accepted", rate)
		}
	}
	for text, want := range map[string]string{
		"normal": "unknown", "poisson:1": "unknown", "trace": "unknown", "bursty:burst=1": "above the mean", "bursty:burst=20,share=0.1": "at most 1",
		"bursty:share=x": "share=x", "bursty:high=1": "write burst=", "bursty:mean=0s": "longer", "trace:/nonexistent/spillway": "no such file",
		"poisson-exact": "needs a window",
	} {
		if _, err := New(text, 1, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("arrivals %q: error %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{
		"flat", "ramp:1..2", "ramp:1@1s", "ramp:1..x@1s", "ramp:1..2@0s", "steps:1", "steps:-1@1s", "sine:2@1s", "sine:0.5", "shock:2@1s", "square:1@1s",
	} {
		if _, err := Make(Config{Arrivals: KindPoisson, Rate: 1, Shape: text}); err == nil {
			t.Errorf("shape %q was accepted", text)
		}
	}
}
