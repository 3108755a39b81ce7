package limit

import (
	"fmt"
	"iter"
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
)

// law is how an Adaptive limit learns.
type law interface {
	// sample returns the limit after one more observation. inFlight is how many were in service, this one included.
	sample(limit float64, o observation) float64
}

// observation is one request, or a window of them.
type observation struct {
	rtt      time.Duration // from when it was let into service to its end
	inFlight int
	dropped  bool // it failed
}

// Adaptive is a concurrency limit that follows what requests experience, in the manner of Netflix's concurrency-limits. At most as many
// are in service as the limit says. A request that would have to wait while others do already, as many as the bound on the queue, is
// rejected on arrival; the library itself lets nobody wait, which is a queue of 0.
//
// What it observes is the time from when it let a request go until the request is finished: service, and every wait for a core, a lock or a
// section in between. Waiting before the limit is not part of it, or the limit would take the queue that it makes for a sign of overload.
//
// When a request was let go is kept in its tag, so an Adaptive stands in a Chain without another user of tags.
type Adaptive struct {
	law      law
	window   window
	min, max float64
	limit    float64
	queue    int

	waiting   int // queued, not yet started
	inService int
}

var (
	_ control.Controller = (*Adaptive)(nil)
	_ control.Meter      = (*Adaptive)(nil)
)

// bounds are the settings that all adaptive limits have.
type bounds struct{ initial, min, max, queue int }

func (b bounds) check() error {
	switch {
	case b.min < 1:
		return fmt.Errorf("min is %d, must be at least 1: without anybody in service nothing would be learnt", b.min)
	case b.max < b.min:
		return fmt.Errorf("max is %d, must not be below min, which is %d", b.max, b.min)
	case b.initial < b.min || b.initial > b.max:
		return fmt.Errorf("initial is %d, must be from min to max, %d to %d", b.initial, b.min, b.max)
	case b.queue < 0:
		return fmt.Errorf("queue is %d, must not be negative", b.queue)
	}
	return nil
}

func newAdaptive(l law, w window, b bounds) *Adaptive {
	return &Adaptive{law: l, window: w, min: float64(b.min), max: float64(b.max), limit: float64(b.initial), queue: b.queue}
}

// Decide rejects arrivals that find the queue full and keeps the head of the queue waiting while the limit is reached.
func (a *Adaptive) Decide(now clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	reached := a.inService >= int(a.limit)
	switch {
	case s == control.AtArrival:
		// As in Fixed: whoever comes while others wait must wait as well.
		if (reached || a.waiting > 0) && a.waiting >= a.queue {
			return control.Decision{Verdict: control.Reject, Reason: control.Limit}
		}
		return control.Decision{}
	case reached:
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{Tag: stamp(now)}
}

// Observe counts who waits and who is in service, and learns from those that finish.
func (a *Adaptive) Observe(now clock.Instant, e control.Event) {
	switch e.Kind {
	case control.Queued:
		a.waiting++
	case control.Started:
		a.waiting--
		a.inService++
	case control.Finished:
		o := observation{rtt: sinceStamp(now, e.Request.Tag), inFlight: a.inService, dropped: e.Failed}
		a.inService--
		if o, ok := a.window.add(now, o); ok {
			a.limit = min(max(a.law.sample(a.limit, o), a.min), a.max)
		}
	case control.Refused:
		if e.Stage == control.AtDequeue {
			a.waiting--
		}
	}
}

// Tick asks for no further tick: with nothing in service an Adaptive never says Wait.
func (a *Adaptive) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// Meters yields the limit.
func (a *Adaptive) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("limit", math.Floor(a.limit)) }
}

// stampUnit is the resolution of stamps: fine enough for services of microseconds, and a stamp of 32 bits comes round only after four and
// a half minutes.
const stampUnit = 64 * time.Nanosecond

// stamp returns now as a tag, which must not be 0.
func stamp(now clock.Instant) uint32 { return max(uint32(now/clock.Instant(stampUnit)), 1) }

// sinceStamp returns the time from the stamp to now.
func sinceStamp(now clock.Instant, tag uint32) time.Duration {
	return time.Duration(stamp(now)-tag) * stampUnit
}

// window gathers observations into one for each stretch of time; with a span of 0 it passes each on.
type window struct {
	span    time.Duration
	least   int           // samples below which a window says nothing
	ignore  time.Duration // shorter times are not observed
	ends    clock.Instant
	n       int
	sum     time.Duration
	busiest int
	dropped bool
}

func checkWindow(span time.Duration, samples int, ignore time.Duration) error {
	switch {
	case span < 0:
		return fmt.Errorf("window is %v, must not be negative", span)
	case samples < 1:
		return fmt.Errorf("window_samples is %d, must be at least 1", samples)
	case ignore < 0:
		return fmt.Errorf("ignore is %v, must not be negative", ignore)
	}
	return nil
}

// add takes o in. When that closes a window of enough observations, ok is true and the window's own observation is returned: the mean
// time, the most in flight, and whether any was dropped. What a window with too few has seen is forgotten, as in the library.
func (w *window) add(now clock.Instant, o observation) (whole observation, ok bool) {
	if w.span == 0 {
		return o, true
	}
	if o.rtt < w.ignore {
		return whole, false
	}
	w.n++
	w.sum += o.rtt
	w.busiest = max(w.busiest, o.inFlight)
	w.dropped = w.dropped || o.dropped
	if now <= w.ends {
		return whole, false
	}
	whole = observation{rtt: w.sum / time.Duration(w.n), inFlight: w.busiest, dropped: w.dropped}
	ok = w.n >= w.least
	w.ends = now.Add(w.span)
	w.n, w.sum, w.busiest, w.dropped = 0, 0, 0, false
	return whole, ok
}
