package compare

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"spillway/report"
)

const titleOutcome = "outcome"

// column is a column of the table of comparisons.
type column struct {
	title string
	left  bool // a name
	cell  func(*Comparison) string
}

// columns returns the columns that tell the comparisons of a list apart, and what came out.
func columns(list []*Comparison) (columns []column) {
	profile := func(c *Comparison) string { return c.Profile }
	variant := func(c *Comparison) string { return c.Variant }
	if several(list, profile) {
		columns = append(columns, column{"profile", true, profile})
	}
	if several(list, variant) || len(list) > 0 && list[0].Variant != "" {
		columns = append(columns, column{"variant", true, variant})
	}
	columns = append(columns,
		column{"load", true, func(c *Comparison) string { return report.LoadText(c.Load, c.Target) }},
		column{"controller", true, func(c *Comparison) string { return c.Controller }},
		column{"class", true, func(c *Comparison) string { return c.Class }},
		column{"metric", true, func(c *Comparison) string { return c.Metric }},
		column{"base", false, func(c *Comparison) string { return c.value(c.Base) }},
		column{"candidate", false, func(c *Comparison) string { return c.value(c.Candidate) }},
		column{"change", false, (*Comparison).changeText},
		column{"95 %", false, (*Comparison).intervalText},
		column{"p", false, (*Comparison).pText},
		column{"repeats", false, (*Comparison).repeatsText},
		column{titleOutcome, true, func(c *Comparison) string { return string(c.Outcome) }})
	if slices.ContainsFunc(list, func(c *Comparison) bool { return c.More > 0 }) {
		// Beside the outcome that it would change.
		columns = append(columns, column{"more repeats", false, (*Comparison).moreText})
	}
	return columns
}

// Terminal writes the result for whoever sits before it.
func (r *Result) Terminal(w io.Writer) error {
	var b bytes.Buffer
	list := r.listed()
	if len(list) > 0 {
		cols := columns(list)
		header, left := make([]string, len(cols)), make([]bool, len(cols))
		for i, c := range cols {
			header[i], left[i] = c.title, c.left
		}
		var rows [][]string
		for _, c := range list {
			cells := make([]string, len(cols))
			for i := range cols {
				cells[i] = cols[i].cell(c)
			}
			rows = append(rows, cells)
		}
		if err := report.TextTable(&b, header, left, rows); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	line := func(format string, args ...any) { b.WriteString(report.Printable(fmt.Sprintf(format, args...)) + "\n") }
	for _, text := range r.notes() {
		line("%s", text)
	}
	line("%s", r.summary())
	line("%s", r.verdict())
	_, err := w.Write(b.Bytes())
	return err
}

// notes are the lines below a table.
func (r *Result) notes() (lines []string) {
	for _, c := range r.listed() {
		if c.Why != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", c.name(), c.Why))
		}
	}
	for _, s := range r.Settings {
		lines = append(lines, fmt.Sprintf("differs: %s %s: %s in the base, %s in the candidate", s.Profile, s.Key, orNothing(s.Base), orNothing(s.Candidate)))
	}
	for _, p := range r.MissingCandidate {
		lines = append(lines, "missing in the candidate: "+p.String())
	}
	for _, p := range r.MissingBase {
		lines = append(lines, "missing in the base: "+p.String())
	}
	for _, text := range r.Warnings {
		lines = append(lines, "warning: "+text)
	}
	if len(r.Void) == 0 {
		for i := range r.Canaries {
			lines = append(lines, "no sign that the computer changed: "+r.Canaries[i].text())
		}
	}
	for _, text := range r.Void {
		lines = append(lines, "void: "+text)
	}
	return lines
}
