package bandit

import (
	"math/rand/v2"

	"spillway/clock"
)

// eGreedy is Svalinn's: a running value Q for each arm,
//
//	Q[arm] ← (1−ω)·Q[arm] + ω·reward
//
// and the arm with the greatest Q, or with probability ε one of its two neighbours. Values begin at 0 and of equal ones the smallest arm
// wins, as published. Since arms that were never tried count as 0, an arm whose reward is negative loses against every one of them: the
// next choice is then the smallest arm that was never tried or did not do badly. That takes a sample which shows so little bandwidth for
// its capacity that α·bandwidth < (1−α)·capacity/N, so it happens when there is little to do; it is the published rule and kept.
type eGreedy struct {
	q              []float64 // by arm − 1
	omega, epsilon float64
	rng            *rand.Rand
}

func newEGreedy(c Config) *eGreedy {
	return &eGreedy{q: make([]float64, c.Arms), omega: c.Omega, epsilon: c.Epsilon, rng: c.Rand}
}

// Reward implements Bandit.
func (e *eGreedy) Reward(arm int, reward float64) {
	q := &e.q[arm-1]
	*q = (1-e.omega)*(*q) + e.omega*reward
}

// Choose implements Bandit.
func (e *eGreedy) Choose(clock.Instant) int {
	best := first(e.q) + 1
	if e.rng.Float64() >= e.epsilon {
		return best
	}
	if e.rng.Uint64()&1 == 0 {
		return max(best-1, 1)
	}
	return min(best+1, len(e.q))
}

// first returns the index of the greatest value, of equal ones the first.
func first(values []float64) int {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return best
}
