// Package reqlog defines what is recorded of one request.
package reqlog

import (
	"time"

	"spillway/clock"
)

// Fate is what became of a request. Fates are exhaustive and disjoint: every arrival of the window has exactly one.
type Fate uint8

// The fates, in the order of the columns of points.csv.
const (
	Pending  Fate = iota // not decided yet; never in a result
	OK                   // answered in time
	Late                 // answered, outside the SLO
	Refused              // by the client's own wallet, rate or queue: never sent
	Rejected             // by the server, before it queued or ran
	Dropped              // by the server, after it had queued or begun
	Expired              // its deadline passed in a server queue
	TimedOut             // the client stopped waiting
	Failed               // error or lost connection
	Unsent               // the generator's own fault
	NumFates             // how many there are, for arrays indexed by Fate
)

var fateNames = [NumFates]string{"pending", "ok", "late", "refused", "rejected", "dropped", "expired", "timed_out", "failed", "unsent"}

// String returns the column name of f.
func (f Fate) String() string {
	if int(f) < len(fateNames) {
		return fateNames[f]
	}
	return "unknown"
}

// Sent reports whether a request of this fate reached the wire.
func (f Fate) Sent() bool { return f != Refused && f != Unsent && f != Pending }

// Completed reports whether a request of this fate was answered: latency percentiles are over these.
func (f Fate) Completed() bool { return f == OK || f == Late }

// Record is one request's life as its client saw it. It is 72 bytes and has no pointers, so that millions of them cost the garbage
// collector nothing.
type Record struct {
	Seq      uint64        // position in the arrival sequence of the run, from 0
	Intended clock.Instant // when it was due to leave
	Sent     clock.Instant // when the generator handed it to the transport; 0 if never
	Held     time.Duration // how long its client's own control, a wallet or a rate, had kept it back until then
	Done     clock.Instant // when its reply had been read, or its fate was known otherwise
	Queued   time.Duration // the server's queueing delay; -1 when the server did not say
	Service  time.Duration // the server's service time; -1 when the server did not say
	BytesOut uint32        // size of the request on the wire
	BytesIn  uint32        // size of the reply on the wire
	Class    uint16        // index into the workload's classes
	Kind     uint8         // workloads.Kind of the operation
	Fate     Fate
	Reason   uint8 // control.Reason of a shed request, 0 otherwise
	Attempts uint8 // how often it was sent
	Keys     uint8 // how many keys it was about: more than one for a read of several
	Hits     uint8 // of a read: how many of them it found
}

// Latency is the time from the instant at which the request should have left to the reply. A generator that stalls together with the
// server would otherwise report the stall as a pause between users.
func (r *Record) Latency() time.Duration { return r.Done.Sub(r.Intended) }

// SendLag is the generator's own error: how much later than it should the request was handed to the transport. What its client's own control
// kept back was not late by the generator's fault; it is part of the latency all the same.
func (r *Record) SendLag() time.Duration { return r.Sent.Sub(r.Intended) - r.Held }
