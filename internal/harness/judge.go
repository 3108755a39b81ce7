//go:build linux

package harness

import (
	"fmt"
	"slices"
	"time"

	"spillway/internal/drive"
	"spillway/internal/hist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/stats"
	"spillway/report"
)

// The codes of warnings that the harness adds to those of package drive.
const (
	warnServerCount = "server_count" // invalid: the server counted something else
	warnAllFailed   = "all_failed"   // invalid: nothing was answered nor shed
	warnServerDied  = "server_died"
	warnUncounted   = "uncounted" // the server's counts are not known
	warnMisses      = "misses"

	warnUnconverged    = "unconverged"     // clients had not found their place
	warnSlotsUnlimited = "slots_unlimited" // the controller acts on a queue that nothing waits in

	warnCapacityUnknown = "capacity_unknown" // invalid: the load is a share of what the capacity is at least
)

// verdict collects what is to be said of a point.
type verdict struct {
	valid    bool
	warnings []string
	notes    map[string]string // by code, the numbers behind it
}

func (v *verdict) warn(code, note string) {
	if !slices.Contains(v.warnings, code) {
		v.warnings = append(v.warnings, code)
	}
	if note != "" {
		v.notes[code] = note
	}
}

func (v *verdict) invalid(code, note string) {
	v.valid = false
	v.warn(code, note)
}

// judge makes what is written of a point from what was measured.
func judge(p *Point, r *Result) *report.Point {
	all := r.Load.Tally.All()
	v := verdict{valid: r.Load.Valid(), warnings: slices.Clone(r.Load.Warnings), notes: map[string]string{}}
	v.explainDrive(r, &all)
	v.server(r, &all)
	if p.ofFloor {
		v.invalid(warnCapacityUnknown, fmt.Sprintf("%.0f requests per second were offered, which may be a smaller share of the capacity", p.Rate))
	}
	refused := float64(all.Fates[reqlog.Refused]) > mostRefused*float64(all.Arrivals())
	if share, ok := r.Converged.Get(); ok && share < leastConverged && refused {
		v.warn(warnUnconverged, fmt.Sprintf("%.0f %% of the clients had found their rate by the end of the window", 100*share))
	}
	slices.Sort(v.warnings)

	base := p.row()
	base.Profile, base.Ground = r.Profile.RowName(), r.Profile.On
	base.CPURatio, base.MemBWBytesPerS, base.MemBWSource = r.CPU, r.MemBW, r.MemBWSource
	base.CreditsMean, base.MemSemMean = meanOf(r.Samples, "credits"), meanOf(r.Samples, meterMemsem)
	base.Valid, base.Warnings = v.valid, v.warnings
	out := &report.Point{Start: r.Began, Window: r.Load.Tally.Window(), Samples: r.Samples}
	for i := range r.Load.Tally.Classes {
		c := &r.Load.Tally.Classes[i]
		row := classRow(*base, c, r.Load.Tally.Window())
		if r.Optimum != nil {
			row.OptimumRPS, row.CeilingRPS = report.Known(r.Optimum[i]), report.Known(r.Ceiling[i])
		}
		out.Rows = append(out.Rows, row)
		out.Latencies = append(out.Latencies, c.Latency)
	}
	pooled := classRow(*base, &all, r.Load.Tally.Window())
	if r.Optimum != nil {
		pooled.OptimumRPS, pooled.CeilingRPS = report.Known(total(r.Optimum)), report.Known(total(r.Ceiling))
	}
	out.Rows = append(out.Rows, pooled)
	out.Latencies = append(out.Latencies, all.Latency)
	out.Facts = report.PointFacts{
		Variant: r.Profile.Variant(), Controller: base.Controller, Settings: p.Controller.Settings, Load: base.Load(), Repeat: p.Repeat, Seed: p.Seed,
		WindowS: r.Load.Tally.Window().Seconds(), RealTime: r.Load.RealTime, Preloaded: r.Stored,
		SenderCPU: r.Load.SenderCPU, Notes: v.notes, LastWords: r.LastWord,
		WallS: r.Wall.Seconds(), Events: r.Events, SmallestScale: r.Load.SmallestScale, Sampler: r.Sampler, Canary: r.Canary,
	}
	describe(&out.Facts, r, &all)
	if r.Profile.On != groundSim {
		out.Facts.Started = r.Began.UTC()
	}
	return out
}

// meanOf returns the mean of the samples of a name over the window.
func meanOf(samples []report.Sample, name string) report.Value {
	sum, n := 0.0, 0
	for i := range samples {
		if v, ok := samples[i].Value.Get(); ok && samples[i].Name == name {
			sum += v
			n++
		}
	}
	if n == 0 {
		return report.Value{}
	}
	return report.Known(sum / float64(n))
}

func total(list []float64) (sum float64) {
	for _, v := range list {
		sum += v
	}
	return sum
}

// explainDrive gives the numbers behind the warnings of the driver.
func (v *verdict) explainDrive(r *Result, all *load.ClassTally) {
	l := &r.Load
	limit := fmt.Sprintf("a tenth of the tightest SLO is %s", l.Tally.TightestSLO()/10)
	if l.Tally.TightestSLO() == 0 {
		limit = fmt.Sprintf("there is no SLO, and a tenth of the p99 latency is %s", (all.Latency.Percentile(99) / 10).Round(time.Microsecond))
	}
	notes := map[string]string{
		drive.WarnSendLag:     fmt.Sprintf("p99 send lag %s, %s", all.SendLag.Percentile(99).Round(time.Microsecond), limit),
		drive.WarnUnsent:      fmt.Sprintf("%d of %d requests", all.Fates[reqlog.Unsent], l.Arrivals),
		drive.WarnLittle:      littleNote(l, all),
		drive.WarnUndrained:   fmt.Sprintf("%d requests", l.Undrained),
		drive.WarnReconnected: fmt.Sprintf("%d lost, %d established anew, warm-up and drain included", l.Counters.Lost, l.Counters.Reconnects),
		drive.WarnWindowFull:  fmt.Sprintf("%d of %d requests of the window", l.WindowFull, l.Arrivals),
		drive.WarnSocketFull:  fmt.Sprintf("%d times, warm-up included", l.Counters.SocketFull),
		drive.WarnSenderCPU:   fmt.Sprintf("%.0f %% of a core", 100*l.SenderCPU),
		drive.WarnPreempted:   fmt.Sprintf("%d times", l.Preemptions),
		drive.WarnGCPause:     fmt.Sprintf("%d pauses, %s together", l.GCPauses, l.GCPauseTotal.Round(time.Microsecond)),
		drive.WarnScale:       scaleNote(l),
		drive.WarnModelLate:   fmt.Sprintf("%d requests, by up to %s of modelled time", l.Counters.Disturbed, l.Counters.LateMax),
		drive.WarnCutShort:    fmt.Sprintf("after %s of the window", l.Tally.Window().Round(time.Millisecond)),
	}
	if err := l.Tally.Check(l.Arrivals); err != nil {
		notes[drive.WarnAccounting] = err.Error()
	}
	for _, code := range l.Warnings {
		if notes[code] != "" {
			v.notes[code] = notes[code]
		}
	}
	if l.Arrivals == 0 {
		v.invalid(drive.WarnNoArrivals, "")
	}
}

// littleNote holds the two means of Little's law against each other.
func littleNote(l *drive.Result, all *load.ClassTally) string {
	window, busy := l.Tally.Window(), l.Tally.Busy
	return fmt.Sprintf("%.4g requests in flight were counted, %.4g follow from their times; %.4g more or less may be chance", l.InFlight,
		float64(busy)/float64(max(window, 1)), stats.LittleTolerance(l.InFlight, busy, window, all.Sent()))
}

// scaleNote says which time scale would have done.
func scaleNote(l *drive.Result) string {
	text := fmt.Sprintf("%d requests, by up to %s of modelled time", l.Counters.Disturbed, l.Counters.LateMax)
	if l.SmallestScale == 0 {
		return text + "; without a network delay in the modelled machine no scale is large enough"
	}
	return fmt.Sprintf("%s; --time-scale %d would do", text, l.SmallestScale)
}

// death says how a server that died ended, and what it said.
func (r *Result) death() string {
	if r.Ended != "" && r.LastWord != "" {
		return r.Ended + ": " + r.LastWord
	}
	return r.Ended + r.LastWord
}

// server judges what the server did, and whether it counted the same.
func (v *verdict) server(r *Result, all *load.ClassTally) {
	switch {
	case r.Died:
		v.warn(warnServerDied, r.death())
	case !r.Before.Known || !r.After.Known:
		v.warn(warnUncounted, uncounted(r.Before, r.After))
	default:
		if difference := r.Totals.compare(r.Before, r.After); difference != "" {
			v.invalid(warnServerCount, difference)
		}
	}
	if misses := all.Reads - all.Hits; misses > 0 && !r.NoReads {
		v.warn(warnMisses, fmt.Sprintf("%d of %d reads%s", misses, all.Reads, unstored(r.Profile)))
	}
	n, timedOut := all.Arrivals(), all.Fates[reqlog.TimedOut]
	lost := n > 0 && n == all.Fates[reqlog.Failed]+timedOut+all.Fates[reqlog.Unsent] && !r.Died
	// That a modelled server works is beyond doubt. If everybody gives up waiting for it, that is what overload did.
	if lost && !(r.Modelled && n == timedOut) {
		v.invalid(warnAllFailed, "")
	}
}

// classRow fills in the columns of one class.
func classRow(row report.Row, c *load.ClassTally, window time.Duration) report.Row {
	row.Class = c.Name
	if c.SLO > 0 {
		row.SLO = report.Known(micros(c.SLO))
	}
	f := &c.Fates
	row.Fates = report.Fates{
		OK: f[reqlog.OK], Late: f[reqlog.Late], Refused: f[reqlog.Refused], Rejected: f[reqlog.Rejected], Dropped: f[reqlog.Dropped],
		Expired: f[reqlog.Expired], TimedOut: f[reqlog.TimedOut], Failed: f[reqlog.Failed], Unsent: f[reqlog.Unsent],
	}
	per := func(n int64) report.Value {
		if window <= 0 {
			return report.Value{}
		}
		return report.Known(float64(n) / window.Seconds())
	}
	row.OfferedRPS, row.SentRPS = per(c.Arrivals()), per(c.Sent())
	row.ThroughputRPS, row.GoodputRPS = per(c.Completed()), per(f[reqlog.OK])
	row.ShedRatio = share(c.Shed(), c.Arrivals())
	row.DropRatio = share(c.ServerShed(), c.Sent())
	row.Latency = report.Latency{
		Mean: mean(c.Latency), P50: percentile(c.Latency, 50), P90: percentile(c.Latency, 90), P99: percentile(c.Latency, 99),
		P999: percentile(c.Latency, 99.9),
	}
	if c.Latency.Count() > 0 {
		row.Latency.Max = report.Known(micros(c.Latency.Max()))
	}
	row.SendLagP50, row.SendLagP99 = percentile(c.SendLag, 50), percentile(c.SendLag, 99)
	row.QueueMean, row.QueueP99 = mean(c.Queue), percentile(c.Queue, 99)
	row.ServiceMean, row.ServiceP99 = mean(c.Service), percentile(c.Service, 99)
	return row
}

func share(part, whole int64) report.Value {
	if whole == 0 {
		return report.Value{}
	}
	return report.Known(float64(part) / float64(whole))
}

// mean and percentile return nothing for nothing: a histogram without entries has no percentile, least of all 0.
func mean(h *hist.Hist) report.Value {
	if h.Count() == 0 {
		return report.Value{}
	}
	return report.Known(micros(h.Mean()))
}

func percentile(h *hist.Hist, p float64) report.Value {
	if h.Count() == 0 {
		return report.Value{}
	}
	return report.Known(micros(h.Percentile(p)))
}
