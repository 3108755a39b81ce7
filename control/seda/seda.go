// Package seda limits the rate at which each client sends, by the latency that it sees: when a high percentile is above the target the
// rate is divided, when it is far below the rate grows by a step.
//
//	cur  ← smoothing·cur + (1 − smoothing)·percentile of the latest samples
//	err  = (cur − target)/target
//	rate ← rate/adj_d                 if err > err_d
//	rate ← rate + adj_i·(c_i − err)   if err < err_i
//
// The law is the overload control of Welsh and Culler, "Adaptive Overload Control for Busy Internet Servers" (USITS '03), as its published
// Java source has it (the controller of several classes, of which one is used). There it stands in the server and limits what a stage
// accepts. Here it stands in the client, in a token bucket of its own each, which is the form that Breakwater, Protego and Svalinn were
// compared with; their published code gives the constants of that form. Constants of the original that the paper states and that were
// not read there are marked in docs/papers.md.
package seda

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
)

// Config are the settings of a Server and its Clients. The zero of a setting whose documentation says so stands for what Form says.
type Config struct {
	Form       string        `setting:"form" doc:"whose constants stand in for settings that are 0: compared (as a baseline of Breakwater, Protego and Svalinn) or original (USITS '03)"`
	Target     time.Duration `setting:"target" doc:"latency that the percentile is held against; 0 stands for the tightest SLO"`
	Percentile float64       `setting:"percentile" doc:"which percentile, as a share; 0 stands for 0.99 (compared) or 0.9 (original)"`
	Samples    int           `setting:"samples" unit:"replies" doc:"the rate is reconsidered after so many"`
	Timeout    time.Duration `setting:"timeout" doc:"or at the first reply so long after it was last reconsidered; 0 stands for 1ms (compared) or 1s (original)"`
	Smoothing  float64       `setting:"smoothing" doc:"weight of the past in the smoothed percentile"`
	ErrD       float64       `setting:"err_d" doc:"the rate shrinks when the relative error is above this"`
	ErrI       float64       `setting:"err_i" doc:"the rate grows when the relative error is below this"`
	AdjD       float64       `setting:"adj_d" doc:"what a shrinking rate is divided by; 0 stands for 1.3 (compared) or 1.2 (original)"`
	AdjI       float64       `setting:"adj_i" unit:"requests/s" doc:"what a growing rate grows by, times c_i less the error; 0 stands for 5 (compared) or 2 (original)"`
	CI         float64       `setting:"c_i" doc:"see adj_i"`
	Initial    float64       `setting:"initial" unit:"requests/s" doc:"rate of a client when it starts; 0 stands for a draw from 2 to 4 (compared) or 100 (original)"`
	MinRate    float64       `setting:"min_rate" unit:"requests/s" doc:"a rate never falls below this; 0 stands for 2 (compared) or 0.05 (original)"`
	MaxRate    float64       `setting:"max_rate" unit:"requests/s" doc:"a rate never rises above this; 0 stands for no bound (compared) or 5000 (original)"`
	Burst      float64       `setting:"burst" unit:"requests" doc:"depth of the token bucket; 0 stands for 4 (compared) or 1 (original)"`
	Queue      int           `setting:"client_queue" unit:"requests" doc:"how many may wait at a client; one more refuses the oldest"`
	MaxAge     time.Duration `setting:"client_delay" doc:"how long one may wait at a client until it is refused; 0 for no bound"`
	DropDelay  time.Duration `setting:"drop_delay" doc:"the server rejects requests that wait longer than this before they start; 0 for never"`
}

// The two forms.
const (
	Compared = "compared"
	Original = "original"
)

// Default returns the constants that Svalinn's published artifact has for its synthetic experiment (SLO 500 µs). Those of its others, and
// of earlier papers with the same client:
//
//	                     target  adj_i  adj_d  timeout  drop_delay
//	Svalinn synthetic       SLO      5    1.3      1ms       200us
//	Svalinn RocksDB         SLO      5    1.3      2ms       200us
//	Svalinn DataFrame       SLO     12    1.1      7ms      2200us
//	Svalinn memcached       SLO      5    1.3      2ms       440us
//	Svalinn in Go           SLO      2    1.3      5ms      1500us
//	Breakwater, 1us        50us    120   1.04      1ms           0
//	Breakwater, 10us       80us     40   1.04      1ms           0
//	Breakwater, 100us     720us     10    1.3      1ms           0
//
// Breakwater's clients drew their initial rate from 2 to 8 requests a second, and those of 1 µs services had a client_delay of 10 µs.
func Default() Config {
	return Config{
		Form: Compared, Samples: 100, Smoothing: 0.7, ErrD: 0, ErrI: -0.5, CI: -0.1,
		Queue: 16, MaxAge: 100 * time.Microsecond, DropDelay: 200 * time.Microsecond,
	}
}

// maxSamples bounds the memory that a setting can ask for: half a megabyte a client, who has the room before the first reply.
const maxSamples = 1 << 16

// Check returns an error that names the setting that is out of range.
func (c Config) Check() error {
	switch {
	case c.Form != Compared && c.Form != Original:
		return fmt.Errorf("form is %q, must be %s or %s", c.Form, Compared, Original)
	case c.Target < 0:
		return fmt.Errorf("target is %v, must not be negative", c.Target)
	case c.Percentile < 0 || c.Percentile > 1:
		return fmt.Errorf("percentile is %v, must be a share from 0 to 1", c.Percentile)
	case c.Samples < 1 || c.Samples > maxSamples:
		return fmt.Errorf("samples is %d, must be from 1 to %d", c.Samples, maxSamples)
	case c.Timeout < 0:
		return fmt.Errorf("timeout is %v, must not be negative", c.Timeout)
	case c.Smoothing < 0 || c.Smoothing >= 1:
		return fmt.Errorf("smoothing is %v, must be at least 0 and below 1", c.Smoothing)
	case c.ErrI > c.ErrD:
		return fmt.Errorf("err_i is %v, must not be above err_d, which is %v", c.ErrI, c.ErrD)
	case c.CI < c.ErrI:
		return fmt.Errorf("c_i is %v, must not be below err_i, which is %v: rates would shrink where they should grow", c.CI, c.ErrI)
	case c.AdjD != 0 && c.AdjD < 1:
		return fmt.Errorf("adj_d is %v, must be at least 1", c.AdjD)
	case c.AdjI < 0:
		return fmt.Errorf("adj_i is %v, must not be negative", c.AdjI)
	}
	return c.checkRates()
}

func (c Config) checkRates() error {
	for _, rate := range []struct {
		name  string
		value float64
	}{{"initial", c.Initial}, {"min_rate", c.MinRate}, {"max_rate", c.MaxRate}} {
		if rate.value < 0 {
			return fmt.Errorf("%s is %v, must not be negative", rate.name, rate.value)
		}
	}
	full := c.filled()
	switch {
	case full.MaxRate > 0 && full.MaxRate < full.MinRate:
		return fmt.Errorf("max_rate is %v, must not be below min_rate, which is %v", full.MaxRate, full.MinRate)
	case c.Burst != 0 && c.Burst < 1:
		return fmt.Errorf("burst is %v, must be at least 1: a request needs a whole token", c.Burst)
	case c.Queue < 1:
		return fmt.Errorf("client_queue is %d, must be at least 1: a request waits there for its token", c.Queue)
	case c.MaxAge < 0:
		return fmt.Errorf("client_delay is %v, must not be negative", c.MaxAge)
	case c.DropDelay < 0:
		return fmt.Errorf("drop_delay is %v, must not be negative", c.DropDelay)
	}
	return nil
}

// filled returns c with the constants of its form in place of zeros.
func (c Config) filled() Config {
	fill := func(v *float64, compared, original float64) {
		if *v != 0 {
			return
		}
		*v = compared
		if c.Form == Original {
			*v = original
		}
	}
	fill(&c.Percentile, 0.99, 0.9)
	fill(&c.AdjD, 1.3, 1.2)
	fill(&c.AdjI, 5, 2)
	fill(&c.Initial, 0, 100)
	fill(&c.MinRate, 2, 0.05)
	fill(&c.MaxRate, 0, 5000)
	fill(&c.Burst, 4, 1)
	if c.Timeout == 0 {
		c.Timeout = time.Millisecond
		if c.Form == Original {
			c.Timeout = time.Second
		}
	}
	return c
}

// New returns the server's half and what makes a client's. slo stands in for a Target of 0; without either nothing could be held against
// anything. It panics when c is out of range.
func New(c Config, slo time.Duration) (*Server, func(*rand.Rand) *control.Outbox) {
	if c.Target == 0 {
		c.Target = slo
	}
	if err := c.Check(); err != nil {
		panic("seda: " + err.Error())
	}
	if c.Target <= 0 {
		panic("seda: neither a target nor an SLO")
	}
	bounds := control.OutboxConfig{Queue: c.Queue, MaxAge: c.MaxAge}
	return &Server{drop: c.DropDelay}, func(rng *rand.Rand) *control.Outbox {
		return control.NewOutbox(NewClient(c, rng), bounds)
	}
}

// Server is the server's half. The law does without one; what stands here is the drop that Svalinn's artifact added for the tail: a request
// that has waited too long is not begun.
//
// Where the Gate has a limit on slots the wait is known when the request's turn comes, and judged then. On a machine whose cores have
// run queues of their own a request waits after the Gate has started it, so arrivals are judged as well, by the queueing delay that they
// find: first in, first out, it is about what they would wait.
type Server struct{ drop time.Duration }

var _ control.Controller = (*Server)(nil)

// Decide rejects what waits, or would wait, too long.
func (s *Server) Decide(_ clock.Instant, stage control.Stage, r *control.Request) control.Decision {
	delay := r.QueueDelay
	if stage == control.AtDequeue {
		delay = r.Waited
	}
	if s.drop > 0 && delay > s.drop {
		return control.Decision{Verdict: control.Reject, Reason: control.QueueDelay}
	}
	return control.Decision{}
}

// Observe does nothing.
func (*Server) Observe(clock.Instant, control.Event) {}

// Tick asks for no further tick.
func (*Server) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }
