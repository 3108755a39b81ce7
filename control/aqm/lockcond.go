package aqm

import (
	"spillway/clock"
	"spillway/control"
)

// Cond is the queue of a condition variable. Nobody holds it, so there is no hold time to multiply: every policy but off judges by the age of
// the oldest waiter (Svalinn, as at locks). Like everything here it is a state machine; the lock that goes with it is the caller's.
type Cond struct {
	config LockConfig
	parked *control.Parked
}

var _ control.Withdrawer = (*Cond)(nil)

// NewCond returns a condition variable that nobody waits for. It panics when c is out of range.
func NewCond(c LockConfig) *Cond {
	if err := c.Check(); err != nil {
		panic("aqm: " + err.Error())
	}
	return &Cond{config: c, parked: control.NewParked()}
}

// Wait parks r until Signal or Broadcast names it, or refuses it, with reason Lock, when what it has waited and the age of the oldest waiter
// exceed its budget. The verdict is never Admit: whoever has nothing to wait for does not call it.
func (c *Cond) Wait(now clock.Instant, r *control.Request) control.Decision {
	if budget := c.config.budget(r); c.config.Policy != control.LockOff && budget > 0 && r.Waited+c.parked.Age(now) > budget {
		return control.Decision{Verdict: control.Reject, Reason: control.Lock}
	}
	c.parked.Push(now, r)
	return control.Decision{Verdict: control.Wait}
}

// Signal resumes the oldest waiter, if there is one.
func (c *Cond) Signal(now clock.Instant, out []control.Action) []control.Action {
	if c.parked.Len() == 0 {
		return out
	}
	return append(out, control.Action{Kind: control.Resume, Request: c.parked.Pop(now)})
}

// Broadcast resumes all who wait, oldest first.
func (c *Cond) Broadcast(now clock.Instant, out []control.Action) []control.Action {
	for c.parked.Len() > 0 {
		out = c.Signal(now, out)
	}
	return out
}

// Withdraw implements control.Withdrawer.
func (c *Cond) Withdraw(_ clock.Instant, id uint64, out []control.Action) (removed bool, _ []control.Action) {
	return c.parked.Withdraw(id), out
}
