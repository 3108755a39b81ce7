//go:build linux

package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/guard"
)

// quiet returns a logger that says nothing.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func unescape(path string) (text string, wrong bool) {
	text, err := url.PathUnescape(path)
	return text, err != nil
}

// serve answers every request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", s.config.Version)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// A length may have stood beside the chunks: package http takes the chunks and does not say so. Whoever is in front of us may have
		// gone by the length, so that what follows on this connection would be somebody else's request to it (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}
	switch r.URL.Path {
	case "/healthz":
		s.serveHealth(w)
	case "/stats":
		s.serveStats(w)
	case "/metrics":
		s.metrics.ServeHTTP(w, r)
	case "/origin":
		s.serveOrigin(w)
	default:
		s.serveRequest(w, r)
	}
}

func (s *Server) serveHealth(w http.ResponseWriter) {
	if s.stopping.Load() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// serveRequest answers a request to a service.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	class, service, key, ok := s.route(r)
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case service != nil && !takes(service, r.Method):
		w.Header().Set("Allow", service.Methods())
		http.Error(w, "the method is not one of "+service.Methods(), http.StatusMethodNotAllowed)
		return
	case r.ContentLength > s.config.MaxBody:
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if s.origin != nil {
		s.origin.count(class)
	}
	s.figures.arrive(class)
	came := s.clock.Now()
	t, err := s.guard.Begin(r.Context(), s.describe(r, class, came))
	if err != nil {
		s.refuse(w, r, class, err)
		return
	}
	reply := &reply{ResponseWriter: w, server: s, ticket: t, began: s.clock.Now()}
	reply.queued = reply.began.Sub(came)
	defer t.Done(true)
	finished := false
	defer func() {
		if !finished {
			_ = t.Drop(control.Cancelled) // it panics, and nobody else is left to clean up
		}
	}()
	s.admitted(reply, r, service, key, t)
	finished = true
	switch {
	case reply.status != 0:
		t.Done(reply.status >= http.StatusInternalServerError)
	case t.Err() != nil:
		s.refuse(w, r, class, t.Err())
	case r.Context().Err() == nil:
		t.Done(false) // an empty reply
	}
	s.figures.finish(reply.queued, s.clock.Now().Sub(reply.began))
}

// admitted serves a request that has been admitted. A body is read only now: one that is turned away costs no memory.
func (s *Server) admitted(w *reply, r *http.Request, service Service, key string, t *guard.Ticket) {
	if r.Body != nil && r.Body != http.NoBody {
		to := http.NewResponseController(w.ResponseWriter)
		_ = to.SetReadDeadline(time.Now().Add(s.config.BodyTimeout)) // both versions of HTTP can
		r.Body = &timedBody{http.MaxBytesReader(w.ResponseWriter, r.Body, s.config.MaxBody), to}
	}
	r = r.WithContext(t.Context())
	if service == nil {
		s.proxy.ServeHTTP(w, r)
		return
	}
	service.Serve(w, r, key, t)
}

// timedBody is a body that has to come in time. Once it is there, the client may take its time. Until then the time goes on, also for what package
// http reads of it when nobody else does.
type timedBody struct {
	io.ReadCloser
	from *http.ResponseController
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.from.SetReadDeadline(time.Time{})
	}
	return n, err
}

func takes(service Service, method string) bool {
	for m := range strings.SplitSeq(service.Methods(), ", ") {
		if m == method {
			return true
		}
	}
	return false
}

// describe says what a controller may know of a request.
func (s *Server) describe(r *http.Request, class uint16, now clock.Instant) control.Request {
	client, _ := r.Context().Value(clientKey{}).(uint32)
	q := control.Request{Client: client, Class: class, Bytes: max(r.ContentLength, 0)}
	if p, err := strconv.ParseUint(r.Header.Get(HeaderPriority), 10, 16); err == nil {
		q.Priority = uint16(p)
	} else {
		q.Priority = control.PriorityOf(0, uint64(client))
	}
	q.QueueDelay, _ = s.cores.look(now)
	if s.config.Deadline > 0 {
		q.Deadline = now.Add(s.config.Deadline)
	}
	return q
}

// refuse tells a client that its request is not served, and why.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, class uint16, err error) {
	status, text := http.StatusServiceUnavailable, "not served in time"
	retry := int64(1) // in seconds, the least that the header can say: overload lasts for milliseconds to seconds
	var overloaded *guard.Overloaded
	switch {
	case errors.As(err, &overloaded):
		s.figures.shed(class, overloaded.Reason)
		text = "overloaded: " + overloaded.Reason.String()
		w.Header().Set(HeaderReason, overloaded.Reason.String())
		if overloaded.Reason == control.Budget {
			status = http.StatusTooManyRequests
			retry = s.quota(w, class)
		}
	case errors.Is(err, guard.ErrClosed):
		text = "shutting down"
		w.Header().Set("Connection", "close")
	case r.Context().Err() != nil:
		s.figures.shed(class, control.Cancelled)
	}
	w.Header().Set("Retry-After", strconv.FormatInt(retry, 10))
	s.patience(w)
	http.Error(w, text, status)
}

// mostRetry is the longest that a client is told to wait, in seconds: a class that is granted nothing now may be granted something soon.
const mostRetry = 60

// quota says in a reply what the class is granted (draft-ietf-httpapi-ratelimit-headers), and returns the seconds until it has something left.
func (s *Server) quota(w http.ResponseWriter, class uint16) (retry int64) {
	if s.limiter == nil {
		return 1
	}
	var rate, tokens float64
	s.guard.With(func(now clock.Instant) { rate, tokens = s.limiter.Quota(now, class) })
	wait := 0.0
	if tokens < 1 {
		wait = min((1-tokens)/max(rate, 1e-9), mostRetry)
	}
	retry = max(int64(math.Ceil(wait)), 1)
	name := strconv.Quote(s.config.Classes[class])
	w.Header().Set("RateLimit-Policy", fmt.Sprintf("%s;q=%d;w=1", name, int64(rate)))
	w.Header().Set("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", name, int64(max(tokens, 0)), int64(math.Ceil(wait))))
	return retry
}

// patience gives a client so long to take what is written now.
func (s *Server) patience(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.config.WriteTimeout)) // both versions of HTTP can
}

// refuseBody answers a request whose body could not be read.
func refuseBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &large):
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
	case errors.As(err, &slow) && slow.Timeout():
		w.Header().Set("Connection", "close")
		http.Error(w, "the body did not come in time", http.StatusRequestTimeout)
	case errors.Is(err, context.Canceled): // it has gone
	default:
		http.Error(w, "the body is malformed", http.StatusBadRequest)
	}
}

// reply notes the status of a reply, and says in it how long the request has waited and how long it took.
type reply struct {
	http.ResponseWriter
	server *Server
	ticket *guard.Ticket
	began  clock.Instant
	queued time.Duration
	status int // 0 until the header has been written
}

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		h := w.Header()
		h.Set(guard.TimingHeader, guard.ServerTiming(w.queued, w.server.clock.Now().Sub(w.began)))
		if w.server.limiter != nil {
			w.server.quota(w, w.ticket.Request().Class)
		}
		w.server.patience(w.ResponseWriter)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *reply) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the writer beneath.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }
