package allocator

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
)

// TestBudgetHolds: whatever is lost, delayed beyond the patience of whoever waits, cut off or started anew, what is in force never sums to more than
// the budget.
func TestBudgetHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := testConfig(rapid.IntRange(1, 5).Draw(t, "edges"))
		c.Keep = rapid.IntRange(0, 4).Draw(t, "keep")
		c.Lease = time.Duration(rapid.IntRange(leastLease, 12).Draw(t, "lease")) * c.Cycle
		if rapid.Bool().Draw(t, "no lending") {
			c.Classes[1].Lend = 0
		}
		w := newWorld(c)
		const parts = 40 // of a cycle: what can be lost, or late, on the way
		step := c.Cycle / parts
		// Most links are quick: with each answer lost nothing is ever shared.
		way := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 3), rapid.IntRange(-1, 2*parts))
		w.delays = func(int) (ask, reply time.Duration) {
			return time.Duration(way.Draw(t, "ask")) * step, time.Duration(way.Draw(t, "reply")) * step
		}
		w.check = func(now clock.Instant) {
			if sum := w.inForce(now); sum > c.Budget*(1+1e-9) {
				t.Fatalf("after %v, %g requests per second are in force, the budget is %g", now, sum, c.Budget)
			}
		}
		for n := range 30 {
			now := clock.Instant(int64(n) * int64(c.Cycle))
			switch rapid.IntRange(0, 30).Draw(t, "fortune") {
			case 0:
				w.restart(now)
			case 1:
				w.alive = !w.alive
			case 2, 3:
				p := rapid.SampledFrom(w.places).Draw(t, "edge")
				p.reach = !p.reach
			}
			for _, p := range w.places {
				for k := range p.demand {
					if rapid.IntRange(0, 2).Draw(t, "change") == 0 { // what is settled can be disturbed
						p.demand[k] = rapid.SampledFrom([]float64{0, 10, 100, 300, 900, 2000}).Draw(t, "demand")
					}
				}
			}
			for part := range parts {
				at := now.Add(time.Duration(part) * step)
				w.advance(at)
				w.check(at) // leases end without anything happening
			}
		}
	})
}
