// Package guard puts overload control in front of goroutines: Acquire blocks until the request may be served, or returns an error
// when it is turned away. It is the face of a control.Gate for services that are not written as a state machine.
//
//	g := guard.New(control.NewGate(aqm.NewCoDel(aqm.DefaultCoDel()), control.GateConfig{Slots: 8}), clock.NewReal(), nil)
//	defer g.Close()
//
//	done, err := g.Acquire(ctx, control.Request{})
//	if err != nil {
//		return err // *guard.Overloaded, or the error of ctx
//	}
//	defer done(false)
//
// Handler does the same around an http.Handler.
package guard

import (
	"context"
	"errors"
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
)

// ErrClosed is returned by Acquire when the Guard has been closed.
var ErrClosed = errors.New("guard: closed")

// Overloaded is the error of a request that was turned away. Retrying at once makes the overload worse.
type Overloaded struct {
	Reason control.Reason
}

func (e *Overloaded) Error() string { return "guard: overloaded: " + e.Reason.String() }

// minPause bounds how often a controller's periodic work is done. A controller that asks to be called at once again must not keep a
// core busy; timers are no more precise than this anyway.
const minPause = 100 * time.Microsecond

// Guard is a control.Gate for goroutines. All its methods are safe for concurrent use.
type Guard struct {
	clock   clock.Clock
	sensors func() control.Signals
	closing chan struct{}
	ticking sync.WaitGroup

	// mu guards the gate and its controller, and whatever belongs to both. It is the only lock in this package, never held while
	// a request is served. The clock is read under it, so that the gate sees instants in order.
	mu struct {
		sync.Mutex
		gate    *control.Gate
		callers map[uint64]*caller // those whose request is neither started nor refused, by Request.ID
		lastID  uint64
		actions []control.Action // room for what the gate returns, used again and again
		closed  bool
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
	done    bool
}

// New returns a Guard around gate, which it owns from now on, together with the gate's controller. c must run at the pace of real
// time. sensors, which may be nil, reads what the controller is told at each tick; it is called without locks, from one goroutine.
//
// A controller with periodic work gets a goroutine for it, which ends with Close.
func New(gate *control.Gate, c clock.Clock, sensors func() control.Signals) *Guard {
	g := &Guard{clock: c, sensors: sensors, closing: make(chan struct{})}
	g.mu.gate = gate
	g.mu.callers = make(map[uint64]*caller)
	if next := g.tick(); next != clock.Never {
		g.ticking.Add(1)
		go g.tickUntilClosed(next)
	}
	return g
}

// Acquire waits until r may be served. The caller then serves it and calls done, with true when it failed; until then r occupies a slot.
// Only the first call of done counts, so `defer done(true)` may precede a done(false) on success.
//
// An error is an *Overloaded when r was turned away, the error of ctx when that ended first, or ErrClosed. The deadline of ctx also
// becomes r's, unless r has its own. r.ID is chosen by the Guard.
func (g *Guard) Acquire(ctx context.Context, r control.Request) (done func(failed bool), err error) {
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
	return func(failed bool) { g.finish(c, failed) }, nil
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
	close(g.closing)
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
	g.mu.Unlock()
	g.ticking.Wait()
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
	g.mu.lastID++
	r.ID = g.mu.lastID
	g.mu.callers[r.ID] = c
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

func (g *Guard) finish(c *caller, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.done {
		return
	}
	c.done = true
	now := g.clock.Now()
	g.apply(now, g.mu.gate.Finish(now, c.request, now.Sub(c.began), failed, g.mu.actions[:0]))
}

// apply does what the gate asks for. It is called with mu held.
func (g *Guard) apply(now clock.Instant, actions []control.Action) {
	for _, a := range actions {
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
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	actions, next := g.mu.gate.Tick(now, s, g.mu.actions[:0])
	g.apply(now, actions)
	return next
}

// tickUntilClosed does the periodic work, first at next, until it is over or the Guard is closed.
func (g *Guard) tickUntilClosed(next clock.Instant) {
	defer g.ticking.Done()
	timer := time.NewTimer(g.pause(next))
	defer timer.Stop()
	for {
		select {
		case <-g.closing:
			return
		case <-timer.C:
		}
		if next = g.tick(); next == clock.Never {
			return
		}
		timer.Reset(g.pause(next))
	}
}

func (g *Guard) pause(next clock.Instant) time.Duration {
	return max(minPause, next.Sub(g.clock.Now()))
}
