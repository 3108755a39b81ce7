package capacity_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/capacity"
)

// Whatever grants come and go, in no span of time does more pass than the largest rates in force allow, plus one bucket.
func TestLimiterBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const rate = 1000.0
		c := capacity.LimiterConfig{Baseline: "1000", Cycle: 10 * time.Millisecond, Burst: rapid.SampledFrom([]float64{0.1, 1, 2}).Draw(t, "burst")}
		l := capacity.NewLimiter(c)
		gate := control.NewGate(l, control.GateConfig{})
		now, passed := clock.Instant(0), []clock.Instant{}
		for id := range uint64(200) {
			now += clock.Instant(rapid.IntRange(0, 2_000_000).Draw(t, "pause"))
			if rapid.IntRange(0, 9).Draw(t, "grant") == 0 {
				granted := rapid.Float64Range(0, rate).Draw(t, "rate")
				if err := l.Grant(now, []float64{granted}, now+clock.Instant(rapid.IntRange(0, 20_000_000).Draw(t, "lease"))); err != nil {
					t.Fatal(err)
				}
			}
			for _, a := range gate.Arrive(now, control.Request{ID: id}, nil) {
				switch {
				case a.Kind == control.Start:
					passed = append(passed, now)
					gate.Finish(now, a.Request, 0, false, nil)
				case a.Reason != control.Budget:
					t.Fatalf("refused for %v", a.Reason)
				}
			}
		}
		depth := max(1, rate*c.Burst*c.Cycle.Seconds())
		for i := range passed {
			for j := i; j < len(passed); j++ {
				if n, most := float64(j-i+1), rate*passed[j].Sub(passed[i]).Seconds()+depth; n > most+1e-6 {
					t.Fatalf("%g requests in %v, at most %g may pass", n, passed[j].Sub(passed[i]), most)
				}
			}
		}
	})
}

func TestLimiterFallsBackWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	l := capacity.NewLimiter(capacity.LimiterConfig{Baseline: "10, 20", Cycle: time.Second, Burst: 1})
	rates := func() (list []float64) {
		for name, v := range l.Meters() {
			if name != "leased" {
				list = append(list, v)
			}
		}
		return list
	}
	if err := l.Grant(0, []float64{100, 0}, clock.Instant(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	if next := l.Tick(0, control.Signals{}); next != clock.Instant(3*time.Second) {
		t.Errorf("next tick at %v, want the end of the lease", next)
	}
	if got := rates(); got[0] != 100 || got[1] != 0 {
		t.Errorf("in force: %v", got)
	}
	if d := l.Decide(1, control.AtArrival, &control.Request{Class: 1}); d.Verdict != control.Reject || d.Reason != control.Budget {
		t.Errorf("a class without a grant: %+v", d)
	}
	// A request after the end is judged by the baseline, also before the tick.
	end := clock.Instant(3 * time.Second)
	l.Decide(end, control.AtArrival, &control.Request{})
	if got := rates(); got[0] != 10 || got[1] != 20 {
		t.Errorf("after the lease: %v", got)
	}
	if next := l.Tick(end, control.Signals{}); next != clock.Never {
		t.Errorf("next tick at %v", next)
	}
	for _, wrong := range [][]float64{{1}, {1, -1}, {1, math.NaN()}} {
		if l.Grant(end, wrong, clock.Never) == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

func TestLimiterCountsDemand(t *testing.T) {
	t.Parallel()
	l := capacity.NewLimiter(capacity.LimiterConfig{Baseline: "1,1", Cycle: time.Second, Burst: 1})
	for range 50 {
		l.Decide(0, control.AtArrival, &control.Request{Class: 1})
	}
	for range 10 {
		l.Decide(0, control.AtArrival, &control.Request{Class: 7}) // counts as the last class
	}
	got := make([]float64, 2)
	l.Demand(clock.Instant(2*time.Second), got)
	if got[0] != 0 || got[1] != 30 {
		t.Errorf("demand %v, want 0 and 30 a second", got)
	}
	l.Demand(clock.Instant(3*time.Second), got)
	if got[1] != 0 {
		t.Errorf("demand %v after it was told", got)
	}
}

func TestLimiterTakesTokensBack(t *testing.T) {
	t.Parallel()
	l := capacity.NewLimiter(capacity.LimiterConfig{Baseline: "1", Cycle: time.Second, Burst: 1})
	r := control.Request{ID: 1}
	if d := l.Decide(0, control.AtArrival, &r); d.Verdict != control.Admit {
		t.Fatalf("%+v", d)
	}
	l.Observe(0, control.Event{Kind: control.Refused, Stage: control.AtArrival, Reason: control.QueueFull, Request: r})
	if d := l.Decide(0, control.AtArrival, &r); d.Verdict != control.Admit {
		t.Error("the token of a request that another refused is lost")
	}
	if d := l.Decide(0, control.AtArrival, &r); d.Verdict != control.Reject {
		t.Error("a token too many")
	}
	l.Observe(0, control.Event{Kind: control.Refused, Stage: control.AtArrival, Reason: control.Budget, Request: r})
	if d := l.Decide(0, control.AtArrival, &r); d.Verdict != control.Reject {
		t.Error("a request that was refused for want of a token gave one back")
	}
}

func TestLimiterConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []capacity.LimiterConfig{
		{Baseline: "1"}, {Baseline: "1", Cycle: 1}, {Baseline: "", Cycle: 1, Burst: 1}, {Baseline: "1,x", Cycle: 1, Burst: 1}, {Baseline: "-1", Cycle: 1, Burst: 1},
	} {
		if c.Check() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	p := capacity.Policy{Grid: capacity.Grid{Classes: 1, Locations: 3}, Baseline: []float64{100, 100, 100}}
	l, err := capacity.NewLedger(capacity.LedgerConfig{Policy: p, Keep: 2, Absorb: 4})
	if err != nil {
		t.Fatal(err)
	}
	grants := make([]float64, 3)
	cycle := func(report ...int) []float64 {
		for _, location := range report {
			if err := l.Report(location, []float64{200}); err != nil {
				t.Fatal(err)
			}
		}
		l.Cycle(grants)
		return grants
	}
	same := func(what string, got []float64, want ...float64) {
		t.Helper()
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", what, got, want)
				return
			}
		}
	}
	// Who has never been heard of is on its baseline.
	same("two report", cycle(0, 1), 100, 100, 100)
	if err := l.Report(2, []float64{20}); err != nil {
		t.Fatal(err)
	}
	same("all report", cycle(0, 1), 140, 140, 20)
	same("silent 1", cycle(0, 1), 140, 140, 20)
	same("silent 2", cycle(0, 1), 140, 140, 20)
	same("kept long enough", cycle(0, 1), 100, 100, 100)
	same("not gone yet", cycle(0, 1), 100, 100, 100)
	same("gone", cycle(0, 1), 150, 150, 0)
	if !l.Gone(2) || l.Gone(0) {
		t.Error("who is gone?")
	}
	if err := l.Report(2, []float64{200}); err != nil {
		t.Fatal(err)
	}
	same("back", cycle(0, 1), 100, 100, 100)
	for _, wrong := range []error{l.Report(3, []float64{1}), l.Report(0, []float64{1, 2}), l.Report(0, []float64{-1})} {
		if wrong == nil {
			t.Error("a wrong report is accepted")
		}
	}
	if _, err := capacity.NewLedger(capacity.LedgerConfig{Policy: p, Keep: 3, Absorb: 3}); err == nil {
		t.Error("a location counts as gone while its demand is kept")
	}
}

func TestLimiterDoesNotAllocate(t *testing.T) {
	l := capacity.NewLimiter(capacity.LimiterConfig{Baseline: "1000,1000", Cycle: time.Second, Burst: 1})
	rates, now := []float64{10, 10}, clock.Instant(0)
	if allocs := testing.AllocsPerRun(100, func() {
		now += 1000
		_ = l.Grant(now, rates, now+10)
		l.Decide(now, control.AtArrival, &control.Request{Class: 1})
		l.Demand(now, rates)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := capacity.NewLimiter(capacity.LimiterConfig{Baseline: "1e6,1e6", Cycle: time.Second, Burst: 1})
	r, now := control.Request{Class: 1}, clock.Instant(0)
	for b.Loop() {
		now += 500
		l.Decide(now, control.AtArrival, &r)
	}
}
