package report

import (
	"fmt"
	"slices"
)

// What is to be gained over a single queue bounds what a claim of goodput can come to. A claim that asks for more does not hold for a reason that no
// controller can help, and a figure beyond the bound has one that is no controller's merit: both are said wherever the claim is.

// attainable returns the most that the figures leave to be gained over an ideal single queue, put together as the figures are. It is unknown where
// that of one of them is.
func attainable(figures []figure, take string) Value {
	var limits []float64
	for i := range figures {
		limit := over(figures[i].optimum, figures[i].ceiling)
		if !limit.known {
			return Value{}
		}
		limits = append(limits, limit.number)
	}
	if len(limits) == 0 {
		return Value{}
	}
	slices.Sort(limits)
	switch take {
	case takeMin:
		return Known(limits[0])
	case takeMost: // with it more than half allow at least as much
		return Known(limits[(len(limits)-1)/2])
	default:
		return Known(limits[len(limits)-1])
	}
}

// outOfReach remarks that what a claim asks for is more than there is to be gained.
func (r *ClaimResult) outOfReach(figures []figure, take string) {
	bound, most := r.Claim.HoldsAt, attainable(figures, take)
	if r.Outcome != DoesNotHold || !r.Limit.known || !bound.known || !most.known || most.number >= bound.number {
		return
	}
	if r.Ours.Value.number > most.number {
		return // more was gained than the model gives, so it says nothing
	}
	verdict := "cannot hold"
	if slices.ContainsFunc(figures, func(f figure) bool { return f.faulty }) {
		verdict = "could hold by the baseline's fault only"
	}
	r.Remarks = slices.Insert(r.Remarks, 0, fmt.Sprintf("%s: at most %s is to be gained over a single queue on this machine", verdict, times(most)))
}

// beyondLimit reports whether the figure is above its limit because the baseline was no ideal single queue. The limit says nothing of it then.
func (r *ClaimResult) beyondLimit() bool {
	return r.faulty && r.Limit.known && r.Ours.Value.known && r.Ours.Value.number > r.Limit.number
}

// limit writes the limit where it applies.
func (r *ClaimResult) limit() string {
	if r.beyondLimit() {
		return unknown
	}
	return times(r.Limit)
}
