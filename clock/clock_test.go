package clock_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"spillway/clock"
)

func TestInstant(t *testing.T) {
	t.Parallel()
	if got := clock.Instant(5).Add(3); got != 8 {
		t.Errorf("5 + 3 = %d", got)
	}
	if got := clock.Instant(8).Sub(5); got != 3*time.Nanosecond {
		t.Errorf("8 - 5 = %v", got)
	}
	for _, got := range []clock.Instant{
		clock.Never.Add(-1), clock.Never.Add(1), clock.Instant(1).Add(math.MaxInt64), (clock.Never - 1).Add(2),
	} {
		if got != clock.Never {
			t.Errorf("got %v, want never", got)
		}
	}
	if got := clock.Instant(-5).Add(math.MaxInt64); got != math.MaxInt64-5 {
		t.Errorf("got %d, which is before never", got)
	}
	if got := clock.Instant(1_500_000).String() + " " + clock.Never.String(); got != "1.5ms never" {
		t.Errorf("printed as %q", got)
	}
	if got := clock.Instant(1_500_000_000).Seconds(); got != 1.5 {
		t.Errorf("%v seconds, want 1.5", got)
	}
}

func TestReal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := clock.NewReal()
		<-time.After(time.Hour)
		if got := c.Now(); got != clock.Instant(time.Hour) {
			t.Errorf("an hour after the start it is %v", got)
		}
		if !c.Began().Equal(began) {
			t.Errorf("began at %v, want %v", c.Began(), began)
		}
	})
}
