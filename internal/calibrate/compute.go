//go:build linux

package calibrate

import (
	"runtime"
	"slices"
	"time"

	"spillway/clock"
	"spillway/internal/kernels"
)

// Compute is what a turn of the loop takes that servers/synthetic computes with.
type Compute struct {
	NSPerTurn float64 `json:"ns_per_turn"` // in the run that was disturbed least
	Median    float64 `json:"median_ns_per_turn"`
	Spread    float64 `json:"spread"`
}

const (
	computeRuns  = 40
	computeTurns = 50_000 // about a hundred microseconds: few runs of it are interrupted
)

// compute measures it on the calling thread.
func compute(clk clock.Clock) Compute {
	var rates []float64
	for range computeRuns {
		began := clk.Now()
		runtime.KeepAlive(kernels.Spin(computeTurns))
		rates = append(rates, computeTurns/float64(max(clk.Now().Sub(began), 1)))
	}
	most, median, spread := best(rates)
	return Compute{NSPerTurn: 1 / most, Median: 1 / median, Spread: spread}
}

func sorted(times []time.Duration) []time.Duration {
	slices.Sort(times)
	return times
}
