package guard

import (
	"context"
	"sync"

	"spillway/clock"
	"spillway/control"
)

// Semaphore is a control.Section for goroutines: a stretch of work that few may be in at once, such as what is bound by memory bandwidth.
//
//	if err := s.WaitIfUncongested(ctx); err != nil {
//		return err
//	}
//	defer s.Post()
//
// When ctx comes from a Guard, the waiting that its request has borne before counts against its budget, and what it waits here is added.
// Ticket.Enter does the same and sees to it that the place is given back.
type Semaphore struct {
	places *places
	ticker *ticker // nil when a Guard ticks the section
}

// NewSemaphore returns a Semaphore around s, which it owns from now on. Only control.Section's own rules are asked of s, except that it may not
// tell those who leave apart. When s is a controller as well, like memsem's, it is ticked by a goroutine, which ends with Close, and is told
// what sensor shows; c must run at the pace of real time. sensor may be nil for a section that does not learn; it panics when one that
// does would have nothing to learn from.
func NewSemaphore(s control.Section, c clock.Clock, sensor Sensor) *Semaphore {
	if learns(s) && sensor == nil {
		panic("guard: " + errNoSensor.Error())
	}
	mu := new(sync.Mutex)
	semaphore := &Semaphore{places: newPlaces(s, c, mu)}
	if controller, ok := s.(control.Controller); ok {
		semaphore.ticker = startTicker(c, func() clock.Instant {
			var g control.Signals
			if sensor != nil {
				g.MemBytes, g.MemAt = sensor.MemBytes(c.Now())
			}
			mu.Lock()
			defer mu.Unlock()
			return controller.Tick(c.Now(), g)
		})
	}
	return semaphore
}

// learns reports whether s is a section that finds its size by what a memory sensor shows.
func learns(s control.Section) bool {
	l, ok := s.(interface{ Learns() bool })
	return ok && l.Learns()
}

// TryWait goes in if that is possible at once, and returns whether it is.
func (s *Semaphore) TryWait() bool {
	_, err := s.places.enter(context.Background(), control.Request{}, control.Try)
	return err == nil
}

// Wait waits until there is a place. An error is that of ctx, or ErrClosed.
func (s *Semaphore) Wait(ctx context.Context) error { return s.places.wait(ctx, control.WaitMode) }

// WaitIfUncongested waits until there is a place, unless that would take longer than the request's budget allows: then it returns an
// *Overloaded at once. Outside of a Guard there is no budget, and it waits.
func (s *Semaphore) WaitIfUncongested(ctx context.Context) error {
	return s.places.wait(ctx, control.WaitWithinBudget)
}

// Post gives a place back. It panics when nobody is inside.
func (s *Semaphore) Post() { s.places.leave() }

// Close turns away those who wait, and everyone who comes later, with ErrClosed, and ends the periodic work. Those inside may still
// leave. Close may be called more than once.
func (s *Semaphore) Close() {
	if s.places.close() && s.ticker != nil {
		s.ticker.stop()
	}
}

// Meters returns what the section shows of itself, such as its capacity "memsem"; nil if nothing.
func (s *Semaphore) Meters() map[string]float64 {
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	return meters(s.places.section)
}

func meters(of any) map[string]float64 {
	m, ok := of.(control.Meter)
	if !ok {
		return nil
	}
	list := make(map[string]float64)
	for name, value := range m.Meters() {
		list[name] = value
	}
	return list
}
