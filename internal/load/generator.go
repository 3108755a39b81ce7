package load

import (
	"errors"
	"math/rand/v2"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// Config says what a Generator draws.
type Config struct {
	Seed     uint64
	Clients  int                // senders among which the arrivals are spread, at least 1
	Workload workloads.Workload // what is asked
	Arrivals arrival.Process    // when
	End      clock.Instant      // arrivals due at End or later are not made
}

// Generator draws the sequence of requests. One configuration gives one sequence of (instant, client, operation); how it is
// sent has no influence on it.
type Generator struct {
	config Config
	even   bool // clients take turns
	times  *rand.Rand
	picks  *rand.Rand
	asks   *rand.Rand
	due    clock.Instant
	seq    uint64
	op     workloads.Op
}

// NewGenerator returns a generator at the start of its sequence.
func NewGenerator(c Config) (*Generator, error) {
	switch {
	case c.Clients < 1:
		return nil, errors.New("load: at least one client is needed")
	case c.Workload == nil:
		return nil, errors.New("load: no workload")
	case c.Arrivals == nil:
		return nil, errors.New("load: no arrival process")
	}
	g := &Generator{
		config: c,
		times:  dist.Stream(c.Seed, "arrivals", 0),
		picks:  dist.Stream(c.Seed, "clients", 0),
		asks:   dist.Stream(c.Seed, "operations", 0),
	}
	// Evenly spaced arrivals stay evenly spaced at each client only when clients take turns. A Poisson process splits into
	// independent Poisson processes only when each arrival picks its client at random.
	_, g.even = c.Arrivals.(*arrival.Constant)
	g.advance()
	return g, nil
}

// Due returns when the next request is due; clock.Never when the sequence is over.
func (g *Generator) Due() clock.Instant { return g.due }

// Fired returns how many requests have been drawn.
func (g *Generator) Fired() uint64 { return g.seq }

// Fire draws the request that is due next. The operation is valid until the next call. It panics when the sequence is over.
func (g *Generator) Fire() (rec reqlog.Record, client uint32, op *workloads.Op) {
	if g.due == clock.Never {
		panic("load: Fire after the end of the sequence")
	}
	if g.even {
		client = uint32(g.seq % uint64(g.config.Clients))
	} else {
		client = uint32(g.picks.Uint64N(uint64(g.config.Clients)))
	}
	g.config.Workload.Next(g.asks, &g.op)
	rec = reqlog.Record{
		Seq: g.seq, Intended: g.due,
		Queued: -1, Service: -1,
		Class: g.op.Class, Kind: uint8(g.op.Kind),
	}
	g.seq++
	g.advance()
	return rec, client, &g.op
}

func (g *Generator) advance() {
	g.due = g.config.Arrivals.Next(g.times)
	if g.due >= g.config.End {
		g.due = clock.Never
	}
}
