package allocator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// slowServer serves cycles that no test sees the end of, so that answers wait. stop ends it, and tells how it ended.
func slowServer(t *testing.T) (s *Server, stop func()) {
	t.Helper()
	c := testConfig(2)
	c.Cycle, c.Lease = time.Hour, leastLease*time.Hour
	s, err := New("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// post sends a report of edge a and returns the status and the answer.
func post(ctx context.Context, s *Server, seq, wait int64) (status int, g Grants, err error) {
	body := fmt.Sprintf(`{"edge": "a", "seq": %d, "demand": {"high": 1, "low": 1}, "holds": {"high": 100, "low": 50}, "wait_ms": %d}`, seq, wait)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr()+"/report", strings.NewReader(body))
	if err != nil {
		return 0, g, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(r)
	if err != nil {
		return 0, g, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return reply.StatusCode, g, nil
	}
	return reply.StatusCode, g, json.NewDecoder(reply.Body).Decode(&g)
}

// waits reports whether the report with a number waits at the server.
func waits(s *Server, seq int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.mu.waiters[0]
	return w != nil && w.seq == seq && s.mu.book.locations[0].waiting
}

const anHour = int64(time.Hour / time.Millisecond)

// TestAnswersAtOnce: who does not want to wait does not.
func TestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := slowServer(t)
	status, g, err := post(t.Context(), s, 1, 0)
	if err != nil || status != http.StatusOK || g.Rates["high"] != 100 || g.Rates["low"] != 50 || g.BorrowedMS != 3*anHour {
		t.Errorf("status %d, %+v, %v", status, g, err)
	}
	for _, wait := range []int64{-1, anHour + 1} {
		if status, _, err := post(t.Context(), s, 2, wait); err != nil || status != http.StatusBadRequest {
			t.Errorf("a wait of %d ms: status %d, %v", wait, status, err)
		}
	}
}

// TestLaterReport: a report that waits gives way to a later one of the same location; one that comes after a later one is refused.
func TestLaterReport(t *testing.T) {
	t.Parallel()
	s, _ := slowServer(t)
	first := make(chan int, 1)
	go func() {
		status, _, _ := post(t.Context(), s, 1, anHour)
		first <- status
	}()
	await(t, "the first report does not wait", func() bool { return waits(s, 1) })
	if status, _, err := post(t.Context(), s, 2, 0); err != nil || status != http.StatusOK {
		t.Errorf("the later one: status %d, %v", status, err)
	}
	if status := <-first; status != http.StatusConflict {
		t.Errorf("the one that gave way: status %d", status)
	}
	if status, _, err := post(t.Context(), s, 1, 0); err != nil || status != http.StatusConflict {
		t.Errorf("a late one: status %d, %v", status, err)
	}
}

// TestWhoHasGoneIsNotAnswered: an answer that nobody waits for is not made, so that nothing is taken for granted that nobody has heard of.
func TestWhoHasGoneIsNotAnswered(t *testing.T) {
	t.Parallel()
	s, _ := slowServer(t)
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := post(ctx, s, 1, anHour)
		gone <- err
	}()
	await(t, "the report does not wait", func() bool { return waits(s, 1) })
	giveUp()
	if err := <-gone; err == nil {
		t.Error("it was answered")
	}
	await(t, "the report still waits", func() bool { return !waits(s, 1) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := &s.mu.book.locations[0]; l.waiting || l.sent != 0 {
		t.Errorf("%+v", l)
	}
}

// TestEndOfTheAllocator: whoever waits when it shuts down is told so.
func TestEndOfTheAllocator(t *testing.T) {
	t.Parallel()
	s, stop := slowServer(t)
	told := make(chan int, 1)
	go func() {
		status, _, _ := post(t.Context(), s, 1, anHour)
		told <- status
	}()
	await(t, "the report does not wait", func() bool { return waits(s, 1) })
	stop()
	if status := <-told; status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
}
