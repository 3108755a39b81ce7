//go:build linux

package servers

import (
	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
)

// A question is mn P<demand>, which a client without credits sends. It is answered once there are some for it (docs/adr/0015). Nobody may
// wait behind a question: when its connection says anything else, or nothing more, it is answered with what there is.

// isQuestion reports whether cmd is a question that this server may hold. Where nobody hands out credits the answer comes at once, as that
// to any mn; on a modelled machine its instant has to be computed even so.
func (s *Server) isQuestion(cmd *memproto.Command) bool {
	return cmd.Verb == memproto.MetaNoop && cmd.HasDemand && (s.dispatch.issuer != nil || s.model != nil && cmd.HasSent)
}

// recall has the open question of c answered in this turn.
func (c *conn) recall() {
	if c.asks {
		c.asks = false
		c.loop.recalls = append(c.loop.recalls, c)
	}
}

// ask takes in a question.
func (d *dispatch) ask(l *loop, now clock.Instant, q *call) {
	d.number(q)
	d.mu.answers = d.mu.polls.Ask(now, d.issuer, q.conn.client, demandOf(&q.cmd), q.id, d.mu.answers[:0])
	for _, a := range d.mu.answers {
		d.answer(l, a)
	}
}

// answerRecalled answers the questions that must not be held any longer. A connection that has asked anew has had its older question answered
// by that, and waits for the newer one.
func (d *dispatch) answerRecalled(l *loop, now clock.Instant) {
	for _, c := range l.recalls {
		if c.asks || c.gone {
			continue
		}
		if token, ok := d.mu.polls.Drop(c.client); ok {
			d.answer(l, control.Answer{Token: token, Client: c.client, Credits: d.issuer.Credits(now, c.client)})
		}
	}
	clear(l.recalls)
	l.recalls = l.recalls[:0]
}

// tell answers the question of the client that a Credit action names, if it has one open. Otherwise its next reply tells it.
func (d *dispatch) tell(l *loop, a *control.Action) {
	if answer, ok := d.mu.polls.Tell(a); ok {
		d.answer(l, answer)
	}
}

// answer gives a question its answer.
func (d *dispatch) answer(l *loop, a control.Answer) {
	q := d.mu.calls[a.Token-1]
	q.credits = wireCredits(a.Credits)
	d.settle(l, q)
}

// part takes note that the connection of a client is gone. Its open question has no answer any more, and goes to removed. What it held may go
// to others.
func (d *dispatch) part(l *loop, now clock.Instant, c *conn, removed *list) {
	var token uint64
	var open bool
	if m := l.server.model; m != nil {
		token, open = m.part(d, c)
		l.again = true // somebody may have been answered
	} else if d.issuer != nil {
		token, open = d.mu.polls.Drop(c.client)
		d.issuer.Forget(now, c.client)
		d.mu.actions = d.issuer.Wake(now, d.mu.actions[:0])
		d.apply(l, now)
	}
	if open {
		removed.push(d.mu.calls[token-1])
	}
}

// maxCredits bounds the number that goes with a reply, and the demand that is believed.
const maxCredits = 1 << 30

func wireCredits(n int) int32 { return int32(min(n, maxCredits)) }

func demandOf(cmd *memproto.Command) int { return int(min(cmd.Demand, maxCredits)) }

// priorityOf returns what a request says of its priority. One that says nothing, as those of most clients, is one of the most important
// business, and of its connection as user.
func priorityOf(q *call) uint16 {
	if q.cmd.HasPriority {
		return q.cmd.Priority
	}
	return control.PriorityOf(0, uint64(q.conn.client))
}
