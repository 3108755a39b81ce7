package profiles

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// shared is an allocation with every part; line numbers in the table below count from here.
const shared = `name: s
on: sim
workload:
  kind: allocation
  classes: [{name: high, share: 0.7}, {name: low, share: 0.3}]
  allocation:
    budget: 10k
    locations: 4
    skew: 0.8
    lag: 0
    scenarios:
      - {name: one, demand: {high: {level: 0.8, swing: {by: 0.2, every: 20s}}, low: {level: 3, at: [1, 2], pulses: {on: 20s, of: 60s, calm: 0.1}}}}
      - {name: two, basis: by construction, shares: {high: 0.5, low: 0.5}, demand: {low: {level: 1, order: reversed, reports: {times: 5, at: [4]}}}, waiting: {class: low, to: high, clears: 0.2, leaves: 0.1}}
    surfaces:
      - {name: gain, of: one, rows: {key: calm_share.low, values: [0.1, 0.5]}, columns: {key: surplus.low, values: [0.1, 0.3]}, metric: served_gain, class: high, controller: two-level, over: static, paper: 0.015, within: 0.005}
      - {name: more, of: one, rows: {key: demand.high, values: [1, 2]}, columns: {key: share.high, values: [0.4]}, metric: served_share, class: high, controller: static}
    faults: [{at: 10s, kill: edge-4}, {at: 20s, kill: allocator}]
controllers: [{name: two-level, settings: {lend: "0.5,1"}}, {name: static}]
warmup: 10s
window: 60s
claims:
  - {text: a, metric: served_gain, class: high, controller: two-level, over: [static], variant: "*", take: most, holds_at: 0.00001}
  - {text: b, metric: current_idle, controller: two-level, variant: gain-0.1-0.3, holds_under: 0.000000001}
`

func TestAllocationMistakes(t *testing.T) {
	t.Parallel()
	if _, err := Parse("f.yaml", []byte(shared)); err != nil {
		t.Fatalf("the base of the table is wrong itself: %v", err)
	}
	for name, tt := range map[string]struct{ old, new, want string }{
		"no budget":             {"    budget: 10k\n", "", "an allocation has a budget"},
		"no locations":          {"locations: 4", "locations: 0", "f.yaml:8:16: locations is between 1 and 100000"},
		"unknown key":           {"skew: 0.8", "scew: 0.8", `f.yaml:9:5: unknown key "scew"; did you mean "skew"?`},
		"negative lag":          {"lag: 0", "lag: -1", "f.yaml:10:10: lag is between 0 and 1000 cycles"},
		"half a cycle":          {"window: 60s", "window: 60500ms", "f.yaml:20:9: window is a whole number of cycles, which are 1s each, at least 1; this is 1m0.5s"},
		"warm-up of half":       {"warmup: 10s", "warmup: 500ms", "f.yaml:19:9: warmup is a whole number of cycles"},
		"pulse of half":         {"on: 20s", "on: 20500ms", "f.yaml:12:121: on is a whole number of cycles"},
		"pulse too long":        {"on: 20s", "on: 61s", "a pulse is no longer than the time from one to the next"},
		"swing too fast":        {"every: 20s", "every: 1s", "f.yaml:12:73: every is a whole number of cycles, which are 1s each, at least 2"},
		"swing too far":         {"by: 0.2", "by: 2", "f.yaml:12:61: by is between 0 and 1"},
		"location beyond":       {"at: [1, 2]", "at: [1, 5]", "f.yaml:12:104: locations count from 1 to 4"},
		"location twice":        {"at: [1, 2]", "at: [1, 1]", "location 1 stands here a second time"},
		"nowhere":               {"at: [1, 2]", "at: []", "at names at least one location"},
		"order":                 {"order: reversed", "order: reverse", `unknown order "reverse"; did you mean "reversed"?`},
		"class of a demand":     {"demand: {high:", "demand: {hihg:", `did you mean "high"?`},
		"scenario twice":        {"name: two, basis", "name: one, basis", `the scenario "one" stands here a second time`},
		"basis":                 {"by construction", "by chance", `unknown basis "by chance"`},
		"shares":                {"{high: 0.5, low: 0.5}", "{high: 0.5, low: 0.4}", "the shares sum to 0.9, not to 1"},
		"shares of the classes": {"share: 0.7", "share: 0.6", "the shares sum to 0.9, not to 1"},
		"waits for itself":      {"to: high", "to: low", "who waits is cleared for another class"},
		"waits too much":        {"leaves: 0.1", "leaves: 0.9", "sum to at most 1"},
		"surface of nothing":    {"name: gain, of: one", "name: gain, of: onne", `unknown of "onne"; did you mean "one"?`},
		"surface metric":        {"metric: served_share", "metric: goodput_rps", `unknown metric "goodput_rps"`},
		"surface over nothing":  {", over: static, paper", ", paper", "served_gain and served_loss are over another controller"},
		"surface controller":    {"high, controller: static}", "high, controller: statik}", `did you mean "static"?`},
		"axis":                  {"key: demand.high", "key: load.high", `f.yaml:16:43: "load.high" is no parameter; write one of share, demand, calm, calm_share, surplus, a dot and a class`},
		"axis without a class":  {"key: demand.high", "key: demand", `"demand" is no parameter`},
		"axis without pulses":   {"key: calm_share.low", "key: calm_share.high", "calm_share needs pulses, which class high of scenario one has none of"},
		"axis twice the same":   {"values: [1, 2]", "values: [1, 1]", "1 stands here a second time"},
		"axis out of range":     {"values: [0.4]", "values: [1]", "a share is between 0 and 1, both excluded"},
		"both axes the same":    {"key: share.high", "key: demand.high", "rows and columns vary the same parameter"},
		"fault too late":        {"at: 20s, kill", "at: 60s, kill", "a fault happens within the window, which is 1m"},
		"fault of nobody":       {"kill: edge-4", "kill: edge-5", `"edge-5": kill is allocator, or edge-1 to edge-4`},
		"load":                  {"warmup: 10s", "load: {rates: [1k]}\nwarmup: 10s", "an allocation has no load"},
		"machine":               {"warmup: 10s", "machine: xl170\nwarmup: 10s", "an allocation has no machine"},
		"variants":              {"warmup: 10s", "variants: [{name: a, set: {}}]\nwarmup: 10s", "an allocation has no variants"},
		"slo":                   {"name: low, share: 0.3", "name: low, share: 0.3, slo: 1ms", "leave slo out"},
		"work":                  {"name: low, share: 0.3", "name: low, share: 0.3, work: [{compute: 1us}]", "leave work out"},
		"another server":        {"on: sim\n", "on: sim\nserver: {kind: synthetic}\n", "servers of the kind web"},
		"another kind":          {"workload:\n  kind: allocation\n", "server: {kind: synthetic}\nworkload:\n  kind: replay\n", "allocation belongs to the workload kind allocation, this is replay"},
		"gain over nothing":     {"over: [static], variant", "variant", "served_gain is over another controller; give over"},
		"claim of a wrong cell": {"variant: gain-0.1-0.3", "variant: gain-0.1-0.4", `unknown variant "gain-0.1-0.4"; did you mean "gain-0.1-0.1"?`},
		"claim at a load":       {"take: most", "at: 1k", `"1k" is no load of this profile`},
	} {
		if !strings.Contains(shared, tt.old) {
			t.Fatalf("%s: %q is not in the base", name, tt.old)
		}
		_, err := Parse("f.yaml", []byte(strings.Replace(shared, tt.old, tt.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v\nwant it to have %q", name, err, tt.want)
		}
	}
}

// TestAllocationRuns: every scenario is a run, and every cell of a surface, with the parameters that its place says.
func TestAllocationRuns(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(shared))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	runs := map[string]*Profile{}
	for _, run := range p.Runs() {
		var labels []string
		for i := range run.Controllers {
			labels = append(labels, run.Controllers[i].Label())
		}
		got = append(got, run.RowName()+" "+strings.Join(labels, ","))
		runs[run.Variant()] = run
	}
	want := []string{
		"s/one two-level,static", "s/two two-level,static", "s/gain-0.1-0.1 two-level,static", "s/gain-0.1-0.3 two-level,static",
		"s/gain-0.5-0.1 two-level,static", "s/gain-0.5-0.3 two-level,static", "s/more-1-0.4 static", "s/more-2-0.4 static",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	s := runs["gain-0.5-0.1"].Workload.Scenario()
	low := s.Demand["low"]
	if low.Pulses.On.String() != "30s" || math.Abs(low.Pulses.Calm-0.2) > 1e-12 || s.Cell == nil || s.Cell.Row != 0.5 || s.Cell.Column != 0.1 {
		t.Errorf("a cell of the surface has pulses %+v at %+v", low.Pulses, s.Cell)
	}
	if mean := low.Mean(); math.Abs(mean-1.6) > 1e-12 {
		t.Errorf("its mean demand is %g", mean)
	}
	s = runs["more-2-0.4"].Workload.Scenario()
	if s.Demand["high"].Level != 2 || s.Shares["high"] != 0.4 || math.Abs(s.Shares["low"]-0.6) > 1e-12 {
		t.Errorf("a cell has demand %+v and shares %v", s.Demand["high"], s.Shares)
	}
	if base := runs["one"].Workload.Scenario(); base.Demand["low"].Pulses.On.String() != "20s" || base.Shares != nil {
		t.Errorf("the scenario that surfaces start from has changed: %+v", base)
	}
	// Only the controllers that are left are run, on surfaces too.
	fewer, err := p.WithControllers([]string{"static"}, []string{"two-level", "static"})
	if err != nil || len(fewer.Runs()) != 8 || len(fewer.Runs()[2].Controllers) != 1 {
		t.Errorf("with one controller: %v, %d runs", err, len(fewer.Runs()))
	}
	set, err := p.Set([]Assignment{{Key: "workload.allocation.surfaces", Value: "null", Origin: "--set"}, {Key: "workload.allocation.scenarios.0.demand.high.level", Value: "0.9", Origin: "--set"}})
	if err != nil || len(set.Runs()) != 2 || set.Runs()[0].Workload.Scenario().Demand["high"].Level != 0.9 {
		t.Errorf("with keys set: %v", err)
	}
	// What is written out is the same profile, a lag of 0 and a tiny threshold included.
	again, err := Parse("f.yaml", p.Resolved())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, again, cmpopts.IgnoreUnexported(Profile{})); diff != "" {
		t.Errorf("read again (-was +is):\n%s", diff)
	}
}

func TestAllocationInWords(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(shared))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"high 0.8, ±0.2 every 20s; low 3 for 20s of every 1m0s, else 0.1, at [1 2] only",
		"low 1, weights reversed, reported ×5 at [4]; low waits: in a cycle 0.2 of it clears to high, 0.1 leaves",
	} {
		if got := p.Workload.Allocation.Scenarios[i].AllocationText([]string{"high", "low"}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
