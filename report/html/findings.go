package html

import (
	"fmt"
	"slices"
	"strings"

	"spillway/report"
)

// What a page says at its top are sentences that follow from the points: what overload does without control, and who keeps most of the goodput. A point
// that is not valid is evidence of nothing, and where ranges of repeats overlap nobody is said to be ahead.

// mostFindings is of how many variants there are sentences; of more nobody would read them.
const mostFindings = 3

// few is the share within which two figures without ranges are called the same.
const few = 0.01

// findings returns the sentences on a run, by variant.
func findings(run *report.Run) (list []string) {
	var charts []report.Chart
	for _, c := range run.Charts() {
		if c.Metric != "goodput_rps" {
			continue
		}
		if n := len(charts); n > 0 && charts[n-1].Variant == c.Variant {
			if c.Class == report.AllClasses {
				charts[n-1] = c
			}
			continue
		}
		charts = append(charts, c)
	}
	if len(charts) > mostFindings {
		return nil
	}
	for i := range charts {
		c := &charts[i]
		if len(run.Manifest.Classes) > 1 && c.Class != report.AllClasses {
			continue // it would say of one class what is asked of all
		}
		f := finder{c, uncontrolled(run), highest(c)}
		text := strings.TrimSpace(f.without(run.Manifest.Capacity) + " " + f.most())
		if text == "" {
			continue
		}
		if c.Variant != "" {
			text = clean(c.Variant) + ": " + text
		}
		list = append(list, text)
	}
	if len(list) > 0 && run.Manifest.Ground != "sim" && !slices.ContainsFunc(run.Rows, func(r report.Row) bool { return r.Repeat > 1 }) {
		list = append(list, "Each point was measured once, so that chance is not told from these differences.")
	}
	if len(list) > 0 && run.Manifest.State != report.StateComplete {
		list[0] = "So far, of a run that is not complete: " + list[0]
	}
	return list
}

// uncontrolled returns the labels of controllers that are none.
func uncontrolled(run *report.Run) (labels []string) {
	for _, c := range run.Manifest.Controllers {
		if c.Name == "none" {
			labels = append(labels, c.Label)
		}
	}
	return labels
}

// highest is the highest load of a figure.
func highest(c *report.Chart) (x float64) {
	for _, l := range c.Lines {
		if !l.Reference && len(l.Points) > 0 {
			x = max(x, l.Points[len(l.Points)-1].X)
		}
	}
	return x
}

type finder struct {
	chart        *report.Chart
	uncontrolled []string
	highest      float64
}

// pointAt returns the point of a line at a load.
func pointAt(l *report.Line, x float64) *report.ChartPoint {
	for i := range l.Points {
		if l.Points[i].X == x {
			return &l.Points[i]
		}
	}
	return nil
}

// figureOf returns the figure of a point; false where there is none or it must not be believed.
func figureOf(p *report.ChartPoint) (float64, bool) {
	if p == nil || !p.Valid {
		return 0, false
	}
	return p.Y.Value.Get()
}

func place(p *report.ChartPoint) string { return clean(loadText(p.Load, p.X)) + " requests/s" }

// without says what becomes of the goodput without control at the highest load. It says nothing where that is no overload, as far as one knows.
func (f *finder) without(capacity *report.Capacity) string {
	if capacity != nil && f.highest <= capacity.RPS {
		return "The highest load is within the capacity: nothing here is overload."
	}
	for i := range f.chart.Lines {
		l := &f.chart.Lines[i]
		if l.Reference || !slices.Contains(f.uncontrolled, l.Label) {
			continue
		}
		end := pointAt(l, f.highest)
		if end == nil {
			return ""
		}
		last, ok := figureOf(end)
		if !ok {
			return fmt.Sprintf("What becomes of the goodput without control (%s) at %s is not known: there is no valid point.", clean(l.Label), place(end))
		}
		best, most := end, last
		for j := range l.Points {
			if y, ok := figureOf(&l.Points[j]); ok && y > most {
				best, most = &l.Points[j], y
			}
		}
		return f.fall(clean(l.Label), best, end, most, last)
	}
	return ""
}

func (f *finder) fall(label string, best, end *report.ChartPoint, most, last float64) string {
	switch {
	case most == 0:
		return fmt.Sprintf("Without control (%s) nothing is answered in time at %s.", label, place(end))
	case last == 0:
		return fmt.Sprintf("Without control (%s) nothing is answered in time at %s; the most is %s/s, at %s.", label, place(end), rate(best.Y.Value), place(best))
	case best != end && !same(best, end):
		return fmt.Sprintf("Without control (%s) goodput falls from %s/s at %s to %s/s at %s, the highest load.", label, rate(best.Y.Value), place(best), rate(end.Y.Value), place(end))
	}
	return fmt.Sprintf("Without control (%s) goodput does not fall up to the highest load: %s/s at %s.", label, rate(end.Y.Value), place(end))
}

// same reports whether nothing can be said of which of two points is higher, the first of which is.
func same(high, low *report.ChartPoint) bool {
	a, known := high.Y.Low.Get()
	b, other := low.Y.High.Get()
	if known && other && b >= a {
		return true
	}
	x, _ := high.Y.Value.Get()
	y, _ := low.Y.Value.Get()
	return y >= x*(1-few)
}

// most says who has most of the goodput at the highest load.
func (f *finder) most() string {
	var lines []*report.Line
	var left []string // who has no point there that may be believed
	var optimum report.Value
	for i := range f.chart.Lines {
		l := &f.chart.Lines[i]
		p := pointAt(l, f.highest)
		_, ok := figureOf(p)
		switch {
		case l.Reference:
			if l.Label == report.LineOptimum && p != nil {
				optimum = p.Y.Value
			}
		case ok:
			lines = append(lines, l)
		default:
			left = append(left, clean(l.Label))
		}
	}
	if len(lines) < 2 {
		return ""
	}
	at := func(l *report.Line) *report.ChartPoint { return pointAt(l, f.highest) }
	slices.SortStableFunc(lines, func(a, b *report.Line) int {
		x, _ := figureOf(at(a))
		y, _ := figureOf(at(b))
		return int(min(max(y-x, -1), 1) * 2)
	})
	best := at(lines[0])
	if y, _ := figureOf(best); y == 0 {
		return fmt.Sprintf("At %s nothing is answered in time under any controller.", place(best))
	}
	level := []string{clean(lines[0].Label)}
	for _, l := range lines[1:] {
		if same(best, at(l)) {
			level = append(level, clean(l.Label))
		}
	}
	share := ""
	if s := over(best.Y.Value, optimum); s != (report.Value{}) {
		share = ", " + percent(s) + " of the optimum"
	}
	text := fmt.Sprintf("At %s %s keeps most goodput: %s/s%s", place(best), level[0], rate(best.Y.Value), share)
	switch {
	case len(level) == len(lines):
		text = fmt.Sprintf("At %s no controller is ahead: in goodput all are level within their repeats or %d %%, the highest at %s/s%s", place(best), int(few*100), rate(best.Y.Value), share)
	case len(level) > 1:
		text = fmt.Sprintf("At %s %s keep most goodput and are level within their repeats or %d %%: %s/s%s", place(best), joined(level), int(few*100), rate(best.Y.Value), share)
	}
	if len(left) > 0 {
		text += "; without a valid point there, and not counted: " + joined(left)
	}
	return text + "."
}
