package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/olekukonko/tablewriter/tw"
)

// allocationGrid is what the tables of an allocation show: its scenarios, without the cells of surfaces, and its allocators.
type allocationGrid struct {
	run                    *Run
	g                      *grid
	scenarios, controllers []string
}

func (run *Run) allocationGrid() allocationGrid {
	a := allocationGrid{run: run, g: run.grid()}
	for _, v := range a.g.variants {
		if !run.Manifest.onSurface(v) {
			a.scenarios = append(a.scenarios, v)
		}
	}
	for _, c := range run.Manifest.Controllers {
		a.controllers = append(a.controllers, c.Label)
	}
	return a
}

// rows returns the repeats of a cell of the tables, at whatever load its scenario has.
func (a *allocationGrid) rows(scenario, controller, class string) []*Row {
	for _, load := range a.g.loads {
		if rows := a.g.rows[cell{scenario, load, controller, class}]; len(rows) > 0 {
			return believed(rows)
		}
	}
	return nil
}

// figure returns a metric of the repeats, with their range.
func (a *allocationGrid) figure(name, scenario, controller, class string) Range {
	m, ok := metricNamed(name)
	rows := a.rows(scenario, controller, class)
	if !ok || len(rows) == 0 {
		return Range{}
	}
	return ranged(m.pooled(a.run, rows).value, rows, func(r *Row) Value { return m.pooled(a.run, []*Row{r}).value })
}

// ofSurface returns the figure of one cell of a surface.
func (a *allocationGrid) ofSurface(f *AllocationSurface, scenario string) Value {
	ours := a.figure(f.Metric, scenario, f.Controller, f.Class).Value
	m, ok := metricNamed(f.Metric)
	if !ok || m.above == 0 {
		return ours
	}
	base := a.figure(f.Metric, scenario, f.Over, f.Class).Value
	if !ours.known || !base.known {
		return Value{}
	}
	return Known(float64(m.above) * (ours.number - base.number))
}

// allocationSection takes the place of the tables of classes.
func (run *Run) allocationSection(b *bytes.Buffer) {
	m := run.Manifest.Allocation
	a := run.allocationGrid()
	fmt.Fprintf(b, "\n## Allocation\n\nA budget of %s requests per second, shared over %d locations", Known(m.BudgetRPS).rate(), m.Locations)
	var reserved []string
	for _, c := range run.Manifest.Classes {
		reserved = append(reserved, fmt.Sprintf("%s for %s", Known(m.Reserved[c.Name]).percent(), escape(c.Name)))
	}
	fmt.Fprintf(b, "; reserved is %s. %d cycles of %s", strings.Join(reserved, ", "), m.Cycles, Known(m.CycleUS).micros())
	if run.Manifest.Ground == groundSim {
		fmt.Fprintf(b, "; allocators know demand that is %d cycles old, and demand varies by %s from cycle to cycle", m.Lag, Known(m.Noise).percent())
	}
	b.WriteString(".\n\n| scenario | what it is | demand, in budgets | basis |\n|:--|:--|:--|:--|\n")
	for i := range m.Scenarios {
		if s := &m.Scenarios[i]; s.Surface == 0 {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", escape(s.Name), escape(s.Title), escape(s.words()), escape(s.basis()))
		}
	}
	for _, c := range run.Manifest.Classes {
		a.matrix(b, "Served of class "+escape(c.Name)+", as a share of what was asked for", func(scenario, controller string) string {
			return a.figure(metricServed, scenario, controller, c.Name).with(Value.percent)
		})
	}
	a.matrix(b, "Used, as a share of the budget", func(scenario, controller string) string {
		return a.figure("utilisation", scenario, controller, AllClasses).with(Value.percent)
	})
	a.details(b)
	for i := range m.Surfaces {
		a.surface(b, i)
	}
	a.timeline(b)
	b.WriteString(allocationDefinition)
}

func (s *AllocationScenario) words() string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(s.Reserved)) {
		parts = append(parts, fmt.Sprintf("%s has %s reserved", c, Known(s.Reserved[c]).percent()))
	}
	return strings.Join(append([]string{s.Demand}, parts...), "; ")
}

func (s *AllocationScenario) basis() string {
	if s.Basis == "" {
		return "ours"
	}
	return s.Basis
}

// matrix writes a table of scenarios and allocators.
func (a *allocationGrid) matrix(b *bytes.Buffer, title string, cell func(scenario, controller string) string) {
	fmt.Fprintf(b, "\n%s:\n\n| scenario |", title)
	rule := alignment(false)
	for _, c := range a.controllers {
		fmt.Fprintf(b, " %s |", escape(c))
		rule += alignment(true)
	}
	b.WriteString("\n" + rule + "|\n")
	for _, s := range a.scenarios {
		fmt.Fprintf(b, "| %s |", escape(s))
		for _, c := range a.controllers {
			fmt.Fprintf(b, " %s |", cell(s, c))
		}
		b.WriteString("\n")
	}
}

// detailColumns are the figures of the whole grid.
var detailColumns = []struct{ title, metric string }{
	{"idle", "idle_share"}, {"over-committed", "over_commit"}, {"conservation error", "conservation_error"},
	{"idle, current", "current_idle"}, {"over-committed, current", "current_over_commit"},
}

func (a *allocationGrid) details(b *bytes.Buffer) {
	b.WriteString("\nWhat was left idle and what was granted too much:\n\n| scenario | allocator |")
	rule := alignment(false) + alignment(false)
	for _, d := range detailColumns {
		fmt.Fprintf(b, " %s |", d.title)
		rule += alignment(true)
	}
	fmt.Fprintf(b, " worst location |\n%s%s|\n", rule, alignment(false))
	for _, s := range a.scenarios {
		for _, c := range a.controllers {
			if len(a.rows(s, c, AllClasses)) == 0 {
				continue
			}
			fmt.Fprintf(b, "| %s | %s |", escape(s), escape(c))
			for _, d := range detailColumns {
				m, _ := metricNamed(d.metric)
				fmt.Fprintf(b, " %s |", m.unit(a.figure(d.metric, s, c, AllClasses).Value))
			}
			fmt.Fprintf(b, " %s |\n", escape(a.worst(s, c)))
		}
	}
}

// worst says where the first class was served the least share.
func (a *allocationGrid) worst(scenario, controller string) string {
	if len(a.run.Manifest.Classes) == 0 {
		return unknown
	}
	first, least, at := a.run.Manifest.Classes[0].Name, Value{}, ""
	for _, c := range a.run.Cells {
		if c.Scenario != scenario || c.Controller != controller || c.Class != first {
			continue
		}
		if v := over(c.Served, c.Demand); v.known && (!least.known || v.number < least.number) {
			least, at = v, c.Location
		}
	}
	if !least.known {
		return unknown
	}
	return fmt.Sprintf("%s: %s of %s", at, least.percent(), first)
}

// surface writes one figure over two parameters. The paper's is bold.
func (a *allocationGrid) surface(b *bytes.Buffer, number int) {
	f := &a.run.Manifest.Allocation.Surfaces[number]
	var rows, columns []float64
	names := map[[2]float64]string{}
	for i := range a.run.Manifest.Allocation.Scenarios {
		s := &a.run.Manifest.Allocation.Scenarios[i]
		if s.Surface != number+1 {
			continue
		}
		names[[2]float64{s.Row, s.Column}] = s.Name
		if !slices.Contains(rows, s.Row) {
			rows = append(rows, s.Row)
		}
		if !slices.Contains(columns, s.Column) {
			columns = append(columns, s.Column)
		}
	}
	fmt.Fprintf(b, "\n### Surface %s\n\n", escape(f.Name))
	if f.Title != "" {
		fmt.Fprintf(b, "%s.\n\n", escape(f.Title))
	}
	fmt.Fprintf(b, "%s of class %s under %s", code(f.Metric), escape(f.Class), escape(f.Controller))
	if f.Over != "" {
		fmt.Fprintf(b, " over %s", escape(f.Over))
	}
	fmt.Fprintf(b, "; rows are %s, columns %s.\n\n| %s |", code(f.Rows), code(f.Columns), escape(f.Rows+" \\ "+f.Columns))
	rule := alignment(true)
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", decimal(c))
		rule += alignment(true)
	}
	b.WriteString("\n" + rule + "|\n")
	m, _ := metricNamed(f.Metric)
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |", decimal(r))
		for _, c := range columns {
			v := a.ofSurface(f, names[[2]float64{r, c}])
			text := unknown
			if m.unit != nil {
				text = m.unit(v)
			}
			if f.Paper != 0 && v.known && v.number >= f.Paper-f.Within && v.number <= f.Paper+f.Within {
				text = "**" + text + "**"
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// timeline says who got what over time where processes came and went.
func (a *allocationGrid) timeline(b *bytes.Buffer) {
	for i := range a.run.Manifest.Points {
		f := &a.run.Manifest.Points[i]
		if f.Allocation == nil || len(f.Allocation.Spans) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n### Who got what: %s, %s, repeat %d\n\nServed of what was asked for, by class, beside the closed form; and by edge: asked for → granted → served, requests per second.\n\n| from | to | state | served (closed form) |",
			escape(f.Variant), escape(f.Controller), f.Repeat)
		rule := alignment(true) + alignment(true) + alignment(false) + alignment(false)
		for _, c := range f.Allocation.Spans[0].Cells {
			fmt.Fprintf(b, " %s, %s |", escape(c.Location), escape(c.Class))
			rule += alignment(true)
		}
		b.WriteString("\n" + rule + "|\n")
		for _, s := range f.Allocation.Spans {
			fmt.Fprintf(b, "| %s | %s | %s | %s |", Known(s.FromUS).micros(), Known(s.ToUS).micros(), escape(s.State), escape(s.forms()))
			for _, c := range s.Cells {
				fmt.Fprintf(b, " %s → %s → %s |", c.Demand.rate(), c.Granted.rate(), c.Served.rate())
			}
			b.WriteString("\n")
		}
	}
}

// forms sets what classes were served against the closed form.
func (s *AllocationSpan) forms() string {
	var parts []string
	for _, c := range s.Classes {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", c.Class, Known(c.Served).percent(), Known(c.ClosedForm).percent()))
	}
	return strings.Join(parts, ", ")
}

const allocationDefinition = `
*served* is the share of what was asked for, in parentheses the range of the repeats. *idle* is capacity that was not used in a cycle though somebody
wanted it, as a share of the budget, on average; *over-committed* what was granted beyond the budget in the worst cycle; *conservation error* the
largest difference between all grants of a cycle and the budget, which is no error of those who do not mean to give all of it away. *current*
is what would have been, in the worst cycle, if the allocator had known the demand of that very cycle. A scenario *by construction* has
parameters that were solved from the paper's own figures: that it meets them says nothing. Demand, grants and what was served by location are
in allocation.csv.
`

// allocationTable writes the served share of the first class for a terminal, and what was used of the budget.
func allocationTable(w io.Writer, run *Run) error {
	a := run.allocationGrid()
	if len(a.scenarios) == 0 || len(run.Manifest.Classes) == 0 {
		_, err := fmt.Fprintln(w, "no point was measured")
		return err
	}
	header, align := []string{"scenario", "allocator"}, []tw.Align{tw.AlignLeft, tw.AlignLeft}
	for _, c := range run.Manifest.Classes {
		header, align = append(header, "served, "+printable(c.Name)), append(align, tw.AlignRight)
	}
	header, align = append(header, "used", "idle", "over-committed"), append(align, tw.AlignRight, tw.AlignRight, tw.AlignRight)
	table := newTable(w, header, align)
	for i, s := range a.scenarios {
		if i > 0 {
			if err := table.Append(make([]string, len(header))); err != nil {
				return err
			}
		}
		name := s
		for _, c := range a.controllers {
			if len(a.rows(s, c, AllClasses)) == 0 {
				continue
			}
			cells := []string{printable(name), printable(c)}
			name = ""
			for _, class := range run.Manifest.Classes {
				cells = append(cells, a.figure(metricServed, s, c, class.Name).Value.percent())
			}
			cells = append(cells, a.figure("utilisation", s, c, AllClasses).Value.percent(), a.figure("idle_share", s, c, AllClasses).Value.percent(),
				small(a.figure("over_commit", s, c, AllClasses).Value))
			if err := table.Append(cells); err != nil {
				return err
			}
		}
	}
	return table.Render()
}
