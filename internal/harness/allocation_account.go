//go:build linux

package harness

import (
	"math"
	"slices"
	"strings"
	"time"

	"spillway/internal/reqlog"
	"spillway/profiles"
	"spillway/report"
)

// cellTally counts the requests of one cycle of the window, by cell of the edge that they went to.
type cellTally struct{ asked, served []float64 }

// span is a stretch of the window between two changes of the fleet.
type span struct {
	from, to time.Duration // since the window began
	state    string
	form     spanForm
	gone     []int // edges that are down
}

// spanForm says which closed form holds in a span.
type spanForm uint8

const (
	noForm    spanForm = iota // something is changing
	wholeForm                 // the whole budget is allocated
	baseForm                  // every edge that is up has its baseline
)

// settled is how many cycles after a change a closed form is looked for.
const settled = 2

// account works out who got what: cells, facts and time series of a point.
func (r *liveRun) account(out *report.Point) {
	w := &r.profile.Workload
	a, p := w.Allocation, &r.fleet.policy
	tallies, steps := r.tally(a.Cycle, r.warmUp, r.measured()), r.tally(a.Cycle, 0, r.warmUp+r.measured())
	spans, takeover := r.spans()
	facts := &report.AllocationFacts{TakeoverUS: takeover}
	budget := p.Budget()
	used, idle := 0.0, 0.0
	for _, t := range tallies {
		asked, served := total(t.asked)/a.Cycle.Seconds(), total(t.served)/a.Cycle.Seconds()
		used += served / budget
		idle += max(0, min(asked, budget)-served) / budget
	}
	if n := float64(len(tallies)); n > 0 {
		facts.Utilisation, facts.Idle = report.Known(used/n), report.Known(idle/n)
	}
	if r.counted == nil {
		facts.OverCommit = report.Known(max(0, float64(r.origin.busiest())/budget-1))
	}
	worst, known := 0.0, false
	for _, s := range spans {
		classes := r.forms(s, steps)
		for _, c := range classes {
			worst, known = max(worst, math.Abs(c.Served-c.ClosedForm)), true
		}
		facts.Spans = append(facts.Spans, report.AllocationSpan{
			FromUS: micros(s.from), ToUS: micros(s.to), State: s.state, Cells: r.cells(s.from, s.to, tallies), Classes: classes,
		})
	}
	if known {
		facts.ClosedFormError = report.Known(worst)
	}
	out.Facts.Allocation = facts
	out.Cells = r.cells(0, r.measured(), tallies)
	out.Samples = r.samples(tallies)
}

// tally counts the whole cycles of so long a time from an instant of the load on. A request is of the cycle in which it was due.
func (r *liveRun) tally(cycle, from, length time.Duration) []cellTally {
	list := make([]cellTally, int(length/cycle))
	for i := range list {
		list[i] = cellTally{make([]float64, r.fleet.policy.Cells()), make([]float64, r.fleet.policy.Cells())}
	}
	for i := range r.crowd.asks {
		a := &r.crowd.asks[i]
		n := int((a.due - from) / cycle)
		if a.due < from || n >= len(list) {
			continue
		}
		c := r.fleet.policy.Cell(a.class, a.to)
		list[n].asked[c]++
		if a.fate == reqlog.OK {
			list[n].served[c]++
		}
	}
	return list
}

// nearlyAll is the share of the budget from which on it counts as granted.
const nearlyAll = 0.98

// spans cuts the window where processes died, where a dead edge's capacity was granted to others, and where the last lease ended. takeover is how
// long the second took after the first; unknown when no edge died.
func (r *liveRun) spans() (list []span, takeover report.Value) {
	faults := r.profile.Workload.Allocation.Faults
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b profiles.Fault) int { return int(a.At - b.At) })
	end := r.measured()
	var gone []int
	dead := false // the allocator
	open := span{state: "all up", form: wholeForm}
	cut := func(at time.Duration, next span) {
		open.to = at
		if open.to > open.from {
			list = append(list, open)
		}
		next.from, next.gone = at, slices.Clone(gone)
		open = next
	}
	for i, f := range faults {
		if f.At >= end {
			break
		}
		until := end
		if i+1 < len(faults) {
			until = min(end, faults[i+1].At)
		}
		if f.Kill == "allocator" {
			dead = true
			cut(f.At, span{state: "the allocator is dead, grants hold until their leases end"})
			if at, ok := r.first(f.At, until, func(o *round) bool { return !o.leased }); ok {
				cut(at, span{state: "the allocator is dead, every edge has its baseline", form: baseForm})
			}
			continue
		}
		gone = append(gone, edgeNumber(f.Kill))
		if dead {
			cut(f.At, span{state: f.Kill + " is dead, and nobody takes over", form: baseForm})
			continue
		}
		cut(f.At, span{state: f.Kill + " is dead, its capacity is kept free"})
		at, ok := r.first(f.At, until, func(o *round) bool { return total(o.granted) >= nearlyAll*r.fleet.policy.Budget() })
		if !ok {
			at = until // at least as long
		}
		if v, known := takeover.Get(); !known || micros(at-f.At) > v {
			takeover = report.Known(micros(at - f.At))
		}
		if ok {
			cut(at, span{state: f.Kill + " is dead, its capacity is in use elsewhere", form: wholeForm})
		}
	}
	cut(end, span{})
	return list, takeover
}

// first returns when a round first was so, between two instants of the window.
func (r *liveRun) first(from, to time.Duration, is func(*round) bool) (at time.Duration, ok bool) {
	for i := range r.rounds {
		if t := r.rounds[i].at - r.warmUp; t > from && t <= to && is(&r.rounds[i]) {
			return t, true
		}
	}
	return 0, false
}

// cells returns what each class asked for, was granted and was served at each edge between two instants of the window.
func (r *liveRun) cells(from, to time.Duration, tallies []cellTally) (list []report.AllocationCell) {
	w, p := &r.profile.Workload, &r.fleet.policy
	cycle := w.Allocation.Cycle
	asked, served, cycles := make([]float64, p.Cells()), make([]float64, p.Cells()), 0
	for n := range tallies {
		if at := time.Duration(n) * cycle; at < from || at >= to {
			continue
		}
		cycles++
		for c := range asked {
			asked[c] += tallies[n].asked[c]
			served[c] += tallies[n].served[c]
		}
	}
	granted, rounds := make([]float64, p.Cells()), 0
	for i := range r.rounds {
		if at := r.rounds[i].at - r.warmUp; at < from || at >= to {
			continue
		}
		rounds++
		for c := range granted {
			granted[c] += r.rounds[i].granted[c]
		}
	}
	over := func(sum float64, n int) report.Value {
		if n == 0 {
			return report.Value{}
		}
		return report.Known(sum / float64(n))
	}
	for k := range p.Classes {
		for i := range p.Locations {
			c, seconds := p.Cell(k, i), cycle.Seconds()
			list = append(list, report.AllocationCell{
				Class: w.Classes[k].Name, Location: edgeName(i),
				Demand: over(asked[c]/seconds, cycles), Granted: over(granted[c], rounds), Served: over(served[c]/seconds, cycles),
			})
		}
	}
	return list
}

// samples are the series of each edge and class.
func (r *liveRun) samples(tallies []cellTally) (list []report.Sample) {
	w, p := &r.profile.Workload, &r.fleet.policy
	seconds := w.Allocation.Cycle.Seconds()
	add := func(at time.Duration, cell int, name string, v float64) {
		k, i := cell/p.Locations, cell%p.Locations
		list = append(list, report.Sample{
			Class: w.Classes[k].Name, TimeUS: micros(at), Name: name + "/" + strings.ReplaceAll(edgeName(i), "-", "_"), Unit: "rps", Value: report.Known(v),
		})
	}
	for n, t := range tallies {
		for c := range t.asked {
			at := time.Duration(n) * w.Allocation.Cycle
			add(at, c, "demand", t.asked[c]/seconds)
			add(at, c, "served", t.served[c]/seconds)
		}
	}
	for i := range r.rounds {
		at := r.rounds[i].at - r.warmUp
		if at < 0 || at >= r.measured() {
			continue
		}
		for c, v := range r.rounds[i].granted {
			add(at, c, "granted", v)
		}
	}
	return list
}
