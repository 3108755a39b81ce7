// Package guard puts overload control in front of goroutines, for services that are not written as state machines: whoever has to wait
// blocks, and whoever is turned away gets an error.
//
// A name and settings make a whole control (package catalog), and NewFromStack puts it in front of a service:
//
//	stack, err := catalog.New("svalinn", nil, catalog.Env{Cores: runtime.GOMAXPROCS(0), SLO: 50 * time.Millisecond})
//	…
//	var moved guard.Accounted // bytes that handlers say they have moved
//	g, err := guard.NewFromStack(stack, guard.Config{Gate: control.GateConfig{Slots: 64}, Memory: &moved})
//	…
//	defer g.Close()
//
// A request is let in at the front, and enters the memory section around the part of its work that memory bandwidth bounds:
//
//	t, err := g.Begin(ctx, control.Request{})
//	if err != nil {
//		return err // *guard.Overloaded, or the error of ctx
//	}
//	defer t.Done(true) // counts only if we do not get to the end
//	leave, err := t.Memory()
//	if err != nil {
//		return err // dropped halfway: the section is full
//	}
//	defer leave()
//	moved.Add(scan(table))
//	t.Done(false)
//
// Handler does the first half of it around an http.Handler, whose code finds the Ticket by TicketFrom. Programs that do all this are in
// examples/. Where a controller is enough, New and Acquire do with a control.Gate:
//
//	g := guard.New(control.NewGate(aqm.NewCoDel(aqm.DefaultCoDel()), control.GateConfig{Slots: 8}), clock.NewReal(), nil)
//	defer g.Close()
//	done, err := g.Acquire(ctx, control.Request{})
//	if err != nil {
//		return err
//	}
//	defer done(false)
//
// Semaphore and Mutex are sections by themselves, for services that want nothing else.
//
// # Slots
//
// Controllers judge by the queueing delay, which is the age of the oldest who waits for a slot: without a bound on slots nobody waits, and
// nothing is turned away at the front. A few slots for each core are right where handlers block on I/O now and then, one where they compute.
//
// # Credits
//
// Svalinn, Protego and Breakwater hand out credits, by which clients hold back what the server could not do anyway. That takes clients with
// a wallet. Over HTTP they are those that send by a Transport: Handler tells them of their credits with every reply.
//
//	t := guard.NewTransport(nil, stack.NewClient) // of the same name and settings as the server's
//	defer t.Close()
//	client := &http.Client{Transport: t}
//
// Whoever else calls Begin or Acquire, or sends to Handler, holds no credits and is served all the same. Where nobody has a wallet, the pool of
// credits stays what it is at first, a credit for each core, and its law has nothing to decide: what acts then are the delay budget at
// the front, the one at locks (NewMutex), and the memory section. Under Breakwater that is the front alone.
//
// By default a request waits 10 µs for a credit, as published for networks and services of that order; set client_delay to what yours can bear.
// A credit is shared out in whole ones, so with fewer clients than cores a larger client_delay is what keeps bursts from being refused.
package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
)

// ErrClosed is returned by Acquire when the Guard has been closed.
var ErrClosed = errors.New("guard: closed")

// Overloaded is the error of a request that was turned away. Retrying at once makes the overload worse.
type Overloaded struct {
	Reason control.Reason
}

func (e *Overloaded) Error() string { return "guard: overloaded: " + e.Reason.String() }

// Guard is a control.Gate for goroutines. All its methods are safe for concurrent use.
type Guard struct {
	clock   clock.Clock
	sensors func() control.Signals
	sensor  Sensor // of memory traffic; nil when sensors has it
	ticker  *ticker
	budget  time.Duration // of requests that have none of their own
	memory  *Semaphore
	mode    control.Mode // of memory
	newLock func() control.Section

	// mu guards the gate and its controller, with the memory section, which the controller ticks. It is never held while a request is
	// served. The clock is read under it, so that the gate sees instants in order.
	mu struct {
		sync.Mutex
		gate    *control.Gate
		meter   control.Controller // whose Meters shows; nil when it is not known
		callers map[uint64]*caller // those whose request is neither started nor refused, by Request.ID
		lastID  uint64
		actions []control.Action // room for what the gate returns, used again and again
		closed  bool
		parties parties // clients with a wallet
	}
}

// caller is one call of Acquire. Its fields are written under Guard.mu; those that the caller reads without it are written before
// settled is closed.
type caller struct {
	settled chan struct{} // made when it has to wait, closed when the request has been started or refused
	place   control.Place // where it waits
	err     error         // why it was refused; nil when it was started
	request control.Request
	began   clock.Instant // when it was started
}

// Config says how a Guard is made from a control.Stack.
type Config struct {
	Gate  control.GateConfig
	Clock clock.Clock // must run at the pace of real time; nil for a new clock.Real

	// Sensors reads what the controller is told at each tick; nil for a controller that needs nothing but the queueing delay. A Guard cannot tell
	// an idle core from a busy one, so that is the age of the oldest who waits to be let in, or what Sensors says if it is more. It is
	// called without locks, from one goroutine.
	Sensors func() control.Signals

	// Memory is what the size of the stack's memory section is judged by; nil when Sensors has it, or nothing needs it.
	Memory Sensor
}

var errNoSensor = errors.New("the memory section finds its size by the bytes that move, and nothing tells how many do; " +
	"give it a Sensor, or set section to off or bandit to fixed")

// NewFromStack returns a Guard of a whole overload control, as catalog.New makes them. Its memory section is entered by Ticket.Memory, its locks are made by
// NewMutex, and its budget is that of each request without one. What a stack has for clients is for a Transport. The error is about
// a memory section that would learn from a sensor that is not there.
func NewFromStack(s control.Stack, c Config) (*Guard, error) {
	if s.Memory != nil && learns(s.Memory) && c.Memory == nil && c.Sensors == nil {
		return nil, fmt.Errorf("guard: %w", errNoSensor)
	}
	if c.Clock == nil {
		c.Clock = clock.NewReal()
	}
	return start(s, control.NewGate(s.Controller, c.Gate), c), nil
}

// New returns a Guard around gate, which it owns from now on, together with the gate's controller. c must run at the pace of real
// time. sensors, which may be nil, reads what the controller is told at each tick; it is called without locks, from one goroutine.
//
// A controller with periodic work gets a goroutine for it, which ends with Close.
func New(gate *control.Gate, c clock.Clock, sensors func() control.Signals) *Guard {
	return start(control.Stack{}, gate, Config{Clock: c, Sensors: sensors})
}

func start(s control.Stack, gate *control.Gate, c Config) *Guard {
	g := &Guard{clock: c.Clock, sensors: c.Sensors, sensor: c.Memory, budget: s.Budget, mode: s.Mode, newLock: s.NewLock}
	g.mu.gate, g.mu.meter = gate, s.Controller
	g.mu.callers = make(map[uint64]*caller)
	g.mu.parties = newParties(s.Controller)
	if s.Memory == nil {
		s.Memory = everybody{}
	}
	g.memory = &Semaphore{places: newPlaces(s.Memory, c.Clock, &g.mu.Mutex)}
	if g.newLock == nil {
		g.newLock = func() control.Section { return aqm.NewLock(aqm.LockConfig{Policy: control.LockOff}) }
	}
	g.ticker = startTicker(c.Clock, g.tick)
	return g
}

// NewMutex returns a lock whose queue is managed as the Guard's stack says.
func (g *Guard) NewMutex() *Mutex { return NewMutex(g.newLock(), g.clock) }

// Acquire waits until r may be served. The caller then serves it and calls done, with true when it failed; until then r occupies a slot.
// Only the first call of done counts, so `defer done(true)` may precede a done(false) on success.
//
// An error is an *Overloaded when r was turned away, the error of ctx when that ended first, or ErrClosed. The deadline of ctx also
// becomes r's, unless r has its own, and so does the budget of the Guard's stack. r.ID is chosen by the Guard.
func (g *Guard) Acquire(ctx context.Context, r control.Request) (done func(failed bool), err error) {
	t, err := g.Begin(ctx, r)
	if err != nil {
		return nil, err
	}
	return t.Done, nil
}

// Begin is Acquire for handlers that may wait or be dropped halfway: the Ticket lets them enter sections and keeps what they hold. It is
// ended by its Done. Functions that are given its Context find it with TicketFrom.
func (g *Guard) Begin(ctx context.Context, r control.Request) (*Ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := g.arrive(ctx, r)
	if err != nil {
		return nil, err
	}
	if c.settled != nil {
		if err := g.wait(ctx, c, r.Deadline); err != nil {
			return nil, err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	t := &Ticket{guard: g, began: c.began}
	t.mu.request = c.request
	t.ctx = context.WithValue(ctx, ticketKey{}, t)
	return t, nil
}

// wait returns nil when c has been started or refused, and an error when it was withdrawn because its deadline or ctx came first. A
// grant may win against either in the last moment: the slot is then passed on to the caller, who gives it back by calling done, as always.
func (g *Guard) wait(ctx context.Context, c *caller, deadline clock.Instant) error {
	var expired <-chan time.Time
	if deadline != 0 {
		// The Gate counts a request as expired after its deadline, not at it.
		timer := time.NewTimer(deadline.Sub(g.clock.Now()) + 1)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-c.settled:
	case <-ctx.Done():
		if g.withdraw(c) {
			return ctx.Err()
		}
	case <-expired:
		if g.withdraw(c) {
			return &Overloaded{control.Expired}
		}
	}
	return nil
}

// Meters returns what the controller of the Guard's stack shows of itself, such as "credits" or "memsem"; nil if nothing.
func (g *Guard) Meters() map[string]float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return meters(g.mu.meter)
}

// With calls f while nobody else asks or tells the controller anything, for controllers that are also told from outside, such as one that is
// granted rates. f must not call the Guard's methods.
func (g *Guard) With(f func(now clock.Instant)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g.clock.Now())
}

// QueueDelay returns the age of the oldest request that waits to be served, 0 when none does.
func (g *Guard) QueueDelay() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.gate.QueueDelay(g.clock.Now())
}

// Stats returns the counts of the gate.
func (g *Guard) Stats() control.Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.gate.Stats()
}

// Close turns away those who wait, and everyone who comes later, with ErrClosed, and ends the periodic work. Requests in service
// may still finish. Close may be called more than once.
func (g *Guard) Close() {
	g.mu.Lock()
	if g.mu.closed {
		g.mu.Unlock()
		return
	}
	g.mu.closed = true
	now := g.clock.Now()
	for id, c := range g.mu.callers {
		removed, actions := g.mu.gate.Withdraw(now, c.place, g.mu.actions[:0])
		if removed {
			delete(g.mu.callers, id)
			c.err = ErrClosed
			close(c.settled)
		}
		g.apply(now, actions)
	}
	g.mu.parties.close()
	g.mu.Unlock()
	g.ticker.stop()
}

// arrive hands r to the gate. The caller it returns is settled already when it has no channel to wait on.
func (g *Guard) arrive(ctx context.Context, r control.Request) (*caller, error) {
	c := new(caller)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return nil, ErrClosed
	}
	now := g.clock.Now()
	if end, ok := ctx.Deadline(); ok && r.Deadline == 0 {
		r.Deadline = max(1, now.Add(time.Until(end))) // 0 would be no deadline
	}
	if r.Budget == 0 {
		r.Budget = g.budget
	}
	g.mu.lastID++
	r.ID = g.mu.lastID
	g.mu.callers[r.ID] = c
	r.QueueDelay = max(r.QueueDelay, g.mu.gate.QueueDelay(now))
	g.apply(now, g.mu.gate.Arrive(now, r, g.mu.actions[:0]))
	return c, nil
}

// withdraw takes c out of the queue; it returns false when c has been settled already.
func (g *Guard) withdraw(c *caller) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	removed, actions := g.mu.gate.Withdraw(now, c.place, g.mu.actions[:0])
	if removed {
		delete(g.mu.callers, c.request.ID)
	}
	g.apply(now, actions)
	return removed
}

// finish ends r, which was started at began.
func (g *Guard) finish(began clock.Instant, r control.Request, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	g.apply(now, g.mu.gate.Finish(now, r, now.Sub(began), failed, g.mu.actions[:0]))
}

// apply does what the gate asks for. It is called with mu held.
func (g *Guard) apply(now clock.Instant, actions []control.Action) {
	for _, a := range actions {
		if a.Kind == control.Credit {
			g.mu.parties.wake(&a)
			continue
		}
		c := g.mu.callers[a.Request.ID]
		c.request = a.Request
		switch a.Kind {
		case control.Queue:
			c.place = a.Place
			c.settled = make(chan struct{})
			continue
		case control.Start:
			c.began = now
		case control.Refuse:
			c.err = &Overloaded{a.Reason}
		}
		delete(g.mu.callers, a.Request.ID)
		if c.settled != nil {
			close(c.settled)
		}
	}
	g.mu.actions = actions[:0]
}

// tick does the controller's periodic work and returns when it is due again.
func (g *Guard) tick() clock.Instant {
	var s control.Signals
	if g.sensors != nil {
		s = g.sensors()
	}
	if g.sensor != nil {
		s.MemBytes, s.MemAt = g.sensor.MemBytes(g.clock.Now())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	s.QueueDelay = max(s.QueueDelay, g.mu.gate.QueueDelay(now))
	actions, next := g.mu.gate.Tick(now, s, g.mu.actions[:0])
	g.apply(now, actions)
	return next
}
