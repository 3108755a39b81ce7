// Package staging keeps requests unprocessed while any resource is scarce.
//
// A request that has not been begun costs next to nothing; one that has been begun holds memory, connections, files until it is
// done. The staging queue is the Gate's queue, in which requests of the first kind stand. The resources that run out are watched, all of them
// and not only the processor, as levels: shares of their limits (control.Signals.Levels). While every level is low, requests pass
// through. When one nears its limit, fewer are taken from the queue, or none, until those in service have given back what they hold. Under
// an optimal load the queue is nearly empty, in the steady state of an overload it is constant, and after a bulge it drains.
//
// The idea, the queue of 4000, and the advice to have at least one request at work are those of the staging-queue article. The
// thresholds in pairs, the states, the rule for how many are let in while it slows down, and all other constants are ours, after the practice
// of the overload manager of Envoy and the back pressure of Exchange; see docs/papers.md.
//
// Between two looks at the levels nothing is known of what has been started since: when more arrives in that time than fits into what is
// left of a resource, the limit is passed before it is seen. Where a single request is large, Burst bounds how many start between two looks.
//
// What it cannot do at all: memory that somebody else takes, another process on the same host, is seen as a level that rises, and holds requests
// back; but what is in service already cannot be made smaller.
package staging

import (
	"iter"
	"math"
	"slices"
	"time"

	"spillway/clock"
	"spillway/control"
)

// State is how freely requests are taken from the queue.
type State uint8

// The states.
const (
	Normal  State = iota // as they come
	Slowed               // the fewer the higher the level
	Stopped              // none, but one is always in service
)

// growth is the share by which slowed and recovering let in more at each look while levels are low and somebody waits.
const growth = 1. / 8

// rounding is what a product of shares may be below the whole number that it stands for.
const rounding = 1e-9

// Staging is the staging queue: it decides how many of those who wait in the Gate are taken out of it.
//
//   - Normal: everybody, up to Workers.
//   - Slowed: a base, times 1 − (level − Slow)/(Stop − Slow) for the highest level; at least one. The base is how many in service make a
//     level of Slow: as many as there were when the level rose to where it is, times Slow/level. It is taken when the state gets worse, and
//     only ever made smaller by it. While the level is below Normal and somebody waits, the base grows by an eighth at each look.
//   - Stopped: nobody, except that one may start when nothing is in service: else nothing would ever give memory back.
//
// Back in Normal with a queue that has grown long, the base stays and goes on growing by an eighth a look until the queue has emptied:
// letting in the whole queue between two looks would be the end of the server that it was held back for.
type Staging struct {
	config Config
	exempt []uint16 // classes

	levels []level
	state  State
	open   float64 // share of base that Slowed lets in
	calm   bool    // every level is below Normal
	base   float64 // in service at most before open is applied; +Inf for no limit

	waiting   int // unprocessed, the exempt not counted
	inService int // likewise
	started   int // since the last look, likewise
	emptied   clock.Instant
	due       clock.Instant // the next look

	// What the meters show.
	flips   int
	at      clock.Instant // up to when the time in each state is accounted
	spent   [Stopped + 1]time.Duration
	resumed int // starts of requests that had been held back
}

// level is one resource.
type level struct {
	name  string
	meter string
	used  float64
	state State
	below clock.Instant // since when it has been below the threshold that ends its state; Never while it is not
}

var (
	_ control.Controller = (*Staging)(nil)
	_ control.Orderer    = (*Staging)(nil)
	_ control.Meter      = (*Staging)(nil)
)

// New returns a staging queue that nothing has been seen of yet: it is open. exempt are the classes, by Request.Class, that are never held
// back; they take the place of c.Exempt, whose names only the catalog can look up. It panics when c is out of range.
func New(c Config, exempt ...uint16) *Staging {
	if err := c.Check(); err != nil {
		panic("staging: " + err.Error())
	}
	return &Staging{config: c, exempt: exempt, open: 1, calm: true, base: math.Inf(1)}
}

// Decide rejects arrivals that find the queue full, and keeps who is next waiting while the state does not let anybody in. Exempt
// requests go past the queue.
func (s *Staging) Decide(_ clock.Instant, stage control.Stage, r *control.Request) control.Decision {
	switch {
	case s.exempts(r):
		return control.Decision{Express: true}
	case stage == control.AtArrival:
		if s.waiting >= s.config.Queue {
			return control.Decision{Verdict: control.Reject, Reason: control.QueueFull}
		}
	case float64(s.inService) >= s.limit(), s.config.Burst > 0 && s.started >= s.config.Burst && s.inService > 0:
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{}
}

// exempts reports whether r is never held back.
func (s *Staging) exempts(r *control.Request) bool {
	return len(s.exempt) > 0 && slices.Contains(s.exempt, r.Class)
}

// limit returns how many may be in service.
func (s *Staging) limit() float64 {
	n := s.base
	switch s.state {
	case Slowed:
		n = math.Floor(n*s.open + rounding)
	case Stopped:
		n = 1
	}
	if s.config.Workers > 0 {
		n = min(n, float64(s.config.Workers))
	}
	return max(n, 1)
}

// Observe counts who waits and who is in service.
func (s *Staging) Observe(now clock.Instant, e control.Event) {
	if s.exempts(&e.Request) {
		return
	}
	switch e.Kind {
	case control.Queued:
		if s.waiting == 0 {
			s.emptied = now
		}
		s.waiting++
	case control.Started:
		s.waiting--
		s.inService++
		s.started++
		if e.Request.Waited > 0 {
			s.resumed++
		}
	case control.Finished:
		s.inService--
	case control.Refused:
		if e.Stage == control.AtDequeue {
			s.waiting--
		}
	}
}

// Order is that of the settings.
func (s *Staging) Order(now clock.Instant) control.Order {
	newest := s.config.Order == LIFO
	if s.config.Order == Adaptive {
		newest = s.waiting > 0 && now.Sub(s.emptied) > s.config.LIFOAfter
	}
	return control.Order{Newest: newest, MaxAge: s.config.MaxAge}
}

// Tick looks at the levels. One that the driver does not show any more keeps the state that it had: a sensor that fails is no reason to open
// the queue.
func (s *Staging) Tick(now clock.Instant, signals control.Signals) clock.Instant {
	s.spent[s.state] += now.Sub(s.at)
	s.at = now
	for _, l := range signals.Levels {
		s.see(now, l)
	}
	state, used := Normal, 0.
	for i := range s.levels {
		state, used = max(state, s.levels[i].state), max(used, s.levels[i].used)
	}
	s.calm = used < s.config.Normal
	s.open = min(max(1-(used-s.config.Slow)/(s.config.Stop-s.config.Slow), 0), 1)
	s.become(state, used)
	if now >= s.due {
		s.grow()
		s.started = 0
		s.due = now.Add(s.config.Interval)
	}
	return s.due
}

// see takes in what is known of one resource.
func (s *Staging) see(now clock.Instant, seen control.Level) {
	i := 0
	for i < len(s.levels) && s.levels[i].name != seen.Name {
		i++
	}
	if i == len(s.levels) {
		s.levels = append(s.levels, level{name: seen.Name, meter: "level_" + seen.Name, below: clock.Never})
	}
	if !(seen.Used >= 0) {
		return // not a number: nothing has been seen
	}
	s.levels[i].see(now, seen.Used, &s.config)
}

// see moves a level on. Up it goes at once, and as far as its thresholds say. Down it goes by one state at a time, when it has been below
// the lower threshold for a while without a break.
func (l *level) see(now clock.Instant, used float64, c *Config) {
	l.used = used
	switch {
	case used >= c.Stop:
		l.rise(Stopped)
	case used >= c.Slow:
		l.rise(Slowed)
	}
	threshold, after := c.Normal, c.NormalAfter
	if l.state == Stopped {
		threshold, after = c.Resume, c.ResumeAfter
	}
	if l.state == Normal || used >= threshold {
		l.below = clock.Never
		return
	}
	if l.below == clock.Never {
		l.below = now
	}
	if now.Sub(l.below) >= after {
		l.state--
		l.below = clock.Never
	}
}

func (l *level) rise(to State) {
	if to > l.state {
		l.state, l.below = to, clock.Never
	}
}

// become enters the state of the scarcest resource, which is at used.
func (s *Staging) become(state State, used float64) {
	if state == s.state {
		return
	}
	if state > s.state {
		// So many have made the level rise this far; in proportion, fewer would have kept it at Slow.
		s.base = max(min(s.base, float64(s.inService)*s.config.Slow/used), 1)
	}
	s.state = state
	s.flips++
}

// grow lets more in after a look that has found all levels low.
func (s *Staging) grow() {
	switch {
	case math.IsInf(s.base, 1) || !s.calm || s.state == Stopped:
	case s.waiting == 0 && s.state == Normal:
		s.base = math.Inf(1) // the bulge is over
	case s.waiting > 0 && float64(s.inService) >= s.limit():
		s.base += max(s.base*growth, 1)
	}
}

// State returns the present state.
func (s *Staging) State() State { return s.state }

// Meters yields the state (0 normal, 1 slowed, 2 stopped), the most that may be in service (0 for no limit), the number of changes of state, for
// how many milliseconds it has been slowed and stopped, how many started after they had been held back, and every level as a share
// of its limit.
func (s *Staging) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		limit := s.limit()
		if math.IsInf(limit, 1) {
			limit = 0
		}
		if !yield("staging_state", float64(s.state)) || !yield("staging_limit", limit) || !yield("staging_flips", float64(s.flips)) ||
			!yield("staging_slowed_ms", float64(s.spent[Slowed].Milliseconds())) ||
			!yield("staging_stopped_ms", float64(s.spent[Stopped].Milliseconds())) || !yield("staging_resumed", float64(s.resumed)) {
			return
		}
		for i := range s.levels {
			if !yield(s.levels[i].meter, s.levels[i].used) {
				return
			}
		}
	}
}
