package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDriftOfALevel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	series := func(n int, level func(i int) float64, noise float64) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = level(i) + noise*rng.NormFloat64()
		}
		return s
	}
	flat := func(int) float64 { return 100 }
	for _, tc := range []struct {
		name   string
		series []float64
		ok     bool
		drifts bool
	}{
		{"flat", series(50, flat, 10), true, false},
		{"exactly flat", series(50, flat, 0), true, false},
		{"all zero", make([]float64, 50), true, false},
		{"rising", series(50, func(i int) float64 { return 100 + 4*float64(i) }, 10), true, true},
		{"falling", series(50, func(i int) float64 { return 300 - 4*float64(i) }, 10), true, true},
		{"a step without noise", series(50, func(i int) float64 { return float64(1 + i/25) }, 0), true, true},
		{"from nothing", series(50, func(i int) float64 { return float64(i / 25) }, 0), true, true},
		{"significant but small", series(5000, func(i int) float64 { return 100 + 5*float64(i/2500) }, 1), true, false},
		{"large but noise", series(8, flat, 100), true, false},
		{"too short", series(7, func(i int) float64 { return float64(i) }, 0), false, false},
		{"empty", nil, false, false},
	} {
		d, ok := TestDrift(tc.series)
		if ok != tc.ok || d.Drifts != tc.drifts {
			t.Errorf("%s: %+v, %v; want drift %v, %v", tc.name, d, ok, tc.drifts, tc.ok)
		}
	}
}

func TestLittle(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	for _, tc := range []struct {
		counted float64
		busy    time.Duration
		n       int64
		want    bool
	}{
		{0, 0, 0, true},
		{100, 1000 * time.Second, 10_000, true},
		{104, 1000 * time.Second, 10_000, true},
		{110, 1000 * time.Second, 10_000, false},
		{90, 1000 * time.Second, 10_000, false},
		{0.10, 500 * time.Millisecond, 5000, true},  // 50 µs a request: within what looking late explains
		{0.30, 500 * time.Millisecond, 5000, false}, // 500 µs a request are not
		{50, 0, 100, false},
	} {
		if got := Little(tc.counted, tc.busy, window, tc.n); got != tc.want {
			t.Errorf("Little(%v, %v, %d) = %v", tc.counted, tc.busy, tc.n, got)
		}
	}
	if !Little(5, time.Second, 0, 1) {
		t.Error("an empty window proves nothing")
	}
}

// delays draws how much longer n requests seem to be under way than they are: within the bounds that LittleTolerance assumes, and as uneven as these allow.
func delays(r *rand.Rand, n int) (sum time.Duration) {
	for range n {
		if r.Float64() < float64(littlePer)/float64(littleStall) {
			sum += littleStall
		}
	}
	return sum
}

// TestLittleOfFew: a handful of requests of which one was noticed late are no contradiction, however few there are, and no more often than stated.
func TestLittleOfFew(t *testing.T) {
	t.Parallel()
	const window, trials = 10 * time.Second, 3000
	r := rand.New(rand.NewPCG(3, 5))
	for _, n := range []int{1, 2, 5, 20, 100, 1000} {
		alarms := 0
		for range trials {
			busy := time.Duration(n) * 500 * time.Microsecond
			if !Little(float64(busy+delays(r, n))/float64(window), busy, window, int64(n)) {
				alarms++
			}
		}
		if alarms > 1 { // 0.3 are to be expected at most
			t.Errorf("%d requests: %d of %d tests are false alarms, and one in 10 000 is allowed", n, alarms, trials)
		}
	}
}

// TestLittleStillCatches has what the law is held for, at few requests and at many: a request that is counted twice or never, stamps of another unit or
// of a clock that is wrong.
func TestLittleStillCatches(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	for _, n := range []int64{3, 5, 20, 100, 1000, 100_000, 10_000_000} {
		busy := time.Duration(n) * time.Millisecond
		level := float64(busy) / float64(window)
		if !Little(level, busy, window, n) {
			t.Errorf("%d requests: an alarm though both sides are equal", n)
		}
		wrong := map[string]float64{"times in units of 1000": 1000 * level, "nothing counted of requests of a second": level}
		if n <= 100 { // among thousands in flight one is no more than 5 %
			wrong["one never ended"] = level + 1
		}
		if n >= 1000 {
			wrong["all counted twice"] = 2 * level
		}
		for what, counted := range wrong {
			stamps := busy
			if counted == level {
				counted, stamps = 0, 1000*busy
			}
			if Little(counted, stamps, window, n) {
				t.Errorf("%d requests: no alarm: %s", n, what)
			}
		}
	}
}

func TestMedianInterval(t *testing.T) {
	t.Parallel()
	count := func(n int) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = float64(n - i) // n … 1: unsorted
		}
		return s
	}
	// From tables of the sign test: ranks k and n+1−k and the confidence 1 − 2·P(Binomial(n, ½) < k).
	for _, tc := range []struct {
		n    int
		want Interval
	}{
		{1, Interval{Median: 1, Low: 1, High: 1, Confidence: 0}},
		{2, Interval{Median: 1.5, Low: 1, High: 2, Confidence: 0.5}},
		{5, Interval{Median: 3, Low: 1, High: 5, Confidence: 0.9375}},
		{6, Interval{Median: 3.5, Low: 1, High: 6, Confidence: 0.96875, Enough: true}},
		{9, Interval{Median: 5, Low: 2, High: 8, Confidence: 1 - 20.0/512, Enough: true}},
		{20, Interval{Median: 10.5, Low: 6, High: 15, Confidence: 1 - 2*21700.0/1048576, Enough: true}},
	} {
		got := MedianInterval(count(tc.n), 0.95)
		if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); diff != "" {
			t.Errorf("n=%d: %s", tc.n, diff)
		}
	}
	values := []float64{3, 1, 2}
	MedianInterval(values, 0.95)
	if diff := cmp.Diff([]float64{3, 1, 2}, values); diff != "" {
		t.Errorf("the caller's values were changed: %s", diff)
	}
}

// TestMedianIntervalCovers counts how often the interval holds the true median.
func TestMedianIntervalCovers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	const rounds, n = 4000, 9
	covered := 0
	var confidence float64
	for range rounds {
		values := make([]float64, n)
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		iv := MedianInterval(values, 0.95)
		confidence = iv.Confidence
		if iv.Low <= math.Ln2 && math.Ln2 <= iv.High {
			covered++
		}
	}
	if sigma := math.Sqrt(rounds * confidence * (1 - confidence)); math.Abs(float64(covered)-rounds*confidence) > 5*sigma {
		t.Errorf("covered %d of %d, confidence %v", covered, rounds, confidence)
	}
}

func TestRepeatsFor(t *testing.T) {
	t.Parallel()
	for confidence, want := range map[float64]int{0.5: 2, 0.9: 5, 0.95: 6, 0.99: 8} {
		if got := RepeatsFor(confidence); got != want {
			t.Errorf("RepeatsFor(%v) = %d, want %d", confidence, got, want)
		}
	}
}
