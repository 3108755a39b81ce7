//go:build linux

package servers

import (
	"slices"

	"spillway/clock"
	"spillway/internal/memproto"
)

// A client whose next requests depend on replies cannot let the machine stay behind the clock. So the two keep in step: on a connection of its
// own the client says mn L<instant>, that it has done all that it does before that instant, and is answered once the machine has come one
// network delay further: MN L0.000,0.000,<instant>. Whatever the client sends after its promise arrives later than that, and whatever the server
// sends after its answer arrives one more delay later. Neither computes past what it may still hear of, however long the other's process was
// stopped (docs/adr/0020).

// isPromise reports whether cmd says how far a client has come.
func (s *Server) isPromise(cmd *memproto.Command) bool {
	return s.model != nil && cmd.Verb == memproto.MetaNoop && cmd.HasSent && !cmd.HasDemand
}

// lockstep are the clients in step with the machine.
type lockstep struct {
	peers   []*conn
	waiting []*call // promises that have not been answered
}

// promise takes in what a client says.
func (s *lockstep) promise(q *call, at clock.Instant) {
	c := q.conn
	if !slices.Contains(s.peers, c) {
		s.peers = append(s.peers, c)
	}
	c.promised = max(c.promised, at)
	s.waiting = append(s.waiting, q)
}

// part takes a connection out.
func (s *lockstep) part(c *conn) {
	s.peers = slices.DeleteFunc(s.peers, func(p *conn) bool { return p == c })
	s.waiting = slices.DeleteFunc(s.waiting, func(q *call) bool { return q.conn == c })
}

// mayReach returns how far the machine may move on as far as one client is concerned: what it sends next may arrive one nanosecond later.
func (m *model) mayReach(c *conn) clock.Instant { return c.promised.Add(m.network - 1) }

// limit returns how far the machine may move on as far as these clients are concerned.
func (m *model) limit() clock.Instant {
	limit := clock.Never
	for _, c := range m.step.peers {
		limit = min(limit, m.mayReach(c))
	}
	return limit
}

// answerDue returns when the next of these clients is to be answered.
func (m *model) answerDue() clock.Instant {
	due := clock.Never
	for _, q := range m.step.waiting {
		due = min(due, m.mayReach(q.conn))
	}
	return due
}

// answerPromises answers those clients that the machine has come far enough for. What it had to say before that has been handed over first.
func (l *loop) answerPromises() {
	m := l.server.model
	if m.answerDue() > m.upTo {
		return
	}
	l.flush(l.server.clock.Now())
	keep := m.step.waiting[:0]
	for _, q := range m.step.waiting {
		if m.mayReach(q.conn) > m.upTo {
			keep = append(keep, q)
			continue
		}
		q.w.End(&q.cmd, memproto.Extras{Credits: -1, Leaves: int64(m.upTo + m.base)})
		q.done = true
		l.advance(q.conn)
	}
	clear(m.step.waiting[len(keep):])
	m.step.waiting = keep
}
