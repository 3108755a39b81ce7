package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shared makes a run of an allocation with three scenarios, a surface of one cell, and two allocators. Of class a the first serves 80, 60 and 40 of
// 100, the second 50 in each, and on the surface 90 and 88.
func shared() *Run {
	run := &Run{Manifest: Manifest{
		Name: "p", Ground: groundSim, Classes: []Class{{Name: "a"}}, Controllers: []ControllerInfo{{Label: "ours"}, {Label: "base"}},
		Allocation: &Allocation{
			BudgetRPS: 100, Locations: 2, CycleUS: 1e6, Cycles: 10, Lag: 1, Noise: 0.05, Reserved: map[string]float64{"a": 1},
			Scenarios: []AllocationScenario{
				{Name: "s1", Title: "the first", Demand: "a 1", Basis: "by construction"}, {Name: "s2", Demand: "a 1"}, {Name: "s3", Demand: "a 1"},
				{Name: "f-1-2", Demand: "a 1", Surface: 1, Row: 1, Column: 2},
			},
			Surfaces: []AllocationSurface{{Name: "f", Title: "A surface", Rows: "demand.a", Columns: "share.a", Metric: "served_gain", Class: "a", Controller: "ours", Over: "base", Paper: 0.02, Within: 0.001}},
		},
	}}
	add := func(scenario string, ours, base float64) {
		for i, served := range []float64{ours, base} {
			label := []string{"ours", "base"}[i]
			for _, class := range []string{"a", AllClasses} {
				run.Rows = append(run.Rows, Row{
					Profile: "p/" + scenario, Ground: groundSim, Controller: label, OfferedTargetRPS: Known(100), Repeat: 1, Class: class,
					OfferedRPS: Known(100), GoodputRPS: Known(served), Fates: Fates{OK: int64(10 * served), Rejected: int64(1000 - 10*served)}, Valid: true,
				})
			}
			run.Manifest.Points = append(run.Manifest.Points, PointFacts{
				Variant: scenario, Controller: label, Load: "100", Repeat: 1, WindowS: 10,
				Allocation: &AllocationFacts{Utilisation: Known(served / 100), Idle: Known(0), OverCommit: Known(1e-16), Conservation: Known(2e-16), CurrentIdle: Known(0.25), CurrentOverCommit: Known(0)},
			})
			run.Cells = append(run.Cells, AllocationCell{scenario, label, "a", "1", Known(60), Known(50), Known(served / 2)}, AllocationCell{scenario, label, "a", "2", Known(40), Known(50), Known(served / 2)})
		}
	}
	add("s1", 80, 50)
	add("s2", 60, 50)
	add("s3", 40, 50)
	add("f-1-2", 90, 88)
	run.Manifest.Planned = len(run.Manifest.Points)
	return run
}

// TestClaimsOverAllVariants: "*" takes the scenarios together, without the cells of surfaces, and `most` is more than half of them.
func TestClaimsOverAllVariants(t *testing.T) {
	t.Parallel()
	claim := func(c Claim) string {
		c.Controller = "ours"
		run := shared()
		run.Manifest.Claims = []Claim{c}
		r := run.Claims()[0]
		return fmt.Sprint(r.Outcome, " ", r.ours(), " at ", r.taken(), " ", strings.Join(append(r.Reasons, r.Remarks...), "; "))
	}
	for _, tt := range []struct {
		claim Claim
		want  string
	}{
		{Claim{Metric: "served_share", Class: "a", Variant: "*", Take: "min", HoldsAt: Known(0.4)}, "holds 40.0 % at s3 "},
		{Claim{Metric: "served_share", Class: "a", Variant: "*", Take: "max", HoldsUnder: Known(0.79)}, "does not hold 80.0 % at s1 "},
		{Claim{Metric: "served_gain", Class: "a", Over: []string{"base"}, Variant: "*", Take: "most", HoldsAt: Known(0.05)}, "holds 10.0 points at s2 it holds in 2 of 3"},
		{Claim{Metric: "served_gain", Class: "a", Over: []string{"base"}, Variant: "*", Take: "most", HoldsAt: Known(0.2)}, "does not hold 10.0 points at s2 it holds in 1 of 3"},
		{Claim{Metric: "served_loss", Class: "a", Over: []string{"base"}, Variant: "*", Take: "max", HoldsUnder: Known(0.02)}, "does not hold 10.0 points at s3 "},
		{Claim{Metric: "served_loss", Class: "a", Over: []string{"base"}, Variant: "s1", HoldsUnder: Known(0.02)}, "holds -30.0 points at 100 "},
		{Claim{Metric: "current_idle", Variant: "*", HoldsUnder: Known(0.25)}, "holds 25.0 % at s1 "},
		{Claim{Metric: "conservation_error", Variant: "f-1-2", HoldsUnder: Known(1e-9)}, "holds 2e-16 at 100 "},
		{Claim{Metric: "takeover_us", Variant: "s1", HoldsUnder: Known(1e6)}, "undecided – at – ours has no takeover_us at 100"},
		{Claim{Metric: "served_gain", Class: "a", Variant: "*", HoldsAt: Known(0)}, "undecided – at – served_gain is the difference to another controller, which the claim does not name"},
	} {
		if got := claim(tt.claim); got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.claim.Metric, tt.claim.Variant, got, tt.want)
		}
	}
	// An invalid point that could tip the balance leaves most undecided; one that could not, does not.
	run := shared()
	run.Rows[0].Valid, run.Rows[1].Valid = false, false
	for bound, want := range map[float64]Outcome{0.05: Undecided, -0.2: Holds, 0.5: DoesNotHold} {
		run.Manifest.Claims = []Claim{{Metric: "served_gain", Class: "a", Controller: "ours", Over: []string{"base"}, Variant: "*", Take: "most", HoldsAt: Known(bound)}}
		if got := run.Claims()[0].Outcome; got != want {
			t.Errorf("with a doubtful scenario at a bound of %g: %s, want %s", bound, got, want)
		}
	}
}

func TestAllocationSection(t *testing.T) {
	t.Parallel()
	run := shared()
	run.Manifest.Points[0].Allocation.Spans = []AllocationSpan{
		{0, 5e6, "all up", []AllocationCell{{Class: "a", Location: "edge-1", Demand: Known(60), Granted: Known(50), Served: Known(49)}}, []AllocationSpanClass{{"a", 0.817, 0.83}}},
	}
	var b bytes.Buffer
	run.allocationSection(&b)
	if err := allocationTable(&b, run); err != nil {
		t.Fatal(err)
	}
	golden(t, "allocation_section", b.Bytes())
	b.Reset()
	if err := allocationTable(&b, &Run{Manifest: Manifest{Allocation: &Allocation{}}}); err != nil || b.String() != "no point was measured\n" {
		t.Errorf("of nothing: %q, %v", b.String(), err)
	}
}

// TestAllocationFile: the file has the exact header, rows in the order of the profile, and the means of the repeats; it is read back.
func TestAllocationFile(t *testing.T) {
	t.Parallel()
	point := func(label string, repeat int, demand float64) *Point {
		row := Row{Profile: "p/s", Controller: label, OfferedTargetRPS: Known(100), Repeat: repeat, Class: AllClasses, Valid: true}
		return &Point{
			Rows: []Row{row}, Window: time.Second, Facts: PointFacts{Variant: "s", Controller: label, Load: "100", Repeat: repeat},
			Cells: []AllocationCell{{Class: "a", Location: "1", Demand: Known(demand), Granted: Known(50), Served: Known(0.0000004)}},
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	var order []string
	for _, p := range []*Point{point("ours", 1, 0), point("ours", 2, 0), point("base", 1, 0), point("base", 2, 0)} {
		order = append(order, p.Rows[0].Point())
	}
	w, err := NewWriter(dir, Manifest{Name: "p", Ground: groundSim, Allocation: &Allocation{}}, order)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Point{point("base", 2, 30), point("ours", 1, 60), point("base", 1, 10), point("ours", 2, 61)} {
		if err := w.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(time.Time{}, StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "allocation.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "scenario,allocator,class,location,demand,granted,served\ns,ours,a,1,60.5,50,0\ns,base,a,1,20,50,0\n"; string(text) != want {
		t.Errorf("allocation.csv has\n%s\nwant\n%s", text, want)
	}
	run, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []AllocationCell{{"s", "ours", "a", "1", Known(60.5), Known(50), Known(0)}, {"s", "base", "a", "1", Known(20), Known(50), Known(0)}}
	if diff := cmp.Diff(want, run.Cells, cmp.AllowUnexported(Value{})); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"a,b\n", "scenario,allocator,class,location,demand,granted,served\ns,ours,a,1,x,50,0\n", "", "s,o,c,l,d,g,s\n"} {
		if err := os.WriteFile(filepath.Join(dir, "allocation.csv"), []byte(wrong), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), "allocation.csv") {
			t.Errorf("%q is read: %v", wrong, err)
		}
	}
}
