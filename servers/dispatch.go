//go:build linux

package servers

import (
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/evq"
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
// the same key in one packet must find what it stored. Only where calls may wait halfway do others of their connection go past them.
type dispatch struct {
	clock  clock.Clock
	issuer control.Issuer // nil if the controller hands out no credits
	meter  control.Meter  // nil if it has nothing to plot
	budget time.Duration  // of each request; 0 for none
	waiter Waiting        // nil if commands run to completion
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
		queueing timing
		service  timing
		classes  [numClasses]classCounts
		mean     time.Duration // of the execution times of late
		timers   evq.Queue[timer]
		timerSeq uint64
		alarms   []uint64 // by Request.ID, minus one: the number of the call's entry in timers; 0 for none
		paused   int      // calls in service that wait halfway, without a loop
		watcher  *loop    // the sleeping loop that wakes up for timers; nil for none
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
	take = d.next(l, now)
	d.unlock(l)
	return take
}

// finish takes note that q has been executed between q.began and now, and takes another call if more is set.
func (d *dispatch) finish(l *loop, now clock.Instant, q *call, more bool) (take *call) {
	d.mu.Lock()
	service := now.Sub(q.began)
	d.mu.mean += (now.Sub(q.stepped) - d.mu.mean) / 8
	now = d.at(now)
	d.fire(now)
	d.tick(l, now)
	d.mu.service.add(service)
	d.mu.queueing.add(q.extra.Queued)
	d.release(q.conn)
	d.mu.actions = d.mu.gate.Finish(now, q.request, service, q.failed, d.mu.actions[:0])
	d.apply(l, now)
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
	for q := c.head; q != nil; q = q.after {
		if !q.queued {
			continue
		}
		var ok bool
		ok, d.mu.actions = d.mu.gate.Withdraw(now, q.place, d.mu.actions[:0])
		d.apply(l, now)
		if ok {
			d.mu.classes[classOf(q.cmd.Verb)].shed[control.Cancelled]++
			q.queued = false
			removed.push(q)
		}
	}
	return removed
}

// tick does the controller's periodic work when it is due.
func (d *dispatch) tick(l *loop, now clock.Instant) {
	if now < d.mu.tickAt {
		return
	}
	signals := control.Signals{Saturated: d.mu.gate.Stats().InService-d.mu.paused >= len(d.loops), QueueDelay: d.runQueueDelay(now)}
	var next clock.Instant
	d.mu.actions, next = d.mu.gate.Tick(now, signals, d.mu.actions[:0])
	d.mu.tickAt = max(next, now.Add(minTick))
	d.apply(l, now)
}

// runQueueDelay returns for how long the oldest started call has been waiting for a loop.
func (d *dispatch) runQueueDelay(now clock.Instant) time.Duration {
	if q := d.mu.ready.head; q != nil {
		return now.Sub(q.runnable)
	}
	return 0
}

// arrive takes one call to the gate.
func (d *dispatch) arrive(l *loop, now clock.Instant, q *call) {
	d.number(q)
	r := control.Request{ID: q.id, Client: q.conn.client, Class: classOf(q.cmd.Verb), Bytes: bytesOf(&q.cmd), Budget: d.budget, QueueDelay: d.runQueueDelay(now)}
	d.mu.classes[r.Class].arrived++
	if limit := l.server.config.Deadline; limit > 0 {
		r.Deadline = now.Add(limit)
	}
	q.credits, q.reason, q.queued = -1, control.NoReason, false
	if q.cmd.HasDemand && d.issuer != nil {
		d.issuer.Demand(now, r.Client, int(q.cmd.Demand))
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

// apply does what the gate said. There is no way to tell a client of credits between replies in this protocol, and nothing is
// parked in a section, so the other two kinds of action do not concern this driver.
func (d *dispatch) apply(l *loop, now clock.Instant) {
	for i := range d.mu.actions {
		a := &d.mu.actions[i]
		if a.Kind == control.Resume || a.Kind == control.Credit {
			continue
		}
		q := d.mu.calls[a.Request.ID-1]
		switch a.Kind {
		case control.Start:
			q.queued, q.request, q.runnable = false, a.Request, a.Request.Arrived
			d.mu.ready.push(q)
		case control.Queue:
			q.queued, q.place = true, a.Place
		case control.Refuse:
			d.mu.classes[a.Request.Class].shed[a.Reason]++
			q.queued, q.request, q.reason, q.ended = false, a.Request, a.Reason, now
			d.credit(now, q)
			d.settle(l, q)
		}
	}
}

// credit notes how many credits go with the reply to q.
func (d *dispatch) credit(now clock.Instant, q *call) {
	if d.issuer != nil && q.cmd.HasDemand {
		q.credits = int32(min(d.issuer.Credits(now, q.conn.client), 1<<30))
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
		case q.conn.busy:
			q.conn.deferred.push(q)
		case q.conn.gone && !q.waiting:
			// Nobody is left to read the reply. The slot is given back, and the call is put down as failed.
			d.mu.actions = d.mu.gate.Finish(now, q.request, 0, true, d.mu.actions[:0])
			d.apply(l, now)
			d.settle(l, q)
		default:
			q.gone = q.conn.gone
			q.conn.busy = d.waiter == nil
			return q
		}
	}
}

// release lets the next call of c be executed.
func (d *dispatch) release(c *conn) {
	c.busy = false
	if q := c.deferred.pop(); q != nil {
		d.mu.ready.pushFront(q)
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
