//go:build linux

package servers

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/poll"
)

const (
	// readBytes is the most that one read takes. A connection with more to say waits for the next turn.
	readBytes = 64 << 10
	// turnBudget bounds the execution of calls in one turn. After it the sockets are looked at again, so that what has come meanwhile
	// queues in the Gate and not in the kernel. One call may take longer: it is never cut short.
	turnBudget = 100 * time.Microsecond
	// yieldAfter is how long a busy loop keeps its thread from the other goroutines of the process.
	yieldAfter = 500 * time.Microsecond
	// sweepEvery is the precision of idle timeouts.
	sweepEvery = time.Second

	listenToken = uint64(1) << 63 // marks tokens of listeners
)

// loop is one event loop: a goroutine with sockets of its own.
type loop struct {
	server *Server
	index  int
	poll   *poll.Poller
	events []poll.Event
	buf    []byte // what has been read last
	blocks blocks
	parsed *call // what is parsed next goes here; it belongs to no connection yet

	slots    []slot  // connections, by the lower half of their token
	vacant   []int   // slots without a connection
	open     int     // slots with one
	arrivals list    // calls read in this turn
	settled  list    // calls with their outcome, to be answered
	free     list    // calls for further use
	dirty    []*conn // connections with replies to be written
	resumed  []*conn // connections that may be read again
	spare    []*conn // working memory
	newConns []int
	recalls  []*conn // connections whose question must not be held any longer
	waking   []*loop
	pieces   [][]byte

	again    bool          // there is work that no socket will report
	tickAt   clock.Instant // of the controller
	timerAt  clock.Instant // when this loop is to wake up for calls that wait for time to pass
	sweepAt  clock.Instant
	acceptAt clock.Instant // when listeners are to be watched again; Never if they are
	yielded  clock.Instant
	drainBy  clock.Instant // end of the grace of a shutdown; Never before it

	post post // guarded by dispatch.mu

	bytesRead, bytesWritten atomic.Uint64
	yields, idleKicks       atomic.Uint64

	connMu sync.Mutex // guards slots and the descriptors in them while another loop looks at them; only l changes them
}

// slot is a place for a connection. Its life tells a late event of a closed connection from one of its successor.
type slot struct {
	conn *conn
	life uint32
}

func newLoop(s *Server, index int) (*loop, error) {
	p, err := poll.New()
	if err != nil {
		return nil, err
	}
	return &loop{
		server: s, index: index, poll: p,
		events: make([]poll.Event, 128), buf: make([]byte, readBytes),
		acceptAt: clock.Never, drainBy: clock.Never, timerAt: clock.Never,
	}, nil
}

// wake makes l look into its post. It may be called from any goroutine, even after l has ended.
func (l *loop) wake() { _ = l.poll.Wake() }

// run serves until the server is stopped and all is answered.
func (l *loop) run() error {
	defer l.closeAll()
	if l.server.model != nil {
		defer sharpenTimers()()
	}
	if l.index == 0 {
		if err := l.watchListeners(true); err != nil {
			return err
		}
	}
	now := l.server.clock.Now()
	l.sweepAt = now.Add(sweepEvery)
	for {
		if err := l.turn(now); err != nil {
			return err
		}
		// All loops go on until the last connection is closed: each may have work that the connections of another wait for.
		if l.drainBy != clock.Never && (l.server.conns.Load() == 0 || now >= l.drainBy) {
			return nil
		}
		n, _, err := l.poll.Wait(l.events, l.timeout())
		if err != nil {
			return err
		}
		now = l.server.clock.Now()
		if now.Sub(l.yielded) > yieldAfter {
			// A loop that always has work would keep signal handling, garbage collection and the metrics page waiting.
			l.yielded = now
			runtime.Gosched()
		}
		for i := range l.events[:n] {
			l.event(now, &l.events[i])
		}
	}
}

// turn serves what has been read so far: calls to the gate, started calls to the backend, replies to the sockets.
func (l *loop) turn(now clock.Instant) error {
	if l.server.stop.Load() && l.drainBy == clock.Never {
		l.drain(now)
	}
	if l.server.model != nil {
		if err := l.modelTurn(now); err != nil {
			return err
		}
	} else {
		l.execute(l.server.dispatch.submit(l, now, &l.arrivals), now)
	}
	for q := l.settled.pop(); q != nil; q = l.settled.pop() {
		l.settle(q)
	}
	for _, fd := range l.newConns {
		l.adopt(now, fd)
	}
	l.newConns = l.newConns[:0]
	l.flush(now)
	if now >= l.sweepAt {
		l.sweepAt = now.Add(sweepEvery)
		l.sweep(now)
	}
	if now >= l.acceptAt {
		l.acceptAt = clock.Never
		l.server.accepting.Store(true)
		if err := l.watchListeners(true); err != nil {
			l.acceptAt = now.Add(acceptPause)
		}
	}
	return nil
}

// execute executes q and further calls as long as the turn's budget lasts.
func (l *loop) execute(q *call, now clock.Instant) {
	end := now.Add(turnBudget)
	// The clock is read once a call: what lies between two calls counts as service of the second.
	now = l.server.clock.Now()
	for q != nil {
		q.stepped = now
		if !q.waiting {
			q.began = now
			q.extra.Queued = now.Sub(q.request.Arrived)
		}
		p, err := l.step(q)
		if !p.Final() {
			now = l.server.clock.Now()
			more := now < end
			l.again = l.again || !more
			q = l.server.dispatch.park(l, now, q, p, more)
			continue
		}
		w := l.writer(q)
		if err != nil {
			w.Fail("SERVER_ERROR " + oneLine(err))
		}
		q.reason = p.reason
		q.failed = err != nil || p.kind == pauseDropped
		now = l.server.clock.Now()
		q.extra.Service = now.Sub(q.began)
		mine, more := q.conn.loop == l, now < end
		next := l.server.dispatch.finish(l, now, q, more)
		switch {
		case mine && (q.conn.dead || q.reason != control.NoReason):
			l.settle(q)
		case mine:
			l.answer(q, w)
		}
		l.again = l.again || !more
		q = next
	}
}

// timeout returns how long the loop may wait for its sockets.
func (l *loop) timeout() time.Duration {
	if l.again || len(l.resumed) > 0 || l.arrivals.n > 0 {
		l.again = false
		return 0
	}
	until := min(l.acceptAt, l.drainBy, l.timerAt)
	if l.index == 0 && l.server.model == nil { // a modelled machine ticks with its own clock
		until = min(until, l.tickAt)
	}
	if l.server.config.IdleTimeout > 0 && l.open > 0 {
		until = min(until, l.sweepAt)
	}
	wait := time.Duration(-1)
	if until != clock.Never {
		wait = max(until.Sub(l.server.clock.Now()), 0)
	}
	if m := l.server.model; m != nil {
		return m.sooner(wait)
	}
	return wait
}

func (l *loop) event(now clock.Instant, e *poll.Event) {
	if e.Token&listenToken != 0 {
		if l.drainBy == clock.Never {
			l.accept(now, l.server.listen[e.Token&^listenToken].fd)
		}
		return
	}
	s := &l.slots[uint32(e.Token)]
	c := s.conn
	if c == nil || s.life != uint32(e.Token>>32) {
		return
	}
	if e.Writable {
		c.active = now
		l.mark(c)
	}
	if e.Readable && !c.eof && !c.paused {
		c.active = now
		l.read(c)
	} else if e.Hangup {
		l.kill(c)
	}
}

// adopt takes in a new connection.
func (l *loop) adopt(now clock.Instant, fd int) {
	s := l.server
	if l.drainBy != clock.Never {
		_ = unix.Close(fd)
		s.gone()
		return
	}
	l.connMu.Lock()
	defer l.connMu.Unlock()
	if len(l.vacant) == 0 {
		l.slots = append(l.slots, slot{})
		l.vacant = append(l.vacant, len(l.slots)-1)
	}
	i := l.vacant[len(l.vacant)-1]
	c := &conn{loop: l, fd: fd, active: now, client: s.clients.Add(1), token: uint64(l.slots[i].life)<<32 | uint64(i)}
	c.parser.MaxItem = s.config.MaxItem
	if err := l.poll.Add(fd, c.token, false); err != nil {
		_ = unix.Close(fd)
		s.gone()
		return
	}
	l.vacant = l.vacant[:len(l.vacant)-1]
	l.slots[i].conn = c
	l.open++
	s.say(sayAll, "<%d new client connection", fd)
}

// drain begins a shutdown: nothing more is taken in, and connections without calls in flight are closed.
func (l *loop) drain(now clock.Instant) {
	l.drainBy = now.Add(l.server.config.Grace)
	if l.index == 0 {
		if l.acceptAt == clock.Never {
			_ = l.watchListeners(false)
		}
		l.acceptAt = clock.Never
		l.connMu.Lock()
		for i := range l.server.listen {
			l.server.listen[i].close()
		}
		l.connMu.Unlock()
	}
	for i := range l.slots {
		if c := l.slots[i].conn; c != nil {
			l.endOfInput(c)
		}
	}
}

// sweep closes connections without traffic.
func (l *loop) sweep(now clock.Instant) {
	limit := l.server.config.IdleTimeout
	if limit == 0 {
		return
	}
	for i := range l.slots {
		c := l.slots[i].conn
		switch {
		case c == nil || now.Sub(c.active) <= limit:
		case c.head == nil || c.backlog > 0 || c.head == c.block:
			// One that waits for its calls is not idle; one that waits for its client, to read or to send the rest of a value, is.
			l.idleKicks.Add(1)
			l.kill(c)
		case c.asks && c.pending == 1 && l.server.model == nil:
			// An open question alone could keep a connection for ever. Its client hears that there is still nothing: one that is alive asks again.
			c.recall()
			l.again = true
		}
	}
}

// closeAll closes what a shutdown, or the failure of this loop, leaves open.
func (l *loop) closeAll() {
	for i := range l.slots {
		if c := l.slots[i].conn; c != nil {
			l.kill(c)
		}
	}
}

// oneLine makes an error fit for a reply.
func oneLine(err error) string {
	b := []byte(err.Error())
	for i := range b {
		if b[i] < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}
