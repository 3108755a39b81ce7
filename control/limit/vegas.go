package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// VegasConfig are the settings of the limit that NewVegas returns.
type VegasConfig struct {
	Initial   int           `setting:"initial" unit:"requests" doc:"the limit to begin with"`
	Min       int           `setting:"min" unit:"requests" doc:"the limit never falls below this"`
	Max       int           `setting:"max" unit:"requests" doc:"the limit never rises above this"`
	Smoothing float64       `setting:"smoothing" doc:"weight of the new limit"`
	Probe     int           `setting:"probe" doc:"the shortest time is measured anew after half to all of this times the limit samples"`
	Window    time.Duration `setting:"window" doc:"a sample is the mean over so long; 0 takes each request for a sample"`
	Samples   int           `setting:"window_samples" unit:"requests" doc:"a window with fewer is no sample"`
	Ignore    time.Duration `setting:"ignore" doc:"shorter times are left out of windows"`
	Queue     int           `setting:"queue" unit:"requests" doc:"at most this many waiting; one more is rejected on arrival"`
}

// DefaultVegas returns the library's defaults, and the queue of Fixed. Unlike Gradient2, Vegas is used there without a window.
func DefaultVegas() VegasConfig {
	return VegasConfig{
		Initial: 20, Min: 1, Max: 1000, Smoothing: 1, Probe: 30,
		Window: 0, Samples: 10, Ignore: 100 * time.Microsecond, Queue: DefaultFixed().Queue,
	}
}

func (c VegasConfig) bounds() bounds {
	return bounds{initial: c.Initial, min: c.Min, max: c.Max, queue: c.Queue}
}

// Check returns an error that names the setting that is out of range.
func (c VegasConfig) Check() error {
	if c.Smoothing <= 0 || c.Smoothing > 1 {
		return fmt.Errorf("smoothing is %v, must be above 0 and at most 1", c.Smoothing)
	}
	if c.Probe < 1 {
		return fmt.Errorf("probe is %d, must be at least 1", c.Probe)
	}
	if err := checkWindow(c.Window, c.Samples, c.Ignore); err != nil {
		return err
	}
	return c.bounds().check()
}

// NewVegas returns Netflix's form of TCP Vegas: how many requests queue somewhere behind the limit is worked out from how much longer they
// take than the shortest,
//
//	queue = ⌈limit·(1 − shortest/time)⌉
//
// and the limit moves so that they are a few: with step = max(1, ⌊log₁₀ limit⌋) it grows by 6·step when the queue is at most step, by step
// when it is below 3·step, and shrinks by step when it is above 6·step or the request failed. It stays while less than half of it is in use.
// The shortest time is measured anew from time to time, at instants drawn from rng. It panics when c is out of range.
func NewVegas(c VegasConfig, rng *rand.Rand) *Adaptive {
	if err := c.Check(); err != nil {
		panic("limit: " + err.Error())
	}
	l := &vegas{VegasConfig: c, rng: rng}
	l.jitter()
	return newAdaptive(l, window{span: c.Window, least: c.Samples, ignore: c.Ignore}, c.bounds())
}

type vegas struct {
	VegasConfig
	rng      *rand.Rand
	shortest time.Duration
	n        int     // samples since the shortest time was measured anew
	share    float64 // of Probe times the limit, at which it is next
}

func (l *vegas) jitter() { l.share = 0.5 + 0.5*l.rng.Float64() }

func (l *vegas) sample(limit float64, o observation) float64 {
	l.n++
	rtt := max(o.rtt, 1)
	switch {
	case float64(l.n) >= l.share*float64(l.Probe)*limit:
		l.n, l.shortest = 0, rtt
		l.jitter()
		return limit
	case l.shortest == 0 || rtt < l.shortest:
		l.shortest = rtt
		return limit
	}
	next, moves := l.next(limit, rtt, o)
	if !moves {
		return limit
	}
	next = min(max(next, 1), float64(l.Max))
	return (1-l.Smoothing)*limit + l.Smoothing*next
}

// next returns where the limit should go; moves is false when it is where it should be.
func (l *vegas) next(limit float64, rtt time.Duration, o observation) (next float64, moves bool) {
	step := 1.0
	for n := int(limit); n >= 100; n /= 10 {
		step++
	}
	queue := math.Ceil(limit * (1 - float64(l.shortest)/float64(rtt)))
	switch {
	case o.dropped:
		return limit - step, true
	case float64(2*o.inFlight) < limit:
		return limit, false
	case queue <= step:
		return limit + 6*step, true
	case queue < 3*step:
		return limit + step, true
	case queue > 6*step:
		return limit - step, true
	}
	return limit, false
}
