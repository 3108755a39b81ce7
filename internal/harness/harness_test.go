//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/profiles"
	"spillway/report"
	"spillway/workloads"
)

const profileText = `name: fake
server: {kind: memcached}
workload:
  kind: kv
  classes:
    - {name: a, share: 0.5, slo: 10ms, keys: 10, value: 100B}
    - {name: b, share: 0.5, slo: 20ms, keys: 10, value: 100B, op: set}
load: {rates: [100, 200]}
controllers: [{name: none}, {name: codel}, {name: fixed, as: eight, settings: {limit: 8}}]
warmup: 0s
window: 1s
repeats: 2
seed: 5
`

func profile(t *testing.T, replace ...string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("fake.yaml", []byte(strings.NewReplacer(replace...).Replace(profileText)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fake is a Runner without a server: it answers from a model, records what it was asked, and does what is asked of it at one point.
type fake struct {
	profile *profiles.Profile
	ran     []string
	probes  []float64
	closed  int
	latency func(rate float64, at time.Duration) time.Duration // of a request due at that time of the window
	at      int                                                // the run, from 1, that is special
	special func(r *Result) error
	each    func(rate float64, r *Result) // of every probe; may be nil
}

func (f *fake) Run(ctx context.Context, p Point) (Result, error) {
	f.ran = append(f.ran, p.String())
	p.observe("window")
	r := f.result(p.Rate, time.Second)
	if f.at == len(f.ran) {
		err := f.special(&r)
		return r, err
	}
	return r, nil
}

func (f *fake) Probe(ctx context.Context, p Point, warmUp, window time.Duration) (Result, error) {
	f.probes = append(f.probes, p.Rate)
	r := f.result(p.Rate, window)
	if f.each != nil {
		f.each(p.Rate, &r)
	}
	if f.at == len(f.probes) && f.special != nil {
		err := f.special(&r)
		return r, err
	}
	return r, nil
}

func (f *fake) EndSearch() {}

func (f *fake) Close() error { f.closed++; return nil }

// result is what a run at rate would measure: even arrivals, the classes by turns, latencies of the model.
func (f *fake) result(rate float64, window time.Duration) Result {
	var classes []load.Class
	for _, c := range f.profile.Workload.Classes {
		classes = append(classes, load.Class{Name: c.Name, SLO: c.SLO.Limit})
	}
	tally := load.NewTally(classes, 0, clock.Instant(window))
	r := Result{Profile: f.profile, Before: Counts{Known: true}, After: Counts{Known: true}, Began: time.Unix(0, 0)}
	n := min(int(rate*window.Seconds()), 20_000) // enough for percentiles at any rate
	for i := range n {
		at := clock.Instant(float64(i) / float64(n) * float64(window))
		class := i % len(classes)
		kind := workloads.Kind(class)
		rec := reqlog.Record{Intended: at, Sent: at, Class: uint16(class), Kind: uint8(kind), Keys: 1, Queued: -1, Service: -1}
		load.Judge(&rec, load.Reply{At: at.Add(f.latency(rate, time.Duration(at))), Hit: true, Queued: -1, Service: -1}, classes[class].SLO)
		tally.Add(&rec)
		r.Totals[kind][rec.Fate]++
		r.After.Executed[kind]++
	}
	r.Load = drive.Result{Tally: tally, Arrivals: int64(n)}
	return r
}

func quick(float64, time.Duration) time.Duration { return time.Millisecond }

func newExperiment(t *testing.T, f *fake) *experiment {
	t.Helper()
	return &experiment{
		config: Config{
			Profile: f.profile, Out: filepath.Join(t.TempDir(), "out"), Pace: "auto", Observe: func(Event) {},
		},
		runner: f, now: func() time.Time { return time.Unix(1000, 0) },
	}
}

func TestPointsRunShuffledAndStandInOrder(t *testing.T) {
	t.Parallel()
	order := func(seed string) (ran []string, rows []report.Row) {
		f := &fake{profile: profile(t, "seed: 5", "seed: "+seed), latency: quick}
		e := newExperiment(t, f)
		out, err := e.run(t.Context())
		if err != nil || out.Points != 12 || out.Invalid != 0 || out.CutShort {
			t.Fatalf("outcome %+v, %v", out, err)
		}
		run, err := report.ReadDir(out.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if run.Manifest.State != report.StateComplete || f.closed != 1 {
			t.Errorf("state %q, closed %d times", run.Manifest.State, f.closed)
		}
		return f.ran, run.Rows
	}
	ran, rows := order("5")
	again, _ := order("5")
	other, _ := order("6")
	if !slices.Equal(ran, again) {
		t.Error("the same seed gave another order")
	}
	if slices.Equal(ran, other) {
		t.Error("another seed gave the same order")
	}
	var want []string
	for _, c := range []string{"none", "codel", "eight"} {
		for _, rate := range []string{"100", "200"} {
			for repeat := 1; repeat <= 2; repeat++ {
				want = append(want, fmt.Sprintf("%s at %s, repeat %d", c, rate, repeat))
			}
		}
	}
	if slices.Equal(ran, want) {
		t.Error("the points ran in the order of the profile")
	}
	sorted := slices.Clone(ran)
	slices.Sort(sorted)
	all := slices.Clone(want)
	slices.Sort(all)
	if diff := cmp.Diff(all, sorted); diff != "" {
		t.Errorf("points (-want +ran):\n%s", diff)
	}
	var stand []string
	for i := 0; i < len(rows); i += 3 {
		stand = append(stand, fmt.Sprintf("%s at %s, repeat %d", rows[i].Controller, rows[i].Load(), rows[i].Repeat))
		if rows[i].Class != "a" || rows[i+1].Class != "b" || rows[i+2].Class != report.AllClasses {
			t.Errorf("classes of %s: %s, %s, %s", stand[len(stand)-1], rows[i].Class, rows[i+1].Class, rows[i+2].Class)
		}
		if rows[i].Seed != seedOf(5, rows[i].Repeat) {
			t.Errorf("repeat %d has the seed %d", rows[i].Repeat, rows[i].Seed)
		}
	}
	if diff := cmp.Diff(want, stand); diff != "" {
		t.Errorf("order of the rows (-want +got):\n%s", diff)
	}
}

func TestInterruptedRunKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick, at: 3}
	f.special = func(r *Result) error {
		r.Load.CutShort = true
		r.Load.Warnings, r.Load.Invalid = []string{drive.WarnCutShort}, []string{drive.WarnCutShort}
		return nil
	}
	out, err := newExperiment(t, f).run(t.Context())
	if err != nil || !out.CutShort || out.Points != 3 || out.Invalid != 1 {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	run, err := report.ReadDir(out.Dir)
	if err != nil || len(run.Rows) != 9 || run.Manifest.State != report.StateCutShort {
		t.Errorf("on disk: %d rows, state %q, %v", len(run.Rows), run.Manifest.State, err)
	}
}

func TestInterruptedBeforeAnythingWasMeasured(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{profile: profile(t), latency: quick, at: 2}
	f.special = func(r *Result) error {
		cancel()
		r.Load.Tally = nil
		return ctx.Err()
	}
	out, err := newExperiment(t, f).run(ctx)
	if err != nil || !out.CutShort || out.Points != 1 {
		t.Errorf("outcome %+v, %v; want one point and cut short", out, err)
	}
}

func TestFailureKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	f := &fake{profile: profile(t), latency: quick, at: 2, special: func(r *Result) error { r.Load.Tally = nil; return boom }}
	out, err := newExperiment(t, f).run(t.Context())
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), f.ran[1]) || out.Points != 1 {
		t.Errorf("outcome %+v, %v; want an error that names %s", out, err, f.ran[1])
	}
	run, rerr := report.ReadDir(out.Dir)
	if rerr != nil || len(run.Rows) != 3 || run.Manifest.State != report.StateFailed || !strings.Contains(run.Manifest.Error, "boom") {
		t.Errorf("on disk: %+v, %v", run, rerr)
	}
}

func TestFolderThatIsNotEmptyIsWrongUsage(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := (&experiment{config: e.config, runner: f, now: e.now}).run(t.Context())
	if !errors.Is(err, ErrUsage) || len(f.ran) != 12 {
		t.Errorf("error %v after %d points; want ErrUsage before any other was measured", err, len(f.ran))
	}
}

// TestNothingMeasuredLeavesNoFolder: the same command must work once its error is put right.
func TestNothingMeasuredLeavesNoFolder(t *testing.T) {
	t.Parallel()
	boom := errors.New("connection refused")
	f := &fake{profile: profile(t), latency: quick, at: 1, special: func(r *Result) error { r.Load.Tally = nil; return boom }}
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(e.config.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// saturating is a queue that 5,000 requests a second fill: beyond, each waits for what came before.
func saturating(rate float64, at time.Duration) time.Duration {
	const capacity, service = 5000.0, 200 * time.Microsecond
	return service + time.Duration(max(rate/capacity-1, 0)*float64(at))
}

func TestCapacitySearch(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [0.5, 2]"), latency: saturating}
	out, err := newExperiment(t, f).run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run, err := report.ReadDir(out.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c := run.Manifest.Capacity
	if c == nil || c.RPS < 4000 || c.RPS > 5100 || c.Low > c.High || c.High/c.Low > narrowEnough || len(c.Probes) != len(f.probes) {
		t.Fatalf("capacity %+v of a server of 5000 requests per second", c)
	}
	if len(f.probes) > 12 {
		t.Errorf("%d probes were needed", len(f.probes))
	}
	for _, r := range run.Rows {
		factor := map[string]float64{"0.5": 0.5, "2": 2}[r.LoadFactor]
		if got, _ := r.OfferedTargetRPS.Get(); math.Abs(got-factor*c.RPS) > 1 {
			t.Errorf("factor %q has the target %v, the capacity is %v", r.LoadFactor, got, c.RPS)
		}
	}
}

// TestCapacityIsConfirmedForLonger takes a server that holds anything for a second and chokes on more than 3000 requests a second after
// that: the short probes must not have the last word.
func TestCapacityIsConfirmedForLonger(t *testing.T) {
	t.Parallel()
	choking := func(rate float64, at time.Duration) time.Duration {
		if at > time.Second && rate > 3000 {
			return time.Second
		}
		return saturating(rate*5000/3500, at)
	}
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]", "window: 1s", "window: 3s"), latency: choking}
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := e.writer.Manifest.Capacity; c.RPS > 3000 || c.RPS < 2600 || c.High < c.Low {
		t.Errorf("capacity %+v", c)
	}
}

func TestCapacitySearchGoesDownToo(t *testing.T) {
	t.Parallel()
	slow := func(rate float64, at time.Duration) time.Duration { return saturating(rate*100, at) }
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]"), latency: slow}
	e := newExperiment(t, f)
	out, err := e.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if run, err := report.ReadDir(out.Dir); err != nil || run.Manifest.Capacity.RPS < 40 || run.Manifest.Capacity.RPS > 51 {
		t.Errorf("capacity %+v of a server of 50 requests per second (%v)", run.Manifest.Capacity, err)
	}
}

func TestCapacitySearchGivesUp(t *testing.T) {
	t.Parallel()
	f := &fake{
		profile: profile(t, "rates: [100, 200]", "of_capacity: [1]"),
		latency: func(float64, time.Duration) time.Duration { return time.Second },
	}
	out, err := newExperiment(t, f).run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "keep the SLO") || out.Points != 0 || len(f.ran) != 0 {
		t.Errorf("outcome %+v, %v", out, err)
	}
	run, rerr := report.ReadDir(out.Dir)
	if rerr != nil || len(run.Manifest.Capacity.Probes) == 0 {
		t.Errorf("the probes are not on disk: %v", rerr)
	}
}

// TestGeneratorIsNotTakenForTheServer fails a probe by the generator's own fault once: the rate must get a second chance.
func TestGeneratorIsNotTakenForTheServer(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]"), latency: saturating, at: 2}
	f.special = func(r *Result) error { stutter(r, 8*time.Millisecond); return nil }
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.probes[1] != f.probes[2] || e.writer.Manifest.Capacity.RPS < 4000 {
		t.Errorf("probes at %v, capacity %v", f.probes, e.writer.Manifest.Capacity.RPS)
	}
}

func TestFails(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	tests := []struct {
		name, want string
		change     func(r *Result)
	}{
		{"holds", "", func(*Result) {}},
		{"shed", "3 of 1000 requests were shed", func(r *Result) {
			r.Load.Tally.Classes[0].Fates[reqlog.Dropped] += 3
			r.Load.Tally.Classes[0].Fates[reqlog.OK] -= 3
		}},
		{"failed", "2 of 1000 requests were not answered", func(r *Result) {
			r.Load.Tally.Classes[1].Fates[reqlog.Failed] += 2
			r.Load.Tally.Classes[1].Fates[reqlog.OK] -= 2
		}},
		{"died", "the server died: out of memory", func(r *Result) { r.Died, r.LastWord = true, "out of memory" }},
		{"late", "p99 15ms of class a is late, its SLO is 10ms", func(r *Result) {
			*r = (&fake{profile: f.profile, latency: func(float64, time.Duration) time.Duration { return 15 * time.Millisecond }}).result(1000, time.Second)
		}},
		{"growth", "latency grows", func(r *Result) {
			*r = (&fake{profile: f.profile, latency: func(_ float64, at time.Duration) time.Duration { return at / 110 }}).result(1000, time.Second)
		}},
		{"late by the generator", "our sender lagged 400ms (p99), 1ms is allowed", func(r *Result) {
			*r = (&fake{profile: f.profile, latency: func(float64, time.Duration) time.Duration { return time.Second }}).result(1000, time.Second)
			stutter(r, 400*time.Millisecond)
		}},
		{"several faults of the generator", "our sender lagged 8ms (p99), 1ms is allowed: little", func(r *Result) {
			stutter(r, 8*time.Millisecond)
			r.Load.Invalid = append(r.Load.Invalid, drive.WarnLittle)
		}},
		{"late all the same", "p99 1s of class a is late, beyond its SLO of 10ms and beyond what our sender's lag explains, 8ms at most", func(r *Result) {
			*r = (&fake{profile: f.profile, latency: func(float64, time.Duration) time.Duration { return time.Second }}).result(1000, time.Second)
			stutter(r, 8*time.Millisecond)
		}},
		{"backlogged", "20 of 1000 requests found their connections full", func(r *Result) {
			r.Load.Tally.Classes[1].Fates[reqlog.Unsent] += 20
			r.Load.Tally.Classes[1].Fates[reqlog.OK] -= 20
			r.Load.Invalid, r.Load.WindowFull = []string{drive.WarnUnsent}, 20
		}},
		{"invalid", "the probe is not valid: little", func(r *Result) { r.Load.Invalid = []string{drive.WarnLittle} }},
		{"empty", "no request was due", func(r *Result) { r.Load.Tally = load.NewTally([]load.Class{{Name: "a"}}, 0, 1) }},
	}
	for _, tt := range tests {
		r := f.result(1000, time.Second)
		tt.change(&r)
		why, ours := fails(&r)
		if byGenerator := strings.Contains(tt.want, "not valid") || strings.HasPrefix(tt.want, "our sender") || tt.name == "empty"; ours != byGenerator {
			t.Errorf("%s: the generator's fault: %v", tt.name, ours)
		}
		if !strings.HasPrefix(why, tt.want) || tt.want == "" && why != "" {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.want)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	if err := refuse(profile(t)); err != nil {
		t.Fatalf("a profile that can be run is refused: %v", err)
	}
	tests := []struct{ old, new, want string }{
		{"{kind: memcached}", "{kind: memcached, replicas: 2}\nretry: {to: other, budget: 0.1}", "3:1: retry: gomemcache chooses the server"},
		{"{name: codel}", "{name: seda}", "workload.client: gomemcache has no half of the control, which seda needs"},
		{"{name: codel}", "{name: codel, settings: {section: try, bandit: oracle}}", "9:68: controllers: codel: the bandit oracle is told the best capacity by the model"},
		{"{name: codel}", "{name: codel, settings: {targt: 5ms}}", `9:54: controller codel: unknown setting "targt"`},
		{"{name: codel}", "{name: codel, settings: {interval: 5, target: 5ms}}", `9:54: controller codel: interval`},
		{"{name: codel}", "{name: codle}", `9:30: unknown controller "codle"; did you mean "codel"?`},
		{"kind: memcached", "kind: memcached, settings: {slots: many}", `2:38: server.settings.slots: "many" is not a whole number`},
		{"kind: memcached", "kind: memcached, settings: {slots: -5}", `2:38: server.settings.slots: "-5"`},
		{"kind: memcached", "kind: memcached, settings: {reply: foo}", `2:38: server.settings.reply: "foo": it is full or header`},
		{"kind: memcached", "kind: memcached, settings: {memory: 1kB}", `2:38: server.settings.memory: "1kB" is not between`},
		{"kind: memcached", "kind: memcached, settings: {max_item: 100MiB}", `2:38: server.settings: the largest item`},
		{"kind: memcached", "kind: memcached, settings: {deadline: 5}", `2:38: server.settings.deadline: duration "5" has no unit`},
		{"kind: memcached", "kind: external, settings: {target: 'memcached://x:1'}", "write [{name: none}]"},
		{"kind: memcached", "kind: external, replicas: 2, settings: {target: 'memcached://x:1'}", "2:26: server.replicas: servers that run already are started by nobody"},
	}
	for _, tt := range tests {
		pairs := []string{tt.old, tt.new}
		if strings.Contains(tt.want, "gomemcache") {
			pairs = append(pairs, "kind: kv", "kind: kv\n  client: gomemcache")
		}
		err := refuse(profile(t, pairs...))
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "fake.yaml:") {
			t.Errorf("%s: error %v, want it to have %q", tt.new, err, tt.want)
		}
	}
	none := profile(t, "rates: [100, 200]", "of_capacity: [1]", "slo: 10ms, ", "", "slo: 20ms, ", "")
	if err := refuse(none); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "no class has an slo") {
		t.Errorf("capacity without an SLO: error %v", err)
	}
}

func TestServerFlags(t *testing.T) {
	t.Parallel()
	got, err := serverFlags(profile(t, "kind: memcached", "kind: memcached, settings: {reply: header, memory: 1GiB}"))
	if diff := cmp.Diff([]string{"--memory", "1GiB", "--reply", "header"}, got); diff != "" || err != nil {
		t.Errorf("flags (-want +got):\n%s%v", diff, err)
	}
	_, err = serverFlags(profile(t, "kind: memcached", "kind: memcached, settings: {replay: header}"))
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), `fake.yaml:2:38: server.settings: memcached has no setting "replay"; did you mean "reply"?`) {
		t.Errorf("error %v", err)
	}
}

func TestJudgeComparesCounts(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	p := Point{Controller: profiles.Controller{Name: "none"}, Rate: 100, Repeat: 1, Seed: 1}
	tests := []struct {
		name    string
		change  func(r *Result)
		valid   bool
		warning string
	}{
		{"as it should be", func(*Result) {}, true, ""},
		{"one reply too many", func(r *Result) { r.After.Executed[workloads.Get]-- }, false, warnServerCount},
		{"somebody else's command", func(r *Result) { r.After.Executed[workloads.Set]++ }, false, warnServerCount},
		{"a failure that was executed", func(r *Result) { r.Totals[0][reqlog.OK]--; r.Totals[0][reqlog.Failed]++ }, true, ""},
		{"a failure that was not", func(r *Result) { r.Totals[0][reqlog.OK]--; r.Totals[0][reqlog.Failed]++; r.After.Executed[0]-- }, true, ""},
		{"a shed one that was executed", func(r *Result) { r.Totals[0][reqlog.OK]--; r.Totals[0][reqlog.Rejected]++ }, false, warnServerCount},
		{"not known", func(r *Result) { r.After = Counts{Why: "gone"} }, true, warnUncounted},
		{"dead", func(r *Result) { r.Died, r.After = true, Counts{} }, true, warnServerDied},
		{"misses", func(r *Result) { r.Load.Tally.Classes[0].Hits-- }, true, warnMisses},
		{"misses that were to be expected", func(r *Result) { r.Load.Tally.Classes[0].Hits--; r.NoReads = true }, true, ""},
	}
	for _, tt := range tests {
		r := f.result(100, time.Second)
		tt.change(&r)
		row := judge(&p, &r).Rows[2]
		if row.Valid != tt.valid || strings.Join(row.Warnings, ";") != tt.warning {
			t.Errorf("%s: valid %v, warnings %v; want %v, %q", tt.name, row.Valid, row.Warnings, tt.valid, tt.warning)
		}
		if tt.warning != "" {
			if sentence, _ := report.Explain(tt.warning); sentence == "" {
				t.Errorf("the warning %q is not explained", tt.warning)
			}
		}
	}
}

func TestDriversWarningsAreExplained(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		drive.WarnAccounting, drive.WarnLittle, drive.WarnSendLag, drive.WarnUnsent, drive.WarnCutShort, drive.WarnNoArrivals, drive.WarnDrift,
		drive.WarnOverflow, drive.WarnUndrained, drive.WarnReconnected, drive.WarnOutOfStep, drive.WarnWindowFull, drive.WarnSocketFull,
		drive.WarnSenderCPU, drive.WarnPreempted, drive.WarnGCPause, drive.WarnRealTime, drive.WarnScale, drive.WarnModelLate,
		drive.WarnClockStep, drive.WarnClosedLoop, warnSlotsUnlimited,
	} {
		if sentence, _ := report.Explain(code); sentence == "" {
			t.Errorf("the warning %q is not explained", code)
		}
	}
}

// TestRowsAddUp judges a run of all fates and holds the columns against each other.
func TestRowsAddUp(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	r := f.result(1000, time.Second)
	for i := range r.Load.Tally.Classes {
		for fate := reqlog.Refused; fate < reqlog.NumFates; fate++ {
			r.Load.Tally.Classes[i].Fates[fate] += int64(fate)
		}
	}
	rows := judge(&Point{Rate: 1000, Repeat: 1}, &r).Rows
	var sum report.Fates
	for i := range rows {
		row := &rows[i]
		offered, _ := row.OfferedRPS.Get()
		if got := row.Fates.Arrivals(); float64(got) != offered {
			t.Errorf("class %s: %d arrivals in a second, offered_rps %v", row.Class, got, offered)
		}
		drop, _ := row.DropRatio.Get()
		if want := float64(row.Fates.Shed()-row.Fates.Refused) / float64(row.Fates.Sent()); math.Abs(drop-want) > 1e-12 {
			t.Errorf("class %s: drop ratio %v, want %v", row.Class, drop, want)
		}
		if row.Class != report.AllClasses {
			sum = sum.Add(row.Fates)
		}
	}
	if sum != rows[2].Fates {
		t.Errorf("the classes sum to %+v, the pooled row has %+v", sum, rows[2].Fates)
	}
	if _, known := rows[2].SLO.Get(); known {
		t.Error("the pooled row has an SLO, though classes differ")
	}
}

// TestNothingMeasuredIsNotZero judges a run without a single request.
func TestNothingMeasuredIsNotZero(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	r := f.result(0, time.Second)
	r.Load.Tally.Cut(0)
	for _, row := range judge(&Point{Rate: 1, Repeat: 1}, &r).Rows {
		for name, v := range map[string]report.Value{
			"offered": row.OfferedRPS, "goodput": row.GoodputRPS, "shed": row.ShedRatio, "p99": row.Latency.P99, "max": row.Latency.Max,
			"lag": row.SendLagP99, "queue": row.QueueMean,
		} {
			if n, known := v.Get(); known {
				t.Errorf("class %s: %s is %v, want unknown", row.Class, name, n)
			}
		}
		if row.Valid {
			t.Error("a run without requests is valid")
		}
	}
}
