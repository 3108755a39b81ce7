//go:build linux

package web

import (
	"context"
	"sync"
	"time"

	"spillway/clock"
)

// cores is the run queue of requests that compute: so many at a time, first come first served. Without it they would queue in Go's scheduler,
// where no controller sees them.
type cores struct {
	clock clock.Clock
	mu    struct {
		sync.Mutex
		free    int
		waiting []*waiter // in order; the first one is at head
		head    int
	}
}

// waiter is a goroutine that waits for a core.
type waiter struct {
	since clock.Instant
	turn  chan struct{}
	gone  bool
}

func newCores(n int, c clock.Clock) *cores {
	q := &cores{clock: c}
	q.mu.free = n
	return q
}

// take waits for a core and returns how long that took.
func (q *cores) take(ctx context.Context) (waited time.Duration, err error) {
	q.mu.Lock()
	if q.mu.free > 0 {
		q.mu.free--
		q.mu.Unlock()
		return 0, nil
	}
	w := &waiter{since: q.clock.Now(), turn: make(chan struct{})}
	q.mu.waiting = append(q.mu.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.turn:
		return q.clock.Now().Sub(w.since), nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.turn: // in the last moment
		q.pass()
	default:
		w.gone = true
		q.skip()
	}
	return q.clock.Now().Sub(w.since), ctx.Err()
}

// give gives a core back.
func (q *cores) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pass()
}

// pass hands a core to whoever is next. It is called with mu held.
func (q *cores) pass() {
	q.skip()
	if q.mu.head == len(q.mu.waiting) {
		q.mu.free++
		return
	}
	next := q.mu.waiting[q.mu.head]
	q.advance()
	close(next.turn)
}

// skip forgets those at the head who have given up. It is called with mu held.
func (q *cores) skip() {
	for q.mu.head < len(q.mu.waiting) && q.mu.waiting[q.mu.head].gone {
		q.advance()
	}
}

// advance takes out the first one. What is in front of the head is reclaimed when it is as much as what follows.
func (q *cores) advance() {
	q.mu.waiting[q.mu.head] = nil
	q.mu.head++
	if 2*q.mu.head >= len(q.mu.waiting) {
		n := copy(q.mu.waiting, q.mu.waiting[q.mu.head:])
		clear(q.mu.waiting[n:])
		q.mu.waiting, q.mu.head = q.mu.waiting[:n], 0
	}
}

// look returns the age of the oldest waiter, and whether every core is busy.
func (q *cores) look(now clock.Instant) (delay time.Duration, saturated bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.skip()
	if q.mu.head < len(q.mu.waiting) {
		delay = max(now.Sub(q.mu.waiting[q.mu.head].since), 0)
	}
	return delay, q.mu.free == 0
}
