package seda

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"spillway/clock"
	"spillway/control"
)

// Client is the token bucket of one client and the controller of its rate.
type Client struct {
	config  Config // filled
	rate    float64
	tokens  float64
	filled  clock.Instant // when tokens was worked out; meaningless before the first request
	begun   bool
	samples []time.Duration // since the rate was last reconsidered
	last    clock.Instant   // when that was
	cur     float64         // the smoothed percentile, in nanoseconds
	trend   trend
}

var (
	_ control.Throttle = (*Client)(nil)
	_ control.Meter    = (*Client)(nil)
)

// NewClient returns the Client that c describes, with an empty bucket. Its initial rate is drawn from rng where c says so. It panics when c
// is out of range or has no target.
func NewClient(c Config, rng *rand.Rand) *Client {
	if err := c.Check(); err != nil {
		panic("seda: " + err.Error())
	}
	if c.Target == 0 {
		panic("seda: a client without a target")
	}
	c = c.filled()
	rate := c.Initial
	if rate == 0 {
		// So that clients which start together do not send together.
		rate = 2 + 2*rng.Float64()
	}
	return &Client{config: c, rate: c.clamp(rate), samples: make([]time.Duration, 0, c.Samples)}
}

func (c *Config) clamp(rate float64) float64 {
	rate = max(rate, c.MinRate)
	if c.MaxRate > 0 {
		rate = min(rate, c.MaxRate)
	}
	return rate
}

// nearlyWhole is what counts as a whole token: the sum of many small refills may miss 1 by rounding.
const nearlyWhole = 1 - 1e-9

// Permit lets a request go for a token, and has it wait for one.
func (c *Client) Permit(now clock.Instant, _ *control.Outgoing) control.Verdict {
	c.refill(now)
	if c.tokens < nearlyWhole {
		return control.Wait
	}
	c.tokens--
	return control.Admit
}

// refill adds the tokens of the time that has passed.
func (c *Client) refill(now clock.Instant) {
	if c.begun {
		c.tokens = min(c.tokens+c.rate*now.Sub(c.filled).Seconds(), c.config.Burst)
	}
	c.filled, c.begun = now, true
}

// Next returns when the next token will be whole.
func (c *Client) Next(now clock.Instant) clock.Instant {
	if !c.begun {
		return now
	}
	missing := max(1-c.tokens, 0) / c.rate * float64(time.Second)
	if missing > math.MaxInt64/2 {
		return clock.Never
	}
	return max(c.filled.Add(time.Duration(math.Ceil(missing))), now)
}

// Hear takes the latency of a reply as a sample. Sheds are no samples: the published clients discard the empty replies that they are. Nor
// are requests that were lost, of which nothing is known.
func (c *Client) Hear(now clock.Instant, n control.Notice) {
	if n.Kind != control.Replied || n.Shed {
		return
	}
	c.samples = append(c.samples, n.Latency)
	if full := len(c.samples) == c.config.Samples; full || now.Sub(c.last) > c.config.Timeout {
		c.reconsider(now)
	}
}

// Ask never asks: there are no credits.
func (*Client) Ask(clock.Instant, int) bool { return false }

// reconsider applies the law to the samples.
func (c *Client) reconsider(now clock.Instant) {
	g := &c.config
	slices.Sort(c.samples)
	sample := float64(c.samples[rank(len(c.samples), g.Samples, g.Percentile)])
	c.samples, c.last = c.samples[:0], now
	c.cur = g.Smoothing*c.cur + (1-g.Smoothing)*sample
	err := (c.cur - float64(g.Target)) / float64(g.Target)
	rate := c.rate
	switch {
	case err > g.ErrD:
		rate /= g.AdjD
	case err < g.ErrI: // the original also grows at exactly err_i, which no measurement can tell apart
		rate += g.AdjI * (g.CI - err)
	}
	rate = g.clamp(rate)
	c.trend.moved(c.rate, rate)
	c.refill(now) // at the old rate until now
	c.rate = rate
}

// rank returns the index of the percentile among n sorted samples. The published clients count to n·p when the set is full, which makes the
// 99th of 100 the largest, and to (n−1)·p when the time-out found fewer. Most updates are of the second kind, so it matters.
func rank(n, full int, p float64) int {
	if n == full {
		return min(int(float64(n)*p), n-1)
	}
	return int(float64(n-1) * p)
}

// Rate returns how many requests a second the client may send.
func (c *Client) Rate() float64 { return c.rate }

// Converged reports whether the rate has found where it belongs; see trend. A result that was measured while clients had not converged says
// more about the ramp than about the law.
func (c *Client) Converged() bool { return c.trend.settled(c.rate) }

// Meters yields the rate, in requests a second, and whether it has converged, 1 or 0; the mean over clients is what to plot.
func (c *Client) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		converged := 0.0
		if c.Converged() {
			converged = 1
		}
		_ = yield("rate", c.rate) && yield("converged", converged)
	}
}

// What counts as converged.
const (
	steady    = 8    // so many updates in a row that left the rate alone
	overshoot = 1.25 // above the last peak by more than this factor the rate is on its way up again
	falling   = 8    // so many cuts in a row mean that it is still on its way down
)

// trend watches a rate that grows in steps and shrinks by factors. Such a rate never stands still: it has converged when it moves between
// a peak, from which it was cut, and what the cuts left of it, or when it rests where the error is neither high nor low, or at a bound.
// It has not converged while it climbs beyond all it has tried, nor while it is cut again and again.
type trend struct {
	peak  float64 // the rate before the last run of cuts; 0 before the first
	cuts  int     // in a row
	still int     // updates in a row that left the rate alone
}

func (t *trend) moved(from, to float64) {
	switch {
	case to == from:
		t.still++
	case to < from:
		if t.cuts == 0 {
			t.peak = from
		}
		t.cuts, t.still = t.cuts+1, 0
	default:
		t.cuts, t.still = 0, 0
	}
}

func (t *trend) settled(rate float64) bool {
	return t.still >= steady || t.peak > 0 && t.cuts < falling && rate <= overshoot*t.peak
}
