// Package aqm manages queues actively: it judges a queue by how long requests stand in it, not by how many they are.
package aqm

import (
	"fmt"
	"iter"
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
)

// reentry is for how many intervals after a dropping state CoDel remembers how fast it had to drop (RFC 8289, section 5.5). Overload
// that comes back within that time is most likely the same overload.
const reentry = 16

// CoDelConfig are the settings of CoDel.
type CoDelConfig struct {
	Target   time.Duration `setting:"target" doc:"queueing delay that is acceptable for longer than an interval"`
	Interval time.Duration `setting:"interval" doc:"for how long the delay may exceed the target before the first drop"`
}

// DefaultCoDel returns the settings of RFC 8289: a target of 5 ms and an interval of 100 ms. They were made for round trips across
// the internet; for requests of microseconds a target of a tenth of the SLO is a better start.
func DefaultCoDel() CoDelConfig {
	return CoDelConfig{Target: 5 * time.Millisecond, Interval: 100 * time.Millisecond}
}

// Check returns an error that names the setting that is out of range.
func (c CoDelConfig) Check() error {
	if c.Target <= 0 {
		return fmt.Errorf("target is %v, must be above 0", c.Target)
	}
	if c.Interval <= 0 {
		return fmt.Errorf("interval is %v, must be above 0", c.Interval)
	}
	return nil
}

// CoDel drops requests at the head of the queue so that the queueing delay keeps returning to its target. A queue that absorbs a burst
// is good and drains within an interval; one in which nobody has waited less than the target for a whole interval only adds delay.
//
// After an interval above the target one request is dropped, and further ones at instants that follow the control law
//
//	next = last + Interval/√count
//
// where count is the number of drops since the dropping state began: against senders that slow down when they lose packets, the
// rate of drops would then rise until it is just enough. The state ends with the first request that waited less than the target.
// When it is entered again within 16 intervals, count resumes at what the last state added to it rather than at 1. The last waiter is
// never dropped: a server with nothing else to do had better serve it.
//
// The rules and constants are those of RFC 8289 (section 5) and of Linux (codel_impl.h), a request standing for a packet of full
// size. Where they spare a packet with at most one more behind it, so that the link stays busy, CoDel spares only one with
// none behind it. Senders of an open loop do not slow down, so the square-root law reaches the necessary rate of drops only slowly:
// that is a finding, not a fault here.
type CoDel struct {
	config     CoDelConfig
	waiting    int           // queued, not yet started, the head included
	firstAbove clock.Instant // when the delay will have been above the target for an interval; 0 while it is below
	dropping   bool
	dropNext   clock.Instant // when dropping: the instant of the next drop; otherwise what it was when dropping ended
	owed       bool          // a drop was made, and dropNext moves on if the delay of the next head is above the target as well
	count      uint32        // drops in this dropping state
	lastCount  uint32        // count when this dropping state began
}

var (
	_ control.Controller = (*CoDel)(nil)
	_ control.Meter      = (*CoDel)(nil)
)

// NewCoDel returns a CoDel in its initial state. It panics when c is out of range.
func NewCoDel(c CoDelConfig) *CoDel {
	if err := c.Check(); err != nil {
		panic("aqm: " + err.Error())
	}
	return &CoDel{config: c}
}

// Decide admits every arrival and judges the head of the queue.
func (c *CoDel) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtArrival || !c.drop(now, now.Sub(r.Arrived)) {
		return control.Decision{}
	}
	return control.Decision{Verdict: control.Reject, Reason: control.CoDel}
}

// drop is the dequeue routine of RFC 8289, section 5.5, for one request. The RFC takes the next packet itself after a drop; here
// the Gate asks again, at the same instant.
func (c *CoDel) drop(now clock.Instant, sojourn time.Duration) bool {
	persists := c.persists(now, sojourn)
	switch {
	case !persists:
		c.dropping, c.owed = false, false
		return false
	case !c.dropping:
		c.enter(now)
		return true
	}
	if c.owed {
		c.dropNext = c.law(c.dropNext)
		c.owed = false
	}
	if now < c.dropNext {
		return false
	}
	c.count++
	c.owed = true
	return true
}

// persists reports whether the delay has been above the target for an interval.
func (c *CoDel) persists(now clock.Instant, sojourn time.Duration) bool {
	switch {
	case sojourn < c.config.Target || c.waiting <= 1:
		c.firstAbove = 0
		return false
	case c.firstAbove == 0:
		c.firstAbove = now.Add(c.config.Interval)
		return false
	default:
		return now >= c.firstAbove
	}
}

// enter begins a dropping state with the drop being made.
func (c *CoDel) enter(now clock.Instant) {
	c.dropping = true
	grown := c.count - c.lastCount
	if grown > 1 && now.Sub(c.dropNext) < reentry*c.config.Interval {
		c.count = grown
	} else {
		c.count = 1
	}
	c.lastCount = c.count
	c.dropNext = c.law(now)
}

// law returns the instant of the drop after the one at t.
func (c *CoDel) law(t clock.Instant) clock.Instant {
	return t.Add(time.Duration(float64(c.config.Interval) / math.Sqrt(float64(c.count))))
}

// Observe counts who waits.
func (c *CoDel) Observe(_ clock.Instant, e control.Event) {
	switch {
	case e.Kind == control.Queued:
		c.waiting++
	case e.Kind == control.Started, e.Kind == control.Refused && e.Stage == control.AtDequeue:
		c.waiting--
		if c.waiting == 0 {
			// A queue that has emptied, if only because its waiters went away, has no standing delay.
			c.firstAbove, c.dropping, c.owed = 0, false, false
		}
	}
}

// Tick asks for no further tick: CoDel acts only when requests leave the queue.
func (c *CoDel) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// Meters yields the drops of the current dropping state, 0 outside of one.
func (c *CoDel) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		count := 0.0
		if c.dropping {
			count = float64(c.count)
		}
		yield("codel_count", count)
	}
}
