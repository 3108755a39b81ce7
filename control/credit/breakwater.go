package credit

import (
	"fmt"
	"iter"
	"time"

	"spillway/clock"
	"spillway/control"
)

// BreakwaterConfig are the settings of Breakwater.
type BreakwaterConfig struct {
	Threshold time.Duration `setting:"threshold" doc:"queueing delay above which the pool shrinks; 0 stands for 0.4 of the SLO"`
	AQM       time.Duration `setting:"aqm" doc:"queueing delay from which on arrivals are rejected; 0 stands for twice the threshold"`
	Increase  float64       `setting:"increase" unit:"credits" doc:"what each client adds to the pool in each round trip while the delay is below the threshold"`
	Decrease  float64       `setting:"decrease" doc:"factor of the excess over the threshold by which the pool shrinks, to half of it at most at once"`
	ClientConfig
}

// DefaultBreakwater returns the published settings. The thresholds follow the SLO: 0.4 of it for the target and 0.8 for the rejections are what
// the authors used with SLO = 10·(service + RTT): 45 and 90 µs, 80 and 160 µs, 500 and 1000 µs for services of 1, 10 and 100 µs.
func DefaultBreakwater() BreakwaterConfig {
	return BreakwaterConfig{Increase: 0.001, Decrease: 0.02, ClientConfig: DefaultClient()}
}

// Check returns an error that names the setting that is out of range.
func (c BreakwaterConfig) Check() error {
	switch {
	case c.Threshold < 0:
		return fmt.Errorf("threshold is %v, must not be negative", c.Threshold)
	case c.AQM < 0:
		return fmt.Errorf("aqm is %v, must not be negative", c.AQM)
	case !(c.Increase > 0):
		return fmt.Errorf("increase is %v, must be above 0", c.Increase)
	case !(c.Decrease > 0):
		return fmt.Errorf("decrease is %v, must be above 0", c.Decrease)
	}
	return c.ClientConfig.Check()
}

// For returns c with what is derived from the SLO.
func (c BreakwaterConfig) For(slo time.Duration) (BreakwaterConfig, error) {
	var err error
	if c.Threshold, err = derived(c.Threshold, "threshold", slo); err != nil {
		return c, err
	}
	if c.AQM == 0 {
		c.AQM = 2 * c.Threshold
	}
	return c, nil
}

// Breakwater sizes the pool by the queueing delay: it grows by addition while the delay is below a threshold and shrinks by multiplication
// while it is above, by more the farther above. Arrivals are rejected while the delay is twice the threshold, since credits are granted beyond what
// the pool holds (overcommit) and bursts come through.
//
// Reference: Breakwater (OSDI '20), section 4.1; constants and the limits of a step are those of the authors' code, in which a thread of
// its own updates the pool once in a round trip. Here arrivals bring the delay and the updates, with ticks where none arrive; growth is
// by the time that has passed, so it is as fast as theirs whatever the pace of the arrivals.
type Breakwater struct {
	Pool
	config BreakwaterConfig
	carry  float64 // growth that has not made a whole credit yet
	last   clock.Instant
}

var (
	_ control.Controller = (*Breakwater)(nil)
	_ control.Issuer     = (*Breakwater)(nil)
	_ control.Meter      = (*Breakwater)(nil)
)

// NewBreakwater returns the Breakwater of a server with so many cores. It panics when c is out of range, or has delays of 0: see
// BreakwaterConfig.For.
func NewBreakwater(c BreakwaterConfig, cores int) *Breakwater {
	if err := c.Check(); err != nil {
		panic("credit: " + err.Error())
	}
	if c.Threshold == 0 || c.AQM == 0 {
		panic("credit: breakwater without thresholds")
	}
	return &Breakwater{Pool: newPool(c.pool(cores)), config: c}
}

// Decide updates the pool and rejects arrivals while the queueing delay is too high.
func (b *Breakwater) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s != control.AtArrival {
		return control.Decision{}
	}
	b.adapt(now, r.QueueDelay)
	return b.admit(r, r.QueueDelay >= b.config.AQM, 0)
}

// Observe counts requests out.
func (b *Breakwater) Observe(_ clock.Instant, e control.Event) {
	if e.Kind == control.Finished || e.Kind == control.Refused {
		b.end(&e)
	}
}

// adapt moves the pool once in a round trip.
func (b *Breakwater) adapt(now clock.Instant, delay time.Duration) {
	passed := now.Sub(b.last)
	if passed < b.config.RTT {
		return
	}
	b.last = now
	if delay < b.config.Threshold {
		b.carry += b.config.Increase * float64(b.n) * float64(passed) / float64(b.config.RTT)
		whole := int(min(b.carry, Window*float64(b.n))) // no more than the bound, after any pause
		b.carry -= float64(whole)
		b.resize(b.size + whole)
		return
	}
	b.carry = 0
	excess := float64(delay-b.config.Threshold) / float64(b.config.Threshold)
	b.resize(min(int(float64(b.size)*max(1-b.config.Decrease*excess, 0.5)), b.size-1))
}

// ticksEvery is how many round trips lie between two ticks. Arrivals are what the delay is measured by while there are any.
const ticksEvery = 10

// Tick updates the pool when nothing arrives.
func (b *Breakwater) Tick(now clock.Instant, s control.Signals) clock.Instant {
	b.adapt(now, s.QueueDelay)
	return now.Add(ticksEvery * b.config.RTT)
}

// Meters yields the credits that there are, those that are granted, and the clients.
func (b *Breakwater) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { b.meters(yield) }
}
