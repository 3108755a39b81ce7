package limit

import (
	"fmt"
	"time"
)

// AIMDConfig are the settings of the limit that NewAIMD returns.
type AIMDConfig struct {
	Initial int           `setting:"initial" unit:"requests" doc:"the limit to begin with"`
	Min     int           `setting:"min" unit:"requests" doc:"the limit never falls below this"`
	Max     int           `setting:"max" unit:"requests" doc:"the limit never rises above this"`
	Backoff float64       `setting:"backoff" doc:"what a failed or slow request multiplies the limit by"`
	Timeout time.Duration `setting:"timeout" doc:"a request that takes longer counts as slow; take the SLO where services are short"`
	Queue   int           `setting:"queue" unit:"requests" doc:"at most this many waiting; one more is rejected on arrival"`
}

// DefaultAIMD returns the library's defaults, and the queue of Fixed.
func DefaultAIMD() AIMDConfig {
	return AIMDConfig{Initial: 20, Min: 20, Max: 200, Backoff: 0.9, Timeout: 5 * time.Second, Queue: DefaultFixed().Queue}
}

func (c AIMDConfig) bounds() bounds {
	return bounds{initial: c.Initial, min: c.Min, max: c.Max, queue: c.Queue}
}

// Check returns an error that names the setting that is out of range.
func (c AIMDConfig) Check() error {
	if c.Backoff <= 0 || c.Backoff >= 1 {
		return fmt.Errorf("backoff is %v, must be above 0 and below 1", c.Backoff)
	}
	if c.Timeout <= 0 {
		return fmt.Errorf("timeout is %v, must be above 0", c.Timeout)
	}
	return c.bounds().check()
}

// NewAIMD returns a limit that grows by one with every request that fares well while at least half of the limit is in use, and shrinks by a
// factor with every one that fails or takes longer than a time-out: additive increase, multiplicative decrease. It panics when c is out of
// range.
func NewAIMD(c AIMDConfig) *Adaptive {
	if err := c.Check(); err != nil {
		panic("limit: " + err.Error())
	}
	return newAdaptive(aimd{c}, window{}, c.bounds())
}

type aimd struct{ AIMDConfig }

func (l aimd) sample(limit float64, o observation) float64 {
	switch {
	case o.dropped || o.rtt > l.Timeout:
		return float64(int(limit * l.Backoff))
	case 2*o.inFlight >= int(limit):
		return limit + 1
	}
	return limit
}
