// Package bouncer decides for each request, when it arrives, whether it would still meet the objective of its class, and rejects it at once if
// not: a client that learns early can go elsewhere, and the queue holds only what is worth its wait.
//
// A server has P parallel processes and one queue, first in, first out. Of each class of requests its processing times are known from a
// histogram, and how many wait. What an arrival is going to experience is estimated as
//
//	W      = Σ n_c·m_c / P            the mean wait: n_c waiting of class c, m_c their mean processing time
//	R_c(p) = W + q_c(p)               the p-percentile of its response time, from that of its processing time
//	admit    if R_c(p) ≤ SLO_c(p) for each percentile p that the class has an objective for
//
// which comes to W ≤ h_c with the headroom h_c = min over p of SLO_c(p) − q_c(p), one comparison. Under lasting overload W settles at the
// headroom of one class: those with less starve. Two guards against that admit some of what would be rejected.
//
// The method is Bouncer's: Xu and Colmenares, "Bouncer: Admission Control with Response Time Objectives for Low-latency Online Data Systems"
// (SIGMOD Companion '24), and US patent 12,367,192. The full texts were not at hand. Established are the histograms of each class, their
// windows that do not overlap, the estimate of the wait from what is queued, the sum of both held against several percentiles, and the
// names of the two guards. Recalled are the division by P, the two buffers, and that a class without a histogram goes by that of all
// classes. Derived here are the form of the guards, the probes, when a snapshot is too old, and the estimate of what is left of running
// requests. docs/papers.md lists them.
package bouncer

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
)

// Config are the settings of a Bouncer.
type Config struct {
	Parallelism int           `setting:"parallelism" unit:"requests" doc:"how many are processed at once; more wait here. 0 stands for the number of cores"`
	Window      time.Duration `setting:"window" doc:"how long processing times are gathered before estimates are made of them"`
	Samples     int           `setting:"samples" unit:"requests" doc:"a window with fewer of a class goes on into the next one"`
	Probe       time.Duration `setting:"probe" doc:"a class of which none was admitted for so long has one admitted, or its estimates could never change; 0 for never"`
	Stale       time.Duration `setting:"stale" doc:"estimates that are older are replaced by those of fewer samples; 0 for never"`
	Residual    bool          `setting:"residual" doc:"whether what is left of running requests counts as wait"`
	Percentile  float64       `setting:"percentile" doc:"which percentile an SLO of one value is an objective for, as a share"`
	DefaultSLO  time.Duration `setting:"default_slo" doc:"SLO of classes that have none; 0 for none: such a class is always admitted"`
	Margin      time.Duration `setting:"margin" doc:"part of every objective that is spent elsewhere, on the network say, and not to be used up here"`
	Allowance   float64       `setting:"allowance" doc:"share of each class that is admitted whatever the estimates say"`
	Bernoulli   bool          `setting:"bernoulli" doc:"whether that is a chance for each request that would be rejected, not a floor under the share of the class"`
	Underserved float64       `setting:"underserved" doc:"how strongly classes are helped that are admitted less than the average class, 0 to 1"`
	Pooled      bool          `setting:"pooled" doc:"whether the average is that of all requests, not of the classes' shares"`
	History     time.Duration `setting:"history" doc:"over how long those shares are counted"`
	Step        time.Duration `setting:"step" doc:"in what steps that stretch moves on"`
}

// Default returns the settings of plain Bouncer. In a model of the simulation that the paper describes windows of a second, with few samples
// of the slowest class, locked that class out by chance; five seconds and a hundred samples did not.
func Default() Config {
	return Config{
		Window: 5 * time.Second, Samples: 100, Probe: time.Second, Stale: 2 * time.Minute, Percentile: 0.99,
		History: time.Second, Step: 10 * time.Millisecond,
	}
}

// DefaultAllowance returns the settings of Bouncer with acceptance-allowance. The 5 % is recalled.
func DefaultAllowance() Config {
	c := Default()
	c.Allowance = 0.05
	return c
}

// DefaultUnderserved returns the settings of Bouncer with helping-the-underserved.
func DefaultUnderserved() Config {
	c := Default()
	c.Underserved = 1
	return c
}

// Check returns an error that names the setting that is out of range.
func (c Config) Check() error {
	switch {
	case c.Parallelism < 0:
		return fmt.Errorf("parallelism is %d, must not be negative", c.Parallelism)
	case c.Window < control.ShortestInterval:
		return fmt.Errorf("window is %v, must be at least %v", c.Window, control.ShortestInterval)
	case c.Samples < 1:
		return fmt.Errorf("samples is %d, must be at least 1", c.Samples)
	case c.Probe < 0:
		return fmt.Errorf("probe is %v, must not be negative", c.Probe)
	case c.Stale < 0:
		return fmt.Errorf("stale is %v, must not be negative", c.Stale)
	case c.Percentile <= 0 || c.Percentile >= 1:
		return fmt.Errorf("percentile is %v, must be a share above 0 and below 1", c.Percentile)
	case c.DefaultSLO < 0:
		return fmt.Errorf("default_slo is %v, must not be negative", c.DefaultSLO)
	case c.Margin < 0:
		return fmt.Errorf("margin is %v, must not be negative", c.Margin)
	case c.Allowance < 0 || c.Allowance > 1:
		return fmt.Errorf("allowance is %v, must be from 0 to 1", c.Allowance)
	case c.Underserved < 0 || c.Underserved > 1:
		return fmt.Errorf("underserved is %v, must be from 0 to 1", c.Underserved)
	case c.Step <= 0 || c.History < c.Step || c.History > maxSteps*c.Step:
		return fmt.Errorf("history is %v, must be from 1 to %d times step, which is %v", c.History, maxSteps, c.Step)
	}
	return nil
}

// Objective says that a percentile of a class's response times, queueing and processing together, is not to exceed a limit.
type Objective struct {
	Percentile float64 // a share, such as 0.9
	Limit      time.Duration
}

// Class is one kind of request.
type Class struct {
	Name  string
	Limit time.Duration // an SLO of one value, 0 for none
	SLO   []Objective   // an SLO of several percentiles instead; nil for none
}

// Env is what a Bouncer needs to know of the place where it runs.
type Env struct {
	Cores   int           // stands in for a Parallelism of 0
	Classes []Class       // by Request.Class; classes beyond them share what follows the last
	SLO     time.Duration // where no classes are known, the SLO of everything; 0 for none
	Rand    *rand.Rand    // draws for the guards
}

// Bouncer is the controller.
type Bouncer struct {
	pool
	config  Config
	rng     *rand.Rand
	classes []class
	all     recorder // of all classes, for those that have had no window of their own yet
	work    int64    // Σ n_c·m_c, in nanoseconds
	swap    clock.Instant
	shares  shares
	meters  []string // names of the classes' headrooms
}

var (
	_ control.Controller = (*Bouncer)(nil)
	_ control.Meter      = (*Bouncer)(nil)
)

// New returns a Bouncer that has seen nothing yet, and admits everything until it has. It panics when c is out of range, when neither
// c nor env says how many requests are processed at once, and when an objective's percentile is no share.
func New(c Config, env Env) *Bouncer {
	if err := c.Check(); err != nil {
		panic("bouncer: " + err.Error())
	}
	b := &Bouncer{pool: newPool(c.Parallelism, env.Cores), config: c, rng: env.Rand, all: newRecorder()}
	// One more than are known: requests of other classes, or of all where none is.
	b.classes = make([]class, len(env.Classes)+1)
	for i := range b.classes {
		var known Class
		if len(env.Classes) == 0 {
			known.Limit = cmp.Or(c.DefaultSLO, env.SLO)
		}
		if i < len(env.Classes) {
			known = env.Classes[i]
		}
		b.classes[i] = newClass(known, c)
		if known.Name != "" {
			b.meters = append(b.meters, "headroom_us/"+known.Name)
		}
	}
	b.shares = newShares(len(b.classes), c.History, c.Step)
	return b
}

// index returns where the class of r is kept.
func (b *Bouncer) index(r *control.Request) int { return min(int(r.Class), len(b.classes)-1) }

// Decide rejects arrivals that would miss their objective, and has the head of the queue wait while all processes are busy.
func (b *Bouncer) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtDequeue {
		return b.atDequeue()
	}
	i := b.index(r)
	b.shares.receive(now, i)
	c := &b.classes[i]
	if b.wait() <= c.headroom || b.spare(now, i) {
		return control.Decision{}
	}
	return control.Decision{Verdict: control.Reject, Reason: control.SLO}
}

// wait returns the estimate W, in nanoseconds.
func (b *Bouncer) wait() int64 {
	if b.running < b.parallelism {
		return 0
	}
	p := int64(b.parallelism)
	w := b.work / p
	if b.config.Residual {
		// With all processes busy the next one becomes free after a P-th of what a running request has left on average, not after all of it:
		// for exponential times and k waiting the wait is then (k+1)·m/P, as it should be.
		left := 0.0
		for i := range b.classes {
			left += float64(b.classes[i].running) * b.classes[i].residual
		}
		w += int64(left) / p / p
	}
	return w
}

// spare reports whether a request of class i that would be rejected is admitted all the same. Guards are asked about such requests only, so they
// never turn an admission into a rejection.
func (b *Bouncer) spare(now clock.Instant, i int) bool {
	c, g := &b.classes[i], &b.config
	if g.Probe > 0 && now.Sub(c.admitted) >= g.Probe {
		return true
	}
	if g.Allowance > 0 {
		if g.Bernoulli && b.rng.Float64() < g.Allowance || !g.Bernoulli && b.shares.below(i, g.Allowance) {
			return true
		}
	}
	if g.Underserved > 0 {
		if chance := g.Underserved * b.shares.lag(i, g.Pooled); chance > 0 && b.rng.Float64() < chance {
			return true
		}
	}
	return false
}

// Observe keeps count of who waits and runs, and records processing times.
func (b *Bouncer) Observe(now clock.Instant, e control.Event) {
	i := b.index(&e.Request)
	c := &b.classes[i]
	b.pool.observe(&e)
	switch e.Kind {
	case control.Queued:
		b.work += c.mean
		c.waiting++
		c.admitted = now
		b.shares.accept(i)
	case control.Started:
		b.work -= c.mean
		c.waiting--
		c.running++
	case control.Finished:
		c.running--
		if e.Failed {
			return // how long failing takes says nothing of how long succeeding does
		}
		c.record(e.Service)
		b.all.record(e.Service)
		if b.all.taken == 0 && b.all.times.n >= b.config.Samples {
			// The first window of all classes ends early. Until then everything is admitted, and a server that starts under overload
			// would spend what follows in working off a window's worth of it.
			b.all.take(max(now, 1))
			b.adopt()
		}
	case control.Refused:
		if e.Stage == control.AtDequeue {
			b.work -= c.mean
			c.waiting--
		}
	}
}

// Tick ends the window when it is over.
func (b *Bouncer) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	if now < b.swap {
		return b.swap
	}
	b.swap = now.Add(b.config.Window)
	at := max(now, 1) // 0 stands for never
	for i := range b.classes {
		if r := &b.classes[i].recorder; r.ripe(at, b.config) {
			r.take(at)
		}
	}
	if b.all.ripe(at, b.config) {
		b.all.take(at)
	}
	b.adopt()
	return b.swap
}

// adopt makes the estimates that decisions go by from the snapshots.
func (b *Bouncer) adopt() {
	b.work = 0
	for i := range b.classes {
		c := &b.classes[i]
		from := &c.recorder
		if c.taken == 0 {
			// Never again once it has had its own: a slow class that is starved would pass for an average one, be admitted, and starve again.
			from = &b.all
		}
		if from.taken > 0 {
			c.estimate(&from.snapshot, b.config.Margin)
		}
		b.work += int64(c.waiting) * c.mean
	}
}

// Unmeetable returns whether class i could not meet its objective even on an idle server, by its own processing times. Its requests are rejected
// but for probes and what guards let through; no setting of this controller helps, only another objective or a faster server.
func (b *Bouncer) Unmeetable(i int) bool {
	c := &b.classes[i]
	return c.taken > 0 && c.headroom < 0
}

// Meters yields the estimated wait, how many classes could not meet their objective even on an idle server, and each class's headroom: the
// longest wait at which it is admitted. Times are in microseconds; a headroom is missing while nothing is known.
func (b *Bouncer) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		unmeetable := 0.0
		for i := range b.classes {
			if b.Unmeetable(i) {
				unmeetable++
			}
		}
		if !yield("wait_estimate_us", float64(b.wait())/1e3) || !yield("unmeetable", unmeetable) {
			return
		}
		for i, name := range b.meters {
			if h := b.classes[i].headroom; h != math.MaxInt64 && !yield(name, float64(h)/1e3) {
				return
			}
		}
	}
}
