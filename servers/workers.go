//go:build linux

package servers

import (
	"errors"
	"sync"

	"spillway/internal/memproto"
)

// Workers are goroutines of a Backend for what takes longer than an event loop may be away from its sockets. They take tasks in the order in which these
// were submitted.
type Workers[T any] struct {
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		ready  sync.Cond
		queue  []T // the first head of them have been taken
		head   int
		closed bool
	}
}

// Start starts n workers. Each calls worker once, for a function of its own that does one task after the other, so that what it keeps between two of them
// is for one goroutine.
func (w *Workers[T]) Start(n int, worker func() (do func(T))) {
	w.mu.ready.L = &w.mu
	for range n {
		w.running.Go(func() {
			do := worker()
			for t, ok := w.take(); ok; t, ok = w.take() {
				do(t)
			}
		})
	}
}

// take waits for a task; ok is false when there is to be none any more.
func (w *Workers[T]) take() (t T, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.head == len(w.mu.queue) && !w.mu.closed {
		w.mu.ready.Wait()
	}
	if w.mu.closed {
		return t, false
	}
	t, w.mu.queue[w.mu.head] = w.mu.queue[w.mu.head], t
	if w.mu.head++; w.mu.head == len(w.mu.queue) {
		w.mu.queue, w.mu.head = w.mu.queue[:0], 0
	}
	return t, true
}

// Submit has a worker do t.
func (w *Workers[T]) Submit(t T) {
	w.mu.Lock()
	w.mu.queue = append(w.mu.queue, t)
	w.mu.Unlock()
	w.mu.ready.Signal()
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
