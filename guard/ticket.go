package guard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
)

// Ticket is a request that has been admitted, as its handler sees it. It keeps what the request holds, so that nothing stays held when it is
// dropped halfway, by whomever.
//
// A request is dropped when a section refuses it (Enter, Memory, Lock), when its context ends while it waits there, when Check finds its budget
// or its context at an end, when Drop says so, and when it fails after its context has ended. Then, once and at once, what it holds
// is given back and what OnDrop registered is called, last things first. What is left to the handler is to return.
//
// The methods are safe for concurrent use by the goroutines of one request.
type Ticket struct {
	guard *Guard
	ctx   context.Context
	began clock.Instant // when it was started

	// mu guards what follows. The Guard's lock and those of sections are never taken under it.
	mu struct {
		sync.Mutex
		request control.Request
		undo    []*undo
		why     error // of the drop; nil while it has not been dropped
		done    bool
	}
}

// undo is one thing to do when the request is dropped.
type undo struct {
	run    func()
	place  bool // gives back a place in a section, which has to be done in any case
	called bool
}

type ticketKey struct{}

// TicketFrom returns the ticket of the request that ctx belongs to; ok is false when no Guard has admitted it.
func TicketFrom(ctx context.Context) (t *Ticket, ok bool) {
	t, ok = ctx.Value(ticketKey{}).(*Ticket)
	return t, ok
}

// Context returns the context that the request came with, from which TicketFrom gets the ticket again.
func (t *Ticket) Context() context.Context { return t.ctx }

// Request returns the request, with what it has waited so far.
func (t *Ticket) Request() control.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.request
}

// AddWait adds to the waiting of the request: for a connection of a pool, say, or a lock that Spillway does not know.
func (t *Ticket) AddWait(d time.Duration) {
	if d <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.request.Waited += d
}

// OnDrop has f called if the request is dropped halfway. The function it returns calls f now, for a handler that gets to the end:
//
//	defer t.OnDrop(func() { pool.Put(buffer) })()
//
// In either case f is called exactly once. If the request has been dropped already, f is called at once.
func (t *Ticket) OnDrop(f func()) (now func()) {
	return t.register(&undo{run: f})
}

// register keeps u until it is called, by a drop or by the function returned.
func (t *Ticket) register(u *undo) (now func()) {
	t.mu.Lock()
	over := t.mu.why != nil || t.mu.done
	if !over {
		t.mu.undo = append(t.mu.undo, u)
	}
	t.mu.Unlock()
	if over {
		t.call(u)
		return func() {}
	}
	return func() { t.call(u) }
}

// call calls u unless that has been done, and forgets it.
func (t *Ticket) call(u *undo) {
	t.mu.Lock()
	called := u.called
	u.called = true
	if i := slices.Index(t.mu.undo, u); i >= 0 {
		t.mu.undo = slices.Delete(t.mu.undo, i, i+1)
	}
	t.mu.Unlock()
	if !called {
		u.run()
	}
}

// callAll calls what is in list, from the last to the first. One that panics does not keep the others from it.
func (t *Ticket) callAll(list []*undo) {
	if len(list) == 0 {
		return
	}
	last := len(list) - 1
	defer t.callAll(list[:last])
	t.call(list[last])
}

// Spent reports whether the request has waited longer than its budget.
func (t *Ticket) Spent() bool {
	r := t.Request()
	return aqm.Violated(&r)
}

// Check is for handlers that take long: it drops the request when its budget is spent or its context has ended, and returns why. It returns
// nil when there is reason to go on.
func (t *Ticket) Check() error {
	switch err := t.ctx.Err(); {
	case t.Err() != nil:
		return t.Err()
	case err != nil:
		return t.drop(err)
	case t.Spent():
		return t.drop(&Overloaded{control.Cancelled})
	}
	return nil
}

// Drop drops the request for a reason of the handler's own, and returns the error that says so.
func (t *Ticket) Drop(why control.Reason) error { return t.drop(&Overloaded{why}) }

// Err returns why the request was dropped, nil if it has not been: an *Overloaded or the error of its context.
func (t *Ticket) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.why
}

// drop returns why the request was dropped first.
func (t *Ticket) drop(why error) error {
	t.mu.Lock()
	if t.mu.why != nil || t.mu.done {
		defer t.mu.Unlock()
		return cmp.Or(t.mu.why, why)
	}
	t.mu.why = why
	list := slices.Clone(t.mu.undo)
	t.mu.Unlock()
	t.callAll(list)
	return why
}

// Memory enters the memory section of the Guard's stack, in the mode that its settings say; without one everybody may enter.
func (t *Ticket) Memory() (leave func(), err error) {
	return t.enter(t.guard.memory.places, t.guard.mode)
}

// Enter enters s. The place is given back by leave, or when the request ends or is dropped.
func (t *Ticket) Enter(s *Semaphore, m control.Mode) (leave func(), err error) {
	return t.enter(s.places, m)
}

// Lock takes m, unless its queue says that it would take longer than the budget of the request allows. The lock is given back by unlock, or
// when the request ends or is dropped.
func (t *Ticket) Lock(m *Mutex) (unlock func(), err error) {
	return t.enter(m.places, control.WaitWithinBudget)
}

func (t *Ticket) enter(p *places, m control.Mode) (leave func(), err error) {
	if err := t.Err(); err != nil {
		return nil, err
	}
	waited, err := p.enter(t.ctx, t.Request(), m)
	t.AddWait(waited)
	if err != nil {
		return nil, t.drop(err)
	}
	leave = t.register(&undo{run: p.leave, place: true})
	if err := t.Err(); err != nil {
		return nil, err // another goroutine dropped the request meanwhile, and the place with it
	}
	return leave, nil
}

// Done ends the request; failed says that it was not served. What it still holds is given back. Only the first call counts, so
// `defer t.Done(true)` may precede a t.Done(false) on success.
func (t *Ticket) Done(failed bool) {
	if err := t.ctx.Err(); failed && err != nil {
		t.drop(err)
	}
	t.mu.Lock()
	if t.mu.done {
		t.mu.Unlock()
		return
	}
	t.mu.done = true
	request, dropped := t.mu.request, t.mu.why != nil
	held := slices.DeleteFunc(slices.Clone(t.mu.undo), func(u *undo) bool { return !u.place })
	t.mu.Unlock()
	defer t.guard.finish(t.began, request, failed || dropped)
	t.callAll(held)
}
