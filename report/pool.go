package report

import (
	"slices"

	"spillway/internal/hist"
)

// Pooled is one line of a comparison: the repeats of one controller, load and class put together, of one variant. Counts are added and
// histograms merged; no percentile is ever averaged. The range beside a number is that of the single repeats.
//
// Where some repeats are valid and some not, only the valid ones are pooled; where none is, all are.
type Pooled struct {
	Variant, Load, Controller, Class string
	OfferedTarget                    Value
	Offered, Goodput, P99            Range
	OptimumShare                     Range // goodput as a share of the optimum
	ShedRatio, DropRatio             Range
	LateRatio, LostRatio             Range // answered outside the limit; timed out, failed or never sent
	Optimum, Ceiling                 Value // what the model says could be served at best, and without telling classes apart; the same for all repeats
	Repeats, Valid                   int
	Warnings                         []string // of all repeats, each once
}

// Range is a value with the extremes of the repeats that it was pooled from.
type Range struct{ Value, Low, High Value }

// Pool puts the repeats of each controller, load and class together, in the order of first appearance of the load, then of the variant, then
// of the controller, then of the class. A run of one class has no line that pools the classes.
func (run *Run) Pool() []Pooled {
	g := run.grid()
	var pooled []Pooled
	for _, load := range g.loads {
		for _, variant := range g.variants {
			for _, controller := range g.controllers {
				for _, class := range g.shown() {
					if rows := g.rows[cell{variant, load, controller, class}]; len(rows) > 0 {
						pooled = append(pooled, run.pool(rows))
					}
				}
			}
		}
	}
	return pooled
}

func (run *Run) pool(rows []*Row) Pooled {
	first := rows[0]
	p := Pooled{
		Variant: first.Variant(), Load: first.Load(), Controller: first.Controller, Class: first.Class, OfferedTarget: first.OfferedTargetRPS,
		Repeats: len(rows), Optimum: first.OptimumRPS, Ceiling: first.CeilingRPS,
	}
	for _, r := range rows {
		for _, code := range r.Warnings {
			if !slices.Contains(p.Warnings, code) {
				p.Warnings = append(p.Warnings, code)
			}
		}
		if r.Valid {
			p.Valid++
		}
	}
	used := believed(rows)
	var sum Fates
	var seconds float64
	for _, r := range used {
		sum = sum.Add(r.Fates)
		seconds += run.window(r)
	}
	per := func(n int64) Value {
		if seconds == 0 {
			return Value{}
		}
		return Known(float64(n) / seconds)
	}
	p.Offered = ranged(per(sum.Arrivals()), used, func(r *Row) Value { return r.OfferedRPS })
	p.Goodput = ranged(per(sum.OK), used, func(r *Row) Value { return r.GoodputRPS })
	p.OptimumShare = ranged(over(p.Goodput.Value, p.Optimum), used, optimumShare)
	p.ShedRatio = ranged(ratio(sum.Shed(), sum.Arrivals()), used, func(r *Row) Value { return r.ShedRatio })
	p.DropRatio = ranged(ratio(sum.Rejected+sum.Dropped+sum.Expired, sum.Sent()), used, func(r *Row) Value { return r.DropRatio })
	late, lost := func(f Fates) Value { return ratio(f.Late, f.Arrivals()) }, func(f Fates) Value { return ratio(f.Lost(), f.Arrivals()) }
	p.LateRatio = ranged(late(sum), used, func(r *Row) Value { return late(r.Fates) })
	p.LostRatio = ranged(lost(sum), used, func(r *Row) Value { return lost(r.Fates) })
	p.P99 = ranged(run.mergedPercentile(used, 99, func(r *Row) Value { return r.Latency.P99 }), used, func(r *Row) Value { return r.Latency.P99 })
	return p
}

// window returns the length of the window that r is of, in seconds. It is that of all classes of a point, so one in which nothing arrived
// has it too: the seconds without arrivals are a part of its rates.
func (run *Run) window(r *Row) float64 {
	if !r.OfferedRPS.known {
		return 0 // cut short before it began
	}
	if f := run.factsOf(r); f != nil && f.WindowS > 0 {
		return f.WindowS
	}
	longest, point := 0.0, r.Point()
	for i := range run.Rows {
		if o := &run.Rows[i]; o.Controller == r.Controller && o.Point() == point {
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

// mergedPercentile returns the p-th percentile of all requests of the rows together. A single row has it already, as single says; several
// need their histograms.
func (run *Run) mergedPercentile(rows []*Row, p float64, single func(*Row) Value) Value {
	if len(rows) == 1 {
		return single(rows[0])
	}
	merged, highest := run.merged(rows)
	if merged == nil {
		return Value{}
	}
	return Known(min(float64(merged.Percentile(p))/1e3, highest))
}

// merged returns the histogram of the answered requests of all rows together, which is not to be changed, and their exact maximum in
// microseconds: a histogram that was read from a file has it to three digits. It is nil when nothing was answered, or when part of the requests is
// missing.
func (run *Run) merged(rows []*Row) (h *hist.Hist, highest float64) {
	var list []*hist.Hist
	for _, r := range rows {
		highest = max(highest, r.Latency.Max.number)
		if r.Fates.Completed() == 0 {
			continue
		}
		h := run.Latency[r.Tag()]
		if h == nil || h.Count() == 0 {
			return nil, 0
		}
		list = append(list, h)
	}
	switch len(list) {
	case 0:
		return nil, 0
	case 1:
		return list[0], highest
	}
	h = hist.New()
	for _, o := range list {
		h.Merge(o)
	}
	return h, highest
}

// over returns part/whole; unknown when either is, or when there is nothing to divide by.
func over(part, whole Value) Value {
	if !part.known || !whole.known || whole.number == 0 {
		return Value{}
	}
	return Known(part.number / whole.number)
}

func optimumShare(r *Row) Value { return over(r.GoodputRPS, r.OptimumRPS) }

func ratio(part, whole int64) Value {
	if whole == 0 {
		return Value{}
	}
	return Known(float64(part) / float64(whole))
}

func ranged(pooled Value, rows []*Row, of func(*Row) Value) Range {
	out := Range{Value: pooled}
	if len(rows) == 1 {
		out.Value = of(rows[0]) // as it was measured, without the way over the length of the window
	}
	for _, r := range rows {
		v := of(r)
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
