//go:build linux

package servers

import (
	"spillway/clock"
	"spillway/control"
	"spillway/machine"
	"spillway/machine/station"
)

// numLocks is how many locks, and how many sections, a backend may number: those that a request can name.
const numLocks = machine.MaxIndex + 1

// sections are the queues within service: of the memory section and of the locks. A place in them has a number: sections come first, then
// locks. They are state machines without a lock of their own, so dispatch.mu guards what they hold; which of them there are does not
// change, except that a lock's queue is made when it is first needed.
type sections struct {
	memory  control.Section // nil: everybody may enter
	mode    control.Mode
	newLock func() control.Section // nil: locks let everybody wait
	locks   [numLocks]control.Section
}

func (s *sections) init(stack control.Stack) {
	s.memory, s.mode, s.newLock = stack.Memory, stack.Mode, stack.NewLock
}

// open reports whether everybody may be at place, so that nothing is asked and nothing is kept.
func (s *sections) open(place int) bool {
	return place < numLocks && (place != station.Memory || s.memory == nil)
}

// at returns the section of a place that is not open.
func (s *sections) at(place int) (control.Section, control.Mode) {
	if place < numLocks {
		return s.memory, s.mode
	}
	lock := &s.locks[place-numLocks]
	if *lock == nil {
		if s.newLock != nil {
			*lock = s.newLock()
		} else {
			*lock = &plainLock{waiting: control.NewParked()}
		}
	}
	return *lock, control.WaitWithinBudget
}

// plainLock is a lock that lets everybody wait, first come first served.
type plainLock struct {
	held    bool
	waiting *control.Parked
}

var _ control.Withdrawer = (*plainLock)(nil)

// Enter takes the lock or waits for it.
func (l *plainLock) Enter(now clock.Instant, r *control.Request, _ control.Mode) control.Decision {
	if l.held {
		l.waiting.Push(now, r)
		return control.Decision{Verdict: control.Wait}
	}
	l.held = true
	return control.Decision{Verdict: control.Admit}
}

// Leave hands the lock to the oldest waiter.
func (l *plainLock) Leave(now clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	if l.waiting.Len() == 0 {
		l.held = false
		return out
	}
	return append(out, control.Action{Kind: control.Resume, Request: l.waiting.Pop(now)})
}

// Withdraw takes a waiter out.
func (l *plainLock) Withdraw(_ clock.Instant, id uint64, out []control.Action) (removed bool, _ []control.Action) {
	return l.waiting.Withdraw(id), out
}

// places are those that a call is in, a bit each.
type places [2 * numLocks / 64]uint64

func (p *places) add(place int)      { p[place/64] |= 1 << (place % 64) }
func (p *places) remove(place int)   { p[place/64] &^= 1 << (place % 64) }
func (p *places) has(place int) bool { return p[place/64]&(1<<(place%64)) != 0 }

// Enter has a call go into section n, 0 being the memory section, before it goes on with what it does there. When in is false, Step must
// return p at once: the call waits for its turn, or is refused. After a wait Step is called again, and Enter then says that the call is in.
//
// Enter, Leave, Lock and Unlock are for use within Step. What a call is in when it is done, dropped or cancelled, it leaves by itself.
func (c Call) Enter(n int) (in bool, p Pause) { return c.enter(n) }

// Leave has a call leave section n. It does nothing if the call is not in.
func (c Call) Leave(n int) { c.leave(n) }

// Lock is Enter for lock n, which one call has at a time.
func (c Call) Lock(n int) (has bool, p Pause) { return c.enter(numLocks + n) }

// Unlock is Leave for lock n.
func (c Call) Unlock(n int) { c.leave(numLocks + n) }

func (c Call) enter(place int) (in bool, p Pause) {
	d, q := c.dispatch, c.q
	if d.sections.open(place) {
		return true, Pause{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.inside.has(place) {
		return true, Pause{}
	}
	section, mode := d.sections.at(place)
	now := d.at(d.clock.Now())
	switch decision := section.Enter(now, &q.request, mode); decision.Verdict {
	case control.Wait:
		q.awaited, q.waitsSince = place, now
		return false, Pause{kind: pauseSection}
	case control.Reject:
		return false, Pause{kind: pauseDropped, reason: decision.Reason}
	default:
		q.inside.add(place)
		return true, Pause{}
	}
}

func (c Call) leave(place int) {
	d, q := c.dispatch, c.q
	if d.sections.open(place) {
		return
	}
	d.mu.Lock()
	defer d.unlock(c.loop)
	if !q.inside.has(place) {
		return
	}
	d.mu.actions = d.mu.actions[:0]
	now := d.at(d.clock.Now())
	d.vacate(now, q, place)
	d.apply(c.loop, now)
	d.help()
}

// vacate has q leave one place and adds what is to be done about that to the actions.
func (d *dispatch) vacate(now clock.Instant, q *call, place int) {
	q.inside.remove(place)
	section, _ := d.sections.at(place)
	d.mu.actions = section.Leave(now, &q.request, d.mu.actions)
}

// vacateAll has q leave wherever it still is.
func (d *dispatch) vacateAll(now clock.Instant, q *call) {
	if q.inside == (places{}) {
		return
	}
	for place := range 2 * numLocks {
		if q.inside.has(place) {
			d.vacate(now, q, place)
		}
	}
}

// enterAfterWait takes note that it is the turn of q in the section that it waits for.
func (d *dispatch) enterAfterWait(l *loop, now clock.Instant, q *call) {
	q.inside.add(q.awaited)
	switch {
	case q.ghost:
		// Nobody is left who would go in.
		d.vacateAll(now, q)
		d.settle(l, q)
	case q.pause == pauseSection:
		d.unpause(now, q)
	default: // it is about to be parked, or is being cancelled
		q.resumed = true
	}
}

// abandonWait ends the wait of a call for a section, whose client has gone. A section that cannot be told keeps the call in its queue, as a
// ghost that leaves when it is its turn. It returns whether the call is free for further use.
func (d *dispatch) abandonWait(now clock.Instant, q *call) (free bool) {
	section, _ := d.sections.at(q.awaited)
	if w, ok := section.(control.Withdrawer); ok {
		free, d.mu.actions = w.Withdraw(now, q.id, d.mu.actions)
	}
	q.ghost = !free
	return free
}
