package control

import (
	"time"

	"spillway/clock"
)

// Withdrawer is implemented by Sections whose waiters can be taken out of the queue before their turn, because whoever sent them went away.
type Withdrawer interface {
	// Withdraw takes the waiter with this ID out of the queue. removed is false when it does not wait: a Resume action has named it, or it
	// never did. Resume actions are appended for those whose turn it is, as in Leave.
	Withdraw(now clock.Instant, id uint64, out []Action) (removed bool, _ []Action)
}

// Parked are the requests that wait at a Section, first in, first out. It is what a Section keeps them in; nothing is allocated once it has
// been as long as it gets, and a waiter is withdrawn without a search.
type Parked struct {
	queue waiting
	spots map[uint64]spot // by Request.ID
}

// spot says where a request waits, and since when. The request itself keeps its Arrived, which is the Gate's.
type spot struct {
	place Place
	since clock.Instant
}

// NewParked returns an empty queue.
func NewParked() *Parked {
	return &Parked{queue: newWaiting(), spots: make(map[uint64]spot)}
}

// Push appends r, which begins to wait at now. It panics when a request with this ID waits already: it would never be resumed.
func (p *Parked) Push(now clock.Instant, r *Request) {
	if _, twice := p.spots[r.ID]; twice {
		panic("control: a request waits twice in one section")
	}
	p.spots[r.ID] = spot{place: p.queue.push(r), since: now}
}

// Pop removes the oldest waiter and adds its wait to its Waited. It panics when nobody waits.
func (p *Parked) Pop(now clock.Instant) Request {
	w := p.queue.oldest()
	if w == nil {
		panic("control: nobody waits in this section")
	}
	r := w.request
	r.Waited += now.Sub(p.spots[r.ID].since)
	delete(p.spots, r.ID)
	p.queue.remove(w)
	return r
}

// Withdraw removes the waiter with this ID; removed is false when there is none.
func (p *Parked) Withdraw(id uint64) (removed bool) {
	s, ok := p.spots[id]
	if !ok {
		return false
	}
	w, _ := p.queue.find(s.place)
	delete(p.spots, id)
	p.queue.remove(w)
	return true
}

// Age returns how long the oldest waiter has waited, 0 when nobody waits.
func (p *Parked) Age(now clock.Instant) time.Duration {
	w := p.queue.oldest()
	if w == nil {
		return 0
	}
	return now.Sub(p.spots[w.request.ID].since)
}

// Len returns how many wait.
func (p *Parked) Len() int { return p.queue.n }
