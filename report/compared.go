package report

import (
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/tw"
)

// Direction says whether more of a metric is better (1) or less (−1). It is 0 for what is neither, such as the offered load or the generator's own
// lag, for what is a figure only beside another controller's, and for names that are no metric.
func Direction(name string) int {
	m, known := metricNamed(name)
	switch {
	case !known, m.regret, m.above != 0, strings.HasPrefix(name, "send_lag_"):
		return 0
	case m.less:
		return -1
	case m.of == nil, slices.Contains([]string{metricGoodput, "throughput_rps", "ok", metricServed, metricOptimumShare}, name):
		return 1 // what is read off a trace and not marked as better when less
	}
	return 0
}

// Directed returns the metrics that have a direction, in the order of Metrics.
func Directed() []string {
	return slices.DeleteFunc(Metrics(), func(name string) bool { return Direction(name) == 0 })
}

// IsShare reports whether a metric is a share of a whole, whose differences are in points of percent.
func IsShare(name string) bool {
	return strings.HasSuffix(name, "_ratio") || strings.HasSuffix(name, "_share") || slices.Contains([]string{
		"utilisation", "over_commit", "conservation_error", "current_idle", "current_over_commit", "closed_form_error",
	}, name)
}

// Of returns a metric of one row of the run, which is one repeat; unknown where the row has none.
func (run *Run) Of(name string, r *Row) Value {
	m, known := metricNamed(name)
	switch {
	case !known || m.regret || m.above != 0:
		return Value{}
	case m.of != nil:
		return m.of(r)
	}
	if t := m.ofTrace(run, []*Row{r}); !t.atLeast {
		return t.value
	}
	return Value{}
}

// MetricText writes a value of a metric for people, with its unit.
func MetricText(name string, v Value) string {
	m, known := metricNamed(name)
	if !known || m.unit == nil {
		return plain(v)
	}
	return m.unit(v)
}

// LoadText writes a load, as Row.Load names it, for people.
func LoadText(load string, target Value) string { return loadText(load, target) }

// Printable returns s without what would move a cursor, hide text or end a line.
func Printable(s string) string { return printable(s) }

// CodeSpan writes s as a code span of Markdown, which nothing in it can end, in a table neither: readers do not agree on what a backslash before a bar
// means there, so a bar becomes a broken one.
func CodeSpan(s string) string { return strings.ReplaceAll(code(s), "|", "¦") }

// TextTable writes a table for a terminal, without frames. Columns of left are aligned to the left; cells are printed as Printable has them.
func TextTable(w io.Writer, header []string, left []bool, rows [][]string) error {
	align := make([]tw.Align, len(header))
	for i := range align {
		align[i] = tw.AlignRight
		if left[i] {
			align[i] = tw.AlignLeft
		}
	}
	table := newTable(w, header, align)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = printable(c)
		}
		if err := table.Append(cells); err != nil {
			return err
		}
	}
	return table.Render()
}
