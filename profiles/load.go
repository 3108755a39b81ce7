package profiles

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"spillway/internal/arrival"
	"spillway/internal/dist"
)

// ArrivalsClosed is the closed loop: clients that wait for their reply before they ask again.
const ArrivalsClosed = "closed"

// The clients.
const (
	ClientPipelined  = "pipelined"
	ClientGomemcache = "gomemcache"
)

// Closed reports whether the load is a closed loop.
func (w *Workload) Closed() bool { return w.Arrivals == ArrivalsClosed }

// SkipLate returns how late a request may be that is still sent, as catch_up says; 0 for any.
func (w *Workload) SkipLate() (time.Duration, error) {
	limit, found := strings.CutPrefix(w.CatchUp, "skip:")
	if w.CatchUp == "" || w.CatchUp == "send" {
		return 0, nil
	}
	if !found {
		return 0, fmt.Errorf("catch_up %q: write send, or skip:DURATION such as skip:1ms", w.CatchUp)
	}
	d, err := dist.ParseDuration(limit)
	if err == nil && d == 0 {
		err = fmt.Errorf("catch_up %q: the duration must be longer than 0", w.CatchUp)
	}
	return d, err
}

// Process returns the arrival process of the load at a rate.
func (w *Workload) Process(rate float64, warmUp, window time.Duration) (arrival.Process, error) {
	return arrival.Make(arrival.Config{Arrivals: w.Arrivals, Shape: w.Shape, Rate: rate, WarmUp: warmUp, Window: window})
}

// loading checks when and by whom requests are sent.
func (c *checker) loading(p *Profile) {
	w := &p.Workload
	if w.Connections < 1 || w.Connections > maxConnections {
		c.fail("workload.connections", "connections is between 1 and %d", maxConnections)
	}
	if w.MaxConnections != 0 && (w.MaxConnections < w.Connections || w.MaxConnections > maxConnections) {
		c.fail("workload.max_connections", "max_connections is between connections, which is %d, and %d", w.Connections, maxConnections)
	}
	if w.InFlight < 0 || w.InFlight > maxConnections {
		c.fail("workload.in_flight", "in_flight is between 1 and %d, or 0 for the client's own bound", maxConnections)
	}
	if w.Senders < 0 || w.Senders > w.Connections {
		c.fail("workload.senders", "senders is between 1 and the connections, which are %d: each has one at least", w.Connections)
	}
	if _, err := w.SkipLate(); err != nil {
		c.fail("workload.catch_up", "%v", err)
	}
	c.oneOf("workload.client", cmp.Or(w.Client, ClientPipelined), clientKinds)
	if w.Kind == kindReplay {
		c.replayed(p)
		return
	}
	if w.Closed() {
		if w.Shape != "" {
			c.fail("workload.shape", "the clients of a closed loop ask when they have their reply; its rate has no shape")
		}
		return
	}
	// A rate that any process takes; the rates themselves are checked where they stand.
	if _, err := w.Process(1000, p.WarmUp, p.Window); err != nil {
		if strings.HasPrefix(err.Error(), "rate shape") {
			c.fail("workload.shape", "%v", err)
		} else {
			c.fail("workload.arrivals", "%v; or %s, for comparison", err, ArrivalsClosed)
		}
	}
}
