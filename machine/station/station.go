// Package station puts a control.Gate in front of a machine.Machine: the whole server of the modelled grounds, without its network.
//
// The simulator drives a Station with virtual time, a server on the model ground with the stretched clock; both are told the
// instants of what happens and neither observes any. Nothing here knows which of the two it is.
package station

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/machine"
)

// Config says what a Station is made of.
type Config struct {
	Controller control.Controller
	Gate       control.GateConfig
	Machine    machine.Spec
	Locks      int       // number of locks that steps refer to
	Sections   []Section // by the index that steps refer to
}

// Section is a control.Section and how requests enter it. With a nil Section everybody may enter.
type Section struct {
	control.Section
	Mode control.Mode
}

// Reply is the end of a request at the server.
type Reply struct {
	Token   uint64         // what Arrive was given
	Reason  control.Reason // control.NoReason when the request was served
	Queued  time.Duration  // arrival to first core, or to refusal
	Service time.Duration  // first core to the end
	Client  uint32
}

// Station serves requests. It is not safe for concurrent use, and allocates nothing once it has seen its peak of requests in flight.
type Station struct {
	config  Config
	gate    *control.Gate
	machine *machine.Machine
	tick    clock.Instant

	entries []*entry // by control.Request.ID
	unused  []uint64 // IDs of entries that are free

	actions []control.Action
	events  []machine.Event
	replies []Reply
}

// entry is one request in flight.
type entry struct {
	job     machine.Job
	request control.Request
	token   uint64
	inside  uint64 // sections it is in, a bit each
}

// maxSections is what entry.inside has room for.
const maxSections = 64

// New returns an idle Station. The first tick of the controller is at 0.
func New(c Config) *Station {
	if len(c.Sections) > maxSections {
		panic(fmt.Sprintf("station: %d sections, at most %d are supported", len(c.Sections), maxSections))
	}
	return &Station{
		config:  c,
		gate:    control.NewGate(c.Controller, c.Gate),
		machine: machine.New(c.Machine, c.Locks),
	}
}

// Arrive brings a request that the server has read at now. Its steps are copied. ID and Arrived of r are set here; the Reply that ends
// the request carries token. The replies returned are valid until the next call.
func (s *Station) Arrive(now clock.Instant, r control.Request, steps []machine.Step, token uint64) []Reply {
	s.begin()
	if s.machine.Dead() {
		return nil
	}
	r.ID = s.take()
	e := s.entries[r.ID]
	e.token, e.inside = token, 0
	e.job.ID = r.ID
	e.job.Steps = append(e.job.Steps[:0], steps...)
	s.actions = s.gate.Arrive(now, r, s.actions)
	return s.settle(now)
}

// Next returns when something will happen by itself: a completion or a tick of the controller.
func (s *Station) Next() clock.Instant { return min(s.machine.Next(), s.tick) }

// Advance lets happen what is due at now, which must not be later than Next. The replies are valid until the next call.
func (s *Station) Advance(now clock.Instant) []Reply {
	s.begin()
	if s.machine.Next() == now {
		s.events = s.machine.Advance(now, s.events)
	}
	if s.tick <= now {
		s.actions, s.tick = s.gate.Tick(now, s.signals(now), s.actions)
		if s.tick <= now {
			panic("station: a controller wants to be ticked in the past")
		}
	}
	return s.settle(now)
}

// signals is what sensors would read.
func (s *Station) signals(now clock.Instant) control.Signals {
	return control.Signals{
		QueueDelay: s.QueueDelay(now),
		Saturated:  s.machine.BusyCores() == s.config.Machine.Cores,
		MemBytes:   s.machine.BytesMoved(now),
	}
}

// QueueDelay returns the age of the oldest waiter in the Gate's queue or the run queue, 0 while a core is idle.
func (s *Station) QueueDelay(now clock.Instant) time.Duration {
	if s.machine.BusyCores() < s.config.Machine.Cores {
		return 0
	}
	return max(s.machine.QueueDelay(now), s.gate.QueueDelay(now))
}

func (s *Station) begin() {
	s.actions, s.events, s.replies = s.actions[:0], s.events[:0], s.replies[:0]
}

// settle carries out actions and events until there are none left. Each may bring forth others, so both lists are walked while they
// grow; that keeps the order of things and needs no recursion.
func (s *Station) settle(now clock.Instant) []Reply {
	for a, e := 0, 0; a < len(s.actions) || e < len(s.events); {
		if e < len(s.events) {
			s.event(now, s.events[e])
			e++
			continue
		}
		s.action(now, s.actions[a])
		a++
	}
	return s.replies
}

func (s *Station) action(now clock.Instant, a control.Action) {
	switch a.Kind {
	case control.Start:
		e := s.entries[a.Request.ID]
		e.request = a.Request
		s.events = s.machine.Submit(now, &e.job, s.events)
	case control.Refuse:
		s.reply(Reply{Token: s.entries[a.Request.ID].token, Reason: a.Reason, Queued: now.Sub(a.Request.Arrived), Client: a.Request.Client})
		s.give(a.Request.ID)
	case control.Resume:
		e := s.entries[a.Request.ID]
		e.request.Waited = a.Request.Waited
		e.inside |= 1 << e.job.Step().Index
		s.events = s.machine.Continue(now, &e.job, s.events)
	case control.Queue, control.Credit:
		// A queued request needs nothing done, and no controller of this version sends credits of its own accord.
	}
}

func (s *Station) event(now clock.Instant, ev machine.Event) {
	e := s.entries[ev.Job.ID]
	switch ev.Kind {
	case machine.Done:
		s.finish(now, e, control.NoReason)
	case machine.Hook:
		s.hook(now, e)
	case machine.Died:
		// The owner sees Dead; there is nobody left to reply.
	}
}

// hook is a request at the edge of a section.
func (s *Station) hook(now clock.Instant, e *entry) {
	step := e.job.Step()
	section, bit := s.config.Sections[step.Index], uint64(1)<<step.Index
	if step.Kind == machine.Leave {
		if section.Section != nil {
			s.actions = section.Leave(now, &e.request, s.actions)
		}
		e.inside &^= bit
		s.events = s.machine.Continue(now, &e.job, s.events)
		return
	}
	decision := control.Decision{Verdict: control.Admit}
	if section.Section != nil {
		decision = section.Enter(now, &e.request, section.Mode)
	}
	switch decision.Verdict {
	case control.Admit:
		e.inside |= bit
		s.events = s.machine.Continue(now, &e.job, s.events)
	case control.Wait:
		s.events = s.machine.Park(now, &e.job, s.events)
	case control.Reject:
		s.events = s.machine.Drop(now, &e.job, s.events)
		// It may be refused at a section inside another: what it holds goes back.
		for i := range s.config.Sections {
			if e.inside&(1<<i) != 0 && s.config.Sections[i].Section != nil {
				s.actions = s.config.Sections[i].Leave(now, &e.request, s.actions)
			}
		}
		s.finish(now, e, decision.Reason)
	}
}

// finish ends a request that has had a core.
func (s *Station) finish(now clock.Instant, e *entry, why control.Reason) {
	began := e.job.Began()
	service := now.Sub(began)
	s.reply(Reply{Token: e.token, Reason: why, Queued: began.Sub(e.request.Arrived), Service: service, Client: e.request.Client})
	id := e.request.ID
	s.actions = s.gate.Finish(now, e.request, service, why != control.NoReason, s.actions)
	s.give(id)
}

func (s *Station) reply(r Reply) { s.replies = append(s.replies, r) }

// take returns the ID of a free entry.
func (s *Station) take() uint64 {
	if n := len(s.unused); n > 0 {
		id := s.unused[n-1]
		s.unused = s.unused[:n-1]
		return id
	}
	s.entries = append(s.entries, new(entry))
	return uint64(len(s.entries) - 1)
}

func (s *Station) give(id uint64) { s.unused = append(s.unused, id) }

// Gate returns the gate, for its statistics.
func (s *Station) Gate() *control.Gate { return s.gate }

// Machine returns the machine, for its sensors.
func (s *Station) Machine() *machine.Machine { return s.machine }
