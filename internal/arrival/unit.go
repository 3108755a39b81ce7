package arrival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/internal/dist"
)

// unitProcess yields arrivals at a mean rate of 1 on the axis of area (see shape): non-decreasing numbers, +Inf when there are no more.
type unitProcess interface {
	next(rng *rand.Rand) float64
}

// warped puts the arrivals of a unit process where the area under the rate reaches them.
type warped struct {
	start clock.Instant
	rate  float64
	shape shape
	unit  unitProcess
}

// Next yields the next instant.
func (w *warped) Next(rng *rand.Rand) clock.Instant {
	after := w.shape.inverse(w.unit.next(rng)/w.rate) * 1e9
	if !(after < math.MaxInt64/2) {
		return clock.Never
	}
	return w.start + clock.Instant(after)
}

type unitPoisson struct{ at float64 }

func (u *unitPoisson) next(rng *rand.Rand) float64 {
	u.at += rng.ExpFloat64()
	return u.at
}

type unitConstant struct{ k float64 }

func (u *unitConstant) next(*rand.Rand) float64 {
	u.k++
	return u.k - 1
}

// exact is a Poisson process of which it is known how many arrivals each of its spans holds. Given their number, the arrivals of a
// Poisson process are that many uniform numbers in order, which can be drawn one after the other: the first of n lies where the others
// are all above it.
type exact struct {
	spans []exactSpan
	at    float64
}

type exactSpan struct {
	end  float64
	left int64 // arrivals still to come
}

// newExact has a span for the warm-up and one for the window, each with the area under its rate, to the nearest whole number.
func newExact(c *Config, s shape) *exact {
	e := &exact{}
	for _, end := range []time.Duration{c.WarmUp, c.WarmUp + c.Window} {
		before := 0.0
		if n := len(e.spans); n > 0 {
			before = e.spans[n-1].end
		}
		area := s.areaAt(end.Seconds()) * c.Rate
		e.spans = append(e.spans, exactSpan{end: area, left: int64(math.Round(area - before))})
	}
	return e
}

func (e *exact) next(rng *rand.Rand) float64 {
	for len(e.spans) > 0 && e.spans[0].left == 0 {
		e.at, e.spans = e.spans[0].end, e.spans[1:]
	}
	if len(e.spans) == 0 {
		return math.Inf(1)
	}
	s := &e.spans[0]
	// 1 − U^(1/n), without losing the digits of a small step.
	e.at += (s.end - e.at) * -math.Expm1(-rng.ExpFloat64()/float64(s.left))
	if e.at >= s.end { // by rounding; the end belongs to the next span
		e.at = math.Nextafter(s.end, 0)
	}
	s.left--
	return e.at
}

// bursty is a Poisson process that alternates between two rates, staying for exponential times in each: a Markov-modulated Poisson
// process of two states.
type bursty struct {
	rate [2]float64 // in the states, relative to the mean; 1 is the burst
	stay [2]float64 // mean stay in each, in area

	begun bool
	state int
	share float64 // of the time spent in bursts
	left  float64 // until the state changes
	at    float64
}

// Defaults of the bursty process: a tenth of the time at five times the rate, for 10 ms on average. Outside bursts that leaves 5/9 of it.
const (
	burstFactor = 5
	burstShare  = 0.1
	burstMean   = 10 * time.Millisecond
	// minStay bounds the changes of state between two arrivals, which take time to draw: a million or so.
	minStay = 1e-6
)

// parseBursty reads burst=5,share=0.1,mean=10ms, each of which may be left out.
func parseBursty(text string, rate float64) (*bursty, error) {
	burst, share, mean := float64(burstFactor), burstShare, burstMean
	if text != "" {
		for part := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(part, "=")
			var err error
			switch name {
			case "burst":
				burst, err = strconv.ParseFloat(value, 64)
			case "share":
				share, err = strconv.ParseFloat(value, 64)
			case "mean":
				mean, err = dist.ParseDuration(value)
			default:
				err = fmt.Errorf("write burst=FACTOR,share=SHARE,mean=DURATION")
			}
			if err != nil {
				return nil, fmt.Errorf("%q: %w", part, err)
			}
		}
	}
	if mean.Seconds()*rate < minStay {
		return nil, fmt.Errorf("at %v requests a second, bursts of %v hold none; make mean longer", rate, mean)
	}
	if !(share > 0 && share < 1) || !(burst > 1) || burst*share > 1 || mean <= 0 {
		return nil, fmt.Errorf("burst %v, share %v, mean %v: bursts are above the mean rate, take a share of the time between 0 and 1, last "+
			"longer than 0, and together make no more than all requests: burst times share is at most 1", burst, share, mean)
	}
	stay := mean.Seconds() * rate
	return &bursty{
		rate: [2]float64{(1 - share*burst) / (1 - share), burst}, stay: [2]float64{stay * (1 - share) / share, stay}, share: share,
	}, nil
}

func (b *bursty) next(rng *rand.Rand) float64 {
	if !b.begun {
		b.begun = true
		if rng.Float64() < b.share {
			b.state = 1
		}
		b.left = rng.ExpFloat64() * b.stay[b.state]
	}
	for need := rng.ExpFloat64(); ; {
		if r := b.rate[b.state]; need <= r*b.left {
			step := need / r
			b.left -= step
			b.at += step
			return b.at
		}
		need -= b.rate[b.state] * b.left
		b.at += b.left
		b.state = 1 - b.state
		b.left = rng.ExpFloat64() * b.stay[b.state]
	}
}
