package report

import (
	"slices"

	"spillway/internal/hist"
)

// Pooled is one line of a comparison: the repeats of one controller, load and class put together. Counts are added and histograms
// merged; no percentile is ever averaged. The range beside a number is that of the single repeats.
//
// Where some repeats are valid and some not, only the valid ones are pooled; where none is, all are.
type Pooled struct {
	Load, Controller, Class string
	OfferedTarget           Value
	Offered, Goodput, P99   Range
	ShedRatio               Range
	LateRatio, LostRatio    Range // answered outside the limit; timed out, failed or never sent
	Optimum, Ceiling        Value // what the model says could be served at best, and without telling classes apart; the same for all repeats
	Repeats, Valid          int
	Warnings                []string // of all repeats, each once
}

// Range is a value with the extremes of the repeats that it was pooled from.
type Range struct{ Value, Low, High Value }

// Pool puts the repeats of each controller, load and class together, in the order of first appearance of the load, then of the
// controller, then of the class. A run of one class has no line that pools the classes.
func (run *Run) Pool() []Pooled {
	type key struct{ load, controller, class string }
	groups := map[key][]Row{}
	var loads, controllers, classes []string
	note := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for i := range run.Rows {
		r := &run.Rows[i]
		k := key{r.Load(), r.Controller, r.Class}
		groups[k] = append(groups[k], *r)
		note(&loads, k.load)
		note(&controllers, k.controller)
		note(&classes, k.class)
	}
	if len(classes) == 2 {
		// Of a single class the pooled row says the same again.
		classes = slices.DeleteFunc(classes, func(c string) bool { return c == AllClasses })
	}
	var pooled []Pooled
	for _, load := range loads {
		for _, controller := range controllers {
			for _, class := range classes {
				if rows := groups[key{load, controller, class}]; len(rows) > 0 {
					pooled = append(pooled, run.pool(rows))
				}
			}
		}
	}
	return pooled
}

func (run *Run) pool(rows []Row) Pooled {
	first := &rows[0]
	p := Pooled{
		Load: first.Load(), Controller: first.Controller, Class: first.Class, OfferedTarget: first.OfferedTargetRPS, Repeats: len(rows),
		Optimum: first.OptimumRPS, Ceiling: first.CeilingRPS,
	}
	var used []Row
	for _, r := range rows {
		for _, code := range r.Warnings {
			if !slices.Contains(p.Warnings, code) {
				p.Warnings = append(p.Warnings, code)
			}
		}
		if r.Valid {
			p.Valid++
			used = append(used, r)
		}
	}
	if len(used) == 0 {
		used = rows
	}
	var sum Fates
	var seconds float64
	for i := range used {
		sum = sum.Add(used[i].Fates)
		seconds += run.window(&used[i])
	}
	per := func(n int64) Value {
		if seconds == 0 {
			return Value{}
		}
		return Known(float64(n) / seconds)
	}
	p.Offered = ranged(per(sum.Arrivals()), used, func(r *Row) Value { return r.OfferedRPS })
	p.Goodput = ranged(per(sum.OK), used, func(r *Row) Value { return r.GoodputRPS })
	p.ShedRatio = ranged(ratio(sum.Shed(), sum.Arrivals()), used, func(r *Row) Value { return r.ShedRatio })
	late, lost := func(f Fates) Value { return ratio(f.Late, f.Arrivals()) }, func(f Fates) Value { return ratio(f.Lost(), f.Arrivals()) }
	p.LateRatio = ranged(late(sum), used, func(r *Row) Value { return late(r.Fates) })
	p.LostRatio = ranged(lost(sum), used, func(r *Row) Value { return lost(r.Fates) })
	p.P99 = ranged(run.mergedP99(used), used, func(r *Row) Value { return r.Latency.P99 })
	return p
}

// window returns the length of the window that r is of, in seconds. It is that of all classes of a point, so one in which nothing arrived
// has it too: the seconds without arrivals are a part of its rates.
func (run *Run) window(r *Row) float64 {
	if !r.OfferedRPS.known {
		return 0 // cut short before it began
	}
	for i := range run.Manifest.Points {
		f := &run.Manifest.Points[i]
		if f.WindowS > 0 && f.Controller == r.Controller && f.Load == r.Load() && f.Repeat == r.Repeat {
			return f.WindowS
		}
	}
	longest := 0.0
	for i := range run.Rows {
		o := &run.Rows[i]
		if o.Controller == r.Controller && o.Load() == r.Load() && o.Repeat == r.Repeat {
			longest = max(longest, o.impliedWindow())
		}
	}
	return longest
}

// impliedWindow returns the length of the window of r in seconds that its counts and rates imply; 0 when nothing arrived.
func (r *Row) impliedWindow() float64 {
	offered, ok := r.OfferedRPS.Get()
	if !ok || offered == 0 {
		return 0
	}
	return float64(r.Fates.Arrivals()) / offered
}

// mergedP99 returns the 99th percentile of all requests of the rows together. A single row has it already; several need their
// histograms.
func (run *Run) mergedP99(rows []Row) Value {
	if len(rows) == 1 {
		return rows[0].Latency.P99
	}
	merged, highest := hist.New(), 0.0
	for i := range rows {
		highest = max(highest, rows[i].Latency.Max.number)
		if rows[i].Fates.Completed() == 0 {
			continue
		}
		h := run.Latency[rows[i].Tag()]
		if h == nil {
			return Value{} // part of the requests is missing, so their percentile is unknown
		}
		merged.Merge(h)
	}
	if merged.Count() == 0 {
		return Value{}
	}
	// A histogram that was read from a file knows its maximum to three digits; the rows have it exactly.
	return Known(min(float64(merged.Percentile(99))/1e3, highest))
}

func ratio(part, whole int64) Value {
	if whole == 0 {
		return Value{}
	}
	return Known(float64(part) / float64(whole))
}

func ranged(pooled Value, rows []Row, of func(*Row) Value) Range {
	out := Range{Value: pooled}
	if len(rows) == 1 {
		out.Value = of(&rows[0]) // as it was measured, without the way over the length of the window
	}
	for i := range rows {
		v := of(&rows[i])
		if !v.known {
			continue
		}
		if !out.Low.known || v.number < out.Low.number {
			out.Low = v
		}
		if !out.High.known || v.number > out.High.number {
			out.High = v
		}
	}
	return out
}
