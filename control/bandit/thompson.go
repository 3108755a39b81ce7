package bandit

import (
	"math"
	"math/rand/v2"

	"spillway/clock"
)

// The constants of the artifact's Thompson sampling (m_semaphore, mab_ts). Rewards count a hundredfold there.
const (
	thompsonWindow   = 10   // rewards that each arm remembers
	thompsonScale    = 100  //
	thompsonVariance = 25.  // of a scaled reward, taken as known
	priorMean        = 80.  // above what any arm can reach with α ≤ 0.8: untried arms are tried
	priorVariance    = 625. //
	softmaxScale     = 30.  //
)

// thompson keeps a normal posterior of the mean reward of each arm, over the last ten, draws from each, and chooses the greatest. With
// probability ε (0.3 as published) it instead draws an arm no greater than the current one, with weights exp(mean/30): a knee that moved
// down shows only there.
type thompson struct {
	arms    []posterior
	current int
	epsilon float64
	rng     *rand.Rand
	weights []float64 // room for the softmax
}

// posterior is what is known of one arm. The window is a ring.
type posterior struct {
	window [thompsonWindow]float64
	n, at  int
}

func newThompson(c Config) *thompson {
	return &thompson{arms: make([]posterior, c.Arms), current: 1, epsilon: c.Epsilon, rng: c.Rand, weights: make([]float64, c.Arms)}
}

// Reward implements Bandit.
func (t *thompson) Reward(arm int, reward float64) {
	p := &t.arms[arm-1]
	p.window[p.at] = reward * thompsonScale
	p.at = (p.at + 1) % thompsonWindow
	p.n = min(p.n+1, thompsonWindow)
}

// moments returns mean and variance of the arm's mean reward, given the rewards in its window.
func (p *posterior) moments() (mean, variance float64) {
	variance = 1 / (1/priorVariance + float64(p.n)/thompsonVariance)
	sum := 0.0
	for _, r := range p.window[:p.n] {
		sum += r
	}
	return variance * (priorMean/priorVariance + sum/thompsonVariance), variance
}

// Choose implements Bandit.
func (t *thompson) Choose(clock.Instant) int {
	if t.rng.Float64() < t.epsilon {
		t.current = t.below()
		return t.current
	}
	greatest := math.Inf(-1)
	for i := range t.arms {
		mean, variance := t.arms[i].moments()
		if draw := mean + math.Sqrt(variance)*t.rng.NormFloat64(); draw > greatest {
			greatest, t.current = draw, i+1
		}
	}
	return t.current
}

// below draws an arm no greater than the current one.
func (t *thompson) below() int {
	weights := t.weights[:t.current]
	total := 0.0
	for i := range weights {
		mean, _ := t.arms[i].moments()
		weights[i] = math.Exp(mean / softmaxScale)
		total += weights[i]
	}
	left := t.rng.Float64() * total
	for i, w := range weights {
		if left -= w; left < 0 {
			return i + 1
		}
	}
	return t.current
}
