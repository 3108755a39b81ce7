//go:build linux

package drive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/load"
	"spillway/workloads"
)

// Pacing is how well this computer kept a schedule.
type Pacing struct {
	Pace      Pace
	Rate      float64 // requests per second that were due
	Requests  int64
	P50, P99  time.Duration // of the send lag
	Max       time.Duration
	SenderCPU float64 // share of one core
	RealTime  bool
}

// String says it in one line.
func (p Pacing) String() string {
	return fmt.Sprintf("%-5s at %.0f/s: send lag p50 %v, p99 %v, max %v over %d requests, %.0f %% of a core",
		p.Pace, p.Rate, p.P50.Round(10), p.P99.Round(10), p.Max.Round(10), p.Requests, 100*p.SenderCPU)
}

// SelfTest measures how late requests leave on this computer as it is now, without a server: a Poisson schedule at a rate for a while, against
// a target that answers everything at once, which open makes.
func SelfTest(ctx context.Context, pace Pace, rate float64, window time.Duration, open func(context.Context, Opening) (load.Target, error)) (Pacing, error) {
	process, err := arrival.New(arrival.KindPoisson, rate, 0)
	if err != nil {
		return Pacing{}, err
	}
	generator, err := load.NewGenerator(load.Config{
		Seed: 1, Clients: 1, Workload: sameKey{}, Arrivals: process, End: clock.Instant(window),
	})
	if err != nil {
		return Pacing{}, err
	}
	r, err := Run(ctx, Plan{
		Generator: generator, Classes: []load.Class{{Name: "none"}}, Open: open, Clock: clock.NewReal(), Dial: time.Second,
		Window: window, Drain: time.Second, Pace: pace,
	})
	if err != nil {
		return Pacing{}, err
	}
	all := r.Tally.All()
	return Pacing{
		Pace: pace, Rate: rate, Requests: all.Sent(), P50: all.SendLag.Percentile(50), P99: all.SendLag.Percentile(99), Max: all.SendLag.Max(),
		SenderCPU: r.SenderCPU, RealTime: r.RealTime,
	}, nil
}

// sameKey asks for one key.
type sameKey struct{}

var onlyKey = []byte("k")

// Next makes the operation.
func (sameKey) Next(_ *rand.Rand, op *workloads.Op) {
	*op = workloads.Op{Kind: workloads.Get, Key: onlyKey}
}
