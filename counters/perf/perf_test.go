//go:build linux

package perf_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"spillway/counters/perf"
	"spillway/counters/perf/perftest"
)

func TestDelta(t *testing.T) {
	t.Parallel()
	const full48 = 1<<48 - 1
	tests := []struct {
		name      string
		prev, cur uint64
		width     int
		want      uint64
		flags     perf.Flags
	}{
		{"counts on", 10, 25, 64, 15, 0},
		{"stands", 10, 10, 48, 0, 0},
		{"wraps at 24 bits", 1<<24 - 1, 4, 24, 5, perf.Wrapped},
		{"wraps at 32 bits", 1<<32 - 10, 10, 32, 20, perf.Wrapped},
		{"wraps at 44 bits", 1<<44 - 1, 0, 44, 1, perf.Wrapped},
		{"wraps at 48 bits", full48 - 1, 8, 48, 10, perf.Wrapped},
		{"what looks like more than half of the range is a reset", 1 << 31, 1<<31 - 1, 32, 0, perf.Reset},
		{"64 bits never wrap", math.MaxUint64, 5, 64, 0, perf.Reset},
		{"a reset", 1000, 3, 64, 0, perf.Reset},
		{"stands at the end", full48, full48, 48, 0, perf.Saturated},
		{"arrives at the end", full48 - 5, full48, 48, 5, 0},
		{"not a value of so few bits", 1 << 33, 1<<33 + 1, 32, 0, perf.Reset},
	}
	for _, tt := range tests {
		if got, flags := perf.Delta(tt.prev, tt.cur, tt.width); got != tt.want || flags != tt.flags {
			t.Errorf("%s: %d, flags %b; want %d, %b", tt.name, got, flags, tt.want, tt.flags)
		}
	}
}

// Whatever a counter of some width counts, as long as it is less than half of its range between readings, is what Delta returns.
func TestDeltaIsExactAcrossWraps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{24, 32, 44, 48}).Draw(t, "width")
		mask := uint64(1)<<width - 1
		value := rapid.Uint64Max(mask).Draw(t, "first")
		for range 20 {
			step := rapid.Uint64Max(mask/2-1).Draw(t, "step")
			next := (value + step) & mask
			got, flags := perf.Delta(value, next, width)
			if flags&perf.Saturated == 0 && got != step {
				t.Fatalf("from %d to %d in %d bits: %d (%b), want %d", value, next, width, got, flags, step)
			}
			value = next
		}
	})
}

// group opens a group of two events on a kernel that shows what the test says.
func group(t *testing.T, k *perftest.Kernel, width int) *perf.Group {
	t.Helper()
	g, err := perf.Open(k, []perf.Attr{{Type: 7, Config: 1}, {Type: 7, Config: 2}}, width)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// same compares values of which some may be missing.
func same(t *testing.T, what string, got, want []float64) {
	t.Helper()
	equal := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	if d := cmp.Diff(want, got, equal); d != "" {
		t.Errorf("%s: values (-want +got)\n%s", what, d)
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	type counts [2]perftest.Count
	at := func(a, b, enabled, running uint64) counts {
		return counts{{Value: a, Enabled: enabled, Running: running}, {Value: b, Enabled: enabled, Running: running}}
	}
	steps := []struct {
		name  string
		show  counts
		want  []float64
		flags perf.Flags
	}{
		{"the first reading knows nothing", at(1000, 50, 100, 100), []float64{nan, nan}, perf.None},
		{"ran all the time", at(1300, 60, 200, 200), []float64{300, 10}, 0},
		{"ran half of the time: twice as much, of this window alone", at(1400, 65, 400, 300), []float64{200, 10}, perf.Multiplexed},
		{"never ran: nothing is known, and not zero", at(1400, 65, 500, 300), []float64{nan, nan}, perf.None},
		{"ran again: only what fell into this window", at(1450, 70, 600, 400), []float64{50, 5}, 0},
		{"nothing happened: zero is known", at(1450, 70, 700, 500), []float64{0, 0}, 0},
		{"one of the two began again", at(10, 80, 800, 600), []float64{nan, 10}, perf.Reset},
		{"and goes on", at(15, 90, 900, 700), []float64{5, 10}, 0},
		{"times went backwards", at(20, 95, 850, 650), []float64{nan, nan}, perf.None | perf.Reset},
		{"and go on", at(25, 100, 950, 750), []float64{5, 5}, 0},
	}
	var now counts
	k := &perftest.Kernel{At: func(a perf.Attr) perftest.Count { return now[a.Config-1] }}
	g := group(t, k, 64)
	for _, s := range steps {
		now = s.show
		got := make([]float64, 2)
		w, err := g.Read(got)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		same(t, s.name, got, s.want)
		if w.Flags != s.flags {
			t.Errorf("%s: flags %b, want %b", s.name, w.Flags, s.flags)
		}
	}
}

func TestSaturated(t *testing.T) {
	t.Parallel()
	const top = 1<<48 - 1
	value, time := uint64(top-5), uint64(0)
	k := &perftest.Kernel{At: func(perf.Attr) perftest.Count { return perftest.Count{Value: value, Enabled: time, Running: time} }}
	g, err := perf.Open(k, []perf.Attr{{}}, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.SaturateAt(48)
	got := make([]float64, 1)
	read := func(v uint64) perf.Flags {
		value, time = v, time+100
		w, err := g.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		return w.Flags
	}
	read(top - 5)
	if f := read(top); f != 0 || got[0] != 5 {
		t.Errorf("up to the end: %v, flags %b", got, f)
	}
	if f := read(top); f != perf.Saturated || !math.IsNaN(got[0]) {
		t.Errorf("at the end: %v, flags %b; want no value", got, f)
	}
	// A kernel that helps the hardware out counts past it.
	if f := read(top + 7); f != 0 || got[0] != 7 {
		t.Errorf("past the end: %v, flags %b", got, f)
	}
}

func TestReadingThatFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		n    int
		err  error
		want error
	}{
		{"a pinned event without a counter", 0, nil, perf.ErrNotCounting},
		{"a short read", 16, nil, perf.ErrShort},
		{"the processor went offline", -1, unix.ENODEV, unix.ENODEV},
		{"the descriptor was closed", -1, unix.EBADF, unix.EBADF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			value, failing := uint64(0), false
			k := &perftest.Kernel{
				At: func(perf.Attr) perftest.Count {
					return perftest.Count{Value: value, Enabled: 10 * value, Running: 10 * value}
				},
				Fail: func(_ perf.Attr, _ []byte) (int, error, bool) { return tt.n, tt.err, failing },
			}
			g := group(t, k, 64)
			got := make([]float64, 2)
			for range 2 {
				value += 10
				if _, err := g.Read(got); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "before", got, []float64{10, 10})
			failing = true
			w, err := g.Read(got)
			if !errors.Is(err, tt.want) || w.Flags != perf.None {
				t.Errorf("%v, flags %b; want %v and no value", err, w.Flags, tt.want)
			}
			same(t, "while it fails", got, []float64{math.NaN(), math.NaN()})
			// What happened meanwhile belongs to no window.
			failing = false
			for range 2 {
				value += 10
				if _, err := g.Read(got); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "afterwards", got, []float64{10, 10})
		})
	}
}

func TestInterruptedReadGoesOn(t *testing.T) {
	t.Parallel()
	interrupts := 3
	k := &perftest.Kernel{
		At: func(perf.Attr) perftest.Count { return perftest.Count{Value: 1, Enabled: 1, Running: 1} },
		Fail: func(perf.Attr, []byte) (int, error, bool) {
			interrupts--
			return -1, unix.EINTR, interrupts >= 0
		},
	}
	if _, err := group(t, k, 64).Read(make([]float64, 2)); err != nil || interrupts != -1 {
		t.Errorf("%v after %d interrupts were left", err, interrupts)
	}
}

func TestOpenClosesWhatItOpened(t *testing.T) {
	t.Parallel()
	k := &perftest.Kernel{Refuse: func(a perf.Attr) error {
		if a.Config == 3 {
			return unix.EINVAL
		}
		return nil
	}}
	if _, err := perf.Open(k, []perf.Attr{{Config: 1}, {Config: 2}, {Config: 3}}, 64); !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v, want EINVAL", err)
	}
	if k.Left() != 0 {
		t.Errorf("%d events are left open", k.Left())
	}
	for _, attrs := range [][]perf.Attr{nil, make([]perf.Attr, 9)} {
		if _, err := perf.Open(k, attrs, 64); err == nil {
			t.Errorf("a group of %d events", len(attrs))
		}
	}
}

func TestClosedGroup(t *testing.T) {
	t.Parallel()
	k := &perftest.Kernel{At: func(perf.Attr) perftest.Count { return perftest.Count{} }}
	g, err := perf.Open(k, []perf.Attr{{}}, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Read(make([]float64, 1)); !errors.Is(err, unix.EBADF) {
		t.Errorf("%v, want EBADF", err)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	k := &perftest.Kernel{At: func(perf.Attr) perftest.Count { return perftest.Count{} }}
	g := group(t, k, 64)
	dst := make([]float64, 2)
	if n := testing.AllocsPerRun(100, func() { _, _ = g.Read(dst) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
