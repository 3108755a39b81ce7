//go:build linux

package servers

import (
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/evq"
	"spillway/internal/metrics"
)

// minTick bounds how often a controller's periodic work is done: one that asks to be called at once again must not keep a loop busy.
const minTick = 50 * time.Microsecond

// wakeWork is how much work must lie ready before a sleeping loop is woken to help. Waking costs both sides a few microseconds, so a
// call that takes one is better done by the loop that is awake.
const wakeWork = 10 * time.Microsecond

// dispatch is what the loops share: the Gate, the calls that it has started and that no loop has taken yet, and the post between
// the loops.
//
// Calls of one connection are executed one after the other, in order, whichever loops do it. A client that sends a set and a get of
// the same key in one packet must find what it stored. Only where calls may wait halfway do others of their connection go past them (see Ordered).
type dispatch struct {
	clock   clock.Clock
	issuer  control.Issuer // nil if the controller hands out no credits
	meter   control.Meter  // nil if it has nothing to plot
	budget  time.Duration  // of each request; 0 for none
	moved   Accountant     // nil if the backend does not account for what it moves
	sensor  Sensor         // nil if moved is all there is
	classes classes
	sections
	waiter Waiting                // nil if commands run to completion
	order  Ordered                // nil unless those that wait depend on each other
	levels func() []control.Level // nil if nobody watches resources
	loops  []*loop

	// mu guards the gate with its controller and everything that passes between loops. It is the only lock of this package; no
	// command is executed under it.
	mu struct {
		sync.Mutex
		gate     *control.Gate
		last     clock.Instant // the latest instant that the gate has seen; instants must not decrease
		tickAt   clock.Instant
		calls    []*call // by Request.ID, minus one
		ready    list    // started, to be executed by whoever comes first
		waking   []*loop // to be woken when the lock is free
		actions  []control.Action
		queueing metrics.Timing
		service  metrics.Timing
		classes  []classCounts // by number
		mean     time.Duration // of the execution times of late
		timers   evq.Queue[timer]
		timerSeq uint64
		alarms   []uint64 // by Request.ID, minus one: the number of the call's entry in timers; 0 for none
		paused   int      // calls in service that wait halfway, without a loop
		watcher  *loop    // the sleeping loop that wakes up for timers; nil for none
		polls    control.Polls
		answers  []control.Answer
	}
}

// post is what other loops have for one loop, guarded by dispatch.mu.
type post struct {
	settled  list  // calls of its connections that have their outcome
	conns    []int // descriptors of new connections
	sleeping bool  // it waits, or is about to wait, for its sockets
}

func (d *dispatch) init(gate *control.Gate, s control.Stack, now clock.Clock) {
	d.clock = now
	d.issuer, _ = s.Controller.(control.Issuer)
	d.meter, _ = s.Controller.(control.Meter)
	d.budget = s.Budget
	d.sections.init(s)
	d.mu.gate = gate
}

// at returns now, or the latest instant that the gate has seen if another loop was faster.
func (d *dispatch) at(now clock.Instant) clock.Instant {
	d.mu.last = max(d.mu.last, now)
	return d.mu.last
}

// hand gives a new connection to another loop.
func (d *dispatch) hand(to *loop, fd int) {
	d.mu.Lock()
	to.post.conns = append(to.post.conns, fd)
	d.mu.Unlock()
	to.wake()
}

// submit puts the calls of l that have arrived before the gate, does the controller's periodic work if it is due, collects the post
// of l, and takes a call to execute.
func (d *dispatch) submit(l *loop, now clock.Instant, arrivals *list) (take *call) {
	d.mu.Lock()
	now = d.at(now)
	d.awake(l, now)
	d.tick(l, now)
	for q := arrivals.pop(); q != nil; q = arrivals.pop() {
		d.arrive(l, now, q)
	}
	d.answerRecalled(l, now)
	take = d.next(l, now)
	d.unlock(l)
	return take
}

// finish takes note that q has been executed between q.began and now, or dropped, and takes another call if more is set.
func (d *dispatch) finish(l *loop, now clock.Instant, q *call, more bool) (take *call) {
	d.mu.Lock()
	service := now.Sub(q.began)
	d.mu.mean += (now.Sub(q.stepped) - d.mu.mean) / 8
	now = d.at(now)
	d.fire(now)
	d.tick(l, now)
	d.mu.service.Add(service)
	d.mu.queueing.Add(q.extra.Queued)
	d.release(q)
	if q.reason != control.NoReason {
		d.mu.classes[q.request.Class].shed[q.reason]++
	}
	d.conclude(l, now, q, service)
	d.credit(now, q)
	if q.conn.loop != l {
		d.settle(l, q)
	}
	if more {
		take = d.next(l, now)
	}
	d.unlock(l)
	return take
}

// conclude ends the service of q: it leaves where it still is, and gives its slot back.
func (d *dispatch) conclude(l *loop, now clock.Instant, q *call, service time.Duration) {
	d.mu.actions = d.mu.actions[:0]
	d.vacateAll(now, q)
	d.mu.actions = d.mu.gate.Finish(now, q.request, service, q.failed, d.mu.actions)
	d.apply(l, now)
}

// withdraw takes the waiting calls of a dead connection out of the gate, and ends those that wait halfway. Those that are being
// executed, or about to be, stay with whoever has them.
func (d *dispatch) withdraw(l *loop, c *conn) (removed list) {
	if d.waiter != nil {
		defer func() { d.cancel(l, c, &removed) }()
	}
	d.mu.Lock()
	defer d.unlock(l)
	now := d.at(d.clock.Now())
	c.gone = true
	d.part(l, now, c, &removed)
	for q := c.head; q != nil; q = q.after {
		if !q.queued {
			continue
		}
		var ok bool
		ok, d.mu.actions = d.mu.gate.Withdraw(now, q.place, d.mu.actions[:0])
		d.apply(l, now)
		if ok {
			d.mu.classes[q.class].shed[control.Cancelled]++
			q.queued = false
			removed.push(q)
		}
	}
	d.help()
	return removed
}

// tick does the controller's periodic work when it is due.
func (d *dispatch) tick(l *loop, now clock.Instant) {
	if now < d.mu.tickAt {
		return
	}
	signals := control.Signals{Saturated: d.saturated(), QueueDelay: d.queueDelay(now)}
	switch {
	case d.sensor != nil:
		signals.MemBytes, signals.MemAt = d.sensor.MemBytes(now)
	case d.moved != nil:
		signals.MemBytes, signals.MemAt = d.moved.BytesMoved(), now
	}
	if d.levels != nil {
		signals.Levels = d.levels()
	}
	var next clock.Instant
	d.mu.actions, next = d.mu.gate.Tick(now, signals, d.mu.actions[:0])
	d.mu.tickAt = max(next, now.Add(minTick))
	d.apply(l, now)
}

// saturated reports whether every loop is busy.
func (d *dispatch) saturated() bool { return d.mu.gate.Stats().InService-d.mu.paused >= len(d.loops) }

// queueDelay returns the age of the oldest that waits for a slot or a loop, 0 while a loop is idle.
func (d *dispatch) queueDelay(now clock.Instant) time.Duration {
	if !d.saturated() {
		return 0
	}
	return max(d.mu.gate.QueueDelay(now), d.runQueueDelay(now))
}

// runQueueDelay returns for how long the started call that is next for a loop has been waiting, in the Gate and for the loop.
func (d *dispatch) runQueueDelay(now clock.Instant) time.Duration {
	if q := d.mu.ready.head; q != nil {
		return now.Sub(q.runnable)
	}
	return 0
}

// arrive takes one call to the gate, or a question to those that are open.
func (d *dispatch) arrive(l *loop, now clock.Instant, q *call) {
	if q.kind == question {
		d.ask(l, now, q)
		return
	}
	d.number(q)
	r := q.asRequest(d)
	r.ID, r.QueueDelay = q.id, d.queueDelay(now)
	d.mu.classes[r.Class].arrived++
	if limit := l.server.config.Deadline; limit > 0 {
		r.Deadline = now.Add(limit)
	}
	q.credits, q.reason, q.queued = -1, control.NoReason, false
	if q.cmd.HasDemand && d.issuer != nil {
		d.issuer.Demand(now, r.Client, demandOf(&q.cmd))
	}
	d.mu.actions = d.mu.gate.Arrive(now, r, d.mu.actions[:0])
	d.apply(l, now)
}

// number gives q its place in d.mu.calls, which it keeps for good.
func (d *dispatch) number(q *call) {
	if q.id == 0 {
		d.mu.calls = append(d.mu.calls, q)
		d.mu.alarms = append(d.mu.alarms, 0)
		q.id = uint64(len(d.mu.calls))
	}
}

// apply does what gate and sections said. An action may bring forth others, which are done in their turn.
func (d *dispatch) apply(l *loop, now clock.Instant) {
	for i := 0; i < len(d.mu.actions); i++ {
		a := d.mu.actions[i]
		if a.Kind == control.Credit { // about a client, not about a request
			d.tell(l, &a)
			continue
		}
		q := d.mu.calls[a.Request.ID-1]
		switch a.Kind {
		case control.Resume:
			d.enterAfterWait(l, now, q)
		case control.Start:
			q.queued, q.request, q.runnable, q.waitsSince = false, a.Request, a.Request.Arrived, now
			d.mu.ready.push(q)
		case control.Queue:
			q.queued, q.place = true, a.Place
		case control.Refuse:
			d.mu.classes[a.Request.Class].shed[a.Reason]++
			q.queued, q.request, q.reason, q.extra.Queued = false, a.Request, a.Reason, now.Sub(a.Request.Arrived)
			d.credit(now, q)
			d.settle(l, q)
		}
	}
}

// credit notes how many credits go with the reply to q.
func (d *dispatch) credit(now clock.Instant, q *call) {
	if d.issuer != nil && q.cmd.HasDemand && !q.conn.gone { // one that is gone must not be met again
		q.credits = wireCredits(d.issuer.Credits(now, q.conn.client))
	}
}

// settle posts a call that has its outcome to the loop of its connection.
func (d *dispatch) settle(l *loop, q *call) {
	to := q.conn.loop
	to.post.settled.push(q)
	if to != l {
		d.rouse(to)
	}
}

// rouse notes that a loop has to be woken once the lock is free. One that is not asleep looks into its post before it sleeps.
func (d *dispatch) rouse(to *loop) {
	if to.post.sleeping {
		to.post.sleeping = false
		d.mu.waking = append(d.mu.waking, to)
	}
}

// next takes a call for l to execute and collects its post. Without anything to execute, l counts as asleep from here on.
func (d *dispatch) next(l *loop, now clock.Instant) *call {
	q := d.take(l, now)
	for p := l.post.settled.pop(); p != nil; p = l.post.settled.pop() {
		l.settled.push(p)
	}
	l.newConns = append(l.newConns, l.post.conns...)
	l.post.conns = l.post.conns[:0]
	l.tickAt = d.mu.tickAt
	l.post.sleeping = q == nil
	d.watch(l)
	if n := d.mu.ready.n; n > 0 && time.Duration(n)*d.mu.mean >= wakeWork {
		for _, other := range d.loops {
			if other != l && other.post.sleeping {
				d.rouse(other)
				break
			}
		}
	}
	return q
}

func (d *dispatch) take(l *loop, now clock.Instant) *call {
	for {
		q := d.mu.ready.pop()
		switch {
		case q == nil:
			return nil
		case d.mustDefer(q):
			q.conn.deferred.push(q)
		case q.conn.gone && !q.waiting:
			// Nobody is left to read the reply. The slot is given back, and the call is put down as failed.
			q.failed = true
			d.conclude(l, now, q, 0)
			d.release(q)
			d.settle(l, q)
		default:
			q.request.Waited += now.Sub(q.waitsSince)
			q.gone = q.conn.gone
			d.occupy(q)
			return q
		}
	}
}

// help has a sleeping loop look at what is ready to be executed, where nobody else is about to.
func (d *dispatch) help() {
	if d.mu.ready.n == 0 {
		return
	}
	for _, l := range d.loops {
		if l.post.sleeping {
			d.rouse(l)
			return
		}
	}
}

// unlock gives up the lock and wakes the loops that the section found to have post or work. The waking is done without the lock.
func (d *dispatch) unlock(l *loop) {
	l.waking = append(l.waking[:0], d.mu.waking...)
	d.mu.waking = d.mu.waking[:0]
	d.mu.Unlock()
	for _, other := range l.waking {
		other.wake()
	}
}
