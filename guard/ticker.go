package guard

import (
	"sync"
	"time"

	"spillway/clock"
)

// minPause bounds how often a controller's periodic work is done. A controller that asks to be called at once again must not keep a
// core busy; timers are no more precise than this anyway.
const minPause = 100 * time.Microsecond

// ticker does periodic work in a goroutine of its own until it is over or stopped.
type ticker struct {
	clock   clock.Clock
	work    func() clock.Instant // returns when it is due again
	closing chan struct{}
	running sync.WaitGroup
}

// startTicker does work once, and then whenever it is due. There is no goroutine unless it is ever due again.
func startTicker(c clock.Clock, work func() clock.Instant) *ticker {
	t := &ticker{clock: c, work: work, closing: make(chan struct{})}
	if next := work(); next != clock.Never {
		t.running.Go(func() { t.run(next) })
	}
	return t
}

// stop returns when the work has ended for good. It may be called once.
func (t *ticker) stop() {
	close(t.closing)
	t.running.Wait()
}

func (t *ticker) run(next clock.Instant) {
	timer := time.NewTimer(t.pause(next))
	defer timer.Stop()
	for {
		select {
		case <-t.closing:
			return
		case <-timer.C:
		}
		if next = t.work(); next == clock.Never {
			return
		}
		timer.Reset(t.pause(next))
	}
}

func (t *ticker) pause(next clock.Instant) time.Duration {
	return max(minPause, next.Sub(t.clock.Now()))
}
