//go:build linux

package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"spillway/guard"
	"spillway/machine"
	"spillway/servers/synthetic"
)

// Work serves requests whose path ends in the work that they ask for, as package synthetic spells it.
type Work struct {
	host  *synthetic.Host
	cores *cores
	guard *guard.Guard

	mu struct {
		sync.Mutex
		locks [machine.MaxIndex + 1]*guard.Mutex // made when they are first needed
	}
}

// NewWork returns the service of a Host, which it owns.
func NewWork(h *synthetic.Host) *Work { return &Work{host: h} }

var (
	_ Service = (*Work)(nil)
	_ waiting = (*Work)(nil)
)

// use implements waiting.
func (k *Work) use(c *cores, g *guard.Guard) { k.cores, k.guard = c, g }

// Methods implements Service.
func (k *Work) Methods() string { return "GET, HEAD, PUT, POST" }

// Stats yields the counts of the Host.
func (k *Work) Stats(yield func(name string, value uint64) bool) { k.host.Stats(yield) }

// BytesMoved returns how many bytes requests have streamed.
func (k *Work) BytesMoved() uint64 { return k.host.BytesMoved() }

// Close frees what the Host has.
func (k *Work) Close() error { return k.host.Close() }

// Serve implements Service.
func (k *Work) Serve(w http.ResponseWriter, r *http.Request, key string, t *guard.Ticket) {
	err := k.host.Run([]byte(key), &site{work: k, ticket: t})
	var malformed *synthetic.Malformed
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, &malformed):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case t.Err() != nil, r.Context().Err() != nil: // dropped: the server says so
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (k *Work) lock(n int) *guard.Mutex {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.locks[n] == nil {
		k.mu.locks[n] = k.guard.NewMutex()
	}
	return k.mu.locks[n]
}

// site is where one request is worked on.
type site struct {
	work   *Work
	ticket *guard.Ticket
}

var _ synthetic.Site = (*site)(nil)

// Core implements synthetic.Site.
func (s *site) Core(f func()) error {
	waited, err := s.work.cores.take(s.ticket.Context())
	s.ticket.AddWait(waited)
	if err != nil {
		return err
	}
	defer s.work.cores.give()
	f()
	return nil
}

// Wait implements synthetic.Site.
func (s *site) Wait(d time.Duration) error { return pause(s.ticket.Context(), d) }

// Enter implements synthetic.Site. The section with the number 0 is the memory section; into all others everybody may go.
func (s *site) Enter(n int) (leave func(), err error) {
	if n != 0 {
		return func() {}, nil
	}
	return s.ticket.Memory()
}

// Lock implements synthetic.Site.
func (s *site) Lock(n int) (unlock func(), err error) { return s.ticket.Lock(s.work.lock(n)) }

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
