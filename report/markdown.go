package report

import (
	"bytes"
	"cmp"
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
		run.markdown(&b, nil)
	}
	if len(grounds(runs)) > 1 {
		fmt.Fprintf(&b, "\n**The runs above were made on different grounds (%s); their numbers must not be compared directly.**\n",
			strings.Join(grounds(runs), ", "))
	}
	readingGuide(&b, runs)
	_, err := w.Write(b.Bytes())
	return err
}

// readingGuide says what the words of the tables mean.
func readingGuide(b *bytes.Buffer, runs []*Run) {
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Manifest.Allocation == nil }) {
		b.WriteString(howToRead)
	}
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Manifest.isModelled() }) {
		b.WriteString(howToReadModelled)
	}
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

// markdown writes the report of one run, with what figures writes after its claims.
func (run *Run) markdown(b *bytes.Buffer, figures func(*bytes.Buffer)) {
	m := &run.Manifest
	fmt.Fprintf(b, "# %s\n\n", escape(m.Name))
	if m.Title != "" {
		fmt.Fprintf(b, "%s.\n\n", escape(strings.TrimSuffix(m.Title, ".")))
	}
	run.summary(b)
	run.claimsSection(b)
	run.validationSection(b)
	if figures != nil {
		figures(b)
	}
	if m.Allocation != nil {
		run.allocationSection(b) // in place of tables about latency, of which there is none
	} else {
		pooled := run.Pool()
		for _, class := range classesOf(pooled) {
			run.classTable(b, class, pooled)
		}
	}
	run.objectivesSection(b)
	run.attributionSection(b)
	run.settlingSection(b)
	run.regretSection(b)
	run.warningsSection(b)
	run.variantsSection(b)
	run.capacitySection(b)
	run.responses(b)
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
	fmt.Fprintf(b, "Ground %s, %d of %d points measured, %d of them valid.", code(m.Ground), points, m.Planned, valid)
	switch m.State {
	case StateComplete:
	case StateRunning:
		b.WriteString(" **The run has not ended, or was killed.**")
	default:
		fmt.Fprintf(b, " **The run ended early: %s.**", escape(m.State))
	}
	if m.Error != "" {
		fmt.Fprintf(b, " %s.", escape(strings.TrimSuffix(m.Error, ".")))
	}
	b.WriteString("\n\n" + capitalise(run.accounting()))
	run.capacityDoubts(b)
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
	if limits := run.limits(class); limits != "" {
		fmt.Fprintf(b, "In time is what is answered within %s.\n\n", limits)
	}
	if class == AllClasses {
		b.WriteString("The classes pooled; goodput counts each request against the limit of its own class.\n\n")
	}
	columns := slices.DeleteFunc(comparison(pooled, true), func(c comparisonColumn) bool { return c.title == titleClass })
	row := func(cell func(c comparisonColumn) string) {
		for _, c := range columns {
			b.WriteString("| " + cell(c) + " ")
		}
		b.WriteString("|\n")
	}
	run.matrices(b, class, pooled)
	row(func(c comparisonColumn) string { return c.title })
	for _, c := range columns {
		b.WriteString(alignment(!c.text))
	}
	b.WriteString("|\n")
	for i := range pooled {
		if p := &pooled[i]; p.Class == class {
			row(func(c comparisonColumn) string {
				if c.text {
					return escape(c.cell(p))
				}
				return c.cell(p)
			})
		}
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
		line := escape(r.at())
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
	if f := run.factsOf(r); f != nil {
		return f.Notes[code]
	}
	return ""
}

// at names the point of r for people.
func (r *Row) at() string {
	text := fmt.Sprintf("%s at %s, repeat %d", r.Controller, r.Load(), r.Repeat)
	if v := r.Variant(); v != "" {
		text += ", variant " + v
	}
	return text
}

func (run *Run) capacitySection(b *bytes.Buffer) {
	c := run.Manifest.Capacity
	if c == nil {
		return
	}
	if c.Analytic {
		fmt.Fprintf(b, "\n## Capacity\n\nThe modelled machine is full at %s requests per second: then the first of its resources, **%s**, has no time "+
			"left. It follows from the mean work of the classes and their shares, without variance; factors of load are shares of it.\n",
			Known(c.RPS).rate(), escape(c.Bottleneck))
		return
	}
	if c.RPS == 0 {
		b.WriteString("\n## Capacity\n\nThe search found none.")
		capacityProbes(b, c)
		return
	}
	control := "without any control"
	if run.Manifest.Server.Target != "" { // it runs already, with a control or without
		control = "under the control that the server has, if any,"
	}
	fmt.Fprintf(b, "\n## Capacity\n\nFactors of load are shares of %s requests per second: the highest rate that was found to keep every "+
		"class's p99 within its limit, %s and with nothing shed or failed.", c.bold(), control)
	held := "which held"
	if c.Uncertain {
		held = "**which held in a short probe only**"
	}
	switch {
	case c.High == 0 && len(c.Probes) > 0:
		b.WriteString(" No rate was seen to fail by the server's own fault.")
		if c.Uncertain {
			b.WriteString(" **That one held in a short probe only.**")
		}
	case c.High > 0:
		fmt.Fprintf(b, " The search ended between %s, %s, and %s, which did not.", Known(c.Low).rate(), held, Known(c.High).rate())
	}
	capacityProbes(b, c)
}

// capacityProbes writes what is to be said of a search, and what it saw.
func capacityProbes(b *bytes.Buffer, c *Capacity) {
	for i, remark := range c.Remarks {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "\n- %s", escape(remark))
	}
	b.WriteString("\n\n| probe | offered/s | goodput/s | p99 | holds |\n|--:|--:|--:|--:|:--|\n")
	for i, p := range c.Probes {
		holds := "yes"
		switch {
		case p.Unknown:
			holds = "not known: " + escape(p.Why)
		case !p.Holds:
			holds = "no: " + escape(p.Why)
		}
		p99 := Value{}
		if p.P99US > 0 {
			p99 = Known(p.P99US)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", i+1, Known(p.RPS).rate(), Known(p.GoodputRPS).rate(), p99.micros(), holds)
	}
}

// responses is the table of percentiles that points.csv has no columns for.
func (run *Run) responses(b *bytes.Buffer) {
	some := false
	for i := range run.Manifest.Points {
		some = some || len(run.Manifest.Points[i].Responses) > 0
	}
	if !some {
		return
	}
	b.WriteString("\n## Response times over all requests\n\nOver every request that was due: what was not answered, for whatever reason, counts as infinitely " +
		"slow. *from send* is the time from send to reply of answered requests, without the generator's own lateness; where it is far below " +
		"the response time, the generator was late and not the server.\n\n" +
		"| controller | load | repeat | class | answered | p50 | p90 | p99 | p99.9 | from send p50 | from send p99 |\n|:--|--:|--:|:--|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range run.Manifest.Points {
		f := &run.Manifest.Points[i]
		for _, r := range f.Responses {
			fmt.Fprintf(b, "| %s | %s | %d | %s | %.1f %% | %s | %s | %s | %s | %s | %s |\n", escape(f.Controller), escape(f.Load), f.Repeat, escape(r.Class),
				100*r.AnsweredRatio, r.adjusted(r.P50US), r.adjusted(r.P90US), r.adjusted(r.P99US), r.adjusted(r.P999US),
				positive(r.FromSendP50US), positive(r.FromSendP99US))
		}
	}
}

// adjusted writes a percentile; one that is not there is infinite, unless nothing was due at all.
func (r *Responses) adjusted(us float64) string {
	if us == 0 && r.AnsweredRatio < 1 {
		return "∞"
	}
	return positive(us)
}

func positive(us float64) string {
	if us == 0 {
		return Value{}.micros()
	}
	return Known(us).micros()
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
	m.model(line)
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
	if m.Ground != groundSim {
		line("pacing", "%s", m.Pacing)
		for _, p := range m.PacingTest {
			line("pacing self-test", "%s at %s/s: send lag p50 %s, p99 %s", p.Pace, Known(p.RPS).rate(), Known(p.LagP50US).micros(), Known(p.LagP99US).micros())
		}
	}
	m.sampling(line)
	line("seed", "%d", m.Seed)
	span := "began " + m.Started.UTC().Format(time.DateTime) + " UTC"
	if !m.Ended.IsZero() {
		span += fmt.Sprintf(", took %s", m.Ended.Sub(m.Started).Round(time.Second))
	}
	line("time", "%s", span)
	fmt.Fprintf(b, "- command: %s\n", code(strings.Join(m.Argv, " ")))
}

// model describes the machine that took the computer's place.
func (m *Manifest) model(line func(name, format string, args ...any)) {
	if m.ModelledMachine != nil {
		line("modelled machine", "%s", m.ModelledMachine.text())
	}
	if m.TimeScale > 0 {
		line("time scale", "%d: each modelled second took %d seconds", m.TimeScale, m.TimeScale)
	}
}

// text writes a description of a machine on one line.
func (m *ModelledMachine) text() string {
	var figures []string
	for _, f := range m.Figures {
		provenance := f.Provenance
		if spread, ok := f.Spread.Get(); ok {
			provenance += fmt.Sprintf(", spread %.0f %%", 100*spread)
		}
		figures = append(figures, fmt.Sprintf("%s %s (%s)", f.Name, f.Value, provenance))
	}
	return cmp.Or(m.Name, "as the profile says") + ": " + strings.Join(figures, ", ")
}

const howToRead = `
## How to read this

- *offered* is what the arrival process asked for, *goodput* what was answered within the limit of its class, both per second of the
  window. *p99* runs from the instant at which a request was due to leave, over answered requests only: under a control that sheds, read
  it together with *shed*, the share that was turned away on purpose, and *lost*, the share without any answer: timed out, failed or never
  sent. *late* was answered, but not within the limit.
- Repeats are pooled: counts are added, histograms merged, percentiles never averaged. In parentheses stands the range over the single
  repeats. Where only some repeats are valid, only those are pooled; where none is, all are.
- *valid* says whether a number may be believed: the load left on time, the counts add up, and the server counted the same.
`

const howToReadModelled = `- *optimum* is what an ideal controller of a modelled machine's several bottlenecks would serve at this load (all classes raised together
  until one hits its bottleneck, then the rest), *ceiling* the most that one can serve which must admit all classes in the proportion in
  which they arrive. Both are of a steady state without variance: in a short window goodput may be above them, by chance or while a
  queue fills whose requests are still in time.
- The machine is a model. It has cores, a memory bus, locks and RAM, and neither caches, frequencies, scheduler nor garbage collector: what
  depends on those is not in these numbers. All times and rates are modelled ones.
`

func capitalise(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], "\n") + ".\n"
}
