//go:build linux

package servers

import (
	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
	"spillway/internal/poll"
)

const (
	smallValue = 1 << 10 // up to this size a value is copied into its call; a larger one gets a block
	keepBytes  = 16 << 10
)

// conn is one connection. It belongs to its loop, except for what is guarded by dispatch.mu.
type conn struct {
	loop   *loop
	fd     int
	token  uint64
	client uint32
	parser memproto.Parser
	rest   []byte // read, and not yet parsed

	block     *call // waits for its data block; nil for none
	blockData []byte
	blockGot  int

	head, tail *call // calls in order of arrival, head is to be answered next
	pending    int   // how many
	held       int   // bytes of their values
	out        output
	backlog    int // bytes that the socket would not take

	active   clock.Instant // last traffic
	eof      bool          // nothing more will be read: the client has said all, quit, or is in error; answer and close
	paused   bool          // not read for now, because too much is pending
	writing  bool          // the poller reports when it can be written
	dirty    bool          // in loop.dirty
	resuming bool          // in loop.resumed
	asks     bool          // its last call is a question, which may be open
	promised clock.Instant // of a client in step with a modelled machine: before this it sends nothing any more
	dead     bool          // closed; calls that others still have keep it

	// Guarded by dispatch.mu.
	busy     bool // one of its calls has it alone
	together int  // how many share it
	deferred list // started calls that wait for those
	gone     bool // dead, as the dispatcher knows it
}

// read takes what the socket has and parses it.
func (l *loop) read(c *conn) {
	if c.block != nil {
		l.readBlock(c)
		return
	}
	buf := l.buf
	if len(c.rest) > len(buf)/2 { // a get with very many keys
		buf = make([]byte, 2*len(c.rest)+readBytes)
	}
	k := copy(buf, c.rest)
	n, err := poll.Recv(c.fd, buf[k:])
	switch {
	case err == unix.EAGAIN:
	case err != nil:
		l.kill(c)
	case n == 0:
		l.endOfInput(c)
	default:
		l.bytesRead.Add(uint64(n))
		l.feed(c, buf[:k+n])
	}
}

// readBlock reads into the data block that is being gathered.
func (l *loop) readBlock(c *conn) {
	if len(c.blockData) == c.blockGot { // grown as far as it was, and more is to come
		grown := l.blocks.get(min(blockGrowth*len(c.blockData), c.block.cmd.Length+2))
		copy(grown, c.blockData)
		l.blocks.put(c.blockData)
		c.blockData = grown
	}
	n, err := poll.Recv(c.fd, c.blockData[c.blockGot:])
	switch {
	case err == unix.EAGAIN:
		return
	case err != nil:
		l.kill(c)
		return
	case n == 0:
		l.endOfInput(c)
		return
	}
	l.bytesRead.Add(uint64(n))
	if c.blockGot += n; c.blockGot == c.block.cmd.Length+2 {
		l.endBlock(c)
	}
}

// feed parses buf, which holds everything read and not yet parsed, and keeps what is left over.
func (l *loop) feed(c *conn, buf []byte) {
	for len(buf) > 0 && !c.eof && !c.paused {
		if l.parsed == nil {
			l.parsed = l.takeCall()
		}
		n, status := c.parser.Parse(buf, &l.parsed.cmd)
		if l.server.verbose.Load() >= sayAll {
			l.server.sayCommand(c.fd, buf[:n])
		}
		buf = buf[n:]
		if status == memproto.NeedMore {
			break
		}
		switch status {
		case memproto.Ready:
			l.command(c)
		case memproto.Block:
			n := l.beginBlock(c, buf)
			buf = buf[n:]
		case memproto.Refused:
			l.reply(c, l.parsed.cmd.Error)
		case memproto.Close:
			l.reply(c, l.parsed.cmd.Error)
			l.endOfInput(c)
		}
		if c.full() {
			c.paused = true
			l.yields.Add(1)
			l.watch(c)
		}
	}
	if c.eof {
		buf = nil
	}
	c.rest = append(c.rest[:0], buf...)
	if len(c.rest) == 0 && cap(c.rest) > keepBytes {
		c.rest = nil
	}
	l.advance(c)
}

// full reports whether c has so much pending that it is not to be read for now.
func (c *conn) full() bool {
	config := &c.loop.server.config
	return c.pending >= config.Pipeline || c.held >= config.HeldBytes || c.backlog >= config.OutBytes
}

// command takes in the complete command in l.parsed.
func (l *loop) command(c *conn) {
	switch {
	case l.server.isQuestion(&l.parsed.cmd):
		l.arrivals.push(l.take(c, question))
		return
	case l.server.isPromise(&l.parsed.cmd):
		l.arrivals.push(l.take(c, promise))
		return
	}
	if v := l.parsed.cmd.Verb; v.Admin() {
		l.take(c, admin)
		if v == memproto.Quit {
			l.endOfInput(c)
		}
		return
	}
	q := l.take(c, gated)
	switch v := q.cmd.Value; {
	case len(v) > smallValue:
		q.block = l.blocks.get(len(v))
		copy(q.block, v)
		q.cmd.Value = q.block
	case v != nil:
		q.small = append(q.small[:0], v...)
		q.cmd.Value = q.small
	}
	c.held += len(q.cmd.Value)
	l.arrivals.push(q)
}

// take makes the call that has been parsed one of c.
func (l *loop) take(c *conn, k kind) *call {
	q := attach(l.parsed, c, k)
	l.parsed = nil
	q.mem = q.cmd.Hold(q.mem)
	return q
}

// reply answers a line to a command that does not get to be executed. An empty line is no answer at all.
func (l *loop) reply(c *conn, line string) {
	if line == "" {
		return
	}
	q := l.newCall(c, fixed)
	q.line = line
}

// beginBlock starts to gather the data block of the command in l.parsed and returns how much of it was in buf.
func (l *loop) beginBlock(c *conn, buf []byte) int {
	q := l.take(c, gated)
	c.block = q
	c.blockData = l.blocks.get(max(min(q.cmd.Length+2, blockStart), len(buf)))
	c.blockGot = copy(c.blockData, buf)
	return c.blockGot
}

// endBlock takes in the storage command whose data block is complete.
func (l *loop) endBlock(c *conn) {
	q := c.block
	if status := q.cmd.SetBlock(c.blockData); status == memproto.Refused {
		q.kind, q.line = fixed, q.cmd.Error
		l.blocks.put(c.blockData)
	} else {
		q.block = c.blockData
		c.held += len(q.cmd.Value)
		l.arrivals.push(q)
	}
	c.block, c.blockData, c.blockGot = nil, nil, 0
	l.advance(c)
}

// endOfInput notes that nothing more is to be read from c. What has been read is still executed and answered: a client may close its
// own direction and wait for replies. A client that is gone for good shows as a hang-up sooner or later, and then its calls are
// withdrawn.
func (l *loop) endOfInput(c *conn) {
	if c.eof {
		return
	}
	c.eof, c.rest = true, nil
	c.recall()
	if q := c.block; q != nil { // its block will never be complete
		q.kind = fixed
		l.blocks.put(c.blockData)
		c.block, c.blockData = nil, nil
	}
	l.watch(c)
	l.advance(c)
}

// settle takes back a call from the dispatcher.
func (l *loop) settle(q *call) {
	c := q.conn
	switch {
	case c.dead:
		c.pending--
		l.freeCall(q)
		return
	case q.reason == control.NoReason:
		l.answer(q, &q.w)
		return
	}
	q.w.Reset() // of what it had done when it was dropped
	w := &q.w
	if c.head == q {
		w = &c.out.w
	}
	q.extra.Credits = q.credits
	w.Overloaded(&q.cmd, q.reason.String(), q.extra)
	q.done = true
	l.advance(c)
}

// answer completes the reply of an executed call in w, which is its own or the connection's.
func (l *loop) answer(q *call, w *memproto.Writer) {
	q.extra.Credits = q.credits
	w.End(&q.cmd, q.extra)
	q.done = true
	l.advance(q.conn)
}

// advance moves the replies that are due to the output, in order. Past a question that is held on a modelled machine they go all the same: it is
// not recalled, and nobody is to wait behind it.
func (l *loop) advance(c *conn) {
	if c.dead {
		return
	}
	for q := c.head; q != nil && q != c.block; {
		after := q.after
		switch {
		case q.kind == admin:
			l.server.admin(q, &c.out.w)
		case q.kind == fixed:
			if q.line != "" {
				c.out.w.Line(q.line)
			}
		case q.done:
			if !q.w.Empty() {
				c.out.w.Append(&q.w)
			}
		case l.heldOnModel(q):
			q = after
			continue
		default:
			return
		}
		c.remove(q)
		l.freeCall(q)
		l.mark(c)
		q = after
	}
	if l.through(c) {
		l.mark(c) // to be closed when all is written
	}
}

// through reports whether nothing more is to come from or for the client of c, except for what has not been written yet. Nobody waits for the
// answer to a question that is not recalled.
func (l *loop) through(c *conn) bool {
	return c.eof && (c.head == nil || c.pending == 1 && l.heldOnModel(c.head))
}

// heldOnModel reports whether q is an open question whose answer has an instant of its own.
func (l *loop) heldOnModel(q *call) bool {
	return q.kind == question && !q.done && l.server.model != nil && q.cmd.HasSent
}

// unlink takes the head out of the calls of c.
func (c *conn) unlink(q *call) {
	if c.head = q.after; c.head == nil {
		c.tail = nil
	} else {
		c.head.before = nil
	}
	c.pending--
}

// mark has c's output written at the end of the turn.
func (l *loop) mark(c *conn) {
	if !c.dirty {
		c.dirty = true
		l.dirty = append(l.dirty, c)
	}
}

// watch tells the poller what c is waiting for.
func (l *loop) watch(c *conn) {
	if c.dead {
		return
	}
	var err error
	if c.eof || c.paused {
		err = l.poll.Pause(c.fd, c.token, c.writing)
	} else {
		err = l.poll.Modify(c.fd, c.token, c.writing)
	}
	if err != nil {
		l.kill(c)
	}
}

// kill closes c at once. Calls that wait in the gate are withdrawn, those that have been started are discarded when they come back.
func (l *loop) kill(c *conn) {
	if c.dead {
		return
	}
	c.dead, c.eof = true, true
	i := uint32(c.token)
	l.connMu.Lock()
	_ = l.poll.Remove(c.fd)
	_ = unix.Close(c.fd)
	l.slots[i].conn = nil
	l.connMu.Unlock()
	l.server.say(sayAll, "<%d connection closed", c.fd)
	l.slots[i].life = (l.slots[i].life + 1) % (1 << 31) // the bit above is listenToken's
	l.vacant = append(l.vacant, int(i))
	l.open--
	l.server.gone()

	var arrivals list // of others; those of c have not come to the gate yet
	for q := l.arrivals.pop(); q != nil; q = l.arrivals.pop() {
		if q.conn == c {
			q.done = true
		} else {
			arrivals.push(q)
		}
	}
	l.arrivals = arrivals
	if m := l.server.model; m != nil {
		m.step.part(c)
	}
	removed := l.server.dispatch.withdraw(l, c)
	for q := removed.pop(); q != nil; q = removed.pop() {
		q.done = true
	}
	for q := c.head; q != nil; {
		after := q.after
		if q.done || q.kind >= promise || q == c.block {
			c.pending--
			l.freeCall(q)
		}
		q = after
	}
	l.blocks.put(c.blockData)
	c.head, c.tail, c.block, c.blockData, c.rest = nil, nil, nil, nil, nil
	c.out.w.Reset() // values that were to be sent are let go
	c.out = output{}
}
