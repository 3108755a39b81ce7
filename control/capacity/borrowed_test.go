package capacity_test

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/capacity"
)

// TestBorrowedEndsFirst: at the first instant what is above a baseline goes, at the second what is below comes back.
func TestBorrowedEndsFirst(t *testing.T) {
	t.Parallel()
	c := capacity.DefaultLimiter()
	c.Baseline = "100,50"
	l := capacity.NewLimiter(c)
	at := func(d time.Duration) clock.Instant { return clock.Instant(0).Add(d) }
	rates := func(now clock.Instant) (list [2]float64) {
		for k := range list {
			list[k], _ = l.Quota(now, uint16(k))
		}
		return list
	}
	if err := l.GrantBorrowed(at(0), []float64{300, 10}, at(3*time.Second), at(5*time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		at   time.Duration
		want [2]float64
		next time.Duration // of the tick
	}{
		{3*time.Second - 1, [2]float64{300, 10}, 3 * time.Second},
		{3 * time.Second, [2]float64{100, 10}, 5 * time.Second},
		{5*time.Second - 1, [2]float64{100, 10}, 5 * time.Second},
		{5 * time.Second, [2]float64{100, 50}, -1},
	} {
		if got := rates(at(step.at)); got != step.want {
			t.Errorf("at %v: %v, want %v", step.at, got, step.want)
		}
		next := l.Tick(at(step.at), control.Signals{})
		if want := at(step.next); step.next >= 0 && next != want || step.next < 0 && next != clock.Never {
			t.Errorf("at %v the next tick is due at %v", step.at, next)
		}
	}
	// What has been saved of the larger rate is cut to what the smaller one allows.
	if _, tokens := l.Quota(at(5*time.Second), 0); tokens > 100 {
		t.Errorf("%g tokens", tokens)
	}
	// A lease cannot end before what is borrowed.
	if err := l.GrantBorrowed(at(6*time.Second), []float64{300, 10}, at(9*time.Second), at(7*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := rates(at(7 * time.Second)); got != [2]float64{100, 50} {
		t.Errorf("after the lease: %v", got)
	}
}
