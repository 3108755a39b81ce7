package guard

import (
	"context"
	"sync"

	"spillway/clock"
	"spillway/control"
)

// Mutex is a lock with a managed queue (package control/aqm): a request that would wait for it longer than its budget allows is refused
// before it waits. It is handed over first in, first out.
//
//	if err := m.LockIfUncongested(ctx); err != nil {
//		return err
//	}
//	defer m.Unlock()
//
// As with a Semaphore, ctx says whose budget and waiting it is, and Ticket.Lock sees to it that the lock is given back.
type Mutex struct{ places *places }

// NewMutex returns a lock whose queue is s, a section of one place such as aqm.NewLock returns. It owns s from now on.
func NewMutex(s control.Section, c clock.Clock) *Mutex {
	return &Mutex{newPlaces(s, c, new(sync.Mutex))}
}

// TryLock takes the lock if it is free, and returns whether it was.
func (m *Mutex) TryLock() bool {
	_, err := m.places.enter(context.Background(), control.Request{}, control.Try)
	return err == nil
}

// Lock waits until the lock is free. An error is that of ctx.
func (m *Mutex) Lock(ctx context.Context) error { return m.places.wait(ctx, control.WaitMode) }

// LockIfUncongested waits until the lock is free, unless its queue says that it would take too long: then it returns an *Overloaded at once.
func (m *Mutex) LockIfUncongested(ctx context.Context) error {
	return m.places.wait(ctx, control.WaitWithinBudget)
}

// Unlock gives the lock back. It panics when nobody has it.
func (m *Mutex) Unlock() { m.places.leave() }
