package control

import (
	"time"

	"spillway/clock"
)

// chunk is how many waiters are allocated at a time. The queue grows by whole chunks and moves none of its waiters: an uncontrolled
// server can have a million of them, and copying those under the Gate's lock would stop the server for tens of milliseconds.
const chunk = 256

// waiting is the queue of a Gate: a list threaded through chunks of waiters, oldest first. A waiter that goes away is unlinked at
// once, wherever it stands, so the memory in use is bounded by the largest number that ever waited together, however many came and
// went meanwhile. Freed waiters are used again; once the queue has been as long as it gets, nothing is allocated.
type waiting struct {
	chunks []*[chunk]waiter
	made   uint32 // waiters ever handed out, the sentinel included
	free   uint32 // head of the list of freed waiters; 0 for none
	n      int    // how many wait
}

// waiter is one request in the queue. Waiter 0 is the sentinel: its next is the oldest, its prev the newest.
type waiter struct {
	request    Request
	next, prev uint32
	life       uint32 // odd while it waits; a Place of an earlier life no longer matches
}

func newWaiting() waiting {
	return waiting{chunks: []*[chunk]waiter{new([chunk]waiter)}, made: 1}
}

func (q *waiting) at(i uint32) *waiter { return &q.chunks[i/chunk][i%chunk] }

// oldest returns the waiter whose turn is next, nil when nobody waits.
func (q *waiting) oldest() *waiter {
	if q.n == 0 {
		return nil
	}
	return q.at(q.at(0).next)
}

// newest returns the waiter that came last, nil when nobody waits.
func (q *waiting) newest() *waiter {
	if q.n == 0 {
		return nil
	}
	return q.at(q.at(0).prev)
}

// age returns for how long the oldest has been waiting, 0 when nobody is.
func (q *waiting) age(now clock.Instant) time.Duration {
	w := q.oldest()
	if w == nil {
		return 0
	}
	return now.Sub(w.request.Arrived)
}

// push appends r and returns where it stands.
func (q *waiting) push(r *Request) Place {
	i := q.free
	if i != 0 {
		q.free = q.at(i).next
	} else {
		i = q.made
		q.made++
		if int(i/chunk) == len(q.chunks) {
			q.chunks = append(q.chunks, new([chunk]waiter))
		}
	}
	w, sentinel := q.at(i), q.at(0)
	w.request = *r
	w.life++
	w.prev, w.next = sentinel.prev, 0
	q.at(sentinel.prev).next = i
	sentinel.prev = i
	q.n++
	return Place(w.life)<<32 | Place(i)
}

// find returns the waiter at p; ok is false when it is no longer there, or p never was a place.
func (q *waiting) find(p Place) (w *waiter, ok bool) {
	i := uint32(p)
	if i == 0 || i >= q.made {
		return nil, false
	}
	w = q.at(i)
	return w, w.life == uint32(p>>32) && w.life%2 == 1
}

// remove takes w out of the queue.
func (q *waiting) remove(w *waiter) {
	i := q.at(w.prev).next
	q.at(w.prev).next = w.next
	q.at(w.next).prev = w.prev
	w.life++
	w.next = q.free
	q.free = i
	q.n--
}
