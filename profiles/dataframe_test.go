package profiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/frames"
	"spillway/workloads"
)

const frameText = `name: f
server: {kind: dataframe}
workload:
  kind: dataframe
  classes:
    - {name: cpu, share: 0.9, slo: {p50: 1ms, p99: 5ms}, op: max}
    - {name: memory, share: 0.1, slo: 4ms, op: decay/5}
load: {rates: [1k]}
controllers: [{name: none}]
`

func TestFrameClasses(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(frameText))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", p.Resolved())
	if err != nil {
		t.Fatal(err)
	}
	want := []workloads.FrameClass{{Name: "cpu", Share: 0.9, SLO: 5 * time.Millisecond, Op: "max"}, {Name: "memory", Share: 0.1, SLO: 4 * time.Millisecond, Op: "decay/5"}}
	for _, p := range []*Profile{p, again} {
		got, err := p.Workload.FrameClasses()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", p.File(), err, diff)
		}
	}
	if _, err := (&Workload{Kind: kindKV}).FrameClasses(); err == nil {
		t.Error("a workload of another kind has operations on a data frame")
	}
}

func TestFrameMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, want string }{
		"no operation":      {", op: max", "", `class "cpu": op "": no operation: want max`},
		"an unknown one":    {"op: max", "op: maximum", `class "cpu": op "maximum": no operation`},
		"an absurd one":     {"decay/5", "decay/0", `class "memory": op "decay/0": window "0": want a whole number from 1`},
		"keys":              {"op: max", "op: max, keys: 5", "keys belongs to the workload kind kv, this is dataframe"},
		"a query":           {"op: max", "op: max, query: path", "query belongs to the workload kind graph, this is dataframe"},
		"work":              {"op: max", "op: max, work: [{compute: 1us}]", "work belongs to the workload kind synthetic, this is dataframe"},
		"an op of graphs":   {"kind: dataframe\n  classes", "kind: graph\n  classes", "op belongs to the workload kind kv, this is graph"},
		"a preset":          {"  kind: dataframe\n", "  kind: dataframe\n  preset: etc\n", "presets are of the workload kind kv"},
		"a share that lies": {"share: 0.9", "share: 0.8", "the shares sum to 0.9"},
	} {
		text := strings.Replace(frameText, tt.old, tt.new, 1)
		if text == frameText {
			t.Fatalf("%s: nothing was replaced", name)
		}
		if _, err := Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestShippedFrameCosts: the table has all operations, and what it says of bytes is what they move.
func TestShippedFrameCosts(t *testing.T) {
	t.Parallel()
	c, err := LoadCosts("dataframe")
	if err != nil {
		t.Fatal(err)
	}
	table := c.FrameTable()
	for k := range frames.NumKinds {
		cost, known := table[k.String()]
		q := frames.Standard(k)
		if want := float64(q.Moved(1000)) / 1000; !known || cost.ComputePerStep <= 0 || cost.Compute <= 0 || cost.MovedPerRow != want {
			t.Errorf("%s: known %v, %+v; want %v bytes a row", k, known, cost, want)
		}
		for _, figure := range []string{"compute", "compute_per_kstep", "moved_per_row", "cached_below"} {
			if c.Provenance[k.String()+"."+figure] == "" {
				t.Errorf("it does not say how it comes to %s.%s", k, figure)
			}
		}
	}
	if len(table) != int(frames.NumKinds) {
		t.Errorf("%d operations", len(table))
	}
}

func TestFrameCostMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{compute_per_kstep: 1us, moved_per_byte: 1}":                     "operation max is of a key-value store",
		"{compute_per_kstep: 1us, moved_per_row: 8, section_from: 1kB}":   "leave section_from out",
		"{compute_per_kstep: 1us, at: 1GB}":                               "operation max moves nothing (moved_per_row)",
		"{moved_per_row: 50000}":                                          "moved_per_row is at most 48000",
		"{compute: 1us, section_from: 1kB}":                               "operation max moves nothing (moved_per_byte), so section_from has no meaning",
		"{compute: 1us, compute_per_kstep: 25h}":                          "compute_per_kstep is at most 24h",
		"{compute: 1us, moved_per_byte: 1, section_from: 1kB, at: 1GB}":   "",
		"{compute_per_kstep: 1us, moved_per_row: 8, cached_below: 1MB}":   "",
		"{compute: 1us, compute_per_kb: 1us, moved_per_row: 8}":           "not both",
		"{compute_per_kstep: 1us, moved_per_row: 8, moved_per_roww: 1.5}": `did you mean "moved_per_row"`,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte("operations: {max: "+text+"}\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadCosts(path); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
