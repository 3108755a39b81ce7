//go:build linux

package drive

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/internal/load"
)

// onThread runs f on a thread of its own, which ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

func policy(t *testing.T) uint32 {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attr.Policy
}

func TestThreadIsRestored(t *testing.T) {
	t.Parallel()
	for _, pace := range []Pace{PaceAuto, PaceSleep, PaceSpin} {
		onThread(func() {
			before := policy(t)
			slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
			if err != nil {
				t.Error(err)
			}
			th := newThread(pace)
			if during := policy(t); th.realTime != (during == unix.SCHED_FIFO) || th.realTime && pace != PaceAuto {
				t.Errorf("%s: real time %v, policy %d", pace, th.realTime, during)
			}
			if th.realTime && runtime.NumCPU() < fewCores && th.spin != 0 {
				t.Errorf("%s: polls for %v under a real-time priority on %d cores", pace, th.spin, runtime.NumCPU())
			}
			if pace == PaceSpin && th.spin != load.SpinAlways || pace == PaceSleep && th.spin != spinTail {
				t.Errorf("%s: polls for %v", pace, th.spin)
			}
			th.restore()
			if after := policy(t); after != before {
				t.Errorf("%s: policy %d before, %d after", pace, before, after)
			}
			if now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || now != slack {
				t.Errorf("%s: timer slack %d before, %d after, %v", pace, slack, now, err)
			}
		})
	}
}

// TestBusyThreadLosesItsPriority: a thread that does not sleep must not keep a real-time priority. The clock is moved by hand, so
// that the little that the test itself uses is more than all of it, or next to nothing.
func TestBusyThreadLosesItsPriority(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		onThread(func() {
			th := &thread{realTime: true}
			// lower gives back what was there before, which is what the thread has now.
			if old, err := unix.SchedGetAttr(0, 0); err == nil {
				th.old = *old
			}
			w, now := watch{from: clock.Never, to: clock.Never}, clock.Instant(0)
			for range 3 {
				now = now.Add(busySpan)
				if busy {
					w.used = -time.Hour
				}
				w.turn(now, th)
			}
			if th.dropped != busy || th.realTime == busy {
				t.Errorf("busy %v: dropped %v, real time %v", busy, th.dropped, th.realTime)
			}
		})
	}
}
