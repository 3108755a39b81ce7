package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/internal/dist"
	"spillway/internal/evq"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// ClosedConfig says what a Closed generator draws.
type ClosedConfig struct {
	Seed     uint64
	Clients  int
	Workload workloads.Workload
	Think    dist.Dist     // nanoseconds between a reply and the client's next request
	End      clock.Instant // requests due at End or later are not made

	Shard, Shards int // as in Config; 0 Shards means 1
}

// Closed is the closed loop: each client waits for its reply, thinks, and asks again. When the server slows down, so do the clients: what
// is offered falls, and most of a stall is never seen. It is here to show the difference; everything it measures is labelled. What a
// client asks does not depend on the number of shards, when it asks does depend on the server.
type Closed struct {
	config ClosedConfig
	asks   []*rand.Rand      // by client; nil for those of other shards
	nth    []uint64          // requests drawn, by client
	next   evq.Queue[uint32] // clients by the instant at which they ask
	fired  uint64
	op     workloads.Op

	varying workloads.Varying
	refills
}

// NewClosed returns a generator whose clients all begin by thinking.
func NewClosed(c ClosedConfig) (*Closed, error) {
	c.Shards = max(c.Shards, 1)
	switch {
	case c.Clients < 1:
		return nil, errors.New("load: at least one client is needed")
	case c.Workload == nil || c.Think == nil:
		return nil, errors.New("load: a closed loop needs a workload and a think time")
	case c.Shard < 0 || c.Shard >= c.Shards:
		return nil, fmt.Errorf("load: shard %d of %d", c.Shard, c.Shards)
	}
	g := &Closed{config: c, asks: make([]*rand.Rand, c.Clients), nth: make([]uint64, c.Clients)}
	g.varying, _ = c.Workload.(workloads.Varying)
	g.refills.init(&Config{Workload: c.Workload, End: c.End, Shard: c.Shard})
	for client := c.Shard; client < c.Clients; client += c.Shards {
		g.asks[client] = dist.Stream(c.Seed, "closed loop", uint64(client))
		g.think(uint32(client), 0)
	}
	return g, nil
}

// think has a client ask again after a while.
func (g *Closed) think(client uint32, now clock.Instant) {
	at := now.Add(time.Duration(g.config.Think.Sample(g.asks[client])))
	if at < g.config.End {
		g.next.Push(uint64(at), client)
	}
}

// Due returns when the next request is due, as far as is known: clock.Never when all clients are waiting.
func (g *Closed) Due() clock.Instant {
	return min(g.turn(), g.refills.due())
}

// turn returns when the next client asks of its own accord.
func (g *Closed) turn() clock.Instant {
	if g.next.Len() == 0 {
		return clock.Never
	}
	return clock.Instant(g.next.Key())
}

// Fire draws the request that is due next. The operation is valid until the next call.
func (g *Closed) Fire() (rec reqlog.Record, client uint32, op *workloads.Op) {
	if g.Due() == clock.Never {
		panic("load: Fire while nothing is due")
	}
	g.fired++
	at := g.turn()
	if g.refills.due() < at {
		return g.refill(&g.op)
	}
	client = g.next.Pop()
	if g.varying != nil {
		g.varying.Shift(time.Duration(at))
	}
	g.config.Workload.Next(g.asks[client], &g.op)
	seq := g.nth[client]*uint64(g.config.Clients) + uint64(client)
	g.nth[client]++
	rec = newRecord(seq, at, &g.op)
	if g.op.WriteBack {
		g.await(seq, client, &g.op)
	}
	return rec, client, &g.op
}

// failurePause is what a client waits at least after it got no answer. Without it, one that does not think would ask a server that is
// gone as fast as it can.
const failurePause = time.Millisecond

// Settled has the client whose request it was think and ask again.
func (g *Closed) Settled(rec *reqlog.Record, at clock.Instant) {
	g.refills.Settled(rec, at)
	if rec.Seq >= refillSeq {
		return
	}
	if !rec.Fate.Completed() {
		at = at.Add(failurePause)
	}
	g.think(uint32(rec.Seq%uint64(g.config.Clients)), at)
}

// Fired returns how many requests have been drawn.
func (g *Closed) Fired() uint64 { return g.fired }
