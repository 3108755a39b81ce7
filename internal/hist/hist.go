// Package hist is the one door to HdrHistogram: durations in, mergeable percentiles out. What the histogram cannot hold is counted,
// never lost.
package hist

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Highest is the longest duration that a histogram resolves. Longer ones are counted in its last bucket and by Overflow.
const Highest = time.Hour

const significantDigits = 3

// Hist is a histogram of durations from 1 ns to Highest with three significant digits. Its count, sum and maximum are exact.
// It is not safe for concurrent use: keep one a worker and merge.
type Hist struct {
	h        *hdrhistogram.Histogram // nil of one that was read and not changed since, which is what read has
	read     *sparse
	sum      float64 // ns; float64 because an hour of millions of requests overflows nothing but a user's patience
	max      int64
	overflow int64
}

// New returns an empty histogram.
func New() *Hist { return &Hist{h: hdrhistogram.New(1, int64(Highest), significantDigits)} }

// Record adds one duration. Negative durations, which only a broken clock produces, count as 0.
func (h *Hist) Record(d time.Duration) {
	h.dense()
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
	h.dense()
	if o.h != nil {
		h.h.Merge(o.h)
	} else {
		h.add(o.read)
	}
	h.sum += o.sum
	h.max = max(h.max, o.max)
	h.overflow += o.overflow
}

// dense makes a histogram that was read one that can be changed.
func (h *Hist) dense() {
	if h.h == nil {
		h.h = hdrhistogram.New(1, int64(Highest), significantDigits)
		h.add(h.read)
		h.read = nil
	}
}

// add counts what s has; sum and maximum are the caller's.
func (h *Hist) add(s *sparse) {
	s.each(func(low, _, count int64) { _ = h.h.RecordValues(low, count) }) // in range, as of all that was read
}

// Count returns how many durations were recorded.
func (h *Hist) Count() int64 {
	if h.h == nil {
		return h.read.count()
	}
	return h.h.TotalCount()
}

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

// Percentile returns the p-th percentile, 0 ≤ p ≤ 100: the smallest recorded value that at least p percent of all do not exceed, to
// three digits and never above the exact maximum; 0 when empty.
func (h *Hist) Percentile(p float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	// The library rounds the rank to the nearest, which of ten values makes the ninth their 94th percentile. Rounded up here, it is
	// handed over as the percentage that belongs to it. The factor keeps 99.9 % of 1000 from becoming the 1000th.
	rank := max(math.Ceil(p/100*float64(n)*(1-1e-12)), 1)
	if h.h == nil {
		return min(time.Duration(h.read.at(int64(rank))), h.Max())
	}
	return min(time.Duration(h.h.ValueAtPercentile(rank/float64(n)*100)), h.Max())
}
