//go:build linux

// Package httptarget is the measuring client for HTTP servers: it hands requests to the server when they are due, reads the replies, and knows
// what became of each. It is the counterpart of package target for HTTP/1.1: sockets of its own polled by one thread, and a parser that keeps
// nothing of what it reads (docs/adr/0019).
//
// One request is under way on a connection, as HTTP/1.1 in use has it: pipelining would have replies wait for each other. A request for which
// no connection is free gets a new one, up to a bound.
package httptarget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

const (
	// readBytes is what one read takes at most.
	readBytes = poll.RawBytes
	// maxReads bounds how often one connection is read before the others have their turn.
	maxReads = 20
)

// Target sends requests over HTTP/1.1. It is used by one thread.
type Target struct {
	cfg    Config
	asks   []pieces // by class
	keyed  bool     // the key is in the path
	poller *poll.Poller
	events []poll.Event
	conns  []*conn // those of clients, then those that were added
	own    int     // how many are of clients
	idle   []*conn // added ones with nothing under way
	dirty  []*conn // with a request that has not been handed over
	first  *conn   // with the oldest request under way; the others follow in the order of issue
	last   *conn

	in        []byte // what a read fills; shared, since it is used up at once
	delivered bool   // since Wait began
	counters  load.Counters

	refusedUntil clock.Instant // no connection is tried before this instant
	backoff      time.Duration
}

var _ load.Target = (*Target)(nil)

// Open connects to a server. When it returns, every connection that was asked for stands. ctx bounds the time that it takes.
func Open(ctx context.Context, cfg Config) (*Target, error) {
	cfg.fill()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	template, err := ParseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	poller, err := poll.New()
	if err != nil {
		return nil, err
	}
	t := &Target{
		cfg: cfg, asks: cfg.requests(&template), keyed: template.Keyed, poller: poller, events: make([]poll.Event, 256), in: make([]byte, readBytes),
	}
	for i := cfg.Shard; i < cfg.Conns; i += cfg.Shards {
		c, err := t.dial(ctx, template.Address)
		if err != nil {
			_ = t.Close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, cfg.Conns, err)
		}
		t.conns = append(t.conns, c)
	}
	t.own = len(t.conns)
	return t, nil
}

// Counters returns what was noticed beside the fates of requests.
func (t *Target) Counters() load.Counters { return t.counters }

// Issue writes one request into the buffer of a connection that has nothing under way.
func (t *Target) Issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, client uint32) {
	c := t.pick(client)
	if c == nil {
		t.counters.WindowFull++
		t.judge(rec, load.Reply{At: now, Outcome: load.NotSent, Queued: -1, Service: -1})
		return
	}
	c.rec = *rec
	c.rec.Attempts = 1
	c.parser.begin()
	c.got, c.written = 0, 0
	t.encode(c, op)
	t.enlist(c)
	if c.State == poll.Down && !t.connect(c, now) {
		t.settle(c, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		return
	}
	t.dirty = append(t.dirty, c)
}

// encode writes the request into the connection's buffer.
func (t *Target) encode(c *conn, op *workloads.Op) {
	ask := &t.asks[min(int(op.Class), len(t.asks)-1)]
	method := "GET "
	switch op.Kind {
	case workloads.Get:
	case workloads.Set:
		method = "PUT "
	case workloads.Delete:
		method = "DELETE "
	default:
		panic("httptarget: operation of a kind that HTTP has no method for")
	}
	out := append(append(c.out[:0], method...), ask.path...)
	if t.keyed {
		out = appendSegment(out, op.Key)
	}
	out = append(out, ask.rest...)
	if t.cfg.Priorities != nil {
		out = append(out, "X-Priority: "...)
		out = strconv.AppendUint(out, uint64(t.priority(&c.rec)), 10)
		out = append(out, "\r\n"...)
	}
	if op.Kind == workloads.Set {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(op.Value)), 10)
		out = append(append(out, "\r\n\r\n"...), op.Value...)
	} else {
		out = append(out, "\r\n"...)
	}
	c.out = out
	c.rec.BytesOut = uint32(min(len(out), math.MaxUint32))
}

// priority returns that of a request. Without users of their own, requests stand for users.
func (t *Target) priority(rec *reqlog.Record) uint16 {
	var business uint8
	if int(rec.Class) < len(t.cfg.Priorities) {
		business = t.cfg.Priorities[rec.Class]
	}
	return control.PriorityOf(business, rec.Seq)
}

// Flush hands everything issued to the kernel and stamps it sent.
func (t *Target) Flush(clock.Instant) {
	for _, c := range t.dirty {
		if c.busy && c.State == poll.Up && c.written == 0 && !c.Blocked {
			t.send(c)
		}
	}
	t.dirty = t.dirty[:0]
}

// send stamps the request of a connection and writes it.
func (t *Target) send(c *conn) {
	if c.rec.Sent == 0 {
		c.rec.Sent = t.cfg.Clock.Now() // read again: others were written before this one
	}
	if err := t.write(c); err != nil {
		t.broken(c)
	}
}

// write writes what a connection has to send. What the kernel does not take stays, and the poller tells when it takes more.
func (t *Target) write(c *conn) error {
	n, err := c.Send(c.out[c.written:])
	if err != nil {
		return err
	}
	if c.written += n; c.written < len(c.out) {
		t.counters.SocketFull++
	}
	return nil
}

// Wait delivers replies and expires requests.
func (t *Target) Wait(until clock.Instant) {
	t.delivered = false
	for {
		now := t.cfg.Clock.Now()
		t.expire(now)
		n, _, err := t.poller.Wait(t.events, t.pause(now, until))
		if err != nil {
			// Only a programming error gets here: the poller retries what can be retried.
			panic(fmt.Sprintf("httptarget: %v", err))
		}
		for i := range t.events[:n] {
			t.handle(&t.events[i])
		}
		if t.delivered || now >= until {
			return
		}
	}
}

// pause returns how long the poller may sleep: until shortly before the instant, the rest being polled away.
func (t *Target) pause(now, until clock.Instant) time.Duration {
	if t.cfg.Spin == load.SpinAlways || t.delivered {
		return 0
	}
	if t.first != nil {
		until = min(until, t.first.rec.Intended.Add(t.cfg.Timeout))
	}
	return max(until.Sub(now)-t.cfg.Spin, 0)
}

func (t *Target) handle(e *poll.Event) {
	c := t.conns[e.Token]
	switch c.State {
	case poll.Connecting:
		t.connected(c)
	case poll.Up:
		if e.Writable && c.busy {
			if err := t.write(c); err != nil {
				t.broken(c)
				return
			}
		}
		if e.Readable {
			t.read(c)
		}
	}
}

// read takes what has arrived on a connection.
func (t *Target) read(c *conn) {
	for range maxReads {
		n, err := c.Recv(t.in)
		switch {
		case err != nil:
			t.ended(c)
			return
		case n == 0 || !t.consume(c, t.in[:n]) || n < len(t.in):
			return
		}
	}
}

// consume takes in what was read; it returns whether the connection is to be read on.
func (t *Target) consume(c *conn, data []byte) (more bool) {
	if !c.busy {
		// Servers say why they close a connection that nobody uses: 408, 503. It answers nothing.
		c.disconnect()
		return false
	}
	n, done, err := c.parser.feed(data)
	c.got += int64(n)
	if err != nil {
		t.counters.OutOfStep++
		t.lose(c)
		return false
	}
	if !done {
		return true
	}
	extra := n < len(data)
	if extra {
		t.counters.OutOfStep++
	}
	t.answered(c, extra)
	return false
}

// ended takes note that the server has closed a connection, or that it was lost.
func (t *Target) ended(c *conn) {
	switch {
	case !c.busy:
		c.disconnect() // for being idle, which is its right
	case c.parser.end():
		t.answered(c, true)
	default:
		t.broken(c)
	}
}

// answered settles the request of a connection whose reply is whole.
func (t *Target) answered(c *conn, over bool) {
	over = over || c.parser.close || c.written < len(c.out) // a server may answer before it has read everything
	c.used = true
	t.settle(c, t.reply(c))
	if over {
		c.disconnect()
	}
}

// reply says what a reply means to its request.
func (t *Target) reply(c *conn) load.Reply {
	a := &c.parser.answer
	r := load.Reply{At: t.cfg.Clock.Now(), Queued: a.queued, Service: a.service, Bytes: uint32(min(c.got, math.MaxUint32))}
	get := workloads.Kind(c.rec.Kind) == workloads.Get
	switch {
	case a.status >= 200 && a.status < 300:
		r.Hit = get
	case a.status < 400:
	case a.status == 404 && t.keyed: // a key that is not there
	case a.status == 429 || a.status == 503 || a.status == 504 && a.reason != control.NoReason:
		r.Outcome, r.Reason = load.Shed, a.reason
		switch { // of a server of somebody else's
		case a.reason != control.NoReason:
		case a.status == 429:
			r.Reason = control.Budget
		default:
			r.Reason = control.Resource
		}
	default:
		r.Outcome = load.Broken
	}
	return r
}

// judge decides a record's fate and hands it over.
func (t *Target) judge(rec *reqlog.Record, r load.Reply) {
	var slo time.Duration
	if int(rec.Class) < len(t.cfg.SLOs) {
		slo = t.cfg.SLOs[rec.Class]
	}
	load.Judge(rec, r, slo)
	t.cfg.Settle(rec)
}

// Close settles what is pending as timed out and closes the connections.
func (t *Target) Close() error {
	now := t.cfg.Clock.Now()
	for t.first != nil {
		c := t.first
		if c.rec.Sent == 0 {
			c.rec.Sent = now // it was about to be handed over
		}
		t.settle(c, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
	}
	var errs []error
	for _, c := range t.conns {
		errs = append(errs, c.disconnect())
	}
	return errors.Join(append(errs, t.poller.Close())...)
}
