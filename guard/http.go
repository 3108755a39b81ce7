package guard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"

	"spillway/control"
)

// retryAfter is what a client that was turned away is told to wait, in seconds. It is the smallest value that the header can carry:
// the overloads that a Guard sees last for milliseconds to seconds.
const retryAfter = "1"

// Handler returns a handler that lets a request through to next when the Guard admits it. describe says what a controller may know
// of a request, such as its class or its client; when it is nil, all requests are alike. next finds the request's Ticket in its context.
//
// A request that is turned away is answered 503 Service Unavailable, or 429 Too Many Requests when its own budget is used up; either
// with Retry-After, and the reason in the body. So is one that is dropped halfway, if next returns without an answer. Replies of 500 and
// above, and panics, count as failed.
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
		tell := func() { g.tell(w.Header(), client) }
		t, err := g.Begin(r.Context(), request)
		if err != nil {
			tell()
			refuse(w, err)
			return
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
		if overloaded.Reason == control.Budget {
			status = http.StatusTooManyRequests
		}
	case errors.Is(err, ErrClosed):
		text = "shutting down"
	}
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, text, status)
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
