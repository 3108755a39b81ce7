package credit

import (
	"iter"

	"spillway/clock"
	"spillway/control"
)

// Wallet is a client's half: it knows how many credits the client holds, and lets as many requests be under way. It implements
// control.Throttle. The zero Wallet is that of a client that has not met its server yet.
//
// What the server says is always the whole of what the client holds, never a difference, so one reply that arrives makes up for any that were
// lost. A client and its server meet by a question: no request leaves before the answer, as in the published systems. A server that says
// nothing of credits in it, such as memcached itself, hands out none, and nothing is held back.
//
// A client that holds nothing and has nothing under way would hear of its next credit by no reply. So it asks, and the server holds the answer
// until there is one (docs/adr/0015). It asks once without demand, and once more when it has something to send: the server looks after
// those first.
type Wallet struct {
	credits   int  // what the server said last
	used      int  // requests under way
	met       bool // the server has said something since the connection stands
	unlimited bool // and it was nothing of credits
	questions int  // open ones
	wanted    bool // the newest of them said that something waits
}

var (
	_ control.Throttle = (*Wallet)(nil)
	_ control.Meter    = (*Wallet)(nil)
)

// Credits returns how many requests may be under way, as far as the client knows.
func (w *Wallet) Credits() int { return w.credits }

// Used returns how many requests are under way.
func (w *Wallet) Used() int { return w.used }

// Permit lets a request go for a credit, and has it wait for one.
func (w *Wallet) Permit(clock.Instant, *control.Outgoing) control.Verdict {
	if !w.unlimited && w.used >= w.credits {
		return control.Wait
	}
	w.used++
	return control.Admit
}

// Hear takes over what the server said.
func (w *Wallet) Hear(_ clock.Instant, n control.Notice) {
	switch n.Kind {
	case control.Parted:
		*w = Wallet{used: w.used} // each of those under way is still to be heard of
		return
	case control.Replied, control.Lost:
		w.used = max(w.used-1, 0)
	case control.Told:
		// Once credits are handed out, the newest question is not answered before there is one. Told of none while just one is open, the
		// client has heard a late reply to a request.
		if w.questions > 1 || n.Credits > 0 || !w.met {
			w.questions = max(w.questions-1, 0)
		}
	}
	switch {
	case n.Kind == control.Lost:
	case n.Credits >= 0:
		w.credits, w.met, w.unlimited = n.Credits, true, false
	case !w.met:
		w.met, w.unlimited = true, true
	}
}

// Next returns never: only what the server says changes anything.
func (w *Wallet) Next(clock.Instant) clock.Instant { return clock.Never }

// Ask reports whether the client should ask for credits.
func (w *Wallet) Ask(_ clock.Instant, waiting int) bool {
	var ask bool
	switch {
	case w.unlimited || w.used > 0 || w.credits > 0:
		// It may send, or a reply is to come.
	case !w.met:
		ask = waiting > 0 && w.questions == 0
	default:
		ask = w.questions == 0 || waiting > 0 && !w.wanted
	}
	if ask {
		w.questions++
		w.wanted = waiting > 0
	}
	return ask
}

// Meters yields the credits that the client holds, as far as it knows, and how many requests are under way.
func (w *Wallet) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("credits", float64(w.credits)) && yield("used", float64(w.used))
	}
}
