package profiles

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// several is a profile with what makes an experiment of several parts; line numbers in the table below count from here.
const several = `name: s
on: sim
machine: {cores: 2, bus: {total: 4GB, per_core: 2GB}}
server: {kind: synthetic, replicas: 2}
workload:
  kind: synthetic
  classes:
    - {name: cpu, share: 0.5, slo: 1ms, priority: 1, work: [{compute: 10us}]}
    - {name: memory, share: 0.5, slo: {p50: 1ms, p99: 4ms}, work: [{stream: 4kB}]}
load: {rates: [1k, 2k], drift: {period: 1s, shares: {cpu: 0.9, memory: 0.1}}}
controllers: [{name: none, parts: []}, {name: fixed, as: eight, parts: [limit], warmup: 2s}]
variants: [{name: slow, set: {}}, {name: fast, set: {machine.bus.total: 8GB}}]
retry: {to: other, budget: 0.1}
claims:
  - {text: more, metric: goodput_rps, class: cpu, controller: eight, over: [none], take: max, variant: fast, paper: 2, holds_at: 1.5}
  - {text: prompt, metric: latency_p99_us, controller: eight, at: 2k, holds_under: 900}
`

func TestExperimentMistakes(t *testing.T) {
	t.Parallel()
	if _, err := Parse("f.yaml", []byte(several)); err != nil {
		t.Fatalf("the base of the table is wrong itself: %v", err)
	}
	phases := "phases: [{for: 1s, rate: 1k}, {for: 2s, rate: 2k, shares: {cpu: 1}}]}"
	load := "rates: [1k, 2k], drift: {period: 1s, shares: {cpu: 0.9, memory: 0.1}}}"
	for name, tt := range map[string]struct{ old, new, want string }{
		"priority out of range":       {"priority: 1", "priority: 256", "f.yaml:8:51: priority is between 0, the most important, and 255"},
		"drift to an unknown class":   {"memory: 0.1", "memry: 0.1", `f.yaml:10:71: unknown memry "memry"; did you mean "memory"?`},
		"drift that does not sum":     {"memory: 0.1", "memory: 0.2", "f.yaml:10:54: the shares sum to 1.1, not to 1"},
		"drift without shares":        {", shares: {cpu: 0.9, memory: 0.1}", "", "f.yaml:10:33: a drift has shares"},
		"drift without a period":      {"period: 1s, ", "", "f.yaml:10:33: the period of a drift is between 1us and 24h"},
		"drift of a closed loop":      {"  kind: synthetic\n", "  kind: synthetic\n  arrivals: closed\n", "f.yaml:11:33: the clients of a closed loop have no common time"},
		"drift beside phases":         {"rates: [1k, 2k]", strings.TrimSuffix(phases, "}"), "f.yaml:10:86: phases say the shares over time themselves"},
		"phase without a rate":        {load, "phases: [{for: 1s}]}", "f.yaml:10:18: a phase has a rate"},
		"phase without length":        {load, "phases: [{rate: 1k}]}", "f.yaml:10:18: a phase lasts longer than 0"},
		"phase of an unknown class":   {load, strings.Replace(phases, "cpu", "cpo", 1), `f.yaml:10:72: unknown cpo "cpo"; did you mean "cpu"?`},
		"phases and a window":         {load, phases + "\nwindow: 3s", "f.yaml:11:9: with load.phases the window is as long as they are together"},
		"phases and a shape":          {"  kind: synthetic\n", "  kind: synthetic\n  shape: \"ramp:1..2@1s\"\n", ""},
		"variant twice":               {"name: fast", "name: slow", `f.yaml:12:42: the variant "slow" stands here a second time`},
		"variant of the whole":        {"machine.bus.total: 8GB", "claims.0.paper: 3", "f.yaml:12:70: claims is of the whole experiment"},
		"variant with a wrong key":    {"machine.bus.total: 8GB", "machine.buss.total: 8GB", `variant fast: machine.buss.total: unknown key "buss"; did you mean "bus"?`},
		"variant with a wrong value":  {"total: 8GB", "total: 8", `f.yaml:12:73: variant fast: machine.bus.total: size "8"`},
		"variant that breaks another": {"machine.bus.total: 8GB", "server.replicas: 1", "f.yaml:12:36: variant fast: there is no other server to retry at"},
		"variant of other classes":    {"machine.bus.total: 8GB", "workload.classes.0.name: gpu, load.drift: null", "f.yaml:12:36: variant fast: it has other classes"},
		"variant of another slo":      {"machine.bus.total: 8GB", "workload.classes.0.slo: 9ms", "f.yaml:12:36: variant fast: class cpu has another slo"},
		"variant of other labels":     {"machine.bus.total: 8GB", "controllers.1.as: nine", "f.yaml:12:36: variant fast: it has other controllers"},
		"variant of phases":           {"machine.bus.total: 8GB", "load: {phases: [{for: 1s, rate: 1k}]}", "f.yaml:12:36: variant fast: either all variants have phases or none"},
		"variant key":                 {"name: fast, set:", "name: fast, sets:", `f.yaml:12:48: unknown key "sets"; did you mean "set"?`},
		"part twice":                  {"[limit]", "[limit, limit]", `f.yaml:11:80: the part "limit" stands here a second time`},
		"part that is no name":        {"[limit]", "[=limit]", `"=limit" is not a name`},
		"retry elsewhere":             {"to: other", "to: same", `f.yaml:13:13: unknown to "same"; it is one of other`},
		"retry without a budget":      {", budget: 0.1", "", "f.yaml:13:9: a retry has a budget above 0"},
		"retry budget":                {"budget: 0.1", "budget: 2", "f.yaml:13:28: budget is between 0 and 1"},
		"retry primary":               {"budget: 0.1", "budget: 0.1, primary: frist", `unknown primary "frist"; did you mean "first"?`},
		"retry without another":       {", replicas: 2", "", "f.yaml:13:9: there is no other server to retry at"},
		"replicas":                    {"replicas: 2", "replicas: 65", "f.yaml:4:37: replicas is 1 to 64"},
		"claim about nothing":         {"metric: goodput_rps, ", "", "claims.0.metric is missing"},
		"claim about a wrong metric":  {"metric: goodput_rps", "metric: goodput", `f.yaml:15:26: unknown metric "goodput"; did you mean "goodput_rps"?`},
		"claim about no metric":       {"metric: goodput_rps", "metric: zzzzzz", `f.yaml:15:26: unknown metric "zzzzzz"; it is one of offered_rps, `},
		"claim about a near metric":   {"metric: goodput_rps", "metric: goodput_rp", `f.yaml:15:26: unknown metric "goodput_rp"; did you mean "goodput_rps"?`},
		"claim about a wrong class":   {"class: cpu", "class: cpi", `f.yaml:15:46: unknown class "cpi"; did you mean "cpu"?`},
		"claim of a wrong controller": {"controller: eight, over", "controller: eigth, over", `f.yaml:15:63: unknown controller "eigth"; did you mean "eight"?`},
		"claim over a wrong baseline": {"over: [none]", "over: [nine]", `f.yaml:15:77: unknown entry 0 of over "nine"; did you mean "none"?`},
		"claim over itself":           {"over: [none]", "over: [eight]", "eight is held against itself"},
		"claim over one twice":        {"over: [none]", "over: [none, none]", "none stands here a second time"},
		"claim that takes a median":   {"take: max", "take: median", `f.yaml:15:90: unknown take "median"; did you mean "mean"?`},
		"claim of a wrong variant":    {"variant: fast", "variant: fest", `f.yaml:15:104: unknown variant "fest"; did you mean "fast"?`},
		"claim without a threshold":   {", holds_at: 1.5", "", "f.yaml:15:6: a claim has exactly one of holds_at (at least) and holds_under (at most)"},
		"claim with two thresholds":   {"holds_at: 1.5", "holds_at: 1.5, holds_under: 2", "a claim has exactly one of"},
		"claim at no load":            {"at: 2k", "at: 3k", `f.yaml:16:67: "3k" is no load of this profile; its loads are 1k, 2k`},
		"claim at and take":           {"at: 2k", "at: 2k, take: max", "f.yaml:16:67: at leaves one load"},
		"claim without a text":        {"text: more, ", "", "f.yaml:15:6: a claim has a text"},
		"claim of two lines":          {"text: more", `text: "a\nb"`, "f.yaml:15:6: the text and the note of a claim are one line each"},
		"claim key":                   {"take: max", "taek: max", `f.yaml:15:84: unknown key "taek"; did you mean "take"?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(several, tt.old, tt.new, 1)
			if text == several {
				t.Fatalf("the base has no %q", tt.old)
			}
			_, err := Parse("f.yaml", []byte(text))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to have %q", err, tt.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("error %q does not begin with the file", err)
			}
		})
	}
}

// TestVariantsAreProfiles: each variant is the profile with its keys set, and nothing else of it differs.
func TestVariantsAreProfiles(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(several))
	if err != nil {
		t.Fatal(err)
	}
	runs := p.Runs()
	if len(runs) != 2 || runs[0].RowName() != "s/slow" || runs[1].RowName() != "s/fast" || p.RowName() != "s" || runs[1].Variant() != "fast" {
		t.Fatalf("runs %v", runs)
	}
	want := *p
	want.Variants, want.Claims = nil, nil
	opts := cmp.Options{cmpopts.IgnoreUnexported(Profile{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(&want, runs[0], opts); diff != "" {
		t.Errorf("the variant that sets nothing (-want +got):\n%s", diff)
	}
	machine := *p.Machine
	machine.Bus = &Bus{Total: 8e9, PerCore: 2e9}
	machine.Provenance = runs[1].Machine.Provenance
	want.Machine = &machine
	if diff := cmp.Diff(&want, runs[1], opts); diff != "" {
		t.Errorf("the other variant (-want +got):\n%s", diff)
	}
	if runs[1].Machine.Origin("bus.total") != Assumed {
		t.Errorf("the figure that was set is %s", runs[1].Machine.Origin("bus.total"))
	}
	if err := runs[1].Mistake("controllers.1.name", "wrong"); !strings.HasPrefix(err.Error(), "f.yaml:11:") {
		t.Errorf("a mistake in a variant is said to be at %q", err)
	}
	// What is set from outside is so in every variant; what the variant sets itself it keeps.
	q, err := p.Set(assignments(t, "load={rates: [5k]}", "machine.bus.total=1GB", "variants.1.set={machine.cores: 4}"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Set(assignments(t, "variants.1.set.machine.bus.total=3GB", "variants.0.set.machine.cores=7")); err != nil || r.Runs()[1].Machine.Bus.Total != 3e9 || r.Runs()[0].Machine.Cores != 7 {
		t.Errorf("a key of a variant cannot be set: %v", err)
	}
	if fast := q.Runs()[1]; fast.Machine.Bus.Total != 1e9 || fast.Machine.Cores != 4 || len(fast.Load.Rates) != 1 || fast.Load.Rates[0] != 5000 {
		t.Errorf("after --set the variant has %+v, %+v", fast.Machine, fast.Load)
	}
	only, err := p.WithControllers([]string{"eight"}, nil)
	if err != nil || len(only.Runs()[1].Controllers) != 1 {
		t.Errorf("%v: --controllers left the variants as they were", err)
	}
	none, err := p.Set(assignments(t, "variants=null", "claims=null"))
	if err != nil || len(none.Runs()) != 1 || none.Runs()[0] != none {
		t.Errorf("%v: without variants there are %d runs", err, len(none.Runs()))
	}
}

// TestUnvaried: what is set from outside is taken out of the variants, and nothing else of them.
func TestUnvaried(t *testing.T) {
	t.Parallel()
	text := strings.Replace(several, "set: {machine.bus.total: 8GB}", "set: {load: {rates: [9k, 2k], drift: {period: 1s, shares: {cpu: 1}}}, machine.bus.total: 8GB, window: 2s}", 1)
	text = strings.Replace(text, "{name: slow, set: {}}", "{name: slow, set: {load.drift.period: 3s}}", 1)
	p, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := p.Unvaried("--rates", "load.rates", "load.of_capacity")
	want := []Assignment{{Key: "variants.1.set.load", Value: "null", Origin: "--rates"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	q, err := p.Set(append(assignments(t, "load.rates=[7k]", "window=1s"), append(got, p.Unvaried("--window", "window")...)...))
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := q.Runs()[0], q.Runs()[1]
	if slow.Load.Rates[0] != 7000 || fast.Load.Rates[0] != 7000 || slow.Load.Drift.Period != 3*time.Second || fast.Window != time.Second || fast.Machine.Bus.Total != 8e9 {
		t.Errorf("loads %+v and %+v", slow.Load, fast.Load)
	}
}

// TestClaimsSurviveSet: what --set or --rates takes away from under a claim leaves a claim that cannot be decided, not a profile that cannot
// be run. A claim that is set itself is checked like one in the file.
func TestClaimsSurviveSet(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(several))
	if err != nil {
		t.Fatal(err)
	}
	q, err := p.Set(assignments(t, "load={rates: [7k]}", "controllers=[{name: none}]"))
	if err != nil {
		t.Fatal(err)
	}
	if got := q.LoadName(&q.Claims[1]); got != "2000" {
		t.Errorf("the claim is about %q", got)
	}
	if _, err := p.Set(assignments(t, "claims.1.controller=nine")); err == nil || !strings.HasPrefix(err.Error(), `--set claims.1.controller=nine: unknown controller "nine"`) {
		t.Errorf("a wrong claim was set: %v", err)
	}
	if _, err := p.Set(assignments(t, "claims=[{text: t, metric: goodput_rps, controller: nobody, holds_at: 1}]")); err == nil {
		t.Error("a claim about nobody was set")
	}
}

func TestLoadNames(t *testing.T) {
	t.Parallel()
	rates, factors := Sweep{Rates: []Rate{50_000, 1.5e6, 0.5}}, Sweep{OfCapacity: []Factor{"0.9", "2"}}
	for _, tt := range []struct {
		load     *Sweep
		at, want string
		is       bool
	}{
		{&rates, "50k", "50000", true},
		{&rates, "50000", "50000", true},
		{&rates, "1.5M", "1500000", true},
		{&rates, "0.5", "0.5", true},
		{&rates, "51k", "", false},
		{&rates, "2x", "", false},
		{&factors, "0.9", "0.9x", true},
		{&factors, "0.90x", "0.9x", true},
		{&factors, "2", "2x", true},
		{&factors, "3", "", false},
		{&Sweep{}, "x", "", false},
	} {
		if got, ok := tt.load.find(tt.at); got != tt.want || ok != tt.is {
			t.Errorf("%q is %q, %v; want %q, %v", tt.at, got, ok, tt.want, tt.is)
		}
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	text := strings.Replace(several, "rates: [1k, 2k], drift: {period: 1s, shares: {cpu: 0.9, memory: 0.1}}}",
		"phases: [{for: 1s, rate: 1k}, {for: 3s, rate: 2k, shares: {cpu: 1}}]}", 1)
	p, err := Parse("f.yaml", []byte(strings.Replace(text, "at: 2k, ", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if p.Window != 4*time.Second || p.Load.MeanRate() != 1750 {
		t.Errorf("a window of %v with a mean of %g requests per second", p.Window, p.Load.MeanRate())
	}
	w := &p.Workload
	if diff := cmp.Diff([][]float64{{0.5, 0.5}, {1, 0}}, [][]float64{w.SharesOf(p.Load.Phases[0].Shares), w.SharesOf(p.Load.Phases[1].Shares)}); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	again, err := Parse("again.yaml", p.Resolved())
	if err != nil || again.Window != p.Window {
		t.Errorf("resolved and read again: %v\n%s", err, p.Resolved())
	}
	longer, err := p.Set(assignments(t, "load.phases.1.for=9s"))
	if err != nil || longer.Window != 10*time.Second {
		t.Errorf("after --set: %v, %v", longer, err)
	}
	if _, err := p.Set(assignments(t, "window=1s")); err == nil || !strings.HasPrefix(err.Error(), "--set window=1s: with load.phases") {
		t.Errorf("a window beside phases: %v", err)
	}
	// A class of a later phase needs no share of its own, and does no harm when the phases are taken away.
	later, err := Parse("f.yaml", []byte(strings.NewReplacer("cpu, share: 0.5", "cpu, share: 0", "memory, share: 0.5", "memory, share: 1", "at: 2k, ", "").Replace(text)))
	if err != nil {
		t.Fatal(err)
	}
	if flat, err := later.Set(assignments(t, "load.rates=[1k]", "load.phases=null")); err != nil || flat.Load.Rates == nil {
		t.Errorf("rates instead of phases: %v", err)
	}
	if _, err := later.Set(assignments(t, "load={rates: [1k]}", "workload.classes.0.share=0")); err == nil {
		t.Error("a share of nothing was set")
	}
}
