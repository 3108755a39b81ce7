package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestRoutesHaveTheirOwnObjectives teaches a service with two processes what its routes take, in virtual time, and then asks it for ten searches at
// once. Two run and one waits before the estimate counts anything; with one waiting a search would wait 15 ms, of the 20 that its median leaves;
// with two waiting it would be 30, which is too much for a user too. A route without objectives is served all the same.
func TestRoutesHaveTheirOwnObjectives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := newService(2)
		if err != nil {
			t.Fatal(err)
		}
		defer s.guard.Close()
		s.work = func(d time.Duration) { <-time.After(d) } // virtual
		h := s.handler()
		began := time.Now()
		for time.Since(began) < 6*time.Second { // a window, and some of the next
			for _, path := range []string{"/users/7", "/search?q=x"} {
				if w := get(h, path); w.Code != http.StatusOK {
					t.Fatalf("idle, %s is answered %d %s", path, w.Code, w.Body)
				}
			}
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		codes := map[string]int{}
		ask := func(path string) {
			all.Go(func() {
				w := get(h, path)
				mu.Lock()
				defer mu.Unlock()
				codes[fmt.Sprint(path, " ", w.Code, " ", strings.TrimSpace(w.Body.String()), w.Header().Get("Retry-After"))]++
			})
			synctest.Wait()
		}
		for range 10 {
			ask("/search?q=x")
		}
		ask("/users/7")
		ask("/nowhere")
		stats := s.guard.Stats()
		if stats.InService != 2 || stats.Queued != 3 { // two searches, and what has no objectives
			t.Errorf("%d in service and %d queued, want 2 and 3", stats.InService, stats.Queued)
		}
		all.Wait()
		want := map[string]int{
			"/search?q=x 200 found x": 4, "/search?q=x 503 overloaded: slo1": 6, "/users/7 503 overloaded: slo1": 1, "/nowhere 404 404 page not found": 1,
		}
		if fmt.Sprint(codes) != fmt.Sprint(want) {
			t.Errorf("answers %v, want %v", codes, want)
		}
		status := get(h, "/status").Body.String()
		for _, line := range []string{"wait_estimate_us 0", "unmeetable 0", "headroom_us/user 18000", "headroom_us/search 20000"} {
			if !strings.Contains(status, line) {
				t.Errorf("the status has no %q:\n%s", line, status)
			}
		}
	})
}

// run ends with its context, and reports an address that it cannot have.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0") }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), "nowhere"); err == nil {
		t.Error("listens nowhere")
	}
}

// compute takes the time that it is told.
func TestCompute(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if compute(time.Millisecond); time.Since(began) < time.Millisecond {
		t.Error("too short")
	}
}
