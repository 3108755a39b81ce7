//go:build linux

package servers

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/evq"
	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/machine/station"
)

// Model is a modelled machine under a server: the model ground. The server does everything that it does on a real one, except that the
// instants at which calls begin and end are computed (docs/adr/0010). Durations of Config that a controller or a client would notice,
// Deadline and SLO, are then modelled time; the others stay wall-clock time.
type Model struct {
	Machine machine.Spec
	Scale   int // nanoseconds of the wall clock that a modelled one takes
	Costs   Coster
}

// Coster says what a command costs on a modelled machine.
type Coster interface {
	// Steps appends the work of cmd to dst. Locks and sections have numbers up to machine.MaxIndex. An error is answered as CLIENT_ERROR.
	Steps(dst []machine.Step, cmd *memproto.Command) ([]machine.Step, error)
}

func (m *Model) check() error {
	if m.Costs == nil {
		return errors.New("a modelled machine needs to know what commands cost")
	}
	if err := m.Machine.Check(); err != nil {
		return fmt.Errorf("modelled machine: %w", err)
	}
	_, err := clock.NewStretched(m.Scale)
	return err
}

const (
	// modelPipeline is how many unanswered calls a connection may have at least: a few GB of them altogether, in the worst case.
	modelPipeline  = 1 << 22
	modelHeldBytes = 1 << 30
	// modelRounds bounds how often the sockets are read before the machine moves on: a flood must not stop it.
	modelRounds = 64
	// clockSlack is how far ahead of this process a client's clock may seem to be, on the wall clock. They are one and the same clock.
	clockSlack = time.Millisecond
)

// model is the modelled machine at work. Its instants count from base on the stretched clock: small numbers keep their precision, and
// the first tick of the controller is at 0. It belongs to the one loop, except for what dispatch.mu guards: the station.
type model struct {
	clock   *clock.Stretched
	base    clock.Instant
	network time.Duration
	costs   Coster
	station *station.Station
	held    evq.Queue[*call] // arrivals that are not due yet
	next    clock.Instant    // when something will be due
	last    clock.Instant    // of what has happened, the latest; nothing can happen before it any more
	upTo    clock.Instant    // the machine has moved on to here
	behind  time.Duration    // how far it stays behind the clock, because the clients that ask at present do not mind
	timed   clock.Instant    // when the last request came that said when it was sent
	step    lockstep
	steps   []machine.Step
	ended   []ending

	late    uint64 // arrivals that came when the machine had moved past them
	lateMax time.Duration
	strange uint64 // arrivals from the future: of a client with another scale, or on another computer
}

// ending is a call with its computed outcome, to be answered.
type ending struct {
	q     *call
	at    clock.Instant
	reply station.Reply
	wrong error // it asks for work that there is not
}

func newModel(c *Model, stack control.Stack, gate control.GateConfig) (*model, error) {
	stretched, err := clock.NewStretched(c.Scale)
	if err != nil {
		return nil, err
	}
	m := &model{clock: stretched, base: stretched.Now(), network: c.Machine.Network, costs: c.Costs, next: 0}
	m.station = station.New(station.Config{
		Controller: stack.Controller, Gate: gate, Machine: c.Machine, Locks: numLocks,
		Sections: station.Sections(stack, numLocks), LockQueues: station.LockQueues(stack, numLocks),
	})
	return m, nil
}

var _ clock.Clock = (*model)(nil)

// Now returns the modelled instant.
func (m *model) Now() clock.Instant { return m.clock.Now() - m.base }

// sooner returns how long to wait when something other than the machine asks for no more than wait, if that is not negative.
func (m *model) sooner(wait time.Duration) time.Duration {
	next := min(m.next, m.answerDue())
	if next == clock.Never || next > m.limit() { // what a client says next wakes the loop
		return wait
	}
	until := max(m.clock.Wall(next.Sub(m.Now().Add(-m.behind))), 0)
	if wait < 0 {
		return until
	}
	return min(wait, until)
}

// modelTurn reads what has come and lets happen on the machine what is due by now. wall is the instant on the server's clock.
func (l *loop) modelTurn(wall clock.Instant) error {
	m := l.server.model
	now := m.Now()
	if err := l.readAll(wall); err != nil {
		return err
	}
	for q := l.arrivals.pop(); q != nil; q = l.arrivals.pop() {
		if q.kind == promise {
			m.step.promise(q, clock.Instant(q.cmd.Sent)-m.base)
			continue
		}
		m.hold(now, q)
	}
	l.recalls = l.recalls[:0] // replies of this ground pass each other, so that nobody waits behind a question
	m.run(l, m.reach(now))
	for i := range m.ended {
		l.end(&m.ended[i])
	}
	clear(m.ended)
	m.ended = m.ended[:0]
	l.answerPromises()
	if m.station.Machine().Dead() {
		spec := m.station.Machine().Spec()
		return fmt.Errorf("the modelled machine ran out of memory and died: requests held more than its %d bytes, at %v on its clock",
			spec.RAM, time.Duration(m.last))
	}
	return nil
}

// readAll reads the sockets until there is nothing left. Only then may the machine move on: what was sent in time has been seen, however
// long this process has been stopped.
func (l *loop) readAll(wall clock.Instant) error {
	for range modelRounds {
		n, woken, err := l.poll.Wait(l.events, 0)
		if err != nil {
			return err
		}
		l.again = l.again || woken // the reason is looked at when a turn begins
		read := false
		for i := range l.events[:n] {
			read = read || l.events[i].Readable
			l.event(wall, &l.events[i])
		}
		if !read {
			return nil
		}
	}
	l.again = true
	return nil
}

// Both on the wall clock.
const (
	timedFor  = time.Second      // after the last request that says when it was sent, its client's patience counts
	maxBehind = 10 * time.Second // the most patience that is made use of
)

// reach returns how far the machine may move on. It waits for requests that are late as long as their clients are patient.
func (m *model) reach(now clock.Instant) clock.Instant {
	if now.Sub(m.timed) > clock.On(m.clock, timedFor)+m.behind {
		m.behind = 0
	}
	return max(m.upTo, min(now.Add(-m.behind), m.limit()))
}

// hold keeps an arrival until it is due: when it was sent, plus the time on the modelled network. One that does not say when it was sent
// counts as sent now.
func (m *model) hold(now clock.Instant, q *call) {
	sent := now
	if q.cmd.HasSent {
		sent = clock.Instant(q.cmd.Sent) - m.base
		if sent > now.Add(clock.On(m.clock, clockSlack)) {
			m.strange++
			sent = now
		}
		m.timed, m.behind = now, min(time.Duration(q.cmd.Patience), clock.On(m.clock, maxBehind))
	}
	due := sent.Add(m.network)
	if due < m.last {
		m.late++
		m.lateMax = max(m.lateMax, m.last.Sub(due))
		due = m.last
	}
	m.held.Push(uint64(max(due, 0)), q)
}

// run lets happen what is due by now, in the order of instants. Of what happens at one instant, arrivals come first, as in the
// simulator.
func (m *model) run(l *loop, now clock.Instant) {
	d := &l.server.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		arrival, other := clock.Never, m.station.Next()
		if m.held.Len() > 0 {
			arrival = clock.Instant(m.held.Key())
		}
		m.next = min(arrival, other)
		if m.next > now || m.station.Machine().Dead() {
			break
		}
		m.last = m.next
		var replies []station.Reply
		if arrival <= other {
			if q := m.held.Pop(); q.kind == question {
				replies = m.ask(d, arrival, q)
			} else {
				replies = m.arrive(d, arrival, q)
			}
		} else {
			replies = m.station.Advance(other)
		}
		m.take(d, replies)
	}
	m.upTo = max(m.upTo, now)
}

// take notes what the station has said at m.last.
func (m *model) take(d *dispatch, replies []station.Reply) {
	for _, r := range replies {
		q := d.mu.calls[r.Token-1]
		q.credits = min(r.Credits, maxCredits)
		m.ended = append(m.ended, ending{q: q, at: m.last, reply: r})
		if r.Reason != control.NoReason {
			d.mu.classes[q.class].shed[r.Reason]++
		}
		if r.Started { // as on a machine of its own, where what is refused has neither
			d.mu.service.Add(r.Service)
			d.mu.queueing.Add(r.Queued)
		}
	}
}

// part takes note, as of the present instant, that a connection is gone. Its open question, if there is one, has no answer.
func (m *model) part(d *dispatch, c *conn) (question uint64, open bool) {
	m.last = max(m.last, m.upTo)
	question, open, replies := m.station.Forget(m.last, c.client)
	m.take(d, replies)
	return question, open
}

// arrive takes one call to the station.
func (m *model) arrive(d *dispatch, now clock.Instant, q *call) []station.Reply {
	var err error
	if m.steps, err = m.costs.Steps(m.steps[:0], &q.cmd); err != nil {
		m.ended = append(m.ended, ending{q: q, at: now, wrong: err})
		return nil
	}
	d.number(q)
	config := &q.conn.loop.server.config
	r := q.asRequest(d)
	d.mu.classes[r.Class].arrived++
	if config.Deadline > 0 {
		r.Deadline = now.Add(config.Deadline)
	}
	demand := station.NoDemand
	if q.cmd.HasDemand && !q.conn.gone { // one that is gone must not be met again
		demand = demandOf(&q.cmd)
	}
	return m.station.Arrive(now, r, m.steps, q.id, demand)
}

// ask takes a question to the station. One that does not say when it was sent is that of a client to whom replies come in order: it is not
// held.
func (m *model) ask(d *dispatch, now clock.Instant, q *call) []station.Reply {
	q.request.Arrived = now
	switch {
	case q.conn.gone:
		m.ended = append(m.ended, ending{q: q, at: now})
		return nil
	case !q.cmd.HasSent:
		d.issuer.Demand(now, q.conn.client, demandOf(&q.cmd))
		q.credits = wireCredits(d.issuer.Credits(now, q.conn.client))
		m.ended = append(m.ended, ending{q: q, at: now})
		return nil
	}
	d.number(q)
	return m.station.Poll(now, q.conn.client, demandOf(&q.cmd), q.id)
}

// end has the real work of a call done and answers it. A reply that its client can tell by its opaque leaves at once. Any other waits
// until its call is the oldest of its connection: replies in order are what clients expect that do not know this ground.
func (l *loop) end(e *ending) {
	q, c := e.q, e.q.conn
	if c.dead {
		c.pending--
		l.freeCall(q)
		return
	}
	x := memproto.Extras{Queued: e.reply.Queued, Service: e.reply.Service, Credits: q.credits}
	if q.cmd.HasSent {
		x.Leaves = int64(e.at + l.server.model.base)
	}
	ordered := !q.cmd.HasSent || !q.cmd.HasOpaque
	switch {
	case e.wrong != nil:
		q.w.Fail("CLIENT_ERROR " + oneLine(e.wrong))
		q.w.End(&q.cmd, x)
		ordered = true // error lines have no room for an opaque
	case e.reply.Reason != control.NoReason:
		q.w.Overloaded(&q.cmd, e.reply.Reason.String(), x)
	case q.kind == question:
		x.Queued = e.at.Sub(q.request.Arrived) // how long it was held: with that its client knows when it was let in
		q.w.End(&q.cmd, x)
		ordered = !q.cmd.HasSent // there is one open at most, so that its answer needs no opaque
	default:
		if err := l.server.backend.Do(&q.cmd, &q.w); err != nil {
			q.w.Fail("SERVER_ERROR " + oneLine(err))
		}
		ordered = ordered || q.w.Failed()
		q.w.End(&q.cmd, x)
	}
	if ordered {
		q.done = true
		l.advance(c)
		return
	}
	c.out.w.Append(&q.w)
	c.remove(q)
	l.freeCall(q)
	l.mark(c)
	l.advance(c) // others may have waited for this one
}

// remove takes q out of the calls of c, wherever it stands.
func (c *conn) remove(q *call) {
	if q == c.head {
		c.unlink(q)
		return
	}
	q.before.after = q.after
	if q.after == nil {
		c.tail = q.before
	} else {
		q.after.before = q.before
	}
	c.pending--
}

// sharpenTimers makes the kernel keep the calling goroutine's timeouts to the microsecond instead of to 50. It returns what undoes that.
func sharpenTimers() (undo func()) {
	runtime.LockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		runtime.UnlockOSThread()
	}
}
