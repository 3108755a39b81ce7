// Package replay reads, writes, imports and generates logs of requests: what was asked of a server, and when. A log is a CSV file with the
// columns time, class, key, size and operation (see Scan), which package workloads replays from memory.
package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"spillway/clock"
	"spillway/internal/dist"
	"spillway/workloads"
)

// Trace is a log in memory: what is asked, and when. It does not change.
type Trace struct {
	*workloads.Recording
	Times  []time.Duration // of each request, from the beginning of the log; they do not decrease
	Round  time.Duration   // how long the log takes: when it is repeated, its beginning follows so much after its beginning
	Bad    []BadRow        // the first rows that were passed over
	Passed int64           // rows that were passed over
}

// BadRow is a row of a file that is no request.
type BadRow struct {
	Line   int
	Reason string
}

// newTrace returns the trace of what was recorded. round is how long the log takes, 0 where that is not known: then the mean gap follows the last
// request.
func newTrace(r *workloads.Recording, times []time.Duration, round time.Duration) (*Trace, error) {
	n := len(times)
	if n == 0 {
		return nil, fmt.Errorf("holds no requests")
	}
	first, last := times[0], times[n-1]
	if round == 0 {
		if n < 2 || first == last {
			return nil, fmt.Errorf("needs two requests at different instants to have a rate")
		}
		// The log begins with its first request: what came before it, nobody recorded.
		for i := range times {
			times[i] -= first
		}
		round = (last - first) + (last-first)/time.Duration(n-1)
	}
	return &Trace{Recording: r, Times: times, Round: round}, nil
}

// Rate returns the mean number of requests per second.
func (t *Trace) Rate() float64 { return float64(len(t.Times)) / t.Round.Seconds() }

// Digest returns a hash of all requests and their instants.
func (t *Trace) Digest() uint64 {
	var e workloads.Entry
	hash := uint64(t.Round)
	for i, at := range t.Times {
		t.Entry(i, &e)
		hash = dist.Mix(hash ^ uint64(at))
		for k, key := range e.Keys {
			for _, b := range key {
				hash = (hash ^ uint64(b)) * 1099511628211
			}
			hash = dist.Mix(hash ^ uint64(e.Sizes[k]))
		}
		hash = dist.Mix(hash ^ uint64(e.Class)<<8 ^ uint64(e.Kind))
	}
	return hash
}

// Pace says how fast a log is replayed, and which part of it a run sees.
//
// The window begins with the beginning of the log, whatever the warm-up: so all controllers are measured with the same part, also those that warm up
// for longer. The warm-up has what comes before it, which is the end of the log, as if it had been going round already.
type Pace struct {
	Speed  float64       // recorded time over replayed time: 2 for twice as fast
	WarmUp time.Duration // before the window
	Stop   bool          // ends with the log instead of beginning again
}

// Arrivals are the instants of a log, in replayed time from the beginning of the warm-up. It is an arrival.Process.
type Arrivals struct {
	trace *Trace
	pace  Pace
	next  int   // number of the request
	round int64 // which it is in: 0 is that which begins with the window
}

// NewArrivals returns the process, and the number of the request that is due first.
func NewArrivals(t *Trace, p Pace) (a *Arrivals, first int, err error) {
	if !(p.Speed > 0) || float64(t.Round)/p.Speed > maxRound || float64(t.Round)/p.Speed < 1 {
		return nil, 0, fmt.Errorf("a log of %v cannot be replayed at the speed %g: a round of it would take %g s", t.Round, p.Speed, t.Round.Seconds()/p.Speed)
	}
	a = &Arrivals{trace: t, pace: p}
	// The first that is not due before the warm-up begins.
	a.round = -int64(math.Ceil(float64(p.WarmUp) * p.Speed / float64(t.Round)))
	for a.at(0) > 0 {
		a.round--
	}
	a.next, _ = slices.BinarySearchFunc(t.Times, clock.Instant(0), func(at time.Duration, from clock.Instant) int {
		if a.instant(at) < from {
			return -1
		}
		return 1
	})
	if a.next == len(t.Times) {
		a.next = 0
		a.round++
	}
	return a, a.next, nil
}

// maxRound bounds what a round may take in replayed time: three years.
const maxRound = 1e17

// instant returns the replayed instant of a recorded one in the round at hand. At the recorded speed they are the same nanoseconds; at others each is
// worked out from the beginning of the window, so that nothing accumulates. Recorded time is then no integer: a few hundred rounds of a log of a
// year would not fit. It is rounded once, so instants do not decrease from one round to the next either.
func (a *Arrivals) instant(at time.Duration) clock.Instant {
	if a.pace.Speed == 1 {
		return clock.Instant(a.pace.WarmUp + time.Duration(a.round)*a.trace.Round + at)
	}
	recorded := math.FMA(float64(a.round), float64(a.trace.Round), float64(at))
	return clock.Instant(a.pace.WarmUp + time.Duration(recorded/a.pace.Speed))
}

func (a *Arrivals) at(i int) clock.Instant { return a.instant(a.trace.Times[i]) }

// Next yields the next instant. It needs no randomness.
func (a *Arrivals) Next(*rand.Rand) clock.Instant {
	if a.pace.Stop && a.round > 0 {
		return clock.Never
	}
	at := a.at(a.next)
	if a.next++; a.next == len(a.trace.Times) {
		a.next = 0
		a.round++
	}
	return at
}

// Part is what of the window a log fills.
type Part struct {
	Rate   float64   // requests per second
	Counts []float64 // requests by class
}

// Parts cuts the window into n parts of equal length and counts the requests of each.
func (t *Trace) Parts(p Pace, window time.Duration, n int) ([]Part, error) {
	p.WarmUp = 0
	a, _, err := NewArrivals(t, p)
	if err != nil {
		return nil, err
	}
	list := make([]Part, n)
	for i := range list {
		list[i].Counts = make([]float64, len(t.Classes))
		end := clock.Instant(float64(window) * float64(i+1) / float64(n))
		count := 0
		for !(p.Stop && a.round > 0) && a.at(a.next) < end {
			t.Count(a.next, a.next+1, list[i].Counts)
			a.Next(nil)
			count++
		}
		list[i].Rate = float64(count) / (window.Seconds() / float64(n))
	}
	return list, nil
}
