package control_test

import (
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
)

// issuer is a controller that hands out credits and has a meter.
type issuer struct{ control.None }

func (issuer) Demand(clock.Instant, uint32, int)                           {}
func (issuer) Credits(clock.Instant, uint32) int                           { return 42 }
func (issuer) Forget(clock.Instant, uint32)                                {}
func (issuer) Wake(_ clock.Instant, out []control.Action) []control.Action { return out }
func (issuer) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { _ = yield("credits", 42) && yield("more", 1) }
}

func TestChainStopsAtTheFirstReject(t *testing.T) {
	t.Parallel()
	reject := control.Decision{Verdict: control.Reject, Reason: control.Priority}
	wait := control.Decision{Verdict: control.Wait, Tag: 3}
	for _, c := range []struct {
		name  string
		stage control.Stage
		given [3]control.Decision
		want  control.Decision
		asked [3]int
	}{
		{"all admit", control.AtArrival, [3]control.Decision{}, control.Decision{}, [3]int{1, 1, 1}},
		{"reject", control.AtArrival, [3]control.Decision{{}, reject, {}}, reject, [3]int{1, 1, 0}},
		{"wait at arrival", control.AtArrival, [3]control.Decision{wait, {}, {}}, wait, [3]int{1, 1, 1}},
		{"wait, then reject", control.AtArrival, [3]control.Decision{{Verdict: control.Wait}, {}, reject}, reject, [3]int{1, 1, 1}},
		{"wait at dequeue", control.AtDequeue, [3]control.Decision{{}, wait, reject}, wait, [3]int{1, 1, 0}},
		{"leftmost tag", control.AtArrival, [3]control.Decision{{}, {Tag: 8}, {Tag: 9}}, control.Decision{Tag: 8}, [3]int{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := [3]*scripted{}
			for i, d := range c.given {
				members[i] = &scripted{arrival: d, dequeue: d}
			}
			chain := control.NewChain(members[0], members[1], members[2])
			if got := chain.Decide(0, c.stage, new(control.Request)); got != c.want {
				t.Errorf("decision %+v, want %+v", got, c.want)
			}
			for i, m := range members {
				if len(m.seen) != c.asked[i] {
					t.Errorf("member %d was asked %d times, want %d", i, len(m.seen), c.asked[i])
				}
			}
		})
	}
}

func TestChainTicksAll(t *testing.T) {
	t.Parallel()
	a, b := &scripted{next: 30}, &scripted{next: 20}
	next := control.NewChain(a, control.None{}, b).Tick(10, control.Signals{QueueDelay: 5})
	if next != 20 || a.signals.QueueDelay != 5 || b.signals.QueueDelay != 5 {
		t.Errorf("next %v, signals %v and %v", next, a.signals, b.signals)
	}
}

func TestChainPassesCreditsAndMeters(t *testing.T) {
	t.Parallel()
	if _, ok := control.NewChain(control.None{}).(control.Issuer); ok {
		t.Error("a chain without an issuer claims to be one")
	}
	chain := control.NewChain(control.None{}, issuer{}, &scripted{})
	if i, ok := chain.(control.Issuer); !ok || i.Credits(0, 1) != 42 {
		t.Error("the credits of the member do not come through")
	}
	got := map[string]float64{}
	for name, value := range chain.(control.Meter).Meters() {
		got[name] = value
	}
	if diff := cmp.Diff(map[string]float64{"credits": 42, "more": 1}, got); diff != "" {
		t.Error(diff)
	}
	for range chain.(control.Meter).Meters() {
		break // must not panic
	}
}
