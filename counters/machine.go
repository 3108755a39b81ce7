//go:build linux

package counters

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/counters/perf"
	"spillway/counters/sysfs"
)

// Machine is what sources look at: files, the kernel's counters, time. Tests give parts of it a script.
type Machine struct {
	Root  sysfs.Root
	Perf  perf.Kernel
	Clock clock.Clock
	// Mkdir and Rmdir make and remove groups of the kernel's resource control.
	Mkdir, Rmdir func(path string) error
	// Wait returns after d or when ctx is done.
	Wait func(ctx context.Context, d time.Duration)
}

// Here returns this machine. Its clock is that of Boot, so that series of several processes stand on one axis.
func Here() *Machine {
	return &Machine{
		Perf:  perf.Host{},
		Clock: Boot(),
		Mkdir: func(path string) error { return os.Mkdir(path, 0o755) },
		Rmdir: os.Remove,
		Wait: func(ctx context.Context, d time.Duration) {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		},
	}
}

// bootClock tells the time since the machine was started.
type bootClock struct {
	began  time.Time
	offset time.Duration
}

// Boot returns a clock whose instant 0 is when the machine was started: CLOCK_MONOTONIC, which is the same in all processes of a machine.
func Boot() clock.Clock {
	var ts unix.Timespec
	began := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return &bootClock{began: began} // cannot happen on Linux; the clock then counts from here
	}
	return &bootClock{began: began, offset: time.Duration(ts.Nano())}
}

// Now implements clock.Clock. Go's own reading of the same clock needs no system call.
func (c *bootClock) Now() clock.Instant { return clock.Instant(c.offset + time.Since(c.began)) }

// threadCPU returns the processor time that the calling thread has had.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
