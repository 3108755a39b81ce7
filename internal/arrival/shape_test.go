package arrival

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/internal/dist"
)

func mustMake(t *testing.T, c Config) Process {
	t.Helper()
	p, err := Make(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shapes are the shapes tried below, with the factor at a time since the end of the warm-up.
var shapes = map[string]func(t float64) float64{
	"constant":               func(float64) float64 { return 1 },
	"steps:0.5@1s,2@1s,1@1s": func(t float64) float64 { return []float64{0.5, 2, 1}[min(int(t), 2)] },
	"steps:1@1s,0@1s,1@1s":   func(t float64) float64 { return []float64{1, 0, 1}[min(int(t), 2)] },
	"ramp:0..2@3s":           func(t float64) float64 { return min(t/3, 1) * 2 },
	"ramp:1.5..0.5@2s":       func(t float64) float64 { return 1.5 - min(t/2, 1) },
	"ramp:1..1.0000001@2s":   func(float64) float64 { return 1 },
	"sine:0.5@1s":            func(t float64) float64 { return 1 + 0.5*math.Sin(2*math.Pi*t) },
	"sine:1@300ms":           func(t float64) float64 { return 1 + math.Sin(2*math.Pi*t/0.3) },
	"shock:1.4@2s+1s":        func(t float64) float64 { return map[bool]float64{true: 1.4, false: 1}[t >= 2 && t < 3] },
}

// area integrates by the trapezoidal rule, which is as far from the closed forms as can be.
func area(f func(float64) float64, from, to float64) float64 {
	const steps = 100_000
	sum, width := 0.0, (to-from)/steps
	for i := range steps {
		sum += f(from + (float64(i)+0.5)*width)
	}
	return sum * width
}

// TestShapesMakeTheirArea: however the rate changes, the arrivals of every span are as many as the area under the rate says.
func TestShapesMakeTheirArea(t *testing.T) {
	t.Parallel()
	const rate = 2000
	const warmUp = 500 * time.Millisecond
	for text, factor := range shapes {
		f := func(t float64) float64 { return factor(max(t-warmUp.Seconds(), 0)) }
		for _, kind := range []string{KindConstant, KindPoisson, KindPoissonExact} {
			p := mustMake(t, Config{Arrivals: kind, Shape: text, Rate: rate, Start: 7, WarmUp: warmUp, Window: 4 * time.Second})
			all := instants(p, 1, clock.Instant(4500*time.Millisecond)+7)
			if !slices.IsSorted(all) {
				t.Errorf("%s, %s: instants fall", kind, text)
			}
			for from := 0.0; from < 4.5; from += 0.5 {
				want := rate * area(f, from, from+0.5)
				first, _ := slices.BinarySearch(all, 7+clock.Instant(from*1e9))
				past, _ := slices.BinarySearch(all, 7+clock.Instant((from+0.5)*1e9))
				got, limit := float64(past-first), 1.01
				if kind != KindConstant {
					limit = 5*math.Sqrt(want) + 1
				}
				if math.Abs(got-want) > limit {
					t.Errorf("%s, %s: %v arrivals from %v s on, want %v", kind, text, got, from, want)
				}
			}
		}
	}
}

// TestShockAtOnce: before the window there is no shock.
func TestShockAtOnce(t *testing.T) {
	t.Parallel()
	p := mustMake(t, Config{Arrivals: KindConstant, Shape: "shock:3@0s+1s", Rate: 100, WarmUp: time.Second})
	all := instants(p, 1, clock.Instant(3*time.Second))
	warm, _ := slices.BinarySearch(all, clock.Instant(time.Second))
	shock, _ := slices.BinarySearch(all, clock.Instant(2*time.Second))
	if warm != 100 || shock-warm != 300 || len(all)-shock != 100 {
		t.Errorf("%d, %d and %d arrivals, want 100, 300 and 100", warm, shock-warm, len(all)-shock)
	}
}

// TestRampMakesItsArea holds a ramp of any slope to ±1.
func TestRampMakesItsArea(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.Float64Range(0, 3).Draw(t, "from"), rapid.Float64Range(0, 3).Draw(t, "to")
		span := rapid.IntRange(1, 3000).Draw(t, "ms")
		rate := rapid.Float64Range(1, 20_000).Draw(t, "rate")
		p, err := Make(Config{Arrivals: KindConstant, Shape: fmt.Sprintf("ramp:%v..%v@%dms", from, to, span), Rate: rate})
		if err != nil {
			t.Skip(err) // a factor that is written with an exponent
		}
		got := float64(len(instants(p, 1, clock.Instant(span)*1e6)))
		if want := (from + to) / 2 * float64(span) / 1000 * rate; math.Abs(got-want) > 1.01 {
			t.Fatalf("%v arrivals, the area is %v", got, want)
		}
	})
}

// TestExactCount: whatever the seed, warm-up and window hold as many as the rate says, and in the window they lie as those of a Poisson
// process do: as uniform numbers.
func TestExactCount(t *testing.T) {
	t.Parallel()
	const warmUp, window = 300 * time.Millisecond, 2 * time.Second
	for seed := range uint64(20) {
		for _, rate := range []float64{0.1, 1, 10, 333.3, 5000} {
			all := instants(mustMake(t, Config{Arrivals: KindPoissonExact, Rate: rate, WarmUp: warmUp, Window: window}), seed, clock.Never)
			past, _ := slices.BinarySearch(all, clock.Instant(warmUp))
			if got, want := past, int(math.Round(rate*0.3)); got != want {
				t.Errorf("%v/s: %d arrivals in the warm-up, want %d", rate, got, want)
			}
			inWindow := all[past:]
			if got, want := len(inWindow), int(math.Round(rate*2)); got != want || got > 0 && inWindow[got-1] >= clock.Instant(warmUp+window) {
				t.Errorf("%v/s: %d arrivals in the window, want %d", rate, got, want)
			}
			if rate < 1000 {
				continue
			}
			worst, n := 0.0, float64(len(inWindow))
			for i, at := range inWindow {
				p := at.Sub(clock.Instant(warmUp)).Seconds() / 2
				worst = max(worst, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
			}
			if bound := math.Sqrt(math.Log(2/1e-6) / (2 * n)); worst > bound {
				t.Errorf("%v/s, seed %d: distance %v from uniform, bound %v", rate, seed, worst, bound)
			}
		}
	}
}

// dispersion returns the variance of the counts in equal spans over their mean.
func dispersion(all []clock.Instant, span, whole time.Duration) (index float64, spans int) {
	counts := make([]float64, whole/span)
	for _, at := range all {
		counts[time.Duration(at)/span]++
	}
	mean, variance := float64(len(all))/float64(len(counts)), 0.0
	for _, c := range counts {
		variance += (c - mean) * (c - mean) / float64(len(counts)-1)
	}
	return variance / mean, len(counts)
}

// TestBurstyDispersion holds the counts of the bursty process against the formula for a Markov-modulated Poisson process of two states:
//
//	I(t) = 1 + 2·(λ1−λ2)²·π1·π2 / (λ·σ) · (1 − (1−e^(−σt))/(σt))
//
// with rates λ1 and λ2, shares of time π1 and π2, mean rate λ, and σ the sum of the rates at which the states are left.
func TestBurstyDispersion(t *testing.T) {
	t.Parallel()
	const rate, whole = 5000.0, 400 * time.Second
	for _, tc := range []struct {
		text               string
		burst, share, mean float64
	}{
		{"bursty", 5, 0.1, 0.010},
		{"bursty:burst=2,share=0.5,mean=3ms", 2, 0.5, 0.003},
		{"bursty:burst=8,mean=50ms", 8, 0.1, 0.050},
	} {
		all := instants(mustMake(t, Config{Arrivals: tc.text, Rate: rate}), 11, clock.Instant(whole))
		high, low := tc.burst*rate, (1-tc.share*tc.burst)/(1-tc.share)*rate
		sigma := 1/tc.mean + tc.share/(1-tc.share)/tc.mean
		for _, span := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
			x := sigma * span.Seconds()
			want := 1 + 2*(high-low)*(high-low)*tc.share*(1-tc.share)/(rate*sigma)*(1-(1-math.Exp(-x))/x)
			got, _ := dispersion(all, span, whole)
			if math.Abs(got/want-1) > 0.12 {
				t.Errorf("%s: dispersion at %v is %v, want %v", tc.text, span, got, want)
			}
		}
		// The count varies as much as its dispersion over long spans says.
		limit := 5 * math.Sqrt(rate*whole.Seconds()*(1+2*(high-low)*(high-low)*tc.share*(1-tc.share)/(rate*sigma)))
		if n, want := float64(len(all)), rate*whole.Seconds(); math.Abs(n-want) > limit {
			t.Errorf("%s: %v arrivals, want %v ± %v", tc.text, n, want, limit)
		}
	}
}

func TestConstantDoesNotDisperse(t *testing.T) {
	t.Parallel()
	all := instants(NewConstant(5000, 0), 1, clock.Instant(10*time.Second))
	for _, span := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		if got, _ := dispersion(all, span, 10*time.Second); got > 0.001 {
			t.Errorf("dispersion at %v is %v", span, got)
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "arrivals.txt")
	if err := os.WriteFile(path, []byte("# seconds, or durations\n1\n1.5\n\n1500ms\n3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// As it is: 1, 1.5, 1.5 and 3 s from the start.
	p := mustMake(t, Config{Arrivals: "replay:" + path, Rate: 5, Start: 10})
	want := []clock.Instant{1_000_000_010, 1_500_000_010, 1_500_000_010, 3_000_000_010}
	if got := instants(p, 1, clock.Never); !slices.Equal(got, want) {
		t.Errorf("replayed %v", got)
	}
	if p.Next(nil) != clock.Never {
		t.Error("a replay goes on for ever")
	}
	// Four arrivals in 2 s and a mean gap: at 3 a second, a round takes 4/3 s and the gaps are half as long.
	p = mustMake(t, Config{Arrivals: "trace:" + path, Rate: 3})
	got := instants(p, 1, clock.Instant(3*time.Second))
	for i, seconds := range []float64{0, 0.25, 0.25, 1, 4.0 / 3, 4.0/3 + 0.25, 4.0/3 + 0.25, 4.0/3 + 1, 8.0 / 3, 8.0/3 + 0.25} {
		if i >= len(got) || math.Abs(got[i].Seconds()-seconds) > 1e-6 {
			t.Fatalf("trace at 3/s: %v, arrival %d is at %v s", got, i, seconds)
		}
	}
	for text, want := range map[string]string{
		"": "holds no arrivals", "1\n0.5\n": "line 2", "x\n": "line 1", "-1": "not negative", "1\n1\n": "different instants", "1": "two arrivals",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Make(Config{Arrivals: "trace:" + path, Rate: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %q: %v, want %q", text, err, want)
		}
	}
	if _, err := Make(Config{Arrivals: "replay:" + path, Shape: "ramp:1..2@1s", Rate: 1}); err == nil {
		t.Error("a replay took a shape")
	}
}

func TestEven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{KindConstant: true, KindPoisson: false, KindBursty: false} {
		for _, shape := range []string{"", "sine:0.5@1s"} {
			if got := Even(mustMake(t, Config{Arrivals: text, Shape: shape, Rate: 1})); got != want {
				t.Errorf("%s %s: %v", text, shape, got)
			}
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	for _, text := range []string{KindPoisson, KindConstant, KindBursty, KindPoissonExact} {
		for _, shape := range []string{"", "sine:0.5@1s", "ramp:0.5..2@1s"} {
			p := mustMake(t, Config{Arrivals: text, Shape: shape, Rate: 1e6, Window: time.Second})
			rng := dist.Stream(1, "allocs", 0)
			if n := testing.AllocsPerRun(1000, func() { p.Next(rng) }); n != 0 {
				t.Errorf("%s %s: %v allocations", text, shape, n)
			}
		}
	}
}
