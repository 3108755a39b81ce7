package allocator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"spillway/clock"
)

// Server is an allocator with its socket open.
type Server struct {
	config Config
	clock  *clock.Real
	listen net.Listener
	http   *http.Server
	wake   chan struct{} // something has changed: the next turn may be due earlier
	ending chan struct{} // closed when nobody is to wait any more
	mu     struct {
		sync.Mutex
		book    *book
		waiters []*waiter // by location; nil where no report waits
	}
}

// waiter is a report that waits for its answer.
type waiter struct {
	seq    int64
	answer chan Grants // of one; closed when a later report has come
}

const (
	// maxReport bounds the body of a report.
	maxReport = 64 << 10
	// patience bounds how long a location may take with its part of an exchange.
	patience = 5 * time.Second
	// longestWait bounds how long a report may wait for its answer: no cycle is as long.
	longestWait = time.Hour
)

// New opens the socket of an allocator. It decides, and answers, once Serve runs.
func New(addr string, c Config) (*Server, error) {
	s := &Server{config: c, clock: clock.NewReal(), wake: make(chan struct{}, 1), ending: make(chan struct{})}
	book, err := newBook(c, s.clock.Now(), s.clock.Began().UnixNano())
	if err != nil {
		return nil, err
	}
	s.mu.book, s.mu.waiters = book, make([]*waiter, len(c.Locations))
	if s.listen, err = net.Listen("tcp", addr); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /report", s.serveReport)
	mux.HandleFunc("GET /state", s.serveState)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.http = &http.Server{
		Handler: mux, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // what clients do wrong is answered, and is no news
	}
	return s, nil
}

// Addr returns the address that the server listens on, with the real port where port 0 was asked for.
func (s *Server) Addr() string { return s.listen.Addr().String() }

// Serve decides cycle by cycle and answers until ctx is done. It must be called exactly once.
func (s *Server) Serve(ctx context.Context) error {
	var running sync.WaitGroup
	ended := make(chan error, 1)
	running.Go(func() { ended <- s.http.Serve(s.listen) })
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case err := <-ended:
			close(s.ending)
			return err
		case <-ctx.Done():
			close(s.ending)
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			return errors.Join(s.http.Shutdown(within), s.http.Close())
		}
		timer.Reset(s.turn())
	}
}

// turn does what is due, and returns when to look again.
func (s *Server) turn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.mu.book.turn(now, s.send)
	return s.mu.book.next().Sub(now)
}

// send hands an answer to the report that waits for it.
func (s *Server) send(g grant) {
	w, b := s.mu.waiters[g.place], s.mu.book
	if w == nil {
		return // it has gone, and is heard of again with what it has
	}
	s.mu.waiters[g.place] = nil
	answer := Grants{
		ID: g.id, Cycle: b.cycles, Rates: map[string]float64{}, Baseline: map[string]float64{},
		LeaseMS: s.config.Lease.Milliseconds(), BorrowedMS: g.borrowed.Milliseconds(),
	}
	for k, c := range s.config.Classes {
		answer.Rates[c.Name], answer.Baseline[c.Name] = g.rates[k], b.policy.Baseline[b.policy.Cell(k, g.place)]
	}
	w.answer <- answer
}

// Close frees the socket of a server that is not going to serve.
func (s *Server) Close() error { return s.listen.Close() }

func (s *Server) serveReport(to http.ResponseWriter, r *http.Request) {
	var report Report
	d := json.NewDecoder(http.MaxBytesReader(to, r.Body, maxReport))
	d.DisallowUnknownFields()
	if err := d.Decode(&report); err != nil {
		http.Error(to, "not a report: "+err.Error(), http.StatusBadRequest)
		return
	}
	place, w, status, err := s.arrive(&report)
	if err != nil {
		http.Error(to, err.Error(), status)
		return
	}
	// Both deadlines run from the beginning of the request, and are not meant for the time that it waits here.
	connection := http.NewResponseController(to)
	_ = connection.SetReadDeadline(time.Time{})
	defer func() { _ = connection.SetReadDeadline(time.Now().Add(patience)) }()
	select {
	case grants, ok := <-w.answer:
		_ = connection.SetWriteDeadline(time.Now().Add(patience))
		if !ok {
			http.Error(to, errStale.Error(), http.StatusConflict)
			return
		}
		answer(to, grants)
	case <-r.Context().Done():
		s.leave(place, w)
	case <-s.ending:
		s.leave(place, w)
		_ = connection.SetWriteDeadline(time.Now().Add(patience))
		http.Error(to, "the allocator is shutting down", http.StatusServiceUnavailable)
	}
}

// arrive takes in a report, which then waits.
func (s *Server) arrive(r *Report) (place int, w *waiter, status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.mu.book
	place, known := b.places[r.Edge]
	if !known {
		return 0, nil, http.StatusNotFound, fmt.Errorf("there is no location %q; the allocator has to be told of all of them when it is started", r.Edge)
	}
	if r.WaitMS < 0 || r.WaitMS > longestWait.Milliseconds() {
		return 0, nil, http.StatusBadRequest, fmt.Errorf("the report would wait %d ms, which must be from 0 to %d", r.WaitMS, longestWait.Milliseconds())
	}
	a := arrival{seq: r.Seq, last: r.Last, wait: time.Duration(r.WaitMS) * time.Millisecond}
	if a.demand, err = s.ordered(r.Demand); err == nil {
		a.holds, err = s.ordered(r.Holds)
	}
	if err != nil {
		return 0, nil, http.StatusBadRequest, err
	}
	now := s.clock.Now()
	switch err := b.arrive(now, place, &a); {
	case errors.Is(err, errStale):
		return 0, nil, http.StatusConflict, err
	case err != nil:
		return 0, nil, http.StatusBadRequest, err
	}
	if before := s.mu.waiters[place]; before != nil {
		close(before.answer)
	}
	w = &waiter{seq: r.Seq, answer: make(chan Grants, 1)}
	s.mu.waiters[place] = w
	b.turn(now, s.send)
	select {
	case s.wake <- struct{}{}:
	default: // it is to wake already
	}
	return place, w, 0, nil
}

// leave withdraws a report whose sender does not wait for the answer any more.
func (s *Server) leave(place int, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.waiters[place] == w {
		s.mu.waiters[place] = nil
		s.mu.book.leave(place, w.seq)
	}
}

// ordered returns the values of a report by class.
func (s *Server) ordered(values map[string]float64) (list []float64, err error) {
	for _, c := range s.config.Classes {
		v, ok := values[c.Name]
		if !ok || !(v >= 0) {
			return nil, fmt.Errorf("the report has no number of at least 0 for the class %q", c.Name)
		}
		list = append(list, v)
	}
	if len(values) > len(list) {
		return nil, fmt.Errorf("the report has classes that there are not; there are %d", len(list))
	}
	return list, nil
}

func (s *Server) serveState(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	state := s.mu.book.state(s.clock.Now())
	s.mu.Unlock()
	answer(w, state)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // whoever does not take it has gone
}
