//go:build linux

// Package drive runs the load generator in real time: locked threads that sleep until a request is due, hand it to a target, and read
// replies in between. It paces without Go's timers, which are a millisecond late, and watches itself, because a generator
// that is late or starved measures its own trouble and reports it as the server's.
package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	Shard, Shards int // which sender this is, of how many. A sender has the clients whose number is Shard modulo Shards
}

// Source yields the requests of one sender: load.Generator, or load.Closed for the closed loop.
type Source interface {
	Due() clock.Instant // of the next request; clock.Never when none is known of
	// Fire draws the request that is due next. The operation is valid until the next call of a method.
	Fire() (rec reqlog.Record, client uint32, op *workloads.Op)
	// Settled tells what became of a request, and when on the clock of the source's own instants.
	Settled(rec *reqlog.Record, at clock.Instant)
}

// Plan is one point of load.
type Plan struct {
	Generator Source       // its instants count from the start of the warm-up; it should end at WarmUp+Window
	More      []Source     // for further senders, each with a thread of its own: all are shards of one sequence, Generator the first
	Classes   []load.Class // of the generator's workload, in its order

	// Open connects to the server. It is called once by each sender, on its thread, and is to give up when ctx ends.
	Open  func(ctx context.Context, o Opening) (load.Target, error)
	Clock clock.Clock // on the model ground a stretched one; all durations but Dial are durations of this clock

	Dial   time.Duration // deadline of Open
	WarmUp time.Duration // load that is sent but not counted; may be 0
	Window time.Duration // the measured part
	Drain  time.Duration // how long to wait for replies after the window; may be 0
	Span   time.Duration // of a bucket of the tally's time series; 0 for load.BucketSpan
	Pace   Pace

	// SkipLate is the catch-up policy. After a stall of the sender, requests are overdue. 0 sends them all at once, as the users of an
	// open loop would have done; a server may suffer from a flood that is the generator's. Otherwise what is later than this is not sent
	// and counts as unsent, which is the generator's fault and shows.
	SkipLate time.Duration

	// Record is handed every settled record, warm-up included, on the thread of the sender with that number; may be nil.
	Record func(shard int, r *reqlog.Record)

	Progress func(Snapshot) // called a few times a second from another goroutine; may be nil
}

func (p *Plan) check() error {
	switch {
	case p.Generator == nil, p.Open == nil, p.Clock == nil, len(p.Classes) == 0:
		return errors.New("drive: a plan needs a generator, classes, a clock and a way to open a target")
	case p.Window <= 0:
		return fmt.Errorf("window of %v: must be longer than 0", p.Window)
	case p.SkipLate < 0:
		return fmt.Errorf("requests are skipped when they are %v late: must not be negative", p.SkipLate)
	case p.WarmUp < 0 || p.Drain < 0 || p.Dial <= 0:
		return fmt.Errorf("warm-up %v, drain %v: must not be negative; dial deadline %v: must be longer than 0", p.WarmUp, p.Drain, p.Dial)
	}
	return p.Pace.check()
}

// computed reports whether the ends of requests are computed, and not observed.
func (p *Plan) computed() bool {
	_, ok := p.Clock.(*clock.Stretched)
	return ok
}

// overdue returns how long after its end a request may be noticed to have ended.
func (p *Plan) overdue() time.Duration {
	if !p.computed() {
		return 0
	}
	return clock.On(p.Clock, lateReplies)
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
	Elapsed  time.Duration // of the wall clock since the warm-up began; 0 while dialling
	Total    time.Duration // of the wall clock that warm-up and window take
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

	Counters      load.Counters // of the whole run, warm-up included; zero if the target keeps none
	InFlight      float64       // mean number of requests in flight in the window, counted by the sender
	MaxInFlight   int64         // most at once, of the whole run
	SmallestScale int           // with WarnScale: the time scale that this computer would have needed; 0 if no scale would do

	SenderCPU    float64 // share of one core that the sender used in the window
	Preemptions  int64   // times that the system took the core from the sender in the window
	GCPauses     int64   // garbage collector pauses of this process in the window
	GCPauseTotal time.Duration
	ClockStep    time.Duration // by which the calendar clock was set during the window
	RealTime     bool          // the senders had a real-time priority to the end

	Closed  bool  // a closed loop: what was offered depended on the server, and latencies leave out what that hid
	Senders int   // threads
	Skipped int64 // requests unsent because they were later than Plan.SkipLate

	// WindowFull counts the requests of the window that are unsent because their connection had its bound of requests under way. Counters.WindowFull has
	// those of the warm-up too.
	WindowFull int64

	Totals   Totals   // of the whole run, warm-up included
	Sequence Sequence // what was asked
}

// Totals counts keys by kind of operation and fate: a read of several keys counts as often as it has keys. Hits counts keys that were found.
type Totals struct {
	Keys [workloads.NumKinds][reqlog.NumFates]int64
	Hits int64
}

// Sequence identifies what was asked when by whom: equal hashes of equally many requests mean the same sequence. Zero for a closed loop,
// which has none.
type Sequence struct {
	Requests, Hash uint64
}

func (t *Totals) add(r *reqlog.Record) {
	t.Keys[r.Kind][r.Fate] += int64(r.Keys)
	t.Hits += int64(r.Hits)
}

func (t *Totals) merge(o *Totals) {
	for kind := range t.Keys {
		for fate, n := range o.Keys[kind] {
			t.Keys[kind][fate] += n
		}
	}
	t.Hits += o.Hits
}

// Valid reports whether the numbers may be believed.
func (r *Result) Valid() bool { return len(r.Invalid) == 0 }

// All of these are durations of the wall clock.
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
	// lateReplies is how long after their computed instants the replies of the model ground may be read, and a bit more.
	lateReplies = 300 * time.Millisecond
)

// sender is the state of one thread of a run.
type sender struct {
	plan   *Plan
	run    *run
	shard  int
	source Source
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
	skipped    int64
	kept       int64 // due in the window, and not handed to the target
	most       int64 // in flight at once
	cutShort   bool
	totals     Totals

	watch watch
	held  func() int64 // how many requests wait at their clients; nil where clients just send
	seen  struct {     // what the progress goroutine reads
		phase                            atomic.Int32
		fired, inFlight, ok, late, start atomic.Int64
	}
}

func (s *sender) begin(start clock.Instant) {
	s.start = start
	from := s.start.Add(s.plan.WarmUp)
	s.end = from.Add(s.plan.Window)
	s.tally = load.NewTallyIn(cmp.Or(s.plan.Span, load.BucketSpan), s.plan.Classes, from, s.end)
	s.watch = watch{clock: s.plan.Clock, from: from, to: s.end, last: s.start, checked: s.start}
	if t, ok := s.target.(restrained); ok {
		changed := func(at clock.Instant) { s.watch.count(max(at, s.watch.last), s.inFlight()) }
		if t.Observe(changed) {
			s.held = t.Waiting
		}
	}
	s.seen.start.Store(int64(s.start))
	s.enter(WarmingUp)
}

// restrained is a target at whose clients requests may wait before they leave.
type restrained interface {
	// Observe has changed called whenever more or fewer requests are under way. It returns false where nothing waits at clients.
	Observe(changed func(at clock.Instant)) bool
	// Waiting returns how many requests wait at their clients and have never left.
	Waiting() int64
}

func (s *sender) enter(p Phase) { s.seen.phase.Store(int32(p)) }

// due returns when the next request is due on the clock of the plan.
func (s *sender) due() clock.Instant {
	due := s.source.Due()
	if due == clock.Never {
		return due
	}
	return s.start + due
}

func (s *sender) pending() int64 { return s.fired - s.settled }

// inFlight returns how many requests have left and are not settled.
func (s *sender) inFlight() int64 {
	n := s.pending()
	if s.held != nil {
		n -= s.held()
	}
	return n
}

// latest returns when a wait that begins now has to end.
func (s *sender) latest(now clock.Instant) clock.Instant {
	return now.Add(clock.On(s.plan.Clock, maxWait))
}

// send fires every request of warm-up and window, or as many as were due before the run was cut short.
func (s *sender) send() {
	hardStop := s.end.Add(s.plan.Drain)
	for {
		now := s.plan.Clock.Now()
		s.turn(now)
		if s.ctx.Err() != nil {
			s.cut()
			return
		}
		if now >= hardStop {
			s.forfeit(now)
			return
		}
		if s.fireDue(now) > 0 {
			s.target.Flush(now)
			s.most = max(s.most, s.inFlight())
			// The batch is in flight from here on; firing it took a while.
			s.watch.count(s.plan.Clock.Now(), s.inFlight())
		}
		due := s.due()
		if due == clock.Never && now >= s.end {
			return
		}
		if due == clock.Never {
			due = s.end
		}
		s.target.Wait(min(due, s.latest(now)))
	}
}

// fireDue issues what is due, up to a batch.
func (s *sender) fireDue(now clock.Instant) (n int) {
	for due := s.due(); due <= now && n < maxBatch; due = s.due() {
		client, op := s.draw()
		n++
		if s.plan.SkipLate > 0 && now.Sub(due) > s.plan.SkipLate {
			s.skipped++
			s.refuse(now)
			continue
		}
		s.target.Issue(now, &s.rec, op, client)
	}
	return n
}

// refuse settles the request at hand as unsent.
func (s *sender) refuse(now clock.Instant) {
	if s.inWindow(s.rec.Intended) {
		s.kept++
	}
	load.Judge(&s.rec, load.Reply{At: now, Outcome: load.NotSent, Queued: -1, Service: -1}, 0)
	s.settle(&s.rec)
}

// draw takes the next request from the generator into s.rec and puts it on the clock of the plan.
func (s *sender) draw() (client uint32, op *workloads.Op) {
	s.rec, client, op = s.source.Fire()
	s.rec.Intended += s.start
	s.last = s.rec.Intended
	s.fired++
	if s.inWindow(s.last) {
		s.arrivals++
	}
	return client, op
}

func (s *sender) inWindow(intended clock.Instant) bool {
	return intended >= s.tally.From && intended < s.tally.To
}

// cut ends the window at the first instant whose request was not fired, by any sender, so that every request due before has its fate.
func (s *sender) cut() {
	s.cutShort = true
	wait := func() { s.target.Wait(s.plan.Clock.Now().Add(clock.On(s.plan.Clock, time.Millisecond))) }
	last, ok := s.run.last.meet(s.last, wait)
	now := s.plan.Clock.Now()
	if !ok { // the window is over, only this sender was late
		s.forfeit(now)
		return
	}
	for s.due() <= last { // also: arrivals of one instant belong together
		client, op := s.draw()
		s.target.Issue(now, &s.rec, op, client)
	}
	s.target.Flush(now)
	// The next request may be due a long time from now, and no time that has not passed belongs to the window.
	next := min(s.due(), max(now, last+1))
	first, _ := s.run.next.meet(-next, wait)
	s.end = min(s.end, -first)
	s.tally.Cut(s.end)
	s.watch.to = s.tally.To
}

// forfeit gives up what a sender that could not keep up has still not fired at the hard stop. Nobody but the generator is to blame.
func (s *sender) forfeit(now clock.Instant) {
	for s.due() != clock.Never {
		s.draw()
		s.refuse(now)
	}
}

// drain waits for replies to what is on its way.
func (s *sender) drain() {
	s.enter(Draining)
	now := s.plan.Clock.Now()
	deadline := s.end.Add(s.plan.Drain + s.plan.overdue())
	if s.cutShort {
		deadline = now.Add(min(s.plan.Drain, clock.On(s.plan.Clock, cutDrain)))
	}
	for s.pending() > 0 && now < deadline {
		if s.ctx.Err() != nil && !s.cutShort { // the window is whole, its replies are not
			s.cutShort = true
			break
		}
		s.target.Wait(min(deadline, s.latest(now)))
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
	s.totals.add(r)
	s.source.Settled(r, r.Done-s.start)
	if s.plan.Record != nil {
		s.plan.Record(s.shard, r)
	}
}

// turn is called once a round with the time: it observes the sender and shows where the run stands.
func (s *sender) turn(now clock.Instant) {
	s.watch.count(now, s.inFlight())
	s.watch.turn(now, s.thread)
	s.seen.fired.Store(s.fired)
	s.seen.inFlight.Store(s.inFlight())
	s.seen.ok.Store(s.ok)
	s.seen.late.Store(s.late)
	if Phase(s.seen.phase.Load()) == WarmingUp && now >= s.tally.From {
		s.enter(Measuring)
	}
}
