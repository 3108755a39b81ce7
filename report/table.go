package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// comparisonColumn is a column of a comparison, for the terminal and for Markdown.
type comparisonColumn struct {
	title string
	cell  func(p *Pooled) string
}

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
	columns := []comparisonColumn{
		{"load", (*Pooled).loadCell},
		{"controller", func(p *Pooled) string { return p.Controller }},
		{"class", func(p *Pooled) string { return p.Class }},
		{"offered/s", func(p *Pooled) string { return p.Offered.Value.rate() }},
		{"goodput/s", func(p *Pooled) string { return show(p.Goodput, Value.rate, ranges || !modelled) }},
	}
	if modelled {
		columns = append(columns,
			comparisonColumn{"optimum/s", func(p *Pooled) string { return p.Optimum.rate() }},
			comparisonColumn{"ceiling/s", func(p *Pooled) string { return p.Ceiling.rate() }})
	}
	return append(columns,
		comparisonColumn{"p99", func(p *Pooled) string { return show(p.P99, Value.micros, ranges) }},
		comparisonColumn{"late", func(p *Pooled) string { return show(p.LateRatio, Value.percent, ranges) }},
		comparisonColumn{"shed", func(p *Pooled) string { return show(p.ShedRatio, Value.percent, ranges) }},
		comparisonColumn{"lost", func(p *Pooled) string { return show(p.LostRatio, Value.percent, ranges) }},
		comparisonColumn{"valid", (*Pooled).validCell})
}

// titled is how many columns of a comparison are names, aligned to the left.
const titled = 3

func (p *Pooled) loadCell() string {
	switch {
	case !p.OfferedTarget.known:
		return p.Load
	case strings.HasSuffix(p.Load, "x"):
		return p.Load + " = " + p.OfferedTarget.rate()
	default:
		return p.OfferedTarget.rate()
	}
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
		if i < titled {
			align[i] = tw.AlignLeft
		}
	}
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
	last := pooled[0].Load
	for i := range pooled {
		cells := make([]string, len(columns))
		for j, c := range columns {
			cells[j] = c.cell(&pooled[i])
		}
		if load := pooled[i].Load; load != last {
			if err := table.Append(make([]string, len(cells))); err != nil {
				return err
			}
			last = load
		} else if i > 0 {
			cells[0] = ""
			if pooled[i].Controller == pooled[i-1].Controller {
				cells[1] = ""
			}
		}
		if err := table.Append(cells); err != nil {
			return err
		}
	}
	return table.Render()
}
