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
	mu     struct {
		sync.Mutex
		book *book
	}
}

const (
	// maxReport bounds the body of a report.
	maxReport = 64 << 10
	// patience bounds how long a location may take with its part of an exchange.
	patience = 5 * time.Second
)

// New opens the socket of an allocator. It decides, and answers, once Serve runs.
func New(addr string, c Config) (*Server, error) {
	s := &Server{config: c, clock: clock.NewReal()}
	book, err := newBook(c, s.clock.Now(), s.clock.Began().UnixNano())
	if err != nil {
		return nil, err
	}
	s.mu.book = book
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
	ticker := time.NewTicker(s.config.Cycle)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.mu.Lock()
			s.mu.book.cycle()
			s.mu.Unlock()
		case err := <-ended:
			return err
		case <-ctx.Done():
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			return errors.Join(s.http.Shutdown(within), s.http.Close())
		}
	}
}

// Close frees the socket of a server that is not going to serve.
func (s *Server) Close() error { return s.listen.Close() }

func (s *Server) serveReport(w http.ResponseWriter, r *http.Request) {
	var report Report
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport))
	d.DisallowUnknownFields()
	if err := d.Decode(&report); err != nil {
		http.Error(w, "not a report: "+err.Error(), http.StatusBadRequest)
		return
	}
	grants, status, err := s.report(&report)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	answer(w, grants)
}

// report answers a report.
func (s *Server) report(r *Report) (g Grants, status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.mu.book
	place, known := b.places[r.Edge]
	if !known {
		return g, http.StatusNotFound, fmt.Errorf("there is no location %q; the allocator has to be told of all of them when it is started", r.Edge)
	}
	a := arrival{seq: r.Seq, last: r.Last}
	if a.demand, err = s.ordered(r.Demand); err == nil {
		a.holds, err = s.ordered(r.Holds)
	}
	if err != nil {
		return g, http.StatusBadRequest, err
	}
	rates := make([]float64, len(a.demand))
	id, err := b.report(s.clock.Now(), place, &a, rates)
	switch {
	case errors.Is(err, errStale):
		return g, http.StatusConflict, err
	case err != nil:
		return g, http.StatusBadRequest, err
	}
	g = Grants{
		ID: id, Cycle: b.cycles, Rates: map[string]float64{}, Baseline: map[string]float64{},
		LeaseMS: s.config.Lease.Milliseconds(), BorrowedMS: s.config.borrowed().Milliseconds(),
	}
	for k, c := range s.config.Classes {
		g.Rates[c.Name], g.Baseline[c.Name] = rates[k], b.policy.Baseline[b.policy.Cell(k, place)]
	}
	return g, http.StatusOK, nil
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
