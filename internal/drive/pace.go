//go:build linux

package drive

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"spillway/internal/load"
)

// Pace says how the sender passes the time until the next request is due.
type Pace string

// The paces.
const (
	PaceAuto  Pace = "auto"  // sleep, with a real-time priority where the system permits it and has cores enough
	PaceSleep Pace = "sleep" // sleep until shortly before the instant, then poll
	PaceSpin  Pace = "spin"  // poll all the time: the least send lag, at the price of a whole core
)

func (p Pace) check() error {
	switch p {
	case PaceAuto, PaceSleep, PaceSpin:
		return nil
	}
	return fmt.Errorf("pace %q: unknown, use %s, %s or %s", p, PaceAuto, PaceSleep, PaceSpin)
}

const (
	// spinTail is polled away before each instant: about what a sleeping thread needs to get going again.
	spinTail = 30 * time.Microsecond
	// fewCores is the number of cores below which PaceAuto takes no real-time priority. With a server that fills one of two cores, a
	// real-time sender was measured to stall for 50 ms and more at a time, an ordinary one not (docs/adr/0009).
	fewCores = 4
	// lowestRealTime suffices, since every real-time thread goes before all ordinary ones.
	lowestRealTime = 1
	// busyLimit and busySpan say when a real-time thread has become a danger to the machine: it has hardly slept for two spans.
	busyLimit = 0.95
	busySpan  = 100 * time.Millisecond
)

// thread is the operating system thread that the sender is locked to.
type thread struct {
	spin     time.Duration // see Opening.Spin
	realTime bool
	dropped  bool // real time was given up
	slack    int  // timer slack to restore in ns; 0 if it was not changed
	old      unix.SchedAttr
}

// newThread prepares the calling thread, to which the goroutine must be locked.
func newThread(p Pace) *thread {
	t := &thread{spin: spinTail}
	// By default the kernel may delay a timer by 50 µs to save a wake-up.
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil && slack > 0 {
		if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil {
			t.slack = slack
		}
	}
	switch p {
	case PaceSpin:
		t.spin = load.SpinAlways
	case PaceAuto:
		if runtime.NumCPU() >= fewCores {
			t.raise()
		}
	}
	return t
}

// raise asks for a real-time priority. Most systems refuse it to ordinary users, which is no error.
func (t *thread) raise() {
	old, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return
	}
	t.old = *old
	attr := unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: lowestRealTime,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK, // the runtime's other threads stay ordinary
	}
	t.realTime = unix.SchedSetAttr(0, &attr, 0) == nil
}

// drop gives the real-time priority back because the thread no longer sleeps.
func (t *thread) drop() {
	t.lower()
	t.dropped = true
}

func (t *thread) lower() {
	if !t.realTime {
		return
	}
	// Clearing the reset flag takes a privilege that raising may not have taken; keeping it is harmless.
	attr := t.old
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
		_ = unix.SchedSetAttr(0, &attr, 0)
	}
	t.realTime = false
}

// restore leaves the thread as it was found, for the next goroutine that runs on it.
func (t *thread) restore() {
	t.lower()
	if t.slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(t.slack), 0, 0, 0)
	}
}

// usage is what the calling thread has consumed since it began.
type usage struct {
	cpu         time.Duration
	preemptions int64
}

func threadUsage() usage {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &ru) != nil {
		return usage{}
	}
	return usage{time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), ru.Nivcsw}
}
