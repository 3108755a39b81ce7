//go:build linux

package drive

import (
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
)

// watch observes the sender itself: what it has in flight, what it consumes, how long the garbage collector stops it.
type watch struct {
	clock    clock.Clock
	from, to clock.Instant // the window

	last  clock.Instant // when requests in flight were counted last
	level int64         // how many there were
	area  float64       // integral of that number over the window, in requests times ns

	open, closed  bool // the window has begun, is over
	opened, ended clock.Instant
	before, after usage
	pauses        debug.GCStats
	pausesBefore  int64
	pausedBefore  time.Duration
	gcPauses      int64
	gcPauseTotal  time.Duration
	calendar      func() time.Duration // the calendar clock's lead over the monotonic one; nil for the real ones
	leadBefore    time.Duration
	leadAfter     time.Duration

	checked clock.Instant // when the thread was last found busy or not
	used    time.Duration // processor time at that instant
	busy    int           // consecutive spans without sleep
}

// count notes that inFlight requests are in flight from now on.
func (w *watch) count(now clock.Instant, inFlight int64) {
	if span := min(now, w.to).Sub(max(w.last, w.from)); span > 0 {
		w.area += float64(w.level) * float64(span)
	}
	w.last, w.level = now, inFlight
}

// turn looks at the thread when the window begins, when it ends, and, under a real-time priority, now and then.
func (w *watch) turn(now clock.Instant, t *thread) {
	if !w.open && now >= w.from {
		w.open, w.opened = true, now
		w.before = threadUsage()
		w.leadBefore = w.lead()
		debug.ReadGCStats(&w.pauses)
		w.pausesBefore, w.pausedBefore = w.pauses.NumGC, w.pauses.PauseTotal
	}
	if !w.closed && now >= w.to {
		w.finish(now)
	}
	if t.realTime && w.wall(now.Sub(w.checked)) >= busySpan {
		w.guard(now, t)
	}
}

// finish ends the observation of the window, at the latest when the run ends.
func (w *watch) finish(now clock.Instant) {
	if !w.open || w.closed {
		return
	}
	w.closed, w.ended = true, now
	w.after = threadUsage()
	w.leadAfter = w.lead()
	debug.ReadGCStats(&w.pauses)
	w.gcPauses, w.gcPauseTotal = w.pauses.NumGC-w.pausesBefore, w.pauses.PauseTotal-w.pausedBefore
}

// lead returns the calendar clock's lead over the monotonic one. It changes when somebody sets the calendar, and when the computer was
// suspended, during which the monotonic clock stands still.
func (w *watch) lead() time.Duration {
	if w.calendar != nil {
		return w.calendar()
	}
	var calendar, monotonic unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &calendar) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0
	}
	return time.Duration(calendar.Nano() - monotonic.Nano())
}

// step returns by how much the calendar clock was set during the window.
func (w *watch) step() time.Duration { return w.leadAfter - w.leadBefore }

// guard takes the real-time priority from a thread that hardly sleeps: it would keep ordinary threads, the server's among them, from
// its core.
func (w *watch) guard(now clock.Instant, t *thread) {
	used := threadUsage().cpu
	if float64(used-w.used) > busyLimit*float64(w.wall(now.Sub(w.checked))) {
		w.busy++
	} else {
		w.busy = 0
	}
	w.checked, w.used = now, used
	if w.busy >= 2 {
		t.drop()
	}
}

// inFlight returns the mean number of requests in flight over the window.
func (w *watch) inFlight() float64 {
	if w.to <= w.from {
		return 0
	}
	return w.area / float64(w.to.Sub(w.from))
}

// cpu returns the share of a core used in the window.
func (w *watch) cpu() float64 {
	if w.ended <= w.opened {
		return 0
	}
	return float64(w.after.cpu-w.before.cpu) / float64(w.wall(w.ended.Sub(w.opened)))
}

// wall returns how long d took on the wall clock, which is what processor time is compared with.
func (w *watch) wall(d time.Duration) time.Duration { return clock.Wall(w.clock, d) }
