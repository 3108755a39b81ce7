package bouncer

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
)

// MaxQLConfig are the settings of MaxQL.
type MaxQLConfig struct {
	Parallelism int `setting:"parallelism" unit:"requests" doc:"how many are processed at once; more wait here. 0 stands for the number of cores"`
	Limit       int `setting:"limit" unit:"requests" doc:"an arrival that finds so many waiting is rejected"`
}

// DefaultMaxQL returns the limit that Bouncer's simulation is recalled to have compared with, on 100 processes.
func DefaultMaxQL() MaxQLConfig { return MaxQLConfig{Limit: 400} }

// Check returns an error that names the setting that is out of range.
func (c MaxQLConfig) Check() error {
	if c.Parallelism < 0 {
		return fmt.Errorf("parallelism is %d, must not be negative", c.Parallelism)
	}
	if c.Limit < 1 {
		return fmt.Errorf("limit is %d, must be at least 1", c.Limit)
	}
	return nil
}

// MaxQL rejects by the length of the queue: the bound that every server has, under the name it has in the comparison with Bouncer.
type MaxQL struct {
	pool
	limit int
}

var _ control.Controller = (*MaxQL)(nil)

// NewMaxQL returns the policy that c describes. It panics when c is out of range.
func NewMaxQL(c MaxQLConfig, cores int) *MaxQL {
	if err := c.Check(); err != nil {
		panic("bouncer: " + err.Error())
	}
	return &MaxQL{pool: newPool(c.Parallelism, cores), limit: c.Limit}
}

// Decide rejects arrivals while the queue is too long.
func (m *MaxQL) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s == control.AtDequeue {
		return m.atDequeue()
	}
	if m.queued >= m.limit {
		return control.Decision{Verdict: control.Reject, Reason: control.QueueFull}
	}
	return control.Decision{}
}

// Observe counts who waits.
func (m *MaxQL) Observe(_ clock.Instant, e control.Event) { m.pool.observe(&e) }

// Tick asks for no further tick.
func (*MaxQL) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// MaxQWTConfig are the settings of MaxQWT.
type MaxQWTConfig struct {
	Parallelism int           `setting:"parallelism" unit:"requests" doc:"how many are processed at once; more wait here. 0 stands for the number of cores"`
	Limit       time.Duration `setting:"limit" doc:"an arrival that would wait longer is rejected"`
	Window      time.Duration `setting:"window" doc:"over how long the mean processing time is taken"`
	Samples     int           `setting:"samples" unit:"requests" doc:"a window with fewer goes on into the next one"`
}

// DefaultMaxQWT returns the limit that Bouncer's simulation is recalled to have compared with, whose objectives were tens of milliseconds, and
// windows as Bouncer's.
func DefaultMaxQWT() MaxQWTConfig {
	return MaxQWTConfig{Limit: 15 * time.Millisecond, Window: Default().Window, Samples: Default().Samples}
}

// Check returns an error that names the setting that is out of range.
func (c MaxQWTConfig) Check() error {
	switch {
	case c.Parallelism < 0:
		return fmt.Errorf("parallelism is %d, must not be negative", c.Parallelism)
	case c.Limit <= 0:
		return fmt.Errorf("limit is %v, must be above 0", c.Limit)
	case c.Window < control.ShortestInterval:
		return fmt.Errorf("window is %v, must be at least %v", c.Window, control.ShortestInterval)
	case c.Samples < 1:
		return fmt.Errorf("samples is %d, must be at least 1", c.Samples)
	}
	return nil
}

// MaxQWT rejects by an estimate of the wait that knows nothing of classes: so many waiting, times the mean processing time of all, divided by
// the parallelism.
type MaxQWT struct {
	pool
	config MaxQWTConfig
	all    recorder
	swap   clock.Instant
}

var (
	_ control.Controller = (*MaxQWT)(nil)
	_ control.Meter      = (*MaxQWT)(nil)
)

// NewMaxQWT returns the policy that c describes. It panics when c is out of range.
func NewMaxQWT(c MaxQWTConfig, cores int) *MaxQWT {
	if err := c.Check(); err != nil {
		panic("bouncer: " + err.Error())
	}
	return &MaxQWT{pool: newPool(c.Parallelism, cores), config: c, all: newRecorder()}
}

// Decide rejects arrivals that would wait too long.
func (m *MaxQWT) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s == control.AtDequeue {
		return m.atDequeue()
	}
	if m.wait() > float64(m.config.Limit) {
		return control.Decision{Verdict: control.Reject, Reason: control.QueueDelay}
	}
	return control.Decision{}
}

func (m *MaxQWT) wait() float64 { return float64(m.queued) * m.all.mean / float64(m.parallelism) }

// Observe counts who waits, and records processing times.
func (m *MaxQWT) Observe(now clock.Instant, e control.Event) {
	m.pool.observe(&e)
	if e.Kind != control.Finished || e.Failed {
		return
	}
	m.all.record(e.Service)
	if m.all.taken == 0 && m.all.times.n >= m.config.Samples {
		m.all.take(max(now, 1)) // as Bouncer's
	}
}

// Tick ends the window when it is over.
func (m *MaxQWT) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	if now >= m.swap {
		m.swap = now.Add(m.config.Window)
		if m.all.times.n >= m.config.Samples {
			m.all.take(max(now, 1))
		}
	}
	return m.swap
}

// Meters yields the estimated wait, in microseconds.
func (m *MaxQWT) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("wait_estimate_us", m.wait()/1e3) }
}

// FractionConfig are the settings of a Fraction.
type FractionConfig struct {
	Parallelism int           `setting:"parallelism" unit:"requests" doc:"how many are processed at once; more wait here. 0 stands for the number of cores"`
	Utilisation float64       `setting:"utilisation" doc:"busy share of the processes that is aimed at"`
	Interval    time.Duration `setting:"interval" doc:"how often the fraction is worked out"`
	Smoothing   float64       `setting:"smoothing" doc:"weight of the past in arrival rate and mean processing time"`
}

// DefaultFraction returns the utilisation that Bouncer's simulation is recalled to have compared with. Interval and smoothing are ours.
func DefaultFraction() FractionConfig {
	return FractionConfig{Utilisation: 0.95, Interval: time.Second, Smoothing: 0.5}
}

// Check returns an error that names the setting that is out of range.
func (c FractionConfig) Check() error {
	switch {
	case c.Parallelism < 0:
		return fmt.Errorf("parallelism is %d, must not be negative", c.Parallelism)
	case c.Utilisation <= 0 || c.Utilisation > 1:
		return fmt.Errorf("utilisation is %v, must be above 0 and at most 1", c.Utilisation)
	case c.Interval < control.ShortestInterval:
		return fmt.Errorf("interval is %v, must be at least %v", c.Interval, control.ShortestInterval)
	case c.Smoothing < 0 || c.Smoothing >= 1:
		return fmt.Errorf("smoothing is %v, must be at least 0 and below 1", c.Smoothing)
	}
	return nil
}

// Fraction admits every request with one probability, that at which the admitted ones keep the processes busy for the wanted share of time:
//
//	f = clamp(U·P / (λ·m), 0, 1)
//
// with λ the rate of arrivals and m the mean processing time, both moving averages. It is the policy AcceptFraction of the comparison with
// Bouncer; the formula is recalled.
type Fraction struct {
	pool
	config   FractionConfig
	rng      *rand.Rand
	fraction float64

	arrivals int // of this interval
	finished int
	busy     time.Duration // sum of the processing times of those that finished
	began    clock.Instant
	rate     float64 // per nanosecond; 0 before the first interval
	mean     float64 // in nanoseconds; 0 while nothing has finished
}

var (
	_ control.Controller = (*Fraction)(nil)
	_ control.Meter      = (*Fraction)(nil)
)

// NewFraction returns the policy that c describes, which draws from rng. It panics when c is out of range.
func NewFraction(c FractionConfig, cores int, rng *rand.Rand) *Fraction {
	if err := c.Check(); err != nil {
		panic("bouncer: " + err.Error())
	}
	return &Fraction{pool: newPool(c.Parallelism, cores), config: c, rng: rng, fraction: 1}
}

// Decide admits an arrival by chance.
func (f *Fraction) Decide(_ clock.Instant, s control.Stage, _ *control.Request) control.Decision {
	if s == control.AtDequeue {
		return f.atDequeue()
	}
	f.arrivals++
	if f.fraction < 1 && f.rng.Float64() >= f.fraction {
		return control.Decision{Verdict: control.Reject, Reason: control.Fraction}
	}
	return control.Decision{}
}

// Observe counts who waits, and sums processing times.
func (f *Fraction) Observe(_ clock.Instant, e control.Event) {
	f.pool.observe(&e)
	if e.Kind == control.Finished && !e.Failed {
		f.finished++
		f.busy += e.Service
	}
}

// Tick works out the fraction when an interval is over.
func (f *Fraction) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	ends := f.began.Add(f.config.Interval)
	if now < ends {
		return ends
	}
	// By the time that really passed, since ticks may be late.
	f.rate = f.average(f.rate, float64(f.arrivals)/float64(now.Sub(f.began)))
	if f.finished > 0 {
		f.mean = f.average(f.mean, float64(f.busy)/float64(f.finished))
	}
	f.began, f.arrivals, f.finished, f.busy = now, 0, 0, 0
	f.fraction = 1
	if work := f.rate * f.mean; work > 0 {
		f.fraction = min(f.config.Utilisation*float64(f.parallelism)/work, 1)
	}
	return now.Add(f.config.Interval)
}

// average returns the moving average with a new value; the first value is taken as it is.
func (f *Fraction) average(past, value float64) float64 {
	if past == 0 {
		return value
	}
	return f.config.Smoothing*past + (1-f.config.Smoothing)*value
}

// Meters yields the fraction.
func (f *Fraction) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("accept_fraction", f.fraction) }
}
