//go:build linux

package drive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// These tests run the driver under virtual time: the target below moves the clock, so that every figure is exact and no test waits.

// virtual is a clock that its target moves. It is atomic because the progress goroutine reads it.
type virtual struct{ now atomic.Int64 }

func (v *virtual) Now() clock.Instant  { return clock.Instant(v.now.Load()) }
func (v *virtual) to(at clock.Instant) { v.now.Store(max(v.now.Load(), int64(at))) }

// model is a server with a fixed service time and any number of slots, together with the client in front of it.
type model struct {
	clock   *virtual
	settle  func(*reqlog.Record)
	pending []reqlog.Record
	fresh   int // of them, not flushed yet

	service time.Duration
	finish  func(sent clock.Instant) clock.Instant // when a request is answered; nil for sent plus service
	issue   func(n int)                            // called before the n-th request is issued, to spend time
	wait    func(now clock.Instant)                // called at each Wait
	outcome load.Outcome                           // of every request
	lose    int                                    // requests to forget, as a broken target might
	issued  int
	closed  bool
	err     error // of Close
}

func (m *model) Issue(_ clock.Instant, rec *reqlog.Record, _ *workloads.Op, _ uint32) {
	if m.issue != nil {
		m.issue(m.issued)
	}
	m.issued++
	if m.issued <= m.lose {
		return
	}
	m.pending = append(m.pending, *rec)
	m.fresh++
}

func (m *model) Flush(clock.Instant) {
	now := m.clock.Now()
	for i := len(m.pending) - m.fresh; i < len(m.pending); i++ {
		r := &m.pending[i]
		r.Sent = now
		r.Done = now.Add(m.service)
		if m.finish != nil {
			r.Done = m.finish(now)
		}
	}
	m.fresh = 0
}

func (m *model) Wait(until clock.Instant) {
	if m.wait != nil {
		m.wait(m.clock.Now())
	}
	next := until
	for i := range m.pending {
		next = min(next, m.pending[i].Done)
	}
	m.clock.to(next)
	now := m.clock.Now()
	kept := 0
	for i := range m.pending {
		r := &m.pending[i]
		if r.Done > now {
			m.pending[kept] = *r
			kept++
			continue
		}
		m.answer(r, load.Reply{At: r.Done, Outcome: m.outcome, Reason: control.QueueFull})
	}
	m.pending = m.pending[:kept]
}

func (m *model) answer(r *reqlog.Record, reply load.Reply) {
	reply.Queued, reply.Service = -1, -1
	load.Judge(r, reply, 10*time.Millisecond)
	m.settle(r)
}

func (m *model) Close() error {
	for i := range m.pending {
		m.answer(&m.pending[i], load.Reply{At: m.clock.Now(), Outcome: load.Abandoned})
	}
	m.closed = true
	return m.err
}

const (
	testRate   = 1000
	testWarmUp = time.Second
	testWindow = 2 * time.Second
)

// testPlan returns a plan of constant arrivals, a thousand a second, against m.
func testPlan(t testing.TB, m *model, kind string) Plan {
	t.Helper()
	m.clock = &virtual{}
	m.clock.to(clock.Instant(3 * time.Second)) // the run does not begin at 0
	if m.service == 0 {
		m.service = time.Millisecond
	}
	kv, err := workloads.NewKV([]workloads.KVClass{{Name: "get", Share: 1, Keys: 10, ValueSize: dist.Constant{Value: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := arrival.New(kind, testRate, 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{Seed: 1, Clients: 3, Workload: kv, Arrivals: p, End: clock.Instant(testWarmUp + testWindow)})
	if err != nil {
		t.Fatal(err)
	}
	return Plan{
		Generator: g, Classes: []load.Class{{Name: "get", SLO: 10 * time.Millisecond}}, Clock: m.clock,
		Open: func(_ context.Context, o Opening) (load.Target, error) {
			m.settle = o.Settle
			return m, nil
		},
		Dial: time.Second, WarmUp: testWarmUp, Window: testWindow, Drain: time.Second, Pace: PaceSleep,
	}
}

func mustRun(t testing.TB, ctx context.Context, p Plan) Result {
	t.Helper()
	r, err := Run(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.Invalid, WarnAccounting) {
		if err := r.Tally.Check(r.Arrivals); err != nil {
			t.Error(err)
		}
	}
	return r
}

// machineNoise are the warnings that tell of the machine the tests run on.
var machineNoise = []string{WarnSenderCPU, WarnPreempted, WarnGCPause, WarnRealTime}

func wantWarnings(t *testing.T, r Result, warnings, invalid []string) {
	t.Helper()
	got := slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool { return slices.Contains(machineNoise, w) })
	if diff := cmp.Diff(warnings, got, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
		t.Errorf("warnings: %s", diff)
	}
	if strings.Join(invalid, " ") != strings.Join(r.Invalid, " ") || r.Valid() != (len(invalid) == 0) {
		t.Errorf("invalid for %v, want %v", r.Invalid, invalid)
	}
}

func TestSteadyLoad(t *testing.T) {
	t.Parallel()
	m := &model{}
	r := mustRun(t, t.Context(), testPlan(t, m, arrival.KindConstant))
	wantWarnings(t, r, nil, nil)
	all := r.Tally.All()
	if r.Arrivals != 2000 || all.Fates[reqlog.OK] != 2000 || m.issued != 3000 {
		t.Errorf("%d arrivals in the window, %d ok, %d issued", r.Arrivals, all.Fates[reqlog.OK], m.issued)
	}
	if all.Latency.Max() != time.Millisecond || all.Latency.Mean() != time.Millisecond || all.SendLag.Max() != 0 {
		t.Errorf("latency up to %v, send lag up to %v", all.Latency.Max(), all.SendLag.Max())
	}
	// Little's law: a thousand a second, a millisecond each.
	if math.Abs(r.InFlight-1) > 0.01 || math.Abs(r.Tally.Busy.Seconds()/2-1) > 0.01 || r.MaxInFlight != 1 && r.MaxInFlight != 2 {
		t.Errorf("%v in flight counted, %v by the stamps, %d at most", r.InFlight, r.Tally.Busy.Seconds()/2, r.MaxInFlight)
	}
	if r.Tally.From != r.Start.Add(testWarmUp) || r.Tally.Window() != testWindow || r.CutShort || r.Undrained != 0 || !m.closed {
		t.Errorf("window from %v to %v of a run that began at %v; %+v", r.Tally.From, r.Tally.To, r.Start, r)
	}
	for i, b := range all.Buckets {
		if b.OK != 100 {
			t.Errorf("bucket %d has %d requests", i, b.OK)
		}
	}
}

func TestPoissonLoad(t *testing.T) {
	t.Parallel()
	r := mustRun(t, t.Context(), testPlan(t, &model{}, arrival.KindPoisson))
	wantWarnings(t, r, nil, nil)
	if n := float64(r.Arrivals); math.Abs(n-2000) > 4*math.Sqrt(2000) {
		t.Errorf("%v arrivals", n)
	}
}

// TestServerStopped: a server that stands still for half a second of a window of two, at a thousand a second, delays 500 of 2000
// requests, each until it goes on. Their latencies are 1 … 500 ms, and so the percentiles are known. A client that measured from the
// send, or paused with the server, would see one slow request.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	m := &model{}
	p := testPlan(t, m, arrival.KindConstant)
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
	// Due at stop+k ms, answered at stop+501 ms: 501−k ms for k = 0 … 499.
	for _, tc := range []struct {
		p    float64
		want time.Duration
	}{{50, 1}, {75, 1}, {76, 21}, {90, 301}, {99, 481}, {99.9, 499}, {100, 501}} {
		want := tc.want * time.Millisecond
		if got := all.Latency.Percentile(tc.p); math.Abs(float64(got-want)) > float64(want)/1000 {
			t.Errorf("p%v is %v, want %v", tc.p, got, want)
		}
	}
	if late := all.Fates[reqlog.Late]; late != 491 { // those of 11 … 501 ms
		t.Errorf("%d late, want 491", late)
	}
	if r.MaxInFlight != 501 || len(r.Invalid) != 0 {
		t.Errorf("%d in flight at most, invalid for %v: the server's trouble is not the generator's", r.MaxInFlight, r.Invalid)
	}
}

// TestGeneratorStalled: the same half second, but it is the generator that stands still. Everything overdue leaves at once and
// latency still runs from the intended instant; send lag shows whose fault it was.
func TestGeneratorStalled(t *testing.T) {
	t.Parallel()
	m := &model{}
	m.issue = func(n int) {
		if n == 1500 {
			m.clock.to(m.clock.Now().Add(500 * time.Millisecond))
		}
	}
	r := mustRun(t, t.Context(), testPlan(t, m, arrival.KindConstant))
	wantWarnings(t, r, []string{WarnSendLag}, []string{WarnSendLag})
	all := r.Tally.All()
	if all.Arrivals() != 2000 || all.Sent() != 2000 {
		t.Errorf("%d arrivals, %d sent", all.Arrivals(), all.Sent())
	}
	if lag, latency := all.SendLag.Max(), all.Latency.Max(); lag != 500*time.Millisecond || latency != 501*time.Millisecond {
		t.Errorf("send lag up to %v, latency up to %v", lag, latency)
	}
	if got := all.SendLag.Percentile(99); math.Abs(got.Seconds()-0.480) > 0.001 {
		t.Errorf("p99 send lag %v, want 480 ms", got)
	}
}

// TestGeneratorTooSlow: what the generator could not send by the end of the drain is unsent, which is its own fault.
func TestGeneratorTooSlow(t *testing.T) {
	t.Parallel()
	m := &model{}
	m.issue = func(int) { m.clock.to(m.clock.Now().Add(2 * time.Millisecond)) }
	r := mustRun(t, t.Context(), testPlan(t, m, arrival.KindConstant))
	all := r.Tally.All()
	// Four seconds at two milliseconds a request make 2000 of 3000, give or take the last batch; a thousand were of the warm-up.
	if n := all.Fates[reqlog.Unsent]; n < 1000-maxBatch || n > 1000 || all.Arrivals() != 2000 {
		t.Errorf("%d unsent of %d", n, all.Arrivals())
	}
	for _, code := range []string{WarnUnsent, WarnSendLag} {
		if !slices.Contains(r.Invalid, code) {
			t.Errorf("invalid for %v, want %s among it", r.Invalid, code)
		}
	}
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	m := &model{finish: func(clock.Instant) clock.Instant { return clock.Never }}
	r := mustRun(t, t.Context(), testPlan(t, m, arrival.KindConstant))
	all := r.Tally.All()
	if all.Fates[reqlog.TimedOut] != 2000 || r.Undrained != 3000 {
		t.Errorf("%d timed out, %d undrained", all.Fates[reqlog.TimedOut], r.Undrained)
	}
	wantWarnings(t, r, []string{WarnUndrained}, nil)
	if all.Latency.Count() != 0 || all.Latency.Percentile(99) != 0 {
		t.Error("latency of nothing")
	}
	if want := r.Tally.To.Add(time.Second); m.clock.Now() != want {
		t.Errorf("the run ended at %v, the drain's deadline was %v", m.clock.Now(), want)
	}
}

func TestNoDrain(t *testing.T) {
	t.Parallel()
	p := testPlan(t, &model{}, arrival.KindConstant)
	p.Drain = 0
	r := mustRun(t, t.Context(), p)
	if r.Arrivals != 2000 || r.Undrained > 1 {
		t.Errorf("%d arrivals, %d undrained", r.Arrivals, r.Undrained)
	}
}

// TestLagWithoutAnSLO: a generator that stands still is not believed even where no limit is named; one whose server stands still is.
func TestLagWithoutAnSLO(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		issue   func(m *model, n int)
		invalid []string
	}{
		"generator": {func(m *model, n int) {
			if n == 1500 {
				m.clock.to(m.clock.Now().Add(500 * time.Millisecond))
			}
		}, []string{WarnSendLag}},
		"nobody": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &model{}
			if tc.issue != nil {
				m.issue = func(n int) { tc.issue(m, n) }
			}
			p := testPlan(t, m, arrival.KindConstant)
			p.Classes[0].SLO = 0
			wantWarnings(t, mustRun(t, t.Context(), p), tc.invalid, tc.invalid)
		})
	}
}

func TestCutShort(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		at       time.Duration // since the start of the warm-up
		window   time.Duration
		arrivals int64
		warnings []string
	}{
		{"warm-up", 300 * time.Millisecond, 0, 0, []string{WarnCutShort, WarnNoArrivals}},
		{"window", 1500*time.Millisecond + 1, 502 * time.Millisecond, 502, []string{WarnCutShort}},
		{"drain", 3*time.Second + time.Millisecond, 2 * time.Second, 2000, []string{WarnCutShort, WarnUndrained}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := &model{service: 8 * time.Millisecond}
			p := testPlan(t, m, arrival.KindConstant)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := m.clock.Now().Add(startDelay)
			m.wait = func(now clock.Instant) {
				if now >= began.Add(tc.at) {
					cancel()
				}
			}
			r := mustRun(t, ctx, p)
			if !r.CutShort || r.Arrivals != tc.arrivals || r.Tally.Window() != tc.window {
				t.Errorf("cut short %v, %d arrivals in %v; want %d in %v", r.CutShort, r.Arrivals, r.Tally.Window(), tc.arrivals, tc.window)
			}
			wantWarnings(t, r, tc.warnings, []string{WarnCutShort})
			all := r.Tally.All()
			if all.Arrivals() != tc.arrivals || all.Completed()+r.Undrained < tc.arrivals {
				t.Errorf("%d arrivals, %d completed, %d undrained", all.Arrivals(), all.Completed(), r.Undrained)
			}
			if !m.closed {
				t.Error("the target was not closed")
			}
		})
	}
}

// TestCutAtALowRate: a request every ten seconds, and Ctrl-C three seconds after one of them. The window ends then, not when the next would
// have been due.
func TestCutAtALowRate(t *testing.T) {
	t.Parallel()
	m := &model{}
	p := testPlan(t, m, arrival.KindConstant)
	p.WarmUp, p.Window = 0, time.Minute
	kv, err := workloads.NewKV([]workloads.KVClass{{Name: "get", Share: 1, Keys: 10, ValueSize: dist.Constant{Value: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Generator, err = load.NewGenerator(load.Config{
		Seed: 1, Clients: 1, Workload: kv, Arrivals: arrival.NewConstant(0.1, 0), End: clock.Instant(p.Window),
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := m.clock.Now().Add(startDelay)
	m.wait = func(now clock.Instant) {
		if now >= began.Add(13*time.Second) {
			cancel()
		}
	}
	r := mustRun(t, ctx, p)
	if window := r.Tally.Window(); !r.CutShort || r.Arrivals != 2 || window < 13*time.Second || window > 14*time.Second {
		t.Errorf("cut short %v after %d arrivals, window %v; want 2 in 13 s", r.CutShort, r.Arrivals, window)
	}
}

func TestCutDrainIsBrief(t *testing.T) {
	t.Parallel()
	m := &model{finish: func(clock.Instant) clock.Instant { return clock.Never }}
	p := testPlan(t, m, arrival.KindConstant)
	p.Drain = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := m.clock.Now()
	r := mustRun(t, ctx, p)
	if took := m.clock.Now().Sub(began); took > startDelay+cutDrain {
		t.Errorf("took %v", took)
	}
	if !r.CutShort {
		t.Error("not marked")
	}
}

func TestLostRequestsAreNoticed(t *testing.T) {
	t.Parallel()
	r := mustRun(t, t.Context(), testPlan(t, &model{lose: 1100}, arrival.KindConstant))
	if !slices.Contains(r.Invalid, WarnAccounting) {
		t.Errorf("a target forgot 100 requests of the window; invalid for %v", r.Invalid)
	}
}

func TestOverloadDrifts(t *testing.T) {
	t.Parallel()
	m := &model{}
	p := testPlan(t, m, arrival.KindConstant)
	free := clock.Instant(0)
	m.finish = func(sent clock.Instant) clock.Instant { // one slot, 800 a second
		free = max(free, sent).Add(1250 * time.Microsecond)
		return free
	}
	r := mustRun(t, t.Context(), p)
	if !slices.Contains(r.Warnings, WarnDrift) || len(r.Invalid) != 0 {
		t.Errorf("a growing queue: warnings %v, invalid for %v", r.Warnings, r.Invalid)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(p *Plan){
		"longer than 0":   func(p *Plan) { p.Window = 0 },
		"not be negative": func(p *Plan) { p.WarmUp = -1 },
		"are skipped":     func(p *Plan) { p.SkipLate = -1 },
		"dial deadline":   func(p *Plan) { p.Dial = 0 },
		"pace \"fast\"":   func(p *Plan) { p.Pace = "fast" },
		"a plan needs":    func(p *Plan) { p.Generator = nil },
		"no such server": func(p *Plan) {
			p.Open = func(context.Context, Opening) (load.Target, error) { return nil, errors.New("no such server") }
		},
	} {
		p := testPlan(t, &model{}, arrival.KindConstant)
		change(&p)
		if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	m := &model{err: errors.New("close: broken")}
	if r, err := Run(t.Context(), testPlan(t, m, arrival.KindConstant)); err == nil || r.Arrivals != 2000 {
		t.Errorf("an error of Close must not cost the result: %d arrivals, %v", r.Arrivals, err)
	}
}

func TestDialHasADeadline(t *testing.T) {
	t.Parallel()
	p := testPlan(t, &model{}, arrival.KindConstant)
	p.Dial = time.Millisecond
	p.Open = func(ctx context.Context, _ Opening) (load.Target, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := Run(t.Context(), p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	m := &model{}
	p := testPlan(t, m, arrival.KindConstant)
	var last atomic.Pointer[Snapshot]
	first := make(chan struct{})
	p.Progress = func(s Snapshot) {
		if last.Swap(&s) == nil {
			close(first)
		}
	}
	open := p.Open
	p.Open = func(ctx context.Context, o Opening) (load.Target, error) {
		<-first // a dial that takes long is shown too
		return open(ctx, o)
	}
	mustRun(t, t.Context(), p)
	if s := last.Load(); s.Total != testWarmUp+testWindow || s.Fired > 3000 || s.OK > s.Fired {
		t.Errorf("%+v", *s)
	}
}

// TestNothingIsAllocatedPerRequest compares runs of different length: what does not differ belongs to the run, not to its requests.
func TestNothingIsAllocatedPerRequest(t *testing.T) {
	allocations := func(window time.Duration) uint64 {
		m := &model{pending: make([]reqlog.Record, 0, 100)}
		p := testPlan(t, m, arrival.KindConstant)
		kv, err := workloads.NewKV([]workloads.KVClass{{Name: "get", Share: 1, Keys: 10, ValueSize: dist.Constant{Value: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		g, err := load.NewGenerator(load.Config{
			Clients: 1, Workload: kv, Arrivals: arrival.NewConstant(testRate, 0), End: clock.Instant(testWarmUp + window),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Generator, p.Window = g, window
		p.Progress = func(Snapshot) {} // whoever looks on costs the sender nothing
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mustRun(t, t.Context(), p)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	short, long := allocations(time.Second), allocations(51*time.Second)
	if perRequest := (float64(long) - float64(short)) / 50_000; perRequest > 0.01 {
		t.Errorf("%v allocations a request", perRequest)
	}
}

func ExampleResult_Valid() {
	r := Result{Invalid: []string{WarnSendLag}}
	fmt.Println(r.Valid())
	// Output: false
}
