package profiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everything has every part of the basic form.
const everything = `name: svalinn-synthetic
title: CPU-bound and memory-bound requests, half and half
source: {paper: svalinn, figure: "4"}
on: sim
machine: {cores: 18, bus: {total: 36GB, per_core: 6GB, decay: 0.01}, network: 5us, ram: 64GiB, provenance: {bus: assumed}}
server:
  kind: synthetic
  settings: {lock: fair}
  replicas: 2
workload:
  kind: synthetic
  connections: 100
  arrivals: poisson
  classes:
    - {name: cpu, share: 0.5, slo: 500us, priority: 3, work: [{compute: 72us}, {lock: a, for: exp:5us}, {wait: 1ms}]}
    - {name: memory, share: 0.5, slo: {p50: 18ms, p90: 50ms}, work: [{section: memory, steps: [{stream: 819200B, at: 3GB}]}, {memory: 1MiB}]}
load:
  phases: [{for: 1s, rate: 166k, shares: {cpu: 0.7, memory: 0.3}}, {for: 2s, rate: 10k}]
controllers:
  - {name: none}
  - {name: svalinn, settings: {budget: 200us, step: 1, alpha: 0.60, perturb: true}}
  - {name: svalinn, as: svalinn-wait, settings: {section: wait-if-uncongested}, parts: [credits, section], warmup: 4s}
  - {name: none, as: nothing, parts: []}
variants: [{name: plain, set: {}}, {name: bus55, set: {machine.bus.total: 55GB, controllers.1.settings: {budget: 1ms}}}]
retry: {to: other, budget: 0.1, primary: first}
timeout: 10s
drain: 0s
warmup: 3s
repeats: 3
seed: 7
claims:
  - {text: "CPU goodput over the baselines", metric: goodput_rps, class: cpu, controller: svalinn, over: [none], take: max, variant: bus55, paper: 5.06, holds_at: 3.0}
  - {text: "no memory-bound request is dropped", metric: drop_ratio, class: memory, controller: svalinn, holds_under: 0, note: "a bound of 0 is one"}
`

func TestParseEveryPart(t *testing.T) {
	t.Parallel()
	p, err := Parse("everything.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	want := Profile{
		Name: "svalinn-synthetic", Title: "CPU-bound and memory-bound requests, half and half",
		Source: &Source{Paper: "svalinn", Figure: "4"}, On: "sim",
		Machine: &Machine{
			Cores: 18, Bus: &Bus{Total: 36e9, PerCore: 6e9, Decay: 0.01}, Network: 5 * time.Microsecond, RAM: 64 << 30,
			Provenance: map[string]string{"bus": "assumed"},
		},
		Server: Server{Kind: "synthetic", Settings: map[string]string{"lock": "fair"}, Replicas: 2},
		Workload: Workload{
			Kind: "synthetic", Connections: 100, Arrivals: "poisson",
			Classes: []Class{
				{
					Name: "cpu", Share: 0.5, SLO: SLO{Limit: 500 * time.Microsecond}, Priority: 3,
					Work: []Step{{Compute: "72us"}, {Lock: "a", For: "exp:5us"}, {Wait: "1ms"}},
				},
				{
					Name: "memory", Share: 0.5,
					SLO: SLO{
						Limit:       50 * time.Millisecond,
						Percentiles: map[string]time.Duration{"p50": 18 * time.Millisecond, "p90": 50 * time.Millisecond},
					},
					Work: []Step{{Section: "memory", Steps: []Step{{Stream: "819200B", At: 3e9}}}, {Memory: "1MiB"}},
				},
			},
		},
		Load: Sweep{Phases: []Phase{
			{For: time.Second, Rate: 166e3, Shares: map[string]float64{"cpu": 0.7, "memory": 0.3}},
			{For: 2 * time.Second, Rate: 10e3},
		}},
		Controllers: []Controller{
			{Name: "none"},
			{Name: "svalinn", Settings: map[string]string{"budget": "200us", "step": "1", "alpha": "0.60", "perturb": "true"}},
			{
				Name: "svalinn", As: "svalinn-wait", Settings: map[string]string{"section": "wait-if-uncongested"},
				Parts: []string{"credits", "section"}, WarmUp: 4 * time.Second,
			},
			{Name: "none", As: "nothing", Parts: []string{}},
		},
		Variants: []Variant{
			{Name: "plain", Set: map[string]Inline{}},
			{Name: "bus55", Set: map[string]Inline{"machine.bus.total": "55GB", "controllers.1.settings": "{budget: 1ms}"}},
		},
		Retry:   &Retry{To: "other", Budget: 0.1, Primary: PrimaryFirst},
		Timeout: 10 * time.Second, WarmUp: 3 * time.Second, Window: 3 * time.Second, Repeats: 3, Seed: 7,
		Claims: []Claim{{
			Text: "CPU goodput over the baselines", Metric: "goodput_rps", Class: "cpu", Controller: "svalinn", Over: []string{"none"},
			Take: "max", Variant: "bus55", Paper: new(5.06), HoldsAt: new(3.0),
		}, {
			Text: "no memory-bound request is dropped", Metric: "drop_ratio", Class: "memory", Controller: "svalinn", HoldsUnder: new(0.0),
			Note: "a bound of 0 is one",
		}},
	}
	if diff := cmp.Diff(want, *p, cmpopts.IgnoreUnexported(Profile{})); diff != "" {
		t.Errorf("decoded profile (-want +got):\n%s", diff)
	}
	again, err := Parse("again.yaml", p.Resolved())
	if err != nil {
		t.Fatalf("the resolved profile cannot be read: %v\n%s", err, p.Resolved())
	}
	if again.Controllers[3].Parts == nil || again.Controllers[0].Parts != nil {
		t.Error("no parts and a list of no parts are the same after writing")
	}
	if diff := cmp.Diff(p, again, cmpopts.IgnoreUnexported(Profile{})); diff != "" {
		t.Errorf("resolved and read again (-first +second):\n%s", diff)
	}
}

// base is a small profile for the tables of mistakes; line numbers in them count from here.
const base = `name: x
server: {kind: memcached}
workload:
  kind: kv
  connections: 4
  classes: [{name: a, share: 1, slo: 1ms, keys: 10, value: 100B}]
load: {rates: [1k]}
controllers: [{name: none}]
`

func TestMistakes(t *testing.T) {
	t.Parallel()
	if _, err := Parse("f.yaml", []byte(base)); err != nil {
		t.Fatalf("the base of the table is wrong itself: %v", err)
	}
	tests := []struct{ name, old, new, want string }{
		{"unknown key", "connections", "conections", `f.yaml:5:3: unknown key "conections"; did you mean "connections"?`},
		{"unknown key far from all", "name: x", "colour: blue", `f.yaml:1:1: unknown key "colour"; known here: name, title,`},
		{"unknown key in a list", "keys: 10", "kays: 10", `f.yaml:6:43: unknown key "kays"; did you mean "keys"?`},
		{"no unit", "\nload:", "\nwindow: 5\nload:", `f.yaml:7:9: duration "5" has no unit`},
		{"negative duration", "\nload:", "\nwindow: -5s\nload:", `f.yaml:7:9: duration "-5s": must not be negative`},
		{"no window", "\nload:", "\nwindow: 0s\nload:", `f.yaml:7:9: window is between 1us and 24h`},
		{"text for a number", "connections: 4", "connections: many", `f.yaml:5:16: connections is a whole number, not "many"`},
		{"fraction for a count", "connections: 4", "connections: 4.5", `f.yaml:5:16: connections is a whole number, not "4.5"`},
		{"count out of range", "connections: 4", "connections: 0", `f.yaml:5:16: connections is between 1 and 65536`},
		{"value for a list", "[{name: none}]", "none", `f.yaml:8:14: controllers is a list such as [a, b], not "none"`},
		{"list for a mapping", "{rates: [1k]}", "[1k]", `f.yaml:7:7: load is a mapping with the keys rates, of_capacity, phases, drift, speeds, not a list`},
		{"mapping for a value", "name: x", "name: {a: b}", `f.yaml:1:8: name is a single value, not a mapping`},
		{"nothing", "name: x", "name:", `f.yaml:1:6: name has no value; leave the key out or give it one`},
		{"formula as a name", "name: x", "name: '=1+1'", `f.yaml:1:7: "=1+1" is not a name`},
		{"formula as a label", "name: none", "name: none, as: '@x'", `"@x" is not a name`},
		{"no name", "name: x\n", "", `name is missing`},
		{"rate", "1k", "1q", `f.yaml:7:16: rate "1q"`},
		{"rate of nothing", "1k", "0", `f.yaml:7:16: rate 0 is outside 0 (excluded) to 1000M`},
		{"rate twice", "1k", "1k, 1000", `f.yaml:7:20: rate 1k stands here a second time; use repeats`},
		{"two loads", "{rates: [1k]}", "{rates: [1k], of_capacity: [1]}", `f.yaml:7:8: load has exactly one of`},
		{"no load", "{rates: [1k]}", "{rates: []}", `f.yaml:7:8: load has exactly one of`},
		{"factor", "{rates: [1k]}", "{of_capacity: [1, -2]}", `f.yaml:7:25: "-2" is not a factor`},
		{"size without unit", "100B", "100", `f.yaml:6:60: distribution "100": size "100"`},
		{"shares", "share: 1,", "share: 0.9,", `f.yaml:6:12: the shares sum to 0.9, not to 1`},
		{"class twice", "{name: a, share: 1,", "{name: a, share: 0.5, keys: 1, value: 1B}, {name: a, share: 0.5,", `class "a" stands here a second time`},
		{"class all", "name: a", "name: all", `f.yaml:6:20: "all" is the name of the classes pooled`},
		{"label twice", "[{name: none}]", "[{name: none}, {name: none}]", `f.yaml:8:30: the label "none" stands here a second time`},
		{"kind", "kind: memcached", "kind: memcache", `f.yaml:2:16: unknown kind "memcache"; did you mean "memcached"?`},
		{"preset", "kind: kv", "kind: kv\n  preset: bimodal", `unknown preset "bimodal"`},
		{"op and mix", "keys: 10", "keys: 10, op: get, mix: {set: 1}", `class a has both op and mix`},
		{"mix", "keys: 10", "keys: 10, mix: {get: 0.5, put: 0.5}", `unknown put "put"`},
		{"mix sum", "keys: 10", "keys: 10, mix: {get: 0.5}", `the shares sum to 0.5, not to 1`},
		{"work in kv", "keys: 10", "keys: 10, work: [{compute: 1us}]", `work belongs to the workload kind synthetic`},
		{"popularity", "keys: 10", "keys: 10, popularity: zpf:1", `popularity "zpf:1"`},
		{"percentile", "slo: 1ms", "slo: {99: 1ms}", `f.yaml:6:39: "99" is not a percentile`},
		{"anchor", "name: x", "name: &n x", `anchors, aliases and merge keys are not part of a profile`},
		{"tag", "name: x", "name: !!str x", `tags are not part of a profile`},
		{"second document", "\nload:", "\n---\nload:", `a profile is one document`},
		{"key twice", "name: x", "name: x\nname: y", `f.yaml:2:1: `},
		{"not a mapping", base, "- a\n- b\n", `f.yaml:1:1: a profile is a mapping such as`},
		{"empty", base, "", `f.yaml:1:1: the profile is empty`},
		{"syntax", "[1k]", "[1k", `f.yaml:7:`},
		{"deep", "[{name: none}]", strings.Repeat("[", 100) + strings.Repeat("]", 100), `f.yaml:8:1: nested deeper than 32 levels`},
		{"long", base, strings.Repeat("#", maxBytes+1), `a profile has at most 262144 bytes`},
		{"not a number", "share: 1", "share: .nan", `share is a number, not ".nan"`},
		{"seed", "\nload:", "\nseed: -1\nload:", `f.yaml:7:7: seed is a whole number from 0, not "-1"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(base, tt.old) {
				t.Fatalf("the base has no %q", tt.old)
			}
			_, err := Parse("f.yaml", []byte(strings.Replace(base, tt.old, tt.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to have %q", err, tt.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("error %q does not begin with the file", err)
			}
		})
	}
}

func TestPresetIsChangedByName(t *testing.T) {
	t.Parallel()
	text := strings.Replace(base, "  classes: [{name: a, share: 1, slo: 1ms, keys: 10, value: 100B}]",
		"  preset: bimodal-get\n  classes: [{name: large, share: 0.2, keys: 7}, {name: extra, share: 0.3, keys: 1, value: 1B, op: set}]", 1)
	p, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	slo := SLO{Limit: 1375 * time.Microsecond}
	want := []Class{
		{Name: "small", Share: 0.5, SLO: slo, Key: "skey-", Keys: 100_000, Value: "uniform:5B..1kB", Op: "get", Popularity: "uniform"},
		{Name: "large", Share: 0.2, SLO: slo, Key: "lkey-", Keys: 7, Value: "uniform:800kB..1200kB", Op: "get", Popularity: "uniform"},
		{Name: "extra", Share: 0.3, Keys: 1, Value: "1B", Op: "set"},
	}
	if diff := cmp.Diff(want, p.Workload.Classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	// A mistake in a class that a preset moved is still reported where it was written.
	_, err = Parse("f.yaml", []byte(strings.Replace(text, "keys: 1,", "keys: 1, popularity: zipf:x,", 1)))
	if err == nil || !strings.Contains(err.Error(), `class "extra"`) {
		t.Errorf("error %v, want it to name the class extra", err)
	}
	_, err = Parse("f.yaml", []byte(strings.Replace(text, "value: 1B", "value: 1", 1)))
	if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:7:91: ") {
		t.Errorf("error %v, want it at f.yaml:7:91", err)
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	q, err := p.Set(assignments(t, "workload.classes.0.slo=10ms", "load={of_capacity: [0.5, 1.0]}", "controllers.0.settings.limit=8",
		"warmup=0s", "server.settings={reply: header}"))
	if err != nil {
		t.Fatal(err)
	}
	want := *p
	want.Workload.Classes = []Class{p.Workload.Classes[0]}
	want.Workload.Classes[0].SLO.Limit = 10 * time.Millisecond
	want.Load = Sweep{OfCapacity: []Factor{"0.5", "1.0"}}
	want.Controllers = []Controller{{Name: "none", Settings: map[string]string{"limit": "8"}}}
	want.WarmUp = 0
	want.Server.Settings = map[string]string{"reply": "header"}
	if diff := cmp.Diff(&want, q, cmpopts.IgnoreUnexported(Profile{})); diff != "" {
		t.Errorf("after Set (-want +got):\n%s", diff)
	}
	if p.Workload.Classes[0].SLO.Limit != time.Millisecond {
		t.Error("Set changed the profile it was called on")
	}
	back, err := q.Set(assignments(t, "warmup=null"))
	if err != nil || back.WarmUp != defaults().WarmUp {
		t.Errorf("null did not bring the default back: %v %v", back, err)
	}
	if q.Text() != base {
		t.Error("the text as read was lost")
	}
}

func TestSetMistakes(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"workload.conections=3":     `--set workload.conections=3: unknown key "conections"; did you mean "connections"?`,
		"window=5":                  `--set window=5: duration "5" has no unit`,
		"load.of_capacity=[1]":      `f.yaml with --set load.of_capacity=[1]: load has exactly one of`,
		"controllers.1.name=codel":  `--set controllers.1.name=codel: "1" is not an entry of this list; entries are 0 to 0`,
		"controllers.x.name=codel":  `"x" is not an entry of this list`,
		"name.first=y":              `--set name.first=y: there is nothing below "x" to set`,
		"name=[1":                   `--set name=[1: the value is not YAML: `,
		"title=a\nseed: 3":          `the value is not YAML`,
		"workload.classes.0.keys=0": `--set workload.classes.0.keys=0: class a has no keys`,
		"name=null":                 `name is missing`,
	} {
		if _, err := p.Set(assignments(t, arg)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to have %q", arg, err, want)
		}
	}
	for _, arg := range []string{"window", "=5s", ""} {
		if _, err := ParseAssignment(arg); err == nil {
			t.Errorf("%q was taken for an assignment", arg)
		}
	}
}

func assignments(t *testing.T, args ...string) (list []Assignment) {
	t.Helper()
	for _, arg := range args {
		a, err := ParseAssignment(arg)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

func TestWithControllers(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(strings.Replace(base, "[{name: none}]", "[{name: none}, {name: fixed, as: eight, settings: {limit: 8}}]", 1)))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"none", "fixed", "codel"}
	q, err := p.WithControllers([]string{"codel", "eight"}, known)
	if err != nil {
		t.Fatal(err)
	}
	want := []Controller{{Name: "codel"}, {Name: "fixed", As: "eight", Settings: map[string]string{"limit": "8"}}}
	if diff := cmp.Diff(want, q.Controllers); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	for _, labels := range [][]string{{"codl"}, {"none", "none"}, {""}} {
		if _, err := p.WithControllers(labels, known); err == nil {
			t.Errorf("%q were taken", labels)
		}
	}
}

// TestShipped holds every shipped profile to the rules, its name to that of its file.
func TestShipped(t *testing.T) {
	t.Parallel()
	names := Names()
	if len(names) == 0 {
		t.Fatal("no profile is shipped")
	}
	for _, name := range names {
		p, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Title == "" {
			t.Errorf("%s has no title", name)
		}
		for _, key := range []string{"warmup:", "window:", "repeats:"} {
			phases := key == "window:" && len(p.Load.Phases) > 0
			if !phases && !strings.Contains(p.Text(), "\n"+key) {
				t.Errorf("%s does not write out %s", name, key)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(base), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := Load(path)
	if err != nil || p.Name != "x" || p.File() != path {
		t.Errorf("Load(%q) = %+v, %v", path, p, err)
	}
	for arg, want := range map[string]string{
		"quickstrat":             `no shipped profile "quickstrat"; did you mean "quickstart"?`,
		"no/such.yaml":           `profile no/such.yaml: no such file or directory`,
		filepath.Dir(path) + "/": `is a directory`,
	} {
		if _, err := Load(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q): error %v, want it to have %q", arg, err, want)
		}
	}
}

// Who leaves letters out is understood where one word only can be meant.
func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"none", "codel", "fixed", "protego", "maxql", "maxqwt"}
	for word, want := range map[string]string{
		"codl": "codel", "cdl": "codel", "prtg": "protego", "fxd": "fixed", "maxq": "maxql", "mxq": "", "cl": "", "xed": "", "zzz": "", "": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

// YAML has no tabs, and a controller without a warm-up of its own does not say that it has none.
func TestTabsAndWarmUps(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("name: x\nserver:\n\tkind: memcached\n"))
	if err == nil || err.Error() != "f.yaml:3:1: here stands a tab; YAML is indented with spaces" {
		t.Errorf("%v", err)
	}
	p, err := Load("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(p.Resolved()), "warmup:"); got != 1 {
		t.Errorf("%d warm-ups are written out, want that of the profile alone:\n%s", got, p.Resolved())
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"codel", "cdoel", 1}, {"window", "windo", 1},
		{"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abcd", "badc", 2}, {strings.Repeat("a", 100), strings.Repeat("a", 90), 0},
	} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance of %q and %q is %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
