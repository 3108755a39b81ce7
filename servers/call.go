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
// settle, when whoever finds it in one of the dispatcher's lists may work on it. An executor hands it back with dispatch.finish, or
// with dispatch.park if it has to wait halfway.
type call struct {
	cmd   memproto.Command
	mem   []byte          // memory of key and arguments
	small []byte          // memory of a small value
	w     memproto.Writer // the reply, if it could not be written to the connection directly
	id    uint64          // place in dispatch.mu.calls, plus one; 0 before the first use

	progress
}

// progress is the part of a call that begins anew with each command. The rest is too large to be cleared every time.
type progress struct {
	conn   *conn
	after  *call // the next one of the same connection, in order of arrival
	before *call // the one before it; nil for the first
	link   *call // in the one list that it is in: arrivals, ready, deferred, settled, inbox or free

	block []byte // memory of a larger value; goes back to the loop
	line  string // the reply of a command that was refused by the parser
	kind  kind
	class uint16
	done  bool // the reply is in w, or has been written

	// What follows is written under dispatch.mu between submit and settle.
	queued   bool  // waits in the Gate at place
	pause    pause // what it waits for halfway
	ghost    bool  // its client has gone, but a section still has it in its queue
	resumed  bool  // Resume was called before the pause that it ends
	gone     bool  // its connection is; set when it is taken to be executed
	waiting  bool  // has been in a pause, so a Waiting backend may hold something for it
	working  bool  // is executed by others while it is in a pause
	hold     hold  // how it has its connection
	place    control.Place
	request  control.Request // as its Start action gave it
	reason   control.Reason  // of the refusal, NoReason if it was executed
	credits  int32           // to go with the reply; -1 for none
	runnable clock.Instant   // since when it waits, in Gate and run queue: its arrival, or the end of its last pause
	failed   bool

	inside     places        // of sections and locks
	awaited    int           // the place that it waits for
	waitsSince clock.Instant // for a place or a loop: not yet in request.Waited

	began   clock.Instant // of execution
	stepped clock.Instant // when it was last taken to be executed
	state   any           // what a Waiting backend keeps of it
	extra   memproto.Extras
}

// kind says how a call gets its reply.
type kind uint8

const (
	gated    kind = iota // through the Gate
	question             // once there are credits
	promise              // once the modelled machine has come far enough
	admin                // by the server itself, at its turn among the connection's replies
	fixed                // it is line
)

// asRequest returns what a controller may know of q.
func (q *call) asRequest(d *dispatch) control.Request {
	q.class = d.classes.of(&q.cmd)
	return control.Request{
		Client: q.conn.client, Class: q.class, Priority: priorityOf(q), Bytes: bytesOf(&q.cmd), Budget: d.budget,
	}
}

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

// putFirst moves the calls of f to the front of q, in their order.
func (q *list) putFirst(f *list) {
	if f.n == 0 {
		return
	}
	f.tail.link = q.head
	if q.tail == nil {
		q.tail = f.tail
	}
	q.head = f.head
	q.n += f.n
	*f = list{}
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

// takeCall takes a call from the free ones.
func (l *loop) takeCall() *call {
	if q := l.free.pop(); q != nil {
		return q
	}
	return &call{}
}

// newCall takes a call for c from the free ones.
func (l *loop) newCall(c *conn, k kind) *call { return attach(l.takeCall(), c, k) }

// attach makes q the last call of c.
func attach(q *call, c *conn, k kind) *call {
	q.conn, q.kind = c, k
	c.recall()
	c.asks = k == question
	if c.tail == nil {
		c.head = q
	} else {
		c.tail.after, q.before = q, c.tail
	}
	c.tail = q
	c.pending++
	return q
}

// freeCall puts q back. It is in no list any more.
func (l *loop) freeCall(q *call) {
	q.conn.held -= len(q.cmd.Value)
	l.blocks.put(q.block)
	q.w.Reset() // also of what was found for a client that had gone before the reply was completed: the next one must not be given it
	if cap(q.w.Buf) > maxKeptBytes {
		q.w.Buf = nil
	}
	if cap(q.w.Refs) > 16 {
		q.w.Refs = nil
	}
	if cap(q.mem) > maxKeptBytes {
		q.mem = nil
	}
	q.cmd.Value = nil // the rest is overwritten by the next command
	q.progress = progress{}
	l.free.push(q)
}
