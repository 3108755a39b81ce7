package report

import (
	"bytes"
	"fmt"
	"slices"
)

// matrix is a table of one number against load, with a column for each controller.
type matrix struct {
	title string
	cell  func(p *Pooled) string
}

// matrices are what a class is looked at for. What a single controller or a single load does stands in the table of details already.
func (run *Run) matrices(b *bytes.Buffer, class string, pooled []Pooled) {
	lines, controllers := matrixOf(class, pooled)
	if len(lines) < 2 || len(controllers) < 2 {
		return
	}
	list := []matrix{{"Goodput per second", func(p *Pooled) string { return p.Goodput.Value.rate() }}}
	if slices.ContainsFunc(pooled, func(p Pooled) bool { return p.Optimum.known }) {
		list[0] = matrix{"Goodput per second, and its share of the optimum", func(p *Pooled) string {
			if !p.OptimumShare.Value.known {
				return p.Goodput.Value.rate()
			}
			return p.Goodput.Value.rate() + ", " + p.OptimumShare.Value.percent()
		}}
	}
	list = append(list,
		matrix{"p99 of what was answered", func(p *Pooled) string { return p.P99.Value.micros() }},
		matrix{"Shed, as a share of what was due, and turned away by the server, as a share of what was sent", func(p *Pooled) string {
			return p.ShedRatio.Value.percent() + ", " + p.DropRatio.Value.percent()
		}})
	for _, m := range list {
		fmt.Fprintf(b, "%s:\n\n", m.title)
		m.write(b, lines, controllers)
		b.WriteString("\n")
	}
	b.WriteString("All of it, with the range of the repeats:\n\n")
}

// matrixLine is the points of one load and variant, by controller.
type matrixLine struct {
	first  *Pooled
	points map[string]*Pooled
}

func matrixOf(class string, pooled []Pooled) (lines []matrixLine, controllers []string) {
	for i := range pooled {
		p := &pooled[i]
		if p.Class != class {
			continue
		}
		if !slices.Contains(controllers, p.Controller) {
			controllers = append(controllers, p.Controller)
		}
		if n := len(lines); n == 0 || lines[n-1].first.Load != p.Load || lines[n-1].first.Variant != p.Variant {
			lines = append(lines, matrixLine{p, map[string]*Pooled{}})
		}
		lines[len(lines)-1].points[p.Controller] = p
	}
	return lines, controllers
}

func (m *matrix) write(b *bytes.Buffer, lines []matrixLine, controllers []string) {
	variants := slices.ContainsFunc(lines, func(l matrixLine) bool { return l.first.Variant != "" })
	b.WriteString("| load |")
	rule := alignment(false)
	if variants {
		b.WriteString(" variant |")
		rule += alignment(false)
	}
	for _, c := range controllers {
		fmt.Fprintf(b, " %s |", escape(c))
		rule += alignment(true)
	}
	b.WriteString("\n" + rule + "|\n")
	for _, l := range lines {
		fmt.Fprintf(b, "| %s |", escape(l.first.loadCell()))
		if variants {
			fmt.Fprintf(b, " %s |", escape(l.first.Variant))
		}
		for _, c := range controllers {
			p := l.points[c]
			switch {
			case p == nil:
				b.WriteString("  |")
			case p.Valid == 0:
				fmt.Fprintf(b, " %s (not valid) |", m.cell(p))
			case slices.Contains(p.Warnings, warnUnconverged):
				fmt.Fprintf(b, " %s (unconverged) |", m.cell(p))
			default:
				fmt.Fprintf(b, " %s |", m.cell(p))
			}
		}
		b.WriteString("\n")
	}
}

// alignment is the rule below the head of one column.
func alignment(right bool) string {
	if right {
		return "|--:"
	}
	return "|:--"
}
