package dagor

import (
	"iter"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
)

// Client is the client's half: it refuses by itself what is less important than the level that it heard last.
type Client struct {
	levels int
	level  int
	stale  time.Duration
	heard  clock.Instant // of the level, or when a request was let go for want of news
}

var (
	_ control.Throttle = (*Client)(nil)
	_ control.Meter    = (*Client)(nil)
)

// NewClient returns the Client that c describes. Its first level is drawn from all there are, so that clients which
// start together do not all send everything. business stands in for a Business of 0.
func NewClient(c Config, business int, rng *rand.Rand) *Client {
	if err := c.Check(); err != nil {
		panic("dagor: " + err.Error())
	}
	levels := c.levels(business)
	return &Client{levels: levels, level: rng.IntN(levels), stale: c.Stale}
}

// NewOutbox returns a Client with its queue. Nothing ever waits there: a request goes or is refused at once.
func NewOutbox(c Config, business int, rng *rand.Rand) *control.Outbox {
	return control.NewOutbox(NewClient(c, business, rng), control.OutboxConfig{})
}

// Permit refuses what is not important enough.
func (c *Client) Permit(now clock.Instant, r *control.Outgoing) control.Verdict {
	if level(r.Priority, c.levels) <= c.level {
		return control.Admit
	}
	if c.stale > 0 && now.Sub(c.heard) >= c.stale {
		c.heard = now // one is enough to hear again
		return control.Admit
	}
	return control.Reject
}

// Hear takes the level that a reply carries, be it that of a shed request.
func (c *Client) Hear(now clock.Instant, n control.Notice) {
	if n.Credits >= 0 {
		c.level, c.heard = n.Credits, now
	}
}

// Next returns Never: nothing waits.
func (*Client) Next(clock.Instant) clock.Instant { return clock.Never }

// Ask never asks: there are no credits to wait for.
func (*Client) Ask(clock.Instant, int) bool { return false }

// Meters yields the level that the client goes by.
func (c *Client) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { yield("client_level", float64(c.level)) }
}
