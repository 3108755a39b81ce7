// Package station puts a control.Gate in front of a machine.Machine: the whole server of the modelled grounds, without its network.
//
// The simulator drives a Station with virtual time, a server on the model ground with the stretched clock; both are told the
// instants of what happens and neither observes any. Nothing here knows which of the two it is.
package station

import (
	"fmt"
	"math"
	"slices"
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

	// LockQueues stand in for the machine's own queues of locks, by the index of the lock: sections of one place each, which may refuse
	// whoever would have to wait too long. Where one is nil or missing, everybody waits.
	LockQueues []control.Section
}

// Section is a control.Section and how requests enter it. With a nil Section everybody may enter.
type Section struct {
	control.Section
	Mode control.Mode
}

// Memory is the number of the section that a control.Stack's memory section is.
const Memory = 0

// Sections returns n sections: the memory section of s, and others that let everybody in.
func Sections(s control.Stack, n int) []Section {
	list := make([]Section, n)
	if n > Memory && s.Memory != nil {
		list[Memory] = Section{Section: s.Memory, Mode: s.Mode}
	}
	return list
}

// LockQueues returns the queues of n locks under s.
func LockQueues(s control.Stack, n int) []control.Section {
	if s.NewLock == nil {
		return nil
	}
	list := make([]control.Section, n)
	for i := range list {
		list[i] = s.NewLock()
	}
	return list
}

// Reply is the end of a request at the server.
type Reply struct {
	Token   uint64         // what Arrive was given
	Reason  control.Reason // control.NoReason when the request was served
	Queued  time.Duration  // arrival to first core, or to refusal
	Service time.Duration  // first core to the end
	Started bool           // it got that far; it may have been dropped afterwards
	Client  uint32
	Credits int32 // what the client is to be told; -1 for nothing
	Poll    bool  // the answer to a question: Token is what Poll was given
}

// Station serves requests. It is not safe for concurrent use, and allocates nothing once it has seen its peak of requests in flight.
type Station struct {
	config  Config
	gate    *control.Gate
	issuer  control.Issuer // the controller, if it is one
	machine *machine.Machine
	tick    clock.Instant
	polls   control.Polls
	answers []control.Answer
	locks   int // index of the first lock's queue in Config.Sections

	entries []*entry // by control.Request.ID
	unused  []uint64 // IDs of entries that are free

	level   [1]control.Level
	actions []control.Action
	events  []machine.Event
	replies []Reply
}

// entry is one request in flight.
type entry struct {
	job     machine.Job
	request control.Request
	token   uint64
	waited  time.Duration // until the Gate started it
	demand  bool          // its client said how much it would like to send
	inside  [2]uint64     // sections it is in, a bit each
}

// maxSections is what entry.inside has room for.
const maxSections = 128

func (e *entry) enter(section uint16) { e.inside[section/64] |= 1 << (section % 64) }
func (e *entry) leave(section uint16) { e.inside[section/64] &^= 1 << (section % 64) }

func (e *entry) in(section int) bool { return e.inside[section/64]&(1<<(section%64)) != 0 }

// NoDemand says that a request does not carry its client's demand, as most clients' do not.
const NoDemand = -1

// New returns an idle Station. The first tick of the controller is at 0.
func New(c Config) *Station {
	s := &Station{
		gate:    control.NewGate(c.Controller, c.Gate),
		machine: machine.New(c.Machine, c.Locks),
		locks:   len(c.Sections),
	}
	s.issuer, _ = c.Controller.(control.Issuer)
	c.Sections = slices.Clone(c.Sections)
	for _, q := range c.LockQueues {
		c.Sections = append(c.Sections, Section{Section: q, Mode: control.WaitWithinBudget})
	}
	if len(c.Sections) > maxSections {
		panic(fmt.Sprintf("station: %d sections and locks, at most %d are supported", len(c.Sections), maxSections))
	}
	s.config = c
	return s
}

// Arrive brings a request that the server has read at now. Its steps are copied. ID, Arrived and QueueDelay of r are set here; the Reply
// that ends the request carries token. demand is how many more its client would like to send; NoDemand if it does not say. The replies
// returned are valid until the next call.
func (s *Station) Arrive(now clock.Instant, r control.Request, steps []machine.Step, token uint64, demand int) []Reply {
	s.begin()
	if s.machine.Dead() {
		return nil
	}
	r.ID, r.QueueDelay = s.take(), s.QueueDelay(now)
	e := s.entries[r.ID]
	e.token, e.inside, e.waited = token, [2]uint64{}, 0
	e.demand = demand >= 0 && s.issuer != nil
	e.job.ID = r.ID
	e.job.Steps = s.withQueues(e.job.Steps[:0], steps)
	if e.demand {
		s.issuer.Demand(now, r.Client, demand)
	}
	s.actions = s.gate.Arrive(now, r, s.actions)
	return s.settle(now)
}

// withQueues appends steps to dst, with the locks that have a queue of their own written as sections.
func (s *Station) withQueues(dst, steps []machine.Step) []machine.Step {
	for i := range steps {
		step := &steps[i]
		if step.Kind != machine.Lock || int(step.Index) >= len(s.config.LockQueues) || s.config.LockQueues[step.Index] == nil {
			dst = append(dst, *step)
			continue
		}
		section := uint16(s.locks) + step.Index
		dst = append(dst, machine.Step{Kind: machine.Enter, Index: section},
			machine.Step{Kind: machine.Compute, Duration: step.Duration}, machine.Step{Kind: machine.Leave, Index: section})
	}
	return dst
}

// Poll brings a client's question whether it may send one of demand requests. The Reply to it, now or later, carries token; its Poll
// is true. Where no controller hands out credits the answer comes at once, without any.
func (s *Station) Poll(now clock.Instant, client uint32, demand int, token uint64) []Reply {
	s.begin()
	if s.issuer == nil {
		s.reply(Reply{Token: token, Client: client, Credits: -1, Poll: true})
		return s.replies
	}
	s.answers = s.polls.Ask(now, s.issuer, client, demand, token, s.answers[:0])
	for _, a := range s.answers {
		s.reply(Reply{Token: a.Token, Client: a.Client, Credits: int32(a.Credits), Poll: true})
	}
	return s.settle(now)
}

// Forget takes note that the connection of client is gone. A question of it that is still open has no answer any more; its token is
// returned with open true. Its requests are served to their end, as no server knows better while it is at work. What it held may go to
// others who have asked: the replies, valid until the next call, are the answers to their questions.
func (s *Station) Forget(now clock.Instant, client uint32) (question uint64, open bool, _ []Reply) {
	s.begin()
	question, open = s.polls.Drop(client)
	if s.issuer != nil {
		s.issuer.Forget(now, client)
		s.actions = s.issuer.Wake(now, s.actions)
	}
	return question, open, s.settle(now)
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
		MemAt:      now,
		Levels:     s.levels(),
	}
}

// LevelMemory is the level of the machine's RAM that requests hold, as a share of what there is.
const LevelMemory = "memory"

// levels is how full the machine is of what it can run out of.
func (s *Station) levels() []control.Level {
	ram := s.config.Machine.RAM
	if ram == 0 {
		return nil
	}
	s.level[0] = control.Level{Name: LevelMemory, Used: float64(s.machine.RAM()) / float64(ram)}
	return s.level[:]
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
		e.request, e.waited = a.Request, a.Request.Waited
		s.events = s.machine.Submit(now, &e.job, s.events)
	case control.Refuse:
		e := s.entries[a.Request.ID]
		s.reply(Reply{
			Token: e.token, Reason: a.Reason, Queued: now.Sub(a.Request.Arrived), Client: a.Request.Client, Credits: s.credits(now, e, &a.Request),
		})
		s.give(a.Request.ID)
	case control.Resume:
		e := s.entries[a.Request.ID]
		e.enter(e.job.Step().Index)
		s.events = s.machine.Continue(now, &e.job, s.events)
	case control.Credit:
		if answer, ok := s.polls.Tell(&a); ok {
			s.reply(Reply{Token: answer.Token, Client: answer.Client, Credits: int32(answer.Credits), Poll: true})
		}
	case control.Queue: // nothing needs to be done
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
	section := s.config.Sections[step.Index]
	e.request.Waited = e.waited + e.job.Waited()
	if step.Kind == machine.Leave {
		if section.Section != nil {
			s.actions = section.Leave(now, &e.request, s.actions)
		}
		e.leave(step.Index)
		s.events = s.machine.Continue(now, &e.job, s.events)
		return
	}
	decision := control.Decision{Verdict: control.Admit}
	if section.Section != nil {
		decision = section.Enter(now, &e.request, section.Mode)
	}
	switch decision.Verdict {
	case control.Admit:
		e.enter(step.Index)
		s.events = s.machine.Continue(now, &e.job, s.events)
	case control.Wait:
		s.events = s.machine.Park(now, &e.job, s.events)
	case control.Reject:
		s.events = s.machine.Drop(now, &e.job, s.events)
		// It may be refused at a section inside another: what it holds goes back.
		for i := range s.config.Sections {
			if e.in(i) && s.config.Sections[i].Section != nil {
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
	e.request.Waited = e.waited + e.job.Waited()
	s.actions = s.gate.Finish(now, e.request, service, why != control.NoReason, s.actions)
	s.reply(Reply{
		Token: e.token, Reason: why, Queued: began.Sub(e.request.Arrived), Service: service, Started: true,
		Client: e.request.Client, Credits: s.credits(now, e, &e.request),
	})
	s.give(e.request.ID)
}

// credits returns what the reply to a request says of credits: nothing unless the request asked.
func (s *Station) credits(now clock.Instant, e *entry, r *control.Request) int32 {
	if !e.demand {
		return -1
	}
	n := s.issuer.Credits(now, r.Client)
	// It may be told of fewer than it had, and then somebody else can have some. The Gate has asked whom to wake before this.
	s.actions = s.issuer.Wake(now, s.actions)
	return int32(min(n, math.MaxInt32))
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
