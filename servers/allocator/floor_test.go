package allocator

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/clock"
)

// overflow returns at which rate tokens of a bucket are lost because it is full: it fills at one rate, holds so many, and requests are a Poisson process
// of another rate. The tokens in it are taken for a Brownian motion between two reflecting ends, with the drift filling - asked and the
// variance asked. The time that it spends at the upper end, per second, is drift / (1 - exp(-2·drift·depth/asked)); without a drift that is
// asked / (2·depth) (Harrison, Brownian Motion and Stochastic Flow Systems, 1985, chapter 5).
func overflow(filling, asked, depth float64) float64 {
	drift := filling - asked
	if x := 2 * drift * depth / asked; math.Abs(x) > 1e-6 {
		return drift / -math.Expm1(-x)
	}
	return asked / (2 * depth)
}

// TestOverflow: the formula against a bucket and its requests, one by one.
func TestOverflow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ filling, asked, depth float64 }{{20, 20, 20}, {100, 100, 100}, {20, 22, 20}, {22, 20, 20}, {20, 30, 20}} {
		r, tokens, lost, seconds := rand.New(rand.NewPCG(5, 5)), tt.depth, 0.0, 0.0
		for range 300_000 {
			gap := r.ExpFloat64() / tt.asked
			seconds += gap
			tokens += gap * tt.filling
			lost += max(tokens-tt.depth, 0)
			if tokens = min(tokens, tt.depth); tokens >= 1 {
				tokens--
			}
		}
		want, got := overflow(tt.filling, tt.asked, tt.depth)/tt.filling, lost/seconds/tt.filling
		t.Logf("filled at %g, asked at %g: by the formula %.4f of the tokens are lost, counted %.4f", tt.filling, tt.asked, want, got)
		if math.Abs(want-got) > 0.004 {
			t.Errorf("filled at %g, asked at %g: by the formula %.4f of the tokens are lost, counted %.4f", tt.filling, tt.asked, want, got)
		}
	}
}

// noiseFloor returns how many requests of class high are lost by the noise of Poisson arrivals alone, as a share of those asked for: every rate is known
// at every instant, and capacity moves in no time.
func noiseFloor(c Config, rate func(cell int, seconds float64) float64) float64 {
	policy := c.Policy()
	demand, grants := make([]float64, policy.Cells()), make([]float64, policy.Cells())
	lost, asked := 0.0, 0.0
	for seconds := 0.0; seconds < 60; seconds += 0.1 { // the periods of both classes
		for cell := range demand {
			demand[cell] = rate(cell, seconds)
		}
		policy.Allocate(demand, grants)
		for cell := range policy.Locations {
			lost += overflow(grants[cell], demand[cell], grants[cell]*fiveBurst*c.Cycle.Seconds())
			asked += demand[cell]
		}
	}
	return lost / asked
}

// knowing measures the same: the real controllers are told in every step what they would be granted if all were known.
func knowing(c Config, rate func(cell int, seconds float64) float64, seed uint64) float64 {
	f := newTraffic(c, rate, rand.New(rand.NewPCG(seed, 1)))
	f.world.alive = false
	policy := c.Policy()
	demand, grants, own := make([]float64, policy.Cells()), make([]float64, policy.Cells()), make([]float64, policy.Classes)
	const often, warm, span = 20 * time.Millisecond, 20 * time.Second, 140 * time.Second // full buckets drain in the first
	now := clock.Instant(0)
	for now < clock.Instant(0).Add(span) {
		for cell := range demand {
			demand[cell] = rate(cell, now.Sub(0).Seconds())
		}
		policy.Allocate(demand, grants)
		for i, p := range f.world.places {
			for k := range own {
				own[k] = grants[policy.Cell(k, i)]
			}
			if err := p.limiter.Grant(now, own, clock.Never); err != nil {
				panic(err)
			}
		}
		if now = f.run(now, often); now == clock.Instant(0).Add(warm) {
			clear(f.asked)
			clear(f.served)
		}
	}
	return (0.7*c.Budget*(span-warm).Seconds() - f.served[0]) / f.asked[0]
}

// TestNoiseFloor: what noise alone costs is no more than the formula says, and falls with the number of requests. The formula is of buckets that have been at
// their rates for long; where demand swings they are not at any for long enough, and less is lost.
func TestNoiseFloor(t *testing.T) {
	t.Parallel()
	for _, budget := range []float64{200, 500, 1000} {
		c := fiveEdges(budget)
		rate := swinging(c, 0.5, false)
		want, got := noiseFloor(c, rate), knowing(c, rate, 3)
		t.Logf("budget %g: by the formula %.2f points, measured %.2f", budget, 100*want, 100*got)
		if got > want+0.001 || got < want-0.004 {
			t.Errorf("budget %g: by the formula %.2f points, measured %.2f", budget, 100*want, 100*got)
		}
	}
}
