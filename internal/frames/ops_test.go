package frames

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// frameOf makes a Frame of bars written down, a minute each.
func frameOf(t testing.TB, bars ...bar) *Frame {
	t.Helper()
	for i := range bars {
		bars[i].at = int64(i+1) * minute
		if reason := bars[i].check(); reason != "" {
			t.Fatalf("bar %d: %s", i, reason)
		}
	}
	return fromBars(bars, func(i int) { t.Fatalf("bar %d stands there twice", i) })
}

// made returns a Frame of n rows.
func made(t testing.TB, n int, seed uint64) *Frame {
	t.Helper()
	s := DefaultShape()
	s.Rows, s.Seed = n, seed
	f, err := Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ask returns the vectors of the answer to a query in full, by name; a number is called "".
func ask(t testing.TB, f *Frame, key string) map[string][]float64 {
	t.Helper()
	q, err := ParseQuery([]byte(key))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	w := NewWorker(f)
	w.Full = true
	text, err := w.Answer(&q, nil)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	got := map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		name := ""
		if _, err := strconv.ParseFloat(words[0], 64); err != nil {
			name, words = words[0], words[1:]
		}
		for _, word := range words {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatalf("%s: %q", key, line)
			}
			got[name] = append(got[name], v)
		}
	}
	return got
}

// same compares what must be equal but for rounding, in relation to the size of what was computed with.
func same(t testing.TB, what string, got, want []float64, size float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.IsNaN(got[i]) != math.IsNaN(want[i]) || math.Abs(got[i]-want[i]) > 1e-9*size {
			t.Fatalf("%s, row %d: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

// sixteen are bars that can be computed with by hand: the first four differ, the others repeat the fourth.
func sixteen(t testing.TB) *Frame {
	bars := []bar{
		{open: 2, high: 4, low: 1, close: 3, volume: 10},
		{open: 3, high: 6, low: 2, close: 5, volume: 20},
		{open: 5, high: 5, low: 3, close: 4, volume: 30},
		{open: 4, high: 8, low: 4, close: 8, volume: 40},
	}
	for len(bars) < 16 {
		bars = append(bars, bar{open: 8, high: 8, low: 8, close: 8, volume: 0})
	}
	return frameOf(t, bars...)
}

// TestByHand holds operations against values that were worked out on paper.
func TestByHand(t *testing.T) {
	t.Parallel()
	f := sixteen(t)
	nan := math.NaN()
	for _, c := range []struct {
		key, name string
		first     []float64 // of the vector
	}{
		{"max", "", []float64{8}},
		{"max/volume", "", []float64{40}},
		{"max/low#again", "", []float64{8}},
		{"mean/volume", "", []float64{100.0 / 16}},
		{"mean/return", "", []float64{math.Log(8.0/3) / 16}}, // the rest of the sum cancels
		// Closes in order are 3, 4, 5 and thirteen 8: with n·p = 1.6, x(1) + 0.6·(x(2) − x(1)).
		{"quantile/0.1", "", []float64{3.6}},
		{"quantile/0", "", []float64{3}},
		{"quantile/1", "", []float64{8}},
		{"quantile/0.15625/close", "", []float64{4.5}}, // n·p = 2.5
		{"vwap", "", []float64{(3*10 + 5*20 + 4*30 + 8*40) / 100.0}},
		// Of high and low over three rows.
		{"mid/3", "mid", []float64{nan, nan, (6 + 1) / 2.0, (8 + 2) / 2.0, (8 + 3) / 2.0, (8 + 4) / 2.0, 8}},
		{"mid/1", "mid", []float64{2.5, 4, 4, 6, 8}},
		// e^-1 = 0.3678794...
		{"decay/1", "decay", []float64{3, 5, 5 - math.Exp(-1), 8, 8, 8}},
		// 10·(3−2)/3, + 20·(5−3)/4, + 30·(4−5)/2, + 40·(8−4)/4; then bars without a range.
		{"ad", "ad", []float64{10.0 / 3, 40.0 / 3, -5.0 / 3, 115.0 / 3, 115.0 / 3}},
		// Averages with periods 1 (the close itself), 3 (weight 1/2) and 1: S = 3, 4, 4, 6, 7.
		{"ppo/1/3/1", "ppo", []float64{0, 25, 0, 100.0 / 3, 100.0 / 7}},
		{"ppo/1/3/1", "histogram", []float64{0, 0, 0, 0, 0}},
		{"ppo/1/3/3", "histogram", []float64{0, 12.5, -6.25, 100.0/3 - (6.25+100.0/3)/2}},
		// Of the returns 0, ln 5/3 = 0.51, ln 4/5 = −0.22, ln 2 = 0.69 and twelve zeros the centres begin at rows 4 and 12: both 0. The first gets all in
		// the one round, and has moved to 0.06 when the end comes; then two are nearer to it.
		{"kmeans/2/1", "centres", []float64{math.Log(8.0/3) / 16, 0}},
		{"kmeans/2/1", "counts", []float64{2, 14}},
	} {
		got := ask(t, f, c.key)[c.name]
		same(t, c.key, got[:min(len(got), len(c.first))], c.first, 1)
	}
	if got := ask(t, f, "corr/open/close")[""][0]; math.Abs(got-pearson(f.Column(Open), f.Column(Close))) > 1e-12 {
		t.Errorf("correlation: %v", got)
	}
	if got := ask(t, f, "corr/low/low")[""][0]; math.Abs(got-1) > 1e-12 {
		t.Errorf("a column's correlation with itself: %v", got)
	}
}

func pearson(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		sx, sy, sxx, syy, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
}

// TestAgainstTheDefinition holds operations against their definitions, computed in the simplest and slowest way, over made-up frames that are longer than
// blocks are and with parameters of every kind.
func TestAgainstTheDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		f := made(t, rapid.SampledFrom([]int{MinRows, 17, 333, blockRows, blockRows + 1}).Draw(r, "rows"), rapid.Uint64().Draw(r, "seed"))
		n := f.Rows()
		window := rapid.IntRange(1, min(n, 200)).Draw(r, "window")
		same(t, "mid", ask(t, f, fmt.Sprintf("mid/%d", window))["mid"], slowMid(f, window), 1)

		period := rapid.IntRange(1, 12).Draw(r, "period")
		decay := make([]float64, n)
		for i, v := range f.Column(Close) {
			decay[i] = v
			if i > 0 {
				decay[i] = max(v, f.Column(Close)[i-1]-math.Exp(-float64(period)), 0)
			}
		}
		same(t, "decay", ask(t, f, fmt.Sprintf("decay/%d", period))["decay"], decay, 1)

		fast := rapid.IntRange(1, 8).Draw(r, "fast")
		slow := fast + rapid.IntRange(1, 8).Draw(r, "slower")
		signal := rapid.IntRange(1, 8).Draw(r, "signal")
		line := make([]float64, n)
		f1, s1 := slowEMA(f.Column(Close), fast), slowEMA(f.Column(Close), slow)
		for i := range line {
			line[i] = (f1[i]/s1[i] - 1) * 100
		}
		got := ask(t, f, fmt.Sprintf("ppo/%d/%d/%d", fast, slow, signal))
		same(t, "ppo", got["ppo"], line, 100)
		g1 := slowEMA(line, signal)
		for i := range line {
			g1[i] = line[i] - g1[i]
		}
		same(t, "histogram", got["histogram"], g1, 100)

		p := rapid.Float64Range(0, 1).Draw(r, "p")
		same(t, "quantile", ask(t, f, "quantile/"+strconv.FormatFloat(p, 'g', -1, 64)+"/high")[""], []float64{slowQuantile(f.Column(High), p)}, 10)
		a, b := Column(rapid.IntRange(0, int(NumColumns)-1).Draw(r, "a")), Column(rapid.IntRange(0, int(NumColumns)-1).Draw(r, "b"))
		same(t, "corr", ask(t, f, "corr/"+a.String()+"/"+b.String())[""], []float64{pearson(centred(f.Column(a)), centred(f.Column(b)))}, 1)
	})
}

func centred(x []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - sum/float64(len(x))
	}
	return out
}

func slowMid(f *Frame, window int) []float64 {
	out := make([]float64, f.Rows())
	for i := range out {
		out[i] = math.NaN()
		if i >= window-1 {
			out[i] = (slices.Max(f.Column(High)[i-window+1:i+1]) + slices.Min(f.Column(Low)[i-window+1:i+1])) / 2
		}
	}
	return out
}

// slowEMA adds up each average from its weights: w(1−w)^j of the value j rows ago, and what is left over of the first.
func slowEMA(x []float64, period int) []float64 {
	w := 2 / float64(period+1)
	out := make([]float64, len(x))
	for i := range x {
		left := 1.0
		for j := i; j > 0 && left > 1e-18; j-- {
			out[i] += left * w * x[j]
			left *= 1 - w
		}
		out[i] += left * x[0]
	}
	return out
}

func slowQuantile(x []float64, p float64) float64 {
	s := slices.Clone(x)
	sort.Float64s(s)
	at := p * float64(len(s))
	j := int(at)
	switch {
	case j < 1:
		return s[0]
	case j >= len(s):
		return s[len(s)-1]
	}
	return s[j-1] + (at-float64(j))*(s[j]-s[j-1])
}

// TestKMeansAgainstTheDefinition: the results are those of a Lloyd's algorithm that keeps its groups as lists.
func TestKMeansAgainstTheDefinition(t *testing.T) {
	t.Parallel()
	f := made(t, 6000, 7)
	x := f.Column(Return)
	for _, c := range []struct{ k, rounds int }{{1, 3}, {2, 1}, {4, 10}, {7, 2}} {
		centres := make([]float64, c.k)
		for j := range centres {
			centres[j] = x[(2*j+1)*len(x)/(2*c.k)]
		}
		sort.Float64s(centres)
		group := func() [][]float64 {
			groups := make([][]float64, c.k)
			for _, v := range x {
				best := 0
				for j := range centres {
					if math.Abs(v-centres[j]) < math.Abs(v-centres[best]) {
						best = j
					}
				}
				groups[best] = append(groups[best], v)
			}
			return groups
		}
		for range c.rounds {
			for j, g := range group() {
				centres[j] = 0
				for _, v := range g {
					centres[j] += v / float64(len(g))
				}
			}
		}
		counts, spread := make([]float64, c.k), 0.0
		for j, g := range group() {
			counts[j] = float64(len(g))
			for _, v := range g {
				spread += (v - centres[j]) * (v - centres[j]) / float64(len(x))
			}
		}
		got := ask(t, f, fmt.Sprintf("kmeans/%d/%d", c.k, c.rounds))
		same(t, "centres", got["centres"], centres, 1e-3)
		same(t, "counts", got["counts"], counts, 1)
		same(t, "spread", got["spread"], []float64{spread}, spread)
	}
}

// slowDecompose fits every line by its normal equations.
func slowDecompose(x []float64, period int, fraction float64, delta int) (trend, season, rest []float64) {
	n := len(x)
	q := int(math.Floor(fraction*float64(n) + 0.5))
	if q%2 == 0 {
		q++
	}
	q = max(q, 3)
	for q > n {
		q -= 2
	}
	trend = make([]float64, n)
	at := []int{}
	for i := 0; i < n-1; i += delta {
		at = append(at, i)
	}
	at = append(at, n-1)
	for _, i := range at {
		from := i - q/2
		if from < 0 {
			from = 0
		}
		if from+q > n {
			from = n - q
		}
		h := 0.0
		for j := from; j < from+q; j++ {
			h = max(h, math.Abs(float64(j-i)))
		}
		h++
		var sw, sx, sy, sxx, sxy float64
		for j := from; j < from+q; j++ {
			w := math.Pow(1-math.Pow(math.Abs(float64(j-i))/h, 3), 3)
			d := float64(j - i)
			sw, sx, sy, sxx, sxy = sw+w, sx+w*d, sy+w*x[j], sxx+w*d*d, sxy+w*d*x[j]
		}
		slope := (sw*sxy - sx*sy) / (sw*sxx - sx*sx)
		trend[i] = (sy - slope*sx) / sw // at d = 0
	}
	for k := 1; k < len(at); k++ {
		for i := at[k-1] + 1; i < at[k]; i++ {
			u := float64(i-at[k-1]) / float64(at[k]-at[k-1])
			trend[i] = (1-u)*trend[at[k-1]] + u*trend[at[k]]
		}
	}
	season = make([]float64, period)
	mean := 0.0
	for p := range season {
		rows := 0
		for i := p; i < n; i += period {
			season[p] += x[i] - trend[i]
			rows++
		}
		season[p] /= float64(rows)
		mean += season[p] / float64(period)
	}
	rest = make([]float64, n)
	for p := range season {
		season[p] -= mean
	}
	for i := range rest {
		rest[i] = x[i] - trend[i] - season[i%period]
	}
	return trend, season, rest
}

func TestDecomposeAgainstTheDefinition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows, period int
		fraction     float64
		delta        int
	}{{MinRows, 2, 0.3, 1}, {17, 8, 1, 3}, {1000, 170, 0.01, 1}, {1000, 7, 0.3, 10}, {blockRows + 100, 170, 0.02, 1}, {2*blockRows + 3, 60, 0.01, 37}, {50, 5, 1e-6, 1}} {
		f := made(t, c.rows, 3)
		got := ask(t, f, fmt.Sprintf("decompose/%d/%g/%d", c.period, c.fraction, c.delta))
		trend, season, rest := slowDecompose(f.Column(Return), c.period, c.fraction, c.delta)
		same(t, "trend", got["trend"], trend, 1e-3)
		same(t, "season", got["season"], season, 1e-3)
		same(t, "remainder", got["remainder"], rest, 1e-3)
	}
}

// TestDecomposeFindsASeason: of prices that rise by a steady rate, and swing with a period, trend and season are what they were made of.
func TestDecomposeFindsASeason(t *testing.T) {
	t.Parallel()
	const period, n = 10, 400
	wave := func(i int) float64 { return 0.001 * math.Sin(2*math.Pi*float64(i)/period) }
	var bars []bar
	price := 1.0
	for i := range n {
		if i > 0 {
			price *= math.Exp(0.0001 + wave(i))
		}
		bars = append(bars, bar{open: price, high: price, low: price, close: price})
	}
	got := ask(t, frameOf(t, bars...), "decompose/10/0.5/1")
	for p := range period {
		if math.Abs(got["season"][p]-wave(p)) > 3e-5 {
			t.Errorf("season at %d: %g, want %g", p, got["season"][p], wave(p))
		}
	}
	if v := got["trend"][n/2]; math.Abs(v-0.0001) > 3e-6 {
		t.Errorf("trend in the middle: %g, want 0.0001", v)
	}
}

// TestSummary: the text of a vector says of its numbers what they are.
func TestSummary(t *testing.T) {
	t.Parallel()
	f := sixteen(t)
	w := NewWorker(f)
	for key, want := range map[string]string{
		"mid/3":      "mid n=14 first=3.5 last=8 min=3.5 mean=7.142857142857143 max=8",
		"max":        "8",
		"decay/700":  "decay n=16 first=3 last=8 min=3 mean=7.3125 max=8",
		"kmeans/1/1": "centres 0.061301828313232894\ncounts 16\nspread 0.04569139061465692",
	} {
		q, err := ParseQuery([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Answer(&q, nil)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", key, got, err, want)
		}
	}
}

// TestBytesAreCounted: while an operation that is bound by memory goes on it says what it moves, which is what Moved says in the end.
func TestBytesAreCounted(t *testing.T) {
	t.Parallel()
	f := made(t, 3*blockRows+5, 1)
	for k := range NumKinds {
		q, total, times := Standard(k), int64(0), 0
		w := NewWorker(f)
		w.Moved = func(bytes int64) { total, times = total+bytes, times+1 }
		if _, err := w.Answer(&q, nil); err != nil {
			t.Fatal(err)
		}
		want := q.Moved(f.Rows())
		if !k.MemoryBound() {
			want = 0
		}
		if total != want || want > 0 && times < 4 {
			t.Errorf("%v: %d bytes told in %d parts, want %d in several", k, total, times, want)
		}
	}
}

// TestStop: long operations end halfway, and say so.
func TestStop(t *testing.T) {
	t.Parallel()
	f := made(t, 100, 1)
	var stop atomic.Bool
	stop.Store(true)
	w := NewWorker(f)
	w.Stop = &stop
	for _, k := range []Kind{Mid, KMeans, PPO, Decay, AD} {
		q := Standard(k)
		if _, err := w.Answer(&q, nil); err != ErrStopped {
			t.Errorf("%v: %v", k, err)
		}
	}
	q := Query{Kind: Decompose, Window: 10, Fraction: 0.1, Delta: 1}
	if _, err := w.Answer(&q, nil); err != ErrStopped {
		t.Errorf("decompose: %v", err)
	}
}

// TestAnswersAllocateNothing once a Worker has its memory.
func TestAnswersAllocateNothing(t *testing.T) {
	f := made(t, 2000, 1)
	w := NewWorker(f)
	var out []byte
	for k := range NumKinds {
		q := Standard(k)
		n := testing.AllocsPerRun(20, func() {
			var err error
			if out, err = w.Answer(&q, out[:0]); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%v: %v allocations", k, n)
		}
	}
}
