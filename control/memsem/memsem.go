// Package memsem has Svalinn's memory semaphore: how many requests of one process may do memory-bound work at once. When the memory bus
// is full, one more only keeps a core waiting for it, so a bandit (package bandit) looks for the smallest number that fills the bus.
package memsem

import (
	"iter"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/bandit"
)

// Semaphore is a section whose capacity a bandit chooses once a period, from the bandwidth that the last choice had. It is also a
// Controller, which lets all requests pass: that is how it gets ticks, and the sensor's readings with them.
//
// A choice is judged by samples that were taken under it, or it would be judged by its predecessor. So there is at most one choice in
// a period, only on a fresh sample, only when somebody asked to enter or left since the last one, and the period spans at least ten
// readings of the sensor, whatever its setting says. A period in which nobody came or went is not judged, and no later one is blamed for it.
//
// The semaphore begins with a capacity of 1. Without a sensor a bandit that learns stays there.
//
// When the capacity falls below what is inside, nobody is put out: places are not given again until it fits. When it grows, those who
// wait go in at the next Leave or Withdraw, several at once, since a tick has no way to resume them. None of them is stranded: whoever
// waits found the section full or others waiting before, and Leave stops letting waiters in only when it is full, so while anybody waits
// somebody is inside, whose Leave is to come.
type Semaphore struct {
	bandit   bandit.Bandit
	learns   bool
	reward   *bandit.Reward
	sensor   sensor
	capacity int
	inside   int
	parked   *control.Parked

	active   bool          // somebody entered, was refused or left since the last sample that was used
	began    bool          // there is a sample to begin from
	bytes    uint64        // of that sample
	at       clock.Instant // of that sample
	measured float64       // bandwidth between the last two of them, bytes a second
	changes  int           // of the capacity so far
}

var (
	_ control.Section    = (*Semaphore)(nil)
	_ control.Withdrawer = (*Semaphore)(nil)
	_ control.Controller = (*Semaphore)(nil)
	_ control.Meter      = (*Semaphore)(nil)
)

// New returns an empty semaphore that b sizes once a period, told the rewards that r makes of bandwidths. Build makes one from settings.
func New(b bandit.Bandit, r *bandit.Reward, period time.Duration) *Semaphore {
	if b == nil || r == nil || period <= 0 {
		panic("memsem: a semaphore without a bandit, a reward or a period")
	}
	s := &Semaphore{bandit: b, learns: bandit.Learns(b), reward: r, sensor: sensor{period: period}, capacity: 1, parked: control.NewParked()}
	if !s.learns {
		s.choose(0)
	}
	return s
}

// Learns reports whether the capacity depends on what a memory sensor shows.
func (s *Semaphore) Learns() bool { return s.learns }

// Enter lets r in while there is room and nobody waits. Otherwise Try refuses it, WaitMode parks it, and WaitWithinBudget parks it unless
// what it has waited and the age of the oldest waiter, which is about how long it would wait, exceed its budget. The reason is Memory.
func (s *Semaphore) Enter(now clock.Instant, r *control.Request, m control.Mode) control.Decision {
	s.active = true
	switch {
	case s.inside < s.capacity && s.parked.Len() == 0:
		s.inside++
		return control.Decision{Verdict: control.Admit}
	case m == control.Try, m == control.WaitWithinBudget && r.Budget > 0 && r.Waited+s.parked.Age(now) > r.Budget:
		return control.Decision{Verdict: control.Reject, Reason: control.Memory}
	default:
		s.parked.Push(now, r)
		return control.Decision{Verdict: control.Wait}
	}
}

// Leave gives a place back and lets in as many of those who wait as there is room for. Which request leaves does not matter.
func (s *Semaphore) Leave(now clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	if s.inside == 0 {
		panic("memsem: the section is left, and nobody is in it")
	}
	s.active = true
	s.inside--
	return s.resume(now, out)
}

// Withdraw implements control.Withdrawer.
func (s *Semaphore) Withdraw(now clock.Instant, id uint64, out []control.Action) (removed bool, _ []control.Action) {
	if !s.parked.Withdraw(id) {
		return false, out
	}
	return true, s.resume(now, out)
}

func (s *Semaphore) resume(now clock.Instant, out []control.Action) []control.Action {
	for s.inside < s.capacity && s.parked.Len() > 0 {
		s.inside++
		out = append(out, control.Action{Kind: control.Resume, Request: s.parked.Pop(now)})
	}
	return out
}

// Decide admits.
func (s *Semaphore) Decide(clock.Instant, control.Stage, *control.Request) control.Decision {
	return control.Decision{}
}

// Observe does nothing: what counts is who is in the section.
func (s *Semaphore) Observe(clock.Instant, control.Event) {}

// Tick reads the sensor and, when it is time, lets the bandit choose.
func (s *Semaphore) Tick(now clock.Instant, g control.Signals) clock.Instant {
	fresh := s.sensor.read(now, g.MemAt)
	period, known := s.sensor.stretched()
	switch {
	case !s.began || g.MemBytes < s.bytes: // the first, or the sensor began again from 0
		s.began = true
		s.begin(g)
	case fresh && known && g.MemAt.Sub(s.at) >= period:
		s.measured = float64(g.MemBytes-s.bytes) / g.MemAt.Sub(s.at).Seconds()
		if s.active && s.learns {
			s.bandit.Reward(s.capacity, s.reward.Of(s.capacity, s.measured))
			s.choose(now)
		}
		s.begin(g)
	}
	if !s.learns {
		s.choose(now)
	}
	return now.Add(max(1, s.sensor.pause(now, s.at)))
}

// begin makes the sample in g the one from which bandwidth is counted.
func (s *Semaphore) begin(g control.Signals) {
	s.bytes, s.at, s.active = g.MemBytes, g.MemAt, false
}

// choose asks for a capacity. One below 1 would admit nobody, ever.
func (s *Semaphore) choose(now clock.Instant) {
	c := max(1, s.bandit.Choose(now))
	if c != s.capacity {
		s.changes++
	}
	s.capacity = c
}

// Meters yields the capacity and how often it has changed, who is inside and who waits, the last bandwidth in bytes a second, and the
// period in use.
func (s *Semaphore) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		period, _ := s.sensor.stretched()
		_ = yield("memsem", float64(s.capacity)) && yield("memsem_changes", float64(s.changes)) && yield("memsem_inside", float64(s.inside)) &&
			yield("memsem_waiting", float64(s.parked.Len())) && yield("memsem_bw", s.measured) && yield("memsem_period_us", float64(period)/float64(time.Microsecond))
	}
}
