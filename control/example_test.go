package control_test

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control"
)

// patience is a controller of one rule: who has waited for longer than it is not worth serving any more.
type patience time.Duration

func (p patience) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtDequeue && now.Sub(r.Arrived) > time.Duration(p) {
		return control.Decision{Verdict: control.Reject, Reason: control.QueueDelay}
	}
	return control.Decision{Verdict: control.Admit}
}

func (patience) Observe(clock.Instant, control.Event) {}

func (patience) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// A Gate has no clock and no goroutine. Its driver tells it what happens and when, and does what it says: here there is one slot, and service takes 4 ms.
func ExampleGate() {
	const ms = clock.Instant(time.Millisecond)
	gate := control.NewGate(patience(5*time.Millisecond), control.GateConfig{Slots: 1, Queue: 2})
	var actions []control.Action
	var serving control.Request
	do := func(now clock.Instant, actions []control.Action) {
		for _, a := range actions {
			switch a.Kind {
			case control.Start:
				fmt.Printf("%d ms: %d is served\n", now/ms, a.Request.ID)
				serving = a.Request
			case control.Queue:
				fmt.Printf("%d ms: %d waits\n", now/ms, a.Request.ID)
			case control.Refuse:
				fmt.Printf("%d ms: %d is refused: %v\n", now/ms, a.Request.ID, a.Reason)
			}
		}
	}
	for id := range uint64(4) { // all at once: one is served, two wait, one is too many
		actions = gate.Arrive(0, control.Request{ID: id + 1}, actions[:0])
		do(0, actions)
	}
	for now := 4 * ms; now <= 8*ms; now += 4 * ms {
		actions = gate.Finish(now, serving, 4*time.Millisecond, false, actions[:0])
		do(now, actions)
	}
	// Output:
	// 0 ms: 1 is served
	// 0 ms: 2 waits
	// 0 ms: 3 waits
	// 0 ms: 4 is refused: queue_full
	// 4 ms: 2 is served
	// 8 ms: 3 is refused: queue_delay
}
