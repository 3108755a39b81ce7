//go:build linux

package harness

import (
	"bytes"
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

	"spillway/profiles"
	"spillway/report"
)

// modelledText is a small experiment on a modelled machine whose capacity is easy to work out: a core is needed for 75 µs a request on
// average, so two cores do 26,667 a second.
const modelledText = `name: modelled
on: sim
machine: {cores: 2, bus: {total: 4GB, per_core: 4GB}, network: 10us}
server: {kind: synthetic}
workload:
  kind: synthetic
  connections: 8
  classes:
    - {name: cpu, share: 0.5, slo: 1ms, work: [{compute: "exp:100us"}]}
    - {name: memory, share: 0.5, slo: 1ms, work: [{stream: 200kB}]}
load: {of_capacity: [0.5, 1.5]}
controllers: [{name: none}, {name: fixed}]
timeout: 10ms
drain: 10ms
warmup: 10ms
window: 100ms
repeats: 2
seed: 3
`

func modelledProfile(t *testing.T, replace ...string) *profiles.Profile {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(modelledText, replace[i]) {
			t.Fatalf("the profile has no %q", replace[i])
		}
	}
	p, err := profiles.Parse("modelled.yaml", []byte(strings.NewReplacer(replace...).Replace(modelledText)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// simulate runs p and returns what is on disk.
func simulate(t *testing.T, p *profiles.Profile, jobs int) *report.Run {
	t.Helper()
	out, err := Run(t.Context(), Config{Profile: p, Out: filepath.Join(t.TempDir(), "out"), Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	run, err := report.ReadDir(out.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestSameSeedSameBytes: neither a second run nor another number of jobs may change a byte of the results; another seed must.
func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	files := []string{"points.csv", "trace.csv", "histograms.hlog"}
	read := func(p *profiles.Profile, jobs int) (all [][]byte) {
		run := simulate(t, p, jobs)
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(run.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		return all
	}
	p := modelledProfile(t)
	first := read(p, 1)
	for what, again := range map[string][][]byte{"a second run": read(p, 1), "two jobs": read(p, 2), "five jobs": read(p, 5)} {
		for i, f := range files {
			if !bytes.Equal(first[i], again[i]) {
				t.Errorf("%s gave another %s", what, f)
			}
		}
	}
	other := read(modelledProfile(t, "seed: 3", "seed: 4"), 1)
	for i, f := range files {
		if bytes.Equal(first[i], other[i]) {
			t.Errorf("another seed gave the same %s", f)
		}
	}
}

func value(t *testing.T, v report.Value) float64 {
	t.Helper()
	n, known := v.Get()
	if !known {
		t.Fatal("a value is not known")
	}
	return n
}

// TestColumnsOfASimulation holds what a simulation fills in against arithmetic.
func TestColumnsOfASimulation(t *testing.T) {
	t.Parallel()
	run := simulate(t, modelledProfile(t), 2)
	capacity := run.Manifest.Capacity
	if capacity == nil || !capacity.Analytic || capacity.Bottleneck != "cores" || math.Abs(capacity.RPS-2/75e-6) > 1 {
		t.Fatalf("capacity %+v, want %g requests per second, bound by the cores", capacity, 2/75e-6)
	}
	if len(run.Rows) != 2*2*2*3 {
		t.Fatalf("%d rows", len(run.Rows))
	}
	for i := range run.Rows {
		r := &run.Rows[i]
		where := fmt.Sprintf("%s at %s, class %s", r.Controller, r.LoadFactor, r.Class)
		factor := map[string]float64{"0.5": 0.5, "1.5": 1.5}[r.LoadFactor]
		classes := map[string]float64{"cpu": 0.5, "memory": 0.5, "all": 1}[r.Class]
		if want := min(factor, 1) * classes * capacity.RPS; math.Abs(value(t, r.OptimumRPS)-want) > 1 || math.Abs(value(t, r.CeilingRPS)-want) > 1 {
			t.Errorf("%s: optimum %v, ceiling %v, want %g", where, r.OptimumRPS, r.CeilingRPS, want)
		}
		cpu := value(t, r.CPURatio)
		if factor == 0.5 && math.Abs(cpu-0.5) > 0.1 || factor == 1.5 && cpu < 0.95 {
			t.Errorf("%s: cpu %v", where, cpu)
		}
		// Half of the requests that are served move 200 kB each.
		// At overload fewer are served than the cores could do: two streams share the bus that one fills, and hold two cores for it.
		bw, least := value(t, r.MemBWBytesPerS)/(200e3*0.5*min(factor, 1)*capacity.RPS), map[float64]float64{0.5: 0.9, 1.5: 0.75}[factor]
		if r.MemBWSource != "model" || bw < least || bw > 1.1 {
			t.Errorf("%s: %g of the bytes expected (%s)", where, bw, r.MemBWSource)
		}
		if !r.Valid || value(t, r.SendLagP99) != 0 {
			t.Errorf("%s: valid %v, warnings %v", where, r.Valid, r.Warnings)
		}
		if r.Class != "memory" || r.Controller != "none" {
			continue
		}
		if mean := value(t, r.ServiceMean); mean < 50 || mean > 100 || value(t, r.Latency.Mean) < mean+value(t, r.QueueMean)+20-1 {
			t.Errorf("%s: a stream of 50 µs has a mean service time of %g µs, a mean latency of %v", where, mean, r.Latency.Mean)
		}
	}
	if m := run.Manifest.ModelledMachine; m == nil || m.Figures[1].Name != "bus.total" || m.Figures[1].Provenance != "assumed" {
		t.Errorf("modelled machine %+v", m)
	}
	names := traceNames(t, run.Dir)
	for _, want := range []string{"goodput", "shed", "queue_delay", "cpu", "membw", "queued", "in_service"} {
		if names[want] == 0 {
			t.Errorf("trace.csv has no %s; it has %v", want, names)
		}
	}
}

func traceNames(t *testing.T, dir string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "trace.csv"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, ","); len(fields) == 10 {
			names[fields[7]]++
		}
	}
	return names
}

// TestCapacityOfALock: work that one lock serialises is bound by that lock, whatever the number of cores.
func TestCapacityOfALock(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, `[{compute: "exp:100us"}]`, "[{compute: 1us}, {lock: table, for: 100us}]", "[{stream: 200kB}]", "[{lock: other, for: 10us}]")
	m, err := newModelled(p)
	if err != nil {
		t.Fatal(err)
	}
	if m.capacity.Bottleneck != "lock table" || math.Abs(m.capacity.RPS-20e3) > 1 {
		t.Errorf("capacity %+v; half of the requests hold the lock table for 100 µs, so 20000 a second", m.capacity)
	}
}

// TestServerThatRunsOutOfMemory: its death is a finding, and the point stays valid.
func TestServerThatRunsOutOfMemory(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, "network: 10us}", "network: 10us, ram: 1MB}", "[{stream: 200kB}]", "[{memory: 300kB}, {wait: 1ms}]",
		"of_capacity: [0.5, 1.5]", "rates: [20k]")
	run := simulate(t, p, 1)
	for i := range run.Rows {
		// Under `fixed` no more than two are in service, which fits.
		if r := &run.Rows[i]; r.Controller == "none" && (!r.Valid || !slices.Contains(r.Warnings, warnServerDied) || r.Fates.Failed == 0) {
			t.Errorf("%s, class %s: valid %v, warnings %v, %d failed", r.Controller, r.Class, r.Valid, r.Warnings, r.Fates.Failed)
		}
	}
	if said := run.Manifest.Points[0].LastWords; !strings.Contains(said, "the modelled RAM of 1MB ran out") {
		t.Errorf("the server's last words: %q", said)
	}
}

// TestControllerWithoutAQueue: CoDel with unlimited slots never sees anybody wait, and the result says so.
func TestControllerWithoutAQueue(t *testing.T) {
	t.Parallel()
	controllers := []string{"[{name: none}, {name: fixed}]", "[{name: none}, {name: codel, settings: {target: 100us, interval: 1ms}}]"}
	for slots, want := range map[string]bool{"": true, ", settings: {slots: 0}": true, ", settings: {slots: -1}": true, ", settings: {slots: 2}": false} {
		p := modelledProfile(t, controllers[0], controllers[1], "{kind: synthetic}", "{kind: synthetic"+slots+"}")
		for _, r := range simulate(t, p, 2).Rows {
			if got := slices.Contains(r.Warnings, warnSlotsUnlimited); got != (want && r.Controller == "codel") {
				t.Errorf("settings %q, %s: the warning is there: %v", slots, r.Controller, got)
			}
			if !want && r.Controller == "codel" && r.LoadFactor == "1.5" && r.Class == "all" && r.Fates.Dropped == 0 {
				t.Error("with a queue to look at, CoDel drops nothing at 1.5 times the capacity")
			}
		}
	}
}

// TestKeyValueOnSim runs a key-value profile by its cost table, and by another.
func TestKeyValueOnSim(t *testing.T) {
	t.Parallel()
	costs := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(costs, []byte("operations: {get: {compute: 10us, moved_per_byte: 1}}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	text := `name: kv
on: sim
machine: laptop
server: {kind: memcached, settings: {reply: header, memory: 1GiB, costs: "` + costs + `"}}
workload: {kind: kv, classes: [{name: large, share: 1, slo: 5ms, keys: 10, value: 1MB}]}
load: {of_capacity: [0.8]}
controllers: [{name: none}]
warmup: 10ms
window: 100ms
repeats: 1
`
	p, err := profiles.Parse("kv.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	run := simulate(t, p, 1)
	// The laptop's bus moves 40 GB/s, so 40,000 values of 1 MB.
	if c := run.Manifest.Capacity; c.Bottleneck != "bus" || math.Abs(c.RPS-40e3) > 1 {
		t.Errorf("capacity %+v, want 40000 bound by the bus", c)
	}
	// 10 µs of compute, 1 MB at 12 GB/s or less, the network twice.
	if p50 := value(t, run.Rows[0].Latency.P50); p50 < 10+1e6/12e3+10 || p50 > 1000 {
		t.Errorf("median latency %g µs", p50)
	}
	if p, err = p.Set([]profiles.Assignment{{Key: "workload.classes.0.op", Value: "set"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := newModelled(p); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "no cost of the operation set") {
		t.Errorf("error %v, want one about the operation set", err)
	}
}

// TestRefusedOnModelledGrounds: what cannot run says which part of the profile it is, and why.
func TestRefusedOnModelledGrounds(t *testing.T) {
	t.Parallel()
	const classes = "  classes:\n    - {name: cpu, share: 0.5, slo: 1ms, work: [{compute: \"exp:100us\"}]}\n    - {name: memory, share: 0.5, slo: 1ms, work: [{stream: 200kB}]}\n"
	machine := "machine: {cores: 2, bus: {total: 4GB, per_core: 4GB}, network: 10us}"
	tests := []struct {
		want    string
		replace []string
	}{
		{"machine: the ground sim needs a modelled machine: one of laptop, second, xl170", []string{machine + "\n", ""}},
		{"needs a modelled machine", []string{machine, "machine: host"}},
		{"class memory moves bytes over a memory bus, and this machine has none", []string{machine, "machine: {cores: 2}"}},
		{"server.kind: external: the ground sim models its server", []string{"kind: synthetic}", "kind: external, settings: {target: 'memcached://x:1'}}", "[{name: none}, {name: fixed}]", "[{name: none}]"}},
		{"server.kind: web", []string{"server: {kind: synthetic}", "server: {kind: web}"}},
		{"workload.kind: synthetic: a server of the kind memcached does not answer that; one of the kind synthetic does", []string{"server: {kind: synthetic}", "server: {kind: memcached}"}},
		{"one of the kind memcached does", []string{"  kind: synthetic\n", "  kind: kv\n", classes, "  classes: [{name: a, share: 1, keys: 10, value: 1B}]\n"}},
		{`synthetic has no setting "quue"; did you mean "queue"?`, []string{"{kind: synthetic}", "{kind: synthetic, settings: {quue: 2}}"}},
		{`"read": it is store or load`, []string{"{kind: synthetic}", "{kind: synthetic, settings: {stream: read}}"}},
		{`"1kB" is not between`, []string{"{kind: synthetic}", "{kind: synthetic, settings: {stream_buffer: 1kB}}"}},
		{`server.settings.slots: "many"`, []string{"{kind: synthetic}", "{kind: synthetic, settings: {slots: many}}"}},
		{`server.settings.queue: "-1" is not a whole number from 0`, []string{"{kind: synthetic}", "{kind: synthetic, settings: {queue: -1}}"}},
		{`server.settings.deadline: duration "5"`, []string{"{kind: synthetic}", "{kind: synthetic, settings: {deadline: 5}}"}},
		{"server.settings.costs: synthetic work has its own costs", []string{"{kind: synthetic}", "{kind: synthetic, settings: {costs: memcached}}"}},
		{"load.of_capacity: the classes ask for nothing", []string{`[{compute: "exp:100us"}]`, "[{wait: 1ms}]", "[{stream: 200kB}]", "[{wait: 1ms}]"}},
	}
	for _, tt := range tests {
		_, err := Run(t.Context(), Config{Profile: modelledProfile(t, tt.replace...), Out: filepath.Join(t.TempDir(), "out")})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "modelled.yaml:") {
			t.Errorf("error %v, want it to have %q", err, tt.want)
		}
	}
}

func TestJobsAndScaleBelongToTheirGrounds(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"--jobs 2: on host":                      {Profile: profile(t), Jobs: 2},
		"--jobs 2: on model":                     {Profile: modelledProfile(t, "on: sim", "on: model"), Jobs: 2},
		"--jobs -1":                              {Profile: modelledProfile(t), Jobs: -1},
		"--time-scale 100: time is stretched on": {Profile: modelledProfile(t), TimeScale: 100},
		"--time-scale -5: is between 1":          {Profile: modelledProfile(t, "on: sim", "on: model"), TimeScale: -5},
	} {
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to have %q", err, want)
		}
	}
}

// TestInterruptedSimulation: what was simulated is on disk, and the rest is not waited for.
func TestInterruptedSimulation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := modelledProfile(t, "window: 100ms", "window: 1h", "repeats: 2", "repeats: 3", "of_capacity: [0.5, 1.5]", "rates: [1k]")
	done := make(chan struct{})
	var out Outcome
	var err error
	go func() {
		defer close(done)
		out, err = Run(ctx, Config{Profile: p, Out: filepath.Join(t.TempDir(), "out"), Jobs: 2, Observe: func(e Event) {
			if e.Phase != "" {
				cancel()
			}
		}})
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if err != nil || !out.CutShort || out.Points > 1 {
		t.Errorf("outcome %+v, %v; want it cut short", out, err)
	}
}
