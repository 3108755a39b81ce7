// Package load is the part of the load generator that could run anywhere: which request is due when, what became of it, and the
// counts and histograms of the window. It has no clock, no goroutine and no socket; package drive runs it in real time and the
// simulator in virtual time.
package load

import (
	"errors"
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// ErrEvicted is the error of a key that was stored before a load: the server has not kept it until it was read back. Whoever knows how the server was
// started adds what to do.
var ErrEvicted = errors.New("was stored, but is gone: the server evicted it")

// Outcome is how the exchange with the server ended, as seen by the transport.
type Outcome uint8

// The outcomes.
const (
	Answered  Outcome = iota // a reply that does what was asked, a miss included
	Shed                     // the server refused for Reply.Reason
	Broken                   // an error reply, or the connection was lost
	Abandoned                // the client stopped waiting
	NotSent                  // the generator could not hand it to the transport
	Shunned                  // the client's own control refused it: it never left
)

// Reply is what a transport knows when a request is over.
type Reply struct {
	At      clock.Instant // when the reply had been read whole, or the outcome was known otherwise
	Outcome Outcome
	Hit     bool           // a read that found its key
	Hits    uint8          // of a read of several keys: how many it found; Hit says nothing then
	Reason  control.Reason // of Shed
	Queued  time.Duration  // the server's queueing delay; -1 when it did not say
	Service time.Duration  // the server's service time; -1 when it did not say
	Bytes   uint32         // size of the reply on the wire
}

// Target is where requests go. It is used by one thread and needs no lock. Each record given to Issue is handed exactly once to the
// function that the target was built with, its fate decided: during Issue, Flush, Wait or Close.
type Target interface {
	// Issue takes one request; it may stay in a buffer until Flush. The record is copied, and op is not used after Issue returns.
	Issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, client uint32)
	// Flush hands everything issued to the transport and stamps it sent.
	Flush(now clock.Instant)
	// Wait delivers replies. It returns at until, or earlier when it has delivered some.
	Wait(until clock.Instant)
	// Close settles what is still pending as timed out, because the client stops waiting, and frees the connections.
	Close() error
}

// SpinAlways, given to a target as the time to poll before an instant, makes it poll all the time.
const SpinAlways = time.Duration(1<<63 - 1)

// Counters is what a target noticed beside the fates of requests. A target that keeps it has a method Counters() load.Counters.
type Counters struct {
	Reconnects int64 // connections established anew after a loss
	Lost       int64 // connections lost
	OutOfStep  int64 // connections given up because a reply did not belong to the request whose turn it was
	WindowFull int64 // requests unsent because their connection had its bound of requests or bytes under way
	SocketFull int64 // flushes after which the kernel had not taken everything
	Grown      int64 // connections established beyond those that were asked for, because all had their bound under way
	LateAfter  int64 // replies that came after their request had timed out

	// Requests that timed out, by what they were waiting for.
	TimedOutDial  int64 // for their connection to be established
	TimedOutWrite int64 // for the kernel to take them
	TimedOutReply int64 // for the reply

	// On the model ground, where instants are computed, a message that comes later than it was due. Only those that disturb the run
	// make its numbers wrong: the server had computed past them, or the client had acted without them.
	Disturbed   int64         // requests with a message that disturbed the run
	LateReplies int64         // replies that were read later than they should have been, whether that mattered or not
	LateMax     time.Duration // the worst of all these, in modelled time
	ScaleNeeded int           // the time scale at which few enough would be disturbed; NoScale if no scale would do
}

// NoScale stands for a time scale that does not exist.
const NoScale = math.MaxInt

// Add adds the counters of another thread's target.
func (c *Counters) Add(o Counters) {
	c.Reconnects += o.Reconnects
	c.Lost += o.Lost
	c.OutOfStep += o.OutOfStep
	c.WindowFull += o.WindowFull
	c.SocketFull += o.SocketFull
	c.Grown += o.Grown
	c.LateAfter += o.LateAfter
	c.TimedOutDial += o.TimedOutDial
	c.TimedOutWrite += o.TimedOutWrite
	c.TimedOutReply += o.TimedOutReply
	c.Disturbed += o.Disturbed
	c.LateReplies += o.LateReplies
	c.LateMax = max(c.LateMax, o.LateMax)
	c.ScaleNeeded = max(c.ScaleNeeded, o.ScaleNeeded)
}

// GivenUp is the outcome at the given instant of a request whose client stops waiting for it. One that never left was kept back by the client's own
// control all the time.
func GivenUp(rec *reqlog.Record, at clock.Instant) Reply {
	r := Reply{At: at, Outcome: Abandoned, Queued: -1, Service: -1}
	if rec.Attempts == 0 {
		r.Outcome = Shunned
	}
	return r
}

// TurnedAway is the outcome of a request that a client's own control refuses. When another server has shed it before, that is what became of it.
func TurnedAway(rec *reqlog.Record, at clock.Instant) Reply {
	if rec.Attempts > 0 {
		return Reply{At: at, Outcome: Shed, Reason: control.Reason(rec.Reason), Queued: rec.Queued, Service: rec.Service}
	}
	return Reply{At: at, Outcome: Shunned, Queued: -1, Service: -1}
}

// Judge decides the fate of a request from its reply and writes it, with the reason and the server's timings, into rec.
// slo is the limit of its class on latency from the intended instant; 0 means there is none and every answer is in time.
func Judge(rec *reqlog.Record, r Reply, slo time.Duration) {
	rec.Done = r.At
	rec.Queued, rec.Service = r.Queued, r.Service
	rec.BytesIn = r.Bytes
	rec.Hits = r.Hits
	if r.Hit {
		rec.Hits = 1
	}
	rec.Reason = 0
	switch r.Outcome {
	case Answered:
		rec.Fate = reqlog.OK
		if slo > 0 && rec.Latency() > slo {
			rec.Fate = reqlog.Late
		}
	case Shed:
		rec.Fate = shedFate(r.Reason)
		if rec.Fate != reqlog.Failed {
			rec.Reason = uint8(r.Reason)
		}
	case Abandoned:
		rec.Fate = reqlog.TimedOut
	case NotSent:
		rec.Fate = reqlog.Unsent
	case Shunned:
		rec.Fate = reqlog.Refused
	default:
		rec.Fate = reqlog.Failed
	}
}

// shedFate maps a server's reason to a fate. A reason outside the closed list says nothing about where the request was when it was
// refused, so it counts as a failure.
func shedFate(r control.Reason) reqlog.Fate {
	switch r.Shed() {
	case control.ShedRejected:
		return reqlog.Rejected
	case control.ShedDropped:
		return reqlog.Dropped
	case control.ShedExpired:
		return reqlog.Expired
	default:
		return reqlog.Failed
	}
}
