// Package dagor admits requests by priority: the more overloaded the server, the more important a request has to be. Every reply carries the
// admission level, the least important priority that is still admitted, and clients turn away by themselves what the server would.
//
// It has two forms. The one called paper is the algorithm of Zhou and others, "Overload Control for Scaling WeChat Microservices" (SoCC
// '18): windows of a second or 2000 requests, overload when the mean queueing time of a window exceeds 20 ms, and a histogram of
// priorities from which the level is found that admits 5 % less or 1 % more. The text of the paper was not at hand; the algorithm was read
// in an open re-implementation, and its constants are recalled. The one called compared is what Breakwater, Protego and Svalinn were
// measured against, as read in their published code: the delay is smoothed, the level moves by itself and the histogram is gone.
//
// Both walk from the level of the window before. The re-implementation starts each walk at the top or the bottom instead, and notes its
// doubts about what the paper means; from the current level a quiet window cannot undo what many windows have found.
package dagor

import (
	"fmt"
	"iter"
	"time"

	"spillway/clock"
	"spillway/control"
)

// Config are the settings of a Server and its Clients.
type Config struct {
	Form      string        `setting:"form" doc:"compared (as a baseline of Breakwater, Protego and Svalinn) or paper (SoCC '18)"`
	Threshold time.Duration `setting:"threshold" doc:"queueing delay that counts as overload; 0 stands for 0.4 of the tightest SLO (compared; 20ms where there is none) or 20ms (paper)"`
	Interval  time.Duration `setting:"interval" doc:"the level is reconsidered so long after it was last; 0 stands for 1ms (compared) or 1s (paper)"`
	Requests  int           `setting:"requests" unit:"requests" doc:"or when so many have arrived"`
	Alpha     float64       `setting:"alpha" doc:"share by which overload lowers the level (compared) or what it admits (paper)"`
	Beta      float64       `setting:"beta" doc:"share of all levels (compared) or of the arrivals (paper) by which the level rises without overload"`
	Period    time.Duration `setting:"period" doc:"of compared: how often the delay is sampled; 0 stands for a hundredth of the interval (10us of 1ms)"`
	Smoothing float64       `setting:"smoothing" doc:"of compared: weight of the past in the smoothed delay"`
	Business  int           `setting:"business" doc:"how many business priorities there are, each of 128 levels; 0 stands for as many as the classes have"`
	Unseen    int           `setting:"unseen" unit:"levels" doc:"of paper: through how many levels without arrivals one window may raise the level; 0 for any number"`
	Stale     time.Duration `setting:"stale" doc:"a client that has heard of no level for so long lets one request go, whatever its priority; 0 for never"`
}

// The two forms.
const (
	Compared = "compared"
	Paper    = "paper"
)

// Default returns the constants of the published code and, for the form paper, those of the paper.
//
// Thresholds in use were, by mean service time and its distribution (bimodal, exponential, constant): 1 µs 20/30/30 us; 10 µs 70/60/50 us; 100
// µs 450/400/350 us; memcached 25 us. With SLOs of ten times service and round trip these are 0.2 to 0.4 of the SLO. Hence the 0.4, which is also
// what Breakwater takes for its target.
//
// Two settings are ours. Unseen keeps the form paper from opening wide when clients hold back all that is less important: the histogram is
// then empty above the level, and a search for 1 % more would end at the top. Stale keeps a client whose priority is always the same
// from never hearing that the level has risen.
func Default() Config {
	return Config{
		Form: Compared, Requests: 2000, Alpha: 0.05, Beta: 0.01,
		Smoothing: 0.8, Unseen: 1, Stale: time.Second,
	}
}

// Check returns an error that names the setting that is out of range.
func (c Config) Check() error {
	switch {
	case c.Form != Compared && c.Form != Paper:
		return fmt.Errorf("form is %q, must be %s or %s", c.Form, Compared, Paper)
	case c.Threshold < 0:
		return fmt.Errorf("threshold is %v, must not be negative", c.Threshold)
	case c.Interval < 0:
		return fmt.Errorf("interval is %v, must not be negative", c.Interval)
	case c.Requests < 1:
		return fmt.Errorf("requests is %d, must be at least 1", c.Requests)
	case c.Alpha <= 0 || c.Alpha >= 1:
		return fmt.Errorf("alpha is %v, must be above 0 and below 1", c.Alpha)
	case c.Beta <= 0 || c.Beta > 1:
		return fmt.Errorf("beta is %v, must be above 0 and at most 1", c.Beta)
	case c.Period < 0:
		return fmt.Errorf("period is %v, must not be negative", c.Period)
	case c.Smoothing < 0 || c.Smoothing >= 1:
		return fmt.Errorf("smoothing is %v, must be at least 0 and below 1", c.Smoothing)
	case c.Business < 0 || c.Business > maxBusiness:
		return fmt.Errorf("business is %d, must be from 0 to %d", c.Business, maxBusiness)
	case c.Unseen < 0:
		return fmt.Errorf("unseen is %d, must not be negative", c.Unseen)
	case c.Stale < 0:
		return fmt.Errorf("stale is %v, must not be negative", c.Stale)
	}
	return nil
}

// maxBusiness is how many business priorities fit into a priority.
const maxBusiness = 256

// levels returns how many levels there are; business stands in for a Business of 0.
func (c Config) levels(business int) int {
	if c.Business > 0 {
		business = c.Business
	}
	return min(max(business, 1), maxBusiness) * control.Levels
}

// level returns where a priority stands among so many levels: what is less important than all of them belongs to the last.
func level(priority uint16, levels int) int { return min(int(priority), levels-1) }

// Env is what a Server needs to know of the place where it runs.
type Env struct {
	SLO      time.Duration // stands in for a Threshold of 0, 0 for none
	Business int           // stands in for a Business of 0; 0 for one
}

// Server is the server's half.
type Server struct {
	config    Config
	threshold time.Duration
	interval  time.Duration
	period    time.Duration // of compared
	levels    int

	level    float64 // requests of a priority above it are rejected
	arrivals int     // since the level was last reconsidered
	last     clock.Instant

	smoothed float64       // of compared: the delay, in nanoseconds
	next     clock.Instant // of compared: when the delay is sampled next

	window histogram // of paper
}

var (
	_ control.Controller = (*Server)(nil)
	_ control.Issuer     = (*Server)(nil)
	_ control.Meter      = (*Server)(nil)
)

// New returns the server's half that c describes. It panics when c is out of range.
func New(c Config, env Env) *Server {
	if err := c.Check(); err != nil {
		panic("dagor: " + err.Error())
	}
	s := &Server{config: c, threshold: c.Threshold, interval: c.Interval, levels: c.levels(env.Business)}
	if c.Form == Paper {
		s.window.counts = make([]uint32, s.levels)
		s.level = float64(s.levels - 1)
		s.defaults(20*time.Millisecond, time.Second)
		return s
	}
	s.level = float64(s.levels) / 4 // 32 of 128
	threshold := 20 * time.Millisecond
	if env.SLO > 0 {
		threshold = env.SLO * 4 / 10
	}
	s.defaults(threshold, time.Millisecond)
	return s
}

func (s *Server) defaults(threshold, interval time.Duration) {
	if s.threshold == 0 {
		s.threshold = threshold
	}
	if s.interval == 0 {
		s.interval = interval
	}
	s.period = s.config.Period
	if s.period == 0 {
		s.period = max(s.interval/samples, 1)
	}
}

// samples is how often the delay is looked at before the level is reconsidered, as published: every 10 µs of 1 ms. Whoever reconsiders it less often, on a
// computer whose requests take longer, need not look as often either.
const samples = 100

// Decide rejects arrivals that are not important enough.
func (s *Server) Decide(now clock.Instant, stage control.Stage, r *control.Request) control.Decision {
	if stage != control.AtArrival {
		return control.Decision{}
	}
	at := level(r.Priority, s.levels)
	admit := at <= s.Level()
	s.arrivals++
	if s.config.Form == Paper {
		s.window.arrive(at, admit)
		if s.arrivals >= s.config.Requests {
			s.closeWindow(now)
		}
	}
	if !admit {
		return control.Decision{Verdict: control.Reject, Reason: control.Priority}
	}
	return control.Decision{}
}

// Observe takes the queueing time of those that start.
func (s *Server) Observe(_ clock.Instant, e control.Event) {
	if s.config.Form == Paper && e.Kind == control.Started {
		// Where the machine has run queues of its own, a request has waited nothing yet when the Gate starts it; how long it is going to
		// wait is then best known from the delay that it found when it came.
		s.window.wait(max(e.Request.Waited, e.Request.QueueDelay))
	}
}

// Tick samples the delay, and reconsiders the level when that is due.
func (s *Server) Tick(now clock.Instant, signals control.Signals) clock.Instant {
	if s.config.Form == Paper {
		if now >= s.last.Add(s.interval) {
			s.closeWindow(now)
		}
		return s.last.Add(s.interval)
	}
	if now < s.next {
		return s.next
	}
	s.next = now.Add(s.period)
	g := &s.config
	s.smoothed = g.Smoothing*s.smoothed + (1-g.Smoothing)*float64(signals.QueueDelay)
	due := now.Sub(s.last) >= s.interval || s.arrivals >= g.Requests
	if s.arrivals == 0 || !due {
		return s.next
	}
	if s.smoothed >= float64(s.threshold) {
		s.level *= 1 - g.Alpha
	} else {
		s.level += g.Beta * float64(s.levels)
	}
	s.level = min(max(s.level, 1), float64(s.levels-1))
	s.arrivals, s.last = 0, now
	return s.next
}

// Level returns the least important priority that is admitted.
func (s *Server) Level() int { return int(s.level) }

// Demand does nothing: levels are the same for all clients, whatever they want.
func (*Server) Demand(clock.Instant, uint32, int) {}

// Credits returns the level, which every reply carries.
func (s *Server) Credits(clock.Instant, uint32) int { return s.Level() }

// Wake appends nothing: clients learn of the level from replies only.
func (*Server) Wake(_ clock.Instant, out []control.Action) []control.Action { return out }

// Forget does nothing: no client holds anything.
func (*Server) Forget(clock.Instant, uint32) {}

// Meters yields the admission level, and what is held against the threshold, in microseconds.
func (s *Server) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		delay := time.Duration(s.smoothed)
		if s.config.Form == Paper {
			delay = s.window.lastMean
		}
		_ = yield("admission_level", float64(s.Level())) && yield("dagor_delay_us", float64(delay)/float64(time.Microsecond))
	}
}
