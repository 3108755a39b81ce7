// Package machine models a server's hardware: cores with a FIFO run queue, a memory bus shared fairly by the streams on it, locks,
// waits and RAM. A request is a Job, a list of steps; the machine says when each is done.
//
// It is event-driven and exact: completion instants are computed from rates and amounts, never found by ticking. The owner asks
// Next for the earliest of them and calls Advance with it; in the simulator that moves virtual time, on the model ground a timer
// thread waits for the wall clock to get there. There is no goroutine and no clock here, and nothing is allocated once the machine
// has seen its peak of concurrent jobs. A Machine is not safe for concurrent use.
package machine

import (
	"math"
	"time"

	"spillway/clock"
)

// Job is one request's work on the machine. The owner fills ID and Steps and may reuse the Job after Done or Drop; the rest belongs
// to the machine.
type Job struct {
	ID    uint64
	Steps []Step

	pc       int32 // the step it is at
	state    state
	ram      int64
	queuedAt clock.Instant // when it joined the run queue, or the queue of a lock, or was parked
	waited   time.Duration // for a core, for locks and parked
	began    clock.Instant // when it first had a core; clock.Never before that
}

// Began returns when the job first had a core, clock.Never if it has not had one.
func (j *Job) Began() clock.Instant { return j.began }

// Waited returns how long the job has waited so far: for a core, for locks, and parked by its owner. What it is waiting for now
// counts when it is over.
func (j *Job) Waited() time.Duration { return j.waited }

// Step returns the step that the job is at; only valid while it has one.
func (j *Job) Step() *Step { return &j.Steps[j.pc] }

type state uint8

const (
	idle     state = iota // not on the machine
	runnable              // in the run queue
	running               // holds a core
	asking                // holds a core, its owner has been asked by a Hook event
	blocked               // waits for a lock, without a core
	delayed               // in a Delay step, without a core
	parked                // told to wait by its owner, without a core
)

// EventKind says what an Event reports.
type EventKind uint8

// The events of a machine.
const (
	Done EventKind = iota // Job has finished and is the owner's again
	Hook                  // Job is at an Enter or Leave step: answer with Continue, Park or Drop before time moves on
	Died                  // RAM ran out at this instant; the machine does nothing any more
)

// Event is what the owner must know of. Its instant is the one that Advance, Submit or the answer was called with.
type Event struct {
	Kind EventKind
	Job  *Job
}

// Machine runs jobs.
type Machine struct {
	spec   Spec
	free   int // idle cores
	queue  ring
	timers timers
	bus    bus
	locks  []lock
	ram    int64
	dead   bool

	lastChange clock.Instant // of the number of busy cores
	busyTime   time.Duration // core-time used up to lastChange
}

type lock struct {
	owner   *Job
	waiters ring
}

// New returns an idle machine with the given number of locks. It panics when spec.Check reports an error: files are checked where
// they are read.
func New(spec Spec, locks int) *Machine {
	if err := spec.Check(); err != nil {
		panic("machine: " + err.Error())
	}
	return &Machine{spec: spec, free: spec.Cores, locks: make([]lock, locks), bus: bus{spec: spec.Bus}}
}

// Submit brings a job to the machine. It gets a core at once if one is idle and queues behind the others if not.
func (m *Machine) Submit(now clock.Instant, j *Job, out []Event) []Event {
	if j.state != idle {
		panic("machine: a job was submitted that is on the machine already")
	}
	if m.dead {
		return out
	}
	j.pc, j.ram, j.waited, j.began = 0, 0, 0, clock.Never
	m.enqueue(now, j)
	return m.dispatch(now, out)
}

// Next returns the instant of the earliest completion, clock.Never when nothing is under way.
func (m *Machine) Next() clock.Instant {
	if m.dead {
		return clock.Never
	}
	return min(m.timers.next(), m.bus.next())
}

// Advance completes what is due at now and appends what the owner must know of. Time may not skip a completion: now is at most Next.
func (m *Machine) Advance(now clock.Instant, out []Event) []Event {
	next := m.Next()
	if now > next {
		panic("machine: time moved past a completion")
	}
	if now < next {
		return out
	}
	for m.timers.next() == now {
		out = m.timerFired(now, m.timers.pop(), out)
	}
	// A stream that ends frees its core, and who gets that core may start a stream: so one at a time, after the bus has settled.
	m.bus.settle(now)
	for j := m.bus.finished(); j != nil; j = m.bus.finished() {
		j.pc++
		out = m.proceed(now, j, out)
	}
	return m.dispatch(now, out)
}

// Continue answers a Hook event, or resumes a parked job: the job goes on with its next step. A parked job needs a core first and queues
// for one.
func (m *Machine) Continue(now clock.Instant, j *Job, out []Event) []Event {
	j.pc++
	switch j.state {
	case asking:
		j.state = running
		out = m.proceed(now, j, out)
	case parked:
		j.waited += now.Sub(j.queuedAt)
		m.enqueue(now, j)
	default:
		panic("machine: Continue for a job that is neither asking nor parked")
	}
	return m.dispatch(now, out)
}

// Park answers a Hook event: the job gives up its core and stays at its step until Continue or Drop.
func (m *Machine) Park(now clock.Instant, j *Job, out []Event) []Event {
	if j.state != asking {
		panic("machine: Park for a job that is not asking")
	}
	j.state, j.queuedAt = parked, now
	m.release(now)
	return m.dispatch(now, out)
}

// Drop takes an asking or parked job off the machine, with what it holds. There is no Done event for it.
func (m *Machine) Drop(now clock.Instant, j *Job, out []Event) []Event {
	switch j.state {
	case asking:
		m.release(now)
	case parked:
	default:
		panic("machine: Drop for a job that is neither asking nor parked")
	}
	m.leave(j)
	return m.dispatch(now, out)
}

// enqueue puts a job at the end of the run queue.
func (m *Machine) enqueue(now clock.Instant, j *Job) {
	j.state = runnable
	j.queuedAt = now
	m.queue.push(j)
}

// dispatch gives idle cores to the oldest runnable jobs.
func (m *Machine) dispatch(now clock.Instant, out []Event) []Event {
	for m.free > 0 && m.queue.len() > 0 && !m.dead {
		j := m.queue.pop()
		j.waited += now.Sub(j.queuedAt)
		if j.began == clock.Never {
			j.began = now
		}
		j.state = running
		m.account(now)
		m.free--
		out = m.proceed(now, j, out)
	}
	return out
}

// release makes a core idle.
func (m *Machine) release(now clock.Instant) {
	m.account(now)
	m.free++
}

// account adds the core-time since the last change of the number of busy cores.
func (m *Machine) account(now clock.Instant) {
	m.busyTime += time.Duration(m.spec.Cores-m.free) * now.Sub(m.lastChange)
	m.lastChange = now
}

// leave takes a job off the machine's books.
func (m *Machine) leave(j *Job) {
	m.ram -= j.ram
	j.ram = 0
	j.state = idle
}

// proceed carries a job that holds a core through its steps until one takes time, parks it, asks the owner, or is the last.
func (m *Machine) proceed(now clock.Instant, j *Job, out []Event) []Event {
	for int(j.pc) < len(j.Steps) {
		s := &j.Steps[j.pc]
		switch s.Kind {
		case Compute:
			m.timers.push(now.Add(s.Duration), j)
			return out
		case Stream:
			m.bus.add(now, j, s)
			return out
		case Delay:
			j.state = delayed
			m.release(now)
			m.timers.push(now.Add(s.Duration), j)
			return out
		case Lock:
			// A job that was handed the lock while it waited finds itself its owner here, with the core it then queued for.
			l := &m.locks[s.Index]
			if l.owner != nil && l.owner != j {
				j.state, j.queuedAt = blocked, now
				l.waiters.push(j)
				m.release(now)
				return out
			}
			l.owner = j
			m.timers.push(now.Add(s.Duration), j)
			return out
		case Memory:
			j.ram += s.Bytes
			m.ram += s.Bytes
			if m.spec.RAM > 0 && m.ram > m.spec.RAM {
				m.die(now)
				return append(out, Event{Kind: Died, Job: j})
			}
			j.pc++
		case Enter, Leave:
			j.state = asking
			return append(out, Event{Kind: Hook, Job: j})
		}
	}
	m.release(now)
	m.leave(j)
	return append(out, Event{Kind: Done, Job: j})
}

// die stops everything: what the sensors show from here on is what they showed at now.
func (m *Machine) die(now clock.Instant) {
	m.account(now)
	m.bus.settle(now)
	m.dead = true
}

// timerFired ends a step whose length was known when it began.
func (m *Machine) timerFired(now clock.Instant, j *Job, out []Event) []Event {
	switch s := &j.Steps[j.pc]; s.Kind {
	case Lock:
		m.unlock(now, &m.locks[s.Index])
	case Delay:
		j.pc++
		if int(j.pc) == len(j.Steps) {
			m.leave(j)
			return append(out, Event{Kind: Done, Job: j})
		}
		m.enqueue(now, j)
		return out
	}
	j.pc++
	return m.proceed(now, j, out)
}

// unlock hands the lock to its oldest waiter, who keeps it while it queues for a core.
func (m *Machine) unlock(now clock.Instant, l *lock) {
	l.owner = nil
	if l.waiters.len() == 0 {
		return
	}
	next := l.waiters.pop()
	l.owner = next
	next.waited += now.Sub(next.queuedAt)
	m.enqueue(now, next)
}

// BusyCores returns how many cores are held.
func (m *Machine) BusyCores() int { return m.spec.Cores - m.free }

// BusyTime returns the core-time used up to now.
func (m *Machine) BusyTime(now clock.Instant) time.Duration {
	if m.dead {
		return m.busyTime
	}
	return m.busyTime + time.Duration(m.spec.Cores-m.free)*now.Sub(m.lastChange)
}

// QueueDelay returns the age of the oldest job in the run queue, 0 when there is none.
func (m *Machine) QueueDelay(now clock.Instant) time.Duration {
	if m.queue.len() == 0 {
		return 0
	}
	return now.Sub(m.queue.peek().queuedAt)
}

// QueueLen returns how many jobs wait for a core.
func (m *Machine) QueueLen() int { return m.queue.len() }

// BytesMoved returns the bytes that have crossed the bus up to now.
func (m *Machine) BytesMoved(now clock.Instant) uint64 {
	if m.dead {
		now = m.bus.at
	}
	return uint64(math.Round(m.bus.movedAt(now)))
}

// Streams returns how many streams are on the bus.
func (m *Machine) Streams() int { return m.bus.n }

// RAM returns the bytes of RAM held.
func (m *Machine) RAM() int64 { return m.ram }

// Dead reports whether the RAM ran out.
func (m *Machine) Dead() bool { return m.dead }

// Spec returns what the machine was made from.
func (m *Machine) Spec() Spec { return m.spec }
