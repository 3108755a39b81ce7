// Package arrival decides when requests are due. A process yields absolute instants: whoever sleeps a gap after each request adds
// its own lateness to the schedule, and an interval rounded to whole nanoseconds drifts away from the rate that was asked for.
package arrival

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"spillway/clock"
)

// Process yields the instants at which requests are due, in order: no instant is before the one yielded earlier.
type Process interface {
	Next(rng *rand.Rand) clock.Instant
}

// The kinds of process that New knows.
const (
	KindPoisson  = "poisson"
	KindConstant = "constant"
)

// Kinds lists the names that New takes.
func Kinds() []string { return []string{KindPoisson, KindConstant} }

// Rates are kept to a millionth of a request per second, as whole numbers, so that the constant process can be exact.
const (
	microsPerUnit = 1_000_000
	maxRate       = 1e9 // one a nanosecond, the grain of an Instant
	minRate       = 1.0 / microsPerUnit
)

// New returns the process called kind with rate requests per second from start on.
func New(kind string, rate float64, start clock.Instant) (Process, error) {
	if !(rate >= minRate && rate <= maxRate) {
		return nil, fmt.Errorf("arrival rate %v/s: must be between %v and %v a second", rate, minRate, float64(maxRate))
	}
	switch kind {
	case KindPoisson:
		return NewPoisson(rate, start), nil
	case KindConstant:
		return NewConstant(rate, start), nil
	default:
		return nil, fmt.Errorf("arrivals %q: unknown, use %s or %s", kind, KindPoisson, KindConstant)
	}
}

// Poisson is the process of many independent users: gaps are exponential, and what happened tells nothing of what will.
type Poisson struct {
	start clock.Instant
	mean  float64 // ns between arrivals
	after float64 // ns from start to the arrival yielded last; a float64 resolves a thousandth of a ns over an hour
}

// NewPoisson returns a Poisson process of rate requests per second; the first arrival is one gap after start.
func NewPoisson(rate float64, start clock.Instant) *Poisson {
	return &Poisson{start: start, mean: 1e9 / rate}
}

// Next yields the next instant.
func (p *Poisson) Next(rng *rand.Rand) clock.Instant {
	p.after += rng.ExpFloat64() * p.mean
	if p.after >= math.MaxInt64/2 {
		return clock.Never
	}
	return p.start + clock.Instant(p.after)
}

// Constant is the evenly spaced process. Arrival k is due at start + floor(k·10⁹/rate) ns, computed anew from k each time, so
// nothing accumulates: a span of d from start holds ceil(rate·d) arrivals, which is rate·d where that is a whole number.
type Constant struct {
	start  clock.Instant
	micros uint64 // millionths of a request per second
	k      uint64 // arrivals yielded
}

// NewConstant returns a process of rate evenly spaced requests per second; the first is due at start.
func NewConstant(rate float64, start clock.Instant) *Constant {
	return &Constant{start: start, micros: uint64(math.Round(rate * microsPerUnit))}
}

// Next yields the next instant. It needs no randomness.
func (c *Constant) Next(*rand.Rand) clock.Instant {
	high, low := bits.Mul64(c.k, 1e9*microsPerUnit)
	if high >= c.micros { // the quotient needs more than 64 bits
		return clock.Never
	}
	after, _ := bits.Div64(high, low, c.micros)
	if after >= math.MaxInt64/2 {
		return clock.Never
	}
	c.k++
	return c.start + clock.Instant(after)
}
