package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/hist"
)

// TestCellOutcomes: repeats are added and merged, those that are not valid are left out where others are, and reasons are those of the class.
func TestCellOutcomes(t *testing.T) {
	t.Parallel()
	run := &Run{Latency: map[string]*hist.Hist{}}
	for repeat := 1; repeat <= 3; repeat++ {
		r := chartRow("none", 100, 10, repeat < 3)
		r.Repeat, r.Fates.Rejected, r.Latency.Max = repeat, 4, Known(float64(1000*repeat))
		h := hist.New()
		for i := range 10 {
			h.Record(time.Duration(repeat) * time.Duration(i+1) * 100 * time.Microsecond)
		}
		run.Rows, run.Latency[r.Tag()] = append(run.Rows, r), h
		run.Manifest.Points = append(run.Manifest.Points, PointFacts{
			Controller: "none", Load: "100", Repeat: repeat, WindowS: 1, Shed: map[string]map[string]int64{AllClasses: {"queue_full": 3, "limit": 1}, "other": {"lock": 9}},
		})
	}
	list := run.CellOutcomes([]float64{0, 50, 100})
	if len(list) != 1 {
		t.Fatalf("%d outcomes, want one", len(list))
	}
	o := list[0]
	if !o.Valid || o.Fates.OK != 20 || o.Fates.Rejected != 8 || o.Shed["queue_full"] != 6 || o.Shed["limit"] != 2 || len(o.Shed) != 2 {
		t.Errorf("two valid repeats of three give %+v", o)
	}
	if !slices.IsSortedFunc(o.Percentiles, func(a, b Value) int { return int(a.number - b.number) }) || o.Percentiles[2] != Known(2000) {
		t.Errorf("percentiles are %v, want them to rise to the maximum of 2000 µs", o.Percentiles)
	}
	for i := range run.Rows {
		run.Rows[i].Valid = false
	}
	if o := run.CellOutcomes(nil)[0]; o.Valid || o.Fates.OK != 30 || o.Percentiles != nil {
		t.Errorf("of repeats none of which is valid all are pooled: %+v", o)
	}
}

// TestSectionsAreTheReport: what a page says in words is what report.md says.
func TestSectionsAreTheReport(t *testing.T) {
	t.Parallel()
	m := manifest()
	run := &Run{Manifest: m, Rows: point("none", "0.5", 1, 0, ms(1, 2)...).Rows}
	run.Rows[0].Warnings, run.Rows[1].Warnings = []string{"drift"}, []string{"drift"}
	var whole strings.Builder
	if err := Markdown(&whole, []*Run{run}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range run.Sections() {
		names = append(names, s.Name)
		if !strings.Contains(whole.String(), s.Markdown) {
			t.Errorf("section %s is not in report.md:\n%s", s.Name, s.Markdown)
		}
	}
	if want := []string{"summary", "warnings", "capacity", "circumstances"}; !slices.Equal(names, want) {
		t.Errorf("sections are %v, want %v", names, want)
	}
	if !strings.Contains(whole.String(), HowToRead([]*Run{run})) {
		t.Error("what a reader must know is not what report.md says")
	}
}
