//go:build linux

package target

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/hist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
)

// TestRingOutOfOrder: a ring whose requests are answered in any order keeps those that are not, in their order.
func TestRingOutOfOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		var open []uint64
		next := uint64(0)
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			if len(open) == 0 || rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				r.push(&reqlog.Record{Seq: next})
				open = append(open, next)
				next++
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			r.answer(open[i])
			open = append(open[:i], open[i+1:]...)
			if len(open) > 0 && r.first != open[0] || len(open) == 0 && r.len() != 0 {
				t.Fatalf("the ring begins at %d and holds %d, open are %v", r.first, r.len(), open)
			}
			answered := 0
			for p := r.first; p != r.tail; p++ {
				if r.answered(p) {
					answered++
				}
				if r.at(p).Seq != p {
					t.Fatalf("at %d is request %d", p, r.at(p).Seq)
				}
			}
			if r.len()-answered != len(open) {
				t.Fatalf("%d of %d are answered, %d are open", answered, r.len(), len(open))
			}
		}
	})
}

func TestScaleNeeded(t *testing.T) {
	t.Parallel()
	late := func(n int, by time.Duration) *hist.Hist {
		h := hist.New()
		for range n {
			h.Record(by)
		}
		return h
	}
	for name, tc := range map[string]struct {
		state   modelState
		network time.Duration
		want    int
	}{
		"nothing was late":        {modelState{replies: 5000}, 5 * time.Microsecond, 100},
		"a tenth of a percent":    {modelState{replies: 5000, late: late(5, time.Second)}, 5 * time.Microsecond, 100},
		"more":                    {modelState{replies: 5000, late: late(6, 5*time.Microsecond)}, 5 * time.Microsecond, 200},
		"rounded up":              {modelState{replies: 5000, late: late(6, 551*time.Nanosecond)}, 5 * time.Microsecond, 120},
		"no network":              {modelState{replies: 5000, late: late(6, 1)}, 0, load.NoScale},
		"no such scale":           {modelState{replies: 5000, late: late(6, time.Minute)}, time.Nanosecond, 1_000_000},
		"a reply without instant": {modelState{replies: 10, untimed: 1}, time.Second, load.NoScale},
	} {
		if got := tc.state.scaleNeeded(100, tc.network); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	for scale, want := range map[float64]int{1: 1, 1.01: 2, 9.5: 10, 99.1: 100, 101: 110, 1234: 1300, 1e9: 1_000_000} {
		if got := roundScale(scale); got != want {
			t.Errorf("%v is rounded to %d, want %d", scale, got, want)
		}
	}
}
