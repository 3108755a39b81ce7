//go:build linux

package harness

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/profiles"
	"spillway/report"
)

// The closed form says what each class would be served if everybody knew the demand of every instant, and capacity moved in no time. Demand is the rate
// at which users ask at that instant, which a scenario says; not what happened to be asked, which with Poisson arrivals differs. What a class is
// allocated fills a bucket, as deep as those of the edges: a fluid of that rate flows out of it as fast as it is asked for, until it is empty.
// A class that is short of nothing is served whatever it asks for. All is counted over a span and divided by what was asked in it.
//
// It is worked out here from the classes' reservations, and not by the allocator under test.

// ideal returns what each class is allocated of a demand: its reservation, less what it does not need of it and others borrow, or with what it lacks and
// others have to spare, may lend, and nobody more important takes. All are rates.
func ideal(reserved, lend, demand []float64, alike bool) []float64 {
	allocated, offered, lacking := slices.Clone(reserved), 0.0, 0.0
	for k, d := range demand {
		offered += lend[k] * math.Max(0, reserved[k]-d)
		lacking += math.Max(0, d-reserved[k])
	}
	moved := math.Min(offered, lacking)
	left := moved
	for k, d := range demand {
		surplus, lacks := math.Max(0, reserved[k]-d), math.Max(0, d-reserved[k])
		switch {
		case moved == 0:
		case surplus > 0:
			allocated[k] -= moved * lend[k] * surplus / offered
		case alike:
			allocated[k] += moved * lacks / lacking
		default:
			more := math.Min(lacks, left)
			allocated[k] += more
			left -= more
		}
	}
	return allocated
}

// reservoir is a bucket that fills at one rate and is drawn from at another.
type reservoir struct {
	tokens float64
	known  bool // how full it is
}

// draw returns how many of those asked for in so many seconds are served: they are asked for at the rate asked and the bucket fills at the rate filling; it
// holds depth seconds of that. counted is how many were really asked for, and is returned when there is enough for all.
func (f *reservoir) draw(asked, filling, seconds, depth, counted float64) float64 {
	const rounding = 1e-9
	if !f.known { // as full as it is in the long run
		f.known = true
		if asked < filling {
			f.tokens = filling * depth
		}
	}
	f.tokens = math.Min(f.tokens, filling*depth)
	there, wanted := f.tokens+filling*seconds, asked*seconds
	f.tokens = math.Min(math.Max(there-wanted, 0), filling*depth)
	if wanted <= there*(1+rounding) {
		return counted
	}
	return there
}

// lending returns the share of its surplus that each class lends, and whether all borrow alike, as a controller's settings say.
func lending(c *profiles.Controller, classes int) (lend []float64, alike bool) {
	texts := strings.Split(c.Settings["lend"], ",")
	for k := range classes {
		share, err := strconv.ParseFloat(strings.TrimSpace(texts[k%len(texts)]), 64)
		if err != nil {
			share = 1 // nothing is said: settings have been checked
		}
		lend = append(lend, share)
	}
	return lend, c.Settings["order"] == "alike"
}

// forms sets what each class was served in a span against the closed form; nil where none holds, or for too short a time. steps counts the cycles
// since the load began: the demand of a scenario changes from one to the next.
func (r *liveRun) forms(s span, steps []cellTally) (list []report.AllocationSpanClass) {
	p, w := &r.fleet.policy, &r.profile.Workload
	cycle := w.Allocation.Cycle
	begin := func(at time.Duration) int { return int((r.warmUp + at + cycle - 1) / cycle) }
	first, last := begin(s.from)+settled, min(int((r.warmUp+s.to)/cycle), len(steps))
	if s.from == 0 {
		first = begin(0) // it has been so since the warm-up
	}
	if s.form == noForm || last-first < 3 {
		return nil
	}
	rates := r.momentary(s.gone)
	asked, served, expected := make([]float64, p.Classes), make([]float64, p.Classes), make([]float64, p.Classes)
	form := newClosedForm(r, &s)
	for n := first; n < last; n++ {
		form.add(rates(n), steps[n].asked, expected)
		for k := range p.Classes {
			for i := range p.Locations {
				asked[k] += steps[n].asked[p.Cell(k, i)]
				served[k] += steps[n].served[p.Cell(k, i)]
			}
		}
	}
	for k := range asked {
		if asked[k] > 0 {
			list = append(list, report.AllocationSpanClass{Class: w.Classes[k].Name, Served: served[k] / asked[k], ClosedForm: expected[k] / asked[k]})
		}
	}
	return list
}

// momentary returns the rates at which each cell is asked in a cycle since the load began, while some edges are down.
func (r *liveRun) momentary(gone []int) func(cycle int) []float64 {
	p, w := &r.fleet.policy, &r.profile.Workload
	list := demands(w, w.Scenario())
	return func(n int) []float64 {
		rates := make([]float64, p.Cells())
		for k := range list {
			for i := range p.Locations {
				rate := list[k].Rate(n, i)
				if !slices.Contains(gone, i) || len(gone) == p.Locations {
					rates[p.Cell(k, i)] += rate
					continue
				}
				for turn := range p.Locations - 1 { // its users go to the others in turn
					to := replacement(i, turn, p.Locations, func(i int) bool { return slices.Contains(gone, i) })
					rates[p.Cell(k, to)] += rate / float64(p.Locations-1)
				}
			}
		}
		return rates
	}
}

// closedForm goes through the cycles of a span.
type closedForm struct {
	run     *liveRun
	span    *span
	buckets []reservoir // by class, or by cell when every edge has its baseline
	seconds float64     // of a cycle
	depth   float64     // of a bucket, in seconds
	lend    []float64
	alike   bool
}

func newClosedForm(r *liveRun, s *span) *closedForm {
	a := r.profile.Workload.Allocation
	f := &closedForm{run: r, span: s, buckets: make([]reservoir, r.fleet.policy.Cells()), seconds: a.Cycle.Seconds()}
	f.depth = a.LiveSettings().Burst * f.seconds
	f.lend, f.alike = lending(&r.controller, r.fleet.policy.Classes)
	return f
}

// add adds what is served of each class in a cycle in which cells are asked at such rates, and so often.
func (f *closedForm) add(rates, asked, served []float64) {
	p := &f.run.fleet.policy
	demand, reserved, counted := make([]float64, p.Classes), make([]float64, p.Classes), make([]float64, p.Classes)
	for c, rate := range rates {
		k, i := c/p.Locations, c%p.Locations
		demand[k] += rate
		reserved[k] += p.Baseline[c]
		counted[k] += asked[c]
		if f.span.form == baseForm && !slices.Contains(f.span.gone, i) {
			served[k] += f.buckets[c].draw(rate, p.Baseline[c], f.seconds, f.depth, asked[c])
		}
	}
	if f.span.form == baseForm {
		return
	}
	for k, rate := range ideal(reserved, f.lend, demand, f.alike) {
		served[k] += f.buckets[k].draw(demand[k], rate, f.seconds, f.depth, counted[k])
	}
}
