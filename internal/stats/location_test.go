package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"spillway/internal/stats"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(math.Abs(want), 1e-3) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// Student's distribution with five degrees of freedom has a closed form (Abramowitz and Stegun 26.7.3), and its quantile is in every table; the p of
// ranks follow from counting: 2 of 2^6 signs, 2 of 924 choices of six of twelve.
func TestLocationsAreThoseOfTheBooks(t *testing.T) {
	t.Parallel()
	one := stats.OneSample([]float64{1, 2, 3, 4, 5, 6})
	near(t, "mean", one.Mean, 3.5)
	near(t, "standard error", one.StdErr, math.Sqrt(3.5/6))
	near(t, "exact p of six that point the same way", one.Exact, 2.0/64)
	angle := math.Atan(3.5 / math.Sqrt(3.5/6) / math.Sqrt(5))
	near(t, "Student's p", one.Student, 1-2/math.Pi*(angle+math.Sin(angle)*(math.Cos(angle)+2.0/3*math.Pow(math.Cos(angle), 3))))
	low, high, ok := one.Interval(0.95)
	near(t, "low", low, 1.5366859)
	near(t, "high", high, 5.4633141)
	if !ok {
		t.Error("no interval")
	}

	mixed := stats.OneSample([]float64{1, 2, 3, 4, 5, -6})
	// Of the ranks 1 to 6 the positive ones sum to 15 and the negative one to 6: 14 of 64 choices have a sum of 6 or less.
	near(t, "exact p of mixed signs", mixed.Exact, 2*14.0/64)

	two := stats.TwoSamples([]float64{1, 2, 3, 4, 5, 6}, []float64{11, 12, 13, 14, 15, 17})
	near(t, "exact p of samples apart", two.Exact, 2.0/924)
	near(t, "difference", two.Mean, 13.6666667-3.5)
	// Welch and Satterthwaite by hand: variances 3.5 and 4.6666667.
	near(t, "degrees of freedom", two.DF, math.Pow((3.5+14.0/3)/6, 2)/(math.Pow(3.5/6, 2)/5+math.Pow(14.0/18, 2)/5))
	near(t, "quantile of Student's distribution", stats.StudentQuantile(0.975, 5), 2.5705818)
}

func TestLocationsOfLittle(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]stats.Location{
		"nothing": stats.OneSample(nil), "one": stats.OneSample([]float64{3}), "zeros": stats.OneSample([]float64{0, 0, 0}),
		"no samples": stats.TwoSamples(nil, []float64{1}), "one each": stats.TwoSamples([]float64{1}, []float64{2}),
		"equal": stats.TwoSamples([]float64{2, 2, 2}, []float64{2, 2, 2}),
	} {
		if l.Student != 1 || l.Exact != 1 {
			t.Errorf("%s: p %v and %v", name, l.Student, l.Exact)
		}
		if math.IsNaN(l.Mean) || math.IsNaN(l.StdErr) {
			t.Errorf("%s: %+v", name, l)
		}
	}
	// A difference that is the same in every pair is no chance as far as its spread tells; the ranks know that there are only six.
	l := stats.OneSample([]float64{2, 2, 2, 2, 2, 2})
	if l.Student != 0 || l.Exact != 2.0/64 {
		t.Errorf("equal differences: %+v", l)
	}
}

// TestRanksOfManyAreNormal: beyond fifty values the approximation takes over without a jump.
func TestRanksOfManyAreNormal(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var a, b []float64
	for range 25 {
		a, b = append(a, r.NormFloat64()), append(b, r.NormFloat64()+0.5)
	}
	exact := stats.TwoSamples(a, b).Exact
	approximate := stats.TwoSamples(append(a, 0.1), b).Exact
	if math.Abs(exact-approximate) > 0.05 {
		t.Errorf("50 values %v, 51 values %v", exact, approximate)
	}
	var d []float64
	for range 50 {
		d = append(d, r.NormFloat64()+0.2)
	}
	exact, approximate = stats.OneSample(d).Exact, stats.OneSample(append(d, 0.05)).Exact
	if math.Abs(exact-approximate) > 0.05 {
		t.Errorf("50 differences %v, 51 differences %v", exact, approximate)
	}
}

// TestRankSumsOfTies counts by hand.
func TestRankSumsOfTies(t *testing.T) {
	t.Parallel()
	// Of {-2, 0, 2, 2, 5, 5} two are in the second sample: their doubled ranks sum to 9 of a mean of 14. Of the 15 choices {1,2}, {1,3}, {1,4} are as low, and
	// {5,6} is as high: 22.
	near(t, "p", stats.TwoSamples([]float64{2, 5, 5, 0}, []float64{-2, 2}).Exact, 4.0/15)
	// Without ties it is the same count: 2 of 924.
	near(t, "p", stats.TwoSamples([]float64{1, 2, 3, 4, 5, 5.5}, []float64{6, 7, 8, 9, 10, 11}).Exact, 2.0/924)
	near(t, "p", stats.TwoSamples([]float64{1, 2, 3, 4, 5, 5}, []float64{6, 7, 8, 9, 10, 11}).Exact, 2.0/924)
}

// TestPIsUniformUnderTheHypothesis: under it a test at 5 % alarms in 5 % of the cases, and the tests by ranks in no more.
func TestPIsUniformUnderTheHypothesis(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 4000
	var paired, pairedRanks, two, twoRanks int
	for range trials {
		a, b := make([]float64, 6), make([]float64, 6)
		for i := range a {
			a[i], b[i] = r.NormFloat64(), r.NormFloat64()
		}
		one, other := stats.OneSample(a), stats.TwoSamples(a, b)
		for _, x := range []struct {
			p float64
			n *int
		}{{one.Student, &paired}, {one.Exact, &pairedRanks}, {other.Student, &two}, {other.Exact, &twoRanks}} {
			if x.p <= 0.05 {
				*x.n++
			}
		}
	}
	for name, n := range map[string]int{"Student's": paired, "Welch's": two} {
		if share := float64(n) / trials; share < 0.035 || share > 0.065 {
			t.Errorf("%s test alarms in %.1f %%", name, 100*share)
		}
	}
	for name, n := range map[string]int{"signed ranks": pairedRanks, "rank sums": twoRanks} {
		if share := float64(n) / trials; share > 0.06 || share == 0 {
			t.Errorf("%s alarm in %.1f %%", name, 100*share)
		}
	}
}

func TestHolm(t *testing.T) {
	t.Parallel()
	got := stats.Holm([]float64{0.01, 0.04, 0.03, 0.005})
	want := []float64{0.03, 0.06, 0.06, 0.02} // Holm's own scheme: ×4, ×3, ×2, ×1 by rank, never falling
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
	if len(stats.Holm(nil)) != 0 {
		t.Error("something of nothing")
	}
}

func TestHolmProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "p")
		adjusted := stats.Holm(p)
		for i := range p {
			if adjusted[i] < p[i] || adjusted[i] > 1 || adjusted[i] > p[i]*float64(len(p)) {
				t.Fatalf("%v became %v", p, adjusted)
			}
			for j := range p {
				if p[i] < p[j] && adjusted[i] > adjusted[j] {
					t.Fatalf("the order of %v is not that of %v", p, adjusted)
				}
			}
		}
	})
}

// TestTestsAreSymmetric: which side is which does not matter, nor in what unit they were measured.
func TestTestsAreSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 12)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		x, y := stats.TwoSamples(a, b), stats.TwoSamples(b, a)
		if math.Abs(x.Exact-y.Exact) > 1e-9 || math.Abs(x.Student-y.Student) > 1e-9 || x.Mean != -y.Mean {
			t.Fatalf("%+v and %+v", x, y)
		}
		minus := make([]float64, len(a))
		for i := range a {
			minus[i] = -a[i]
		}
		if p, q := stats.OneSample(a), stats.OneSample(minus); math.Abs(p.Exact-q.Exact) > 1e-9 || math.Abs(p.Student-q.Student) > 1e-9 {
			t.Fatalf("%+v and %+v", p, q)
		}
	})
}
