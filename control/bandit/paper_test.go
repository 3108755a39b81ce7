package bandit_test

import (
	"slices"
	"testing"

	"spillway/control/bandit"
)

// knee is the simulator that Svalinn's artifact ships for its bandits (m-semaphore/sim): 45 cores, bandwidth in MB/s that grows linearly up to
// 16 of them, is flat at 180 000 beyond, and is measured with a normal error of 3 000.
type knee struct {
	arms, at int
	most     float64
	sigma    float64
	alpha    float64
	window   int
}

var artifact = knee{arms: 45, at: 16, most: 180_000, sigma: 3_000, alpha: 0.7, window: 0}

// play returns the arms that b chooses in n periods, and when it was first within two of the knee.
func (k knee) play(b bandit.Bandit, n int, seed uint64) (chosen []int, arrived int) {
	noise, r := rng(seed+1000), bandit.NewReward(k.alpha, 1, k.arms, k.window)
	arm := 1
	arrived = n
	for i := range n {
		bw := k.most*min(1, float64(arm)/float64(k.at)) + k.sigma*noise.NormFloat64()
		b.Reward(arm, r.Of(arm, max(bw, 0)))
		arm = b.Choose(0)
		chosen = append(chosen, arm)
		if arrived == n && k.near(arm) {
			arrived = i
		}
	}
	return chosen, arrived
}

func (k knee) near(arm int) bool { return arm >= k.at-2 && arm <= k.at+2 }

// TestKneeOfTheArtifact plays every bandit for a second of periods of 500 µs, ten times, and prints what share of the second half it spent
// within two of the knee, where it was on average, and how soon it got there (Svalinn's m-semaphore/sim; the published constants).
//
// The bounds are below what was measured (98, 69 and 100 %; 207, 17 and 31 periods): they notice a bandit that is broken, not one that is
// unlucky.
func TestKneeOfTheArtifact(t *testing.T) {
	t.Parallel()
	const periods, repeats = 2000, 10
	for _, c := range []struct {
		name   string
		near   float64 // at least
		within int     // periods until it arrives, at most
	}{
		{"egreedy", 0.9, 400},
		{"thompson", 0.5, 100},
		{"ucb", 0.9, 100},
		{"fixed", 1, 0},
		{"oracle", 1, 0},
	} {
		for _, window := range []int{0, 50} {
			k := artifact
			k.window = window
			near, sum, arrived := 0, 0, 0
			var half []int
			for seed := range uint64(repeats) {
				b := build(t, published(c.name, k.arms, seed))
				chosen, first := k.play(b, periods, seed)
				arrived = max(arrived, first)
				half = append(half, chosen[periods/2:]...)
			}
			for _, arm := range half {
				sum += arm
				if k.near(arm) {
					near++
				}
			}
			slices.Sort(half)
			share := float64(near) / float64(len(half))
			t.Logf("%-8s bw_window=%-2d: %3.0f %% within 2 of the knee, mean %.1f, p5 %d, p95 %d, there after %d periods at the latest",
				c.name, window, 100*share, float64(sum)/float64(len(half)), half[len(half)/20], half[len(half)*19/20], arrived)
			if share < c.near || arrived > c.within {
				t.Errorf("%s with bw_window=%d: %.2f of the time within 2 of the knee, first after %d periods; want at least %.2f and at most %d",
					c.name, window, share, arrived, c.near, c.within)
			}
		}
	}
}
