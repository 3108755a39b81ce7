//go:build linux

package drive

import (
	"slices"
	"time"

	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/stats"
)

// The codes of Result.Warnings.
const (
	WarnAccounting  = "accounting"        // invalid: counts do not add up
	WarnLittle      = "little"            // invalid: stamps and the count of requests in flight contradict each other
	WarnSendLag     = "send_lag"          // invalid: requests left too late against the tightest SLO
	WarnUnsent      = "unsent"            // requests did not leave at all; invalid beyond 1 %
	WarnCutShort    = "cut_short"         // invalid: the run was interrupted
	WarnNoArrivals  = "no_arrivals"       // nothing was due in the window
	WarnDrift       = "drift"             // the second half of the window differs from the first
	WarnOverflow    = "overflow"          // durations beyond what histograms resolve
	WarnUndrained   = "undrained"         // requests were pending at the end of the drain
	WarnReconnected = "reconnected"       // connections were lost
	WarnOutOfStep   = "out_of_step"       // replies that belong to no request
	WarnWindowFull  = "window_full"       // a connection had its bound of requests under way
	WarnSocketFull  = "socket_full"       // the kernel did not take everything at once
	WarnSenderCPU   = "sender_cpu"        // the sender's core was nearly busy
	WarnPreempted   = "preempted"         // the sender lost its core often
	WarnGCPause     = "gc_pause"          // the garbage collector stopped the sender
	WarnRealTime    = "real_time_dropped" // the sender hardly slept and gave up its real-time priority
)

const (
	lagShare       = 0.10  // of the tightest SLO
	unsentShare    = 0.01  // of arrivals
	cpuShare       = 0.90  // of a core
	gcShare        = 0.001 // of the window
	preemptionRate = 1000  // a second
)

// result puts together what was measured and judges it.
func (s *sender) result() Result {
	r := Result{
		Tally: s.tally, Arrivals: s.arrivals, Start: s.start,
		CutShort: s.cutShort, Undrained: s.undrained,
		InFlight: s.watch.inFlight(), MaxInFlight: s.most,
		SenderCPU: s.watch.cpu(), Preemptions: s.watch.after.preemptions - s.watch.before.preemptions,
		GCPauses: s.watch.gcPauses, GCPauseTotal: s.watch.gcPauseTotal,
		RealTime: s.thread.realTime,
	}
	if c, ok := s.target.(interface{ Counters() load.Counters }); ok {
		r.Counters = c.Counters()
	}
	r.judgeNumbers()
	r.judgeSender(s.plan.Pace, s.thread.dropped)
	slices.Sort(r.Warnings)
	return r
}

func (r *Result) warn(when bool, code string) {
	if when {
		r.Warnings = append(r.Warnings, code)
	}
}

func (r *Result) invalid(when bool, code string) {
	r.warn(when, code)
	if when {
		r.Invalid = append(r.Invalid, code)
	}
}

// judgeNumbers holds the numbers against each other.
func (r *Result) judgeNumbers() {
	all := r.Tally.All()
	r.invalid(r.Tally.Check(r.Arrivals) != nil, WarnAccounting)
	r.invalid(!stats.Little(r.InFlight, r.Tally.Busy, r.Tally.Window(), all.Sent()), WarnLittle)
	slo := r.Tally.TightestSLO()
	r.invalid(slo > 0 && float64(all.SendLag.Percentile(99)) > lagShare*float64(slo), WarnSendLag)
	unsent := all.Fates[reqlog.Unsent]
	if float64(unsent) > unsentShare*float64(r.Arrivals) {
		r.invalid(true, WarnUnsent)
	} else {
		r.warn(unsent > 0, WarnUnsent)
	}
	r.invalid(r.CutShort, WarnCutShort)
	r.warn(r.Arrivals == 0, WarnNoArrivals)
	r.warn(drifts(&all, r.Tally.Window()), WarnDrift)
	r.warn(all.Latency.Overflow()+all.SendLag.Overflow()+all.Queue.Overflow()+all.Service.Overflow() > 0, WarnOverflow)
}

// drifts reports whether throughput or latency changed from the first half of the window to the second.
func drifts(all *load.ClassTally, window time.Duration) bool {
	completed, latency := all.Series(window)
	for _, series := range [][]float64{completed, latency} {
		if d, ok := stats.TestDrift(series); ok && d.Drifts {
			return true
		}
	}
	return false
}

// judgeSender says what was wrong with the sender and its connections.
func (r *Result) judgeSender(p Pace, dropped bool) {
	window := r.Tally.Window()
	r.warn(r.Undrained > 0, WarnUndrained)
	r.warn(r.Counters.Lost > 0, WarnReconnected)
	r.warn(r.Counters.OutOfStep > 0, WarnOutOfStep)
	r.warn(r.Counters.WindowFull > 0, WarnWindowFull)
	r.warn(r.Counters.SocketFull > 0, WarnSocketFull)
	// A sender that polls uses all of its core by design.
	r.warn(p != PaceSpin && r.SenderCPU > cpuShare, WarnSenderCPU)
	r.warn(float64(r.Preemptions) > preemptionRate*window.Seconds(), WarnPreempted)
	r.warn(float64(r.GCPauseTotal) > gcShare*float64(window), WarnGCPause)
	r.warn(dropped, WarnRealTime)
}
