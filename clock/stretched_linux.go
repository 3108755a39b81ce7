package clock

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// Stretched is the clock of the model ground, on which one modelled nanosecond takes a whole number of nanoseconds of the wall
// clock. Its instants count from when this computer was started (CLOCK_MONOTONIC), so the clocks of two processes on one host agree
// to the nanosecond, without a word between them, if their scales do.
type Stretched struct {
	scale  int64
	anchor time.Time
	offset time.Duration // of anchor on CLOCK_MONOTONIC
}

var _ Clock = (*Stretched)(nil)

// MaxScale is the largest scale: a modelled second is then eleven days.
const MaxScale = 1_000_000

// NewStretched returns a clock that is slower than the wall clock by scale, from 1 to MaxScale.
func NewStretched(scale int) (*Stretched, error) {
	if scale < 1 || scale > MaxScale {
		return nil, fmt.Errorf("time scale %d: must be from 1 to %d", scale, MaxScale)
	}
	c := &Stretched{scale: int64(scale)}
	// Go's clock is CLOCK_MONOTONIC too, but it gives away differences only. So the place of one of its readings is found between
	// two others: the closer they are, the better it is known. What uncertainty is left, some tens of nanoseconds, is stretched
	// time divided by the scale.
	best := time.Duration(1<<63 - 1)
	for range 16 {
		before := time.Now()
		mono, err := monotonic()
		after := time.Now()
		if err != nil {
			return nil, fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
		}
		if gap := after.Sub(before); gap < best {
			best, c.anchor, c.offset = gap, before, mono-gap/2
		}
	}
	return c, nil
}

func monotonic() (time.Duration, error) {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, errno
	}
	return time.Duration(ts.Nano()), nil
}

// Now returns the modelled instant.
func (c *Stretched) Now() Instant {
	return Instant(int64(c.offset+time.Since(c.anchor)) / c.scale)
}

// Scale returns how many nanoseconds of the wall clock one modelled nanosecond takes.
func (c *Stretched) Scale() int { return int(c.scale) }

// Wall returns how long d, which is modelled time, takes on the wall clock.
func (c *Stretched) Wall(d time.Duration) time.Duration { return Wall(c, d) }
