package load

import (
	"spillway/clock"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// refills are the requests that follow a miss: a client of a cache writes back what it had to fetch elsewhere. They are due when the miss
// is known, so they depend on the server, and stand beside the sequence: it does not shift when the server answers otherwise.
type refills struct {
	workload workloads.Refiller
	shard    uint64
	end      clock.Instant
	waiting  map[uint64]missable // by sequence number: reads under way that may miss
	ready    []refill            // in the order in which they are due; the first of them is at head
	head     int
	made     uint64
}

// missable is what has to be known of a read if it misses.
type missable struct {
	ref    uint64
	client uint32
	class  uint16
}

type refill struct {
	missable
	at clock.Instant
}

// refillSeq keeps the sequence numbers of refills apart from those of the sequence, and shardShift those of shards from each other.
const (
	refillSeq  = 1 << 63
	shardShift = 48
)

func (f *refills) init(c *Config) {
	f.shard, f.end = uint64(c.Shard), c.End
	if r, ok := c.Workload.(workloads.Refiller); ok {
		f.workload, f.waiting = r, map[uint64]missable{}
	}
}

// due returns when the next refill is due.
func (f *refills) due() clock.Instant {
	if f.head == len(f.ready) {
		return clock.Never
	}
	return f.ready[f.head].at
}

// await remembers a read that is followed by a write if it misses.
func (f *refills) await(seq uint64, client uint32, op *workloads.Op) {
	if f.workload == nil {
		return
	}
	f.waiting[seq] = missable{ref: op.Ref, client: client, class: op.Class}
}

// Settled tells the generator what became of a request that it drew. at is when its fate was decided, on the clock of its own instants.
// Whoever drives a workload that writes back calls it for every request; for others it does nothing.
func (f *refills) Settled(rec *reqlog.Record, at clock.Instant) {
	if len(f.waiting) == 0 {
		return
	}
	m, found := f.waiting[rec.Seq]
	if !found {
		return
	}
	delete(f.waiting, rec.Seq)
	if !rec.Fate.Completed() || rec.Hits > 0 || at >= f.end {
		return
	}
	if f.head >= len(f.ready)-f.head { // at least half has been fired: move the rest to the front, so that the list stays short
		n := copy(f.ready, f.ready[f.head:])
		f.ready, f.head = f.ready[:n], 0
	}
	if n := len(f.ready); n > f.head {
		at = max(at, f.ready[n-1].at) // replies are read in no particular order
	}
	f.ready = append(f.ready, refill{m, at})
}

// refill makes the next one.
func (f *refills) refill(op *workloads.Op) (rec reqlog.Record, client uint32, _ *workloads.Op) {
	r := f.ready[f.head]
	f.head++
	f.workload.Refill(r.class, r.ref, op)
	rec = newRecord(refillSeq|f.shard<<shardShift|f.made, r.at, op)
	f.made++
	return rec, r.client, op
}
