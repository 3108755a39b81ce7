//go:build linux

package servers

import (
	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
)

// maxKeptBytes is the size up to which a call keeps its buffers for the next command.
const maxKeptBytes = 4 << 10

// call is one command of a connection, from parsing to reply. It belongs to the loop of its connection, except between submit and
// settle, when whoever finds it in one of the dispatcher's lists may work on it. An executor hands it back with dispatch.finish,
// from whatever goroutine, so a backend that finishes calls later needs no other way.
type call struct {
	conn  *conn
	after *call // the next one of the same connection, in order of arrival
	link  *call // in the one list that it is in: arrivals, ready, deferred, settled, inbox or free

	cmd   memproto.Command
	mem   []byte          // memory of key and arguments
	small []byte          // memory of a small value
	w     memproto.Writer // the reply, if it could not be written to the connection directly
	line  string          // the reply of a command that was refused by the parser
	kind  kind
	done  bool // the reply is in w, or has been written

	// What follows is written under dispatch.mu between submit and settle.
	id      uint64 // place in dispatch.mu.calls, plus one; 0 before the first use
	queued  bool   // waits in the Gate at place
	place   control.Place
	request control.Request // as its Start action gave it
	reason  control.Reason  // of the refusal, NoReason if it was executed
	credits int32           // to go with the reply; -1 for none
	ended   clock.Instant   // when it was refused
	failed  bool

	began clock.Instant // of execution
	extra memproto.Extras
}

// kind says how a call gets its reply.
type kind uint8

const (
	gated kind = iota // through the Gate
	admin             // by the server itself, at its turn among the connection's replies
	fixed             // it is line
)

// list is a queue of calls, linked through call.link.
type list struct {
	head, tail *call
	n          int
}

func (q *list) push(c *call) {
	c.link = nil
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.link = c
	}
	q.tail = c
	q.n++
}

func (q *list) pushFront(c *call) {
	c.link = q.head
	q.head = c
	if q.tail == nil {
		q.tail = c
	}
	q.n++
}

// pop takes the first call out, nil if there is none.
func (q *list) pop() *call {
	c := q.head
	if c == nil {
		return nil
	}
	if q.head = c.link; q.head == nil {
		q.tail = nil
	}
	c.link = nil
	q.n--
	return c
}

// newCall takes a call for c from the free ones.
func (l *loop) newCall(c *conn, k kind) *call {
	q := l.free.pop()
	if q == nil {
		q = &call{}
	}
	q.conn, q.kind = c, k
	if c.tail == nil {
		c.head = q
	} else {
		c.tail.after = q
	}
	c.tail = q
	c.pending++
	return q
}

// freeCall puts q back. It is in no list any more.
func (l *loop) freeCall(q *call) {
	q.conn.held -= len(q.cmd.Value)
	q.w.Reset()
	if cap(q.w.Buf) > maxKeptBytes {
		q.w.Buf = nil
	}
	if cap(q.w.Refs) > 16 {
		q.w.Refs = nil
	}
	if cap(q.mem) > maxKeptBytes {
		q.mem = nil
	}
	*q = call{mem: q.mem, small: q.small, w: q.w, id: q.id}
	l.free.push(q)
}
