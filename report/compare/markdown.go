package compare

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"spillway/report"
)

// Markdown writes the result for a pull request. Whatever comes from the results stands in code spans: no name can end a table, mention anybody, make
// a link or hide what follows it.
func (r *Result) Markdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## Comparison: %s\n\n%s\n", r.verdict(), r.summary())
	if list := r.listed(); len(list) > 0 {
		b.WriteByte('\n')
		cols := columns(list)
		for _, c := range cols {
			b.WriteString("| " + c.title + " ")
		}
		b.WriteString("|\n")
		for _, c := range cols {
			if c.left {
				b.WriteString("| --- ")
			} else {
				b.WriteString("| ---: ")
			}
		}
		b.WriteString("|\n")
		for _, c := range list {
			for _, col := range cols {
				text := col.cell(c)
				switch {
				case col.title == titleOutcome && (c.Outcome == Worse || c.Outcome == Better):
					text = "**" + text + "**"
				case col.left && col.title != titleOutcome:
					text = report.CodeSpan(text)
				default:
					text = strings.ReplaceAll(text, "<", "&lt;")
				}
				b.WriteString("| " + text + " ")
			}
			b.WriteString("|\n")
		}
	}
	for i, text := range r.notes() {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- " + report.CodeSpan(text) + "\n")
	}
	fmt.Fprintf(&b, "\n%s\n", r.method())
	_, err := w.Write(b.Bytes())
	return err
}

// method says in two sentences how a difference is judged.
func (r *Result) method() string {
	var metrics []string
	for _, m := range r.Options.Metrics {
		metrics = append(metrics, report.CodeSpan(m))
	}
	return fmt.Sprintf("Compared: %s, by the single repeats; base and candidate are their medians. A change counts from %s %% on, and when it is not chance "+
		"(p at most %s, after Holm's correction for all comparisons, and that of ranks at most %s); the interval beside it is its own, without a correction.",
		strings.Join(metrics, ", "), plain(100*r.Options.Threshold), plain(alpha), plain(rankAlpha))
}
