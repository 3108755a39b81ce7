package allocator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"spillway/clock"
	"spillway/control/capacity"
)

// Edge is a server whose control is granted rates.
type Edge interface {
	// Limiter has f called with the controller, while nobody else uses it.
	Limiter(f func(now clock.Instant, l *capacity.Limiter)) bool
	// Classes returns the names of the classes.
	Classes() []string
}

// Link keeps an edge in touch with its allocator: it has a report under way at all times, puts into force what it is answered, and reports that at once,
// since others may be waiting for what it has given up.
type Link struct {
	name   string
	url    string
	edge   Edge
	client *http.Client
	say    func(string)
	cycle  time.Duration

	seq, last int64
	asked     []float64
	mu        struct {
		sync.Mutex
		reported, failed uint64
		failing, differs bool
	}
}

// NewLink returns the link of the edge called name to the allocator at url, http://host:port. say is told, once for each change, of what goes
// wrong; it may be nil.
func NewLink(name, allocator string, edge Edge, say func(string)) (*Link, error) {
	u, err := url.Parse(allocator)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("allocator %q: write http://host:port", allocator)
	}
	if name == "" {
		return nil, errors.New("an edge needs the name by which the allocator knows it")
	}
	if say == nil {
		say = func(string) {}
	}
	l := &Link{
		name: name, url: strings.TrimSuffix(allocator, "/") + "/report", edge: edge, say: say,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, asked: make([]float64, len(edge.Classes())),
	}
	if !edge.Limiter(func(_ clock.Instant, c *capacity.Limiter) { l.cycle = c.Cycle() }) {
		return nil, errors.New("an allocator grants rates to the controller capacity; say --control capacity, or leave the allocator out")
	}
	return l, nil
}

// mostPerCycle bounds how often an edge reports in a cycle. An allocator of this package answers less often than that, whatever happens (partShare).
const mostPerCycle = 2 * partShare

// Run reports until ctx is done. What goes wrong is left to the leases: the edge goes on with its last grants, and at their end with its
// baselines.
func (l *Link) Run(ctx context.Context) {
	defer l.client.CloseIdleConnections()
	timer := time.NewTimer(0)
	defer timer.Stop()
	began, n := time.Now(), 0 // of a cycle, and how many reports there were in it
	for {
		pause := time.Duration(0)
		err := l.exchange(ctx)
		if ctx.Err() != nil {
			return
		}
		l.note(err)
		n++
		switch gone := time.Since(began); {
		case err != nil:
			pause = l.cycle / 2
		case gone >= l.cycle:
			began, n = time.Now(), 0
		case n >= mostPerCycle:
			pause = l.cycle - gone
		}
		if pause == 0 {
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// note says when an exchange fails, and when it does no more.
func (l *Link) note(err error) {
	l.mu.Lock()
	l.mu.reported++
	was := l.mu.failing
	if l.mu.failing = err != nil; err != nil {
		l.mu.failed++
	}
	l.mu.Unlock()
	switch {
	case err != nil && !was:
		l.say(fmt.Sprintf("the allocator cannot be reached: %v", err))
	case err == nil && was:
		l.say("the allocator answers again")
	}
}

// Figures yields what there is to show of the link.
func (l *Link) Figures(yield func(name string, value float64) bool) {
	l.mu.Lock()
	reported, failed, differs := l.mu.reported, l.mu.failed, l.mu.differs
	l.mu.Unlock()
	number := 0.0
	if differs {
		number = 1
	}
	_ = yield("allocator_reports", float64(reported)) && yield("allocator_reports_failed", float64(failed)) &&
		yield("allocator_baseline_differs", number)
}

// exchange reports once, and puts into force what is granted.
func (l *Link) exchange(ctx context.Context) error {
	classes := l.edge.Classes()
	r := Report{Edge: l.name, Last: l.last, Demand: map[string]float64{}, Holds: map[string]float64{}, WaitMS: l.cycle.Milliseconds()}
	var sent clock.Instant
	l.edge.Limiter(func(now clock.Instant, c *capacity.Limiter) {
		sent = now
		c.Demand(now, l.asked)
		for k, name := range classes {
			r.Demand[name] = l.asked[k]
			r.Holds[name], _ = c.Quota(now, uint16(k))
		}
	})
	l.seq = max(l.seq+1, time.Now().UnixNano())
	r.Seq = l.seq
	// The answer is kept back for a cycle at most, and takes some time. What is not answered then is given up, and is not taken later.
	ctx, cancel := context.WithTimeout(ctx, l.cycle+l.cycle/2)
	defer cancel()
	g, err := l.post(ctx, &r)
	if err != nil {
		return err
	}
	rates, differs := make([]float64, len(classes)), false
	for k, name := range classes {
		rate, ok := g.Rates[name]
		if !ok {
			return fmt.Errorf("the allocator grants nothing to the class %q, nor takes it away: it knows others", name)
		}
		rates[k] = rate
	}
	l.edge.Limiter(func(now clock.Instant, c *capacity.Limiter) {
		for k, name := range classes {
			differs = differs || math.Abs(c.Baseline(uint16(k))-g.Baseline[name]) > 1e-6*g.Baseline[name]
		}
		ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
		err = c.GrantBorrowed(now, rates, sent.Add(ms(g.BorrowedMS)), now.Add(ms(g.LeaseMS)))
	})
	if err != nil {
		return err
	}
	l.last = g.ID
	l.mu.Lock()
	first := differs && !l.mu.differs
	l.mu.differs = differs
	l.mu.Unlock()
	if first {
		l.say(fmt.Sprintf("the allocator takes %v for the baselines of this edge; start it with those, or the budget does not hold when leases end", g.Baseline))
	}
	return nil
}

// post sends a report and returns the answer.
func (l *Link) post(ctx context.Context, r *Report) (g Grants, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return g, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return g, err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := l.client.Do(request)
	if err != nil {
		return g, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReport))
	if err != nil {
		return g, err
	}
	if reply.StatusCode != http.StatusOK {
		return g, fmt.Errorf("status %d: %s", reply.StatusCode, strings.TrimSpace(string(text)))
	}
	if err := json.Unmarshal(text, &g); err != nil {
		return g, fmt.Errorf("the answer is none of an allocator: %w", err)
	}
	return g, nil
}
