package guard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/guard"
)

// refusing is a controller that turns classes away, for reasons equal to their number.
type refusing struct{ control.None }

func (refusing) Decide(_ clock.Instant, _ control.Stage, r *control.Request) control.Decision {
	if r.Class == 0 {
		return control.Decision{}
	}
	return control.Decision{Verdict: control.Reject, Reason: control.Reason(r.Class)}
}

func serve(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w
}

func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason control.Reason
		status int
		body   string
	}{
		{control.Limit, http.StatusServiceUnavailable, "overloaded: limit\n"},
		{control.CoDel, http.StatusServiceUnavailable, "overloaded: codel\n"},
		{control.Budget, http.StatusTooManyRequests, "overloaded: budget\n"},
	} {
		g := newGuard(refusing{}, 1)
		h := g.Handler(http.NotFoundHandler(), func(*http.Request) control.Request {
			return control.Request{Class: uint16(c.reason)}
		})
		w := serve(h)
		if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%v: %d %q, Retry-After %q", c.reason, w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if got := w.Header().Get(guard.ReasonHeader); got != c.reason.String() || w.Header().Get(guard.TimingHeader) != "" {
			t.Errorf("%v: the header says %q, and times %q of what was never served", c.reason, got, w.Header().Get(guard.TimingHeader))
		}
		g.Close()
		w = serve(g.Handler(http.NotFoundHandler(), nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
			t.Errorf("closed: %d %q", w.Code, w.Body)
		}
	}
}

// A handler's own timings stay beside ours, and a deadline that passes in the queue is a reason too.
func TestHandlerTellsTimesAndDeadlines(t *testing.T) {
	t.Parallel()
	g := newGuard(control.None{}, 1)
	defer g.Close()
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(guard.TimingHeader, "db;dur=1")
		w.WriteHeader(http.StatusNoContent)
	}), nil)
	if got := serve(h).Header()[guard.TimingHeader]; len(got) != 2 || got[0] != "db;dur=1" || !strings.HasPrefix(got[1], "queue;dur=") {
		t.Errorf("timings %q, want the handler's and ours", got)
	}

	done, err := g.Acquire(t.Context(), control.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer done(false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if got := w.Header().Get(guard.ReasonHeader); w.Code != http.StatusServiceUnavailable || got != "expired" {
		t.Errorf("%d, reason %q: want 503, expired", w.Code, got)
	}
}

func TestServerTiming(t *testing.T) {
	t.Parallel()
	if got := guard.ServerTiming(1500*time.Microsecond, -time.Second); got != "queue;dur=1.500, service;dur=0.000" {
		t.Error(got)
	}
}

func TestHandlerCountsFailures(t *testing.T) {
	t.Parallel()
	g := newGuard(control.None{}, 1)
	defer g.Close()
	for _, c := range []struct {
		name   string
		serve  http.HandlerFunc
		failed bool
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, false},
		{"body only", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }, false},
		{"not found", http.NotFound, false},
		{"error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusBadGateway) }, true},
		{"early hints, then an error", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusInternalServerError)
		}, true},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		before := g.Stats()
		func() {
			defer func() {
				if r := recover(); r != nil && r != http.ErrAbortHandler {
					panic(r)
				}
			}()
			serve(g.Handler(c.serve, nil))
		}()
		s := g.Stats()
		if s.InService != 0 || s.Finished != before.Finished+1 || (s.Failed != before.Failed) != c.failed {
			t.Errorf("%s: stats %+v, failed before %d, want failed %v", c.name, s, before.Failed, c.failed)
		}
	}
}

// A handler behind a Guard can still do what it could without: stream, copy, take over the connection.
func TestHandlerKeepsTheWritersAbilities(t *testing.T) {
	t.Parallel()
	g := newGuard(control.None{}, 1)
	defer g.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("copied"))
		if err = errors.Join(err, http.NewResponseController(w).Flush()); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\nhijacked")
	})
	server := httptest.NewServer(g.Handler(mux, nil))
	defer server.Close()
	for path, want := range map[string]string{"/flush": "copied", "/hijack": "hijacked"} {
		reply, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
}

var _ error = (*guard.Overloaded)(nil)
