//go:build linux

package drive

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"spillway/clock"
)

// run is one point of load and its senders.
type run struct {
	plan    *Plan
	senders []*sender
	last    meeting // of a run that is cut short: the latest instant that any sender has fired
	next    meeting // and the first that none has, negated
}

// Run generates the load of one point. It returns an error when nothing could be measured, such as when the server cannot be
// reached. When ctx ends it stops sending, drains briefly and returns what was measured, marked as cut short.
func Run(ctx context.Context, p Plan) (Result, error) {
	if err := p.check(); err != nil {
		return Result{}, err
	}
	r := &run{plan: &p}
	for i, source := range append([]Source{p.Generator}, p.More...) {
		r.senders = append(r.senders, &sender{plan: &p, run: r, shard: i, source: source, ctx: ctx})
	}
	r.last.size, r.next.size = len(r.senders), len(r.senders)
	defer r.reportProgress()()

	// Every sender opens its target on its own thread, waits for the others, and they begin at one instant.
	var opened, finished sync.WaitGroup
	start := make(chan clock.Instant)
	errs := make([]error, len(r.senders))
	opened.Add(len(r.senders))
	for i, s := range r.senders {
		finished.Go(func() { errs[i] = s.live(&opened, start) })
	}
	opened.Wait()
	for _, s := range r.senders {
		if s.target == nil {
			close(start)
			finished.Wait()
			return Result{}, errors.Join(errs...)
		}
	}
	// What was left over from setting up is collected now rather than in the window.
	runtime.GC()
	at := p.Clock.Now().Add(clock.On(p.Clock, startDelay))
	for range r.senders {
		start <- at
	}
	finished.Wait()
	return r.result(), errors.Join(errs...)
}

// live is the life of a sender. A start that is closed means that another one could not open its target.
func (s *sender) live(opened *sync.WaitGroup, start <-chan clock.Instant) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.thread = newThread(s.plan.Pace)
	defer s.thread.restore()

	dial, cancel := context.WithTimeout(s.ctx, s.plan.Dial)
	target, err := s.plan.Open(dial, Opening{
		Clock: s.plan.Clock, Settle: s.settle, Spin: s.thread.spin, Shard: s.shard, Shards: len(s.run.senders),
	})
	cancel()
	if err == nil {
		s.target = target
	}
	opened.Done()
	at, ok := <-start
	switch {
	case err != nil:
		return err
	case !ok:
		return target.Close()
	}
	s.begin(at)
	if s.send(); !s.cutShort {
		s.run.last.leave()
	}
	s.drain()
	return s.close()
}

// meeting lets the senders agree on the largest of their values.
type meeting struct {
	mu    sync.Mutex
	size  int // of whom to wait for
	came  int
	left  bool // one has ended its window and does not come
	value clock.Instant
}

// meet brings a value, and returns the largest when all have come. Meanwhile it calls wait, again and again. ok is false if there is
// nothing to agree on, because for one sender the window is over.
func (m *meeting) meet(value clock.Instant, wait func()) (largest clock.Instant, ok bool) {
	m.mu.Lock()
	if m.came == 0 || value > m.value {
		m.value = value
	}
	m.came++
	m.mu.Unlock()
	for {
		m.mu.Lock()
		done := m.came >= m.size
		largest, ok = m.value, !m.left
		m.mu.Unlock()
		if done {
			return largest, ok
		}
		wait()
	}
}

// leave stands in for a sender that has ended its window.
func (m *meeting) leave() {
	m.mu.Lock()
	m.size--
	m.left = true
	m.mu.Unlock()
}

// progressInterval is how often Plan.Progress is called.
const progressInterval = 200 * time.Millisecond

// reportProgress calls Plan.Progress until the function it returns is called, which waits for the last call to end.
func (r *run) reportProgress() (stop func()) {
	if r.plan.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			r.plan.Progress(r.snapshot())
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// snapshot adds up where the senders stand; the run is in the phase of the first.
func (r *run) snapshot() Snapshot {
	first := r.senders[0]
	snap := Snapshot{Phase: Phase(first.seen.phase.Load()), Total: clock.Wall(r.plan.Clock, r.plan.WarmUp+r.plan.Window)}
	for _, s := range r.senders {
		snap.Fired += s.seen.fired.Load()
		snap.InFlight += s.seen.inFlight.Load()
		snap.OK += s.seen.ok.Load()
		snap.Late += s.seen.late.Load()
	}
	if snap.Phase > Dialling {
		snap.Elapsed = max(clock.Wall(r.plan.Clock, r.plan.Clock.Now().Sub(clock.Instant(first.seen.start.Load()))), 0)
	}
	return snap
}
