package report

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is the data of one figure over the offered load. Every document draws the same ones: report.html, plots/, the README's picture.
type Chart struct {
	ID             string // unique in a run and the same for the same profile: a name of a file and of a URL fragment, such as goodput-cpu
	Title          string
	Metric         string // one of Metrics
	Class, Variant string // the variant is empty where a run has none
	X, Y           Axis
	Lines          []Line
}

// Axis says what a coordinate is.
type Axis struct {
	Title string
	Unit  string // requests/s, µs or %; values in % are shares from 0 to 1
	Log   bool
	Names []string // from top to bottom, of an axis of names: the last stands at 0, and each other 1 above the next
}

// Line is what one controller did, or what the model says could be done.
type Line struct {
	Label     string // of the controller; "optimum", "single queue" or "SLO" for a reference
	Reference bool   // nothing that was measured
	Look      Look
	Points    []ChartPoint // by rising X
}

// ChartPoint is one load of a line, its repeats put together.
type ChartPoint struct {
	X        float64 // requests per second
	Load     string  // as Row.Load writes it
	Y        Range   // unknown where nothing was measured that has the metric, such as a latency without an answer
	Valid    bool    // every repeat that it was pooled from may be believed
	Warnings []string
}

// The labels of references.
const (
	LineOptimum = "optimum"
	LineCeiling = "single queue"
	LineSLO     = "SLO"
)

// curve is what a chart is drawn of: one metric.
type curve struct {
	id, title, metric, y, unit string
	log                        bool
}

var curves = []curve{
	{"goodput", "Goodput", metricGoodput, "goodput", "requests/s", false},
	{"optimum-share", "Goodput as a share of the optimum", metricOptimumShare, "share of the optimum", "%", false},
	{"latency-p50", "Median latency", "latency_p50_us", "p50 latency", "µs", true},
	{"latency-p99", "99th percentile of latency", "latency_p99_us", "p99 latency", "µs", true},
	{"shed", "Shed requests", metricShed, "share of arrivals shed", "%", false},
	{"dropped", "Turned away by the server", metricDrops, "share of sent requests rejected, dropped or expired", "%", false},
}

// Charts returns the figures of a run in a fixed order: by variant, by class, by metric. A figure of which nothing is known is left out; an
// allocation, which has one load, has none.
func (run *Run) Charts() (list []Chart) {
	if run.Manifest.Allocation != nil {
		return nil
	}
	g := run.grid()
	taken := map[string]bool{}
	for _, variant := range g.variants {
		for _, class := range g.shown() {
			var shed Chart
			for _, f := range curves {
				c := run.chart(g, f, variant, class)
				if !slices.ContainsFunc(c.Lines, func(l Line) bool { return !l.Reference }) {
					continue
				}
				if f.metric == metricShed {
					shed = c
				}
				if f.metric == metricDrops && sameCurves(&c, &shed) {
					continue // the server shed all that was shed: a second figure of the same
				}
				c.ID = unique(taken, fragment(f.id, class, variant))
				list = append(list, c)
			}
		}
	}
	return list
}

// sameCurves reports whether two figures show the same to the eye: every point of one within a thousandth of that of the other.
func sameCurves(a, b *Chart) bool {
	const eye = 0.001
	return slices.EqualFunc(a.Lines, b.Lines, func(l, m Line) bool {
		return l.Label == m.Label && slices.EqualFunc(l.Points, m.Points, func(p, q ChartPoint) bool {
			return p.X == q.X && p.Y.Value.known == q.Y.Value.known && math.Abs(p.Y.Value.number-q.Y.Value.number) <= eye
		})
	})
}

// fragment joins names to an identifier of small letters, digits and hyphens.
func fragment(names ...string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.Join(names, "-")) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

// unique returns id, with a number where it is taken: names that differ in other characters than fragment keeps.
func unique(taken map[string]bool, id string) string {
	name := id
	for n := 2; taken[name]; n++ {
		name = id + "-" + strconv.Itoa(n)
	}
	taken[name] = true
	return name
}

func (run *Run) chart(g *grid, f curve, variant, class string) Chart {
	c := Chart{
		Title: f.title, Metric: f.metric, Class: class, Variant: variant,
		X: Axis{Title: "offered load", Unit: "requests/s"}, Y: Axis{Title: f.y, Unit: f.unit, Log: f.log},
	}
	m, _ := metricNamed(f.metric)
	var first []*Row // of any controller at each load: what the model says is the same for all
	looks := Looks(g.controllers)
	for _, controller := range g.controllers {
		line := Line{Label: controller, Look: looks[controller]}
		known := false
		for _, load := range g.loads {
			rows := g.rows[cell{variant, load, controller, class}]
			if len(rows) == 0 {
				continue
			}
			first = append(first, rows[0])
			p := run.chartPoint(&m, rows)
			known = known || p.Y.Value.known
			line.Points = append(line.Points, p)
		}
		if known {
			sortPoints(line.Points)
			c.Lines = append(c.Lines, line)
		}
	}
	c.X.Log = spread(c.Lines) > 30
	c.references(run, first)
	return c
}

func (run *Run) chartPoint(m *metric, rows []*Row) ChartPoint {
	used := believed(rows)
	p := ChartPoint{X: rows[0].OfferedTargetRPS.number, Load: rows[0].Load(), Valid: true}
	p.Y = ranged(m.pooled(run, used).value, used, m.of)
	for _, r := range used {
		p.Valid = p.Valid && r.Valid
	}
	for _, r := range rows {
		for _, code := range r.Warnings {
			if !slices.Contains(p.Warnings, code) {
				p.Warnings = append(p.Warnings, code)
			}
		}
	}
	return p
}

func sortPoints(points []ChartPoint) {
	slices.SortStableFunc(points, func(a, b ChartPoint) int {
		switch {
		case a.X < b.X:
			return -1
		case a.X > b.X:
			return 1
		}
		return 0
	})
}

// spread returns the largest load over the smallest that is not 0.
func spread(lines []Line) float64 {
	low, high := 0.0, 0.0
	for _, l := range lines {
		for _, p := range l.Points {
			if p.X > 0 && (low == 0 || p.X < low) {
				low = p.X
			}
			high = max(high, p.X)
		}
	}
	if low == 0 {
		return 1
	}
	return high / low
}

// references adds what the model or the objective says to a chart: the optimum and the single-queue ceiling to one of goodput, the SLO to one
// of a latency.
func (c *Chart) references(run *Run, rows []*Row) {
	add := func(label string, of func(*Row) Value) {
		line := Line{Label: label, Reference: true, Look: referenceLook(label)}
		seen := map[float64]bool{}
		for _, r := range rows {
			if v := of(r); v.known && !seen[r.OfferedTargetRPS.number] {
				seen[r.OfferedTargetRPS.number] = true
				line.Points = append(line.Points, ChartPoint{X: r.OfferedTargetRPS.number, Load: r.Load(), Y: Range{Value: v}, Valid: true})
			}
		}
		if len(line.Points) > 0 {
			sortPoints(line.Points)
			c.Lines = append(c.Lines, line)
		}
	}
	switch {
	case c.Metric == metricGoodput:
		add(LineOptimum, func(r *Row) Value { return r.OptimumRPS })
		add(LineCeiling, func(r *Row) Value { return r.CeilingRPS })
	case c.Y.Unit == "µs":
		percentile := map[string]float64{"latency_p50_us": 50, "latency_p99_us": 99}[c.Metric]
		add(LineSLO, func(r *Row) Value { return run.promised(r.Class, percentile) })
	}
}

// promised returns the limit of a percentile of the latency of a class, in microseconds; where the class has but one limit for every request,
// that of its 99th. Unknown where nothing was promised.
func (run *Run) promised(class string, percentile float64) Value {
	for i := range run.Manifest.Classes {
		c := &run.Manifest.Classes[i]
		if c.Name != class {
			continue
		}
		for _, o := range c.Objectives {
			if o.Percentile == percentile {
				return Known(o.LimitUS)
			}
		}
		if len(c.Objectives) == 0 && percentile == 99 && c.SLOUS > 0 {
			return Known(c.SLOUS)
		}
	}
	return Value{}
}
