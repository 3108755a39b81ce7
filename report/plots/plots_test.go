package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// chart makes a chart of p99 latencies in microseconds, a line for each label; a value below 0 is unknown.
func chart(id string, log bool, lines map[string][]float64, labels ...string) *report.Chart {
	c := &report.Chart{
		ID: id, Title: "99th percentile of latency", Metric: "latency_p99_us", Class: report.AllClasses,
		X: report.Axis{Title: "offered load", Unit: "requests/s"}, Y: report.Axis{Title: "p99 latency", Unit: "µs", Log: log},
	}
	looks := report.Looks(labels)
	for _, label := range labels {
		line := report.Line{Label: label, Look: looks[label]}
		for i, y := range lines[label] {
			p := report.ChartPoint{X: float64(i+1) * 50_000, Valid: true}
			if y >= 0 {
				p.Y = report.Range{Value: report.Known(y), Low: report.Known(y), High: report.Known(y)}
			}
			line.Points = append(line.Points, p)
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// drawn returns the SVG of a chart, having looked whether it can be one.
func drawn(t *testing.T, c *report.Chart) []byte {
	t.Helper()
	var b, again bytes.Buffer
	if err := errors.Join(Write(&b, c), Write(&again, c)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("%s: the same chart gives other bytes the second time", c.ID)
	}
	sound(t, c.ID, b.Bytes())
	return b.Bytes()
}

var number = regexp.MustCompile(`NaN|Inf|inf\b|%!`)

// sound fails when a file is no XML, or has a number that is none, or something that would run.
func sound(t interface{ Errorf(string, ...any) }, name string, svg []byte) {
	if bad := number.Find(svg); bad != nil {
		t.Errorf("%s has %s", name, bad)
	}
	for in := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("%s is no XML: %v", name, err)
			return
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch start.Name.Local {
		case "svg", "g", "path", "text", "title", "desc":
		default:
			t.Errorf("%s has an element %s", name, start.Name.Local)
		}
		for _, a := range start.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
				t.Errorf("%s has an attribute %s", name, a.Name.Local)
			}
		}
	}
}

func goldenCharts() []*report.Chart {
	full := chart("full", true, map[string][]float64{
		"none": {900, 4000, 90_000, 2.1e6}, "svalinn": {120, 150, 180, 190}, "codel": {110, 130, -1, 250},
	}, "none", "svalinn", "codel")
	for i := range full.Lines[1].Points {
		p := &full.Lines[1].Points[i]
		p.Y.Low, p.Y.High = report.Known(pointY(p)*0.8), report.Known(pointY(p)*1.4)
	}
	full.Lines[0].Points[3].Valid = false
	full.Lines = append(full.Lines, report.Line{Label: report.LineSLO, Reference: true, Look: report.Look{Colour: "#c02020", Dash: []int{2, 3}}, Points: []report.ChartPoint{
		{X: 50_000, Y: report.Range{Value: report.Known(500)}, Valid: true}, {X: 200_000, Y: report.Range{Value: report.Known(500)}, Valid: true},
	}})
	shed := chart("shed", false, map[string][]float64{"none": {0, 0, 0}}, "none")
	shed.Y = report.Axis{Title: "goodput", Unit: "requests/s"}
	invalid := chart("invalid", true, map[string][]float64{"none": {100, 200}, "svalinn": {50, 60}, "vegas": {70, 90}}, "none", "svalinn", "vegas")
	for i := range invalid.Lines {
		for j := range invalid.Lines[i].Points {
			invalid.Lines[i].Points[j].Valid = false
		}
	}
	served := chart("served", false, nil, "two-level", "static")
	served.X, served.Y = report.Axis{Title: "served share", Unit: "%"}, report.Axis{Title: "scenario", Names: []string{"flood", "calm"}}
	for i := range served.Lines {
		served.Lines[i].Points = []report.ChartPoint{
			{X: 0.25 + float64(i)/4, Load: "flood", Y: report.Range{Value: report.Known(1)}, Valid: true}, {X: 1, Load: "calm", Y: report.Range{Value: report.Known(0)}, Valid: true},
		}
	}
	return []*report.Chart{
		full, shed, invalid, served,
		chart("empty", false, nil),
		chart("single", true, map[string][]float64{"none": {420}}, "none"),
		closeLoads(),
		chart("zeros", true, map[string][]float64{"none": {0, 0}}, "none"),
		chart("interrupted", true, map[string][]float64{"none": {300, -1, -1}, "svalinn": {-1, -1, -1}}, "none", "svalinn"),
	}
}

// closeLoads are loads far from 0, as around a capacity.
func closeLoads() *report.Chart {
	c := chart("close", true, map[string][]float64{"none": {500, 600}, "svalinn": {100, 120}}, "none", "svalinn")
	for i := range c.Lines {
		c.Lines[i].Points[0].X, c.Lines[i].Points[1].X = 21_900, 22_700
	}
	return c
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	for _, c := range goldenCharts() {
		svg := drawn(t, c)
		path := filepath.Join("testdata", c.ID+".svg")
		if *update {
			if err := os.WriteFile(path, svg, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v; go test -update writes it", err)
		}
		if diff := cmp.Diff(string(want), string(svg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestNothingIsBlank: what has a value has a mark, what has none says so, and what is not valid looks and says so.
func TestNothingIsBlank(t *testing.T) {
	t.Parallel()
	for _, c := range goldenCharts() {
		svg := string(drawn(t, c))
		if c.ID == "empty" {
			if !strings.Contains(svg, ">nothing was measured<") {
				t.Error("an empty chart does not say that it is")
			}
			continue
		}
		if got := strings.Contains(svg, "not valid"); got != (c.ID == "full" || c.ID == "invalid") {
			t.Errorf("%s speaks of points that are not valid: %v", c.ID, got)
		}
		for _, l := range c.Lines {
			if !strings.Contains(svg, ">"+l.Label+"<") && c.ID != "interrupted" {
				t.Errorf("%s: no legend of %s", c.ID, l.Label)
			}
			if n := strings.Count(svg, l.Look.Colour) + strings.Count(svg, strings.ToUpper(l.Look.Colour)); n < 2 && l.Label != "svalinn" {
				t.Errorf("%s: %s is drawn %d times", c.ID, l.Label, n)
			}
		}
	}
	full := string(drawn(t, goldenCharts()[0]))
	for _, want := range []string{"bars: range of the repeats", "100 ms", "1 s", "100 µs", "50k", "200k", "<title>99th percentile of latency: all classes</title>", "<desc>p99 latency against offered load. none: 900 µs at 50k/s, 2.1 s at 200k/s; svalinn"} {
		if !strings.Contains(full, want) {
			t.Errorf("%q is missing in\n%s", want, full)
		}
	}
}

// TestNamesStayNames draws what somebody called a controller, a class and a profile to do harm.
func TestNamesStayNames(t *testing.T) {
	t.Parallel()
	evil := []string{"<script>alert(1)</script>", "\"/><image href='x' onload='y'/>", "&lt;x]]>", "a\x00\x1b[31m\u202eb", "\xff\xfe", strings.Repeat("long ", 100), "", "=cmd|' /C calc'!A0"}
	lines := map[string][]float64{}
	for i, label := range evil {
		lines[label] = []float64{float64(i + 1), 2}
	}
	c := chart("evil", false, lines, evil...)
	c.Class, c.Variant, c.Title = evil[0], evil[1], evil[3]
	svg := string(drawn(t, c))
	for _, bad := range []string{"<script", "<image", "\x00", "\x1b", "\u202e"} {
		if strings.Contains(svg, bad) {
			t.Errorf("%q is in the file", bad)
		}
	}
}

// TestFilesAreBounded draws a line of a million points with one peak among them, and very many lines.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	long := make([]float64, 1_000_000)
	for i := range long {
		long[i] = 100 + float64(i%7)
	}
	long[654_321] = 5e6
	c := chart("long", true, map[string][]float64{"none": long}, "none")
	if n := len(drawn(t, c)); n > 100_000 {
		t.Errorf("a line of a million points takes %d bytes", n)
	}
	if f := newFigure(c); f.y.high < 5e6 {
		t.Errorf("the axis ends at %v: the peak is lost", f.y.high)
	}
	many := map[string][]float64{}
	var labels []string
	for i := range 300 {
		label := fmt.Sprint("c", i)
		labels = append(labels, label)
		many[label] = []float64{1, 2}
	}
	svg := drawn(t, chart("many", false, many, labels...))
	if !bytes.Contains(svg, []byte("276 more in points.csv")) || len(svg) > 100_000 {
		t.Errorf("300 lines take %d bytes, or are left out silently", len(svg))
	}
}

// TestScales: whatever the values, an axis has a length, ticks with texts within it, and puts every value on itself.
func TestScales(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1e9), rapid.SampledFrom([]float64{0, 1e-3, 1, 999.99, 1e3, 1e12})), 0, 8).Draw(t, "values")
		axis := report.Axis{Unit: rapid.SampledFrom([]string{"µs", "%", "requests/s", ""}).Draw(t, "unit"), Log: rapid.Bool().Draw(t, "log")}
		s := newScale(axis, values)
		if !(s.low < s.high) || math.IsInf(s.low, 0) || math.IsInf(s.high, 0) {
			t.Fatalf("%v gives an axis from %v to %v", values, s.low, s.high)
		}
		texts := 0
		for _, tick := range s.ticks {
			if tick.Value < s.low-1e-9*math.Abs(s.low) || tick.Value > s.high*(1+1e-9) {
				t.Fatalf("%v: a tick at %v on an axis from %v to %v", values, tick.Value, s.low, s.high)
			}
			if tick.Label != "" {
				texts++
			}
			if number.MatchString(tick.Label) {
				t.Fatalf("a tick called %q", tick.Label)
			}
		}
		if texts < 1 || len(s.ticks) > 200 || texts > 14 {
			t.Fatalf("%v %+v: %d ticks, %d with a text, from %v to %v", values, axis, len(s.ticks), texts, s.low, s.high)
		}
		if len(values) > 1 {
			if low, high := slices.Min(values), slices.Max(values); low > high*0.6 && high-low > high*1e-6 {
				if s := closeScale(axis, low, high); !(s.low < low && s.high > high) || len(s.ticks) < 2 || len(s.ticks) > 8 {
					t.Fatalf("%v close by give an axis from %v to %v with %d ticks", values, s.low, s.high, len(s.ticks))
				}
			}
		}
		for _, v := range values {
			if n := s.Normalize(0, 0, v); !(n >= 0 && n <= 1) {
				t.Fatalf("%v stands at %v of an axis from %v to %v", v, n, s.low, s.high)
			}
		}
	})
}

func TestTickTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		unit    string
		v, step float64
		want    string
	}{
		{"requests/s", 250_000, 250_000, "250k"}, {"requests/s", 1e6, 250_000, "1M"}, {"requests/s", 1.25e6, 250_000, "1.25M"}, {"requests/s", 0, 1, "0"},
		{"µs", 500, 500, "500 µs"}, {"µs", 1000, 1000, "1 ms"}, {"µs", 2.5e6, 5e5, "2.5 s"}, {"µs", 0.2, 0.2, "200 ns"}, {"%", 0.25, 0.25, "25 %"}, {"%", 0.005, 0.0025, "0.5 %"},
	} {
		if got := tickText(tt.unit, tt.v, tt.step); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}
