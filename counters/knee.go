//go:build linux

package counters

import "math"

// maxStreams bounds how many concurrent streams are told apart.
const maxStreams = 256

// Knee learns how bandwidth grows with the number of concurrent streams, X(n) = min(n·x, most), from windows in which it was seen: without any
// counter, that is the number of streams beyond which more of them only wait.
type Knee struct {
	weight [maxStreams + 1]float64
	mean   [maxStreams + 1]float64
}

// kneeMemory is the weight at which a mean forgets: about as many windows as it remembers.
const kneeMemory = 200

// Add notes that n streams moved rate bytes per second in one window.
func (k *Knee) Add(n int, rate float64) {
	if n < 1 || n > maxStreams || math.IsNaN(rate) || rate < 0 {
		return
	}
	k.weight[n] = min(k.weight[n]+1, kneeMemory)
	k.mean[n] += (rate - k.mean[n]) / k.weight[n]
}

// Fit returns what one stream moves alone and the most that all move together. ok is false while no number of streams was seen beyond the knee, or
// none before it: then there is nothing to say where it is.
func (k *Knee) Fit() (perStream, most float64, ok bool) {
	best := math.Inf(1)
	for at := 1; at < maxStreams; at++ {
		if k.weight[at] == 0 {
			continue
		}
		x, top, failed := k.split(at)
		if failed {
			continue
		}
		sum := 0.0
		for n := 1; n <= maxStreams; n++ {
			e := k.mean[n] - min(float64(n)*x, top)
			sum += k.weight[n] * e * e
		}
		if sum < best {
			best, perStream, most, ok = sum, x, top, true
		}
	}
	// A plateau that begins where the line would be anyway is no plateau.
	if ok && most >= perStream*float64(k.largest()) {
		return 0, 0, false
	}
	return perStream, most, ok
}

// split fits the line to windows with up to at streams, and the plateau to those with more.
func (k *Knee) split(at int) (x, top float64, failed bool) {
	var nx, nn, plateau, weight float64
	for n := 1; n <= maxStreams; n++ {
		w := k.weight[n]
		if n <= at {
			nx += w * float64(n) * k.mean[n]
			nn += w * float64(n) * float64(n)
		} else {
			plateau += w * k.mean[n]
			weight += w
		}
	}
	if nn == 0 || weight == 0 || nx <= 0 {
		return 0, 0, true
	}
	return nx / nn, plateau / weight, false
}

// largest returns the largest number of streams that was seen.
func (k *Knee) largest() int {
	for n := maxStreams; n > 0; n-- {
		if k.weight[n] > 0 {
			return n
		}
	}
	return 0
}
