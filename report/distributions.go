package report

import "slices"

// cdfPercentiles are where the line of a distribution has points: close enough that a bend shows, and with the tail. The one fastest request
// is not among them; it would stretch the axis.
var cdfPercentiles = func() (list []float64) {
	list = append(list, 1)
	for p := 2.0; p <= 98; p += 2 {
		list = append(list, p)
	}
	return append(list, 99, 99.5, 99.9, 99.99, 100)
}()

// maxDistributions bounds the figures of distributions: each class and variant has up to three, and a run may have any number of variants.
const maxDistributions = 24

// Distributions returns the latencies of answered requests as cumulative distributions, a figure for each variant, class and, of the loads,
// the first, the middle and the last; not more than 24 in all. Repeats are merged. Latencies need their histograms; a figure without any
// is left out.
func (run *Run) Distributions() (list []Chart) {
	if len(run.Latency) == 0 {
		return nil
	}
	g := run.grid()
	taken := map[string]bool{}
	looks := Looks(g.controllers)
	for _, variant := range g.variants {
		loads := sample(g.loadsOf(variant))
		for _, class := range g.shown() {
			for _, load := range loads {
				if len(list) == maxDistributions {
					return list
				}
				c := Chart{
					Title: "Latency at " + load, Metric: "latency", Class: class, Variant: variant,
					X: Axis{Title: "latency", Unit: "µs", Log: true}, Y: Axis{Title: "share of answered requests", Unit: "%"},
				}
				for _, controller := range g.controllers {
					rows := g.rows[cell{variant, load, controller, class}]
					if len(rows) == 0 {
						continue
					}
					c.Title = "Latency at " + loadText(load, rows[0].OfferedTargetRPS)
					if points := run.distribution(rows); len(points) > 0 {
						c.Lines = append(c.Lines, Line{Label: controller, Look: looks[controller], Points: points})
					}
				}
				if len(c.Lines) > 0 {
					c.ID = unique(taken, fragment("cdf", class, load, variant))
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// sample returns the first, the middle and the last of a list.
func sample(list []string) []string {
	if len(list) <= 3 {
		return list
	}
	return []string{list[0], list[len(list)/2], list[len(list)-1]}
}

func (run *Run) distribution(rows []*Row) (points []ChartPoint) {
	used := believed(rows)
	h, highest := run.merged(used)
	if h == nil {
		return nil
	}
	valid := !slices.ContainsFunc(used, func(r *Row) bool { return !r.Valid })
	for i, d := range h.Percentiles(cdfPercentiles) {
		us := float64(d) / 1e3
		if highest > 0 {
			us = min(us, highest)
		}
		points = append(points, ChartPoint{X: us, Load: rows[0].Load(), Y: Range{Value: Known(cdfPercentiles[i] / 100)}, Valid: valid})
	}
	return points
}

// maxServedScenarios bounds the rows of one figure of an allocation; a sweep with more is in the tables.
const maxServedScenarios = 40

// ServedCharts returns the figures of an allocation: for each class, which share of what it asked for every allocator served it in each scenario.
// Cells of a surface are in a table of their own. Anything else has none of these.
func (run *Run) ServedCharts() (list []Chart) {
	if run.Manifest.Allocation == nil {
		return nil
	}
	a := run.allocationGrid()
	scenarios := a.scenarios[:min(len(a.scenarios), maxServedScenarios)]
	looks := Looks(a.controllers)
	taken := map[string]bool{}
	for _, class := range run.Manifest.Classes {
		c := Chart{
			Title: "Served of what was asked for", Metric: metricServed, Class: class.Name,
			X: Axis{Title: "served share", Unit: "%"}, Y: Axis{Title: "scenario", Names: scenarios},
		}
		for _, controller := range a.controllers {
			line := Line{Label: controller, Look: looks[controller]}
			for i, s := range scenarios {
				rows := a.rows(s, controller, class.Name)
				share, ok := a.figure(metricServed, s, controller, class.Name).Value.Get()
				if !ok {
					continue
				}
				line.Points = append(line.Points, ChartPoint{
					X: share, Load: s, Y: Range{Value: Known(float64(len(scenarios) - 1 - i))},
					Valid: !slices.ContainsFunc(rows, func(r *Row) bool { return !r.Valid }),
				})
			}
			if len(line.Points) > 0 {
				c.Lines = append(c.Lines, line)
			}
		}
		if len(c.Lines) > 0 {
			c.ID = unique(taken, fragment("served", class.Name))
			list = append(list, c)
		}
	}
	return list
}
