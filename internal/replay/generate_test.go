package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/dist"
	"spillway/workloads"
)

func bytesOf(n float64) dist.Dist { return dist.Constant{Unit: dist.Bytes, Value: n} }

// plainDay is a day of requests without any shape.
func plainDay() *Generate {
	return &Generate{
		Seed: 7, Length: 24 * time.Hour, Rate: 1,
		Classes: []workloads.KVClass{
			{Name: "a", Share: 0.75, Keys: 100, ValueSize: bytesOf(10)},
			{Name: "b", Share: 0.25, Keys: 100, ValueSize: bytesOf(1000), Mix: workloads.Mix{Set: 0.5, Delete: 0.5}},
		},
	}
}

func textOf(t *testing.T, g *Generate) string {
	t.Helper()
	var text bytes.Buffer
	w := NewWriter(&text)
	if err := errors.Join(g.Each(w.Write), w.Close()); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestSameSeedSameLog: a description is a log, byte by byte, and in memory it is the same as in a file.
func TestSameSeedSameLog(t *testing.T) {
	t.Parallel()
	g := plainDay()
	g.Rate, g.Swing, g.Day, g.Every, g.For, g.Times = 0.05, 0.5, 24*time.Hour, time.Hour, time.Minute, 4
	first := textOf(t, g)
	if first != textOf(t, g) {
		t.Error("the same seed gave another log")
	}
	trace, err := g.Trace()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(strings.NewReader(first), "log.csv", Load{Classes: []string{"a", "b"}, For: 24*time.Hour + 1})
	if err != nil {
		t.Fatal(err)
	}
	var a, b workloads.Entry
	for i := range trace.Times {
		trace.Entry(i, &a)
		read.Entry(i, &b)
		if trace.Times[i]-trace.Times[0] != read.Times[i] || a.Class != b.Class || a.Kind != b.Kind || !bytes.Equal(a.Keys[0], b.Keys[0]) || a.Sizes[0] != b.Sizes[0] {
			t.Fatalf("request %d: %v %+v drawn, %v %+v read", i, trace.Times[i], a, read.Times[i], b)
		}
	}
	if patterns, err := trace.Patterns(); err != nil || !slices.Equal(patterns, []string{"a-*", "b-*"}) {
		t.Errorf("%v, %v", patterns, err)
	}
	if err := trace.CheckPrefixes(); err != nil {
		t.Error(err)
	}
	g.Seed++
	if first == textOf(t, g) {
		t.Error("another seed gave the same log")
	}
}

// TestDailyShape holds the rate over the day against the formula: within each hour, the number of requests is that of a binomial.
func TestDailyShape(t *testing.T) {
	t.Parallel()
	g := plainDay()
	g.Swing, g.Day, g.Peak = 0.6, 24*time.Hour, 20*time.Hour
	var hours [24]float64
	n := 0.0
	err := g.Each(func(r *Row) error { hours[r.At/time.Hour]++; n++; return nil })
	if err != nil || n != 86400 {
		t.Fatalf("%g requests, %v", n, err)
	}
	for h, got := range hours {
		angle := func(hour float64) float64 { return 2 * math.Pi * (hour - 20) / 24 }
		share := (1 + 0.6*24/(2*math.Pi)*(math.Sin(angle(float64(h+1)))-math.Sin(angle(float64(h))))) / 24
		want, spread := n*share, math.Sqrt(n*share*(1-share))
		if math.Abs(got-want) > 4.5*spread {
			t.Errorf("hour %d: %g requests, want %.0f ± %.0f", h, got, want, spread)
		}
	}
}

// TestBurstShare: as many requests fall into bursts as their length and height make, and no more.
func TestBurstShare(t *testing.T) {
	t.Parallel()
	g := plainDay()
	g.Every, g.For, g.Times = 30*time.Minute, 3*time.Minute, 5
	bursts := g.Bursts()
	long := 0.0
	for i, b := range bursts {
		long += float64(b.To - b.From)
		if b.To <= b.From || i > 0 && b.From < bursts[i-1].To || b.To > g.Length {
			t.Fatalf("burst %d is %v", i, b)
		}
	}
	// 44 are expected, of 3 minutes each.
	if len(bursts) < 25 || len(bursts) > 65 || long < 44*0.4*float64(3*time.Minute) || long > 44*1.8*float64(3*time.Minute) {
		t.Errorf("%d bursts, %v together", len(bursts), time.Duration(long))
	}
	within, n := 0.0, 0.0
	err := g.Each(func(r *Row) error {
		n++
		if slices.ContainsFunc(bursts, func(b Burst) bool { return r.At >= b.From && r.At < b.To }) {
			within++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	share := 5 * long / (5*long + float64(g.Length) - long)
	if spread := math.Sqrt(n * share * (1 - share)); math.Abs(within-n*share) > 4.5*spread {
		t.Errorf("%g of %g requests are in bursts, want %.0f ± %.0f", within, n, n*share, spread)
	}
}

// TestMixDrifts: at the ends of the day the shares are the classes' own, at noon those that they drift to.
func TestMixDrifts(t *testing.T) {
	t.Parallel()
	g := plainDay()
	g.Drift, g.Mixed = 24*time.Hour, []float64{0.25, 0.75}
	var all, ofB [24]float64
	err := g.Each(func(r *Row) error {
		all[r.At/time.Hour]++
		if string(r.Class) == "b" {
			ofB[r.At/time.Hour]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for h := range all {
		share := 0.25 + 0.5*(1-math.Cos(2*math.Pi*(float64(h)+0.5)/24))/2
		if spread := math.Sqrt(share * (1 - share) / all[h]); math.Abs(ofB[h]/all[h]-share) > 4.5*spread {
			t.Errorf("hour %d: %.3f of the requests are of class b, want %.3f ± %.3f", h, ofB[h]/all[h], share, spread)
		}
	}
}

// TestDeletedIsNotFound: what was deleted is not found until it is written again.
func TestDeletedIsNotFound(t *testing.T) {
	t.Parallel()
	g := plainDay()
	g.Rate = 0.2
	g.Classes = []workloads.KVClass{{Name: "a", Share: 1, Keys: 20, ValueSize: bytesOf(10), Batch: 3, Mix: workloads.Mix{Get: 0.4, Set: 0.2, Delete: 0.2, MultiGet: 0.2}}}
	gone := map[string]bool{}
	misses, hits := 0, 0
	err := g.Each(func(r *Row) error {
		for i, key := range r.Keys {
			if found := r.Sizes[i] != workloads.NoValue; found == gone[string(key)] && r.Kind != workloads.Set {
				t.Fatalf("%v of %s, which is gone: %v, has the size %d", r.Kind, key, gone[string(key)], r.Sizes[i])
			} else if found {
				hits++
			} else {
				misses++
			}
			gone[string(key)] = r.Kind == workloads.Delete || r.Kind != workloads.Set && gone[string(key)]
		}
		return nil
	})
	if err != nil || misses < 1000 || hits < 1000 {
		t.Errorf("%d hits, %d misses, %v", hits, misses, err)
	}
}

func TestBadDescriptions(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Generate){
		"is between 1us and a year":        func(g *Generate) { g.Length = 0 },
		"makes 86400000000 requests":       func(g *Generate) { g.Rate = 1e6 },
		"makes 0 requests":                 func(g *Generate) { g.Rate = 1e-9 },
		"swing 1.5":                        func(g *Generate) { g.Swing, g.Day = 1.5, time.Hour },
		"there are at most 1000":           func(g *Generate) { g.Swing, g.Day = 1, time.Second },
		"is an hour of the day":            func(g *Generate) { g.Swing, g.Day, g.Peak = 1, time.Hour, 2*time.Hour },
		"bursts have all of":               func(g *Generate) { g.Every = time.Hour },
		"bursts have all of: every":        func(g *Generate) { g.Times = 3 },
		"there are at most 100000":         func(g *Generate) { g.Every, g.For, g.Times = time.Millisecond, 1, 2 },
		"at most a million":                func(g *Generate) { g.Every, g.For, g.Times = time.Hour, time.Second, 1e7 },
		"neither write_back nor expire":    func(g *Generate) { g.Classes[0].Expire = time.Second },
		"a log has neither write_back":     func(g *Generate) { g.Classes[0].WriteBack = "b" },
		"a drift has a period":             func(g *Generate) { g.Mixed = []float64{1, 0} },
		"the shares of the classes sum to": func(g *Generate) { g.Classes[0].Share = 0.5 },
		"drift: the shares sum to":         func(g *Generate) { g.Mixed, g.Drift = []float64{1, 1}, time.Hour },
	} {
		g := plainDay()
		change(g)
		if _, err := g.Trace(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSummary holds the description of a log against what it was made of.
func TestSummary(t *testing.T) {
	t.Parallel()
	g := plainDay()
	s, err := Describe(strings.NewReader(textOf(t, g)), "log.csv", Rules{})
	if err != nil {
		t.Fatal(err)
	}
	trace, err := g.Trace()
	if err != nil {
		t.Fatal(err)
	}
	stored, storedBytes, _ := trace.Stored()
	if s.Requests != 86400 || s.Keys != 200 || s.Stored != stored || s.StoredBytes != storedBytes || len(s.Classes) != 2 {
		t.Errorf("%+v, stored %d of %d bytes", s, stored, storedBytes)
	}
	sum := 0.0
	for _, rate := range s.Rates(48) {
		if sum += rate * s.Span.Seconds() / 48; rate < 0.85 || rate > 1.15 {
			t.Errorf("rate %g, want 1", rate)
		}
	}
	if math.Abs(sum-86400) > 1 {
		t.Errorf("the rates hold %g requests", sum)
	}
	for _, c := range s.Classes {
		want := map[string]int64{"a": 10, "b": 1000}[c.Name]
		if c.Size(0.5) != want || c.Size(1) != want || c.Largest != want {
			t.Errorf("class %s: median %d, largest %d", c.Name, c.Size(0.5), c.Largest)
		}
	}
}

// TestDescribeLong: however long a log is, its rate has few spans.
func TestDescribeLong(t *testing.T) {
	t.Parallel()
	s := &Summary{grain: 1}
	for i := range 100_000 {
		s.Requests++
		s.Span = time.Duration(i) * time.Hour
		s.count(s.Span)
	}
	if len(s.counts) > mostSpans {
		t.Errorf("%d spans", len(s.counts))
	}
	for i, rate := range s.Rates(7) {
		if want := 1.0 / 3600; math.Abs(rate-want) > 0.01*want {
			t.Errorf("part %d: %g a second, want %g", i, rate, want)
		}
	}
	if _, err := Describe(io.MultiReader(), "log.csv", Rules{}); err == nil {
		t.Error("an empty file was described")
	}
}

// TestDescribeClasses: a column of a log that is no class ends with an error instead of a list without end, and no name reaches a terminal or a
// profile that is none.
func TestDescribeClasses(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("time,class,key,size,operation\n")
	for i := range mostClasses {
		fmt.Fprintf(&b, "%d,c%d,k,5,get\n", i, i)
	}
	if s, err := Describe(strings.NewReader(b.String()), "log.csv", Rules{}); err != nil || len(s.Classes) != mostClasses {
		t.Errorf("as many classes as there may be: %v", err)
	}
	if _, err := Describe(strings.NewReader(b.String()+"1000,more,k,5,get\n"), "log.csv", Rules{}); err == nil || !strings.Contains(err.Error(), `log.csv:1002: class "more" is one more than 1000`) {
		t.Errorf("one more: %v", err)
	}
	for _, name := range []string{"", "\x1b[31mred", "a: {b", "all", "-a", strings.Repeat("a", 64)} {
		_, err := Describe(strings.NewReader("time,class,key,size,operation\n0,"+name+",k,5,get\n"), "log.csv", Rules{})
		if err == nil || !strings.HasPrefix(err.Error(), "log.csv:2: class ") {
			t.Errorf("class %q: %v", name, err)
		}
	}
}
