//go:build linux

package servers

import "spillway/internal/memproto"

// Ordered is implemented by a Waiting Backend whose commands depend on each other. A client that sends a set and a get of the same key in one
// packet must find what it stored.
type Ordered interface {
	// Alone reports whether a command must have its connection to itself: those before it are done when it begins, and those after it wait
	// until it is done. Others of a connection may go past each other. It must not wait; it is called from several goroutines at once.
	Alone(cmd *memproto.Command) bool
}

// hold says how a call that is under way has its connection.
type hold uint8

const (
	holdNone   hold = iota
	holdShared      // together with others
	holdAlone
)

// ordered reports whether calls of a connection may have to wait for each other.
func (d *dispatch) ordered() bool { return d.waiter == nil || d.order != nil }

// alone reports whether q must have its connection to itself. What runs to completion does so one after the other.
func (d *dispatch) alone(q *call) bool { return d.waiter == nil || d.order.Alone(&q.cmd) }

// mustDefer reports whether a started call has to wait for others of its connection. One that has the connection already, or has begun, has not.
func (d *dispatch) mustDefer(q *call) bool {
	c := q.conn
	if q.hold != holdNone || q.waiting || !d.ordered() {
		return false
	}
	return c.busy || c.deferred.n > 0 || c.together > 0 && d.alone(q)
}

// occupy gives q its connection, alone or together with others. From then on those behind it see it there, also while it waits for a loop.
func (d *dispatch) occupy(q *call) {
	switch {
	case q.hold != holdNone || q.waiting || !d.ordered():
	case d.alone(q):
		q.hold, q.conn.busy = holdAlone, true
	default:
		q.hold = holdShared
		q.conn.together++
	}
}

// release takes note that q is done, and lets others of its connection be executed, in their order.
func (d *dispatch) release(q *call) {
	c := q.conn
	switch q.hold {
	case holdAlone:
		c.busy = false
	case holdShared:
		c.together--
	}
	q.hold = holdNone
	var free list
	for next := c.deferred.head; next != nil && !c.busy && !(c.together > 0 && d.alone(next)); next = c.deferred.head {
		c.deferred.pop()
		d.occupy(next)
		free.push(next)
	}
	d.mu.ready.putFirst(&free)
}
