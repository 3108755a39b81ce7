//go:build linux

package harness

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/reqlog"
	"spillway/profiles"
	"spillway/report"
)

// TestVariantsStandInOneTable: each variant has its rows, under its name, and each is what a profile of its own would have measured.
func TestVariantsStandInOneTable(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, "timeout: 10ms",
		"variants: [{name: slow, set: {}}, {name: fast, set: {machine.bus.total: 8GB, machine.cores: 4, load: {of_capacity: [1.5]}}}]\ntimeout: 10ms",
		"repeats: 2", "repeats: 1")
	run := simulate(t, p, 3)
	var got []string
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Class == report.AllClasses {
			got = append(got, r.Profile+" "+r.Point())
		}
	}
	want := []string{
		"modelled/slow slow/none/0.5x/1", "modelled/slow slow/none/1.5x/1", "modelled/slow slow/fixed/0.5x/1", "modelled/slow slow/fixed/1.5x/1",
		"modelled/fast fast/none/1.5x/1", "modelled/fast fast/fixed/1.5x/1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	m := &run.Manifest
	if len(m.Variants) != 2 || m.Variants[1].Set["machine.bus.total"] != "8GB" || m.Capacity != nil || m.ModelledMachine != nil || m.Planned != 6 {
		t.Fatalf("variants %+v, capacity %v", m.Variants, m.Capacity)
	}
	if c := m.Variants[1].Capacity; c == nil || math.Abs(c.RPS-4/75e-6) > 1 || m.Variants[1].ModelledMachine.Figures[0].Value != "4" {
		t.Errorf("of the second variant the manifest says %+v", m.Variants[1])
	}
	alone := simulate(t, modelledProfile(t, "{cores: 2, bus: {total: 4GB", "{cores: 4, bus: {total: 8GB", "[0.5, 1.5]", "[1.5]", "repeats: 2", "repeats: 1"), 1)
	last, same := run.Rows[len(run.Rows)-1], alone.Rows[len(alone.Rows)-1]
	last.Profile = same.Profile
	if diff := cmp.Diff(same, last, cmp.AllowUnexported(report.Value{})); diff != "" {
		t.Errorf("alone and as a variant (-alone +variant):\n%s", diff)
	}
}

// TestVariantsMeasuredByTurns: where points are measured one by one, those of all variants are shuffled together.
func TestVariantsMeasuredByTurns(t *testing.T) {
	t.Parallel()
	p := profile(t, "name: fake", "name: fake\nvariants: [{name: one, set: {}}, {name: two, set: {workload.connections: 3}}]")
	first, second := &fake{profile: p.Runs()[0], latency: quick}, &fake{profile: p.Runs()[1], latency: quick}
	e := newExperiment(t, first)
	e.config.Profile, e.runner = p, variants{first, second}
	out, err := e.run(t.Context())
	if err != nil || out.Points != 24 || len(first.ran) != 12 || len(second.ran) != 12 || first.closed != 1 || second.closed != 1 {
		t.Fatalf("outcome %+v, %v; %d and %d points", out, err, len(first.ran), len(second.ran))
	}
	if !strings.HasPrefix(second.ran[0], "two: ") {
		t.Errorf("a point is called %q", second.ran[0])
	}
	searched := profile(t, "rates: [100, 200]", "of_capacity: [1]", "name: fake", "name: fake\nvariants: [{name: one, set: {}}]")
	if err := refuse(searched.Runs()[0]); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "of several variants each has its own") {
		t.Errorf("error %v", err)
	}
}

// TestPhases: the load changes within the window, and so does what could be served; the numbers of a phase are those of a run at its load.
func TestPhases(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, "load: {of_capacity: [0.5, 1.5]}",
		"load: {phases: [{for: 100ms, rate: 10k, shares: {cpu: 1}}, {for: 300ms, rate: 100k, shares: {cpu: 0.2, memory: 0.8}}]}",
		"window: 100ms\n", "", "[{name: none}, {name: fixed}]", "[{name: fixed}]", "repeats: 2", "repeats: 1")
	run := simulate(t, p, 1)
	if len(run.Rows) != 3 || run.Rows[2].Load() != "77500" {
		t.Fatalf("%d rows, load %s", len(run.Rows), run.Rows[0].Load())
	}
	m := &run.Manifest
	want := []report.Phase{
		{AtUS: 0, ForUS: 1e5, Rate: 1e4, Shares: map[string]float64{"cpu": 1}},
		{AtUS: 1e5, ForUS: 3e5, Rate: 1e5, Shares: map[string]float64{"cpu": 0.2, "memory": 0.8}},
	}
	if diff := cmp.Diff(want, m.Phases); diff != "" {
		t.Errorf("phases in the manifest (-want +got):\n%s", diff)
	}
	// Of memory nothing in the first quarter. Then the bus of 4 GB/s takes 20 k/s of 200 kB each, before the cores are full.
	if memory := value(t, run.Rows[1].OptimumRPS); math.Abs(memory-0.75*20e3) > 1 {
		t.Errorf("optimum of memory %g", memory)
	}
	if offered := value(t, run.Rows[2].OfferedRPS); math.Abs(offered-77500) > 2500 {
		t.Errorf("offered %g", offered)
	}
	goodput := map[bool]float64{} // by whether it is early
	trace := samplesOf(t, p)
	for _, s := range trace {
		if v, ok := s.Value.Get(); ok && s.Name == "goodput" && s.Class == "memory" {
			goodput[s.TimeUS < 1e5] += v
		}
	}
	if goodput[true] != 0 || goodput[false] == 0 {
		t.Errorf("memory's goodput was %g early and %g late", goodput[true], goodput[false])
	}
}

// samplesOf simulates the first point of p and returns its time series.
func samplesOf(t *testing.T, p *profiles.Profile) []report.Sample {
	t.Helper()
	m, err := newModelled(p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&simulation{m}).Run(t.Context(), points(p, 0, m.capacity.RPS)[0])
	if err != nil {
		t.Fatal(err)
	}
	return r.Samples
}

const memoryText = `name: memory
on: sim
machine: {cores: 18, bus: {total: 36GB, per_core: 6GB}}
server: {kind: synthetic}
workload:
  kind: synthetic
  connections: 10
  classes:
    - {name: cpu, share: 0.5, slo: 1ms, work: [{compute: 72us}]}
    - {name: fast, share: 0.5, slo: 1ms, work: [{section: memory, steps: [{stream: 600kB}]}]}
    - {name: slow, share: 0, slo: {p50: 500us, p99: 2ms}, priority: 2, work: [{section: memory, steps: [{stream: 600kB, at: 2GB}]}, {stream: 1MB}]}
load: {rates: [100k], drift: {period: 40ms, shares: {slow: 1}}}
controllers: [{name: none, parts: []}, {name: none, as: told, parts: [section], settings: {section: try, bandit: oracle}}]
timeout: 10ms
drain: 10ms
warmup: 10ms
window: 40ms
repeats: 1
source: {paper: svalinn, figure: "4"}
claims: [{text: t, metric: goodput_rps, class: fast, controller: told, over: [none], at: 100k, paper: 2, holds_at: 1.5, note: n}]
`

func parsed(t *testing.T, text string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOracle: the oracle says how many requests fill the bus with the mix of the moment. With only fast ones that is 36/6 = 6; slow ones
// reach 2 GB/s, so it is 18; half and half of the bytes come at a mean of 3 GB/s, since slow ones are at it three times as long: 12.
func TestOracle(t *testing.T) {
	t.Parallel()
	m, err := newModelled(parsed(t, memoryText))
	if err != nil {
		t.Fatal(err)
	}
	const warmUp = 10 * time.Millisecond
	told := m.oracle(warmUp)
	if a, b, c := told(clock.Instant(warmUp)), told(clock.Instant(warmUp+20*time.Millisecond)), told(clock.Instant(warmUp+40*time.Millisecond)); a != 6 || b != 18 || c != 6 {
		t.Errorf("the oracle says %d, %d, %d", a, b, c)
	}
	if n := saturation(m.streams(), []float64{0, 0.5, 0.5}, m.spec); n != 12 {
		t.Errorf("half and half: %d", n)
	}
	if n := saturation(m.streams(), []float64{1, 0, 0}, m.spec); n != 18 {
		t.Errorf("without memory-bound requests: %d", n)
	}
	plain, err := newModelled(modelledProfile(t))
	if err != nil || plain.oracle(0) != nil {
		t.Errorf("there is an oracle of a section that nobody enters (%v)", err)
	}
}

// TestDriftAndOracleInASimulation: the trace shows the capacity that the oracle chose, densely, and all else at its own pace; the manifest
// has what the report needs.
func TestDriftAndOracleInASimulation(t *testing.T) {
	t.Parallel()
	p := parsed(t, memoryText)
	run := simulate(t, p, 2)
	m := &run.Manifest
	if diff := cmp.Diff([]report.Objective{{Percentile: 50, LimitUS: 500}, {Percentile: 99, LimitUS: 2000}}, m.Classes[2].Objectives); diff != "" || m.Classes[2].SLOUS != 2000 || m.Classes[2].Priority != 2 {
		t.Errorf("class %+v\n%s", m.Classes[2], diff)
	}
	claim := report.Claim{
		Text: "t", Metric: "goodput_rps", Class: "fast", Controller: "told", Over: []string{"none"}, At: "100000", Paper: report.Known(2), HoldsAt: report.Known(1.5), Note: "n",
	}
	if diff := cmp.Diff([]report.Claim{claim}, m.Claims, cmp.AllowUnexported(report.Value{})); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if m.Paper == nil || m.Paper.Figure != "4" || len(m.Controllers) != 2 || m.Controllers[0].Parts == nil || m.Controllers[1].Label != "told" || m.Controllers[1].Name != "none" {
		t.Errorf("paper %+v, controllers %+v", m.Paper, m.Controllers)
	}
	least, most, dense, sparse := math.Inf(1), 0.0, 0, 0
	only, err := p.WithControllers([]string{"told"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samplesOf(t, only) {
		v, _ := s.Value.Get()
		switch s.Name {
		case "memsem":
			least, most, dense = min(least, v), max(most, v), dense+1
		case "cpu":
			sparse++
		}
	}
	if least != 6 || most != 18 || dense < 70 || sparse < dense/2 {
		t.Errorf("the capacity went from %g to %g in %d samples, beside %d of the processors", least, most, dense, sparse)
	}
	mean := value(t, run.Rows[len(run.Rows)-1].MemSemMean)
	if mean < 9 || mean > 16 {
		t.Errorf("memsem_mean %g", mean)
	}
	if v := run.Rows[0].MemSemMean; v != (report.Value{}) {
		t.Errorf("without a section memsem_mean is %v", v)
	}
}

// TestReplicasAndRetry: two servers do the work of two, and a retry finds the other one.
func TestReplicasAndRetry(t *testing.T) {
	t.Parallel()
	one := modelledProfile(t, "[0.5, 1.5]", "[0.5]", "[{name: none}, {name: fixed}]", "[{name: fixed, settings: {queue: 4}}]", "repeats: 2", "repeats: 1")
	two := modelledProfile(t, "{kind: synthetic}", "{kind: synthetic, replicas: 2}", "[0.5, 1.5]", "[0.9]",
		"[{name: none}, {name: fixed}]", "[{name: fixed, settings: {queue: 4}}]", "repeats: 2", "repeats: 1")
	first, err := two.Set([]profiles.Assignment{{Key: "retry", Value: "{to: other, budget: 1, primary: first}"}})
	if err != nil {
		t.Fatal(err)
	}
	alone, both, retried := simulate(t, one, 1), simulate(t, two, 1), simulate(t, first, 1)
	if a, b := alone.Manifest.Capacity.RPS, both.Manifest.Capacity.RPS; math.Abs(b/a-2) > 1e-9 {
		t.Errorf("the capacity of one is %g, of two %g", a, b)
	}
	all := func(run *report.Run) *report.Row { return &run.Rows[len(run.Rows)-1] }
	if cpu := value(t, all(both).CPURatio); cpu < 0.75 || cpu > 1 {
		t.Errorf("two servers at 0.9 of their capacity have their cores busy for %g of the time", cpu)
	}
	if got, of := value(t, all(retried).GoodputRPS), value(t, all(both).OfferedRPS); got < 0.8*of || !all(retried).Valid {
		t.Errorf("with every request at the first server first, %g of %g are served in time (%v)", got, of, all(retried).Warnings)
	}
	if shed, without := value(t, all(retried).ShedRatio), value(t, all(both).ShedRatio); shed > without+0.15 {
		t.Errorf("%g shed with retries, %g without", shed, without)
	}
}

// TestLongerWarmUpOfOne: a controller may be given longer to converge than the others.
func TestLongerWarmUpOfOne(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, "{name: fixed}", "{name: fixed, warmup: 50ms}")
	for _, pt := range points(p, 0, 1000) {
		if got, want := pt.spans(p).warmUp, map[string]time.Duration{"none": 10 * time.Millisecond, "fixed": 50 * time.Millisecond}[pt.Controller.Label()]; got != want {
			t.Errorf("%s: a warm-up of %v, want %v", pt, got, want)
		}
	}
}

// unsure is a client's half that says whether it has converged.
type unsure struct{ control.Throttle }

func (unsure) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) { _ = yield("rate", 7) && yield(meterConverged, 0) }
}

// TestUnconverged: a point whose clients had not found their place is marked, with the share that had.
func TestUnconverged(t *testing.T) {
	t.Parallel()
	h := &halves{}
	if v := h.converged(); v != (report.Value{}) {
		t.Errorf("of nobody %v have converged", v)
	}
	client := h.collect(func(*rand.Rand) *control.Outbox { return control.NewOutbox(unsure{}, control.OutboxConfig{}) })
	client(nil)
	client(nil)
	if v := h.converged(); v != report.Known(0) {
		t.Errorf("%v have converged", v)
	}
	if h.collect(nil) != nil {
		t.Error("clients that just send were given a half")
	}
	var samples []report.Sample
	for i, v := range []float64{0, 0, 0.8, 1} {
		samples = append(samples, report.Sample{TimeUS: float64(i) * 100, Name: "client_converged", Value: report.Known(v)})
	}
	if v := convergedAtEnd(samples, 400*time.Microsecond); v != report.Known(0.9) {
		t.Errorf("at the end %v have converged", v)
	}
	f := &fake{profile: profile(t), latency: quick}
	for _, tt := range []struct {
		share   float64
		refused int64
		marked  bool
	}{{0.2, 2, true}, {0.49, 2, true}, {0.5, 2, false}, {1, 2, false}, {0.2, 1, false}} {
		r := f.result(100, time.Second)
		r.Converged = report.Known(tt.share)
		r.Load.Tally.Classes[0].Fates[reqlog.Refused] += tt.refused
		r.Load.Tally.Classes[0].Fates[reqlog.OK] -= tt.refused
		r.After.Executed[0] -= tt.refused
		r.Totals[0][reqlog.OK] -= tt.refused
		row := judge(&Point{Rate: 100, Repeat: 1}, &r).Rows[0]
		if slices.Contains(row.Warnings, warnUnconverged) != tt.marked || !row.Valid {
			t.Errorf("%+v: warnings %v, valid %v", tt, row.Warnings, row.Valid)
		}
	}
}

// TestClientsHalvesInASimulation: SEDA's clients begin slowly, which is said of a window that is too short; their rate is in the trace.
func TestClientsHalvesInASimulation(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, "[{name: none}, {name: fixed}]", "[{name: seda}]", "[0.5, 1.5]", "[1.5]", "repeats: 2", "repeats: 1")
	run := simulate(t, p, 1)
	row := &run.Rows[len(run.Rows)-1]
	if !slices.Contains(row.Warnings, warnUnconverged) || row.Fates.Refused == 0 {
		t.Errorf("warnings %v, %d refused", row.Warnings, row.Fates.Refused)
	}
	names := map[string]int{}
	for _, s := range samplesOf(t, p) {
		names[s.Name]++
	}
	if names["client_rate"] == 0 || names["client_converged"] == 0 || names["client_waiting"] == 0 {
		t.Errorf("in the trace are %v", names)
	}
}

// TestClaimMetricsAreKnownToReports: what a profile may claim, a report can decide.
func TestClaimMetricsAreKnownToReports(t *testing.T) {
	t.Parallel()
	for _, m := range profiles.ClaimMetrics() {
		if !slices.Contains(report.Metrics(), m) {
			t.Errorf("no report knows %s", m)
		}
	}
}

// TestSectionsAreRemarkedUpon: who is let pass is said, once, before anything is measured.
func TestSectionsAreRemarkedUpon(t *testing.T) {
	t.Parallel()
	notes := func(text string) (list []string) {
		p := parsed(t, text)
		e := newExperiment(t, &fake{profile: p})
		e.config.Observe = func(ev Event) { list = append(list, ev.Note) }
		e.remarks()
		return list
	}
	got := strings.Join(notes(strings.Replace(memoryText, "work: [{compute: 72us}]", "work: [{section: disk, steps: [{compute: 72us}]}]", 1)), "\n")
	if !strings.Contains(got, "sections disk let everybody pass") || !strings.Contains(got, "memory lets everybody pass under none, which") {
		t.Errorf("it says %q", got)
	}
	all := strings.Replace(memoryText, "{name: none, parts: []}", "{name: none, parts: [], settings: {section: wait, bandit: fixed, capacity: 2}}", 1)
	if got := notes(all); len(got) > 0 {
		t.Errorf("it says %q", got)
	}
}

// TestEveryShippedProfileCanBeRun holds the profiles that are shipped against what the harness refuses.
func TestEveryShippedProfileCanBeRun(t *testing.T) {
	t.Parallel()
	for _, name := range profiles.Names() {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range p.Runs() {
			if err := refuse(run); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestMetersOfReplicas: numbers of things are added up over replicas, times and shares are not.
func TestMetersOfReplicas(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{"credits": 1, "memsem_period_us": 2, "fill_ratio": 2} {
		if got := sharedBy(name, 2); got != want {
			t.Errorf("%s is divided by %g, want %g", name, got, want)
		}
	}
	o := &observation{stats: map[string]string{"meter_credits": "8", "queue_delay_us": "6", "meter_age_us": "4"}}
	for _, s := range o.samples(0, 2) {
		if want := map[string]float64{"credits": 8, "queue_delay": 3, "age_us": 2}[s.Name]; s.Value != report.Known(want) {
			t.Errorf("%s is %v, want %g", s.Name, s.Value, want)
		}
	}
}

// TestServersAreToldOfPriorities: a server of its own process does not know the classes, so what a controller would take from them is set.
func TestServersAreToldOfPriorities(t *testing.T) {
	t.Parallel()
	plain, ranked := profile(t), profile(t, "slo: 10ms", "slo: 10ms, priority: 3")
	for _, tt := range []struct {
		c    profiles.Controller
		p    *profiles.Profile
		want string
	}{
		{profiles.Controller{Name: "dagor"}, ranked, "business=4"},
		{profiles.Controller{Name: "dagor", Settings: map[string]string{"business": "9"}}, ranked, "business=9"},
		{profiles.Controller{Name: "dagor"}, plain, ""},
		{profiles.Controller{Name: "codel"}, ranked, ""},
	} {
		if got := strings.Join(settingList(withBusiness(&tt.c, tt.p)), " "); got != tt.want {
			t.Errorf("%s %v: %q, want %q", tt.c.Name, tt.c.Settings, got, tt.want)
		}
	}
}
