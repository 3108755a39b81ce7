package html

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"spillway/report"
)

// What a figure of goodput has on a page beside that of package report, by which the eye finds what is overload.

const metricGoodput = "goodput_rps"

// lineOffered is where goodput would be if everything offered were served in time.
const lineOffered = "all that was offered"

// offered returns the line of what was offered of the class of a figure. It may go far above everything that was served, so that the axis is not
// stretched for it.
func (d *runData) offered(run *report.Run, c *report.Chart) (lineData, bool) {
	line := lineData{Label: d.label(lineOffered, report.Look{Colour: "#a8a8a8"}, true)}
	d.Labels[line.Label].Free = true
	seen := map[float64]bool{}
	for i := range run.Rows {
		r := &run.Rows[i]
		x, known := r.OfferedTargetRPS.Get()
		if r.Class != c.Class || r.Variant() != c.Variant || !known || seen[x] {
			continue
		}
		y, known := r.OfferedRPS.Get()
		if !known {
			continue
		}
		seen[x] = true
		line.Points = append(line.Points, []any{x, y, report.Value{}, report.Value{}, 1, clean(loadText(r.Load(), x))})
	}
	slices.SortFunc(line.Points, func(a, b []any) int {
		if a[0].(float64) < b[0].(float64) {
			return -1
		}
		return 1
	})
	return line, len(line.Points) > 1
}

// capacityMarks marks the capacity, where the loads of the variant are factors of it.
func capacityMarks(run *report.Run, variant string) [][]any {
	c := run.Manifest.Capacity
	if c == nil || c.RPS <= 0 {
		return nil
	}
	for i := range run.Rows {
		r := &run.Rows[i]
		factor, isFactor := strings.CutSuffix(r.Load(), "x")
		x, known := r.OfferedTargetRPS.Get()
		if r.Variant() != variant || !isFactor || !known {
			continue
		}
		if n, err := strconv.ParseFloat(factor, 64); err != nil || math.Abs(n*c.RPS-x) > 0.01*x {
			return nil // a variant with another capacity
		}
	}
	return [][]any{{c.RPS, "1x: the capacity"}}
}
