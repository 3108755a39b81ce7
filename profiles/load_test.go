package profiles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/workloads"
)

const loadText = `name: p
server: {kind: external, settings: {target: "memcached://127.0.0.1:1"}}
workload: {kind: kv, %s}
load: {rates: [1k]}
controllers: [{name: none}]
`

const oneClass = "classes: [{name: a, share: 1, keys: 10, value: 10B}]"

// TestPresetsGoThroughText: a preset that is written out and read again asks for the same.
func TestPresetsGoThroughText(t *testing.T) {
	t.Parallel()
	for _, name := range workloads.Presets() {
		p, err := Parse("p", fmt.Appendf(nil, loadText, "preset: "+name))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("p", p.Resolved())
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, p.Resolved())
		}
		was, err := p.Workload.KVClasses()
		if err != nil {
			t.Fatal(err)
		}
		is, err := again.Workload.KVClasses()
		if err != nil || fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("%s: %v\n%v, want\n%v", name, err, is, was)
		}
		preset, err := workloads.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range preset {
			if fmt.Sprint(preset[i].ValueSize, preset[i].KeySizes, preset[i].Mix, preset[i].WriteBack) != fmt.Sprint(is[i].ValueSize, is[i].KeySizes, is[i].Mix, is[i].WriteBack) {
				t.Errorf("%s: class %d is %+v, the preset's %+v", name, i, is[i], preset[i])
			}
		}
	}
}

func TestLoadSettings(t *testing.T) {
	t.Parallel()
	p, err := Parse("p", fmt.Appendf(nil, loadText, `arrivals: "bursty:burst=3", shape: "steps:0.5@1s,2@1s", connections: 8, max_connections: 100, in_flight: 4,
  senders: 2, catch_up: "skip:2ms", client: gomemcache,
  classes: [{name: a, share: 1, keys: 10, value: "mix:0.5@1B;0.5@gpareto:0B,214.476B,0.35", key_size: 40, mix: {get: 0.5, multiget: 0.5}, batch: 3, expire: 90s}]`))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("p", p.Resolved())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Workload, again.Workload); diff != "" {
		t.Error(diff)
	}
	late, err := again.Workload.SkipLate()
	k, kerr := again.Workload.KVClasses()
	if err != nil || kerr != nil || late.String() != "2ms" || k[0].KeySize != 40 || k[0].Mix.MultiGet != 0.5 || k[0].Batch != 3 || k[0].Expire.String() != "1m30s" {
		t.Errorf("%v, %v, %+v, %v", late, err, k, kerr)
	}
	for load, want := range map[string]string{
		"arrivals: often, " + oneClass:                                            `arrivals "often": unknown`,
		`arrivals: "bursty:burst=20", ` + oneClass:                                "at most 1",
		`shape: "ramp:1", ` + oneClass:                                            "ramp:FROM..TO@DURATION",
		`shape: "ramp:1..2@1s", arrivals: closed, ` + oneClass:                    "has no shape",
		"connections: 4, senders: 5, " + oneClass:                                 "senders is between",
		"connections: 4, max_connections: 3, " + oneClass:                         "max_connections is between",
		"in_flight: -1, " + oneClass:                                              "in_flight is between",
		"catch_up: soon, " + oneClass:                                             "write send, or skip:DURATION",
		"client: nc, " + oneClass:                                                 "unknown client",
		"classes: [{name: a, share: 0, keys: 10, value: 10B}]":                    "may have none",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, key_size: many}]":    "key_size",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, key_size: 251B}]":    "key size 251",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, key_size: 0B}]":      "must be at least 1",
		"classes: [{name: a, share: 1, keys: 1000, value: 10B, key_size: 2B}]":    "key size 2",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, batch: 300}]":        "between 2 and 255",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, expire: 1500ms}]":    "whole seconds",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, write_back: b}]":     "which there is not",
		"classes: [{name: a, share: 1, keys: 10, value: 10B, mix: {multigt: 1}}]": `did you mean "multiget"`,
	} {
		if _, err := Parse("p", fmt.Appendf(nil, loadText, load)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "p:3:") {
			t.Errorf("%s: %v, want %q and its line", load, err, want)
		}
	}
}
