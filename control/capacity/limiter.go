package capacity

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control"
)

// LimiterConfig says what a Limiter does without an allocator, and how it enforces grants.
type LimiterConfig struct {
	Baseline string        `setting:"baseline" unit:"requests/s" doc:"what each class may use when no grant is in force: rates joined by commas, class by class"`
	Cycle    time.Duration `setting:"cycle" doc:"how often the allocator decides"`
	Burst    float64       `setting:"burst" unit:"cycles" doc:"how much of a grant may be used at once, in cycles of it"`
}

// DefaultLimiter returns one cycle a second and a burst of one cycle: what was not used within a cycle is gone, so that over any cycle at most
// twice the grant passes, and over many the grant.
func DefaultLimiter() LimiterConfig {
	return LimiterConfig{Baseline: "0", Cycle: time.Second, Burst: 1}
}

// Check returns an error that names the setting that is out of range.
func (c LimiterConfig) Check() error {
	switch {
	case c.Cycle <= 0:
		return fmt.Errorf("cycle is %v, must be longer than 0", c.Cycle)
	case !(c.Burst > 0):
		return fmt.Errorf("burst is %g, must be above 0", c.Burst)
	}
	_, err := c.rates()
	return err
}

func (c LimiterConfig) rates() (list []float64, err error) {
	for _, text := range strings.Split(c.Baseline, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(rate >= 0) {
			return nil, fmt.Errorf("baseline is %q, must be rates in requests per second joined by commas, such as 700,300", c.Baseline)
		}
		list = append(list, rate)
	}
	return list, nil
}

// Limiter enforces grants: a token bucket for each class, whose rate is the grant in force. It is the edge's part of the allocation: it counts
// the demand that the allocator asks for, and falls back to the baselines when a grant's lease has ended. That is safe whatever has
// happened to the allocator, because all baselines sum to the budget.
type Limiter struct {
	config   LimiterConfig
	baseline []float64
	classes  []bucket
	lease    clock.Instant // end of the grant in force; clock.Never when the baselines are
	borrowed clock.Instant // end of what it has above the baselines; clock.Never when nothing is borrowed
	counted  clock.Instant // since when demand is counted
	asked    []int64       // by class
	demand   []float64     // by class: as it was last measured
}

// bucket holds the tokens of one class.
type bucket struct {
	rate   float64 // tokens a second
	tokens float64
	at     clock.Instant // when tokens was right
}

var (
	_ control.Controller = (*Limiter)(nil)
	_ control.Meter      = (*Limiter)(nil)
)

// NewLimiter returns a Limiter with full buckets at the baselines. Requests of classes that have no baseline count as of the last one that
// has. It panics when c is out of range.
func NewLimiter(c LimiterConfig) *Limiter {
	if err := c.Check(); err != nil {
		panic("capacity: " + err.Error())
	}
	rates, err := c.rates()
	if err != nil {
		panic("capacity: " + err.Error())
	}
	l := &Limiter{config: c, baseline: rates, classes: make([]bucket, len(rates)), lease: clock.Never, borrowed: clock.Never, asked: make([]int64, len(rates)), demand: slices.Clone(rates)}
	for i := range l.classes {
		l.classes[i] = bucket{rate: rates[i], tokens: l.depth(rates[i])}
	}
	return l
}

// depth returns how many tokens a bucket of a rate holds. A rate above 0 lets single requests pass, however slow it is.
func (l *Limiter) depth(rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	return max(1, rate*l.config.Burst*l.config.Cycle.Seconds())
}

// fill brings the bucket of class i up to now.
func (l *Limiter) fill(now clock.Instant, i int) *bucket {
	b := &l.classes[i]
	b.tokens = min(b.tokens+b.rate*now.Sub(b.at).Seconds(), l.depth(b.rate))
	b.at = now
	return b
}

// Cycle returns how often the allocator decides.
func (l *Limiter) Cycle() time.Duration { return l.config.Cycle }

// Classes returns how many classes there are.
func (l *Limiter) Classes() int { return len(l.classes) }

// Grant puts rates in force until the end of a lease; what a class has saved is cut to what its new rate allows. It is an error when there
// are not as many rates as classes, or one is negative; what was in force then stays.
func (l *Limiter) Grant(now clock.Instant, rates []float64, until clock.Instant) error {
	return l.GrantBorrowed(now, rates, until, until)
}

// GrantBorrowed is Grant for rates of which what is above a class's baseline ends at an instant of its own, before the lease does. What a location
// has borrowed is then given back before those whom it was borrowed from return to their baselines, although not all leases begin at once.
func (l *Limiter) GrantBorrowed(now clock.Instant, rates []float64, borrowed, until clock.Instant) error {
	if len(rates) != len(l.classes) {
		return fmt.Errorf("capacity: a grant for %d classes, there are %d", len(rates), len(l.classes))
	}
	for _, r := range rates {
		if !(r >= 0) {
			return errors.New("capacity: a grant must not be negative")
		}
	}
	l.enforce(now, rates)
	l.borrowed, l.lease = min(borrowed, until), until
	return nil
}

func (l *Limiter) enforce(now clock.Instant, rates []float64) {
	for i, r := range rates {
		b := l.fill(now, i)
		b.rate = r
		b.tokens = min(b.tokens, l.depth(r))
	}
}

// Demand writes the rates at which requests of each class arrive, those turned away included: since they were last measured, if that is at least half
// a cycle, and otherwise as they were measured then. How often somebody asks does not make them noisier. Before anything has been measured the
// baselines stand for them: who has just begun is not known to need nothing.
func (l *Limiter) Demand(now clock.Instant, rates []float64) {
	if span := now.Sub(l.counted); span >= l.config.Cycle/2 {
		for i, n := range l.asked {
			l.demand[i] = float64(n) / span.Seconds()
			l.asked[i] = 0
		}
		l.counted = now
	}
	copy(rates, l.demand)
}

// Quota returns the rate in force of a class and the tokens that it has, which requests may use at once.
func (l *Limiter) Quota(now clock.Instant, class uint16) (rate, tokens float64) {
	l.expire(now)
	b := l.fill(now, l.class(&control.Request{Class: class}))
	return b.rate, b.tokens
}

// Baseline returns what a class may use when no grant is in force.
func (l *Limiter) Baseline(class uint16) float64 {
	return l.baseline[l.class(&control.Request{Class: class})]
}

func (l *Limiter) class(r *control.Request) int { return min(int(r.Class), len(l.classes)-1) }

// Decide takes a token of the request's class, or rejects it.
func (l *Limiter) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s != control.AtArrival {
		return control.Decision{}
	}
	l.expire(now)
	i := l.class(r)
	l.asked[i]++
	if b := l.fill(now, i); b.tokens >= 1 {
		b.tokens--
		return control.Decision{}
	}
	return control.Decision{Verdict: control.Reject, Reason: control.Budget}
}

// Observe takes a token back from a request that somebody else has turned away at arrival.
func (l *Limiter) Observe(now clock.Instant, e control.Event) {
	if e.Kind == control.Refused && e.Stage == control.AtArrival && e.Reason != control.Budget {
		i := l.class(&e.Request)
		b := l.fill(now, i)
		b.tokens = min(b.tokens+1, l.depth(b.rate))
	}
}

// expire falls back to the baselines when the lease has ended.
func (l *Limiter) expire(now clock.Instant) {
	switch {
	case now >= l.lease:
		l.enforce(now, l.baseline)
		l.lease, l.borrowed = clock.Never, clock.Never
	case now >= l.borrowed:
		for i := range l.classes {
			b := l.fill(now, i)
			b.rate = min(b.rate, l.baseline[i])
			b.tokens = min(b.tokens, l.depth(b.rate))
		}
		l.borrowed = clock.Never
	}
}

// Tick ends a lease, and returns when the one in force ends.
func (l *Limiter) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	l.expire(now)
	return min(l.borrowed, l.lease)
}

// Meters yields the rate in force of each class, and whether it is a grant.
func (l *Limiter) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for i := range l.classes {
			if !yield("grant_"+strconv.Itoa(i), l.classes[i].rate) {
				return
			}
		}
		granted := 0.0
		if l.lease != clock.Never {
			granted = 1
		}
		yield("leased", granted)
	}
}
