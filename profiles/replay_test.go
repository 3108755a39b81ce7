package profiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spillway/workloads"
)

const drawnLog = `name: f
on: sim
machine: xl170
server: {kind: memcached}
workload:
  kind: replay
  replay:
    generate: {length: 1h, rate: 1, daily: {swing: 0.5}, bursts: {every: 10m, for: 1m, times: 2}, drift: {period: 1h, shares: {b: 1}}}
  classes:
    - {name: a, share: 1, slo: 1ms, keys: 10, value: 10B}
    - {name: b, share: 0, slo: 1ms, keys: 10, value: 1kB, op: set}
load: {speeds: [1, 3600]}
controllers: [{name: none}]
`

const filedLog = `name: f
on: sim
machine: xl170
server: {kind: memcached}
workload:
  kind: replay
  replay: {file: LOG}
  classes: [{name: a, slo: 1ms}, {name: b}]
load: {of_capacity: [0.5]}
controllers: [{name: none}]
`

// TestReplayProfiles: what is written out again is the same.
func TestReplayProfiles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{drawnLog, filedLog, strings.Replace(filedLog, "LOG", "LOG, from: 1h, for: 2h, at_end: stop, bad_rows: count", 1)} {
		p, err := Parse("f.yaml", []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		again, err := Parse("again.yaml", p.Resolved())
		if err != nil {
			t.Errorf("%v\n%s", err, p.Resolved())
			continue
		}
		if diff := cmp.Diff(p, again, cmpopts.IgnoreUnexported(Profile{}), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	p, err := Parse("f.yaml", []byte(drawnLog))
	if err != nil {
		t.Fatal(err)
	}
	g := p.Workload.Replay.Generate
	if g.Seed != 1 || g.Daily.Period != 24*time.Hour || p.Workload.Replay.AtEnd != AtEndRepeat || p.Workload.Arrivals != ArrivalsRecorded {
		t.Errorf("defaults: %+v", g)
	}
	p, err = p.Set([]Assignment{{Key: "workload.replay.generate.seed", Value: "0", Origin: "--set"}})
	if err != nil || p.Workload.Replay.Generate.Seed != 0 {
		t.Errorf("%v", err)
	}
}

func TestReplayMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, from, to, want string }{
		{drawnLog, "    generate: {", "    file: x.csv\n    generate: {", "f.yaml:8:5: a replay has one of file, a log, and generate"},
		{filedLog, "{file: LOG}", "{at_end: stop}", "a replay has one of file"},
		{filedLog, "  replay: {file: LOG}\n", "", "a replay has one of file"},
		{filedLog, "{file: LOG}", "{file: LOG, at_end: loop}", `unknown at_end "loop"; it is one of repeat, stop`},
		{filedLog, "{file: LOG}", "{file: LOG, bad_rows: refused}", `f.yaml:7:33: unknown bad_rows "refused"; did you mean "refuse"?`},
		{filedLog, "{file: LOG}", "{file: LOG, since: 1h}", `unknown key "since"`},
		{filedLog, "{name: b}", "{name: b, share: 0.5}", "f.yaml:8:51: the shares of a log are its own; leave out that of class b"},
		{filedLog, "{name: b}", "{name: b, keys: 5}", "keys belongs to the workload kind kv, this is replay"},
		{filedLog, "{name: b}", "{name: b, work: [{compute: 1us}]}", "work belongs to the workload kind synthetic"},
		{filedLog, "kind: replay", "kind: replay\n  arrivals: poisson", "the requests of a log are due when it says; leave arrivals out"},
		{filedLog, "kind: replay", "kind: replay\n  shape: ramp:1..2@1s", "the rate of a log has a shape of its own"},
		{filedLog, "kind: replay", "kind: replay\n  arrivals: closed", "the requests of a log are due when it says"},
		{filedLog, "kind: replay", "kind: replay\n  preset: etc", "presets are of the workload kind kv"},
		{filedLog, "{of_capacity: [0.5]}", "{phases: [{for: 1s, rate: 5}]}", "the rate of a log changes as it says"},
		{filedLog, "{of_capacity: [0.5]}", "{rates: [5], drift: {period: 1s, shares: {a: 1}}}", "the shares of a log change as it says"},
		{filedLog, "{of_capacity: [0.5]}", "{rates: [5], speeds: [1]}", "load has exactly one of rates, of_capacity and phases (of a replay speeds too)"},
		{drawnLog, "[1, 3600]", "[1, 1.0]", "f.yaml:12:20: speed 1.0 stands here a second time"},
		{drawnLog, "[1, 3600]", "[0]", "speed 0 is outside 0"},
		{drawnLog, "[1, 3600]", "[fast]", `"fast" is not a speed`},
		{drawnLog, "swing: 0.5", "swing: 2", "swing 2: is between 0 and 1"},
		{drawnLog, "rate: 1,", "rate: 1M,", "makes 3600000000 requests"},
		{drawnLog, "shares: {b: 1}", "shares: {b: 1, c: 0}", `unknown c "c"`},
		{drawnLog, "share: 0,", "share: 0.5,", "the shares sum to 1.5, not to 1"},
		{drawnLog, ", drift: {period: 1h, shares: {b: 1}}", "", "the share of class b is above 0"},
		{drawnLog, "value: 10B", "value: 10B, expire: 5s", "a log has neither write_back nor expire"},
		{drawnLog, "replay:\n    generate: {", "replay:\n    from: 1h\n    generate: {", "f.yaml:8:11: from is about a file, and this log is drawn"},
		{base, "load:", "load_:", "unknown key"},
	} {
		if !strings.Contains(tt.base, tt.from) {
			t.Fatalf("the profile has no %q", tt.from)
		}
		_, err := Parse("f.yaml", []byte(strings.Replace(tt.base, tt.from, tt.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.to, err, tt.want)
		}
	}
	p, err := Parse("f.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"load": "speeds are of the workload kind replay, this is kv", "workload.replay": "replay belongs to the workload kind replay, this is kv",
	} {
		value := map[string]string{"load": "{speeds: [1]}", "workload.replay": "{file: x.csv}"}[key]
		if _, err := p.Set([]Assignment{{Key: key, Value: value, Origin: "--set"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

// TestRecorded: a log is drawn or read once, and what is wrong with its file is said with its name.
func TestRecorded(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(drawnLog))
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Recorded()
	if err != nil || first.Len() != 3600 || first.Round != time.Hour || first.Rate() != 1 {
		t.Fatalf("%v, %v", first, err)
	}
	if second, err := p.Recorded(); second != first || err != nil {
		t.Errorf("it was drawn again, or %v", err)
	}

	path := filepath.Join(t.TempDir(), "log.csv")
	read := func(setting string) (int, error) {
		p, err := Parse("f.yaml", []byte(strings.Replace(filedLog, "LOG", path+setting, 1)))
		if err != nil {
			t.Fatal(err)
		}
		trace, err := p.Recorded()
		if err != nil {
			return 0, err
		}
		return trace.Len(), nil
	}
	if _, err := read(""); err == nil || !strings.Contains(err.Error(), "log.csv: no such file or directory") {
		t.Error(err)
	}
	text := "time,class,key,size,operation\n0,a,k,1,get\n1,b,k,1,set\n2,c,k,1,get\n3,a,k,1,get\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(""); err == nil || !strings.Contains(err.Error(), `log.csv:4: class "c" is none of the workload's, which are a, b: name it among workload.classes`) {
		t.Error(err)
	}
	for setting, want := range map[string]int{", bad_rows: count": 3, ", for: 2s": 2, ", from: 500ms, for: 1s": 1} {
		if got, err := read(setting); got != want || err != nil {
			t.Errorf("%s: %d requests, want %d, %v", setting, got, want, err)
		}
	}
	other, err := Parse("f.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Recorded(); err == nil {
		t.Error("a profile without a log has one")
	}
}

// TestShippedDay: the shipped log has what its comment says.
func TestShippedDay(t *testing.T) {
	t.Parallel()
	p, err := Load("replay-daily")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := p.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	if trace.Len() != 103_680 || trace.Round != 24*time.Hour {
		t.Errorf("%d requests in %v", trace.Len(), trace.Round)
	}
	var e workloads.Entry
	large := [24]float64{}
	all := [24]float64{}
	for i, at := range trace.Times {
		trace.Entry(i, &e)
		all[at/time.Hour]++
		if trace.Classes[e.Class] == "large" {
			large[at/time.Hour]++
		}
	}
	if night, noon := large[0]/all[0], large[12]/all[12]; night > 0.07 || noon < 0.17 {
		t.Errorf("large reads are %.3f of the requests at midnight and %.3f at noon", night, noon)
	}
	if evening, morning := all[20], all[8]; evening < 2.5*morning {
		t.Errorf("%g requests in the evening, %g in the morning", evening, morning)
	}
}
