package hist

import (
	"math"
	"time"
)

// Percentiles returns several percentiles, as Percentile does each, in one pass over the histogram. 0 is the minimum.
func (h *Hist) Percentiles(ps []float64) []time.Duration {
	list := make([]time.Duration, len(ps))
	n := h.Count()
	if n == 0 {
		return list
	}
	if h.h == nil { // as it was read: a few hundred buckets
		for i, p := range ps {
			list[i] = h.Percentile(p)
		}
		return list
	}
	ranks := make([]float64, len(ps))
	for i, p := range ps {
		rank := max(math.Ceil(p/100*float64(n)*(1-1e-12)), 1)
		ranks[i] = rank / float64(n) * 100
	}
	for i, v := range h.h.ValueAtPercentilesSlice(ranks) {
		list[i] = min(time.Duration(v), h.Max())
	}
	return list
}
