package hist

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// values draws durations of every size, the ends of the range among them.
func values(t *rapid.T, name string) []int64 {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(0, 3000), rapid.Int64Range(0, int64(Highest)), rapid.SampledFrom([]int64{0, 1, 2047, 2048, 4095, 4096, int64(Highest)}),
	), 1, 200).Draw(t, name)
}

func recorded(list []int64) *Hist {
	h := New()
	for _, v := range list {
		h.Record(time.Duration(v))
	}
	return h
}

// reread returns what a log gives back of h.
func reread(t interface{ Fatal(...any) }, h *Hist) *Hist {
	var b bytes.Buffer
	w, err := NewLogWriter(&b, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("x", 0, 0, h); err != nil {
		t.Fatal(err)
	}
	list, err := ReadLog(&b)
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Hist
}

var percentiles = []float64{0, 0.1, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 100}

// sameButMax compares two histograms bucket by bucket, through percentiles of every rank.
func sameButMax(t *rapid.T, what string, got, want *Hist) {
	if got.Count() != want.Count() {
		t.Fatalf("%s: count %d, want %d", what, got.Count(), want.Count())
	}
	for rank := int64(1); rank <= want.Count(); rank++ {
		p := 100 * float64(rank) / float64(want.Count())
		if g, w := got.Percentile(p), want.Percentile(p); g != w && min(g, want.Max()) != w {
			t.Fatalf("%s: p%v is %v, want %v", what, p, g, w)
		}
	}
}

// TestMergingIsTheUnion merges the histograms of two repeats, as they were measured and as they are read back, in every combination.
func TestMergingIsTheUnion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := values(t, "a"), values(t, "b")
		union := recorded(append(append([]int64{}, a...), b...))
		for what, two := range map[string][2]*Hist{
			"measured": {recorded(a), recorded(b)}, "read": {reread(t, recorded(a)), reread(t, recorded(b))},
			"read into measured": {recorded(a), reread(t, recorded(b))}, "measured into read": {reread(t, recorded(a)), recorded(b)},
		} {
			both := New()
			both.Merge(two[0])
			both.Merge(two[1])
			sameButMax(t, what, both, union)
			two[0].Merge(two[1])
			sameButMax(t, what+", in place", two[0], union)
		}
		if both := recorded(a); true {
			both.Merge(recorded(b))
			if both.Max() != union.Max() || both.Mean() != union.Mean() {
				t.Fatalf("maximum %v and mean %v, of the union %v and %v", both.Max(), both.Mean(), union.Max(), union.Mean())
			}
		}
	})
}

func TestPercentilesRiseToTheMaximum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := recorded(values(t, "values"))
		for what, h := range map[string]*Hist{"measured": h, "read": reread(t, h)} {
			last := time.Duration(-1)
			for _, p := range percentiles {
				v := h.Percentile(p)
				if v < last {
					t.Fatalf("%s: p%v is %v, below the one before it, %v", what, p, v, last)
				}
				last = v
			}
			if last != h.Max() {
				t.Fatalf("%s: p100 is %v, the maximum %v", what, last, h.Max())
			}
		}
	})
}

// TestReadAsTheLibraryDoes holds what is read against the library's own decoder.
func TestReadAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := recorded(values(t, "values"))
		text, err := h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := hdrhistogram.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := new(decoder).decode(string(text))
		if err != nil {
			t.Fatal(err)
		}
		got := restore(ours)
		if got.Count() != theirs.TotalCount() || int64(got.Max()) != theirs.Max() || math.Abs(float64(got.Mean())-theirs.Mean()) > 1 {
			t.Fatalf("count %d, maximum %d, mean %d; the library has %d, %d, %v", got.Count(), got.Max(), got.Mean(), theirs.TotalCount(), theirs.Max(), theirs.Mean())
		}
		for _, p := range percentiles[1:] {
			rank := max(math.Ceil(p/100*float64(got.Count())*(1-1e-12)), 1)
			if want := theirs.ValueAtPercentile(100 * rank / float64(got.Count())); int64(got.Percentile(p)) != want {
				t.Fatalf("p%v is %d, want %d", p, got.Percentile(p), want)
			}
		}
	})
}

// TestOwnShapeIsReadHere: what is not decoded here takes 30 times as long.
func TestOwnShapeIsReadHere(t *testing.T) {
	text, err := recorded([]int64{1, 5000, 70_000}).h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	var d decoder
	read := func() {
		if _, err := d.decode(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(20, read); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

// TestOtherShapes reads a histogram that another program made, with fewer digits and another range.
func TestOtherShapes(t *testing.T) {
	t.Parallel()
	other := hdrhistogram.New(1000, int64(2*Highest), 2)
	for _, v := range []int64{1000, 50_000, 1_000_000, int64(Highest) + int64(time.Minute)} {
		if err := other.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := other.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	read, err := new(decoder).decode(string(text))
	if err != nil {
		t.Fatal(err)
	}
	h := restore(read)
	if h.Count() != 4 || math.Abs(float64(h.Percentile(50))-50_000) > 500 || h.Max() < Highest {
		t.Errorf("count %d, median %v, maximum %v", h.Count(), h.Percentile(50), h.Max())
	}
}

// FuzzDecode: what is not a histogram is an error and neither a panic nor a histogram with counts below 0.
func FuzzDecode(f *testing.F) {
	for _, list := range [][]int64{{1}, {5, 5, 4096, int64(Highest)}} {
		text, err := recorded(list).h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(strings.Repeat("A", 64))
	f.Fuzz(func(t *testing.T, text string) {
		read, err := new(decoder).decode(text)
		if err != nil {
			return
		}
		h := restore(read)
		h.read.each(func(low, width, count int64) {
			if low < 0 || width < 1 || count < 1 {
				t.Fatalf("a bucket of %d values from %d on with %d", width, low, count)
			}
		})
	})
}
