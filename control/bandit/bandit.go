// Package bandit chooses a whole number by trying: how many requests may be in memory-bound work at once. Too few leave the memory bus idle,
// too many only keep cores waiting for it, and where the knee lies depends on the access pattern of the moment. Each possible number is an
// arm; after each period its player is told how well the arm did, and chooses the next.
//
// Svalinn (OSDI '26) sizes its memory semaphore with the ε-greedy one, and its artifact ships Thompson sampling beside it; UCB, a fixed
// capacity and an oracle are here to compare them with.
package bandit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"spillway/clock"
)

// Bandit chooses among the arms 1 to some N. It is not safe for concurrent use.
type Bandit interface {
	// Reward tells how well arm did while it was chosen.
	Reward(arm int, reward float64)
	// Choose returns the arm for the next period.
	Choose(now clock.Instant) int
}

// Names returns the names of all bandits, the published default first.
func Names() []string { return []string{"egreedy", "thompson", "ucb", "fixed", "oracle"} }

// Config says which bandit to make, and with what constants. Constants that a bandit does not have are not looked at, except for Capacity, which is a bandit in itself.
type Config struct {
	Name     string
	Arms     int                     // N
	Omega    float64                 // of egreedy: weight of the newest reward
	Epsilon  float64                 // of egreedy and thompson: how often it explores
	Capacity int                     // of fixed: the arm
	Oracle   func(clock.Instant) int // of oracle: the best arm at an instant
	Rand     *rand.Rand              // of egreedy and thompson
}

// Check returns an error that names what is out of range and says what would be right.
func (c *Config) Check() error {
	switch {
	case !slices.Contains(Names(), c.Name):
		return fmt.Errorf("bandit is %q, must be one of %s", c.Name, strings.Join(Names(), ", "))
	case c.Name == "egreedy" && !(c.Omega > 0 && c.Omega <= 1): // written so that it catches NaN too
		return fmt.Errorf("omega is %v, must be above 0 and at most 1", c.Omega)
	case (c.Name == "egreedy" || c.Name == "thompson") && !(c.Epsilon >= 0 && c.Epsilon <= 1):
		return fmt.Errorf("epsilon is %v, must be from 0 to 1", c.Epsilon)
	case c.Name == "fixed" && c.Capacity < 1:
		return fmt.Errorf("capacity is %d, must be at least 1 with bandit fixed", c.Capacity)
	case c.Name != "fixed" && c.Capacity != 0:
		return fmt.Errorf("capacity is %d, which only bandit fixed has; set bandit to fixed, or leave capacity out", c.Capacity)
	}
	return nil
}

// New returns the bandit that c describes.
func New(c Config) (Bandit, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Arms < 1 {
		return nil, errors.New("a bandit needs at least one arm")
	}
	switch c.Name {
	case "egreedy":
		return newEGreedy(c), nil
	case "thompson":
		return newThompson(c), nil
	case "ucb":
		return newUCB(c.Arms), nil
	case "fixed":
		return fixed(min(c.Capacity, c.Arms)), nil
	default:
		if c.Oracle == nil {
			return nil, errors.New("bandit oracle is told the best capacity by a model of the machine, and there is none here; " +
				"use it on the grounds sim and model, or choose another bandit")
		}
		return oracle{best: c.Oracle, arms: c.Arms}, nil
	}
}

// Learns reports whether b is in need of rewards. One that is not chooses well at any time.
func Learns(b Bandit) bool {
	switch b.(type) {
	case fixed, oracle:
		return false
	}
	return true
}

// fixed always chooses the same arm.
type fixed int

func (fixed) Reward(int, float64)        {}
func (f fixed) Choose(clock.Instant) int { return int(f) }

// oracle chooses what it is told to be best: how well one could do without having to learn.
type oracle struct {
	best func(clock.Instant) int
	arms int
}

func (oracle) Reward(int, float64)            {}
func (o oracle) Choose(now clock.Instant) int { return min(max(o.best(now), 1), o.arms) }
