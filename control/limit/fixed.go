// Package limit bounds how many requests are in service at once, and with it how many may wait for that.
package limit

import (
	"fmt"
	"iter"

	"spillway/clock"
	"spillway/control"
)

// FixedConfig are the settings of Fixed.
type FixedConfig struct {
	Limit int `setting:"limit" unit:"requests" doc:"at most this many in service at once; 0 stands for the number of cores"`
	Queue int `setting:"queue" unit:"requests" doc:"at most this many waiting; one more is rejected on arrival"`
}

// DefaultFixed returns the default settings: as many in service as there are cores, and 128 waiting.
//
// A server that runs each request to completion on a core has few slots, so a limit on service alone would never bind, and all of the
// overload would go into the queue. What sheds is therefore the bound on the queue. 128 is long enough for the bursts of a server
// that is not overloaded: with exponential service times and Poisson arrivals at 95 % of capacity, 0.95¹²⁸ = 0.14 % of the requests
// find 128 before them. It is short enough that an admitted request waits no longer than 128/limit service times: 6.4 ms at 100 µs
// on two cores.
func DefaultFixed() FixedConfig { return FixedConfig{Limit: 0, Queue: 128} }

// Check returns an error that names the setting that is out of range.
func (c FixedConfig) Check() error {
	if c.Limit < 0 {
		return fmt.Errorf("limit is %d, must not be negative", c.Limit)
	}
	if c.Queue < 0 {
		return fmt.Errorf("queue is %d, must not be negative", c.Queue)
	}
	return nil
}

// Fixed is a concurrency limit that never changes. At most Limit requests are in service; a request that would have to wait while
// Queue others wait already is rejected on arrival. Where the Gate has fewer slots than Limit, Fixed does not know that a request will
// have to wait when nobody waits yet: then one waits even with a Queue of 0.
type Fixed struct {
	limit, queue int
	waiting      int // queued, not yet started
	inService    int
}

var (
	_ control.Controller = (*Fixed)(nil)
	_ control.Meter      = (*Fixed)(nil)
)

// NewFixed returns the limit that c describes. cores stands in for a Limit of 0. It panics when c is out of range, or when both are 0.
func NewFixed(c FixedConfig, cores int) *Fixed {
	if err := c.Check(); err != nil {
		panic("limit: " + err.Error())
	}
	if c.Limit == 0 {
		c.Limit = cores
	}
	if c.Limit < 1 {
		panic("limit: neither a limit nor a number of cores")
	}
	return &Fixed{limit: c.Limit, queue: c.Queue}
}

// Decide rejects arrivals that find the queue full and keeps the head of the queue waiting while the limit is reached.
func (f *Fixed) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	switch {
	case s == control.AtArrival:
		// Whoever comes while others wait must wait as well: the queue is first in, first out. The limit matters only for the
		// first waiter, and the Gate's slots may bind before it does; so those who wait are counted, not those beyond the limit.
		mustWait := f.waiting > 0 || f.inService >= f.limit
		if mustWait && f.waiting >= f.queue {
			return control.Decision{Verdict: control.Reject, Reason: control.Limit}
		}
	case f.inService >= f.limit:
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{}
}

// Observe counts who waits and who is in service.
func (f *Fixed) Observe(_ clock.Instant, e control.Event) {
	switch e.Kind {
	case control.Queued:
		f.waiting++
	case control.Started:
		f.waiting--
		f.inService++
	case control.Finished:
		f.inService--
	case control.Refused:
		if e.Stage == control.AtDequeue {
			f.waiting--
		}
	}
}

// Tick asks for no further tick: with nothing in service Fixed never says Wait.
func (f *Fixed) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// Meters yields the limit.
func (f *Fixed) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("limit", float64(f.limit)) }
}
