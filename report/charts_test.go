package report

import (
	"testing"
)

func chartRow(controller string, load, goodput float64, valid bool) Row {
	return Row{
		Profile: "p", Ground: "sim", Controller: controller, OfferedTargetRPS: Known(load), Repeat: 1, Class: AllClasses, OfferedRPS: Known(load),
		GoodputRPS: Known(goodput), OptimumRPS: Known(100), CeilingRPS: Known(50), Fates: Fates{OK: int64(goodput)}, Valid: valid,
	}
}

func TestCharts(t *testing.T) {
	t.Parallel()
	run := &Run{Rows: []Row{
		chartRow("none", 200, 10, true), chartRow("none", 100, 90, true), chartRow("svalinn", 100, 95, true), chartRow("svalinn", 200, 99, false),
	}}
	charts := run.Charts()
	if len(charts) != 2 {
		t.Fatalf("%d charts, want goodput and its share of the optimum: nothing else is known", len(charts))
	}
	c := charts[0]
	if c.ID != "goodput-all" || len(c.Lines) != 4 {
		t.Fatalf("chart %s has %d lines, want none, svalinn and two references", c.ID, len(c.Lines))
	}
	none, svalinn := c.Lines[0], c.Lines[1]
	if none.Label != "none" || none.Points[0].X != 100 || none.Points[1].X != 200 {
		t.Errorf("line %s is not by rising load: %+v", none.Label, none.Points)
	}
	if !svalinn.Points[0].Valid || svalinn.Points[1].Valid {
		t.Errorf("the point that is not valid does not say so: %+v", svalinn.Points)
	}
	if v, _ := c.Lines[2].Points[0].Y.Value.Get(); c.Lines[2].Label != LineOptimum || v != 100 || !c.Lines[2].Reference {
		t.Errorf("the optimum is %+v", c.Lines[2])
	}
	if charts := (&Run{}).Charts(); len(charts) != 0 {
		t.Errorf("nothing was measured, and there are %d charts", len(charts))
	}
}

// Names that differ in what no file name should have are different files.
func TestChartIDs(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, want := range []string{"goodput-a-b", "goodput-a-b-2", "goodput-a-b-3"} {
		if got := unique(taken, fragment("goodput", "A/../b!", "")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLooksDoNotDependOnTheOthers(t *testing.T) {
	t.Parallel()
	a, b := Looks([]string{"svalinn", "mine", "yours"}), Looks([]string{"yours", "none", "mine", "svalinn"})
	for _, l := range []string{"svalinn", "mine", "yours"} {
		if a[l].Colour != b[l].Colour || a[l].Marker != b[l].Marker {
			t.Errorf("%s is drawn %+v and %+v", l, a[l], b[l])
		}
	}
	seen := map[string]string{}
	for label, l := range looks {
		key := l.Colour + l.Marker
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s look alike", label, other)
		}
		seen[key] = label
	}
	for _, l := range spare {
		key := l.Colour + l.Marker
		if other, ok := seen[key]; ok {
			t.Errorf("the spare look %v is that of %s", l, other)
		}
		seen[key] = "another spare one"
	}
}
