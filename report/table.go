package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// comparisonHeader names the columns of a comparison, for the terminal and for Markdown.
var comparisonHeader = []string{"load", "controller", "class", "offered/s", "goodput/s", "p99", "shed", "valid"}

func (p *Pooled) cells() []string {
	load := p.Load
	if strings.HasSuffix(load, "x") && p.OfferedTarget.known {
		load += " = " + p.OfferedTarget.rate()
	} else if p.OfferedTarget.known {
		load = p.OfferedTarget.rate()
	}
	valid := "yes"
	if p.Valid < p.Repeats {
		valid = "no"
	}
	if p.Repeats > 1 {
		valid = fmt.Sprintf("%d of %d", p.Valid, p.Repeats)
	}
	return []string{
		load, p.Controller, p.Class, p.Offered.Value.rate(), p.Goodput.with(Value.rate), p.P99.with(Value.micros),
		p.ShedRatio.with(Value.percent), valid,
	}
}

// Table writes the comparison of a run for a terminal.
func Table(w io.Writer, run *Run) error {
	pooled := run.Pool()
	if len(pooled) == 0 {
		_, err := fmt.Fprintln(w, "no point was measured")
		return err
	}
	left, right := tw.AlignLeft, tw.AlignRight
	align := []tw.Align{left, left, left, right, right, right, right, right}
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
	table.Header(comparisonHeader)
	last := pooled[0].Load
	for i := range pooled {
		cells := pooled[i].cells()
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
