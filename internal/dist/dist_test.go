package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ksBound is the Kolmogorov-Smirnov distance that samples of the right distribution exceed once in a million times:
// sqrt(ln(2/α)/2n). Seeds are fixed, so the tests pass always or never.
func ksBound(n int) float64 { return math.Sqrt(math.Log(2/1e-6) / (2 * float64(n))) }

// ksDistance returns the largest distance between the empirical distribution of values and cdf.
func ksDistance(values []float64, cdf func(float64) float64) float64 {
	slices.Sort(values)
	n, worst := float64(len(values)), 0.0
	for i, v := range values {
		p := cdf(v)
		worst = max(worst, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
	}
	return worst
}

func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

func TestContinuousShapes(t *testing.T) {
	t.Parallel()
	const n = 100_000
	z90 := math.Sqrt2 * math.Erfinv(0.8)
	for _, tc := range []struct {
		text string
		unit Unit
		mean float64
		cdf  func(float64) float64
	}{
		{"exp:72us", Nanoseconds, 72_000, func(x float64) float64 { return 1 - math.Exp(-x/72_000) }},
		{"uniform:5B..1kB", Bytes, 502.5, func(x float64) float64 { return (x - 5) / 995 }},
		{"uniform:0.5..0.5", Number, 0.5, nil},
		{"lognormal:p50=10us,p90=50us", Nanoseconds, 10_000 * math.Exp(math.Pow(math.Log(5)/z90, 2)/2),
			func(x float64) float64 { return normalCDF(math.Log(x/10_000) / (math.Log(5) / z90)) }},
		{"lognormal:p90=50us,p999=1ms", Nanoseconds, -1, nil},
	} {
		d, err := Parse(tc.text, tc.unit)
		if err != nil {
			t.Fatal(err)
		}
		if tc.mean >= 0 && math.Abs(d.Mean()/tc.mean-1) > 1e-9 {
			t.Errorf("%s: mean %v, want %v", tc.text, d.Mean(), tc.mean)
		}
		if got := d.(fmt.Stringer).String(); got != tc.text {
			t.Errorf("%s is written %s", tc.text, got)
		}
		if tc.cdf == nil {
			continue
		}
		rng := Stream(1, tc.text, 0)
		values := make([]float64, n)
		for i := range values {
			values[i] = d.Sample(rng)
		}
		if got := ksDistance(values, tc.cdf); got > ksBound(n) {
			t.Errorf("%s: Kolmogorov-Smirnov distance %v, bound %v", tc.text, got, ksBound(n))
		}
	}
}

func TestLogNormalGoesThroughItsQuantiles(t *testing.T) {
	t.Parallel()
	d, err := Parse("lognormal:p90=50us,p999=1ms", Nanoseconds)
	if err != nil {
		t.Fatal(err)
	}
	const n = 200_000
	rng := Stream(1, "quantiles", 0)
	below := [2]float64{}
	for range n {
		v := d.Sample(rng)
		for i, limit := range []float64{50e3, 1e6} {
			if v <= limit {
				below[i]++
			}
		}
	}
	for i, p := range []float64{0.9, 0.999} {
		if sigma := math.Sqrt(n * p * (1 - p)); math.Abs(below[i]-n*p) > 5*sigma {
			t.Errorf("%v of %v samples lie below the %v quantile", below[i], n, p)
		}
	}
}

func TestBimodal(t *testing.T) {
	t.Parallel()
	d, err := Parse("bimodal:0.9@10us,0.1@100us", Nanoseconds)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Mean(); math.Abs(got-19_000) > 1e-9 {
		t.Errorf("mean %v, want 19000", got)
	}
	if got := d.(fmt.Stringer).String(); got != "bimodal:0.9@10us,0.1@100us" {
		t.Errorf("written %s", got)
	}
	const n = 100_000
	rng, short := Stream(1, "bimodal", 0), 0.0
	for range n {
		switch v := d.Sample(rng); v {
		case 10_000:
			short++
		case 100_000:
		default:
			t.Fatalf("drew %v", v)
		}
	}
	if sigma := math.Sqrt(n * 0.9 * 0.1); math.Abs(short-0.9*n) > 5*sigma {
		t.Errorf("%v of %d are short", short, n)
	}
}

func TestEmpirical(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "times.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# measured\n10us\n\n30us\n20us\n")
	d, err := Parse("empirical:"+path, Nanoseconds)
	if err != nil {
		t.Fatal(err)
	}
	if d.Mean() != 20_000 {
		t.Errorf("mean %v, want 20000", d.Mean())
	}
	rng, seen := Stream(1, "empirical", 0), map[float64]int{}
	for range 3000 {
		seen[d.Sample(rng)]++
	}
	if len(seen) != 3 || min(seen[10_000], seen[20_000], seen[30_000]) < 850 {
		t.Errorf("drew %v", seen)
	}
	for text, want := range map[string]string{"": "holds no values", "10us\nten\n": "line 2"} {
		write(text)
		if _, err := Parse("empirical:"+path, Nanoseconds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %q: %v, want %q", text, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"72":                                "no unit",
		"-1us":                              "must not be negative",
		"gauss:1us":                         "unknown form",
		"exp:":                              "duration",
		"uniform:1us":                       "LOW..HIGH",
		"uniform:2us..1us":                  "above",
		"bimodal:0.9@10us":                  "sum to 0.9",
		"bimodal:0.9@10us,0.2@1us":          "must sum to 1",
		"bimodal:10us,1us":                  "PROBABILITY@VALUE",
		"lognormal:p50=1us":                 "two quantiles",
		"lognormal:p90=1us,p50=2us":         "must rise",
		"lognormal:p50=0us,p90=2us":         "positive",
		"lognormal:x50=1us,p90=2us":         "quantile as p50",
		"empirical:/nonexistent/spillway.x": "no such file",
	} {
		_, err := Parse(text, Nanoseconds)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("Parse(%q): error %v, want one that names the text and %q", text, err, want)
		}
	}
}

// chiSquareBound is the value that a χ² variable of k degrees of freedom exceeds about once in a million times (Wilson and Hilferty).
func chiSquareBound(k int) float64 {
	const z = 4.75
	f := 2 / (9 * float64(k))
	return float64(k) * math.Pow(1-f+z*math.Sqrt(f), 3)
}

func TestZipfFrequencies(t *testing.T) {
	t.Parallel()
	const samples = 200_000
	for _, n := range []uint64{1, 2, 3, 10, 1000} {
		for _, s := range []float64{0.01, 0.5, 0.99, 1, 1 + 1e-12, 1.5, 3} {
			z, err := NewZipf(n, s)
			if err != nil {
				t.Fatal(err)
			}
			weight, total := make([]float64, n), 0.0
			for k := range n {
				weight[k] = math.Pow(float64(k+1), -s)
				total += weight[k]
			}
			rng, counts := Stream(7, "zipf", n), make([]float64, n)
			for range samples {
				counts[z.Sample(rng)]++ // out of range panics
			}
			// Ranks that are expected fewer than ten times are pooled.
			chi, cells := 0.0, 0
			got, want := 0.0, 0.0
			for k := range n {
				got, want = got+counts[k], want+samples*weight[k]/total
				if want >= 10 {
					chi += (got - want) * (got - want) / want
					cells++
					got, want = 0, 0
				}
			}
			if cells > 1 && chi > chiSquareBound(cells-1) {
				t.Errorf("n=%d s=%v: χ² %v over %d cells, bound %v", n, s, chi, cells, chiSquareBound(cells-1))
			}
		}
	}
}

// TestZipfOverManyKeys takes no time when set-up does not depend on the number of keys, and for ever when it does.
func TestZipfOverManyKeys(t *testing.T) {
	t.Parallel()
	const n = 1_000_000_000_000
	z, err := NewZipf(n, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	rng, first, beyond := Stream(1, "zipf", 0), 0.0, 0
	const samples = 100_000
	for range samples {
		k := z.Sample(rng)
		if k >= n {
			t.Fatalf("rank %d of %d", k, uint64(n))
		}
		if k == 0 {
			first++
		}
		if k > 1_000_000_000 {
			beyond++
		}
	}
	// The sum of k^-0.99 to 10¹² is n^0.01/0.01 + ζ(0.99), with ζ(0.99) = −99.4228.
	p := 1 / (math.Pow(n, 0.01)/0.01 - 99.4228)
	if sigma := math.Sqrt(samples * p * (1 - p)); math.Abs(first-samples*p) > 5*sigma {
		t.Errorf("the first rank was drawn %v times, want %v ± %v", first, samples*p, 5*sigma)
	}
	if beyond < samples/10 {
		t.Errorf("only %d samples beyond rank 10⁹", beyond)
	}
	for _, bad := range []float64{0, -1, math.NaN(), 101} {
		if _, err := NewZipf(10, bad); err == nil {
			t.Errorf("exponent %v was accepted", bad)
		}
	}
	if _, err := NewZipf(0, 1); err == nil {
		t.Error("zero ranks were accepted")
	}
}

func TestStreamsAreApart(t *testing.T) {
	t.Parallel()
	seen := map[uint64]string{}
	for _, seed := range []uint64{0, 1, 2} {
		for _, purpose := range []string{"", "a", "b", "arrivals"} {
			for index := range uint64(3) {
				name := fmt.Sprint(seed, purpose, index)
				first := Stream(seed, purpose, index).Uint64()
				if other, found := seen[first]; found {
					t.Errorf("streams %s and %s begin alike", name, other)
				}
				seen[first] = name
				if again := Stream(seed, purpose, index).Uint64(); again != first {
					t.Errorf("stream %s is not repeatable", name)
				}
			}
		}
	}
}

// TestStreamIsPinned notices a change of the derivation: it would make every published seed mean something else.
func TestStreamIsPinned(t *testing.T) {
	t.Parallel()
	if got, want := Stream(1, "arrivals", 0).Uint64(), uint64(pinned); got != want {
		t.Errorf("first number %#x, want %#x", got, want)
	}
}

func TestSamplingAllocatesNothing(t *testing.T) {
	rng := rand.New(Source(1, "allocs", 0))
	z, err := NewZipf(1000, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	var shapes []Dist
	for _, text := range []string{"1us", "exp:1us", "uniform:1us..2us", "bimodal:0.5@1us,0.5@2us", "lognormal:p50=1us,p90=2us"} {
		d, err := Parse(text, Nanoseconds)
		if err != nil {
			t.Fatal(err)
		}
		shapes = append(shapes, d)
	}
	if n := testing.AllocsPerRun(100, func() {
		z.Sample(rng)
		for _, d := range shapes {
			d.Sample(rng)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
