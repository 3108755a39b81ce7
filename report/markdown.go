package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Markdown writes the report of one or more runs. Each has its own tables: results of different runs, let alone of different grounds,
// do not share one.
func Markdown(w io.Writer, runs []*Run) error {
	var b bytes.Buffer
	for i, run := range runs {
		if i > 0 {
			b.WriteString("\n---\n\n")
		}
		run.markdown(&b)
	}
	if len(grounds(runs)) > 1 {
		fmt.Fprintf(&b, "\n**The runs above were made on different grounds (%s); their numbers must not be compared directly.**\n",
			strings.Join(grounds(runs), ", "))
	}
	b.WriteString(howToRead)
	_, err := w.Write(b.Bytes())
	return err
}

func grounds(runs []*Run) []string {
	var list []string
	for _, r := range runs {
		if !slices.Contains(list, r.Manifest.Ground) {
			list = append(list, r.Manifest.Ground)
		}
	}
	return list
}

func (run *Run) markdown(b *bytes.Buffer) {
	m := &run.Manifest
	fmt.Fprintf(b, "# %s\n\n", escape(m.Name))
	if m.Title != "" {
		fmt.Fprintf(b, "%s.\n\n", escape(strings.TrimSuffix(m.Title, ".")))
	}
	run.summary(b)
	pooled := run.Pool()
	for _, class := range classesOf(pooled) {
		run.classTable(b, class, pooled)
	}
	run.warningsSection(b)
	run.capacitySection(b)
	run.circumstances(b)
}

// summary says in a few lines what was done and whether it may be believed.
func (run *Run) summary(b *bytes.Buffer) {
	m := &run.Manifest
	points, valid := 0, 0
	for i := range run.Rows {
		if run.Rows[i].Class != AllClasses {
			continue
		}
		points++
		if run.Rows[i].Valid {
			valid++
		}
	}
	fmt.Fprintf(b, "Ground `%s`, %d of %d points measured, %d of them valid.", m.Ground, points, m.Planned, valid)
	switch m.State {
	case StateComplete:
	case StateRunning:
		b.WriteString(" **The run has not ended, or was killed.**")
	default:
		fmt.Fprintf(b, " **The run ended early: %s.**", m.State)
	}
	if m.Error != "" {
		fmt.Fprintf(b, " %s.", escape(strings.TrimSuffix(m.Error, ".")))
	}
	b.WriteString("\n\n" + capitalise(run.accounting()))
}

// classesOf returns the classes of a comparison in its order.
func classesOf(pooled []Pooled) []string {
	var list []string
	for i := range pooled {
		if c := pooled[i].Class; !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func (run *Run) classTable(b *bytes.Buffer, class string, pooled []Pooled) {
	fmt.Fprintf(b, "\n## Class %s\n\n", escape(class))
	for _, c := range run.Manifest.Classes {
		if c.Name == class && c.SLOUS > 0 {
			fmt.Fprintf(b, "In time is what is answered within %s.\n\n", Known(c.SLOUS).micros())
		}
	}
	if class == AllClasses {
		b.WriteString("The classes pooled; goodput counts each request against the limit of its own class.\n\n")
	}
	header := slices.DeleteFunc(slices.Clone(comparisonHeader), func(h string) bool { return h == "class" })
	fmt.Fprintf(b, "| %s |\n|:--|:--|%s\n", strings.Join(header, " | "), strings.Repeat("--:|", len(header)-2))
	for i := range pooled {
		p := &pooled[i]
		if p.Class != class {
			continue
		}
		cells := p.cells()
		fmt.Fprintf(b, "| %s |\n", strings.Join(append(cells[:2:2], cells[3:]...), " | "))
	}
}

// warningsSection explains each code that occurs, and lists the points it occurs at with the numbers behind it.
func (run *Run) warningsSection(b *bytes.Buffer) {
	seen := false
	for _, w := range warnings {
		points := run.pointsWith(w.code)
		if len(points) == 0 {
			continue
		}
		if !seen {
			b.WriteString("\n## Warnings\n")
			seen = true
		}
		fmt.Fprintf(b, "\n**`%s`** (%s): %s\n\n", w.code, w.verdict, w.sentence)
		for _, p := range points {
			fmt.Fprintf(b, "- %s\n", p)
		}
	}
}

// longestList bounds the points listed under one warning; the rest is in points.csv.
const longestList = 20

func (run *Run) pointsWith(code string) []string {
	var list []string
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Class != AllClasses || !slices.Contains(r.Warnings, code) {
			continue
		}
		line := fmt.Sprintf("%s at %s, repeat %d", r.Controller, r.Load(), r.Repeat)
		if note := run.note(r, code); note != "" {
			line += ": " + escape(note)
		}
		list = append(list, line)
	}
	if n := len(list); n > longestList {
		list = append(list[:longestList], fmt.Sprintf("and %d more", n-longestList))
	}
	return list
}

func (run *Run) note(r *Row, code string) string {
	for i := range run.Manifest.Points {
		f := &run.Manifest.Points[i]
		if f.Controller == r.Controller && f.Load == r.Load() && f.Repeat == r.Repeat {
			return f.Notes[code]
		}
	}
	return ""
}

func (run *Run) capacitySection(b *bytes.Buffer) {
	c := run.Manifest.Capacity
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\n## Capacity\n\nFactors of load are shares of %s requests per second: the highest rate that was found to keep every "+
		"class's p99 within its limit, without any control and with nothing shed or failed.", Known(c.RPS).rate())
	if c.High > 0 {
		fmt.Fprintf(b, " The search ended between %s, which held, and %s, which did not.", Known(c.Low).rate(), Known(c.High).rate())
	}
	b.WriteString("\n\n| probe | offered/s | goodput/s | p99 | holds |\n|--:|--:|--:|--:|:--|\n")
	for i, p := range c.Probes {
		holds := "yes"
		if !p.Holds {
			holds = "no: " + escape(p.Why)
		}
		p99 := Value{}
		if p.P99US > 0 {
			p99 = Known(p.P99US)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", i+1, Known(p.RPS).rate(), Known(p.GoodputRPS).rate(), p99.micros(), holds)
	}
}

func (run *Run) circumstances(b *bytes.Buffer) {
	m := &run.Manifest
	b.WriteString("\n## Circumstances\n\n")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "- %s: %s\n", name, escape(fmt.Sprintf(format, args...)))
	}
	machine := fmt.Sprintf("%d cores", m.Machine.Cores)
	if m.Machine.CPUModel != "" {
		machine += ", " + m.Machine.CPUModel
	}
	if m.Machine.RAMBytes > 0 {
		machine += fmt.Sprintf(", %.1f GiB of memory", float64(m.Machine.RAMBytes)/(1<<30))
	}
	line("machine", "%s", machine)
	line("software", "spillway %s, %s, kernel %s", m.Versions.Module, m.Versions.Go, m.Versions.Kernel)
	server := m.Server.Kind
	if m.Server.Version != "" {
		server += " " + m.Server.Version
	}
	if m.Server.Target != "" {
		server += " at " + m.Server.Target
	}
	if m.Server.GOMAXPROCS > 0 {
		server += fmt.Sprintf(", GOMAXPROCS %d", m.Server.GOMAXPROCS)
	}
	line("server", "%s", server)
	line("pacing", "%s", m.Pacing)
	line("seed", "%d", m.Seed)
	span := "began " + m.Started.UTC().Format(time.DateTime) + " UTC"
	if !m.Ended.IsZero() {
		span += fmt.Sprintf(", took %s", m.Ended.Sub(m.Started).Round(time.Second))
	}
	line("time", "%s", span)
	fmt.Fprintf(b, "- command: `%s`\n", strings.ReplaceAll(strings.Join(m.Argv, " "), "`", "'"))
}

const howToRead = `
## How to read this

- *offered* is what the arrival process asked for, *goodput* what was answered within the limit of its class, both per second of the
  window. *p99* runs from the instant at which a request was due to leave, over answered requests only: under a control that sheds, read
  it together with *shed*, the share that was turned away.
- Repeats are pooled: counts are added, histograms merged, percentiles never averaged. In parentheses stands the range over the single
  repeats. Where only some repeats are valid, only those are pooled; where none is, all are.
- *valid* says whether a number may be believed: the load left on time, the counts add up, and the server counted the same.
`

func capitalise(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], "\n") + ".\n"
}

// escape keeps text from being read as Markdown or HTML.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ", "\r", " ", "*", `\*`, "_", `\_`, "`", "'").Replace(s)
}
