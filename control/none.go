package control

import "spillway/clock"

// None controls nothing: every request is admitted and waits for its slot, however long that takes. It is what the other controllers
// are compared with.
type None struct{}

var _ Controller = None{}

// Decide admits.
func (None) Decide(clock.Instant, Stage, *Request) Decision { return Decision{} }

// Observe does nothing.
func (None) Observe(clock.Instant, Event) {}

// Tick asks for no further tick.
func (None) Tick(clock.Instant, Signals) clock.Instant { return clock.Never }
