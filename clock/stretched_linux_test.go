package clock_test

import (
	"math"
	"testing"
	"time"

	"spillway/clock"
)

// TestStretchedClocksAgree: clocks that were made apart, as in two processes, tell the same instants, and those of another scale theirs.
func TestStretchedClocksAgree(t *testing.T) {
	t.Parallel()
	stretched := func(scale int) *clock.Stretched {
		c, err := clock.NewStretched(scale)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b, slow := stretched(10), stretched(10), stretched(1000)
	before := a.Now()
	other := b.Now()
	slower := slow.Now()
	after := a.Now()
	// The places of their anchors are known to a few microseconds of the wall clock at worst.
	const slack = 100 * time.Microsecond / 10
	if other < before.Add(-slack) || other > after.Add(slack) {
		t.Errorf("%v is not between %v and %v", other, before, after)
	}
	if slower < (before.Add(-slack))/100-1 || slower > (after.Add(slack))/100+1 {
		t.Errorf("%v is not a hundredth of %v to %v", slower, before, after)
	}
	if got := a.Wall(3 * time.Microsecond); got != 30*time.Microsecond {
		t.Errorf("3 µs take %v of the wall clock", got)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	c, err := clock.NewStretched(100)
	if err != nil {
		t.Fatal(err)
	}
	if got, real := clock.Scale(c), clock.Scale(clock.NewReal()); got != 100 || real != 1 {
		t.Errorf("scales %d and %d", got, real)
	}
	for d, want := range map[time.Duration]time.Duration{
		time.Microsecond: 100 * time.Microsecond, -time.Microsecond: -100 * time.Microsecond, 0: 0,
		clock.Never.Sub(0): math.MaxInt64, math.MaxInt64 / 99: math.MaxInt64,
	} {
		if got := clock.Wall(c, d); got != want {
			t.Errorf("%v takes %v, want %v", d, got, want)
		}
	}
	if got := clock.On(c, time.Second); got != 10*time.Millisecond {
		t.Errorf("a second is %v", got)
	}
	if got := clock.On(clock.NewReal(), time.Second); got != time.Second {
		t.Errorf("a second is %v", got)
	}
	for _, scale := range []int{0, -1, clock.MaxScale + 1} {
		if _, err := clock.NewStretched(scale); err == nil {
			t.Errorf("a clock of scale %d", scale)
		}
	}
}
