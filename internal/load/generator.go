package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

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

	// Of Shards generators, number Shard yields the requests of the clients whose number is Shard modulo Shards. Together they yield
	// what one generator would: each draws the whole sequence, from a workload and a process of its own, and passes over what is not
	// its part. Shards 0 means 1.
	Shard, Shards int
}

// Generator draws the sequence of requests. One configuration gives one sequence of (instant, client, operation); how it is sent, and by
// how many shards, has no influence on it.
type Generator struct {
	config  Config
	even    bool // clients take turns
	skipper workloads.Skipper
	varying workloads.Varying
	times   *rand.Rand
	picks   *rand.Rand
	asks    *rand.Rand

	drew   bool          // the next request of this shard
	due    clock.Instant // of that request
	client uint32        // of that request
	drawn  uint64        // requests of the sequence so far, those of other shards and the next one included
	hash   uint64        // of all that have been drawn
	fired  uint64
	op     workloads.Op
	refills
}

// NewGenerator returns a generator at the start of its sequence.
func NewGenerator(c Config) (*Generator, error) {
	c.Shards = max(c.Shards, 1)
	switch {
	case c.Clients < 1:
		return nil, errors.New("load: at least one client is needed")
	case c.Workload == nil:
		return nil, errors.New("load: no workload")
	case c.Arrivals == nil:
		return nil, errors.New("load: no arrival process")
	case c.Shard < 0 || c.Shard >= c.Shards:
		return nil, fmt.Errorf("load: shard %d of %d", c.Shard, c.Shards)
	}
	g := &Generator{
		config: c,
		times:  dist.Stream(c.Seed, "arrivals", 0),
		picks:  dist.Stream(c.Seed, "clients", 0),
		asks:   dist.Stream(c.Seed, "operations", 0),
		// Evenly spaced arrivals stay evenly spaced at each client only when clients take turns. A Poisson process splits into
		// independent Poisson processes only when each arrival picks its client at random.
		even: arrival.Even(c.Arrivals),
	}
	g.skipper, _ = c.Workload.(workloads.Skipper)
	g.varying, _ = c.Workload.(workloads.Varying)
	g.refills.init(&c)
	return g, nil
}

// Due returns when the next request is due; clock.Never when the sequence is over.
func (g *Generator) Due() clock.Instant {
	if !g.drew {
		g.advance()
	}
	return min(g.due, g.refills.due())
}

// Clients returns how many senders the arrivals are spread among.
func (g *Generator) Clients() int { return g.config.Clients }

// Fired returns how many requests have been drawn for this shard, those that follow a miss included.
func (g *Generator) Fired() uint64 { return g.fired }

// Sequence returns how many requests have been drawn for all shards, and a hash of their instants, clients and operations: equal hashes of
// equally many requests mean that the same was asked at the same instants. Requests that follow a miss are not of the sequence.
func (g *Generator) Sequence() (requests, hash uint64) {
	if g.drew && g.due != clock.Never { // the next one has been drawn, but its operation has not
		return g.drawn - 1, g.hash
	}
	return g.drawn, g.hash
}

// Fire draws the request that is due next. The operation is valid until the next call of a method. It panics when the sequence is over.
func (g *Generator) Fire() (rec reqlog.Record, client uint32, op *workloads.Op) {
	if g.Due() == clock.Never {
		panic("load: Fire after the end of the sequence")
	}
	g.fired++
	if g.refills.due() < g.due {
		return g.refill(&g.op)
	}
	client = g.client
	g.config.Workload.Next(g.asks, &g.op)
	rec = newRecord(g.drawn-1, g.due, &g.op)
	if g.op.WriteBack {
		g.await(rec.Seq, client, &g.op)
	}
	g.note()
	// What comes next is drawn later: passing over others' requests would overwrite the operation.
	g.drew = false
	return rec, client, &g.op
}

func newRecord(seq uint64, due clock.Instant, op *workloads.Op) reqlog.Record {
	rec := reqlog.Record{
		Seq: seq, Intended: due,
		Queued: -1, Service: -1,
		Class: op.Class, Kind: uint8(op.Kind), Keys: 1,
	}
	if op.Kind == workloads.MultiGet {
		rec.Keys = uint8(1 + len(op.More))
	}
	return rec
}

// advance draws instants and clients until it has one of this shard.
func (g *Generator) advance() {
	g.drew = true
	for {
		g.due = g.config.Arrivals.Next(g.times)
		if g.due >= g.config.End {
			g.due = clock.Never
			return
		}
		if g.even {
			g.client = uint32(g.drawn % uint64(g.config.Clients))
		} else {
			g.client = uint32(g.picks.Uint64N(uint64(g.config.Clients)))
		}
		g.drawn++
		if g.varying != nil {
			g.varying.Shift(time.Duration(g.due))
		}
		if int(g.client)%g.config.Shards == g.config.Shard {
			return
		}
		if g.skipper != nil {
			g.skipper.Skip(g.asks, &g.op)
		} else {
			g.config.Workload.Next(g.asks, &g.op)
		}
		g.note()
	}
}

// note adds the operation at hand to the hash of the sequence.
func (g *Generator) note() {
	what := g.op.Ref
	if g.skipper == nil { // a workload that spells out everything may number nothing
		for _, b := range g.op.Key {
			what = what*1099511628211 ^ uint64(b)
		}
	}
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f // so that the parts do not cancel out
	g.hash = dist.Mix(g.hash ^ uint64(g.due)*odd1 ^ what*odd2 ^ uint64(g.client)<<32 ^ uint64(g.op.Class)<<8 ^ uint64(g.op.Kind))
}
