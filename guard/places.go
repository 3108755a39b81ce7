package guard

import (
	"context"
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
)

// places is a control.Section for goroutines: who has to wait blocks.
type places struct {
	clock clock.Clock

	// mu guards the section and everything below. The memory section of a Guard shares the Guard's, because the Guard's controller ticks
	// it. It is not held while anybody is inside.
	mu      *sync.Mutex
	section control.Section
	waiters map[uint64]*waiter // by Request.ID
	lastID  uint64
	actions []control.Action // room for what the section returns
	entered control.Request  // what it is shown; a field, because a local one would be allocated at each call
	closed  bool
}

// waiter is a goroutine that waits for its place. Its fields are written under mu, and read by the waiter after settled is closed.
type waiter struct {
	id        uint64
	began     clock.Instant
	settled   chan struct{}
	waited    time.Duration // this time
	err       error         // ErrClosed when the section was closed meanwhile
	abandoned bool          // it gave up, and the section could not be told
}

func newPlaces(s control.Section, c clock.Clock, mu *sync.Mutex) *places {
	return &places{clock: c, mu: mu, section: s, waiters: make(map[uint64]*waiter)}
}

// enter returns nil when the caller is inside, and must leave. Otherwise the error is an *Overloaded, that of ctx, or ErrClosed. waited is how
// long it took in either case. r says what has been waited before and how much may be; its ID is of no matter.
func (p *places) enter(ctx context.Context, r control.Request, m control.Mode) (waited time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	w, err := p.ask(r, m)
	if w == nil || err != nil {
		return 0, err
	}
	select {
	case <-w.settled:
		return w.waited, w.err
	case <-ctx.Done():
		return p.giveUp(ctx, w)
	}
}

// wait is enter on behalf of the request that ctx belongs to, if there is one.
func (p *places) wait(ctx context.Context, m control.Mode) error {
	var r control.Request
	t, ok := TicketFrom(ctx)
	if ok {
		r = t.Request()
	}
	waited, err := p.enter(ctx, r, m)
	if ok {
		t.AddWait(waited)
	}
	return err
}

// ask returns a waiter when the caller has to wait, and neither that nor an error when it is inside.
func (p *places) ask(r control.Request, m control.Mode) (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	p.lastID++
	r.ID = p.lastID // a request may wait here with several goroutines
	p.entered = r
	now := p.clock.Now()
	switch d := p.section.Enter(now, &p.entered, m); d.Verdict {
	case control.Admit:
		return nil, nil
	case control.Reject:
		return nil, &Overloaded{d.Reason}
	default:
		w := &waiter{id: r.ID, began: now, settled: make(chan struct{})}
		p.waiters[r.ID] = w
		return w, nil
	}
}

// giveUp takes w out of the queue. Its turn may have come in the last moment: then it is inside after all.
func (p *places) giveUp(ctx context.Context, w *waiter) (waited time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.settled:
		return w.waited, w.err
	default:
	}
	p.withdraw(p.clock.Now(), w)
	return w.waited, ctx.Err()
}

// withdraw takes w out of the queue, or leaves word to pass its place on when the section cannot do that. It is called with mu held.
func (p *places) withdraw(now clock.Instant, w *waiter) {
	w.waited = now.Sub(w.began)
	from, ok := p.section.(control.Withdrawer)
	if !ok {
		w.abandoned = true
		return
	}
	delete(p.waiters, w.id)
	_, actions := from.Withdraw(now, w.id, p.actions[:0])
	p.resume(now, actions)
}

// leave gives a place back.
func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.entered = control.Request{}
	p.resume(now, p.section.Leave(now, &p.entered, p.actions[:0]))
}

// resume lets go on whom actions name. It is called with mu held.
func (p *places) resume(now clock.Instant, actions []control.Action) {
	for i := 0; i < len(actions); i++ { // may grow
		id := actions[i].Request.ID
		w := p.waiters[id]
		delete(p.waiters, id)
		if w.abandoned {
			p.entered = actions[i].Request
			actions = p.section.Leave(now, &p.entered, actions)
			continue
		}
		w.waited = now.Sub(w.began)
		close(w.settled)
	}
	p.actions = actions[:0]
}

// close turns away those who wait, and everyone who comes later. It returns false when it was closed already.
func (p *places) close() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.closed = true
	now := p.clock.Now()
	for _, w := range p.waiters {
		if w.abandoned {
			continue
		}
		p.withdraw(now, w)
		w.err = ErrClosed
		close(w.settled)
	}
	return true
}

// everybody is the section that is not there.
type everybody struct{}

func (everybody) Enter(clock.Instant, *control.Request, control.Mode) control.Decision {
	return control.Decision{}
}

func (everybody) Leave(_ clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	return out
}
