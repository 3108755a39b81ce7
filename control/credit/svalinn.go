package credit

import (
	"iter"
	"math/rand/v2"

	"spillway/clock"
	"spillway/control"
)

// Svalinn sizes the pool by experiments: two short stretches of time, in one of which the pool is a step larger than usual and in the other a
// step smaller, in random order; their utilities are compared, and the pool moves a step in the direction of the better one. Before each
// stretch there is a pause, so that clients have heard of the change. What is maximised is the user's choice.
//
// A request belongs to the experiment in which it arrived. In the published code it counts only if it also ends in it: requests whose service is
// longer than an experiment are never seen, and long ones too seldom. Here the decision waits until the requests of both experiments have
// ended, for sixteen experiments at the most, and rates refer to the length of the experiment. The price is a cycle that is longer by what the
// last request of the second experiment still takes: with a service of 100 µs and the default settings, 1.3 instead of 1.2 ms.
// With Late "lose" the published rule holds, and rates refer to the time until the last event that counted.
//
// The pool does not grow without a reason: whatever the experiments say, it shrinks a step when fewer credits are granted than there are. The
// published code compares the two right after it has undone the last step. Where that was a step down, what is granted has not had the time
// to follow, so every other decision shrinks the pool, whatever the load. Here they are compared before the step is undone.
//
// Arrivals are rejected while the queueing delay is at the budget. Where a request has waited in queues within its service, those
// judge it by the same budget (control.Stack); this is the half of Svalinn that package credit does not have, as is the memory section.
//
// Reference: Svalinn (OSDI '26), the throughput controller; states and constants as in the published code. Corrected are its unsigned
// arithmetic, its undefined direction on equal loads (the pool stays), and its division by a utility of 0.
type Svalinn struct {
	Pool
	config  SvalinnConfig
	utility Utility
	rng     *rand.Rand

	phase  phase
	which  int           // 0 or 1: the experiment that the phase is about
	next   clock.Instant // when the phase is over
	base   int           // size of the pool when the cycle began
	moves  [2]direction  // of the pool in each experiment
	trials [2]trial
	number uint32 // of the experiment that was begun last
	inUse  bool   // all credits were granted when the experiments ended
	active bool   // arrivals belong to trials[which]
	sensed reading

	decided struct { // for the meters
		more, less     float64 // the utilities that were compared
		ups, downs     int
		cycles, unsure int // unsure: decisions that left the pool as it was
	}
}

// phase is a state of the cycle: prepare, start and end for each of two experiments, then decide.
type phase uint8

const (
	preparing phase = iota
	starting
	ending
	deciding
)

var (
	_ control.Controller = (*Svalinn)(nil)
	_ control.Issuer     = (*Svalinn)(nil)
	_ control.Meter      = (*Svalinn)(nil)
)

// patience is how many intervals a decision waits for requests at most.
const patience = 16

// lastNumber is what experiments are counted up to before they begin anew. It leaves a bit of a tag for the Pool. At the default
// settings it is reached after two weeks; a request would have to live as long to be taken for another's.
const lastNumber = 1<<31 - 1

// NewSvalinn returns the Svalinn of a server with so many cores. own is what is to be maximised; nil for the utility that c names. It panics
// when c is out of range, or has no budget: see SvalinnConfig.For.
func NewSvalinn(c SvalinnConfig, cores int, rng *rand.Rand, own Utility) *Svalinn {
	if err := c.Check(); err != nil {
		panic("credit: " + err.Error())
	}
	if c.Budget == 0 {
		panic("credit: svalinn without a budget")
	}
	s := &Svalinn{Pool: newPool(c.pool(cores)), config: c, utility: own, rng: rng}
	if own == nil {
		s.utility = c.utility()
	}
	s.turn()
	return s
}

// Decide attributes arrivals to the experiment under way, and rejects them while the queueing delay is at the budget.
func (s *Svalinn) Decide(now clock.Instant, stage control.Stage, r *control.Request) control.Decision {
	if stage != control.AtArrival {
		return control.Decision{}
	}
	s.sensed.delay = r.QueueDelay
	s.run(now)
	var tag uint32
	if s.active {
		t := &s.trials[s.which]
		t.In++
		t.MaxDelay = max(t.MaxDelay, r.QueueDelay)
		tag = t.number << 1
	}
	return s.admit(r, r.QueueDelay >= s.config.Budget, tag)
}

// Observe counts what became of the requests of the experiments.
func (s *Svalinn) Observe(now clock.Instant, e control.Event) {
	if e.Kind != control.Finished && e.Kind != control.Refused {
		return
	}
	s.Pool.end(&e)
	s.run(now)
	if number := e.Request.Tag >> 1; number != 0 {
		s.attribute(now, number, &e)
	}
}

// attribute counts the end of a request that arrived in the experiment of that number.
func (s *Svalinn) attribute(now clock.Instant, number uint32, e *control.Event) {
	for i := range s.trials {
		t := &s.trials[i]
		if t.number != number {
			continue
		}
		t.ended++
		if s.config.Late == Wait || s.active && i == s.which {
			t.count(now, e)
		}
		if s.phase == deciding && !s.open() {
			s.next = now
			s.run(now)
		}
		return
	}
}

// open reports whether a request of either experiment is still under way.
func (s *Svalinn) open() bool { return s.trials[0].open() || s.trials[1].open() }

// Tick moves the cycle on when nothing else does, and takes in what sensors measured.
func (s *Svalinn) Tick(now clock.Instant, signals control.Signals) clock.Instant {
	s.sensed = reading{
		delay: signals.QueueDelay, bytes: signals.MemBytes, bytesAt: signals.MemAt, joules: signals.Joules, joulesAt: now,
	}
	if s.active {
		t := &s.trials[s.which]
		t.MaxDelay = max(t.MaxDelay, signals.QueueDelay)
	}
	s.run(now)
	if s.phase == deciding {
		// The last request may end long before the decision is due at the latest.
		return min(s.next, now.Add(s.config.Interval))
	}
	return s.next
}

// run moves the cycle on. Phases that take no time follow at once.
func (s *Svalinn) run(now clock.Instant) {
	for now >= s.next {
		switch s.phase {
		case preparing:
			if s.which == 0 {
				s.base = s.size
			}
			if s.config.Perturb {
				s.resize(s.base + int(s.moves[s.which])*s.config.Step)
			}
			s.next = now.Add(max(s.config.Prepare, s.config.RTT))
			s.phase = starting
		case starting:
			s.number = s.number%lastNumber + 1
			s.trials[s.which].begin(now, s.number, s.sensed, s.config.Budget)
			s.active = true
			s.next = now.Add(s.config.Interval)
			s.phase = ending
		case ending:
			s.finish(now)
		case deciding:
			s.resize(s.size + s.config.Step*int(s.judge()))
			s.turn()
		}
	}
}

// finish ends an experiment.
func (s *Svalinn) finish(now clock.Instant) {
	t := &s.trials[s.which]
	s.active = false
	t.sense(s.sensed)
	t.Duration = now.Sub(t.began)
	if s.config.Late == Lose {
		t.Duration = t.last.Sub(t.began)
	}
	if s.which == 0 {
		s.which, s.phase = 1, preparing
		return
	}
	s.phase = deciding
	s.inUse = s.used >= s.size
	if s.config.Perturb {
		s.resize(s.base)
	}
	if s.config.Late == Wait && s.open() {
		s.next = now.Add(patience * s.config.Interval)
	}
}

// turn begins a new cycle, with new directions.
func (s *Svalinn) turn() {
	s.moves = [2]direction{plus, minus}
	if s.rng.IntN(2) == 1 {
		s.moves = [2]direction{minus, plus}
	}
	s.which, s.phase = 0, preparing
}

// judge compares the two experiments and returns where the pool goes.
func (s *Svalinn) judge() direction {
	s.decided.cycles++
	d, conclusive := s.verdict()
	switch {
	case !conclusive:
		d = stay
	case !s.inUse:
		d = minus // clients do not use what there is
	}
	switch d {
	case plus:
		s.decided.ups++
	case minus:
		s.decided.downs++
	default:
		s.decided.unsure++
	}
	return d
}

// verdict returns what the experiments speak for; conclusive is false when they speak for nothing.
func (s *Svalinn) verdict() (d direction, conclusive bool) {
	more, less := &s.trials[0].Experiment, &s.trials[1].Experiment
	if more.In == 0 || less.In == 0 {
		return plus, true // who has no credits sends nothing: there must be some to learn from
	}
	if s.config.Label == Strict {
		if s.moves[0] == minus {
			more, less = less, more
		}
		if more.In <= less.In {
			return stay, false
		}
	}
	if more.In < less.In {
		more, less = less, more
	}
	s.decided.more, s.decided.less = s.utility.Of(more), s.utility.Of(less)
	if more.In == less.In {
		return stay, true
	}
	return s.config.compare(more, less, s.decided.more, s.decided.less), true
}

// Forget takes back what a client holds that has gone.
func (s *Svalinn) Forget(now clock.Instant, client uint32) {
	s.Pool.Forget(now, client)
	if s.n == 0 {
		s.base = s.size // the cycle must not bring back the pool of those who have gone
	}
}

// Meters yields the credits that there are, those that are granted, the clients, the utilities that were compared last, and how many decisions
// there were, with what came of them.
func (s *Svalinn) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		d := &s.decided
		_ = s.meters(yield) && yield("utility_more", d.more) && yield("utility_less", d.less) && yield("decisions", float64(d.cycles)) &&
			yield("credits_up", float64(d.ups)) && yield("credits_down", float64(d.downs)) && yield("credits_stay", float64(d.unsure))
	}
}
