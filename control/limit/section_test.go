package limit_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
)

// TestSectionAgainstAList: whatever comes in what order, a section lets in who a plain list of waiters would let in, and keeps their waits.
func TestSectionAgainstAList(t *testing.T) {
	t.Parallel()
	type waiter struct {
		id    uint64
		since clock.Instant
	}
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 3).Draw(t, "places")
		s := limit.NewSection(places, control.Memory)
		var inside []uint64
		var queue []waiter
		now, next := clock.Instant(0), uint64(1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += clock.Instant(rapid.IntRange(0, 5).Draw(t, "passed"))
			switch {
			case rapid.IntRange(0, 2).Draw(t, "what") == 0 && len(inside) > 0:
				out := s.Leave(now, &control.Request{ID: inside[0]}, nil)
				inside = inside[1:]
				if len(queue) == 0 {
					if len(out) > 0 {
						t.Fatalf("%+v, and nobody waits", out)
					}
					continue
				}
				w := queue[0]
				queue, inside = queue[1:], append(inside, w.id)
				if len(out) != 1 || out[0].Kind != control.Resume || out[0].Request.ID != w.id || out[0].Request.Waited != now.Sub(w.since)+7 || out[0].Request.Arrived != 3 {
					t.Fatalf("%+v, want request %d after %v", out, w.id, now.Sub(w.since))
				}
			case rapid.Bool().Draw(t, "withdraw") && len(queue) > 0:
				i := rapid.IntRange(0, len(queue)-1).Draw(t, "who")
				if removed, out := s.Withdraw(now, queue[i].id, nil); !removed || len(out) > 0 {
					t.Fatalf("request %d: removed %v, %+v", queue[i].id, removed, out)
				}
				if removed, _ := s.Withdraw(now, queue[i].id, nil); removed {
					t.Fatal("removed twice")
				}
				queue = append(queue[:i:i], queue[i+1:]...)
			default:
				mode := rapid.SampledFrom([]control.Mode{control.Try, control.WaitMode, control.WaitWithinBudget}).Draw(t, "mode")
				r := control.Request{ID: next, Arrived: 3, Waited: 7, Budget: 8}
				if rapid.Bool().Draw(t, "spent") {
					r.Budget = 7
				}
				next++
				want := control.Decision{Verdict: control.Wait}
				switch {
				case len(inside) < places:
					want.Verdict = control.Admit
					inside = append(inside, r.ID)
				case mode == control.Try, mode == control.WaitWithinBudget && r.Budget == 7:
					want = control.Decision{Verdict: control.Reject, Reason: control.Memory}
				default:
					queue = append(queue, waiter{id: r.ID, since: now})
				}
				if got := s.Enter(now, &r, mode); got != want {
					t.Fatalf("%+v, want %+v with %d inside of %d", got, want, len(inside), places)
				}
			}
			meters := maps.Collect(s.Meters())
			if meters["inside"] != float64(len(inside)) || meters["waiting"] != float64(len(queue)) || meters["places"] != float64(places) {
				t.Fatalf("%v, want %d inside and %d waiting", meters, len(inside), len(queue))
			}
		}
	})
}
