package html

import (
	"cmp"
	"fmt"
	"slices"

	"spillway/report"
)

// Percentiles of the CDF and the spectrum: even steps in the middle, and three a decade towards the maximum. A page of very many points has fewer of
// each, so that it can be opened.
var (
	allPercentiles = []float64{
		0, 1, 2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5, 25, 27.5, 30, 32.5, 35, 37.5, 40, 42.5, 45, 47.5, 50, 52.5, 55, 57.5, 60, 62.5, 65, 67.5, 70, 72.5, 75,
		77.5, 80, 82.5, 85, 87.5, 90, 91, 92, 93, 94, 95, 96, 97, 97.5, 98, 98.5, 99, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 99.995, 99.998, 99.999, 100,
	}
	fewPercentiles = []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100}
)

// manyCells is from how many cells on there are few percentiles of each.
const manyCells = 4000

// fateNames are the segments of the bars of outcomes, in the order of report.Fates.
var fateNames = []string{"ok", "late", "refused", "rejected", "dropped", "expired", "timed out", "failed", "unsent"}

func fateCounts(f report.Fates) []int64 {
	return []int64{f.OK, f.Late, f.Refused, f.Rejected, f.Dropped, f.Expired, f.TimedOut, f.Failed, f.Unsent}
}

// reasonNames are the segments of the bars of reasons: the closed list of the design, and what has no reason.
var reasonNames = []string{
	"refused", "queue_full", "queue_delay", "limit", "slo", "priority", "fraction", "resource", "budget", "codel", "lock", "memory", "cancelled", "expired", "other",
}

// mostBars is how many loads of a controller have a bar. Of more, those are shown that lie evenly in their list.
const mostBars = 24

// outcomes adds what became of the requests, why they were shed, and the distribution of their latencies.
func (d *runData) outcomes(run *report.Run) {
	if run.Manifest.Allocation != nil {
		return
	}
	ps := allPercentiles
	if len(run.Rows) > manyCells {
		ps = fewPercentiles
	}
	list := run.CellOutcomes(ps)
	d.dist(run, list, ps)
	type place struct{ variant, class string }
	byPlace := map[place][]*report.CellOutcome{}
	var order []place
	for i := range list {
		at := place{list[i].Variant, list[i].Class}
		if byPlace[at] == nil {
			order = append(order, at)
		}
		byPlace[at] = append(byPlace[at], &list[i])
	}
	groups := map[place]*groupData{}
	for _, g := range d.Groups {
		groups[place{g.Variant, g.Class}] = g
	}
	for _, at := range order {
		g := groups[place{clean(at.variant), clean(at.class)}]
		if g == nil {
			g = d.group(at.variant, at.class)
		}
		g.Bars = append(g.Bars, d.bars(g.ID+"-outcomes", "What became of the requests", fateNames, byPlace[at], func(o *report.CellOutcome) []int64 { return fateCounts(o.Fates) }))
		if slices.ContainsFunc(byPlace[at], func(o *report.CellOutcome) bool { return len(o.Shed) > 0 }) {
			g.Bars = append(g.Bars, d.bars(g.ID+"-reasons", "Why requests were shed", reasonNames, byPlace[at], reasonCounts))
		}
	}
}

// reasonCounts returns the counts of the reasons.
func reasonCounts(o *report.CellOutcome) []int64 {
	counts := make([]int64, len(reasonNames))
	for reason, n := range o.Shed {
		i := slices.Index(reasonNames, reason)
		if i < 0 {
			i = len(reasonNames) - 1
		}
		counts[i] += n
	}
	return counts
}

func (d *runData) bars(id, title string, segments []string, cells []*report.CellOutcome, of func(*report.CellOutcome) []int64) *barsData {
	out := &barsData{ID: id, Title: title, Segments: []string{}, Panels: []panelData{}}
	used := make([]bool, len(segments))
	panels := map[int][]*report.CellOutcome{}
	for _, o := range cells {
		label := d.label(o.Controller, report.Look{}, false)
		panels[label] = append(panels[label], o)
		for i, n := range of(o) {
			used[i] = used[i] || n > 0
		}
	}
	for i, name := range segments {
		if used[i] {
			out.Segments = append(out.Segments, name)
		}
	}
	loads := 0
	for i, l := range d.Labels {
		cells := panels[i]
		if len(cells) == 0 {
			continue
		}
		slices.SortStableFunc(cells, func(a, b *report.CellOutcome) int {
			x, _ := a.Target.Get()
			y, _ := b.Target.Get()
			return cmp.Compare(x, y)
		})
		loads = max(loads, len(cells))
		panel := panelData{Title: l.Name}
		for _, o := range thinned(cells) {
			rps, _ := o.Target.Get()
			record := []any{clean(loadText(o.Load, rps)), flag(o.Valid), o.Fates.Arrivals()}
			for i, n := range of(o) {
				if used[i] {
					record = append(record, n)
				}
			}
			panel.Rows = append(panel.Rows, record)
		}
		out.Panels = append(out.Panels, panel)
	}
	if loads > mostBars {
		out.Note = fmt.Sprintf("%d of %d loads are shown, evenly chosen.", mostBars, loads)
	}
	out.Summary = fmt.Sprintf("Shares of the requests that were due, by controller and load: %s.", joined(out.Segments))
	if len(out.Segments) == 0 {
		out.Summary = "No request was due."
	}
	return out
}

func joined(names []string) string {
	text := ""
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			text += " and "
		default:
			text += ", "
		}
		text += n
	}
	return text
}

// thinned returns at most mostBars of the cells, the first and the last among them.
func thinned(cells []*report.CellOutcome) []*report.CellOutcome {
	if len(cells) <= mostBars {
		return cells
	}
	var list []*report.CellOutcome
	for i := range mostBars {
		list = append(list, cells[i*(len(cells)-1)/(mostBars-1)])
	}
	return list
}

// dist adds the distributions. Where nothing was answered there is none.
func (d *runData) dist(run *report.Run, list []report.CellOutcome, ps []float64) {
	out := &distData{Percentiles: ps}
	index := map[string]int{}
	place := func(kind string, names *[]string, name string) int {
		i, ok := index[kind+name]
		if !ok {
			i = len(*names)
			index[kind+name] = i
			*names = append(*names, name)
		}
		return i
	}
	for i := range list {
		o := &list[i]
		if len(o.Percentiles) == 0 {
			continue
		}
		rps, _ := o.Target.Get()
		values := make([]any, 0, len(ps))
		for _, v := range o.Percentiles {
			values = append(values, rounded(v))
		}
		out.Rows = append(out.Rows, []any{
			place("v", &out.Variants, clean(o.Variant)), place("c", &out.Classes, clean(o.Class)), place("o", &out.Loads, clean(loadText(o.Load, rps))),
			d.label(o.Controller, report.Look{}, false), flag(o.Valid), o.Fates.Completed(), values,
		})
	}
	if len(out.Rows) == 0 {
		return
	}
	for _, c := range run.Manifest.Classes {
		if c.SLOUS > 0 {
			out.Limits = append(out.Limits, []any{clean(c.Name), c.SLOUS})
		}
	}
	d.Dist = out
}

// rounded keeps a nanosecond of microseconds.
func rounded(v report.Value) any {
	n, ok := v.Get()
	if !ok {
		return nil
	}
	return float64(int64(n*1e3+0.5)) / 1e3
}
