package bouncer

import (
	"math"
	"math/bits"
	"time"
)

// The buckets of a histogram: 128 for each power of two, from 1 ns on, so that what is read from one is at most 1/128, 0.8 %, too high. What
// takes longer than the last bucket counts there.
const (
	subBits = 7
	subs    = 1 << subBits
	octaves = 30 // the last bucket ends at 2³⁷ ns, 137 s
	buckets = (octaves + 1) * subs
)

// histogram counts durations in buckets whose width grows with the value. Recording costs the same whatever it holds, and nothing is allocated.
type histogram struct {
	n       int
	sum     float64 // of the values, exact as far as floating point goes
	squares float64
	max     time.Duration
	counts  [buckets]uint32
}

func (h *histogram) record(d time.Duration) {
	d = max(d, 0)
	h.n++
	h.sum += float64(d)
	h.squares += float64(d) * float64(d)
	h.max = max(h.max, d)
	h.counts[bucket(uint64(d))]++
}

// bucket returns the index of the bucket that v belongs to.
func bucket(v uint64) int {
	if v < subs {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return min(shift<<subBits+int(v>>shift), buckets-1)
}

// upper returns the largest value of bucket i.
func upper(i int) time.Duration {
	if i < 2*subs {
		return time.Duration(i)
	}
	shift := i>>subBits - 1
	return time.Duration((i-shift<<subBits+1)<<shift - 1)
}

// quantile returns the value that a share p of the recorded ones does not exceed: the upper end of its bucket, or the largest value if that
// is less. It is 0 when nothing was recorded.
func (h *histogram) quantile(p float64) time.Duration {
	rank := int(math.Ceil(p * float64(h.n)))
	seen := 0
	for i := range h.counts[:buckets-1] {
		seen += int(h.counts[i])
		if seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

func (h *histogram) mean() float64 {
	if h.n == 0 {
		return 0
	}
	return h.sum / float64(h.n)
}

// residual returns E[S²]/2E[S].
func (h *histogram) residual() float64 {
	if h.sum == 0 {
		return 0
	}
	return h.squares / (2 * h.sum)
}

func (h *histogram) clear() {
	clear(h.counts[:])
	h.n, h.sum, h.squares, h.max = 0, 0, 0, 0
}
