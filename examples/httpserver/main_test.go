package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a client got.
type answer struct {
	status     int
	body       string
	retryAfter string
}

func get(t *testing.T, server *httptest.Server, path string) answer {
	reply, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{reply.StatusCode, strings.TrimSpace(string(body)), reply.Header.Get("Retry-After")}
}

// TestMoreThanItCanDo asks for a hundred sums at once of a service with two cores, each of which takes until the test says so. At most one
// a core gets into the memory section; the others are told 503 at once, and those who ask for something else are served meanwhile.
func TestMoreThanItCanDo(t *testing.T) {
	t.Parallel()
	const cores, clients = 2, 100
	s, err := newService(cores, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.guard.Close()
	release := make(chan struct{})
	s.sum = func([]uint64) uint64 {
		<-release
		return 1
	}
	server := httptest.NewServer(s.handler())
	defer server.Close()
	answers := make(chan answer, clients)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() { answers <- get(t, server, "/sum") })
	}
	for range clients - cores { // so many have no chance to be inside
		a := <-answers
		if a.status != http.StatusServiceUnavailable || a.retryAfter == "" || !strings.HasPrefix(a.body, "overloaded: ") {
			t.Errorf("turned away with %+v", a)
		}
	}
	for range 20 {
		if a := get(t, server, "/hello"); a.status != http.StatusOK || a.body != "hello" {
			t.Errorf("with the memory section full, hello gets %+v", a)
		}
	}
	close(release)
	all.Wait()
	close(answers)
	served := 0
	for a := range answers {
		if a.status == http.StatusOK && a.body == "128" { // parts of the table
			served++
		} else if a.status != http.StatusServiceUnavailable {
			t.Errorf("answered %+v", a)
		}
	}
	if served < 1 || served > cores {
		t.Errorf("%d sums served, want 1 to %d", served, cores)
	}
	server.Close() // waits for the handlers
	stats, meters := s.guard.Stats(), s.guard.Meters()
	if stats.InService != 0 || stats.Queued != 0 || meters["memsem_inside"] != 0 || stats.Arrived != clients+20 {
		t.Errorf("left behind: %+v, %v", stats, meters)
	}
}

// A real sum is right, and accounts for what it has read.
func TestSum(t *testing.T) {
	t.Parallel()
	s, err := newService(2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer s.guard.Close()
	s.table = make([]uint64, 4<<16)
	s.table[0], s.table[len(s.table)-1] = 1, 41
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/sum", nil))
	bytes, _ := s.moved.MemBytes(0)
	if w.Code != http.StatusOK || w.Body.String() != "42\n" || bytes != 8*4<<16 {
		t.Errorf("%d %q, %d bytes accounted", w.Code, w.Body, bytes)
	}
}

// run ends with its context, and reports an address that it cannot have.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", time.Second) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), "nowhere", time.Second); err == nil {
		t.Error("listens nowhere")
	}
}
