package credit

import (
	"fmt"
	"math"
	"time"

	"spillway/control"
)

// SvalinnConfig are the settings of Svalinn's throughput loop.
type SvalinnConfig struct {
	Budget     time.Duration `setting:"budget" doc:"waiting that a request may be asked to bear, at ingress, locks and sections together; 0 stands for 0.4 of the SLO"`
	Prepare    time.Duration `setting:"prepare" doc:"before an experiment, for the change of the pool to take effect; a round trip at least, whatever is set"`
	Interval   time.Duration `setting:"interval" doc:"how long an experiment lasts"`
	Step       int           `setting:"step" unit:"credits" doc:"by which the pool moves, in an experiment and in a decision"`
	Utility    string        `setting:"utility" doc:"what is maximised: throughput, goodput, delay, drop or power; power needs a driver that measures energy"`
	DropBound  float64       `setting:"drop_bound" doc:"of the utility drop: share of dropped requests from which on only drops count"`
	PowerCap   float64       `setting:"power_cap" unit:"W" doc:"of the utility power: power from which on throughput counts against"`
	Comparator string        `setting:"comparator" doc:"how utilities are compared: deadband, simple, or slope of good completions over arrivals"`
	Deadband   float64       `setting:"deadband" doc:"of the comparator deadband: relative difference below which the pool stays"`
	Slope      float64       `setting:"slope" doc:"of the comparator slope: additional completions for an additional request above which the pool grows"`
	Label      string        `setting:"label" doc:"which experiment had more load: lazy (the one with more arrivals) or strict (the one meant to; else no decision)"`
	Perturb    bool          `setting:"perturb" doc:"move the pool by a step up in one experiment and down in the other"`
	Late       string        `setting:"late" doc:"requests that outlast their experiment: wait (the decision waits for them) or lose (they count for nothing)"`
	Lock       string        `setting:"lock" doc:"whom locks turn away: off (nobody), qdelay (by the age of the oldest waiter) or qlen (by waiters and holding time)"`
	ClientConfig
}

// The values of SvalinnConfig.Label and Late.
const (
	Lazy   = "lazy"
	Strict = "strict"
	Wait   = "wait"
	Lose   = "lose"
)

// DefaultSvalinn returns the settings of the published synthetic experiments, with two exceptions. Perturb is on, as the paper describes it and as
// the Go port has it; the published C configurations have it off and live on the load's own variation. And late completions are waited
// for: see Svalinn.
//
// The deadband is what the published code compares with; the comment beside it says 10 %.
func DefaultSvalinn() SvalinnConfig {
	return SvalinnConfig{
		Prepare: 200 * time.Microsecond, Interval: 400 * time.Microsecond, Step: 1,
		Utility: ThroughputUtility, DropBound: 0.10, PowerCap: 55,
		Comparator: DeadbandComparator, Deadband: 0.05, Slope: 0.1,
		Label: Lazy, Perturb: true, Late: Wait, Lock: control.LockQLen, ClientConfig: DefaultClient(),
	}
}

// Check returns an error that names the setting that is out of range.
func (c SvalinnConfig) Check() error {
	switch {
	case c.Budget < 0:
		return fmt.Errorf("budget is %v, must not be negative", c.Budget)
	case c.Prepare < 0:
		return fmt.Errorf("prepare is %v, must not be negative", c.Prepare)
	case c.Interval <= 0:
		return fmt.Errorf("interval is %v, must be above 0", c.Interval)
	case c.Step < 1:
		return fmt.Errorf("step is %d, must be at least 1", c.Step)
	case !(c.DropBound > 0 && c.DropBound <= 1):
		return fmt.Errorf("drop_bound is %v, must be above 0 and at most 1", c.DropBound)
	case !(c.PowerCap > 0):
		return fmt.Errorf("power_cap is %v, must be above 0", c.PowerCap)
	case math.IsNaN(c.Slope) || math.IsInf(c.Slope, 0):
		return fmt.Errorf("slope is %v, must be a finite number", c.Slope)
	case !(c.Deadband >= 0):
		return fmt.Errorf("deadband is %v, must not be negative", c.Deadband)
	}
	for _, t := range []struct {
		name, value string
		allowed     []string
	}{
		{"utility", c.Utility, []string{ThroughputUtility, GoodputUtility, DelayUtility, DropUtility, PowerUtility}},
		{"comparator", c.Comparator, []string{DeadbandComparator, SimpleComparator, SlopeComparator}},
		{"label", c.Label, []string{Lazy, Strict}},
		{"late", c.Late, []string{Wait, Lose}},
		{"lock", c.Lock, []string{control.LockOff, control.LockQDelay, control.LockQLen}},
	} {
		if err := oneOf(t.name, t.value, t.allowed...); err != nil {
			return err
		}
	}
	return c.ClientConfig.Check()
}

// For returns c with what is derived from the SLO.
func (c SvalinnConfig) For(slo time.Duration) (SvalinnConfig, error) {
	var err error
	c.Budget, err = derived(c.Budget, "budget", slo)
	return c, err
}
