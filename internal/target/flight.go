//go:build linux

package target

import (
	"spillway/clock"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// flight is one request of a client under control, between its due instant and the end of its last message. Its token is free again when
// nothing refers to it any more: no connection, no Outbox. The simulator has the same thing.
type flight struct {
	rec        reqlog.Record
	client     uint32 // its number among those of this sender
	server     uint8  // that it is for
	waiting    bool   // its client waits for it; otherwise it is a ghost
	away       bool   // it has been handed over and no reply has been read; otherwise it is in its client's Outbox
	handed     bool   // it has been handed over at least once
	second     bool   // it has been sent, or was to be sent, to another server before
	kept       bool   // op is in memory of its own
	prev, next uint32 // in the list of those whose clients wait

	offered  clock.Instant // when its client had it first
	left     clock.Instant // when its client let it go last
	stamped  clock.Instant // when it was handed over last, on the clock and not as computed
	op       workloads.Op
	key, val []byte // memory of op
	keys     []byte
}

// none ends the list of flights.
const none = ^uint32(0)

// keep copies an operation, which is only valid during Issue.
func (f *flight) keep(op *workloads.Op) {
	if f.kept {
		return
	}
	f.kept = true
	f.key = append(f.key[:0], op.Key...)
	f.val = append(f.val[:0], op.Value...)
	more := f.op.More[:0]
	f.keys = f.keys[:0]
	for _, k := range op.More {
		f.keys = append(f.keys, k...)
	}
	rest := f.keys
	for _, k := range op.More {
		more = append(more, rest[:len(k)])
		rest = rest[len(k):]
	}
	f.op = workloads.Op{Kind: op.Kind, Key: f.key, Value: f.val, More: more, Expire: op.Expire}
}

// maxKeptValue is the size up to which a flight keeps the memory of its value for the next one.
const maxKeptValue = 64 << 10

// handedOver notes when the request left first, and for how long its client's control had kept it back until then.
func (f *flight) handedOver(now clock.Instant) {
	if f.rec.Sent == 0 {
		f.rec.Sent, f.rec.Held = now, f.left.Sub(f.offered)
	}
}

// flights are all requests of a sender under control.
type flights struct {
	list           []flight // by token
	unused         []uint32
	oldest, newest uint32 // ends of the list of those whose clients wait, in order of their due instants
	held           int64  // how many clients wait for that have never been handed over
}

// take returns the token of a free flight.
func (l *flights) take() uint32 {
	if n := len(l.unused); n > 0 {
		token := l.unused[n-1]
		l.unused = l.unused[:n-1]
		return token
	}
	l.list = append(l.list, flight{})
	return uint32(len(l.list) - 1)
}

func (l *flights) give(token uint32) {
	f := &l.list[token]
	if f.kept = false; cap(f.val) > maxKeptValue {
		f.val, f.op.Value = nil, nil
	}
	l.unused = append(l.unused, token)
}

// link puts a flight at the young end of the list.
func (l *flights) link(token uint32) {
	f := &l.list[token]
	f.prev, f.next, f.waiting = l.newest, none, true
	if l.newest == none {
		l.oldest = token
	} else {
		l.list[l.newest].next = token
	}
	l.newest = token
}

// unlink takes a flight out of the list, from wherever it is.
func (l *flights) unlink(token uint32) {
	f := &l.list[token]
	f.waiting = false
	if f.prev == none {
		l.oldest = f.next
	} else {
		l.list[f.prev].next = f.next
	}
	if f.next == none {
		l.newest = f.prev
	} else {
		l.list[f.next].prev = f.prev
	}
}
