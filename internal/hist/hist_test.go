package hist

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEmpty(t *testing.T) {
	t.Parallel()
	h := New()
	if h.Count() != 0 || h.Mean() != 0 || h.Max() != 0 || h.Percentile(99) != 0 || h.Overflow() != 0 {
		t.Error("an empty histogram is not all zero")
	}
}

func TestOverflowIsCounted(t *testing.T) {
	t.Parallel()
	h := New()
	for _, d := range []time.Duration{-5, 0, Highest, Highest + 1, 48 * time.Hour} {
		h.Record(d)
	}
	if h.Count() != 5 || h.Overflow() != 2 || h.Max() != 48*time.Hour {
		t.Errorf("count %d, overflow %d, max %v", h.Count(), h.Overflow(), h.Max())
	}
	if want := (Highest + Highest + 1 + 48*time.Hour) / 5; h.Mean() != want {
		t.Errorf("mean %v, want %v", h.Mean(), want)
	}
}

// TestPercentilesAgainstSorting: within a thousandth of what sorting every value gives, and never above the maximum.
func TestPercentilesAgainstSorting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, int64(Highest)), 1, 200).Draw(t, "values")
		parts := []*Hist{New(), New(), New()}
		for i, v := range values {
			parts[i%len(parts)].Record(time.Duration(v))
		}
		h := New()
		for _, p := range parts {
			h.Merge(p)
		}
		slices.Sort(values)
		top := time.Duration(values[len(values)-1])
		if h.Count() != int64(len(values)) || h.Max() != top {
			t.Fatalf("count %d, max %v", h.Count(), h.Max())
		}
		for _, p := range []float64{0, 50, 90, 99, 99.9, 100} {
			rank := max(int(math.Ceil(p/100*float64(len(values)))), 1)
			exact, got := float64(values[rank-1]), float64(h.Percentile(p))
			if math.Abs(got-exact) > exact/1000+1 || got > float64(top) {
				t.Fatalf("p%v is %v, exactly %v, maximum %v", p, got, exact, top)
			}
		}
	})
}

func TestRecordAllocatesNothing(t *testing.T) {
	h := New()
	if n := testing.AllocsPerRun(100, func() { h.Record(123 * time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLogRoundTrip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	h := New()
	for range 10_000 {
		h.Record(time.Duration(rng.ExpFloat64() * 1e6))
	}
	for _, began := range []time.Time{{}, time.UnixMilli(1_790_000_000_123)} {
		var buf bytes.Buffer
		w, err := NewLogWriter(&buf, began)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write("codel/50k/1/small", 3*time.Second, 5*time.Second, h); err != nil {
			t.Fatal(err)
		}
		if err := w.Write("all", 1234*time.Millisecond, 0, New()); err != nil {
			t.Fatal(err)
		}
		if began.IsZero() && !strings.Contains(buf.String(), "#[StartTime: 0 ") {
			t.Errorf("a run without a calendar must start at 0:\n%s", buf.String())
		}
		entries, err := ReadLog(&buf)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 2 {
			t.Fatalf("%d entries", len(entries))
		}
		e := entries[0]
		if e.Tag != "codel/50k/1/small" || e.Start != 3*time.Second || e.Length != 5*time.Second {
			t.Errorf("entry %q from %v for %v", e.Tag, e.Start, e.Length)
		}
		if e.Hist.Count() != h.Count() {
			t.Errorf("count %d, was %d", e.Hist.Count(), h.Count())
		}
		for _, p := range []float64{50, 90, 99, 99.9} {
			if e.Hist.Percentile(p) != h.Percentile(p) {
				t.Errorf("p%v is %v, was %v", p, e.Hist.Percentile(p), h.Percentile(p))
			}
		}
		near := func(a, b time.Duration) bool { return math.Abs(float64(a-b)) <= float64(b)/1000 }
		if !near(e.Hist.Mean(), h.Mean()) || !near(e.Hist.Max(), h.Max()) {
			t.Errorf("mean %v, max %v; were %v, %v", e.Hist.Mean(), e.Hist.Max(), h.Mean(), h.Max())
		}
		if e := entries[1]; e.Tag != "all" || e.Start != 1234*time.Millisecond || e.Hist.Count() != 0 {
			t.Errorf("entry %q from %v with %d values", e.Tag, e.Start, e.Hist.Count())
		}
		e.Hist.Merge(h) // what was read can be merged with what was measured
		if e.Hist.Count() != 2*h.Count() {
			t.Error("a histogram that was read does not merge")
		}
	}
}

func TestLogRefuses(t *testing.T) {
	t.Parallel()
	w, err := NewLogWriter(&bytes.Buffer{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"", "a b", "a,b", "a\nb"} {
		if w.Write(tag, 0, 0, New()) == nil {
			t.Errorf("tag %q was accepted", tag)
		}
	}
	for text, want := range map[string]string{
		"# comment\nnonsense\n":         "line 2",
		"Tag=a,0.0,1.0,2.0,HISTFAAAA\n": "line 1",
		"Tag=a,0.0,1.0\n":               "line 1",
		"Tag=a,x,1.0,2.0,HISTFAAAA\n":   "line 1",
	} {
		if _, err := ReadLog(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
