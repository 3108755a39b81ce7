//go:build linux

package servers

import (
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
)

// Waiting is implemented by a Backend whose commands may have to wait halfway: for a lock, or for time to pass. Its commands are executed
// by Step instead of Do. A call that waits gives up its loop but keeps its slot, and queues for a loop again behind the others that
// have been started. Calls of one connection may go past each other; their replies leave in order all the same.
type Waiting interface {
	// Step executes a call, or goes on with it, until it is done or has to wait, and says which. When the client has gone meanwhile
	// (see Call.Gone) it releases what the call holds, and the call is done. An error is as in Do.
	Step(c Call) (Pause, error)
	// Cancel ends a waiting call whose client has gone: it releases what the call holds, except for sections and locks, and returns true.
	// If Resume has been called for it, or is about to be, Cancel does nothing and returns false; of a call that waits for a section, a
	// lock, or time to pass, that is never true.
	Cancel(c Call) bool
}

// Call is one command under way, from its first Step until it is done or cancelled.
type Call struct {
	dispatch *dispatch
	q        *call
	loop     *loop // that executes it
}

// Command returns the command.
func (c Call) Command() *memproto.Command { return &c.q.cmd }

// Reply returns where the result goes.
func (c Call) Reply() *memproto.Writer { return &c.q.w }

// State returns what SetState was given in an earlier Step of this call; nil before.
func (c Call) State() any { return c.q.state }

// SetState keeps state for the steps to come.
func (c Call) SetState(state any) { c.q.state = state }

// Gone reports whether the client has gone, so that nobody is left to read the reply.
func (c Call) Gone() bool { return c.q.gone }

// Resume ends the wait of a call whose Step has said, or is about to say, UntilResumed. It may be called from any goroutine, once for
// each such wait, but not from within Cancel.
func (c Call) Resume() { c.dispatch.resume(c.q, 0) }

// now returns the present instant of the server's clock.
func (c Call) now() clock.Instant { return c.dispatch.clock.Now() }

// Pause says how a Step ended. The zero value says that the call is done.
type Pause struct {
	kind    pause
	span    time.Duration
	reason  control.Reason
	working bool // workers have the call, on a core that the loop does not know of: it counts as busy
}

// UntilResumed says that a call waits for its Resume.
func UntilResumed() Pause { return Pause{kind: pauseResume} }

// ForTime says that a call waits for d to pass.
func ForTime(d time.Duration) Pause { return Pause{kind: pauseTime, span: d} }

// Final reports whether the call is over: done, or dropped.
func (p Pause) Final() bool { return p.kind == pauseNone || p.kind == pauseDropped }

// Dropped says that a call is refused halfway, for a reason of control.ShedDropped: its client is told so instead of being given a result.
func Dropped(why control.Reason) Pause { return Pause{kind: pauseDropped, reason: why} }

type pause uint8

const (
	pauseNone    pause = iota // not waiting: being executed, or about to be
	pauseResume               // waits for Resume
	pauseTime                 // waits for its timer
	pauseSection              // waits for a section or a lock
	pauseDropped              // does not wait, but is refused
	pauseCancel               // is being cancelled
)

// timer is the end of a pause. One that is not its call's alarm any more is left over from a pause that was cancelled. The alarm is not in
// the call, which may have been freed by then and is not the dispatcher's to look at.
type timer struct {
	call   uint64 // its id
	number uint64
}

// step executes q as far as it goes.
func (l *loop) step(q *call) (Pause, error) {
	d := &l.server.dispatch
	if d.waiter != nil {
		return d.waiter.Step(Call{dispatch: d, q: q, loop: l})
	}
	return Pause{}, l.server.backend.Do(&q.cmd, l.writer(q))
}

// writer returns where the reply of q is to be written: to the connection, if it is its turn already and it will be done in one go.
func (l *loop) writer(q *call) *memproto.Writer {
	if l.server.dispatch.waiter == nil && q.conn.loop == l && q.conn.head == q && !q.conn.dead {
		return &q.conn.out.w
	}
	return &q.w
}

// park takes note that q waits halfway since now, and takes another call if more is set.
func (d *dispatch) park(l *loop, now clock.Instant, q *call, p Pause, more bool) (take *call) {
	d.mu.Lock()
	d.mu.mean += (now.Sub(q.stepped) - d.mu.mean) / 8
	now = d.at(now)
	d.fire(now)
	d.tick(l, now)
	gone := q.conn.gone
	if q.working = p.working; !q.working {
		d.mu.paused++
	}
	q.pause, q.waiting = p.kind, true
	switch {
	case p.kind == pauseTime:
		at := now.Add(p.span)
		d.mu.timerSeq++
		d.mu.alarms[q.id-1] = d.mu.timerSeq
		if w := d.mu.watcher; w != nil && (d.mu.timers.Len() == 0 || uint64(at) < d.mu.timers.Key()) {
			d.rouse(w) // it has gone to sleep for longer
		}
		d.mu.timers.Push(uint64(at), timer{call: q.id, number: d.mu.timerSeq})
	case q.resumed:
		q.resumed = false
		d.unpause(now, q)
	}
	if more && !gone {
		take = d.next(l, now)
	}
	d.unlock(l)
	if gone { // while it was being executed; whoever noticed has found nothing to cancel
		var removed list
		d.cancelOne(l, q, &removed)
		if removed.n > 0 {
			d.mu.Lock()
			d.settle(l, q)
			d.unlock(l)
		}
		if more {
			take = d.submit(l, now, &list{})
		}
	}
	return take
}

// unpause lets q queue for a loop again.
func (d *dispatch) unpause(now clock.Instant, q *call) {
	d.goesOn(q)
	if q.pause != pauseSection {
		q.waitsSince = now // the pause itself was none of those waits that control can shorten
	}
	q.pause, q.runnable = pauseNone, now
	d.mu.alarms[q.id-1] = 0
	d.mu.ready.push(q)
}

// goesOn takes note that a pause is over.
func (d *dispatch) goesOn(q *call) {
	if !q.working {
		d.mu.paused--
	}
	q.working = false
}

// resume ends a pause, part of which q has spent waiting for a worker.
func (d *dispatch) resume(q *call, waited time.Duration) {
	var wake *loop
	d.mu.Lock()
	q.request.Waited += waited
	if q.pause == pauseResume {
		d.unpause(d.at(d.clock.Now()), q)
		for _, l := range d.loops {
			if l.post.sleeping {
				l.post.sleeping = false
				wake = l
				break
			}
		}
	} else {
		q.resumed = true
	}
	d.mu.Unlock()
	if wake != nil {
		wake.wake()
	}
}

// fire ends the pauses whose time has come.
func (d *dispatch) fire(now clock.Instant) {
	for d.mu.timers.Len() > 0 && clock.Instant(d.mu.timers.Key()) <= now {
		if t := d.mu.timers.Pop(); d.mu.alarms[t.call-1] == t.number {
			d.unpause(now, d.mu.calls[t.call-1])
		}
	}
}

// awake takes note that l does not sleep any more.
func (d *dispatch) awake(l *loop, now clock.Instant) {
	if d.mu.watcher == l {
		d.mu.watcher = nil
	}
	d.fire(now)
}

// watch sees to it that a loop wakes up for the next timer: one that sleeps. If none sleeps, those that are awake look at the timers
// after every call.
func (d *dispatch) watch(l *loop) {
	l.timerAt = clock.Never
	if d.mu.timers.Len() == 0 || d.mu.watcher != nil {
		return
	}
	if l.post.sleeping {
		d.mu.watcher = l
		l.timerAt = clock.Instant(d.mu.timers.Key())
		return
	}
	for _, other := range d.loops {
		if other.post.sleeping {
			d.rouse(other) // it will become the watcher when it goes back to sleep
			return
		}
	}
}

// cancel ends the calls of a dead connection that wait halfway.
func (d *dispatch) cancel(l *loop, c *conn, removed *list) {
	for q := c.head; q != nil; q = q.after {
		d.cancelOne(l, q, removed)
	}
}

// cancelOne cancels q, if it waits halfway, and adds it to removed. The backend is asked without the lock: releasing what a call
// holds may take a while.
func (d *dispatch) cancelOne(l *loop, q *call, removed *list) {
	d.mu.Lock()
	was := q.pause
	if was != pauseResume && was != pauseTime && was != pauseSection {
		d.mu.Unlock()
		return
	}
	q.pause = pauseCancel
	d.mu.alarms[q.id-1] = 0
	d.mu.Unlock()
	done := d.waiter.Cancel(Call{dispatch: d, q: q, loop: l})

	d.mu.Lock()
	defer d.unlock(l)
	now := d.at(d.clock.Now())
	if was == pauseSection {
		q.request.Waited += now.Sub(q.waitsSince)
	}
	switch {
	case was == pauseSection && !q.resumed:
		d.mu.actions = d.mu.actions[:0]
		free := d.abandonWait(now, q)
		d.apply(l, now)
		d.endCancelled(l, now, q)
		if free {
			removed.push(q)
		}
	case done || was != pauseResume:
		q.resumed = false
		d.endCancelled(l, now, q)
		removed.push(q)
	case q.resumed:
		q.resumed = false
		d.unpause(now, q)
	default:
		q.pause = was
	}
	d.help()
}

// endCancelled gives back what a cancelled call has of the server.
func (d *dispatch) endCancelled(l *loop, now clock.Instant, q *call) {
	d.goesOn(q)
	d.release(q)
	q.pause, q.failed = pauseNone, true
	d.conclude(l, now, q, now.Sub(q.began))
}
