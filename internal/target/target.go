//go:build linux

// Package target is the measuring client: it hands requests to the server under load, reads the replies, and knows what became of
// each. It does not use Go's network poller, whose scheduler would add its own delays to every latency.
package target

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/memproto"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

const (
	// maxUnwritten bounds the bytes that one connection holds back because the kernel takes no more.
	maxUnwritten = 4 << 20
	// readBytes is what one read takes at most.
	readBytes = poll.RawBytes
	// maxReads bounds how often one connection is read before the others have their turn: enough for a reply of a megabyte.
	maxReads = 20
)

// MemcachedTarget sends requests over the memcached meta protocol, pipelined, and matches the replies by their order. It is used by
// one thread.
type MemcachedTarget struct {
	cfg    Config
	poller *poll.Poller
	events []poll.Event
	conns  []*conn // those of clients, then those that were added
	own    int     // how many are of clients
	roomy  []*conn // added ones that take requests
	dirty  []*conn // with requests that have not been handed over

	in        []byte        // what a read fills; shared, since it is used up at once
	nextCheck clock.Instant // no request times out and no connection is retried before this instant
	delivered bool          // since Wait began
	counters  load.Counters
	model     modelState
	clients   *clients // nil where clients just send
}

var _ load.Target = (*MemcachedTarget)(nil)

// Memcached connects to a memcached server. When it returns, every connection stands and the server has proved to be one. ctx bounds
// the time that it takes.
func Memcached(ctx context.Context, cfg Config) (*MemcachedTarget, error) {
	cfg.Shards = max(cfg.Shards, 1)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Window == 0 {
		cfg.Window = DefaultWindow
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = DefaultDialTimeout
	}
	if cfg.controlled() && cfg.Model != nil {
		model := *cfg.Model
		model.Prompt = true // what a client does depends on what it hears
		cfg.Model = &model
	}
	if _, err := Probe(ctx, cfg.Addr); err != nil {
		return nil, err
	}
	addrs, err := cfg.servers(ctx)
	if err != nil {
		return nil, err
	}
	each := 1 // connections of a client
	if cfg.Retry != nil {
		each = len(addrs)
	}
	if err := cfg.checkModel(ctx); err != nil {
		return nil, err
	}
	poller, err := poll.New()
	if err != nil {
		return nil, err
	}
	m := &MemcachedTarget{
		cfg: cfg, poller: poller, events: make([]poll.Event, min(cfg.Conns, 256)),
		in: make([]byte, readBytes), nextCheck: clock.Never,
	}
	for i := cfg.Shard; i < cfg.Conns; i += cfg.Shards {
		for k := range each {
			to := i
			if each > 1 {
				to = k
			}
			c, err := m.dial(ctx, addrs[to%len(addrs)])
			if err != nil {
				_ = m.Close()
				return nil, fmt.Errorf("connection %d of %d: %w", i+1, cfg.Conns, err)
			}
			m.conns = append(m.conns, c)
		}
	}
	m.own = len(m.conns)
	if err := m.greet(ctx); err != nil {
		_ = m.Close()
		return nil, err
	}
	if !cfg.controlled() {
		return m, nil
	}
	m.clients = newClients(m, each, len(addrs))
	if cfg.Model != nil && clock.Wall(cfg.Clock, cfg.Model.Network) >= leastStep {
		for _, addr := range addrs {
			if err := m.clients.pace(ctx, addr); err != nil {
				_ = m.Close()
				return nil, fmt.Errorf("connection to keep in step: %w", err)
			}
		}
		if err := m.clients.keepStep(ctx); err != nil {
			_ = m.Close()
			return nil, err
		}
	}
	return m, nil
}

// Counters returns what was noticed beside the fates of requests.
func (m *MemcachedTarget) Counters() load.Counters {
	c := m.counters
	if m.cfg.Model != nil {
		c.ScaleNeeded = m.model.scaleNeeded(clock.Scale(m.cfg.Clock), m.cfg.Model.Network)
	}
	return c
}

// Issue appends one request to the buffer of its connection, or has it wait at its client.
func (m *MemcachedTarget) Issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, client uint32) {
	if m.clients != nil {
		m.clients.issue(now, rec, op, client)
		return
	}
	c := m.conns[int(client)/m.cfg.Shards%m.own]
	rec.Attempts = 1
	if c.State != poll.Up {
		// The connection was offered the request in time; that there is none is not the generator's fault.
		rec.Sent = now
		m.cfg.judge(rec, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		return
	}
	if c.full(m.cfg.Window) {
		c = m.another(c, now)
	}
	if c == nil {
		m.counters.WindowFull++
		rec.Attempts = 0
		m.cfg.judge(rec, load.Reply{At: now, Outcome: load.NotSent, Queued: -1, Service: -1})
		return
	}
	before := len(c.out)
	m.encode(c, rec, op, m.asks(rec, rec.Intended))
	rec.BytesOut = uint32(min(len(c.out)-before, math.MaxUint32))
	c.pending.push(rec)
	m.checkBy(rec.Intended.Add(m.cfg.Timeout))
	m.touch(c)
}

// touch has what was written to a connection handed over with the next flush.
func (m *MemcachedTarget) touch(c *conn) {
	if !c.dirty {
		c.dirty = true
		m.dirty = append(m.dirty, c)
	}
}

// Flush hands everything issued to the kernel with one write a connection and stamps it sent.
func (m *MemcachedTarget) Flush(clock.Instant) {
	for i := 0; i < len(m.dirty); i++ { // a connection that turns out to be lost may have others written to
		c := m.dirty[i]
		c.dirty = false
		if c.State != poll.Up {
			continue // lost since; its requests have been settled
		}
		// The clock is read again: encoding a long batch took a while, and others were written before this one.
		m.stamp(c, m.cfg.Clock.Now())
		if c.Blocked {
			continue // the kernel will say when it takes more
		}
		if err := m.write(c); err != nil {
			m.lose(c)
		}
	}
	m.dirty = m.dirty[:0]
}

// write writes what a connection has to send. What the kernel does not take stays, and the poller tells when it takes more.
func (m *MemcachedTarget) write(c *conn) error {
	n, err := c.Send(c.out[c.written:])
	if err != nil {
		return err
	}
	c.written += n
	if c.written == len(c.out) {
		c.out, c.written = c.out[:0], 0
		c.taken, c.takenPart = c.pending.tail, 0
		return nil
	}
	m.counters.SocketFull++
	c.take(n)
	c.compact()
	return nil
}

// Wait delivers replies, expires requests and brings lost connections back.
func (m *MemcachedTarget) Wait(until clock.Instant) {
	m.delivered = false
	for {
		now := m.cfg.Clock.Now()
		if m.cfg.Model == nil && now >= m.nextCheck {
			m.check(now)
		}
		if m.clients != nil {
			m.clients.turn(now)
		}
		m.look(m.pause(now, until))
		if m.cfg.Model != nil {
			m.modelTurn(now, until)
		}
		if m.clients != nil {
			m.Flush(now) // what replies have let go
		}
		if m.delivered || now >= until {
			return
		}
	}
}

// pause returns how long the poller may sleep: until shortly before the instant, the rest being polled away.
func (m *MemcachedTarget) pause(now, until clock.Instant) time.Duration {
	if m.cfg.Spin == load.SpinAlways || m.delivered {
		return 0
	}
	until = min(until, m.nextCheck, m.model.next())
	if m.clients != nil {
		if until = min(until, m.clients.next()); until > m.clients.horizon() {
			return stepPause // what a server says next wakes us
		}
	}
	return max(clock.Wall(m.cfg.Clock, until.Sub(now))-m.cfg.Spin, 0)
}

// look handles what is ready, for which it waits up to a while, and returns how many connections are.
func (m *MemcachedTarget) look(pause time.Duration) (ready int) {
	ready, _, err := m.poller.Wait(m.events, pause)
	if err != nil {
		// Only a programming error gets here: the poller retries what can be retried.
		panic(fmt.Sprintf("target: %v", err))
	}
	for i := range m.events[:ready] {
		m.handle(&m.events[i])
	}
	return ready
}

func (m *MemcachedTarget) handle(e *poll.Event) {
	c := m.conns[e.Token]
	switch c.State {
	case poll.Connecting:
		m.connected(c)
	case poll.Up:
		if e.Writable {
			if err := m.write(c); err != nil {
				m.lose(c)
				return
			}
		}
		if e.Readable {
			m.read(c)
		}
	}
}

// read takes what has arrived on a connection.
func (m *MemcachedTarget) read(c *conn) {
	for range maxReads {
		// What the parser could not use yet, the beginning of a line, stands before what is read now.
		kept := copy(m.in, c.rest)
		n, err := c.Recv(m.in[kept:])
		if err != nil || n > 0 && !m.consume(c, m.in[:kept+n]) {
			m.lose(c)
			return
		}
		if kept+n < len(m.in) {
			return
		}
	}
}

// consume settles the requests whose replies are in data. It returns false if the connection is of no more use.
func (m *MemcachedTarget) consume(c *conn, data []byte) bool {
	now := m.cfg.Clock.Now()
	for len(data) > 0 {
		r, n, ok, err := c.parser.Next(data)
		if err != nil {
			m.counters.OutOfStep++
			return false
		}
		c.replyBytes += int64(n)
		data = data[n:]
		if !ok {
			if n == 0 {
				break
			}
			continue
		}
		if r.Kind == memproto.ReplyItem { // more is to come before the request has its answer
			if c.hits++; !c.awaitsItems() {
				m.counters.OutOfStep++
				return false
			}
			continue
		}
		if !m.reply(c, &r, now) {
			m.counters.OutOfStep++
			return false
		}
		c.replyBytes, c.hits = 0, 0
	}
	if len(data) == len(m.in) { // a line that long is none
		m.counters.OutOfStep++
		return false
	}
	c.rest = append(c.rest[:0], data...)
	return true
}

// reply settles the oldest request of a connection. It returns false if the reply is not an answer to it.
func (m *MemcachedTarget) reply(c *conn, r *memproto.Reply, now clock.Instant) bool {
	if c.pending.len() == 0 && !c.pacer {
		return false
	}
	switch {
	case m.clients != nil:
		return m.clients.reply(c, r, now)
	case m.cfg.Model != nil:
		return m.modelReply(c, r, now)
	}
	rec := c.pending.head()
	if r.HasOpaque && r.Opaque != rec.Seq {
		return false
	}
	answer, ok := c.answer(rec, r, now)
	if !ok {
		return false
	}
	m.delivered = true
	c.backoff = 0
	if rec.Fate == reqlog.Pending {
		m.cfg.judge(rec, answer)
	} else {
		m.counters.LateAfter++
	}
	c.pending.pop()
	m.offer(c)
	return true
}

// answer says what a reply means to its request. ok is false if it is an answer to nothing of ours.
func (c *conn) answer(rec *reqlog.Record, r *memproto.Reply, at clock.Instant) (answer load.Reply, ok bool) {
	answer = load.Reply{At: at, Queued: r.Queued, Service: r.Service, Bytes: uint32(min(c.replyBytes, math.MaxUint32))}
	get, multi := workloads.Kind(rec.Kind) == workloads.Get, workloads.Kind(rec.Kind) == workloads.MultiGet
	switch r.Kind {
	case memproto.ReplyOther:
		answer.Hits = c.hits
		return answer, multi && string(r.Text) == "END"
	case memproto.ReplyValue, memproto.ReplyOK:
		answer.Hit = get // a server may read the value and send the header alone
	case memproto.ReplyMiss, memproto.ReplyNotFound, memproto.ReplyNotStored, memproto.ReplyExists:
	case memproto.ReplyOverloaded:
		answer.Outcome = load.Shed
		answer.Reason, _ = control.ParseReason(r.Reason)
	case memproto.ReplyServerError, memproto.ReplyClientError, memproto.ReplyError:
		answer.Outcome = load.Broken
	default:
		return answer, false
	}
	// A read of several keys has no other answers than those above and these.
	return answer, !multi || answer.Outcome != load.Answered
}

// Close settles what is pending as timed out and closes the connections.
func (m *MemcachedTarget) Close() error {
	now := m.cfg.Clock.Now()
	m.modelClose(now)
	if m.clients != nil {
		m.clients.abandonAll(now)
	}
	var errs []error
	for _, c := range m.conns {
		if m.clients == nil {
			m.abandon(c, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
		}
		errs = append(errs, c.disconnect())
	}
	return errors.Join(append(errs, m.poller.Close())...)
}
