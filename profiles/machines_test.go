package profiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/dist"
	"spillway/machine"
	"spillway/workloads"
)

func TestShippedMachines(t *testing.T) {
	t.Parallel()
	names := MachineNames()
	for _, want := range []string{"laptop", "second", "xl170"} {
		if !slices.Contains(names, want) {
			t.Errorf("machine %s is not shipped; there are %v", want, names)
		}
	}
	for _, name := range names {
		m, err := LoadMachine(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		spec, ok := m.Spec()
		if err := spec.Check(); !ok || err != nil || m.Name != name || spec.Bus.Total == 0 {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		for _, figure := range []string{"cores", "bus.total", "bus.per_core", "network"} {
			if m.Provenance[figure] == "" {
				t.Errorf("%s does not say how it comes to %s", name, figure)
			}
		}
		again, err := parseMachine(t, m.Text())
		if again != nil {
			again.Name = name
		}
		if diff := cmp.Diff(m, again); diff != "" || err != nil {
			t.Errorf("%s written and read again: %v\n%s", name, err, diff)
		}
	}
	m, err := LoadMachine("xl170")
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := m.Spec()
	want := machine.Spec{Cores: 18, Bus: machine.Bus{Total: 36e9, PerCore: 6e9}, Network: 5 * time.Microsecond, RAM: 64e9}
	if diff := cmp.Diff(want, spec); diff != "" || m.Origin("bus.total") != "assumed" || m.Origin("cores") != "published" {
		t.Errorf("xl170 (-want +got):\n%s", diff)
	}
}

func parseMachine(t *testing.T, text []byte) (*Machine, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return LoadMachine(path)
}

func TestMachineMistakes(t *testing.T) {
	t.Parallel()
	const good = "cores: 4\nbus: {total: 8GB, per_core: 4GB}\n"
	m, err := parseMachine(t, []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if m.Network != machine.DefaultNetwork || m.Origin("bus.decay") != Assumed {
		t.Errorf("defaults: %+v", m)
	}
	for text, want := range map[string]string{
		"core: 4\n":                                              `m.yaml:1:1: unknown key "core"; did you mean "cores"?`,
		"cores: 0\n":                                             "m.yaml:1:8: a machine has 1 to 65536 cores",
		"cores: 70000\n":                                         "a machine has 1 to 65536 cores",
		"cores: 4\nbus: {total: 8GB}\n":                          "m.yaml:2:7: a bus has a total and a per_core",
		good + "provenance: {bus: guessed}\n":                    `m.yaml:3:19: "guessed" is no provenance; it is one of measured, published, derived, assumed`,
		good + "provenance: {core: assumed}\n":                   `provenance of "core": the figures of a machine are cores, bus,`,
		good + "spread: {cores: 0.1}\n":                          "spread of \"cores\": only what was measured has one, and this is assumed",
		good + "spread: {core: 0.1}\n":                           `spread of "core": the figures of a machine are cores, bus,`,
		"bus: {total: 8GB, per_core: 4GB}\n":                     "a machine has 1 to 65536 cores",
		"cores: 4\nnetwork: 5\n":                                 `duration "5" has no unit`,
		"cores: 4\nbus: {total: 8GB, per_core: 4GB, decay: 2}\n": "decay is between 0 and 1",
	} {
		if _, err := parseMachine(t, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to have %q", text, err, want)
		}
	}
	for ref, want := range map[string]string{
		"xl17":            `no shipped machine "xl17"; did you mean "xl170"?`,
		"epyc":            `no shipped machine "epyc"; shipped are laptop, second, xl170 (a file's name ends in .yaml or has a slash)`,
		"no/such.yaml":    "machine no/such.yaml: no such file or directory",
		"also-no.yaml":    "machine also-no.yaml: no such file or directory",
		t.TempDir() + "/": "is a directory",
	} {
		if _, err := LoadMachine(ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to have %q", ref, err, want)
		}
	}
}

// TestMachineInAProfile: a name becomes the content of its file, which --set can change.
func TestMachineInAProfile(t *testing.T) {
	t.Parallel()
	named := strings.Replace(base, "name: x", "name: x\nmachine: xl170", 1)
	p, err := Parse("f.yaml", []byte(named))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(p.Resolved()), "total: 36GB") || p.Machine.Name != "xl170" {
		t.Errorf("the machine is not written out:\n%s", p.Resolved())
	}
	again, err := Parse("again.yaml", p.Resolved())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Machine, again.Machine); diff != "" {
		t.Errorf("resolved and read again:\n%s", diff)
	}
	plain, err := Parse("f.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []*Profile{p, plain} {
		q, err := from.Set(assignments(t, "machine=xl170", "machine.bus.total=55GB", "machine.cores=20"))
		if err != nil {
			t.Fatal(err)
		}
		m := q.Machine
		if m.Bus.Total != 55e9 || m.Bus.PerCore != 6e9 || m.Cores != 20 || m.Name != "" {
			t.Errorf("after --set: %+v with %+v", m, m.Bus)
		}
		if m.Origin("cores") != Assumed || m.Provenance["ram"] != "published" {
			t.Errorf("provenance after --set: %v; of what was set nothing is known", m.Provenance)
		}
	}
	if p.Machine.Bus.Total != 36e9 {
		t.Error("Set changed the profile it was called on")
	}
	if q, err := plain.Set(assignments(t, "machine=host")); err != nil || q.Machine.Ref != HostMachine {
		t.Errorf("machine=host: %+v, %v", q, err)
	}
	if _, ok := plain.Machine.Spec(); ok {
		t.Error("a profile without a machine has one")
	}
	for arg, want := range map[string]string{
		"machine=xl17":             `--set machine=xl17: no shipped machine "xl17"; did you mean "xl170"?`,
		"machine.bus.totl=1GB":     `unknown key "totl"; did you mean "total"?`,
		"machine.cores=0":          "--set machine.cores=0: a machine has",
		"machine.provenance.cores": "write it as key=value",
	} {
		a, err := ParseAssignment(arg)
		if err == nil {
			_, err = p.Set([]Assignment{a})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to have %q", arg, err, want)
		}
	}
	if _, err := Parse("f.yaml", []byte(strings.Replace(named, "xl170", "xl17", 1))); err == nil || !strings.HasPrefix(err.Error(), "f.yaml:2:10: ") {
		t.Errorf("error %v, want it at f.yaml:2:10", err)
	}
}

func TestSyntheticWork(t *testing.T) {
	t.Parallel()
	const head = "name: x\nserver: {kind: synthetic}\nload: {rates: [1k]}\ncontrollers: [{name: none}]\nworkload:\n  kind: synthetic\n  classes:\n"
	p, err := Parse("f.yaml", []byte(head+
		"    - {name: a, share: 0.4, slo: 1ms, work: [{compute: \"exp:5us\"}, {lock: l, for: 1us}, {section: m, steps: [{stream: 4kB, at: 1GB}, {section: n, steps: [{lock: k, for: 2us}]}]}]}\n"+
		"    - {name: b, share: 0.6, work: [{memory: \"exp:1MB\"}, {section: n, steps: [{wait: 1ms}]}, {lock: l, for: 3us}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Workload.Synthetic()
	if err != nil {
		t.Fatal(err)
	}
	ns := func(v float64) dist.Dist { return dist.Constant{Unit: dist.Nanoseconds, Value: v} }
	want := SyntheticWork{
		Locks: []string{"l", "k"}, Sections: []string{MemorySection, "m", "n"},
		Classes: []workloads.SyntheticClass{
			{Name: "a", Share: 0.4, SLO: time.Millisecond, Work: []workloads.SyntheticStep{
				{Kind: machine.Compute, Amount: dist.Exponential{Unit: dist.Nanoseconds, Expect: 5000}},
				{Kind: machine.Lock, Index: 0, Amount: ns(1000)},
				{Kind: machine.Enter, Index: 1},
				{Kind: machine.Stream, Amount: dist.Constant{Unit: dist.Bytes, Value: 4000}, Rate: 1e9},
				{Kind: machine.Enter, Index: 2}, {Kind: machine.Lock, Index: 1, Amount: ns(2000)}, {Kind: machine.Leave, Index: 2},
				{Kind: machine.Leave, Index: 1},
			}},
			{Name: "b", Share: 0.6, Work: []workloads.SyntheticStep{
				{Kind: machine.Memory, Amount: dist.Exponential{Unit: dist.Bytes, Expect: 1e6}},
				{Kind: machine.Enter, Index: 2}, {Kind: machine.Delay, Amount: ns(1e6)}, {Kind: machine.Leave, Index: 2},
				{Kind: machine.Lock, Index: 0, Amount: ns(3000)},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
	class := func(work string) string { return head + "    - {name: a, share: 1, work: " + work + "}\n" }
	many := strings.Repeat("{compute: 1us}, ", 200)
	for work, want := range map[string]string{
		"[{stream: 400}]": `f.yaml:8:43: distribution "400"`,
		"[{section: m, steps: [{section: m, steps: [{wait: 1us}]}]}]": "section m stands within itself",
		"[{lock: \"a b\", for: 1us}]":                                 `"a b" is not a name`,
		"[{compute: 1us, wait: 1us}]":                                 "exactly one of",
		"[" + many + "{wait: 1us}]":                                   "use fewer steps",
		"[{compute: 1us, at: 1GB}]":                                   "at belongs to a stream step",
	} {
		if _, err := Parse("f.yaml", []byte(class(work))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want it to have %q", work, err, want)
		}
	}
}

func TestShippedCosts(t *testing.T) {
	t.Parallel()
	for _, name := range CostNames() {
		if !slices.Contains(serverKinds, name) {
			t.Errorf("cost table %s is not named as a kind of server", name)
		}
		c, err := LoadCosts(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for operation := range c.Operations {
			if c.Provenance[operation+".compute"] == "" {
				t.Errorf("%s does not say how it comes to %s.compute", name, operation)
			}
		}
	}
	p, err := Parse("f.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.CostsFor()
	if err != nil {
		t.Fatal(err)
	}
	if get := c.Table()["get"]; get.Compute == 0 || get.MovedPerByte != 1 || get.CachedBelow == 0 {
		t.Errorf("a memcached get costs %+v", get)
	}
	p.Server.Kind = "mailbox"
	if _, err := p.CostsFor(); err == nil || !strings.Contains(err.Error(), "no cost table of the server kind mailbox: name one of "+strings.Join(CostNames(), ", ")+" or a file in server.settings.costs") {
		t.Errorf("error %v", err)
	}
}

func TestCostMistakes(t *testing.T) {
	t.Parallel()
	load := func(text string) (*Costs, error) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return LoadCosts(path)
	}
	c, err := load("operations:\n  scan: {compute: 300us, compute_per_kb: 40ns, moved_per_byte: 1.5, cached_below: 1kB, at: 2GB}\nprovenance: {scan: measured}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := workloads.Cost{Compute: 300 * time.Microsecond, ComputePerByte: 0.04, MovedPerByte: 1.5, CachedBelow: 1000, At: 2e9}
	if diff := cmp.Diff(want, c.Table()["scan"]); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"operations: {}\n":                                                  "a cost table has operations",
		"operations: {get: {comput: 1us}}\n":                                `unknown key "comput"; did you mean "compute"?`,
		"operations: {get: {compute: 1us, at: 2GB}}\n":                      "operation get moves nothing (moved_per_byte), so cached_below and at have no meaning",
		"operations: {get: {moved_per_byte: 5000}}\n":                       "moved_per_byte is at most 1000",
		"operations: {get: {compute: 1us}}\nprovenance: {set.x: assumed}\n": `provenance of "set.x": write an operation of this table`,
		"operations: {get: {compute: 1us}}\nprovenance: {get: rumour}\n":    `"rumour" is no provenance`,
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to have %q", text, err, want)
		}
	}
	if _, err := LoadCosts("memcache"); err == nil || !strings.Contains(err.Error(), `no shipped cost table "memcache"; did you mean "memcached"?`) {
		t.Errorf("error %v", err)
	}
}
