//go:build linux

package servers

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/memproto"
)

// stopped is a clock that is set by hand.
type stopped struct{ at atomic.Int64 }

func (c *stopped) Now() clock.Instant { return clock.Instant(c.at.Load()) }

// aCall returns a call that is not one of any connection's.
func aCall() Call { return Call{dispatch: &dispatch{clock: new(stopped)}, q: new(call)} }

// TestWorkersTellTheWait: what a task waits for a worker is among the waits of its request, what the worker takes is not.
func TestWorkersTellTheWait(t *testing.T) {
	t.Parallel()
	var w Workers[func()]
	w.Start(1, func() func(func()) { return func(do func()) { do() } })
	now := new(stopped)
	calls := [3]Call{}
	begun, goOn := make(chan struct{}), make(chan struct{})
	for i := range calls {
		calls[i] = Call{dispatch: &dispatch{clock: now}, q: new(call)}
		calls[i].q.request.Waited = time.Millisecond // in the Gate
		w.Submit(calls[i], func() { begun <- struct{}{}; <-goOn })
	}
	for range calls {
		<-begun
		now.at.Add(int64(10 * time.Millisecond))
		goOn <- struct{}{}
	}
	w.Stop()
	for i, c := range calls {
		if want := time.Duration(10*i+1) * time.Millisecond; c.q.request.Waited != want || !c.q.resumed {
			t.Errorf("call %d has waited for %v, want %v; resumed: %v", i, c.q.request.Waited, want, c.q.resumed)
		}
	}
}

// TestWorkers: every task is done once, by one of the workers at a time, in order where there is one of them; none is begun after the end.
func TestWorkers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4} {
		const tasks = 1000
		var w Workers[int]
		var busy, most, workers atomic.Int64
		done := make(chan int, tasks)
		w.Start(n, func() func(int) {
			workers.Add(1)
			last := 0
			return func(i int) {
				if b := busy.Add(1); b > most.Load() {
					most.Store(b)
				}
				if i <= last {
					t.Errorf("%d came after %d", i, last)
				}
				last = i
				busy.Add(-1)
				done <- i
			}
		})
		for i := range tasks {
			w.Submit(aCall(), i+1)
		}
		seen := map[int]bool{}
		for range tasks {
			seen[<-done] = true
		}
		w.Stop()
		w.Submit(aCall(), tasks+1)
		if len(seen) != tasks || most.Load() > int64(n) || workers.Load() != int64(n) || len(done) > 0 {
			t.Errorf("%d tasks were done, by %d of %d workers at once, %d later", len(seen), most.Load(), workers.Load(), len(done))
		}
	}
}

// TestWorkersStopInBetween: the end does not wait for what nobody has begun.
func TestWorkersStopInBetween(t *testing.T) {
	t.Parallel()
	var w Workers[func()]
	w.Start(1, func() func(func()) { return func(do func()) { do() } })
	begun, release := make(chan struct{}), make(chan struct{})
	w.Submit(aCall(), func() { close(begun); <-release })
	w.Submit(aCall(), func() { t.Error("it was begun") })
	<-begun
	stopped := make(chan struct{})
	go func() {
		w.Stop()
		close(stopped)
	}()
	// A stop that has not come yet would let the second begin; so the first is let go by the stop itself.
	for closed := false; !closed; runtime.Gosched() {
		w.mu.Lock()
		closed = w.mu.closed
		w.mu.Unlock()
	}
	close(release)
	<-stopped
}

// TestWorkersQueueStaysSmall: the queue of workers that never run out of tasks takes as much memory as waits in it, not as much as has passed through it.
// What waits is begun in the order in which it was submitted all the same.
func TestWorkersQueueStaysSmall(t *testing.T) {
	t.Parallel()
	const waiting, tasks = 10, 10_000
	var w Workers[int]
	begun := make(chan int)
	w.Start(1, func() func(int) { return func(i int) { begun <- i } })
	defer w.Stop()
	call := aCall()
	for i := range tasks + waiting {
		if i < tasks {
			w.Submit(call, i)
		}
		if i >= waiting {
			if got := <-begun; got != i-waiting {
				t.Fatalf("%d was begun, want %d", got, i-waiting)
			}
		}
	}
	if n := cap(w.mu.queue); n > 8*waiting { // nobody is at it: all have been begun
		t.Errorf("the queue has room for %d tasks, though no more than %d ever waited", n, waiting)
	}
}

// TestWorkersAllocateNothing: a queue that has grown once is used again.
func TestWorkersAllocateNothing(t *testing.T) {
	var w Workers[int]
	done := make(chan int)
	w.Start(1, func() func(int) { return func(i int) { done <- i } })
	defer w.Stop()
	call := aCall()
	if n := testing.AllocsPerRun(100, func() {
		for i := range 8 {
			w.Submit(call, i)
		}
		for range 8 {
			<-done
		}
	}); n > 0.5 {
		t.Errorf("%v allocations for eight tasks", n)
	}
}

func TestOnlyKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"get max\r\n": "max", "mg max v k\r\n": "max", "get max mean\r\n": ""} {
		var cmd memproto.Command
		p := memproto.Parser{MaxItem: 1 << 20}
		if _, s := p.Parse([]byte(text), &cmd); s != memproto.Ready {
			t.Fatalf("%q: %v", text, s)
		}
		key, err := OnlyKey(&cmd, "for one thing")
		if string(key) != want || (err == nil) != (want != "") || err != nil && err.Error() != "one get asks for one thing here: pipeline several" {
			t.Errorf("%q: %q, %v", text, key, err)
		}
	}
}
