package workloads

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/dist"
	"spillway/machine"
)

// varied returns a workload of each kind with three classes whose own shares are 0.7, 0.3 and 0.
func varied(t *testing.T) map[string]interface {
	Workload
	Varying
	Vary(*Shares) error
} {
	t.Helper()
	work := []SyntheticStep{{Kind: machine.Compute, Amount: dist.Constant{Unit: dist.Nanoseconds, Value: 1}}}
	s, err := NewSynthetic([]SyntheticClass{{Name: "a", Share: 0.7, Work: work}, {Name: "b", Share: 0.3, Work: work}, {Name: "c", Work: work}})
	if err != nil {
		t.Fatal(err)
	}
	one := bytesOf(1)
	k := mustKV(t, KVClass{Name: "a", Share: 0.7, Keys: 10, ValueSize: one}, KVClass{Name: "b", Share: 0.3, Keys: 10, ValueSize: one}, KVClass{Name: "c", Keys: 10, ValueSize: one})
	return map[string]interface {
		Workload
		Varying
		Vary(*Shares) error
	}{"synthetic": s, "kv": k}
}

// holdsShares draws n operations at each of the instants and holds the classes against the shares, by χ².
func holdsShares(t *testing.T, name string, w interface {
	Workload
	Varying
}, from, to time.Duration, n int, want []float64) {
	t.Helper()
	rng := dist.Stream(5, name, uint64(from))
	counts := make([]float64, len(want))
	var op Op
	for i := range n {
		w.Shift(from + time.Duration(float64(to-from)*float64(i)/float64(n)))
		w.Next(rng, &op)
		counts[op.Class]++
	}
	chi := 0.0
	for i, share := range want {
		expect := share * float64(n)
		if expect == 0 {
			if counts[i] > 0 {
				t.Errorf("%s, from %v: class %d without a share is drawn %g times", name, from, i, counts[i])
			}
			continue
		}
		chi += (counts[i] - expect) * (counts[i] - expect) / expect
	}
	if chi > chiSquareBound(len(want)-1) {
		t.Errorf("%s, from %v to %v: drawn %v of %d, the shares are %v", name, from, to, counts, n, want)
	}
}

// TestSharesInSteps holds what is drawn in each span against its shares. The warm-up has those of the first, what comes after those of the
// last.
func TestSharesInSteps(t *testing.T) {
	t.Parallel()
	spans := []Span{
		{For: 2 * time.Second, Shares: []float64{0.7, 0.3, 0}},
		{For: time.Second, Shares: []float64{0, 0.4, 0.6}},
		{For: time.Second, Shares: []float64{1, 0, 0}},
	}
	shares, err := SharesInSteps(time.Second, spans)
	if err != nil {
		t.Fatal(err)
	}
	const s = time.Second
	for name, w := range varied(t) {
		if err := w.Vary(shares); err != nil {
			t.Fatal(err)
		}
		for _, span := range []struct {
			from, to time.Duration
			which    int
		}{{0, s, 0}, {s, 3 * s, 0}, {3 * s, 4*s - 1, 1}, {4 * s, 5*s - 1, 2}, {5 * s, 9 * s, 2}} {
			holdsShares(t, name, w, span.from, span.to, 20_000, spans[span.which].Shares)
		}
	}
	if got := shares.Mean(0, 5*s, nil); math.Abs(got[0]-(3*0.7+1)/5) > 1e-12 || math.Abs(got[1]-(3*0.3+0.4)/5) > 1e-12 || math.Abs(got[2]-0.6/5) > 1e-12 {
		t.Errorf("the mean shares are %v", got)
	}
}

// TestSharesDrifting: at the beginning of the window the shares are the first, half a period later the second, and over whole periods their
// mean; they drift in the warm-up too.
func TestSharesDrifting(t *testing.T) {
	t.Parallel()
	own, other := []float64{0.7, 0.3, 0}, []float64{0.1, 0.2, 0.7}
	const warmUp, period = 300 * time.Millisecond, time.Second
	shares, err := SharesDrifting(warmUp, period, own, other)
	if err != nil {
		t.Fatal(err)
	}
	mean := []float64{0.4, 0.25, 0.35}
	for name, w := range varied(t) {
		if err := w.Vary(shares); err != nil {
			t.Fatal(err)
		}
		around := time.Duration(1) // so short that nothing drifts
		for _, at := range []struct {
			from, length time.Duration
			want         []float64
		}{
			{warmUp - period/4, around, mean}, {warmUp, around, own}, {warmUp + period/4, around, mean},
			{warmUp + period/2, around, other}, {warmUp + period, 3 * period, mean}, {warmUp + 4*period, around, own},
		} {
			holdsShares(t, name, w, at.from, at.from+at.length, 20_000, at.want)
		}
	}
	for i, want := range shares.At(warmUp+period/8, nil) {
		// An eighth of a period: 1 − cos 45° over 2 of the way.
		if way := (1 - math.Sqrt2/2) / 2; math.Abs(want-(own[i]+(other[i]-own[i])*way)) > 1e-12 {
			t.Errorf("class %d has a share of %v after an eighth of the period", i, want)
		}
	}
}

// TestMeanShares holds the mean of drifting shares over any stretch against a sum over it.
func TestMeanShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.IntRange(1, 1000).Draw(t, "period")) * time.Millisecond
		s, err := SharesDrifting(50*time.Millisecond, period, []float64{1, 0}, []float64{0.2, 0.8})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Duration(rapid.IntRange(0, 1000).Draw(t, "from")) * time.Millisecond
		to := from + time.Duration(rapid.IntRange(0, 1000).Draw(t, "length"))*time.Millisecond
		const n = 2000
		sum := 0.0
		for i := range n {
			sum += s.At(from+time.Duration((float64(i)+0.5)*float64(to-from)/n), nil)[0]
		}
		if got := s.Mean(from, to, nil); math.Abs(got[0]-sum/n) > 1e-3*math.Max(1, float64(to-from)/float64(period)/100) || math.Abs(got[0]+got[1]-1) > 1e-9 {
			t.Fatalf("mean %v, the sum says %v", got, sum/n)
		}
	})
}

// TestVaryingChangesNothingElse: shares that stay what they are change no draw.
func TestVaryingChangesNothingElse(t *testing.T) {
	t.Parallel()
	same, err := SharesInSteps(0, []Span{{For: time.Second, Shares: []float64{0.7, 0.3, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	plain := varied(t)
	for name, w := range varied(t) {
		if err := w.Vary(same); err != nil {
			t.Fatal(err)
		}
		a, b := dist.Stream(1, "a", 0), dist.Stream(1, "a", 0)
		var x, y Op
		for i := range 1000 {
			w.Shift(time.Duration(i) * time.Millisecond * 5)
			w.Next(a, &x)
			plain[name].Next(b, &y)
			if x.Class != y.Class || string(x.Key) != string(y.Key) {
				t.Fatalf("%s: operation %d is %q of class %d, without a change of shares %q of class %d", name, i, x.Key, x.Class, y.Key, y.Class)
			}
		}
	}
}

func TestSharesAreChecked(t *testing.T) {
	t.Parallel()
	for want, build := range map[string]func() (*Shares, error){
		"at least one span": func() (*Shares, error) { return SharesInSteps(0, nil) },
		"longer than 0":     func() (*Shares, error) { return SharesInSteps(0, []Span{{Shares: []float64{1}}}) },
		"sum to 0.5":        func() (*Shares, error) { return SharesInSteps(0, []Span{{For: 1, Shares: []float64{0.5}}}) },
		"must not be negative": func() (*Shares, error) {
			return SharesInSteps(0, []Span{{For: 1, Shares: []float64{2, -1}}})
		},
		"span 2: 1 shares of 2": func() (*Shares, error) {
			return SharesInSteps(0, []Span{{For: 1, Shares: []float64{0.5, 0.5}}, {For: 1, Shares: []float64{1}}})
		},
		"period of 0s": func() (*Shares, error) { return SharesDrifting(0, 0, []float64{1}, []float64{1}) },
		"drift: 1 shares of 2": func() (*Shares, error) {
			return SharesDrifting(0, 1, []float64{0.5, 0.5}, []float64{1})
		},
	} {
		if _, err := build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	two, err := SharesDrifting(0, time.Second, []float64{1, 0}, []float64{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range varied(t) {
		if err := w.Vary(two); err == nil || !strings.Contains(err.Error(), "shares of 2 classes, the workload has 3") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestShiftAllocatesNothing(t *testing.T) {
	drift, err := SharesDrifting(0, time.Second, []float64{0.7, 0.3, 0}, []float64{0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range varied(t) {
		if err := w.Vary(drift); err != nil {
			t.Fatal(err)
		}
		rng, at := dist.Stream(1, "a", 0), time.Duration(0)
		var op Op
		next := func() { at += time.Microsecond; w.Shift(at); w.Next(rng, &op) }
		next()
		if n := testing.AllocsPerRun(100, next); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}
