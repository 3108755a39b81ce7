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

// Config says where requests go and how.
type Config struct {
	Addr        string               // memcached://host:port or memcached:///path.sock; several are used in turn, see Resolve
	Conns       int                  // connections; client i uses connection i mod Conns
	Shard       int                  // of Shards senders, which one this is: it has the connections whose number is Shard modulo Shards
	Shards      int                  // 0 means 1
	MaxConns    int                  // up to how many connections there may be, of all senders, once those asked for have their Window; 0 means Conns
	Window      int                  // bound on requests under way on one connection, beyond which they are unsent; 0 means DefaultWindow
	Clock       clock.Clock          // of the run
	Timeout     time.Duration        // from the intended instant, after which the client stops waiting
	SLOs        []time.Duration      // latency limit by class, 0 for none
	Settle      func(*reqlog.Record) // is handed each record once; the record is valid during the call
	Spin        time.Duration        // how long before an instant Wait polls instead of sleeping; load.SpinAlways for all the time
	DialTimeout time.Duration        // for establishing one connection; 0 means DefaultDialTimeout
	Timings     bool                 // ask for the server's queueing delay and service time, which memcached does not tell
	Model       *Model               // the server runs on a modelled machine; nil for a real one. Clock is then a stretched one
}

// Values for what a Config leaves open.
const (
	// DefaultWindow lets a queue form at the server, as open loop demands, rather than at the client. Memory for it is taken
	// when it is needed.
	DefaultWindow = 1 << 16
	// Most bounds connections, and requests under way on one of them: what one server's port and one process's descriptors may allow.
	Most               = 1 << 16
	DefaultDialTimeout = 5 * time.Second
)

const (
	// maxUnwritten bounds the bytes that one connection holds back because the kernel takes no more.
	maxUnwritten = 4 << 20
	// readBytes is what one read takes at most. It is the largest transfer that package poll makes at its lowest cost.
	readBytes = 64 << 10
	// maxReads bounds how often one connection is read before the others have their turn: enough for a reply of a megabyte.
	maxReads = 20
)

func (c *Config) check() error {
	switch {
	case c.Clock == nil || c.Settle == nil:
		return errors.New("target: a clock and a function to settle records are needed")
	case c.Conns < 1:
		return fmt.Errorf("%d connections: at least one is needed", c.Conns)
	case c.Window < 0 || c.Window > Most:
		return fmt.Errorf("window of %d requests a connection: must be between 0, for the default, and %d", c.Window, Most)
	case c.Conns > Most || c.MaxConns > Most || c.MaxConns != 0 && c.MaxConns < c.Conns:
		return fmt.Errorf("%d connections, at most %d: must not fall and not be above %d", c.Conns, c.MaxConns, Most)
	case c.Shard < 0 || c.Shard >= c.Shards || c.Conns < c.Shards:
		return fmt.Errorf("sender %d of %d with %d connections: each sender needs one", c.Shard, c.Shards, c.Conns)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: must be longer than 0", c.Timeout)
	}
	return nil
}

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
	if _, err := Probe(ctx, cfg.Addr); err != nil {
		return nil, err
	}
	addrs, err := addresses(ctx, cfg.Addr)
	if err != nil {
		return nil, err
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
		c, err := m.dial(ctx, addrs[i%len(addrs)])
		if err != nil {
			_ = m.Close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, cfg.Conns, explainLimit(err))
		}
		m.conns = append(m.conns, c)
	}
	m.own = len(m.conns)
	if err := m.greet(ctx); err != nil {
		_ = m.Close()
		return nil, err
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

// Issue appends one request to the buffer of its connection.
func (m *MemcachedTarget) Issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, client uint32) {
	c := m.conns[int(client)/m.cfg.Shards%m.own]
	rec.Attempts = 1
	if c.state != up {
		// The connection was offered the request in time; that there is none is not the generator's fault.
		rec.Sent = now
		m.judge(rec, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		return
	}
	if c.full(m.cfg.Window) {
		c = m.another(c, now)
	}
	if c == nil {
		m.counters.WindowFull++
		rec.Attempts = 0
		m.judge(rec, load.Reply{At: now, Outcome: load.NotSent, Queued: -1, Service: -1})
		return
	}
	before := len(c.out)
	m.encode(c, rec, op)
	rec.BytesOut = uint32(min(len(c.out)-before, math.MaxUint32))
	c.pending.push(rec)
	m.checkBy(rec.Intended.Add(m.cfg.Timeout))
	if !c.dirty {
		c.dirty = true
		m.dirty = append(m.dirty, c)
	}
}

// encode appends a request to the buffer of a connection.
func (m *MemcachedTarget) encode(c *conn, rec *reqlog.Record, op *workloads.Op) {
	opaque, timings := rec.Seq, memproto.NoTimings
	switch {
	case m.cfg.Model != nil:
		// Replies may come out of order; the opaque finds the place of the request.
		opaque, timings = c.pending.tail, m.timed(rec)
	case m.cfg.Timings:
		timings = memproto.AskTimings
	}
	switch op.Kind {
	case workloads.Get:
		c.out = memproto.AppendMetaGet(c.out, op.Key, opaque, timings)
	case workloads.Set:
		c.out = memproto.AppendMetaSet(c.out, op.Key, op.Value, int64(op.Expire), opaque, timings)
	case workloads.Delete:
		c.out = memproto.AppendMetaDelete(c.out, op.Key, opaque, timings)
	case workloads.MultiGet:
		c.out = memproto.AppendGet(c.out, op.Key, op.More)
	default:
		panic("target: operation of an unknown kind")
	}
}

// Flush hands everything issued to the kernel with one write a connection and stamps it sent.
func (m *MemcachedTarget) Flush(clock.Instant) {
	for _, c := range m.dirty {
		c.dirty = false
		if c.state != up {
			continue // lost since; its requests have been settled
		}
		// The clock is read again: encoding a long batch took a while, and others were written before this one.
		c.stamp(m.cfg.Clock.Now())
		if c.blocked {
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
	n, err := poll.Write(c.fd, c.out[c.written:])
	if err != nil && !again(err) {
		return err
	}
	c.written += n
	if c.written == len(c.out) {
		c.out, c.written = c.out[:0], 0
		c.taken, c.takenPart = c.pending.tail, 0
		if c.blocked {
			c.blocked = false
			return m.poller.Modify(c.fd, c.token, false)
		}
		return nil
	}
	m.counters.SocketFull++
	c.take(n)
	c.compact()
	if !c.blocked {
		c.blocked = true
		return m.poller.Modify(c.fd, c.token, true)
	}
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
		n, _, err := m.poller.Wait(m.events, m.pause(now, until))
		if err != nil {
			// Only a programming error gets here: the poller retries what can be retried.
			panic(fmt.Sprintf("target: %v", err))
		}
		for i := range m.events[:n] {
			m.handle(&m.events[i])
		}
		if m.cfg.Model != nil {
			m.modelTurn(now)
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
	return max(clock.Wall(m.cfg.Clock, min(until, m.nextCheck, m.model.next()).Sub(now))-m.cfg.Spin, 0)
}

func (m *MemcachedTarget) handle(e *poll.Event) {
	c := m.conns[e.Token]
	switch c.state {
	case connecting:
		m.connected(c)
	case up:
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
		n, err := poll.Read(c.fd, m.in[kept:])
		if err != nil {
			if !again(err) {
				m.lose(c)
			}
			return
		}
		if n == 0 || !m.consume(c, m.in[:kept+n]) {
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
	if c.pending.len() == 0 {
		return false
	}
	if m.cfg.Model != nil {
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
		m.judge(rec, answer)
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

// judge decides a record's fate and hands it over.
func (m *MemcachedTarget) judge(rec *reqlog.Record, r load.Reply) {
	var slo time.Duration
	if int(rec.Class) < len(m.cfg.SLOs) {
		slo = m.cfg.SLOs[rec.Class]
	}
	load.Judge(rec, r, slo)
	m.cfg.Settle(rec)
}

// Close settles what is pending as timed out and closes the connections.
func (m *MemcachedTarget) Close() error {
	now := m.cfg.Clock.Now()
	m.modelClose(now)
	var errs []error
	for _, c := range m.conns {
		m.abandon(c, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
		errs = append(errs, m.disconnect(c))
	}
	return errors.Join(append(errs, m.poller.Close())...)
}
