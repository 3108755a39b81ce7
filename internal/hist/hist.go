// Package hist is the one door to HdrHistogram: durations in, mergeable percentiles out. What the histogram cannot hold is counted,
// never lost.
package hist

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Highest is the longest duration that a histogram resolves. Longer ones are counted in its last bucket and by Overflow.
const Highest = time.Hour

const significantDigits = 3

// Hist is a histogram of durations from 1 ns to Highest with three significant digits. Its count, sum and maximum are exact.
// It is not safe for concurrent use: keep one a worker and merge.
type Hist struct {
	h        *hdrhistogram.Histogram
	sum      float64 // ns; float64 because an hour of millions of requests overflows nothing but a user's patience
	max      int64
	overflow int64
}

// New returns an empty histogram.
func New() *Hist { return &Hist{h: hdrhistogram.New(1, int64(Highest), significantDigits)} }

// Record adds one duration. Negative durations, which only a broken clock produces, count as 0.
func (h *Hist) Record(d time.Duration) {
	v := max(int64(d), 0)
	h.sum += float64(v)
	h.max = max(h.max, v)
	if v > int64(Highest) {
		h.overflow++
		v = int64(Highest)
	}
	// The value is in range by now, so the library cannot refuse it.
	_ = h.h.RecordValue(v)
}

// Merge adds all of o to h. Both have the same shape, so nothing can be dropped.
func (h *Hist) Merge(o *Hist) {
	h.h.Merge(o.h)
	h.sum += o.sum
	h.max = max(h.max, o.max)
	h.overflow += o.overflow
}

// Count returns how many durations were recorded.
func (h *Hist) Count() int64 { return h.h.TotalCount() }

// Overflow returns how many of them were longer than Highest.
func (h *Hist) Overflow() int64 { return h.overflow }

// Max returns the longest duration, exactly; 0 when empty.
func (h *Hist) Max() time.Duration { return time.Duration(h.max) }

// Mean returns the exact mean; 0 when empty.
func (h *Hist) Mean() time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(n))
}

// Percentile returns the p-th percentile, 0 ≤ p ≤ 100, never above the exact maximum; 0 when empty.
func (h *Hist) Percentile(p float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return min(time.Duration(h.h.ValueAtPercentile(p)), h.Max())
}
