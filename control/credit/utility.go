package credit

import "math"

// Utility says how good what an experiment saw is: the greater the better. Svalinn compares the utilities of two experiments, which may be of
// any unit. It must not keep e.
type Utility interface {
	Of(e *Experiment) float64
}

// UtilityFunc is a Utility that is one function.
type UtilityFunc func(e *Experiment) float64

// Of calls f.
func (f UtilityFunc) Of(e *Experiment) float64 { return f(e) }

// The utilities that settings can name.
const (
	ThroughputUtility = "throughput"
	GoodputUtility    = "goodput"
	DelayUtility      = "delay"
	DropUtility       = "drop"
	PowerUtility      = "power"
)

// Throughput is completions per second.
type Throughput struct{}

// Of returns completions per second.
func (Throughput) Of(e *Experiment) float64 { return e.Rate(e.Out) }

// Goodput is completions per second of requests that waited less than their budget.
type Goodput struct{}

// Of returns good completions per second.
func (Goodput) Of(e *Experiment) float64 { return e.Rate(e.Good) }

// Delay is throughput as long as the queueing delay is within the budget; beyond it throughput counts against.
type Delay struct{}

// Of returns completions per second, negative when the delay reached the budget.
func (Delay) Of(e *Experiment) float64 {
	if e.MaxDelay >= e.Budget {
		return -e.Rate(e.Out)
	}
	return e.Rate(e.Out)
}

// Drop is throughput less drops. Where Bound of the requests or more are dropped, only the drops count.
type Drop struct{ Bound float64 }

// Of returns completions less drops per second, or the drops, negative, beyond the bound.
func (d Drop) Of(e *Experiment) float64 {
	drops := e.Rate(e.Drops)
	if e.In > 0 && float64(e.Drops) >= d.Bound*float64(e.In) {
		return -drops
	}
	return e.Rate(e.Out) - drops
}

// Power is throughput as long as less than Cap watts are drawn; from there on throughput counts against. Where power is not measured it is
// throughput.
type Power struct{ Cap float64 }

// Of returns completions per second, negative when too much power was drawn.
func (p Power) Of(e *Experiment) float64 {
	if e.Watts >= p.Cap {
		return -e.Rate(e.Out)
	}
	return e.Rate(e.Out)
}

// utility returns the Utility that c names.
func (c *SvalinnConfig) utility() Utility {
	switch c.Utility {
	case GoodputUtility:
		return Goodput{}
	case DelayUtility:
		return Delay{}
	case DropUtility:
		return Drop{Bound: c.DropBound}
	case PowerUtility:
		return Power{Cap: c.PowerCap}
	}
	return Throughput{}
}

// direction is where a decision wants the pool to go.
type direction int8

const (
	minus direction = -1
	stay  direction = 0
	plus  direction = +1
)

// The comparators that settings can name.
const (
	DeadbandComparator = "deadband"
	SimpleComparator   = "simple"
	SlopeComparator    = "slope"
)

// compare says what the experiment with more load and the one with less speak for. A utility of 0, or a negative one, is a reference like any
// other: the difference is held against its size.
func (c *SvalinnConfig) compare(more, less *Experiment, uMore, uLess float64) direction {
	switch c.Comparator {
	case SlopeComparator:
		// More load, so In differs.
		if float64(more.Good-less.Good)/float64(more.In-less.In) > c.Slope {
			return plus
		}
		return minus
	case DeadbandComparator:
		if math.Abs(uMore-uLess) < c.Deadband*math.Abs(uLess) || uMore == uLess {
			return stay
		}
	}
	if uMore > uLess {
		return plus
	}
	return minus
}
