//go:build linux

package servers

import (
	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/internal/memproto"
	"spillway/internal/poll"
)

const (
	maxPieces = 32  // given to one system call
	keepRefs  = 128 // kept by a connection for further use
)

// output is what a connection has to write, and how far it has come.
type output struct {
	w   memproto.Writer
	at  int // of w.Buf has been sent
	ref int // of w.Refs have been sent
	in  int // of w.Refs[ref] has been sent
}

// empty reports whether all has been sent.
func (o *output) empty() bool { return o.at == len(o.w.Buf) && o.ref == len(o.w.Refs) }

// pieces appends what is to be sent next to dst.
func (o *output) pieces(dst [][]byte) [][]byte {
	at, in := o.at, o.in
	for _, ref := range o.w.Refs[o.ref:] {
		if len(dst)+2 > maxPieces {
			return dst
		}
		if at < ref.At {
			dst = append(dst, o.w.Buf[at:ref.At])
			at = ref.At
		}
		dst = append(dst, ref.Data[in:])
		in = 0
	}
	if at < len(o.w.Buf) {
		dst = append(dst, o.w.Buf[at:])
	}
	return dst
}

// sent notes that n more bytes have been sent, and forgets everything once all have.
func (o *output) sent(n int) {
	for n > 0 {
		if o.ref < len(o.w.Refs) {
			ref := &o.w.Refs[o.ref]
			if o.at < ref.At {
				k := min(n, ref.At-o.at)
				o.at += k
				n -= k
				continue
			}
			k := min(n, len(ref.Data)-o.in)
			o.in += k
			n -= k
			if o.in == len(ref.Data) {
				ref.Release() // the value may be freed now
				o.ref++
				o.in = 0
			}
			continue
		}
		o.at += n
		n = 0
	}
	if o.empty() {
		o.at, o.ref, o.in = 0, 0, 0
		o.w.Reset()
		if cap(o.w.Buf) > keepBytes {
			o.w.Buf = nil
		}
		if cap(o.w.Refs) > keepRefs {
			o.w.Refs = nil
		}
	}
}

// compact forgets what has been sent. A client that always leaves a little behind would otherwise make the output grow without end.
func (o *output) compact() {
	if o.at < keepBytes || o.at < len(o.w.Buf)/2 {
		return
	}
	o.w.Forget(o.at, o.ref)
	o.at, o.ref = 0, 0
}

// left returns how many bytes are to be sent.
func (o *output) left() int {
	n := len(o.w.Buf) - o.at - o.in
	for i := o.ref; i < len(o.w.Refs); i++ {
		n += len(o.w.Refs[i].Data)
	}
	return n
}

// flush writes the output of the connections that have any, closes those that are through, and lets those be read again that have
// become less full.
func (l *loop) flush(now clock.Instant) {
	for _, c := range l.dirty {
		c.dirty = false
		if c.dead {
			continue
		}
		l.write(now, c)
		if c.dead {
			continue
		}
		if l.through(c) && c.out.empty() {
			l.kill(c)
		} else if c.paused && !c.eof && !c.resuming && c.roomy() {
			c.resuming = true
			l.resumed = append(l.resumed, c)
		}
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]

	// Resumed connections first go through what had been read before they were paused. That may pause them again.
	l.spare, l.resumed = append(l.spare[:0], l.resumed...), l.resumed[:0]
	for _, c := range l.spare {
		c.resuming = false
		if c.dead || c.eof {
			continue
		}
		c.paused = false
		l.feed(c, c.rest)
		if !c.paused {
			l.watch(c)
		}
		l.again = true
	}
	clear(l.spare)
}

// roomy reports whether a paused connection may be read again. It takes half of each bound, so that it is not paused at once again.
func (c *conn) roomy() bool {
	config := &c.loop.server.config
	return c.pending <= config.Pipeline/2 && c.held <= config.HeldBytes/2 && c.backlog <= config.OutBytes/2
}

// write writes as much of c's output as the socket takes.
func (l *loop) write(now clock.Instant, c *conn) {
	for !c.out.empty() {
		l.pieces = c.out.pieces(l.pieces[:0])
		var n int
		var err error
		if len(l.pieces) == 1 {
			n, err = poll.Send(c.fd, l.pieces[0])
		} else {
			n, err = poll.Writev(c.fd, l.pieces)
		}
		clear(l.pieces)
		if err == unix.EAGAIN {
			c.out.compact()
			c.backlog = c.out.left()
			if !c.writing {
				c.writing = true
				l.watch(c)
			}
			return
		}
		if err != nil {
			l.kill(c)
			return
		}
		c.active = now
		l.bytesWritten.Add(uint64(n))
		c.out.sent(n)
	}
	c.backlog = 0
	if c.writing {
		c.writing = false
		l.watch(c)
	}
}
