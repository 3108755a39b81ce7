// Package metrics is the /metrics page that all servers have, in one vocabulary: what came to the gate, what was shed and why, how long it waited and took,
// and what controller and store show of themselves.
package metrics

import (
	"math/bits"
	"time"
)

// Timing is a histogram of durations: bucket i counts those of less than 2^i µs that no smaller bucket counts.
type Timing struct {
	count   uint64
	sum     time.Duration
	buckets [timingBuckets]uint64
}

// timingBuckets reach beyond two minutes. What is longer still is in the count only.
const timingBuckets = 28

// Add takes in a duration.
func (t *Timing) Add(d time.Duration) {
	t.count++
	t.sum += d
	if i := bits.Len64(uint64(max(d, 0) / time.Microsecond)); i < timingBuckets {
		t.buckets[i]++
	}
}

// Mean returns the mean of what has been added, 0 of nothing.
func (t *Timing) Mean() time.Duration {
	if t.count == 0 {
		return 0
	}
	return t.sum / time.Duration(t.count)
}
