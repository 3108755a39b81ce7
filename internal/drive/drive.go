//go:build linux

// Package drive runs the load generator in real time: one locked thread that sleeps until a request is due, hands it to a target,
// and reads replies in between. It paces without Go's timers, which are a millisecond late, and watches itself, because a generator
// that is late or starved measures its own trouble and reports it as the server's.
package drive

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// Opening is what a target is built with.
type Opening struct {
	Clock  clock.Clock
	Settle func(*reqlog.Record)
	Spin   time.Duration // how long before an instant the target's Wait polls instead of sleeping; load.SpinAlways for all the time
}

// Plan is one point of load.
type Plan struct {
	Generator *load.Generator // its instants count from the start of the warm-up; it should end at WarmUp+Window
	Classes   []load.Class    // of the generator's workload, in its order

	// Open connects to the server. It is called once, on the sender's thread, and is to give up when ctx ends.
	Open  func(ctx context.Context, o Opening) (load.Target, error)
	Clock clock.Clock

	Dial   time.Duration // deadline of Open
	WarmUp time.Duration // load that is sent but not counted; may be 0
	Window time.Duration // the measured part
	Drain  time.Duration // how long to wait for replies after the window; may be 0
	Pace   Pace

	Progress func(Snapshot) // called a few times a second from another goroutine; may be nil
}

func (p *Plan) check() error {
	switch {
	case p.Generator == nil, p.Open == nil, p.Clock == nil, len(p.Classes) == 0:
		return errors.New("drive: a plan needs a generator, classes, a clock and a way to open a target")
	case p.Window <= 0:
		return fmt.Errorf("window of %v: must be longer than 0", p.Window)
	case p.WarmUp < 0 || p.Drain < 0 || p.Dial <= 0:
		return fmt.Errorf("warm-up %v, drain %v: must not be negative; dial deadline %v: must be longer than 0", p.WarmUp, p.Drain, p.Dial)
	}
	return p.Pace.check()
}

// Phase is a stretch of a run.
type Phase int32

// The phases, in order.
const (
	Dialling Phase = iota
	WarmingUp
	Measuring
	Draining
)

// Snapshot is where a run stands.
type Snapshot struct {
	Phase    Phase
	Elapsed  time.Duration // since the warm-up began; 0 while dialling
	Total    time.Duration // warm-up and window
	Fired    int64         // requests drawn so far
	InFlight int64         // of them not settled yet
	OK, Late int64         // settled in time and late, warm-up included
}

// Result is what one run measured.
type Result struct {
	Tally    *load.Tally
	Arrivals int64         // requests that were due in the window
	Start    clock.Instant // of the warm-up, on Plan.Clock; the window is Tally.From to Tally.To on the same clock
	Warnings []string      // codes, each once, sorted; see the Warn constants
	Invalid  []string      // those of them for which the numbers must not be believed

	CutShort  bool  // ctx ended before the run did; if within the window, Tally.To is where it ended
	Undrained int64 // requests still pending when the drain was over, counted timed_out

	Counters     load.Counters // of the whole run, warm-up included; zero if the target keeps none
	InFlight     float64       // mean number of requests in flight in the window, counted by the sender
	MaxInFlight  int64         // most at once, of the whole run
	SenderCPU    float64       // share of one core that the sender used in the window
	Preemptions  int64         // times that the system took the core from the sender in the window
	GCPauses     int64         // garbage collector pauses of this process in the window
	GCPauseTotal time.Duration
	RealTime     bool // the sender had a real-time priority to the end
}

// Valid reports whether the numbers may be believed.
func (r *Result) Valid() bool { return len(r.Invalid) == 0 }

const (
	// startDelay lies between the last connection and the first instant, so that the first requests are not late already.
	startDelay = 5 * time.Millisecond
	// maxWait bounds one wait, so that a cancelled run is noticed soon at any rate.
	maxWait = 20 * time.Millisecond
	// maxBatch bounds what is fired before replies are looked at again. After a stall everything overdue leaves at once, but a
	// reply that waits for it in the socket would seem slower than it was.
	maxBatch = 256
	// cutDrain bounds the drain of a run that was cut short: whoever pressed Ctrl-C is waiting.
	cutDrain = time.Second
)

// Run generates the load of one point. It returns an error when nothing could be measured, such as when the server cannot be
// reached. When ctx ends it stops sending, drains briefly and returns what was measured, marked as cut short.
func Run(ctx context.Context, p Plan) (Result, error) {
	if err := p.check(); err != nil {
		return Result{}, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := newThread(p.Pace)
	defer thread.restore()

	s := &sender{plan: p, thread: thread, ctx: ctx}
	defer s.reportProgress()()

	dialCtx, cancel := context.WithTimeout(ctx, p.Dial)
	defer cancel()
	target, err := p.Open(dialCtx, Opening{Clock: p.Clock, Settle: s.settle, Spin: thread.spin})
	if err != nil {
		return Result{}, err
	}
	s.target = target

	// What was left over from setting up is collected now rather than in the window.
	runtime.GC()
	s.begin()
	s.send()
	s.drain()
	closeErr := s.close()
	return s.result(), closeErr
}

// sender is the state of a run.
type sender struct {
	plan   Plan
	thread *thread
	target load.Target
	tally  *load.Tally
	ctx    context.Context // asked once a turn, which costs one atomic load

	rec        reqlog.Record // the request being issued; a local variable would be allocated anew for each
	start, end clock.Instant
	last       clock.Instant // intended instant of the request fired last
	fired      int64
	settled    int64
	ok, late   int64
	arrivals   int64 // fired and due in the window
	undrained  int64
	most       int64 // in flight at once
	cutShort   bool

	watch watch
	seen  struct { // what the progress goroutine reads
		phase                            atomic.Int32
		fired, inFlight, ok, late, start atomic.Int64
	}
}

func (s *sender) begin() {
	s.start = s.plan.Clock.Now().Add(startDelay)
	from := s.start.Add(s.plan.WarmUp)
	s.end = from.Add(s.plan.Window)
	s.tally = load.NewTally(s.plan.Classes, from, s.end)
	s.watch = watch{from: from, to: s.end, last: s.start, checked: s.start}
	s.seen.start.Store(int64(s.start))
	s.enter(WarmingUp)
}

func (s *sender) enter(p Phase) { s.seen.phase.Store(int32(p)) }

// due returns when the next request is due on the clock of the plan.
func (s *sender) due() clock.Instant {
	due := s.plan.Generator.Due()
	if due == clock.Never {
		return due
	}
	return s.start + due
}

func (s *sender) pending() int64 { return s.fired - s.settled }

// send fires every request of warm-up and window, or as many as were due before the run was cut short.
func (s *sender) send() {
	hardStop := s.end.Add(s.plan.Drain)
	for {
		now := s.plan.Clock.Now()
		s.turn(now)
		if s.ctx.Err() != nil {
			s.cut(now)
			return
		}
		if now >= hardStop {
			s.forfeit(now)
			return
		}
		if s.fireDue(now) > 0 {
			s.target.Flush(now)
			s.most = max(s.most, s.pending())
			// The batch is in flight from here on; firing it took a while.
			s.watch.count(s.plan.Clock.Now(), s.pending())
		}
		due := s.due()
		if due == clock.Never && now >= s.end {
			return
		}
		if due == clock.Never {
			due = s.end
		}
		s.target.Wait(min(due, now.Add(maxWait)))
	}
}

// fireDue issues what is due, up to a batch.
func (s *sender) fireDue(now clock.Instant) (n int) {
	for due := s.due(); due <= now && n < maxBatch; due = s.due() {
		client, op := s.draw()
		s.target.Issue(now, &s.rec, op, client)
		n++
	}
	return n
}

// draw takes the next request from the generator into s.rec and puts it on the clock of the plan.
func (s *sender) draw() (client uint32, op *workloads.Op) {
	s.rec, client, op = s.plan.Generator.Fire()
	s.rec.Intended += s.start
	s.last = s.rec.Intended
	s.fired++
	if s.last >= s.tally.From && s.last < s.tally.To {
		s.arrivals++
	}
	return client, op
}

// cut ends the window at the first instant whose request was not fired, so that every request due before has its fate.
func (s *sender) cut(now clock.Instant) {
	s.cutShort = true
	for s.due() == s.last { // arrivals of one instant belong together
		client, op := s.draw()
		s.target.Issue(now, &s.rec, op, client)
	}
	s.target.Flush(now)
	s.end = min(s.end, s.due())
	s.tally.Cut(s.end)
	s.watch.to = s.tally.To
}

// forfeit gives up what a sender that could not keep up has still not fired at the hard stop. Nobody but the generator is to blame.
func (s *sender) forfeit(now clock.Instant) {
	for s.due() != clock.Never {
		s.draw()
		load.Judge(&s.rec, load.Reply{At: now, Outcome: load.NotSent, Queued: -1, Service: -1}, 0)
		s.settle(&s.rec)
	}
}

// drain waits for replies to what is on its way.
func (s *sender) drain() {
	s.enter(Draining)
	now := s.plan.Clock.Now()
	deadline := s.end.Add(s.plan.Drain)
	if s.cutShort {
		deadline = now.Add(min(s.plan.Drain, cutDrain))
	}
	for s.pending() > 0 && now < deadline {
		if s.ctx.Err() != nil && !s.cutShort { // the window is whole, its replies are not
			s.cutShort = true
			break
		}
		s.target.Wait(min(deadline, now.Add(maxWait)))
		now = s.plan.Clock.Now()
		s.turn(now)
	}
	s.undrained = s.pending()
}

// close settles what is left.
func (s *sender) close() error {
	s.watch.finish(s.plan.Clock.Now())
	if err := s.target.Close(); err != nil {
		return fmt.Errorf("closing the connections: %w", err)
	}
	return nil
}

// settle takes a record whose fate is decided.
func (s *sender) settle(r *reqlog.Record) {
	s.settled++
	switch r.Fate {
	case reqlog.OK:
		s.ok++
	case reqlog.Late:
		s.late++
	}
	s.tally.Add(r)
}

// turn is called once a round with the time: it observes the sender and shows where the run stands.
func (s *sender) turn(now clock.Instant) {
	s.watch.count(now, s.pending())
	s.watch.turn(now, s.thread)
	s.seen.fired.Store(s.fired)
	s.seen.inFlight.Store(s.pending())
	s.seen.ok.Store(s.ok)
	s.seen.late.Store(s.late)
	if Phase(s.seen.phase.Load()) == WarmingUp && now >= s.tally.From {
		s.enter(Measuring)
	}
}

// progressInterval is how often Plan.Progress is called.
const progressInterval = 200 * time.Millisecond

// reportProgress calls Plan.Progress until the function it returns is called, which waits for the last call to end.
func (s *sender) reportProgress() (stop func()) {
	if s.plan.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			s.plan.Progress(s.snapshot())
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func (s *sender) snapshot() Snapshot {
	snap := Snapshot{
		Phase: Phase(s.seen.phase.Load()), Total: s.plan.WarmUp + s.plan.Window,
		Fired: s.seen.fired.Load(), InFlight: s.seen.inFlight.Load(),
		OK: s.seen.ok.Load(), Late: s.seen.late.Load(),
	}
	if snap.Phase > Dialling {
		snap.Elapsed = max(s.plan.Clock.Now().Sub(clock.Instant(s.seen.start.Load())), 0)
	}
	return snap
}
