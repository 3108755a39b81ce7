package guard

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"spillway/control"
)

// The headers by which servers of ours and their clients, such as loadgen, understand each other, beside CreditsHeader. Those of requests are for the function
// that describes requests to a Handler: nothing reads them unless it does.
const (
	ClassHeader    = "X-Class"       // of requests: the name of the class
	PriorityHeader = "X-Priority"    // of requests: a number, the smaller the more important
	ReasonHeader   = "X-Shed-Reason" // of replies with 429 and 503: why, by a name of control.Reason
	TimingHeader   = "Server-Timing" // of replies to requests that were admitted: see ServerTiming
)

// retryAfter is what a client that was turned away is told to wait, in seconds. It is the smallest value that the header can carry:
// the overloads that a Guard sees last for milliseconds to seconds.
const retryAfter = "1"

// Handler returns a handler that lets a request through to next when the Guard admits it. describe says what a controller may know
// of a request, such as its class or its client; when it is nil, all requests are alike. next finds the request's Ticket in its context.
//
// A request that is turned away is answered 503 Service Unavailable, or 429 Too Many Requests when its own budget is used up; either
// with Retry-After, the reason in ReasonHeader, and in words in the body. So is one that is dropped halfway, if next returns without an answer.
// Replies of 500 and above, and panics, count as failed. A reply to a request that was admitted says in TimingHeader how long that has waited and been
// served until its header was written.
//
// Where the Guard's stack hands out credits, clients that send by a Transport get theirs, and for those describe's Client does not count.
func (g *Guard) Handler(next http.Handler, describe func(*http.Request) control.Request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request control.Request
		if describe != nil {
			request = describe(r)
		}
		client, said := g.meet(r)
		if client != nil {
			defer g.part(client)
			request.Client = client.number
		}
		if said.asks {
			g.answer(w, r, client, said)
			return
		}
		came := g.clock.Now()
		t, err := g.Begin(r.Context(), request)
		if err != nil {
			g.tell(w.Header(), client)
			refuse(w, err)
			return
		}
		tell := func() {
			g.tell(w.Header(), client)
			w.Header().Add(TimingHeader, ServerTiming(t.began.Sub(came), g.clock.Now().Sub(t.began)))
		}
		defer t.Done(true)
		returned := false
		defer func() {
			if !returned {
				_ = t.Drop(control.Cancelled) // it panics, and nobody else is left to clean up
			}
		}()
		watched := &watchedWriter{ResponseWriter: w, before: tell}
		next.ServeHTTP(watched, r.WithContext(t.Context()))
		returned = true
		switch {
		case watched.status != 0:
			t.Done(watched.status >= http.StatusInternalServerError)
		case t.Err() != nil:
			t.Done(true)
			tell()
			refuse(w, t.Err())
		case r.Context().Err() == nil:
			t.Done(false) // an empty reply
			tell()
		}
	})
}

// refuse answers a request that Acquire returned err for. When its context ended, that may have been a deadline of the server's own,
// with a client that still waits.
func refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "not served in time"
	var overloaded *Overloaded
	switch {
	case errors.As(err, &overloaded):
		text = "overloaded: " + overloaded.Reason.String()
		w.Header().Set(ReasonHeader, overloaded.Reason.String())
		if overloaded.Reason == control.Budget {
			status = http.StatusTooManyRequests
		}
	case errors.Is(err, context.DeadlineExceeded): // while it waited, which the Gate would have found in the next moment
		w.Header().Set(ReasonHeader, control.Expired.String())
	case errors.Is(err, ErrClosed):
		text = "shutting down"
	}
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, text, status)
}

// ServerTiming is the value of a Server-Timing header (W3C) that says how long a request has waited and how long it was served, in milliseconds
// to the microsecond.
func ServerTiming(queued, service time.Duration) string {
	b := append(make([]byte, 0, 48), "queue;dur="...)
	b = appendMS(b, queued)
	b = append(b, ", service;dur="...)
	return string(appendMS(b, service))
}

func appendMS(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(max(d, 0).Microseconds())/1000, 'f', 3, 64)
}

// watchedWriter notes the status of a reply. It can do whatever the writer beneath it can: flush, hijack, and copy without a buffer.
type watchedWriter struct {
	http.ResponseWriter
	before func() // called before the header is written
	status int    // 0 until the header has been written
}

func (w *watchedWriter) WriteHeader(status int) {
	// Those below 200 are only announcements, with the exception of 101, which ends HTTP on this connection.
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.before()
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	w.wrote()
	return w.ResponseWriter.Write(b)
}

// ReadFrom lets the writer beneath use sendfile where it can.
func (w *watchedWriter) ReadFrom(r io.Reader) (int64, error) {
	w.wrote()
	return io.Copy(w.ResponseWriter, r)
}

// Flush implements http.Flusher, for handlers that do not use http.ResponseController.
func (w *watchedWriter) Flush() {
	w.wrote()
	// A writer that cannot flush writes when the handler returns; http.Flusher has no way to say so.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, for handlers that do not use http.ResponseController.
func (w *watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.status = http.StatusSwitchingProtocols // what is said from here on does not pass here
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find the writer beneath.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchedWriter) wrote() {
	if w.status == 0 {
		w.before()
		w.status = http.StatusOK
	}
}
