// Package arrival decides when requests are due. A process yields absolute instants: whoever sleeps a gap after each request adds
// its own lateness to the schedule, and an interval rounded to whole nanoseconds drifts away from the rate that was asked for.
package arrival

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"time"

	"spillway/clock"
)

// Process yields the instants at which requests are due, in order: no instant is before the one yielded earlier.
type Process interface {
	Next(rng *rand.Rand) clock.Instant
}

// The kinds of process.
const (
	KindPoisson      = "poisson"
	KindPoissonExact = "poisson-exact" // Poisson, given that warm-up and window hold exactly as many as the rate says
	KindConstant     = "constant"
	KindBursty       = "bursty" // Poisson whose rate jumps between two levels
	KindTrace        = "trace"  // the gaps of a file, stretched to the rate
	KindReplay       = "replay" // the instants of a file as they are
)

// Kinds lists the names that New takes.
func Kinds() []string { return []string{KindPoisson, KindConstant, KindBursty} }

// Forms lists the text forms of arrivals, for messages.
const Forms = "poisson, poisson-exact, constant, bursty or bursty:burst=5,share=0.1,mean=10ms, trace:FILE, replay:FILE"

// Rates are kept to a millionth of a request per second, as whole numbers, so that the constant process can be exact.
const (
	microsPerUnit = 1_000_000
	maxRate       = 1e9 // one a nanosecond, the grain of an Instant
	minRate       = 1.0 / microsPerUnit
)

// Config says when requests are due.
type Config struct {
	Arrivals string        // one of Forms
	Shape    string        // of the rate over time, one of ShapeForms; empty for constant
	Rate     float64       // requests per second, which the shape multiplies
	Start    clock.Instant // of the warm-up
	WarmUp   time.Duration // in which the shape keeps its first value
	Window   time.Duration // what counts; poisson-exact needs it

	// Phases give the rate one after the other from the end of the warm-up on, instead of Rate and Shape. The warm-up has the first
	// one's rate, and the last one's goes on.
	Phases []Phase
}

// Phase is a stretch of time with a rate of its own.
type Phase struct {
	For  time.Duration
	Rate float64 // requests per second; 0 for a pause
}

// New returns the process called kind with rate requests per second from start on.
func New(kind string, rate float64, start clock.Instant) (Process, error) {
	return Make(Config{Arrivals: kind, Rate: rate, Start: start})
}

// Make returns the process that c describes.
func Make(c Config) (Process, error) {
	if len(c.Phases) > 0 {
		return c.inPhases()
	}
	if !(c.Rate >= minRate && c.Rate <= maxRate) {
		return nil, fmt.Errorf("arrival rate %v/s: must be between %v and %v a second", c.Rate, minRate, float64(maxRate))
	}
	shape, err := parseShape(c.Shape, c.WarmUp)
	if err != nil {
		return nil, fmt.Errorf("rate shape %q: %w", c.Shape, err)
	}
	return c.named(shape)
}

// inPhases returns the process whose rate is that of one phase after the other: the mean of them with a shape of steps.
func (c Config) inPhases() (Process, error) {
	if c.Rate != 0 || c.Shape != "" {
		return nil, fmt.Errorf("phases have rates of their own; leave out the rate and its shape")
	}
	var length, area float64
	for _, p := range c.Phases {
		if p.For <= 0 || !(p.Rate >= 0 && p.Rate <= maxRate) {
			return nil, fmt.Errorf("phase of %v with %v requests/s: must be longer than 0, with a rate between 0 and %v a second", p.For, p.Rate, float64(maxRate))
		}
		length += p.For.Seconds()
		area += p.For.Seconds() * p.Rate
	}
	if c.Rate = area / length; c.Rate < minRate {
		return nil, fmt.Errorf("no phase has a rate above 0")
	}
	l := &line{}
	for _, p := range c.Phases {
		factor := p.Rate / c.Rate
		l.pieces = append(l.pieces, piece{from: factor, to: factor, length: p.For.Seconds()})
	}
	return c.named(l.after(c.WarmUp))
}

// named returns the process with its rate shaped.
func (c *Config) named(s shape) (Process, error) {
	p, err := c.process(s)
	if err != nil {
		return nil, fmt.Errorf("arrivals %q: %w", c.Arrivals, err)
	}
	return p, nil
}

func (c *Config) process(shape shape) (Process, error) {
	kind, rest, found := strings.Cut(c.Arrivals, ":")
	if found != (kind == KindTrace || kind == KindReplay) && !(found && kind == KindBursty) {
		return nil, fmt.Errorf("unknown, use %s", Forms)
	}
	var unit unitProcess
	_, flat := shape.(steady)
	switch kind {
	case KindPoisson:
		if flat {
			return NewPoisson(c.Rate, c.Start), nil
		}
		unit = &unitPoisson{}
	case KindConstant:
		if flat {
			return NewConstant(c.Rate, c.Start), nil
		}
		unit = &unitConstant{}
	case KindPoissonExact:
		if c.Window <= 0 {
			return nil, fmt.Errorf("needs a window, to know how many requests are to be due in it")
		}
		unit = newExact(c, shape)
	case KindBursty:
		b, err := parseBursty(rest, c.Rate)
		if err != nil {
			return nil, err
		}
		unit = b
	case KindTrace:
		instants, err := readInstants(rest)
		if err != nil {
			return nil, err
		}
		if unit, err = newUnitTrace(instants); err != nil {
			return nil, err
		}
	case KindReplay:
		if !flat {
			return nil, fmt.Errorf("instants that are replayed as they are cannot take a shape; trace:FILE can")
		}
		instants, err := readInstants(rest)
		return &replay{start: c.Start, instants: instants}, err
	default:
		return nil, fmt.Errorf("unknown, use %s", Forms)
	}
	return &warped{start: c.Start, rate: c.Rate, shape: shape, unit: unit}, nil
}

// Even reports whether p spaces its arrivals evenly, up to the shape of the rate, so that clients who take turns get even arrivals too.
func Even(p Process) bool {
	switch p := p.(type) {
	case *Constant:
		return true
	case *warped:
		_, even := p.unit.(*unitConstant)
		return even
	}
	return false
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
