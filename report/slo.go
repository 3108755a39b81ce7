package report

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"

	"spillway/internal/hist"
)

// Attainment is one objective of a class at one point: what was promised of a percentile, and what came of it.
type Attainment struct {
	row       *Row
	Objective Objective
	Measured  Value // the percentile, of answered requests
	Within    Value // share of the answered requests that kept the limit
	Met       bool  // meaningless while Within is unknown
}

// Attainments returns how every point did by the objectives of its classes, in the order of the rows.
func (run *Run) Attainments() (list []Attainment) {
	edges := map[time.Duration]time.Duration{}
	for i := range run.Rows {
		r := &run.Rows[i]
		for _, o := range run.Manifest.objectivesOf(r.Variant(), r.Class) {
			list = append(list, run.attainment([]*Row{r}, o, edges))
		}
	}
	return list
}

// attainment judges the repeats together, by their merged histograms. It is of the first of them.
func (run *Run) attainment(rows []*Row, o Objective, edges map[time.Duration]time.Duration) Attainment {
	a := Attainment{row: rows[0], Objective: o}
	exact, sum := true, Fates{}
	for _, r := range rows {
		sum = sum.Add(r.Fates)
		slo, ok := r.SLO.Get()
		exact = exact && ok && slo == o.LimitUS
	}
	merged, highest := run.merged(rows)
	if merged == nil {
		return a
	}
	a.Measured = Known(min(float64(merged.Percentile(o.Percentile))/1e3, highest))
	if exact {
		a.Within = ratio(sum.OK, sum.Completed()) // counted one by one
	} else {
		a.Within = Known(shareWithin(merged, time.Duration(o.LimitUS*1e3), edges))
	}
	// The share decides and not the percentile, which stands for the end of its bucket of the histogram.
	a.Met = a.Within.number >= o.Percentile/100-1e-12
	return a
}

// shareWithin returns the share of a histogram up to a limit, to the three digits that it resolves: what shares the limit's bucket is within.
// edges keeps the ends of those buckets.
func shareWithin(h *hist.Hist, limit time.Duration, edges map[time.Duration]time.Duration) float64 {
	edge, ok := edges[limit]
	if !ok {
		bucket := hist.New()
		bucket.Record(limit)
		bucket.Record(2*limit + 1) // a maximum that does not cut the bucket off
		edge = bucket.Percentile(50)
		edges[limit] = edge
	}
	n := int(h.Count())
	within := sort.Search(n, func(i int) bool { return h.Percentile(100*float64(i+1)/float64(n)) > edge })
	return float64(within) / float64(n)
}

// sloHeader names the columns of slo.csv.
var sloHeader = []string{
	"profile", "ground", "controller", "offered_target_rps", "repeat", "class", "percentile", "objective_us", "measured_us", "share_within", "met",
}

// WriteSLO writes slo.csv: each objective of each class at each point.
func WriteSLO(w io.Writer, run *Run) error {
	var records [][]string
	for _, a := range run.Attainments() {
		r := a.row
		met := ""
		if a.Within.known {
			met = strconv.FormatBool(a.Met)
		}
		records = append(records, []string{
			textCell(r.Profile), textCell(r.Ground), textCell(r.Controller), r.OfferedTargetRPS.String(), strconv.Itoa(r.Repeat), textCell(r.Class),
			Known(a.Objective.Percentile).String(), Known(a.Objective.LimitUS).String(), a.Measured.String(), a.Within.String(), met,
		})
	}
	return writeTable(w, sloHeader, records)
}

// objectivesSection shows the objectives with their repeats together.
func (run *Run) objectivesSection(b *bytes.Buffer) {
	edges := map[time.Duration]time.Duration{}
	if !run.Manifest.hasObjectives() || len(run.Rows) == 0 {
		return
	}
	b.WriteString("\n## Objectives\n\nPercentiles are of answered requests: what was shed is in none of them. *within* is the share of the answered that kept " +
		"the limit, to the three digits of the histograms; the objective is met when that share is at least its percentile.\n\n")
	g := run.grid()
	variants := len(g.variants) > 1
	b.WriteString("| load | ")
	rule := "|:--|"
	if variants {
		b.WriteString("variant | ")
		rule += ":--|"
	}
	b.WriteString("controller | class | objective | measured | within | met |\n" + rule + ":--|:--|:--|--:|--:|:--|\n")
	for _, load := range g.loads {
		for _, variant := range g.variants {
			for _, controller := range g.controllers {
				for _, class := range g.classes {
					rows := g.rows[cell{variant, load, controller, class}]
					for _, o := range run.Manifest.objectivesOf(variant, class) {
						if len(rows) > 0 {
							run.objectiveLine(b, rows, o, edges, variants)
						}
					}
				}
			}
		}
	}
}

func (run *Run) objectiveLine(b *bytes.Buffer, rows []*Row, o Objective, edges map[time.Duration]time.Duration, variants bool) {
	r := rows[0]
	rows = believed(rows)
	together := run.attainment(rows, o, edges)
	fmt.Fprintf(b, "| %s |", escape(loadText(r.Load(), r.OfferedTargetRPS)))
	if variants {
		fmt.Fprintf(b, " %s |", escape(r.Variant()))
	}
	met := unknown
	if together.Within.known {
		met = "no"
		if together.Met {
			met = "yes"
		}
		if n := run.metBy(rows, o, edges); n > 0 && n < len(rows) {
			met += fmt.Sprintf(", %d of %d repeats", n, len(rows))
		}
	}
	fmt.Fprintf(b, " %s | %s | p%s ≤ %s | %s | %s | %s |\n", escape(r.Controller), escape(r.Class), Known(o.Percentile), Known(o.LimitUS).micros(),
		together.Measured.micros(), together.Within.percent(), met)
}

// metBy counts the repeats that met an objective.
func (run *Run) metBy(rows []*Row, o Objective, edges map[time.Duration]time.Duration) (n int) {
	for _, r := range rows {
		if a := run.attainment([]*Row{r}, o, edges); a.Within.known && a.Met {
			n++
		}
	}
	return n
}
