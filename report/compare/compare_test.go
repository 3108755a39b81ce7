package compare_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/report"
	"spillway/report/compare"
)

// setup describes results that a test makes up.
type setup struct {
	name, ground string
	controllers  []string
	classes      []string
	loads        []float64
	repeats      int
	seed         uint64
	settings     string // of the first controller, in YAML
	extra        string // of the profile
	goodput      func(controller, class string, load float64, repeat int) float64
	p99          func(controller, class string, load float64, repeat int) float64 // 0 for nothing answered
	change       func(m *report.Manifest, rows []report.Row)
}

// noise is a fixed sequence around 1, as different from repeat to repeat as goodput is.
func noise(repeat int, by float64) float64 {
	return 1 + by*[]float64{0.31, -0.52, 0.11, 0.44, -0.23, -0.11, 0.29, -0.4, 0.05, 0.17, -0.3, 0.2}[repeat%12]
}

func (s setup) run() *report.Run {
	if s.ground == "" {
		s.ground = "sim"
	}
	if s.name == "" {
		s.name = "made-up"
	}
	if s.controllers == nil {
		s.controllers = []string{"fixed"}
	}
	if s.classes == nil {
		s.classes = []string{"small"}
	}
	if s.loads == nil {
		s.loads = []float64{1000}
	}
	if s.repeats == 0 {
		s.repeats = 6
	}
	if s.goodput == nil {
		s.goodput = func(_, _ string, load float64, repeat int) float64 { return load * noise(repeat, 0.02) }
	}
	if s.p99 == nil {
		s.p99 = func(_, _ string, _ float64, repeat int) float64 { return 500 * noise(repeat, 0.1) }
	}
	if s.settings == "" {
		s.settings = "{limit: 8}"
	}
	run := &report.Run{Dir: "results/" + s.name}
	m := &run.Manifest
	*m = report.Manifest{
		SchemaVersion: report.SchemaVersion, Name: s.name, Ground: s.ground, State: report.StateComplete, Started: time.Unix(1e9, 0).UTC(), Seed: s.seed,
		Versions: report.Versions{Module: "v1.0.0", Go: "go1.26", Kernel: "6.1"}, Machine: report.Machine{CPUModel: "a processor", Cores: 8, RAMBytes: 1 << 34},
		ResolvedProfile: fmt.Sprintf("name: %s\nseed: %d\nworkload: {kind: kv}\nwindow: 1s\nmachine: {cores: 4}\n%s", s.name, s.seed, s.extra) + "controllers:\n",
	}
	for i, c := range s.controllers {
		m.ResolvedProfile += fmt.Sprintf("  - {name: fixed, as: %q", c)
		if i == 0 {
			m.ResolvedProfile += ", settings: " + s.settings
		}
		m.ResolvedProfile += "}\n"
	}
	for _, c := range s.controllers {
		for _, load := range s.loads {
			for repeat := 1; repeat <= s.repeats; repeat++ {
				for _, class := range append(slices.Clone(s.classes), report.AllClasses) {
					row := report.Row{
						Profile: s.name, Ground: s.ground, Controller: c, OfferedTargetRPS: report.Known(load), Repeat: repeat, Seed: s.seed + uint64(repeat),
						Class: class, OfferedRPS: report.Known(load), Valid: true,
					}
					goodput := s.goodput(c, class, load, repeat)
					row.GoodputRPS = report.Known(goodput)
					row.Fates = report.Fates{OK: int64(goodput), Rejected: int64(max(load-goodput, 0))}
					row.ShedRatio = report.Known(max(load-goodput, 0) / load)
					if p99 := s.p99(c, class, load, repeat); p99 > 0 {
						row.Latency.P99 = report.Known(p99)
					} else {
						row.Fates = report.Fates{TimedOut: int64(load)}
					}
					run.Rows = append(run.Rows, row)
				}
			}
		}
	}
	if s.change != nil {
		s.change(m, run.Rows)
	}
	return run
}

func compared(t *testing.T, base, candidate setup, o compare.Options) *compare.Result {
	t.Helper()
	r, err := compare.Runs([]*report.Run{base.run()}, []*report.Run{candidate.run()}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// of returns the comparison of a metric, of the only class at the only point.
func of(t *testing.T, r *compare.Result, metric string) *compare.Comparison {
	t.Helper()
	for i := range r.Comparisons {
		if r.Comparisons[i].Metric == metric {
			return &r.Comparisons[i]
		}
	}
	t.Fatalf("no comparison of %s in %+v", metric, r.Comparisons)
	return nil
}

var atDefaults = compare.Options{Threshold: compare.DefaultThreshold}

// scaled returns goodput that is by a share different in every repeat, but for a little.
func scaled(by, spread float64) func(string, string, float64, int) float64 {
	return func(_, _ string, load float64, repeat int) float64 {
		return load * noise(repeat, 0.02) * by * noise(repeat+5, spread)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	nothing := func(string, string, float64, int) float64 { return 0 }
	fewer := func(n int) setup { return setup{repeats: n, goodput: scaled(0.9, 0.005)} }
	invalid := func(n int) func(*report.Manifest, []report.Row) {
		return func(_ *report.Manifest, rows []report.Row) {
			for i := range rows {
				if rows[i].Repeat <= n {
					rows[i].Valid, rows[i].Warnings = false, []string{"send_lag"}
				}
			}
		}
	}
	unknown := func(_ *report.Manifest, rows []report.Row) {
		for i := range rows {
			rows[i].GoodputRPS = report.Value{}
		}
	}
	for _, c := range []struct {
		name            string
		base, candidate setup
		metric          string
		outcome         compare.Outcome
		comparable      bool
		why             string
	}{
		{"equal", setup{}, setup{}, "goodput_rps", compare.Same, true, ""},
		{"ten percent less", setup{}, setup{goodput: scaled(0.9, 0.005)}, "goodput_rps", compare.Worse, true, ""},
		{"ten percent more", setup{}, setup{goodput: scaled(1.1, 0.005)}, "goodput_rps", compare.Better, true, ""},
		{"one percent less is below the least effect", setup{}, setup{goodput: scaled(0.99, 0.001)}, "goodput_rps", compare.Same, true, ""},
		{"it differs as much as repeats do", setup{}, setup{goodput: scaled(0.98, 0.2)}, "goodput_rps", compare.Undecided, true, ""},
		{"one pair points the other way", setup{}, setup{goodput: func(_, _ string, load float64, repeat int) float64 {
			return load * noise(repeat, 0.02) * []float64{0, 0.8, 0.8, 0.8, 0.8, 0.8, 1.001}[repeat]
		}}, "goodput_rps", compare.Undecided, true, ""},
		{"a longer p99", setup{}, setup{p99: func(_, _ string, _ float64, repeat int) float64 { return 600 * noise(repeat, 0.1) }}, "latency_p99_us", compare.Worse, true, ""},
		{"a shorter p99", setup{}, setup{p99: func(_, _ string, _ float64, repeat int) float64 { return 400 * noise(repeat, 0.1) }}, "latency_p99_us", compare.Better, true, ""},

		{"no goodput on either side", setup{goodput: nothing}, setup{goodput: nothing}, "goodput_rps", compare.Same, true, ""},
		{"no goodput any more", setup{}, setup{goodput: nothing}, "goodput_rps", compare.Worse, true, ""},
		{"goodput where there was none", setup{goodput: nothing}, setup{}, "goodput_rps", compare.Better, true, ""},
		{"no goodput in one repeat", setup{}, setup{goodput: func(_, _ string, load float64, repeat int) float64 {
			return load * noise(repeat, 0.02) * []float64{1, 1, 1, 0, 1, 1, 1}[repeat]
		}}, "goodput_rps", compare.Undecided, true, ""},

		{"nothing answered on either side", setup{p99: nothing}, setup{p99: nothing}, "latency_p99_us", compare.Same, true, ""},
		{"nothing answered any more", setup{}, setup{p99: nothing}, "latency_p99_us", compare.Worse, true, ""},
		{"answers where there were none", setup{p99: nothing}, setup{}, "latency_p99_us", compare.Better, true, ""},

		{"a metric that neither side has", setup{}, setup{}, "queue_p99_us", compare.NotDefined, false, ""},
		{"a metric that one side has", setup{}, setup{change: unknown}, "goodput_rps", compare.NotThere, false, "not known in the candidate"},

		{"five repeats", fewer(5), setup{repeats: 5}, "goodput_rps", compare.TooFew, false, ""},
		{"one repeat", fewer(1), setup{repeats: 1}, "goodput_rps", compare.TooFew, false, ""},
		{"one repeat, equal", setup{repeats: 1}, setup{repeats: 1}, "goodput_rps", compare.Same, true, ""},
		{"other numbers of repeats", setup{repeats: 9}, setup{goodput: scaled(0.9, 0.005)}, "goodput_rps", compare.Worse, true, ""},
		{"too few in common", setup{repeats: 9}, fewer(4), "goodput_rps", compare.TooFew, false, ""},

		{"invalid repeats that leave enough", setup{repeats: 8}, setup{repeats: 8, goodput: scaled(0.9, 0.005), change: invalid(2)}, "goodput_rps", compare.Worse, true, "2 of 8 repeats of the candidate are not valid (send_lag)"},
		{"invalid repeats that leave too few", setup{}, setup{goodput: scaled(0.9, 0.005), change: invalid(1)}, "goodput_rps", compare.TooFew, false, "1 of 6 repeats of the candidate are not valid (send_lag)"},
		{"nothing valid", setup{change: invalid(6)}, setup{}, "goodput_rps", compare.NotThere, false, "6 of 6 repeats of the base are not valid (send_lag)"},
		{"nothing valid, though equal", setup{change: invalid(6)}, setup{change: invalid(6)}, "goodput_rps", compare.NotThere, false, "not valid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := atDefaults
			o.Metrics = []string{c.metric}
			r := compared(t, c.base, c.candidate, o)
			got := of(t, r, c.metric)
			if got.Outcome != c.outcome || r.Comparable() != c.comparable || r.Regressed() != (c.outcome == compare.Worse) {
				t.Errorf("%s, comparable %v: %+v", got.Outcome, r.Comparable(), got)
			}
			if !strings.Contains(got.Why, c.why) || c.why == "" && got.Why != "" {
				t.Errorf("why: %q, want %q", got.Why, c.why)
			}
			if (c.outcome == compare.Undecided || c.outcome == compare.TooFew) != (got.More > 0) {
				t.Errorf("%d more repeats", got.More)
			}
			finite(t, r)
		})
	}
}

// finite checks that no output shows what is no number.
func finite(t *testing.T, r *compare.Result) {
	t.Helper()
	for name, text := range written(t, r) {
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s:\n%s", name, bad, text)
			}
		}
	}
}

func written(t *testing.T, r *compare.Result) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for name, write := range map[string]func(*strings.Builder) error{
		"terminal": func(b *strings.Builder) error { return r.Terminal(b) }, "markdown": func(b *strings.Builder) error { return r.Markdown(b) },
		"json": func(b *strings.Builder) error { return r.JSON(b) }, "junit": func(b *strings.Builder) error { return r.JUnit(b) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		texts[name] = b.String()
	}
	return texts
}

// TestHolmCounts: what is significant alone is not among forty, and six seeds can still decide there if the difference is clear.
func TestManyComparisonsAreCorrectedFor(t *testing.T) {
	t.Parallel()
	loads := make([]float64, 40)
	for i := range loads {
		loads[i] = float64(1000 + i)
	}
	one := compared(t, setup{}, setup{goodput: scaled(0.96, 0.06)}, compare.Options{Metrics: []string{"goodput_rps"}, Threshold: 0.02})
	if c := of(t, one, "goodput_rps"); c.Outcome != compare.Worse {
		t.Errorf("alone: %+v", c)
	}
	many := compared(t, setup{loads: loads}, setup{loads: loads, goodput: scaled(0.96, 0.06)}, compare.Options{Metrics: []string{"goodput_rps"}, Threshold: 0.02})
	if n := many.Count(compare.Undecided); n != 40 {
		t.Errorf("of forty %d are undecided", n)
	}
	clear := compared(t, setup{loads: loads}, setup{loads: loads, goodput: scaled(0.9, 0.01)}, compare.Options{Metrics: []string{"goodput_rps"}, Threshold: 0.02})
	if n := clear.Count(compare.Worse); n != 40 {
		t.Errorf("of forty clear ones %d are worse", n)
	}
	// Comparisons of what nobody touched are equal to the last bit in a simulation, and take no power from the one that was touched.
	touched := func(c, class string, load float64, repeat int) float64 {
		if load == 1000 {
			return scaled(0.96, 0.06)(c, class, load, repeat)
		}
		return load * noise(repeat, 0.02)
	}
	r := compared(t, setup{loads: loads}, setup{loads: loads, goodput: touched}, compare.Options{Metrics: []string{"goodput_rps"}, Threshold: 0.02})
	if r.Count(compare.Worse) != 1 || r.Count(compare.Same) != 39 {
		t.Errorf("%d worse, %d same", r.Count(compare.Worse), r.Count(compare.Same))
	}
}

func TestMoreRepeatsThatAreToldDecide(t *testing.T) {
	t.Parallel()
	o := compare.Options{Metrics: []string{"goodput_rps"}, Threshold: 0.02}
	base := func(n int) setup { return setup{repeats: n} }
	candidate := func(n int) setup { return setup{repeats: n, goodput: scaled(0.97, 0.12)} }
	c := of(t, compared(t, base(6), candidate(6), o), "goodput_rps")
	if c.Outcome != compare.Undecided || c.More == 0 {
		t.Fatalf("%+v", c)
	}
	if c := of(t, compared(t, base(6+c.More+3), candidate(6+c.More+3), o), "goodput_rps"); c.Outcome != compare.Worse {
		t.Errorf("after as many more it is %s: %+v", c.Outcome, c)
	}
}

func TestPairing(t *testing.T) {
	t.Parallel()
	worse := setup{goodput: scaled(0.95, 0.001)}
	if c := of(t, compared(t, setup{}, worse, atDefaults), "goodput_rps"); !c.Paired || c.Outcome != compare.Worse {
		t.Errorf("equal seeds: %+v", c)
	}
	worse.seed = 100
	r := compared(t, setup{}, worse, atDefaults)
	if c := of(t, r, "goodput_rps"); c.Paired || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "--seed") }) {
		t.Errorf("other seeds: %+v, %q", c, r.Warnings)
	}
	worse.seed = 3 // seeds 4 to 9 against 1 to 6
	r = compared(t, setup{}, worse, atDefaults)
	if c := of(t, r, "goodput_rps"); !c.Paired || c.BaseN != 3 || c.Outcome != compare.TooFew || !strings.Contains(strings.Join(r.Warnings, ""), "only the 3 repeats") {
		t.Errorf("some seeds: %+v, %q", c, r.Warnings)
	}
	onHost := setup{ground: "host"}
	if c := of(t, compared(t, onHost, onHost, atDefaults), "goodput_rps"); c.Paired {
		t.Error("paired on host, where equal seeds are no equal circumstances")
	}
}

func TestSharesAreComparedInPoints(t *testing.T) {
	t.Parallel()
	o := compare.Options{Metrics: []string{"shed_ratio"}, Threshold: 0.02}
	base := setup{goodput: func(_, _ string, load float64, _ int) float64 { return load }} // nothing is shed
	shed := func(share float64) setup {
		return setup{goodput: func(_, _ string, load float64, repeat int) float64 { return load * (1 - share*noise(repeat, 0.1)) }}
	}
	if c := of(t, compared(t, base, shed(0.01), o), "shed_ratio"); c.Outcome != compare.Same {
		t.Errorf("one point more: %+v", c)
	}
	c := of(t, compared(t, base, shed(0.05), o), "shed_ratio")
	change, _ := c.Change.Get()
	if c.Outcome != compare.Worse || math.Abs(change-0.05) > 0.005 {
		t.Errorf("five points more: %+v", c)
	}
}

func TestMissingPointsAreNamed(t *testing.T) {
	t.Parallel()
	two := setup{controllers: []string{"fixed", "codel"}}
	r := compared(t, two, setup{extra: "", controllers: []string{"fixed"}}, atDefaults)
	if len(r.MissingCandidate) != 1 || r.MissingCandidate[0].Controller != "codel" || r.Comparable() || r.Regressed() {
		t.Errorf("%+v", r.MissingCandidate)
	}
	r = compared(t, setup{}, two, atDefaults)
	if len(r.MissingBase) != 1 || !r.Comparable() {
		t.Errorf("what is new: %+v, comparable %v", r.MissingBase, r.Comparable())
	}
	o := atDefaults
	o.Anyway = true
	if r = compared(t, two, setup{}, o); !r.Comparable() || len(r.MissingCandidate) != 1 {
		t.Error("insisted upon, and still not comparable")
	}
	r, err := compare.Runs([]*report.Run{setup{}.run(), setup{name: "other"}.run()}, []*report.Run{setup{}.run()}, atDefaults)
	if err != nil || len(r.MissingCandidate) != 1 || r.MissingCandidate[0].Profile != "other" || r.Comparable() {
		t.Errorf("a profile that is missing: %+v, %v", r, err)
	}
	for _, text := range written(t, r) {
		if !strings.Contains(text, "other") {
			t.Errorf("not told:\n%s", text)
		}
	}
}

func TestCircumstances(t *testing.T) {
	t.Parallel()
	with := func(change func(m *report.Manifest)) setup {
		return setup{ground: "host", change: func(m *report.Manifest, _ []report.Row) { change(m) }}
	}
	host := setup{ground: "host"}
	for _, c := range []struct {
		name            string
		base, candidate setup
		reason          string // empty where they are compared
	}{
		{"ground", setup{}, host, "the ground differs: sim and host"},
		{"processor", host, with(func(m *report.Manifest) { m.Machine.CPUModel = "another" }), "processor differs: a processor and another"},
		{"cores", host, with(func(m *report.Manifest) { m.Machine.Cores = 4 }), "number of its cores differs"},
		{"memory", host, with(func(m *report.Manifest) { m.Machine.RAMBytes /= 2 }), "its memory differs"},
		{"a little less memory", host, with(func(m *report.Manifest) { m.Machine.RAMBytes -= 1 << 20 }), ""},
		{"another kernel", host, with(func(m *report.Manifest) { m.Versions.Kernel = "6.2" }), ""},
		{"schema", setup{}, setup{change: func(m *report.Manifest, _ []report.Row) { m.SchemaVersion = 1 }}, "schema version"},
		{"computer of a simulation", setup{}, setup{change: func(m *report.Manifest, _ []report.Row) { m.Machine.Cores = 1 }}, ""},
		{"workload", setup{extra: "timeout: 1s\n"}, setup{extra: "timeout: 2s\n"}, "timeout differs: 1s and 2s"},
		{"load", setup{extra: "load: {rates: [1k]}\n"}, setup{extra: "load: {rates: [1k, 2k]}\n"}, "load.rates.1 differs: nothing and 2k"},
		{"modelled machine", setup{}, setup{change: func(m *report.Manifest, _ []report.Row) {
			m.ResolvedProfile = strings.Replace(m.ResolvedProfile, "cores: 4", "cores: 5", 1)
		}}, "machine.cores differs: 4 and 5"},
		{"a machine that host does not use", host, with(func(m *report.Manifest) {
			m.ResolvedProfile = strings.Replace(m.ResolvedProfile, "cores: 4", "cores: 5", 1)
		}), ""},
		{"variants", setup{extra: "variants: [{name: a, set: {workload.connections: 3}}]\n"}, setup{extra: "variants: [{name: a, set: {workload.connections: 4}}]\n"}, "variants.0.set.workload.connections differs"},
		{"settings of a controller in a variant", setup{extra: "variants: [{name: a, set: {controllers.0.settings.limit: 3}}]\n"}, setup{extra: "variants: [{name: a, set: {controllers.0.settings.limit: 4}}]\n"}, ""},
		{"settings of a controller", setup{}, setup{settings: "{limit: 9}"}, ""},
		{"settings of the server", setup{extra: "server: {settings: {slots: 4}}\n"}, setup{extra: "server: {settings: {slots: 5}}\n"}, ""},
		{"kind of server", setup{extra: "server: {kind: memcached}\n"}, setup{extra: "server: {kind: rocksdb}\n"}, "server.kind differs"},
		{"claims and titles", setup{extra: "title: a\nclaims: [{text: x}]\n"}, setup{extra: "title: b\n"}, ""},
		{"profile", setup{extra: "timeout: 1s\n"}, setup{name: "other", extra: "timeout: 2s\n"}, "of profile made-up, the candidate of other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base, candidate := []*report.Run{c.base.run()}, []*report.Run{c.candidate.run()}
			_, err := compare.Runs(base, candidate, atDefaults)
			var not *compare.NotComparable
			switch {
			case c.reason == "" && err != nil:
				t.Fatal(err)
			case c.reason != "" && (!errors.As(err, &not) || !strings.Contains(err.Error(), c.reason)):
				t.Fatalf("error %v, want %q", err, c.reason)
			}
			if c.name == "profile" && len(not.Reasons) != 1 {
				t.Errorf("of two profiles everything else differs too, and need not be said: %q", not.Reasons)
			}
			o := atDefaults
			o.Anyway = true
			r, err := compare.Runs(base, candidate, o)
			if err != nil || len(r.Comparisons) == 0 {
				t.Fatalf("anyway: %v", err)
			}
			if c.reason != "" && !strings.Contains(strings.Join(r.Warnings, "\n"), c.reason) {
				t.Errorf("compared anyway without a warning: %q", r.Warnings)
			}
		})
	}
	r := compared(t, setup{}, setup{settings: "{limit: 8}, warmup: 0s"}, atDefaults)
	if len(r.Settings) != 0 {
		t.Errorf("a warm-up that is none: %+v", r.Settings)
	}
	r = compared(t, setup{}, setup{settings: "{limit: 9}"}, atDefaults)
	if len(r.Settings) != 1 || r.Settings[0] != (compare.Setting{Profile: "made-up", Key: "controllers.fixed.settings.limit", Base: "8", Candidate: "9"}) {
		t.Errorf("settings that differ: %+v", r.Settings)
	}
}

// TestLoadsOfOneName: a share of a capacity that each side has searched for itself is not the same load.
func TestLoadsOfOneName(t *testing.T) {
	t.Parallel()
	factor := func(rps float64) setup {
		return setup{ground: "host", change: func(_ *report.Manifest, rows []report.Row) {
			for i := range rows {
				rows[i].LoadFactor, rows[i].OfferedTargetRPS = "1.5", report.Known(rps)
			}
		}}
	}
	r := compared(t, factor(1000), factor(1100), atDefaults)
	if c := of(t, r, "goodput_rps"); c.Outcome != compare.NotThere || !strings.Contains(c.Why, "--rates") || r.Comparable() {
		t.Errorf("%+v", c)
	}
	if c := of(t, compared(t, factor(1000), factor(1010), atDefaults), "goodput_rps"); c.Outcome == compare.NotThere {
		t.Errorf("%+v", c)
	}
}

func TestCanary(t *testing.T) {
	t.Parallel()
	host := func(compute, stream float64) setup {
		return setup{ground: "host", change: func(m *report.Manifest, _ []report.Row) {
			for i := range 6 {
				of := report.CanaryTimes{ComputeUS: compute * noise(i, 0.01), StreamUS: stream * noise(i+3, 0.01)}
				m.Points = append(m.Points, report.PointFacts{Canary: &report.CanaryFacts{Before: of, After: of}})
			}
		}}
	}
	worse := func(s setup) setup { s.goodput = scaled(0.8, 0.001); return s }
	r := compared(t, host(2000, 3000), worse(host(2000, 3000)), atDefaults)
	if len(r.Void) != 0 || len(r.Canaries) != 2 || !r.Regressed() {
		t.Errorf("a canary that did not move: %q, %+v", r.Void, r.Canaries)
	}
	for name, moved := range map[string]setup{"fixed compute": host(2200, 3000), "fixed stream": host(2000, 3300)} {
		r := compared(t, host(2000, 3000), worse(moved), atDefaults)
		if len(r.Void) != 1 || !strings.Contains(r.Void[0], name) || r.Regressed() || r.Comparable() || r.Count(compare.Void) != len(r.Comparisons) {
			t.Errorf("%s moved: %q, %+v", name, r.Void, r.Canaries)
		}
		finite(t, r)
	}
	if r := compared(t, host(2000, 3000), host(2010, 3000), atDefaults); len(r.Void) != 0 {
		t.Errorf("half a percent is below the least effect: %q", r.Void)
	}
	few := host(2200, 3000)
	all := few.change
	few.change = func(m *report.Manifest, rows []report.Row) {
		all(m, rows)
		m.Points = m.Points[:2]
	}
	if r := compared(t, host(2000, 3000), few, atDefaults); len(r.Void) != 0 || r.Canaries[0].Moved {
		t.Errorf("two points tell nothing: %q", r.Void)
	} else if !strings.Contains(strings.Join(r.Warnings, ""), "6 and 2 points, too few to tell") {
		t.Errorf("two points tell nothing, and nobody says so: %q", r.Warnings)
	}
	r = compared(t, host(2000, 3000), setup{ground: "host"}, atDefaults)
	if len(r.Void) != 0 || !strings.Contains(strings.Join(r.Warnings, ""), "fixed work") {
		t.Errorf("without a canary: %q, %q", r.Void, r.Warnings)
	}
}

func TestRunsOfOneProfileAreOneSide(t *testing.T) {
	t.Parallel()
	half := func(seed uint64, by float64) *report.Run {
		return setup{repeats: 3, seed: seed, goodput: func(_, _ string, load float64, repeat int) float64 {
			return load * noise(repeat+int(seed), 0.02) * by * noise(repeat+int(seed)+5, 0.004)
		}}.run()
	}
	r, err := compare.Runs([]*report.Run{half(1, 1), half(10, 1)}, []*report.Run{half(1, 0.9), half(10, 0.9)}, atDefaults)
	if err != nil {
		t.Fatal(err)
	}
	if c := of(t, r, "goodput_rps"); c.BaseN != 6 || c.Outcome != compare.Worse {
		t.Errorf("%+v", c)
	}
	other := setup{repeats: 3, seed: 10, settings: "{limit: 9}"}.run()
	var not *compare.NotComparable
	if _, err := compare.Runs([]*report.Run{half(1, 1), other}, []*report.Run{half(1, 1)}, atDefaults); !errors.As(err, &not) {
		t.Errorf("runs of different settings on one side: %v", err)
	}
}

func TestDirections(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"goodput_rps": 1, "optimum_share": 1, "served_share": 1, "latency_p99_us": -1, "shed_ratio": -1, "late": -1, "utilisation": 1, "idle_share": -1, "settle_us": -1,
		"offered_rps": 0, "cpu_ratio": 0, "send_lag_p99_us": 0, "regret": 0, "served_gain": 0, "nonsense": 0, "optimum_rps": 0, "credits_mean": 0,
	} {
		if got := report.Direction(name); got != want {
			t.Errorf("%s has direction %d, want %d", name, got, want)
		}
	}
}
