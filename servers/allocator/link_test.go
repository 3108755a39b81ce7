package allocator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/control"
	"spillway/control/capacity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// edge is a server with nothing but its controller.
type edge struct {
	mu      sync.Mutex
	clock   *clock.Real
	limiter *capacity.Limiter
	classes []string
}

func newEdge(baseline string) *edge {
	c := capacity.DefaultLimiter()
	c.Baseline, c.Cycle = baseline, 20*time.Millisecond
	return &edge{clock: clock.NewReal(), limiter: capacity.NewLimiter(c), classes: []string{"high", "low"}}
}

func (e *edge) Limiter(f func(clock.Instant, *capacity.Limiter)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.limiter != nil {
		f(e.clock.Now(), e.limiter)
	}
	return e.limiter != nil
}

func (e *edge) Classes() []string { return e.classes }

// ask is so many requests of a class.
func (e *edge) ask(class uint16, n int) {
	e.Limiter(func(now clock.Instant, l *capacity.Limiter) {
		for range n {
			l.Decide(now, control.AtArrival, &control.Request{Class: class})
		}
	})
}

func (e *edge) rate(class uint16) (rate float64) {
	e.Limiter(func(now clock.Instant, l *capacity.Limiter) { rate, _ = l.Quota(now, class) })
	return rate
}

// words is what links have said.
type words struct {
	mu   sync.Mutex
	list []string
}

func (w *words) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

func (w *words) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.list, "\n"), text)
}

// await asks again and again until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker, deadline := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}

// TestLinks: two edges over HTTP; what one does not want the other gets, and without an allocator both are on their baselines.
func TestLinks(t *testing.T) {
	t.Parallel()
	c := testConfig(2)
	c.Cycle, c.Lease = 20*time.Millisecond, 400*time.Millisecond
	server, err := New("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stopServer := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()

	a, b := newEdge("233.33333333,100"), newEdge("466.66666667,200.1")
	var said words
	var running sync.WaitGroup
	linked, stopLinks := context.WithCancel(t.Context())
	defer running.Wait()
	defer stopLinks()
	for name, e := range map[string]*edge{"a": a, "b": b} {
		l, err := NewLink(name, "http://"+server.Addr(), e, said.say)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { l.Run(linked) })
		defer func() {
			figures := map[string]float64{}
			for name, value := range l.Figures {
				figures[name] = value
			}
			if figures["allocator_reports"] < 2 || figures["allocator_reports_failed"] < 1 || (figures["allocator_baseline_differs"] == 1) != (name == "b") {
				t.Errorf("%s: %v", name, figures)
			}
		}()
	}
	await(t, "a has not been given what b does not want", func() bool { a.ask(0, 30); return a.rate(0) > 600 })
	if got := a.rate(0) + a.rate(1) + b.rate(0) + b.rate(1); got > 1000.2 {
		t.Errorf("%g are in force", got)
	}
	await(t, "nothing is said of other baselines", func() bool { return said.has("start it with those") })
	stopServer()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	await(t, "nothing is said of the end of the allocator", func() bool { return said.has("cannot be reached") })
	await(t, "b is not on its baseline", func() bool { return b.rate(1) == 200.1 && a.rate(0) < 234 })
}

// TestWrongAnswers: whatever an allocator says that cannot be understood changes nothing.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`no`:                     "none of an allocator",
		`{"rates": {"high": 1}}`: `nothing to the class "low"`,
		`{"rates": {"high": 1, "low": -1}, "lease_ms": 1000}`: "must not be negative",
		``: "status 500",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if text == "" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(text))
		}))
		e := newEdge("10,20")
		l, err := NewLink("a", s.URL, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.cycle = 10 * time.Second // what is to be seen here is no lack of patience
		if err := l.exchange(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if e.rate(0) != 10 || e.rate(1) != 20 || l.last != 0 {
			t.Errorf("%s: %g and %g are in force", text, e.rate(0), e.rate(1))
		}
		l.client.CloseIdleConnections()
		s.Close()
	}
	e := newEdge("10,20")
	for _, url := range []string{"", "127.0.0.1:80", "https://x", "http://x/?a=b"} {
		if _, err := NewLink("a", url, e, nil); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	if _, err := NewLink("", "http://x", e, nil); err == nil {
		t.Error("an edge without a name was taken")
	}
	e.limiter = nil
	if _, err := NewLink("a", "http://x", e, nil); err == nil || !strings.Contains(err.Error(), "--control capacity") {
		t.Error(err)
	}
	if _, err := New("127.0.0.1:0", Config{}); err == nil || errors.Is(err, errStale) {
		t.Error(err)
	}
}
