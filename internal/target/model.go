//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"spillway/clock"
	"spillway/internal/evq"
	"spillway/internal/hist"
	"spillway/internal/load"
	"spillway/internal/memproto"
	"spillway/internal/reqlog"
)

// Model says that the server runs on a modelled machine. Requests then say at which modelled instant they were due to leave, replies at
// which they left, and a request is done one network delay after that, whatever the wall clock says. See docs/adr/0010.
type Model struct {
	Network time.Duration // one-way delay between client and server

	// Prompt says that the next requests depend on the replies to the last ones, as in a closed loop. The server must then reply
	// when the clock says so. With credits or retries, which set it, clients and servers wait for each other instead. Otherwise it may stay behind the clock, which makes it wait for requests that are late.
	Prompt bool
}

// patience is how far behind the clock the server may stay where nothing depends on replies, on the wall clock. Busy computers stop a
// sender for tens of milliseconds now and then.
const patience = 100 * time.Millisecond

// patience returns how long after its instant a reply may be read, in modelled time.
func (m *MemcachedTarget) patience() time.Duration {
	if m.cfg.Model == nil || m.cfg.Model.Prompt {
		return 0
	}
	return clock.On(m.cfg.Clock, patience)
}

// grace is how long after its timeout a request is given up: its reply may be on its way, with an instant before that.
func (m *MemcachedTarget) grace() time.Duration { return 2 * m.patience() }

// modelState is what a target knows of the messages of the model ground.
type modelState struct {
	held    evq.Queue[heldReply] // replies that were read before they are due
	replies int64                // with a computed instant
	untimed int64                // without one, though the request was served or shed
	late    *hist.Hist           // by how much messages were late that disturbed the run
}

// heldReply is a request whose fate is known before its instant has come.
type heldReply struct {
	rec   reqlog.Record
	reply load.Reply

	// Where clients do not just send, instead of rec.
	conn, token uint32
	credits     int32
}

// disturbedShare is the share of requests that may be disturbed before the scale counts as too small. Percentiles up to the 99.9th
// hardly notice so few.
const disturbedShare = 0.001

// checkModel returns an error unless the server is on the ground that the configuration says.
func (c *Config) checkModel(ctx context.Context) error {
	if c.Model == nil {
		return nil
	}
	if c.Model.Network < 0 {
		return errors.New("target: a network delay must not be negative")
	}
	for _, addr := range split(c.Addr) {
		stats, err := Stats(ctx, addr, "spillway")
		if err != nil {
			return err
		}
		if got, want := stats["model_scale"], strconv.Itoa(clock.Scale(c.Clock)); got != want {
			if got == "" {
				got = "no modelled machine"
			} else {
				got = "a modelled machine with --time-scale " + got
			}
			return fmt.Errorf("%s runs on %s; start it with --machine and --time-scale %s", addr, got, want)
		}
	}
	return nil
}

// next returns when the next held reply is due.
func (s *modelState) next() clock.Instant {
	if s.held.Len() == 0 {
		return clock.Never
	}
	return clock.Instant(s.held.Key())
}

// modelReply takes a reply of the model ground, whose instant is computed, and holds it until then.
func (m *MemcachedTarget) modelReply(c *conn, r *memproto.Reply, now clock.Instant) bool {
	p := &c.pending
	at := p.first // a reply without an opaque leaves the server when its request is the oldest
	if r.HasOpaque {
		if at = r.Opaque; at-p.first >= uint64(p.len()) || p.answered(at) {
			return false
		}
	}
	rec := *p.at(at)
	if rec.Sent == 0 {
		return false
	}
	answer, ok := c.answer(&rec, r, now)
	if !ok {
		return false
	}
	p.answer(at)
	m.offer(c)
	m.delivered = true
	c.backoff = 0
	if r.Leaves > 0 {
		answer.At = clock.Instant(r.Leaves).Add(m.cfg.Model.Network)
		gaveUp := rec.Fate == reqlog.TimedOut && answer.At <= rec.Intended.Add(m.cfg.Timeout)
		m.judgeLateness(rec.Intended, rec.Sent, gaveUp || m.cfg.Model.Prompt, r, now)
	} else if answer.Outcome != load.Broken {
		m.model.untimed++ // it was asked in a form that has no room for an instant, so what was observed is all there is
		m.counters.Disturbed++
	}
	if rec.Fate != reqlog.Pending {
		m.counters.LateAfter++
		return true
	}
	if giveUp := rec.Intended.Add(m.cfg.Timeout); answer.At > giveUp {
		answer = load.Reply{At: giveUp, Outcome: load.Abandoned, Queued: -1, Service: -1}
	}
	if answer.At > now {
		m.model.held.Push(uint64(answer.At), heldReply{rec: rec, reply: answer})
		return true
	}
	m.cfg.judge(&rec, answer)
	return true
}

// judgeLateness notes whether the messages of a request came when they were due. It left at one instant as computed, and at another as
// observed. acted says that its client may have done something at a later instant than that of the reply, as if there were none.
func (m *MemcachedTarget) judgeLateness(left, observed clock.Instant, acted bool, r *memproto.Reply, now clock.Instant) {
	m.model.replies++
	worst := time.Duration(0)
	// The server's times are exact, so they tell at which instant it let the request in.
	arrived := clock.Instant(r.Leaves).Add(-r.Queued - r.Service)
	if should := left.Add(m.cfg.Model.Network); r.Queued >= 0 && arrived > should {
		worst = max(arrived, observed.Add(-m.patience())).Sub(should)
	}
	due := clock.Instant(r.Leaves).Add(m.cfg.Model.Network)
	if late := now.Sub(due) - m.patience(); late > 0 {
		m.counters.LateReplies++
		m.counters.LateMax = max(m.counters.LateMax, late)
		// A late reply matters if the client has acted without it: given up, or sent what depends on it. What it does afterwards is late
		// for the server, if it matters.
		if acted {
			worst = max(worst, late)
		}
	}
	if worst == 0 {
		return
	}
	m.counters.Disturbed++
	m.counters.LateMax = max(m.counters.LateMax, worst)
	if m.model.late == nil {
		m.model.late = hist.New()
	}
	m.model.late.Record(worst)
}

// scaleNeeded returns the smallest time scale at which few enough requests would have been disturbed: a message was late because it
// took longer than the modelled network, and with a greater scale it may take longer.
func (s *modelState) scaleNeeded(scale int, network time.Duration) int {
	allowed := int64(disturbedShare * float64(s.replies))
	if s.untimed > allowed {
		return load.NoScale
	}
	if s.late == nil {
		return scale
	}
	disturbed := s.late.Count()
	if disturbed <= allowed {
		return scale
	}
	if network == 0 {
		return load.NoScale
	}
	worst := s.late.Percentile(100 * float64(disturbed-allowed) / float64(disturbed))
	return roundScale(float64(scale) * float64(network+worst) / float64(network))
}

// roundScale rounds up to two digits: what it rounds was a sample of this computer's delays, and no more precise than that.
func roundScale(scale float64) int {
	unit := math.Pow(10, max(math.Floor(math.Log10(scale))-1, 0))
	return int(min(math.Ceil(scale/unit)*unit, clock.MaxScale))
}

// modelTurn settles held replies and then looks at timeouts. now was read before the sockets were: what had come by then has been seen,
// so a stall of this process makes nobody give up.
func (m *MemcachedTarget) modelTurn(now, until clock.Instant) {
	if m.clients != nil {
		// No further than until, when something may be due that comes first.
		m.clients.listen()
		m.clients.impatient()
		m.clients.move(min(now, until))
		return
	}
	for m.model.next() <= now {
		h := m.model.held.Pop()
		m.delivered = true
		m.cfg.judge(&h.rec, h.reply)
	}
	if now >= m.nextCheck {
		m.check(now)
	}
}

// modelClose settles what is held as the client that stops waiting sees it.
func (m *MemcachedTarget) modelClose(now clock.Instant) {
	if m.clients != nil {
		return // they settle all that they wait for
	}
	for m.model.held.Len() > 0 {
		h := m.model.held.Pop()
		if h.reply.At > now {
			h.reply = load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1}
		}
		m.cfg.judge(&h.rec, h.reply)
	}
}
