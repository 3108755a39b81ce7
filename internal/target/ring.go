//go:build linux

package target

import "spillway/internal/reqlog"

// ring is a queue of records that grows as needed. Positions count up for ever; the record of position i is at i modulo the size.
type ring struct {
	records     []reqlog.Record // a power of two of them
	first, tail uint64          // the oldest, and one past the newest
	waiting     uint64          // the oldest that has not timed out, as far as is known
	done        []bool          // by place: answered out of order; nil until there is such a reply
	tokens      []uint32        // by place: which flight it is; nil where clients just send
	stamped     uint64          // of flights, the oldest that has not been handed over
}

// question is the token of what is no flight.
const question = ^uint32(0) - 1

const firstRing = 64

func (r *ring) len() int                   { return int(r.tail - r.first) }
func (r *ring) at(i uint64) *reqlog.Record { return &r.records[i&uint64(len(r.records)-1)] }
func (r *ring) head() *reqlog.Record       { return r.at(r.first) }

// pop forgets the oldest.
func (r *ring) pop() {
	if r.done != nil {
		r.done[r.first&uint64(len(r.done)-1)] = false
	}
	r.first++
}

// answered reports whether the request at position i has had its reply, out of order.
func (r *ring) answered(i uint64) bool { return r.done != nil && r.done[i&uint64(len(r.done)-1)] }

// answer notes the reply to the request at position i and lets go of those at the front that have had theirs.
func (r *ring) answer(i uint64) {
	if r.done == nil {
		r.done = make([]bool, len(r.records))
	}
	r.done[i&uint64(len(r.done)-1)] = true
	for r.first != r.tail && r.answered(r.first) {
		r.pop()
	}
}

// token returns the flight of the request at position i.
func (r *ring) token(i uint64) uint32 { return r.tokens[i&uint64(len(r.tokens)-1)] }

// tag pushes the request of a flight.
func (r *ring) tag(rec *reqlog.Record, token uint32) {
	r.push(rec)
	if r.tokens == nil {
		r.tokens = make([]uint32, len(r.records))
	}
	r.tokens[(r.tail-1)&uint64(len(r.tokens)-1)] = token
}

func (r *ring) push(rec *reqlog.Record) {
	if r.len() == len(r.records) {
		grown := make([]reqlog.Record, max(2*len(r.records), firstRing))
		for i := r.first; i != r.tail; i++ {
			grown[i&uint64(len(grown)-1)] = *r.at(i)
		}
		if r.done != nil {
			done := make([]bool, len(grown))
			for i := r.first; i != r.tail; i++ {
				done[i&uint64(len(done)-1)] = r.answered(i)
			}
			r.done = done
		}
		if r.tokens != nil {
			tokens := make([]uint32, len(grown))
			for i := r.first; i != r.tail; i++ {
				tokens[i&uint64(len(tokens)-1)] = r.token(i)
			}
			r.tokens = tokens
		}
		r.records = grown
	}
	*r.at(r.tail) = *rec
	r.tail++
}
