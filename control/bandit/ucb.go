package bandit

import (
	"math"

	"spillway/clock"
)

const (
	// ucbWindow is how many of the last rewards count, of all arms together: 32 ms at a period of 500 µs, about the time that Svalinn
	// takes to follow a knee that moves.
	ucbWindow = 64

	// ucbWidth is the width of the confidence interval around a single reward. Rewards of neighbouring arms differ by α/knee below the
	// knee, about 0.04 to 0.1, and by (1−α)/N above it, about 0.01 to 0.02. The interval has to be of the order of the former, so that one
	// unlucky reward does not condemn an arm, and it shrinks below the latter within a window.
	ucbWidth = 0.05
)

// ucb is the upper confidence bound UCB1 (Auer, Cesa-Bianchi and Fischer, 2002) with two changes of our own for this use. Only the last 64
// rewards count, because the knee moves. And only the arm with the greatest mean, the leader, and its two neighbours are played, because
// rewards rise up to the knee and fall beyond it, so whoever climbs meets no other peak; this is the idea of OSUB (Combes and Proutiere,
// 2014). Played is the one of the three with the greatest
//
//	mean + width·√(ln t / n)
//
// where n is how often it was played within the window and t how often all were; one that was not played within it comes first.
type ucb struct {
	arms  []score
	plays [ucbWindow]play // a ring
	n, at int
}

type score struct {
	sum float64
	n   int
}

type play struct {
	arm    int
	reward float64
}

func newUCB(arms int) *ucb { return &ucb{arms: make([]score, arms)} }

// Reward implements Bandit.
func (u *ucb) Reward(arm int, reward float64) {
	if u.n == ucbWindow {
		oldest := u.plays[u.at]
		s := &u.arms[oldest.arm-1]
		s.sum -= oldest.reward
		s.n--
		if s.n == 0 {
			s.sum = 0 // what rounding has left
		}
	}
	u.plays[u.at] = play{arm: arm, reward: reward}
	u.at = (u.at + 1) % ucbWindow
	u.n = min(u.n+1, ucbWindow)
	u.arms[arm-1].sum += reward
	u.arms[arm-1].n++
}

// Choose implements Bandit.
func (u *ucb) Choose(clock.Instant) int {
	if u.n == 0 {
		return 1
	}
	leader, greatest := 0, math.Inf(-1)
	for i := range u.arms {
		if s := &u.arms[i]; s.n > 0 && s.sum/float64(s.n) > greatest {
			leader, greatest = i, s.sum/float64(s.n)
		}
	}
	chosen, greatest := leader, u.index(leader)
	for _, i := range [2]int{leader - 1, leader + 1} {
		if i < 0 || i >= len(u.arms) {
			continue
		}
		if index := u.index(i); index > greatest {
			chosen, greatest = i, index
		}
	}
	return chosen + 1
}

// index returns the upper confidence bound of an arm.
func (u *ucb) index(i int) float64 {
	s := &u.arms[i]
	if s.n == 0 {
		return math.Inf(1)
	}
	return s.sum/float64(s.n) + ucbWidth*math.Sqrt(math.Log(float64(u.n))/float64(s.n))
}
