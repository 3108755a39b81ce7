//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/reqlog"
	"spillway/profiles"
)

// ask is one request of a user of an edge, and what became of it.
type ask struct {
	due   time.Duration // since the load began
	edge  int           // whose user it is
	class int

	sent    time.Duration
	latency time.Duration // from due
	to      int           // the edge that answered, or was asked last
	fate    reqlog.Fate
	status  int // of the answer; 0 for none
	why     error
}

// crowd is the users of all edges. It is an open loop: nobody waits for anybody else's answer.
type crowd struct {
	fleet   *fleet
	asks    []ask
	clients []*http.Client // by edge
	path    string
	classes []string
	began   time.Time
	ok      atomic.Int64 // asks answered with what was wanted, for whoever looks on
}

// newCrowd draws when who asks what: each class at each edge is an arrival process of its own, whose rate changes from cycle to cycle.
func newCrowd(f *fleet, p *profiles.Profile, seed uint64, warmUp, window time.Duration) (*crowd, error) {
	w := &p.Workload
	a := w.Allocation
	c := &crowd{fleet: f, path: a.LiveSettings().Path}
	for i := range w.Classes {
		c.classes = append(c.classes, w.Classes[i].Name)
	}
	for k, d := range demands(w, w.Scenario()) {
		for i := range a.Locations {
			if err := c.draw(&d, a, w.Arrivals, seed, k, i, warmUp+window); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(c.asks, func(a, b ask) int { return int(a.due - b.due) })
	if len(c.asks) == 0 {
		return nil, usage("%s: workload.allocation: nobody asks for anything", p.File())
	}
	for range a.Locations {
		c.clients = append(c.clients, &http.Client{
			Timeout: p.Timeout,
			Transport: &http.Transport{
				MaxConnsPerHost: w.Connections, MaxIdleConnsPerHost: w.Connections, MaxIdleConns: w.Connections, DisableCompression: true,
				IdleConnTimeout: idleTime,
				DialContext:     (&net.Dialer{Timeout: p.Timeout}).DialContext,
			},
		})
	}
	return c, nil
}

// idleTime is how long a connection is kept for the next request. It is less than a server waits for the first head on a connection: one that was
// dialled and not needed would be closed just when it is used, and that request lost by nobody's fault.
const idleTime = 3 * time.Second

// rated is demand that has a rate in every cycle.
type rated interface {
	Rate(cycle, location int) float64
}

func (c *crowd) draw(d rated, a *profiles.Allocation, arrivals string, seed uint64, class, edge int, length time.Duration) error {
	config := arrival.Config{Arrivals: arrivals, Window: length}
	most := 0.0
	for n := range int(length / a.Cycle) {
		rate := d.Rate(n, edge)
		most = max(most, rate)
		config.Phases = append(config.Phases, arrival.Phase{For: a.Cycle, Rate: rate})
	}
	if most == 0 {
		return nil
	}
	process, err := arrival.Make(config)
	if err != nil {
		return fmt.Errorf("workload.arrivals: %w", err)
	}
	rng := dist.Stream(seed, "allocation arrivals", uint64(class)<<32|uint64(edge))
	for at := process.Next(rng); at < clock.Instant(length); at = process.Next(rng) {
		c.asks = append(c.asks, ask{due: time.Duration(at), class: class, edge: edge})
	}
	return nil
}

// maxUnderWay bounds how many requests wait for an answer at once. Beyond it, what is due is not sent.
const maxUnderWay = 8192

// run sends every request when it is due, and returns when all are answered, or ctx is done. What was not sent then is cut off.
func (c *crowd) run(ctx context.Context) (cut bool) {
	room := make(chan struct{}, maxUnderWay)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var running sync.WaitGroup
	defer func() {
		running.Wait()
		for _, client := range c.clients {
			client.CloseIdleConnections()
		}
	}()
	for i := range c.asks {
		a := &c.asks[i]
		if wait := a.due - time.Since(c.began); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				c.asks = c.asks[:i]
				return true
			}
		}
		select {
		case room <- struct{}{}:
		default:
			a.fate, a.to = reqlog.Unsent, a.edge
			continue
		}
		running.Go(func() {
			c.send(context.WithoutCancel(ctx), a)
			<-room
		})
	}
	return ctx.Err() != nil
}

// send asks the user's edge or, when that is down, the others in turn.
func (c *crowd) send(ctx context.Context, a *ask) {
	a.sent = time.Since(c.began)
	defer func() { a.latency = time.Since(c.began) - a.due }()
	a.to = a.edge
	for tried := 0; tried < len(c.clients); tried++ {
		if c.fleet.down[a.to].Load() {
			a.to = c.next(a)
		}
		a.status, a.why = c.get(ctx, a.to, a.class)
		if a.why == nil || !c.fleet.down[a.to].Load() {
			break // answered, or lost by an edge that has no excuse
		}
	}
	var timeout net.Error
	switch {
	case a.why == nil && a.status/100 == 2:
		a.fate = reqlog.OK
		c.ok.Add(1)
	case a.why == nil && (a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable):
		a.fate = reqlog.Rejected
	case errors.As(a.why, &timeout) && timeout.Timeout():
		a.fate = reqlog.TimedOut
	default:
		a.fate = reqlog.Failed
	}
}

// next returns the edge that users of one that is down go to: each another, so that none gets all of them.
func (c *crowd) next(a *ask) int {
	n := len(c.clients)
	turn := int(uint64(a.due/time.Microsecond) % uint64(max(n-1, 1)))
	return replacement(a.edge, turn, n, func(i int) bool { return c.fleet.down[i].Load() })
}

// replacement returns which of n edges a user of one that is down asks instead, of those whose turn it is; the same one when all are down.
func replacement(edge, turn, n int, down func(edge int) bool) int {
	for step := range n {
		if to := (edge + 1 + turn + step) % n; !down(to) {
			return to
		}
	}
	return edge
}

func (c *crowd) get(ctx context.Context, edge, class int) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.fleet.edges[edge].addr+"/"+c.path, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Class", c.classes[class])
	reply, err := c.clients[edge].Do(request)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	// To its end, so that the connection can be used again.
	if _, err := io.Copy(io.Discard, reply.Body); err != nil {
		return 0, err
	}
	return reply.StatusCode, nil
}
