package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// comparisonColumn is a column of a comparison, for the terminal and for Markdown.
type comparisonColumn struct {
	title string
	text  bool // a name: aligned to the left, and of somebody else's making
	cell  func(p *Pooled) string
}

const titleClass = "class"

// comparison returns the columns of a comparison. What a model says could have been served at best is shown where it is known. Without ranges it
// fits a terminal: then only goodput has its range, where there is room.
func comparison(pooled []Pooled, ranges bool) []comparisonColumn {
	modelled := slices.ContainsFunc(pooled, func(p Pooled) bool { return p.Optimum.known })
	show := func(r Range, format func(Value) string, ranges bool) string {
		if ranges {
			return r.with(format)
		}
		return format(r.Value)
	}
	columns := []comparisonColumn{{"load", true, (*Pooled).loadCell}}
	if slices.ContainsFunc(pooled, func(p Pooled) bool { return p.Variant != "" }) {
		columns = append(columns, comparisonColumn{"variant", true, func(p *Pooled) string { return p.Variant }})
	}
	columns = append(columns,
		comparisonColumn{"controller", true, func(p *Pooled) string { return p.Controller }},
		comparisonColumn{titleClass, true, func(p *Pooled) string { return p.Class }},
		comparisonColumn{"offered/s", false, func(p *Pooled) string { return p.Offered.Value.rate() }},
		comparisonColumn{"goodput/s", false, func(p *Pooled) string { return show(p.Goodput, Value.rate, ranges || !modelled) }})
	if modelled {
		columns = append(columns,
			comparisonColumn{"optimum/s", false, func(p *Pooled) string { return p.Optimum.rate() }},
			comparisonColumn{"ceiling/s", false, func(p *Pooled) string { return p.Ceiling.rate() }})
	}
	if modelled && ranges {
		columns = append(columns, comparisonColumn{"of optimum", false, func(p *Pooled) string { return show(p.OptimumShare, Value.percent, ranges) }})
	}
	columns = append(columns,
		comparisonColumn{"p99", false, func(p *Pooled) string { return show(p.P99, Value.micros, ranges) }},
		comparisonColumn{"late", false, func(p *Pooled) string { return show(p.LateRatio, Value.percent, ranges) }},
		comparisonColumn{"shed", false, func(p *Pooled) string { return show(p.ShedRatio, Value.percent, ranges) }})
	if ranges {
		columns = append(columns, comparisonColumn{"drop", false, func(p *Pooled) string { return show(p.DropRatio, Value.percent, ranges) }})
	}
	return append(columns,
		comparisonColumn{"lost", false, func(p *Pooled) string { return show(p.LostRatio, Value.percent, ranges) }},
		comparisonColumn{"valid", false, (*Pooled).validCell})
}

func (p *Pooled) loadCell() string {
	if p.Load == "-" {
		return p.Load
	}
	return loadText(p.Load, p.OfferedTarget)
}

func (p *Pooled) validCell() string {
	switch {
	case p.Repeats > 1:
		return fmt.Sprintf("%d of %d", p.Valid, p.Repeats)
	case p.Valid < p.Repeats:
		return "no"
	default:
		return "yes"
	}
}

// Table writes the comparison of a run for a terminal.
func Table(w io.Writer, run *Run) error {
	pooled := run.Pool()
	if len(pooled) == 0 {
		_, err := fmt.Fprintln(w, "no point was measured")
		return err
	}
	columns := comparison(pooled, false)
	header, align := make([]string, len(columns)), make([]tw.Align, len(columns))
	for i, c := range columns {
		header[i], align[i] = c.title, tw.AlignRight
		if c.text {
			align[i] = tw.AlignLeft
		}
	}
	table := newTable(w, header, align)
	last := pooled[0].Load
	for i := range pooled {
		cells := make([]string, len(columns))
		for j, c := range columns {
			cells[j] = printable(c.cell(&pooled[i]))
		}
		if load := pooled[i].Load; load != last {
			if err := table.Append(make([]string, len(cells))); err != nil {
				return err
			}
			last = load
		} else if i > 0 {
			blankRepeated(cells, columns, &pooled[i], &pooled[i-1])
		}
		if err := table.Append(cells); err != nil {
			return err
		}
	}
	return table.Render()
}

// blankRepeated takes the names out of a line that stand in the line above already.
func blankRepeated(cells []string, columns []comparisonColumn, p, above *Pooled) {
	for i, c := range columns {
		if !c.text || c.cell(p) != c.cell(above) || c.title == titleClass {
			return
		}
		cells[i] = ""
	}
}

// newTable returns a table for a terminal, without frames.
func newTable(w io.Writer, header []string, align []tw.Align) *tablewriter.Table {
	table := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off},
				Lines:      tw.Lines{ShowHeaderLine: tw.On},
			},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithRowAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
	)
	table.Header(header)
	return table
}
