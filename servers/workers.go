//go:build linux

package servers

import (
	"errors"
	"sync"

	"spillway/clock"
	"spillway/internal/memproto"
)

// Workers are goroutines of a Backend for what takes longer than an event loop may be away from its sockets. They take tasks in the order in which these
// were submitted.
type Workers[T any] struct {
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		ready  sync.Cond
		queue  []errand[T] // the first head of them have been taken
		head   int
		closed bool
	}
}

// errand is a task for the workers.
type errand[T any] struct {
	call  Call
	task  T
	since clock.Instant // when it was submitted
}

// Start starts n workers. Each calls worker once, for a function of its own that does one task after the other, so that what it keeps between two of them
// is for one goroutine.
func (w *Workers[T]) Start(n int, worker func() (do func(T))) {
	w.mu.ready.L = &w.mu
	for range n {
		w.running.Go(func() {
			do := worker()
			for e, ok := w.take(); ok; e, ok = w.take() {
				waited := e.call.now().Sub(e.since)
				do(e.task)
				e.call.dispatch.resume(e.call.q, waited)
			}
		})
	}
}

// take waits for an errand; ok is false when there is to be none any more.
func (w *Workers[T]) take() (e errand[T], ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.head == len(w.mu.queue) && !w.mu.closed {
		w.mu.ready.Wait()
	}
	if w.mu.closed {
		return e, false
	}
	e, w.mu.queue[w.mu.head] = w.mu.queue[w.mu.head], e
	if w.mu.head++; w.mu.head == len(w.mu.queue) {
		w.mu.queue, w.mu.head = w.mu.queue[:0], 0
	}
	return e, true
}

// Submit has a worker do task, which is c's, and go on with c after that. Step returns what Submit returns. For how long the task has waited for a worker is
// among the waits that a controller hears of.
func (w *Workers[T]) Submit(c Call, task T) Pause {
	e := errand[T]{call: c, task: task, since: c.now()}
	w.mu.Lock()
	if w.mu.head > len(w.mu.queue)/2 { // workers that never run out of tasks never empty the queue
		n := copy(w.mu.queue, w.mu.queue[w.mu.head:])
		clear(w.mu.queue[n:])
		w.mu.queue, w.mu.head = w.mu.queue[:n], 0
	}
	w.mu.queue = append(w.mu.queue, e)
	w.mu.Unlock()
	w.mu.ready.Signal()
	return Pause{kind: pauseResume, working: true}
}

// Stop waits for the workers to end what they are at. What nobody has begun by then is never done.
func (w *Workers[T]) Stop() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.mu.ready.Broadcast()
	w.running.Wait()
}

// OnlyKey returns the only key of a get, for backends to which a key is a question. what says what a get asks for when it has several.
func OnlyKey(cmd *memproto.Command, what string) ([]byte, error) {
	if cmd.Verb == memproto.Get { // what follows the key of a meta get are flags
		keys := 0
		for range cmd.ItemKeys {
			if keys++; keys > 1 {
				return nil, errors.New("one get asks " + what + " here: pipeline several")
			}
		}
	}
	return cmd.Key, nil
}
