package html

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"spillway/report"
)

// The data of a page, as its script reads them. Names are short and points are arrays because a page has many: see assets/page.js, which says
// what each is.

type pageData struct {
	Runs []*runData `json:"runs"`
}

type runData struct {
	Prefix   string       `json:"p"` // of its identifiers; empty for a page of one run
	Labels   []labelData  `json:"labels"`
	Groups   []*groupData `json:"groups"`
	Dist     *distData    `json:"dist,omitempty"`
	Trace    *traceData   `json:"trace,omitempty"`
	Shares   []*barsData  `json:"shares,omitempty"` // of an allocation
	Places   *placesData  `json:"places,omitempty"` // of an allocation
	Points   *tableData   `json:"points"`
	Tables   []*tableData `json:"tables,omitempty"` // long ones of the text
	labelOf  map[string]int
	pointsOK map[pointKey]bool
}

// labelData is a line's name and look.
type labelData struct {
	Name   string `json:"n"`
	Colour string `json:"c"`
	Marker string `json:"m,omitempty"`
	Dash   []int  `json:"d,omitempty"`
	Ref    bool   `json:"ref,omitempty"`
	Free   bool   `json:"f,omitempty"` // the axis is not stretched for it
}

// groupData is what one class saw under one variant.
type groupData struct {
	ID      string       `json:"id"`
	Variant string       `json:"v"`
	Class   string       `json:"c"`
	Charts  []*chartData `json:"charts"`
	Bars    []*barsData  `json:"bars"`
}

type axisData struct {
	Title string `json:"t"`
	Unit  string `json:"u"`
	Log   bool   `json:"l,omitempty"`
}

type chartData struct {
	ID      string     `json:"id"`
	Title   string     `json:"t"`
	Summary string     `json:"s"`
	X       axisData   `json:"x"`
	Y       axisData   `json:"y"`
	Lines   []lineData `json:"lines"`
	Marks   [][]any    `json:"k,omitempty"` // x and what stands there
}

type lineData struct {
	Label  int     `json:"l"`
	Points [][]any `json:"p"` // x, y, low, high, valid, load, warnings
}

// barsData are stacked bars in panels.
type barsData struct {
	ID       string      `json:"id"`
	Title    string      `json:"t"`
	Summary  string      `json:"s"`
	Segments []string    `json:"seg"`            // names; of one segment the bars have the colours of their labels
	ByLabel  bool        `json:"by,omitempty"`   // a row is a controller's
	Note     string      `json:"note,omitempty"` // what is not shown
	Panels   []panelData `json:"panels"`
}

type panelData struct {
	Title string  `json:"t"`
	Rows  [][]any `json:"r"` // name or label, valid, a count or share for each segment
}

// distData are latencies at fixed percentiles.
type distData struct {
	Percentiles []float64 `json:"ps"`
	Variants    []string  `json:"v"`
	Classes     []string  `json:"c"`
	Loads       []string  `json:"o"`
	Rows        [][]any   `json:"r"` // variant, class, load, label, valid, how many were answered, values in µs
	Limits      [][]any   `json:"lim,omitempty"`
}

type tableData struct {
	ID    string   `json:"id"`
	Head  []string `json:"h"`
	Right []bool   `json:"a"` // aligned to the right
	Rows  [][]any  `json:"r"`
}

type pointKey struct {
	variant, controller, target string
	repeat                      int
}

func newRunData(run *report.Run, prefix string) *runData {
	d := &runData{Prefix: prefix, labelOf: map[string]int{}, pointsOK: map[pointKey]bool{}}
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Class == report.AllClasses {
			d.pointsOK[pointKey{r.Variant(), r.Controller, r.OfferedTargetRPS.String(), r.Repeat}] = r.Valid
		}
	}
	d.controllers(run)
	d.charts(run)
	d.outcomes(run)
	d.allocation(run)
	d.points(run)
	d.trace(run)
	return d
}

// controllers fixes the looks of all controllers, those that were not measured yet included, so that they are the same in every chart.
func (d *runData) controllers(run *report.Run) {
	var names []string
	note := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, c := range run.Manifest.Controllers {
		note(c.Label)
	}
	seen := map[string]bool{}
	for i := range run.Rows {
		if c := run.Rows[i].Controller; !seen[c] {
			seen[c] = true
			note(c)
		}
	}
	looks := report.Looks(names)
	for _, name := range names {
		d.label(name, looks[name], false)
	}
}

// label returns the number of a label.
func (d *runData) label(name string, look report.Look, reference bool) int {
	key := name
	if reference {
		key = "\x00" + name // a controller may have the name of a reference
	}
	if i, ok := d.labelOf[key]; ok {
		return i
	}
	i := len(d.Labels)
	d.labelOf[key] = i
	d.Labels = append(d.Labels, labelData{Name: clean(name), Colour: look.Colour, Marker: look.Marker, Dash: look.Dash, Ref: reference})
	return i
}

// group returns the group of a variant and a class, in the order of first asking.
func (d *runData) group(variant, class string) *groupData {
	for i := len(d.Groups) - 1; i >= 0; i-- { // one asks for the last again and again
		if g := d.Groups[i]; g.Variant == clean(variant) && g.Class == clean(class) {
			return g
		}
	}
	g := &groupData{ID: d.Prefix + "group-" + number(len(d.Groups)+1), Variant: clean(variant), Class: clean(class), Charts: []*chartData{}, Bars: []*barsData{}}
	d.Groups = append(d.Groups, g)
	return g
}

func (d *runData) charts(run *report.Run) {
	var last *groupData
	for _, c := range run.Charts() {
		if last == nil || last.Variant != clean(c.Variant) || last.Class != clean(c.Class) {
			last = d.group(c.Variant, c.Class)
		}
		out := &chartData{
			ID: d.Prefix + c.ID, Title: c.Title, Summary: summarise(&c),
			X: axisData{c.X.Title, c.X.Unit, c.X.Log}, Y: axisData{c.Y.Title, c.Y.Unit, c.Y.Log},
		}
		for _, l := range c.Lines {
			line := lineData{Label: d.label(l.Label, l.Look, l.Reference)}
			for _, p := range l.Points {
				record := []any{p.X, p.Y.Value, p.Y.Low, p.Y.High, flag(p.Valid), clean(loadText(p.Load, p.X))}
				if len(p.Warnings) > 0 {
					record = append(record, clean(strings.Join(p.Warnings, ", ")))
				}
				line.Points = append(line.Points, record)
			}
			out.Lines = append(out.Lines, line)
		}
		if c.Metric == metricGoodput {
			out.Marks = capacityMarks(run, c.Variant)
			if line, ok := d.offered(run, &c); ok {
				out.Lines = append(out.Lines, line)
			}
		}
		last.Charts = append(last.Charts, out)
	}
}

// points is the table of every point: each repeat, as every class saw it, and whether it may be believed.
func (d *runData) points(run *report.Run) {
	t := &tableData{ID: d.Prefix + "points", Rows: [][]any{}}
	variants := slices.ContainsFunc(run.Rows, func(r report.Row) bool { return r.Variant() != "" })
	head := func(name string, right bool) { t.Head, t.Right = append(t.Head, name), append(t.Right, right) }
	if variants {
		head("variant", false)
	}
	head("controller", false)
	head("load", true)
	head("repeat", true)
	head("class", false)
	head("valid", false)
	for _, name := range []string{"offered/s", "goodput/s", "of the optimum", "p50", "p99", "max", "shed", "turned away by the server"} {
		head(name, true)
	}
	head("warnings", false)
	for i := range run.Rows {
		r := &run.Rows[i]
		load, _ := r.OfferedTargetRPS.Get()
		var record []any
		if variants {
			record = append(record, clean(r.Variant()))
		}
		valid := "valid"
		if !r.Valid {
			valid = "not valid"
		}
		record = append(record, clean(r.Controller), clean(loadText(r.Load(), load)), r.Repeat, clean(r.Class), valid)
		record = append(record, rate(r.OfferedRPS), rate(r.GoodputRPS), percent(over(r.GoodputRPS, r.OptimumRPS)), micros(r.Latency.P50), micros(r.Latency.P99),
			micros(r.Latency.Max), percent(r.ShedRatio), percent(r.DropRatio), clean(strings.Join(r.Warnings, ", ")))
		t.Rows = append(t.Rows, record)
	}
	d.Points = t
}

func over(part, whole report.Value) report.Value {
	p, ok := part.Get()
	w, known := whole.Get()
	if !ok || !known || w == 0 {
		return report.Value{}
	}
	return report.Known(p / w)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// clean puts a text on one line and takes out what hides or reorders what is written: names come from files that somebody else may have made.
func clean(s string) string {
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case odd(r):
			return -1
		}
		return r
	}, s)
}

func odd(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// loadText writes a load as tables do: 400k, or 1.2x = 52.7k.
func loadText(load string, rps float64) string {
	if strings.HasSuffix(load, "x") {
		return load + " = " + rate(report.Known(rps))
	}
	if load == "-" {
		return "–"
	}
	return cmp.Or(rate(report.Known(rps)), load)
}
