package credit

import (
	"fmt"
	"iter"
	"time"

	"spillway/clock"
	"spillway/control"
)

// ProtegoConfig are the settings of Protego.
type ProtegoConfig struct {
	Budget   time.Duration `setting:"budget" doc:"queueing delay that a request may be asked to bear, at ingress and at locks; 0 stands for 0.4 of the SLO"`
	Skip     time.Duration `setting:"skip" doc:"for how long after a change of the pool nothing is counted, so that the change can take effect"`
	Update   time.Duration `setting:"update" doc:"between two changes of the pool; completions are counted from skip to update"`
	K        float64       `setting:"k" doc:"requests more for one completion more at which another credit is still worth it: 1 / efficiency threshold"`
	Increase float64       `setting:"a" unit:"credits" doc:"what each client adds to the pool, or takes from it, in one change; it is one credit at least"`
	Lock     string        `setting:"lock" doc:"whom locks turn away: off (nobody), qdelay (by the age of the oldest waiter) or qlen (by waiters and holding time)"`
	ClientConfig
}

// DefaultProtego returns the settings with which Svalinn was compared with it in the synthetic experiments: K = 10, A = 0.001, an
// update every 400 µs of which the first 200 µs are skipped. The authors' own are K = 4, A = 0.0005, 200 µs and 100 µs.
func DefaultProtego() ProtegoConfig {
	return ProtegoConfig{
		Skip: 200 * time.Microsecond, Update: 400 * time.Microsecond, K: 10, Increase: 0.001, Lock: control.LockQDelay, ClientConfig: DefaultClient(),
	}
}

// Check returns an error that names the setting that is out of range.
func (c ProtegoConfig) Check() error {
	switch {
	case c.Budget < 0:
		return fmt.Errorf("budget is %v, must not be negative", c.Budget)
	case c.Skip < 0:
		return fmt.Errorf("skip is %v, must not be negative", c.Skip)
	case c.Update <= c.Skip:
		return fmt.Errorf("update is %v, must be longer than skip, which is %v", c.Update, c.Skip)
	case !(c.K > 0):
		return fmt.Errorf("k is %v, must be above 0", c.K)
	case !(c.Increase >= 0 && c.Increase <= Window):
		return fmt.Errorf("a is %v, must be from 0 to %d", c.Increase, Window)
	}
	if err := oneOf("lock", c.Lock, control.LockOff, control.LockQDelay, control.LockQLen); err != nil {
		return err
	}
	return c.ClientConfig.Check()
}

// For returns c with what is derived from the SLO.
func (c ProtegoConfig) For(slo time.Duration) (ProtegoConfig, error) {
	var err error
	c.Budget, err = derived(c.Budget, "budget", slo)
	return c, err
}

// Protego sizes the pool by what more requests bring: it grows as long as each additional request brings at least 1/K completions more, and
// clients use what there is. So it is blind to which queue is long, and leaves delay to the budget: arrivals are rejected while the queueing
// delay is above it, and locks turn away who would have to wait longer.
//
// Reference: Protego (NSDI '23), section 4.1, in the form of the authors' code, which differs from the pseudocode of the paper: with fewer
// requests than before it grows only when completions fell by more than their share.
type Protego struct {
	Pool
	config    ProtegoConfig
	last      clock.Instant // of the last change
	measuring bool          // what counts has been counted from zero
	in, out   int           // arrivals and completions since then
	prevIn    int           // those of the last window
	prevOut   int
}

var (
	_ control.Controller = (*Protego)(nil)
	_ control.Issuer     = (*Protego)(nil)
	_ control.Meter      = (*Protego)(nil)
)

// NewProtego returns the Protego of a server with so many cores. It panics when c is out of range, or has no budget: see
// ProtegoConfig.For.
func NewProtego(c ProtegoConfig, cores int) *Protego {
	if err := c.Check(); err != nil {
		panic("credit: " + err.Error())
	}
	if c.Budget == 0 {
		panic("credit: protego without a budget")
	}
	return &Protego{Pool: newPool(c.pool(cores)), config: c}
}

// Decide counts arrivals and rejects them while the queueing delay is above the budget.
func (p *Protego) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s != control.AtArrival {
		return control.Decision{}
	}
	p.adapt(now)
	p.in++
	return p.admit(r, r.QueueDelay > p.config.Budget, 0)
}

// Observe counts completions.
func (p *Protego) Observe(now clock.Instant, e control.Event) {
	if e.Kind != control.Finished && e.Kind != control.Refused {
		return
	}
	p.adapt(now)
	p.end(&e)
	if e.Kind == control.Finished && !e.Failed {
		p.out++
	}
}

// adapt moves the pool at the end of a window.
func (p *Protego) adapt(now clock.Instant) {
	passed := now.Sub(p.last)
	if passed < p.config.Skip {
		return
	}
	if !p.measuring {
		p.in, p.out, p.measuring = 0, 0, true
	}
	if passed < p.config.Update {
		return
	}
	step := max(int(p.config.Increase*float64(p.n)), 1)
	if !p.worthMore() {
		step = -step
	}
	p.resize(p.size + step)
	p.prevIn, p.prevOut = p.in, p.out
	p.last, p.measuring = now, false
}

// worthMore reports whether the pool should grow.
func (p *Protego) worthMore() bool {
	in, out := p.in-p.prevIn, p.out-p.prevOut
	inUse := p.used >= p.size
	switch {
	case p.in == 0:
		return true // nobody to judge by, and nobody to harm
	case in >= 0:
		return out > 0 && p.config.K*float64(out) >= float64(in) && inUse
	default:
		return out < 0 && p.config.K*float64(-out) > float64(-in) && inUse
	}
}

// Tick ends windows in which nothing happens.
func (p *Protego) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	p.adapt(now)
	if !p.measuring && p.config.Skip > 0 {
		return p.last.Add(p.config.Skip)
	}
	return p.last.Add(p.config.Update)
}

// Meters yields the credits that there are, those that are granted, the clients, and what the window before counted.
func (p *Protego) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = p.meters(yield) && yield("window_in", float64(p.prevIn)) && yield("window_out", float64(p.prevOut))
	}
}
