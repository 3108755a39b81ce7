package control

import "spillway/clock"

// Polls are the questions of clients that hold no credits and wait to be told of some. They are a driver's: whatever carries replies can
// answer a question late, so a request-and-reply protocol needs nothing to push credits with (docs/adr/0015).
//
// A client has one question open at most. A newer one, with a newer demand, replaces it, and the older is answered with what there is.
type Polls struct {
	open map[uint32]uint64 // token by client
}

// Answer is the end of one question.
type Answer struct {
	Token   uint64
	Client  uint32
	Credits int
}

// Ask records that client asks for credits for n requests. token names the question to the driver. It appends those that can be
// answered now: the question itself when client may send something, and an older one that it replaces.
func (p *Polls) Ask(now clock.Instant, from Issuer, client uint32, n int, token uint64, out []Answer) []Answer {
	from.Demand(now, client, n)
	credits := from.Credits(now, client)
	older, open := p.open[client]
	if open {
		out = append(out, Answer{Token: older, Client: client, Credits: credits})
		delete(p.open, client)
	}
	if credits > 0 {
		return append(out, Answer{Token: token, Client: client, Credits: credits})
	}
	if p.open == nil {
		p.open = make(map[uint32]uint64)
	}
	p.open[client] = token
	return out
}

// Tell returns the answer to the question of the client that a Credit action names; ok is false when it has none open. The credits are
// not lost then: the client has a question or a request under way, whose reply will carry them.
func (p *Polls) Tell(a *Action) (answer Answer, ok bool) {
	client := a.Request.Client
	token, ok := p.open[client]
	if !ok {
		return Answer{}, false
	}
	delete(p.open, client)
	return Answer{Token: token, Client: client, Credits: int(a.Credits)}, true
}

// Drop forgets the question of a client that has gone.
func (p *Polls) Drop(client uint32) (token uint64, ok bool) {
	token, ok = p.open[client]
	delete(p.open, client)
	return token, ok
}
