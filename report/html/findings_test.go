package html

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/report"
)

// measured is the goodput of a controller at 100/s and 200/s; what is below 0 is of a point that is not valid.
type measured struct {
	controller string
	goodput    [2]float64
}

func found(t *testing.T, change func(*report.Run), list ...measured) []string {
	t.Helper()
	run := &report.Run{Manifest: report.Manifest{
		State: report.StateComplete, Ground: "sim", Classes: []report.Class{{Name: "cpu"}}, Capacity: &report.Capacity{RPS: 100},
	}}
	for _, m := range list {
		run.Manifest.Controllers = append(run.Manifest.Controllers, report.ControllerInfo{Label: m.controller, Name: m.controller})
		for i, goodput := range m.goodput {
			load := float64(100 * (i + 1))
			run.Rows = append(run.Rows, report.Row{
				Profile: "p", Ground: "sim", Controller: m.controller, OfferedTargetRPS: report.Known(load), LoadFactor: number(i + 1), Repeat: 1, Class: "cpu",
				OfferedRPS: report.Known(load), GoodputRPS: report.Known(max(goodput, -goodput)), OptimumRPS: report.Known(100), Valid: goodput >= 0,
				Fates: report.Fates{OK: int64(max(goodput, -goodput))},
			})
		}
	}
	if change != nil {
		change(run)
	}
	return findings(run)
}

func TestFindings(t *testing.T) {
	t.Parallel()
	none, best, other := measured{"none", [2]float64{90, 10}}, measured{"svalinn", [2]float64{95, 80}}, measured{"fixed", [2]float64{95, 60}}
	const fell = "Without control (none) goodput falls from 90.0/s at 1x = 100 requests/s to 10.0/s at 2x = 200 requests/s, the highest load."
	for name, tt := range map[string]struct {
		list   []measured
		change func(*report.Run)
		want   string
	}{
		"collapse":           {[]measured{none, best, other}, nil, fell + " At 2x = 200 requests/s svalinn keeps most goodput: 80.0/s, 80.0 % of the optimum."},
		"no collapse":        {[]measured{{"none", [2]float64{90, 90}}}, nil, "Without control (none) goodput does not fall up to the highest load: 90.0/s at 2x = 200 requests/s."},
		"nothing in time":    {[]measured{{"none", [2]float64{90, 0}}}, nil, "Without control (none) nothing is answered in time at 2x = 200 requests/s; the most is 90.0/s, at 1x = 100 requests/s."},
		"end is not valid":   {[]measured{{"none", [2]float64{90, -10}}}, nil, "What becomes of the goodput without control (none) at 2x = 200 requests/s is not known: there is no valid point."},
		"best is not valid":  {[]measured{{"none", [2]float64{-90, 10}}}, nil, "Without control (none) goodput does not fall up to the highest load: 10.0/s at 2x = 200 requests/s."},
		"who is not counted": {[]measured{none, other, {"svalinn", [2]float64{95, -80}}}, nil, fell + " At 2x = 200 requests/s fixed keeps most goodput: 60.0/s, 60.0 % of the optimum; without a valid point there, and not counted: svalinn."},
		"level": {
			[]measured{none, best, {"fixed", [2]float64{95, 79.5}}}, nil,
			fell + " At 2x = 200 requests/s svalinn and fixed keep most goodput and are level within their repeats or 1 %: 80.0/s, 80.0 % of the optimum.",
		},
		"one alone":     {[]measured{best}, nil, ""},
		"no overload":   {[]measured{none, best}, func(r *report.Run) { r.Manifest.Capacity.RPS = 300 }, "The highest load is within the capacity: nothing here is overload. At 2x = 200 requests/s svalinn keeps most goodput: 80.0/s, 80.0 % of the optimum."},
		"not complete":  {[]measured{none}, func(r *report.Run) { r.Manifest.State = report.StateRunning }, "So far, of a run that is not complete: " + fell},
		"on a computer": {[]measured{none}, func(r *report.Run) { r.Manifest.Ground = "host" }, fell + "\nEach point was measured once, so that chance is not told from these differences."},
		"two classes":   {[]measured{none, best}, func(r *report.Run) { r.Manifest.Classes = append(r.Manifest.Classes, report.Class{Name: "memory"}) }, ""},
	} {
		if diff := cmp.Diff(tt.want, strings.Join(found(t, tt.change, tt.list...), "\n")); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

// TestTopAndReferences: the page says first what follows from it, names the SLO and the capacity, and marks the capacity in figures of goodput.
func TestTopAndReferences(t *testing.T) {
	e := simple()
	e.loads = []float64{50e3, 100e3, 200e3}
	run := e.make(t)
	run.Manifest.Capacity = &report.Capacity{RPS: 100e3, Analytic: true, Bottleneck: "cores"}
	for i := range run.Rows {
		r := &run.Rows[i]
		load, _ := r.OfferedTargetRPS.Get()
		latencies := run.Latency[r.Tag()]
		r.LoadFactor, r.OptimumRPS = fmt.Sprint(load/100e3), r.CeilingRPS
		run.Latency[r.Tag()] = latencies
	}
	page := written(t, run)
	d := dataOf(t, page).Runs[0]
	chart := d.Groups[0].Charts[0]
	if len(chart.Marks) != 1 || chart.Marks[0][0] != 100e3 {
		t.Errorf("the capacity is marked as %v", chart.Marks)
	}
	last := d.Labels[chart.Lines[len(chart.Lines)-1].Label]
	if last.Name != lineOffered || !last.Ref || !last.Free {
		t.Errorf("the last line is %+v, want what was offered", last)
	}
	b := newTab(t, 1280)
	b.open(page, "")
	// Nothing has to come into view for what stands on the screen: a picture of the page may be taken before that is noticed.
	if n := eval[int](b, `document.querySelectorAll("figure[data-drawn]").length`); n == 0 {
		t.Error("no chart is drawn when the page is ready")
	}
	text := eval[string](b, `document.getElementById("content").innerText`)
	for _, want := range []string{"keeps most goodput", "SLO (in time is): cpu within 500 µs, memory within 500 µs", "Capacity (1x): 100k requests/s", "points (a load, a controller, a repeat)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, link := range eval[[]string](b, `[...document.querySelectorAll(".from a, nav a")].map((a) => a.getAttribute("href"))`) {
		if !strings.HasPrefix(link, "#") || !eval[bool](b, `!!document.getElementById("`+strings.TrimPrefix(link, "#")+`")`) {
			t.Errorf("the link %s leads nowhere", link)
		}
	}
	// What was offered goes far above what was served, and does not make the rest flat.
	if high := eval[float64](b, `[...Chart.all].find((c) => c.spec.id === "goodput-cpu").plot.scales.y.max`); high > 90e3 {
		t.Errorf("the axis of goodput goes up to %v", high)
	}
	b.drawAll()
	eval[bool](b, `(() => { const s = document.getElementById("latency-choose-class"); s.value = "cpu"; s.dispatchEvent(new Event("change")); return true; })()`)
	b.drawAll()
	if marks := eval[[]string](b, `[...Chart.all].filter((c) => c.spec.id === "cdf").flatMap((c) => c.spec.marks.map((m) => m.text))`); len(marks) != 1 || marks[0] != "SLO 500 µs" {
		t.Errorf("the CDF is marked %q", marks)
	}
	b.clean()
}

// TestWordsWithoutScript: where nothing is drawn stands what it would show.
func TestWordsWithoutScript(t *testing.T) {
	t.Parallel()
	run := simple().make(t)
	page, _, _ := strings.Cut(written(t, run), "<script")
	for _, c := range dataOf(t, written(t, run)).Runs[0].Groups[0].Charts {
		if !strings.Contains(page, c.Title+". At ") {
			t.Errorf("the page does not say in words what %s shows", c.ID)
		}
	}
}
