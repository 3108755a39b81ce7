//go:build linux

package drive

import (
	"slices"
	"time"

	"spillway/clock"
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
	WarnClockStep   = "clock_step"        // the calendar clock was set, or the computer was suspended
	WarnClosedLoop  = "closed_loop"       // the load waited for the server: not to be compared with an open loop
	WarnScale       = "scale_too_small"   // invalid: messages came too late for the model; see Result.SmallestScale
	WarnModelLate   = "model_late"        // some messages came too late for the model, few enough to leave the numbers valid
)

const (
	lagShare       = 0.10 // of the tightest SLO, or of the p99 latency where there is none
	leastLag       = time.Millisecond
	unsentShare    = 0.01  // of arrivals
	cpuShare       = 0.90  // of a core
	gcShare        = 0.001 // of the window on the wall clock
	preemptionRate = 1000  // a second of the wall clock

	// clockStep is more than a calendar clock that is being slewed drifts in a window.
	clockStep = 50 * time.Millisecond
)

// result puts together what the senders measured and judges it.
func (r *run) result() Result {
	first := r.senders[0]
	all := Result{Tally: first.tally, Start: first.start, Senders: len(r.senders), RealTime: true}
	dropped := false
	for i, s := range r.senders {
		if i > 0 {
			// The windows are the same: the senders began at one instant and agreed on where they were cut.
			if err := all.Tally.Merge(s.tally); err != nil {
				panic("drive: " + err.Error())
			}
		}
		all.add(s)
		dropped = dropped || s.thread.dropped
	}
	switch g := first.source.(type) {
	case interface {
		Sequence() (requests, hash uint64)
	}:
		all.Sequence.Requests, all.Sequence.Hash = g.Sequence()
	case *load.Closed:
		all.Closed = true
	}
	if r.plan.computed() {
		// The end of a request is computed, and noticed at some other time. A count of those in flight by what has been noticed would be
		// of something else.
		all.InFlight = float64(all.Tally.Busy) / float64(max(all.Tally.Window(), 1))
	}
	pooled := all.Tally.All()
	all.WindowFull += pooled.Fates[reqlog.Unsent] // less what never came to a connection; see add
	all.judgeScale(clock.Scale(r.plan.Clock))
	all.judgeNumbers(r.plan.computed())
	all.judgeSender(r.plan.Pace, dropped, first.watch.wall(all.Tally.Window()))
	slices.Sort(all.Warnings)
	return all
}

// add takes in what one sender saw. The process has one garbage collector and one calendar, which every sender sees alike.
func (r *Result) add(s *sender) {
	r.Arrivals += s.arrivals
	r.CutShort = r.CutShort || s.cutShort
	r.Undrained += s.undrained
	r.Skipped += s.skipped
	r.WindowFull -= s.kept
	r.InFlight += s.watch.inFlight()
	r.MaxInFlight += s.most
	r.SenderCPU = max(r.SenderCPU, s.watch.cpu())
	r.Preemptions += s.watch.after.preemptions - s.watch.before.preemptions
	r.GCPauses, r.GCPauseTotal = max(r.GCPauses, s.watch.gcPauses), max(r.GCPauseTotal, s.watch.gcPauseTotal)
	if step := s.watch.step(); step.Abs() > r.ClockStep.Abs() {
		r.ClockStep = step
	}
	r.RealTime = r.RealTime && s.thread.realTime
	r.Totals.merge(&s.totals)
	if c, ok := s.target.(interface{ Counters() load.Counters }); ok {
		r.Counters.Add(c.Counters())
	}
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
func (r *Result) judgeNumbers(computed bool) {
	all := r.Tally.All()
	r.invalid(r.Tally.Check(r.Arrivals) != nil, WarnAccounting)
	r.invalid(!stats.Little(r.InFlight, r.Tally.Busy, r.Tally.Window(), all.Sent()), WarnLittle)
	slo := r.Tally.TightestSLO()
	// On the model ground a late sender is part of the network, unless it is so late that judgeScale has something to say.
	r.invalid(!computed && all.SendLag.Percentile(99) > lagLimit(slo, &all), WarnSendLag)
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

// lagLimit returns how much of the p99 send lag may be the generator's before it, rather than the server, shaped the result: a share of the
// tightest SLO. Without an SLO it is that share of the p99 latency, and no less than a millisecond, below which it hardly matters to a
// user who named no limit.
func lagLimit(slo time.Duration, all *load.ClassTally) time.Duration {
	if slo > 0 {
		return time.Duration(lagShare * float64(slo))
	}
	return max(time.Duration(lagShare*float64(all.Latency.Percentile(99))), leastLag)
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

// judgeScale says whether this computer kept up with the model.
func (r *Result) judgeScale(scale int) {
	c := &r.Counters
	switch {
	case c.Disturbed == 0:
	case c.ScaleNeeded == scale:
		r.warn(true, WarnModelLate)
	default:
		r.invalid(true, WarnScale)
		if c.ScaleNeeded != load.NoScale {
			r.SmallestScale = c.ScaleNeeded
		}
	}
}

// judgeSender says what was wrong with the sender and its connections.
// window is as the wall clock has it.
func (r *Result) judgeSender(p Pace, dropped bool, window time.Duration) {
	r.warn(r.Undrained > 0, WarnUndrained)
	r.warn(r.Counters.Lost > 0, WarnReconnected)
	r.warn(r.Counters.OutOfStep > 0, WarnOutOfStep)
	r.warn(r.WindowFull > 0, WarnWindowFull)
	r.warn(r.Counters.SocketFull > 0, WarnSocketFull)
	// A sender that polls uses all of its core by design.
	r.warn(p != PaceSpin && r.SenderCPU > cpuShare, WarnSenderCPU)
	r.warn(float64(r.Preemptions) > preemptionRate*window.Seconds(), WarnPreempted)
	r.warn(float64(r.GCPauseTotal) > gcShare*float64(window), WarnGCPause)
	r.warn(dropped, WarnRealTime)
	r.warn(r.ClockStep.Abs() > clockStep, WarnClockStep)
	r.warn(r.Closed, WarnClosedLoop)
}
