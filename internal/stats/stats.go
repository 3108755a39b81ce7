// Package stats has the few statistics that decide whether a number may be believed: numbers in, numbers out.
package stats

import (
	"math"
	"slices"
	"time"
)

// Drift compares the first half of a series with the second.
type Drift struct {
	Change float64 // mean of the second half over that of the first, minus 1
	Z      float64 // the difference in standard errors
	Drifts bool    // it is both large enough to matter and larger than chance
}

// Limits of TestDrift: a change of a tenth is what a user would call one, and four standard errors do not come by chance.
const (
	driftChange = 0.10
	driftZ      = 4
	driftMin    = 8 // values, below which halves have no spread worth the name
)

// TestDrift tests a series for a level that changes from its first to its second half. The values should be means over spans
// that are long against what correlates neighbouring requests, such as 100 ms; single latencies of one queue are so alike that any
// test would find them significant. ok is false when there are too few values to tell.
func TestDrift(series []float64) (d Drift, ok bool) {
	if len(series) < driftMin {
		return Drift{}, false
	}
	half := len(series) / 2
	m1, v1 := meanVariance(series[:half])
	m2, v2 := meanVariance(series[len(series)-half:])
	if m1 == 0 && m2 == 0 {
		return Drift{}, true
	}
	stderr := math.Sqrt((v1 + v2) / float64(half))
	d.Change = math.Inf(1)
	if m1 != 0 {
		d.Change = m2/m1 - 1
	}
	switch {
	case stderr > 0:
		d.Z = (m2 - m1) / stderr
	case m1 != m2:
		d.Z = math.Copysign(math.Inf(1), m2-m1)
	}
	d.Drifts = math.Abs(d.Change) > driftChange && math.Abs(d.Z) > driftZ
	return d, true
}

// meanVariance returns the mean and the sample variance of at least two values.
func meanVariance(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(values)-1)
}

// Tolerances of Little. The sender counts a request when it looks, not when the request leaves or its reply arrives, so each may seem to be under
// way a little longer or shorter than its stamps say. Most of these delays are microseconds; now and then the system takes the core from the sender
// just then, and one is as long as that lasts.
const (
	littleRelative = 0.05
	littlePer      = 200 * time.Microsecond // what a delay may be on the mean
	littleStall    = 20 * time.Millisecond  // what one may be: a few turns of others on the same core
	littleUnlikely = 1e-4                   // chance at most that delays within these bounds sum to more than is allowed for
)

// Little holds the mean number of requests in flight, as counted, against the time they spent there according to their own stamps
// (Little's law, N = λ·W, in its form for a finite window, where the requests that cross its ends count with the part inside).
// busy is the sum of those times over the window, requests how many contributed. It reports whether the two agree within
// LittleTolerance.
func Little(counted float64, busy, window time.Duration, requests int64) bool {
	if window <= 0 {
		return true
	}
	fromStamps := float64(busy) / float64(window)
	return math.Abs(counted-fromStamps) <= LittleTolerance(counted, busy, window, requests)
}

// LittleTolerance returns by how many requests in flight the two means may differ: 5 %, or what the delays of counting explain, whichever is more. For
// delays of 0 to b with the mean m, whatever their distribution, the variance is at most m·b, and by Bernstein's inequality n of them exceed
//
//	n·m + √(2·n·m·b·L) + b·L/3
//
// with a probability of at most exp(-L). The first term is what many requests come to; the other two are the chance of few, of which a single one
// may be most of the sum. One delay holds up every request that is under way, so b is longer by their number, that of the mean and the one itself.
func LittleTolerance(counted float64, busy, window time.Duration, requests int64) float64 {
	if window <= 0 {
		return math.Inf(1)
	}
	inFlight := max(counted, float64(busy)/float64(window))
	likely := float64(requests) * float64(littlePer)
	longest := float64(littleStall) * (1 + inFlight)
	l := -math.Log(littleUnlikely)
	delays := likely + math.Sqrt(2*likely*longest*l) + longest*l/3
	return max(littleRelative*inFlight, delays/float64(window))
}

// Interval is a confidence interval of a median.
type Interval struct {
	Median, Low, High float64
	Confidence        float64 // reached; at least what was asked for unless Enough is false
	Enough            bool    // there are enough values to reach it; otherwise Low and High are the extremes
}

// MedianInterval returns the median of values and its interval by order statistics, which asks nothing of their distribution: the
// median lies between the k-th smallest and k-th largest of n values unless fewer than k of n fall on one side of it, and each
// falls on either side by a fair coin. It needs six values for a confidence of 0.95. values is not changed; it must not be empty.
func MedianInterval(values []float64, confidence float64) Interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	iv := Interval{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1]}

	// cover is the probability that the median lies between the k-th values from either end: 1 − 2·P(Binomial(n, ½) < k).
	term := math.Pow(0.5, float64(n)) // P(Binomial = k−1)
	cover := 1 - 2*term
	iv.Confidence, iv.Enough = max(cover, 0), cover >= confidence
	for k := 2; k <= n/2; k++ {
		term *= float64(n-k+2) / float64(k-1)
		cover -= 2 * term
		if cover < confidence {
			break
		}
		iv.Low, iv.High, iv.Confidence = sorted[k-1], sorted[n-k], cover
	}
	return iv
}

// RepeatsFor returns how many values MedianInterval needs for a confidence below 1.
func RepeatsFor(confidence float64) int {
	n := 1
	for 1-2*math.Pow(0.5, float64(n)) < confidence {
		n++
	}
	return n
}
