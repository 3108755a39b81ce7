package workloads

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"spillway/internal/dist"
	"spillway/machine"
)

// Replay asks what a Recording has, one request after the other, and again from the first. It draws nothing. A value is as large as the
// log says and follows from its key, so a store can be verified. It is not safe for concurrent use.
type Replay struct {
	rec       *Recording
	next      int // number of the request that is next
	last      int // of the one at hand
	noise     noise
	more      [][]byte
	valueless bool
}

var (
	_ Workload  = (*Replay)(nil)
	_ Skipper   = (*Replay)(nil)
	_ Preloader = (*Replay)(nil)
	_ Keyed     = (*Replay)(nil)
)

// NewReplay returns the workload at the first request of r, which has one at least.
func NewReplay(r *Recording) (*Replay, error) {
	if r.Len() == 0 {
		return nil, fmt.Errorf("a log without requests cannot be replayed")
	}
	return &Replay{rec: r, noise: newNoise()}, nil
}

// Recording returns what is replayed.
func (r *Replay) Recording() *Recording { return r.rec }

// Start makes request i the next.
func (r *Replay) Start(i int) { r.next = i }

// WithoutValues makes r leave Op.Value empty in what Next fills in: a simulated server only needs to know how large it would be.
func (r *Replay) WithoutValues() { r.valueless = true }

// Next fills in the next request. It needs no randomness.
func (r *Replay) Next(_ *rand.Rand, op *Op) {
	q := r.advance(op)
	op.Value, op.More, op.Expire = nil, nil, 0
	if q.kind != MultiGet {
		op.Key = r.rec.key(q.key)
		if q.kind == Set && !r.valueless {
			op.Value = r.noise.cut(idOf(op.Key), int(q.size))
		}
		return
	}
	r.more = r.more[:0]
	for i, p := range r.rec.parts[q.key : q.key+uint32(q.keys)] {
		if key := r.rec.key(p.key); i == 0 {
			op.Key = key
		} else {
			r.more = append(r.more, key)
		}
	}
	op.More = r.more
}

// Skip passes over the next request.
func (r *Replay) Skip(_ *rand.Rand, op *Op) { r.advance(op) }

func (r *Replay) advance(op *Op) *recorded {
	r.last = r.next
	if r.next++; r.next == len(r.rec.requests) {
		r.next = 0
	}
	q := &r.rec.requests[r.last]
	op.Kind, op.Class, op.WriteBack, op.Ref = q.kind, q.class, false, uint64(q.key)
	if q.kind == MultiGet {
		op.Ref = 0
		for _, p := range r.rec.parts[q.key : q.key+uint32(q.keys)] {
			op.Ref = dist.Mix(op.Ref ^ uint64(p.key))
		}
	}
	return q
}

// Preload yields a Set of every key that is read before it is written, as large as that read found it.
func (r *Replay) Preload() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		var op Op
		for _, s := range r.rec.stored {
			op = Op{Kind: Set, Class: s.class, Key: r.rec.key(s.key), Ref: uint64(s.key)}
			op.Value = r.noise.cut(idOf(op.Key), int(s.size))
			if !yield(&op) {
				return
			}
		}
	}
}

// Patterns returns what the keys of the classes begin with.
func (r *Replay) Patterns() ([]string, error) { return r.rec.Patterns() }

// ReplayCosts says what the requests of a log cost: each by its own operation and size. It is not safe for concurrent use.
type ReplayCosts struct {
	replay *Replay
	kinds  [NumKinds]Cost
}

// NewReplayCosts returns the costs of r's requests from a table by name of operation. A read of several keys costs what one of each does. It is
// an error when the table lacks an operation that the log has.
func NewReplayCosts(r *Replay, table map[string]Cost) (*ReplayCosts, error) {
	c := &ReplayCosts{replay: r}
	var known [NumKinds]bool
	for kind := range NumKinds {
		c.kinds[kind], known[kind] = table[costRow(kind).String()]
	}
	for i := range r.rec.requests {
		if q := &r.rec.requests[i]; !known[q.kind] {
			return nil, fmt.Errorf("there is no cost of the operation %s, which class %s of the log asks for", costRow(q.kind), r.rec.Classes[q.class])
		}
	}
	return c, nil
}

// costRow returns the operation that a kind is priced as, key by key.
func costRow(k Kind) Kind {
	if k == MultiGet {
		return Get
	}
	return k
}

// Steps appends the work of op, which the workload has filled in last, and returns the bytes of the values that it is about.
func (c *ReplayCosts) Steps(dst []machine.Step, op *Op) (_ []machine.Step, bytes int64) {
	q := &c.replay.rec.requests[c.replay.last]
	cost := &c.kinds[op.Kind]
	if q.kind != MultiGet {
		size := int64(sizeOr0(q.size))
		return cost.Steps(dst, size), size
	}
	for _, p := range c.replay.rec.parts[q.key : q.key+uint32(q.keys)] {
		size := int64(sizeOr0(p.size))
		dst = cost.Steps(dst, size)
		bytes += size
	}
	return dst, bytes
}

// sizeOr0 is a size in which there being no value counts as none of its bytes.
func sizeOr0(size uint32) uint32 {
	if size == noValue {
		return 0
	}
	return size
}

// Mean returns the mean work of each class over the whole log, with its share of the requests, for the machine's optimum.
func (c *ReplayCosts) Mean(b machine.Bus) (demands []machine.Demand, shares []float64) {
	rec := c.replay.rec
	n := len(rec.Classes)
	core, moved, counts := make([]float64, n), make([]float64, n), make([]float64, n)
	rec.Count(0, rec.Len(), counts)
	for i := range rec.requests {
		q := &rec.requests[i]
		cost := &c.kinds[q.kind]
		alone := cost.alone(b)
		rec.each(i, func(p part) {
			size := int64(sizeOr0(p.size))
			core[q.class] += cost.compute(size)
			if bytes := cost.moved(size); bytes > 0 {
				core[q.class] += bytes / alone * 1e9
				moved[q.class] += bytes
			}
		})
	}
	for i := range counts {
		d := machine.Demand{}
		if counts[i] > 0 {
			d.Core, d.Bytes = time.Duration(core[i]/counts[i]), moved[i]/counts[i]
		}
		demands, shares = append(demands, d), append(shares, counts[i]/float64(rec.Len()))
	}
	return demands, shares
}
