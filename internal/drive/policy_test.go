//go:build linux

package drive

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// TestSkipLate: the other catch-up policy. After a stall of half a second, what is later than 10 ms is not sent but unsent, and the rest
// goes on as if nothing had been.
func TestSkipLate(t *testing.T) {
	t.Parallel()
	m := &model{}
	m.issue = func(n int) {
		if n == 1500 {
			m.clock.to(m.clock.Now().Add(500 * time.Millisecond))
		}
	}
	p := testPlan(t, m, arrival.KindConstant)
	p.SkipLate = 10 * time.Millisecond
	r := mustRun(t, t.Context(), p)
	all := r.Tally.All()
	if r.Skipped < 488 || r.Skipped > 491 || all.Fates[reqlog.Unsent] != r.Skipped || all.Arrivals() != 2000 {
		t.Errorf("%d skipped, %d unsent of %d", r.Skipped, all.Fates[reqlog.Unsent], all.Arrivals())
	}
	// The request during whose issue the sender stalled left late, and those of its batch; none of the others is later than the limit.
	if got := all.SendLag.Percentile(99.9); got > 10_100*time.Microsecond {
		t.Errorf("p99.9 send lag %v", got)
	}
	if !slices.Contains(r.Invalid, WarnUnsent) {
		t.Errorf("a quarter unsent, invalid for %v", r.Invalid)
	}
	if _, finite := all.Adjusted(90); finite {
		t.Error("what was never sent must count as infinitely slow")
	}
}

// TestStarvedGenerator: a generator that gets its core only now and then raises the response times, which run from the intended instants, and
// not the times from send to reply; and it is flagged. Its clock is in the test's hands, so the figures are exact.
func TestStarvedGenerator(t *testing.T) {
	t.Parallel()
	m := &model{}
	lastStall := clock.Instant(0)
	m.wait = func(now clock.Instant) { // 20 ms without a core, ten times a second
		if now.Sub(lastStall) >= 100*time.Millisecond {
			lastStall = now
			m.clock.to(now.Add(20 * time.Millisecond))
		}
	}
	r := mustRun(t, t.Context(), testPlan(t, m, arrival.KindPoisson))
	all := r.Tally.All()
	if got := all.Latency.Percentile(99); got < 15*time.Millisecond || got > 22*time.Millisecond {
		t.Errorf("p99 response time %v, a fifth of the requests waited up to 20 ms for the generator", got)
	}
	if got := all.Trip.Percentile(99); got > 1100*time.Microsecond {
		t.Errorf("p99 from send to reply %v, the server takes 1 ms", got)
	}
	if !slices.Contains(r.Invalid, WarnSendLag) {
		t.Errorf("invalid for %v", r.Invalid)
	}
}

// TestFewRequests: low rates, fewer requests than clients and short windows give finite, correct numbers.
func TestFewRequests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rate   float64
		window time.Duration
		want   int64
	}{
		{0.1, 30 * time.Second, 3}, {1, 5 * time.Second, 5}, {10, 2 * time.Second, 20}, {10, 100 * time.Millisecond, 1}, {1, 100 * time.Millisecond, 1},
		{20, 100 * time.Millisecond, 2},
	} {
		for _, outcome := range []load.Outcome{load.Answered, load.Broken, load.Shed, load.Abandoned} {
			m := &model{outcome: outcome}
			p := testPlan(t, m, arrival.KindConstant)
			process, err := arrival.New(arrival.KindConstant, tc.rate, 0)
			if err != nil {
				t.Fatal(err)
			}
			g, err := load.NewGenerator(load.Config{
				Clients: 1000, Workload: someKeys(t), Arrivals: process, End: clock.Instant(tc.window),
			})
			if err != nil {
				t.Fatal(err)
			}
			p.Generator, p.WarmUp, p.Window = g, 0, tc.window
			r := mustRun(t, t.Context(), p)
			all := r.Tally.All()
			if r.Arrivals != tc.want || all.Arrivals() != tc.want || all.Sent() != tc.want {
				t.Errorf("%v/s for %v: %d arrivals, want %d", tc.rate, tc.window, r.Arrivals, tc.want)
			}
			if outcome != load.Answered && (all.Completed() != 0 || all.Latency.Percentile(99) != 0 || all.Hits != 0) {
				t.Errorf("%v/s: %d completed without an answer", tc.rate, all.Completed())
			}
			for name, v := range map[string]float64{"in flight": r.InFlight, "cpu": r.SenderCPU, "mean": float64(all.Latency.Mean())} {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Errorf("%v/s for %v: %s is %v", tc.rate, tc.window, name, v)
				}
			}
			if d, finite := all.Adjusted(99); finite != (outcome == load.Answered) || finite && d != time.Millisecond {
				t.Errorf("%v/s: adjusted p99 %v, %v", tc.rate, d, finite)
			}
		}
	}
}

// someKeys is a small workload of reads.
func someKeys(t testing.TB) *workloads.KV {
	t.Helper()
	kv, err := workloads.NewKV([]workloads.KVClass{{Name: "get", Share: 1, Keys: 10, ValueSize: dist.Constant{Value: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// TestWriteBack: misses are followed by writes, which have a class of their own and add up with the rest.
func TestWriteBack(t *testing.T) {
	t.Parallel()
	classes, err := workloads.Preset("cache-aside")
	if err != nil {
		t.Fatal(err)
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{} // whose reads all miss
	p := testPlan(t, m, arrival.KindConstant)
	g, err := load.NewGenerator(load.Config{
		Clients: 3, Workload: kv, Arrivals: arrival.NewConstant(testRate, 0), End: clock.Instant(testWarmUp + testWindow),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Generator, p.Classes = g, []load.Class{{Name: "get"}, {Name: "fill"}}
	r := mustRun(t, t.Context(), p)
	reads, fills := &r.Tally.Classes[0], &r.Tally.Classes[1]
	// Reads take 1 ms, so the write after the last read of the window falls behind its end, and one from before falls into it.
	if reads.Completed() != 2000 || fills.Completed() < 1999 || fills.Completed() > 2001 || r.Arrivals != reads.Arrivals()+fills.Arrivals() {
		t.Errorf("%d reads, %d writes, %d arrivals", reads.Completed(), fills.Completed(), r.Arrivals)
	}
	if fills.SendLag.Max() != 0 || fills.Latency.Max() != time.Millisecond {
		t.Errorf("writes: send lag up to %v, latency up to %v", fills.SendLag.Max(), fills.Latency.Max())
	}
	if n := r.Totals.Keys; n[workloads.Get][reqlog.OK] != 3000 || n[workloads.Set][reqlog.OK] != 2999 || r.Sequence.Requests != 3000 {
		t.Errorf("totals %v, sequence of %d", n, r.Sequence.Requests)
	}
}

// TestClosedLoopHidesAStall: the same server that stands still for half a second, asked in a closed loop. Each of three clients meets the
// stall once; the hundreds of requests that an open loop would have sent meanwhile are never made. The result says what it is.
func TestClosedLoopHidesAStall(t *testing.T) {
	t.Parallel()
	m := &model{}
	p := testPlan(t, m, arrival.KindConstant)
	closed := func() Source {
		g, err := load.NewClosed(load.ClosedConfig{
			Seed: 1, Clients: 3, Workload: someKeys(t), Think: dist.Constant{Value: 2e6}, End: clock.Instant(testWarmUp + testWindow),
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	p.Generator = closed()
	stop := m.clock.Now().Add(startDelay + testWarmUp + 500*time.Millisecond)
	resume := stop.Add(500 * time.Millisecond)
	m.finish = func(sent clock.Instant) clock.Instant {
		if done := sent.Add(m.service); done <= stop || sent >= resume {
			return done
		}
		return resume.Add(m.service)
	}
	r := mustRun(t, t.Context(), p)
	all := r.Tally.All()
	if !r.Closed || !slices.Contains(r.Warnings, WarnClosedLoop) || r.Sequence != (Sequence{}) {
		t.Errorf("not labelled: closed %v, warnings %v, sequence %v", r.Closed, r.Warnings, r.Sequence)
	}
	// A round takes 3 ms; 1.5 s of three clients make 1500 requests, of which three are late.
	if n := all.Arrivals(); n < 1490 || n > 1510 || all.Fates[reqlog.Late] != 3 {
		t.Errorf("%d requests, %d late", n, all.Fates[reqlog.Late])
	}
	if got := all.Latency.Percentile(99); got > 1100*time.Microsecond {
		t.Errorf("p99 %v: a closed loop should hide the stall, or this test is wrong", got)
	}

	// Cut short, its window ends where it was cut.
	m = &model{}
	p2 := testPlan(t, m, arrival.KindConstant)
	p2.Generator = closed()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := m.clock.Now().Add(startDelay)
	m.wait = func(now clock.Instant) {
		if now >= began.Add(1500*time.Millisecond) {
			cancel()
		}
	}
	if r := mustRun(t, ctx, p2); !r.CutShort || r.Tally.Window() < 499*time.Millisecond || r.Tally.Window() > 505*time.Millisecond {
		t.Errorf("cut at 500 ms of the window, which is %v", r.Tally.Window())
	}
}

// TestRecord: every request is handed over once, with its fate.
func TestRecord(t *testing.T) {
	t.Parallel()
	p := testPlan(t, &model{}, arrival.KindPoisson)
	seen := map[uint64]reqlog.Fate{}
	p.Record = func(shard int, r *reqlog.Record) {
		if _, twice := seen[r.Seq]; twice || shard != 0 || r.Fate == reqlog.Pending {
			t.Errorf("request %d: twice %v, shard %d, %v", r.Seq, twice, shard, r.Fate)
		}
		seen[r.Seq] = r.Fate
	}
	r := mustRun(t, t.Context(), p)
	if uint64(len(seen)) != r.Sequence.Requests || len(seen) < 2800 {
		t.Errorf("%d recorded of %d", len(seen), r.Sequence.Requests)
	}
}

func TestClockStep(t *testing.T) {
	t.Parallel()
	w := watch{from: 10, to: 20, calendar: func() time.Duration { return 7 * time.Hour }}
	th := &thread{}
	w.turn(10, th)
	w.calendar = func() time.Duration { return 7*time.Hour - 60*time.Millisecond }
	w.turn(20, th)
	if w.step() != -60*time.Millisecond {
		t.Errorf("step %v", w.step())
	}
	for step, want := range map[time.Duration]bool{0: false, 40 * time.Millisecond: false, w.step(): true} {
		r := Result{Tally: load.NewTally([]load.Class{{Name: "a"}}, 0, 1000), ClockStep: step}
		r.judgeSender(PaceSleep, false, time.Second)
		if slices.Contains(r.Warnings, WarnClockStep) != want {
			t.Errorf("a step of %v: warnings %v", step, r.Warnings)
		}
	}
	var real watch
	if real.lead() == 0 {
		t.Error("the calendar has no lead over the time since the start of this computer")
	}
}

// TestMeeting: all senders agree, unless one has gone.
func TestMeeting(t *testing.T) {
	t.Parallel()
	for _, leaver := range []bool{false, true} {
		m := meeting{size: 3}
		type answer struct {
			v  clock.Instant
			ok bool
		}
		answers := make(chan answer)
		for i := range 3 {
			go func() {
				if leaver && i == 0 {
					m.leave()
					answers <- answer{30, false}
					return
				}
				v, ok := m.meet(clock.Instant(10*i+10), runtime.Gosched)
				answers <- answer{v, ok}
			}()
		}
		for range 3 {
			if a := <-answers; a != (answer{30, !leaver}) {
				t.Errorf("leaver %v: %+v", leaver, a)
			}
		}
	}
}

// TestOneSenderCannotConnect: the others close what they have opened.
func TestOneSenderCannotConnect(t *testing.T) {
	t.Parallel()
	var closed atomic.Int32
	p := testPlan(t, &model{}, arrival.KindConstant)
	for range 2 {
		p.More = append(p.More, p.Generator)
	}
	p.Open = func(_ context.Context, o Opening) (load.Target, error) {
		if o.Shard == 1 {
			return nil, errors.New("no more connections")
		}
		return &closing{closed: &closed}, nil
	}
	if _, err := Run(t.Context(), p); err == nil || closed.Load() != 2 {
		t.Errorf("%v; %d of 2 targets closed", err, closed.Load())
	}
}

// closing counts that it was closed.
type closing struct {
	load.Target
	closed *atomic.Int32
}

func (c *closing) Close() error {
	c.closed.Add(1)
	return nil
}

// full is a model some of whose connections have their bound of requests under way.
type full struct {
	*model
	at       func(n int) bool // whether that is so when the n-th request comes
	seen     int
	counters load.Counters
}

func (f *full) Issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, client uint32) {
	n := f.seen
	f.seen++
	if f.at(n) {
		f.counters.WindowFull++
		f.answer(rec, load.Reply{At: now, Outcome: load.NotSent})
		return
	}
	f.model.Issue(now, rec, op, client)
}

func (f *full) Counters() load.Counters { return f.counters }

// TestWindowFullIsOfTheWindow: what found its connection full in the warm-up is no matter of the window, whose count has it not; nor has it what the
// sender itself left out.
func TestWindowFullIsOfTheWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at      func(n int) bool // a thousand are due in the warm-up
		want    int64
		whole   int64
		warning bool
	}{
		"warm-up only": {func(n int) bool { return n >= 500 && n < 530 }, 0, 30, false},
		"both":         {func(n int) bool { return n >= 990 && n < 1007 }, 7, 17, true},
	} {
		f := &full{model: &model{}, at: tt.at}
		stalled := false
		f.wait = func(now clock.Instant) { // in the window, behind what was full
			if !stalled && now >= clock.Instant(5*time.Second) {
				stalled = true
				f.clock.to(now.Add(100 * time.Millisecond))
			}
		}
		p := testPlan(t, f.model, arrival.KindConstant)
		p.SkipLate = 50 * time.Millisecond
		p.Open = func(_ context.Context, o Opening) (load.Target, error) {
			f.settle = o.Settle
			return f, nil
		}
		r := mustRun(t, t.Context(), p)
		if r.WindowFull != tt.want || r.Counters.WindowFull != tt.whole || slices.Contains(r.Warnings, WarnWindowFull) != tt.warning {
			t.Errorf("%s: %d in the window, %d in all, warnings %v; want %d, %d", name, r.WindowFull, r.Counters.WindowFull, r.Warnings, tt.want, tt.whole)
		}
		all := r.Tally.All()
		if r.Skipped == 0 || all.Fates[reqlog.Unsent] != tt.want+r.Skipped {
			t.Errorf("%s: %d skipped, %d unsent", name, r.Skipped, all.Fates[reqlog.Unsent])
		}
	}
}
