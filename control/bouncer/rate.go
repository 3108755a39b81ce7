package bouncer

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"spillway/clock"
	"spillway/control"
)

// RateConfig are the settings of a Rate.
type RateConfig struct {
	Parallelism int           `setting:"parallelism" unit:"requests" doc:"how many are processed at once; more wait here. 0 stands for the number of cores"`
	Target      time.Duration `setting:"target" doc:"response time that the percentile is held against; 0 stands for the tightest SLO"`
	Percentile  float64       `setting:"percentile" doc:"which percentile, as a share"`
	Samples     int           `setting:"samples" unit:"requests" doc:"the rate is reconsidered after so many have been served"`
	Timeout     time.Duration `setting:"timeout" doc:"or with the first that is served so long after it was last reconsidered"`
	Smoothing   float64       `setting:"smoothing" doc:"weight of the past in the smoothed percentile"`
	Low         float64       `setting:"low" doc:"the rate grows while the percentile is below this times the target"`
	High        float64       `setting:"high" doc:"the rate shrinks while the percentile is above this times the target"`
	Grow        float64       `setting:"grow" unit:"requests/s" doc:"what a growing rate grows by"`
	Shrink      float64       `setting:"shrink" doc:"what a shrinking rate is divided by"`
	Initial     float64       `setting:"initial" unit:"requests/s" doc:"the rate to begin with"`
	MinRate     float64       `setting:"min_rate" unit:"requests/s" doc:"the rate never falls below this"`
	MaxRate     float64       `setting:"max_rate" unit:"requests/s" doc:"the rate never rises above this; 0 for no bound"`
	Burst       float64       `setting:"burst" unit:"requests" doc:"depth of the token bucket"`
}

// DefaultRate returns the constants of the published source. They were made for servers of some hundred requests a second: at 10 000 a second
// the rate needs minutes to get there, if max_rate lets it. Whoever compares at such rates should scale grow, initial and max_rate, and say
// so.
func DefaultRate() RateConfig {
	return RateConfig{
		Percentile: 0.9, Samples: 100, Timeout: time.Second, Smoothing: 0.7, Low: 0.9, High: 1.2, Grow: 0.5, Shrink: 2,
		Initial: 10, MinRate: 0.05, MaxRate: 5000, Burst: 10,
	}
}

// maxRateSamples bounds the memory that a setting can ask for, half a megabyte.
const maxRateSamples = 1 << 16

// Check returns an error that names the setting that is out of range.
func (c RateConfig) Check() error {
	switch {
	case c.Parallelism < 0:
		return fmt.Errorf("parallelism is %d, must not be negative", c.Parallelism)
	case c.Target < 0:
		return fmt.Errorf("target is %v, must not be negative", c.Target)
	case c.Percentile <= 0 || c.Percentile > 1:
		return fmt.Errorf("percentile is %v, must be a share above 0 and at most 1", c.Percentile)
	case c.Samples < 1 || c.Samples > maxRateSamples:
		return fmt.Errorf("samples is %d, must be from 1 to %d", c.Samples, maxRateSamples)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout is %v, must be above 0", c.Timeout)
	case c.Smoothing < 0 || c.Smoothing >= 1:
		return fmt.Errorf("smoothing is %v, must be at least 0 and below 1", c.Smoothing)
	case c.Low > c.High:
		return fmt.Errorf("low is %v, must not be above high, which is %v", c.Low, c.High)
	case c.Grow <= 0:
		return fmt.Errorf("grow is %v, must be above 0", c.Grow)
	case c.Shrink <= 1:
		return fmt.Errorf("shrink is %v, must be above 1", c.Shrink)
	case c.MinRate <= 0:
		return fmt.Errorf("min_rate is %v, must be above 0: without anybody admitted nothing would be learnt", c.MinRate)
	case c.MaxRate != 0 && c.MaxRate < c.MinRate:
		return fmt.Errorf("max_rate is %v, must not be below min_rate, which is %v", c.MaxRate, c.MinRate)
	case c.Initial < c.MinRate || c.MaxRate != 0 && c.Initial > c.MaxRate:
		return fmt.Errorf("initial is %v, must be from min_rate to max_rate", c.Initial)
	case c.Burst < 1:
		return fmt.Errorf("burst is %v, must be at least 1: a request needs a whole token", c.Burst)
	}
	return nil
}

// Rate admits at a rate that follows a percentile of the response times, additive increase and multiplicative decrease: SEDA's controller of a
// single class ("direct" in its published Java source), in the server, where it was. Package seda has the controller of the USITS paper, at
// the client. There the refill of its token bucket is rounded to milliseconds, so that rates above 1000 a second are cut without a word;
// that is left out here.
type Rate struct {
	pool
	config  RateConfig
	target  time.Duration
	rate    float64
	tokens  float64
	filled  clock.Instant
	samples []time.Duration
	last    clock.Instant // when the rate was last reconsidered
	cur     float64       // the smoothed percentile, in nanoseconds; 0 before the first
}

var (
	_ control.Controller = (*Rate)(nil)
	_ control.Meter      = (*Rate)(nil)
)

// NewRate returns the policy that c describes. slo stands in for a Target of 0. It panics when c is out of range, and without either.
func NewRate(c RateConfig, cores int, slo time.Duration) *Rate {
	if err := c.Check(); err != nil {
		panic("bouncer: " + err.Error())
	}
	if c.Target == 0 {
		c.Target = slo
	}
	if c.Target <= 0 {
		panic("bouncer: neither a target nor an SLO")
	}
	return &Rate{
		pool: newPool(c.Parallelism, cores), config: c, target: c.Target, rate: c.Initial, tokens: c.Burst,
		samples: make([]time.Duration, 0, c.Samples),
	}
}

// Decide admits arrivals for which there is a token.
func (a *Rate) Decide(now clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s == control.AtDequeue {
		return a.atDequeue()
	}
	a.refill(now)
	if a.tokens < 1 {
		return control.Decision{Verdict: control.Reject, Reason: control.Limit}
	}
	return control.Decision{}
}

func (a *Rate) refill(now clock.Instant) {
	a.tokens = min(a.tokens+a.rate*now.Sub(a.filled).Seconds(), a.config.Burst)
	a.filled = now
}

// Observe takes tokens and response times.
func (a *Rate) Observe(now clock.Instant, e control.Event) {
	a.pool.observe(&e)
	switch e.Kind {
	case control.Queued:
		a.tokens-- // here, since an admission may still be overruled
	case control.Finished:
		if e.Failed {
			return
		}
		a.samples = append(a.samples, now.Sub(e.Request.Arrived))
		if len(a.samples) == a.config.Samples || now.Sub(a.last) >= a.config.Timeout {
			a.reconsider(now)
		}
	}
}

func (a *Rate) reconsider(now clock.Instant) {
	g := &a.config
	slices.Sort(a.samples)
	n := len(a.samples)
	sample := float64(a.samples[min(int(g.Percentile*float64(n)), n-1)])
	a.samples, a.last = a.samples[:0], now
	if a.cur == 0 {
		a.cur = sample
	}
	a.cur = g.Smoothing*a.cur + (1-g.Smoothing)*sample
	a.refill(now) // at the old rate until now
	switch {
	case a.cur < g.Low*float64(a.target):
		a.rate += g.Grow
	case a.cur > g.High*float64(a.target):
		a.rate /= g.Shrink
	}
	a.rate = max(a.rate, g.MinRate)
	if g.MaxRate > 0 {
		a.rate = min(a.rate, g.MaxRate)
	}
}

// Tick asks for no further tick.
func (*Rate) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// Meters yields the rate, in requests a second.
func (a *Rate) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("rate", a.rate) }
}
