package profiles

import (
	"fmt"
	"time"

	"spillway/internal/arrival"
)

// MeanRate returns the requests per second of the whole window.
func (l *Sweep) MeanRate() float64 {
	requests, seconds := 0.0, 0.0
	for i := range l.Phases {
		ph := &l.Phases[i]
		requests += float64(ph.Rate) * ph.For.Seconds()
		seconds += ph.For.Seconds()
	}
	if seconds == 0 {
		return 0
	}
	return requests / seconds
}

// Process returns the arrival process of the phases, in which arrivals are as in workload.arrivals.
func (l *Sweep) Process(arrivals string, warmUp time.Duration) (arrival.Process, error) {
	c := arrival.Config{Arrivals: arrivals, WarmUp: warmUp, Window: l.length()}
	for i := range l.Phases {
		c.Phases = append(c.Phases, arrival.Phase{For: l.Phases[i].For, Rate: float64(l.Phases[i].Rate)})
	}
	return arrival.Make(c)
}

// length returns how long all phases take.
func (l *Sweep) length() (sum time.Duration) {
	for i := range l.Phases {
		sum += l.Phases[i].For
	}
	return sum
}

// Shares returns the classes' own shares of the arrivals, in their order.
func (w *Workload) Shares() []float64 {
	list := make([]float64, len(w.Classes))
	for i := range w.Classes {
		list[i] = w.Classes[i].Share
	}
	return list
}

// SharesOf returns shares that were written by class in the order of the classes; the classes' own for nil.
func (w *Workload) SharesOf(written map[string]float64) []float64 {
	if written == nil {
		return w.Shares()
	}
	list := make([]float64, len(w.Classes))
	for i := range w.Classes {
		list[i] = written[w.Classes[i].Name]
	}
	return list
}

// gives reports whether a class has a share in a phase or in what the shares drift to.
func (l *Sweep) gives(class string) bool {
	for i := range l.Phases {
		if l.Phases[i].Shares[class] > 0 {
			return true
		}
	}
	return l.Drift != nil && l.Drift.Shares[class] > 0
}

func (c *checker) phases(p *Profile) {
	for i, ph := range p.Load.Phases {
		path := fmt.Sprintf("load.phases.%d", i)
		if ph.For <= 0 || ph.For > maxDuration {
			c.fail(path+".for", "a phase lasts longer than 0 and at most 24h")
		}
		if ph.Rate <= 0 {
			c.fail(path+".rate", "a phase has a rate")
		}
		if ph.Shares != nil {
			c.shares(path+".shares", ph.Shares, p.Workload.classNames())
		}
	}
	if len(p.Load.Phases) == 0 {
		return
	}
	// A window that was there before phases were set from outside gives way to them.
	if c.d.at["window"] != nil && !c.untouched("window") {
		c.fail("window", "with load.phases the window is as long as they are together; leave window out")
	}
	if p.Workload.Shape != "" {
		c.fail("workload.shape", "load.phases say the rate over time; leave the shape out")
	}
	if p.Workload.Closed() {
		c.fail("workload.arrivals", "the clients of a closed loop ask when they have their reply; phases have no meaning for them")
	}
	if p.Load.length() > maxDuration {
		c.fail("load.phases", "all phases together last at most 24h")
	}
	if c.err != nil {
		return
	}
	if _, err := p.Load.Process(p.Workload.Arrivals, p.WarmUp); err != nil {
		c.fail("load.phases", "%v", err)
	}
}

func (c *checker) drift(p *Profile) {
	d := p.Load.Drift
	if d == nil {
		return
	}
	if len(p.Load.Phases) > 0 {
		c.fail("load.drift", "phases say the shares over time themselves; a drift stands beside rates or of_capacity")
	}
	if d.Period < time.Microsecond || d.Period > maxDuration {
		c.fail("load.drift.period", "the period of a drift is between 1us and 24h")
	}
	if d.Shares == nil {
		c.fail("load.drift", "a drift has shares, by class, which the classes' own drift to and back from")
	}
	c.shares("load.drift.shares", d.Shares, p.Workload.classNames())
	if p.Workload.Closed() {
		c.fail("load.drift", "the clients of a closed loop have no common time; a drift needs an open loop")
	}
}
