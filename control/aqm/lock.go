package aqm

import (
	"fmt"
	"iter"
	"time"

	"spillway/clock"
	"spillway/control"
)

// holdWeight is the weight of the last hold time in its running mean (Svalinn).
const holdWeight = 0.8

// LockConfig says how the queue of a lock, or of a condition variable, is managed.
type LockConfig struct {
	Policy string        // off, qdelay or qlen
	Budget time.Duration // the waiting that a request without a budget of its own may be asked to bear; 0 for no bound
}

// Check returns an error that names what is out of range.
func (c LockConfig) Check() error {
	switch c.Policy {
	case control.LockOff, control.LockQDelay, control.LockQLen:
	default:
		return fmt.Errorf("lock policy is %q, must be %s, %s or %s", c.Policy, control.LockOff, control.LockQDelay, control.LockQLen)
	}
	if c.Budget < 0 {
		return fmt.Errorf("lock budget is %v, must not be negative", c.Budget)
	}
	return nil
}

// budget returns what r may be asked to bear, 0 for no bound.
func (c *LockConfig) budget(r *control.Request) time.Duration {
	if r.Budget > 0 {
		return r.Budget
	}
	return c.Budget
}

// Violated reports whether r has waited longer than its budget. A handler may ask halfway, and give up: what it has done so far is lost, but not
// what is still to be done (Svalinn's is_slo_violated).
func Violated(r *control.Request) bool { return r.Budget > 0 && r.Waited > r.Budget }

// lock is the queue of a lock: a section of one place. Who finds it taken is dropped before it waits, not after, when the wait to be
// expected and what it has waited before exceed its budget. By qdelay that is
//
//	waited + age of the oldest waiter > budget
//
// and by qlen
//
//	waited + mean hold time × number of waiters > budget
//
// with the mean moving by mean ← 0.2·mean + 0.8·last. The latter sees requests that arrive together, while the oldest of them is still young
// (Protego §4, Svalinn and the artifact's sync.c).
type lock struct {
	config LockConfig
	held   bool
	since  clock.Instant // when the holder got it
	hold   time.Duration // running mean of the time from getting it to giving it back
	parked *control.Parked
}

var (
	_ control.Section    = (*lock)(nil)
	_ control.Withdrawer = (*lock)(nil)
	_ control.Meter      = (*lock)(nil)
)

// NewLock returns the queue of a free lock. Entered with WaitWithinBudget, as drivers do, it judges by its policy; with Try a taken lock refuses,
// with WaitMode everybody waits. It is handed over first in, first out. The reason of a refusal is Lock. It panics when c is out of range.
func NewLock(c LockConfig) control.Section {
	if err := c.Check(); err != nil {
		panic("aqm: " + err.Error())
	}
	return &lock{config: c, parked: control.NewParked()}
}

// Enter implements control.Section.
func (l *lock) Enter(now clock.Instant, r *control.Request, m control.Mode) control.Decision {
	switch {
	case !l.held:
		l.held, l.since = true, now
		return control.Decision{Verdict: control.Admit}
	case m == control.Try, m == control.WaitWithinBudget && l.congested(now, r):
		return control.Decision{Verdict: control.Reject, Reason: control.Lock}
	}
	l.parked.Push(now, r)
	return control.Decision{Verdict: control.Wait}
}

// congested reports whether r would wait longer than its budget.
func (l *lock) congested(now clock.Instant, r *control.Request) bool {
	budget := l.config.budget(r)
	if budget == 0 {
		return false
	}
	switch l.config.Policy {
	case control.LockQDelay:
		return r.Waited+l.parked.Age(now) > budget
	case control.LockQLen:
		return r.Waited+l.hold*time.Duration(l.parked.Len()) > budget
	}
	return false
}

// Leave hands the lock to the oldest waiter.
func (l *lock) Leave(now clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	if !l.held {
		panic("aqm: a lock is given back that nobody holds")
	}
	l.hold = time.Duration((1-holdWeight)*float64(l.hold) + holdWeight*float64(now.Sub(l.since)))
	if l.parked.Len() == 0 {
		l.held = false
		return out
	}
	l.since = now
	return append(out, control.Action{Kind: control.Resume, Request: l.parked.Pop(now)})
}

// Withdraw implements control.Withdrawer.
func (l *lock) Withdraw(_ clock.Instant, id uint64, out []control.Action) (removed bool, _ []control.Action) {
	return l.parked.Withdraw(id), out
}

// Meters yields who waits, and the mean hold time.
func (l *lock) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("lock_waiting", float64(l.parked.Len())) && yield("lock_hold_us", float64(l.hold)/float64(time.Microsecond))
	}
}
