package reproduce

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spillway/profiles"
	"spillway/report"
	"spillway/report/html"
)

// The documents of a reproduction.
const (
	documentFile = "REPRODUCTION.md"
	pageFile     = "report.html"
	figuresDir   = "figures"
)

// document is REPRODUCTION.md in the making, and what it links to.
type document struct {
	config      *Config
	dir         string
	elsewhere   []*profiles.Profile
	interrupted bool
	now         time.Time

	chapters []*chapter // in the order of papers and profiles
	counts   Counts
	papers   []PaperResult
}

// chapter is a profile in a document.
type chapter struct {
	*part
	run    *report.Run
	lines  []report.ClaimLine
	counts Counts
	plots  []string // relative to the reproduction
	failed error    // why there is nothing to be read
}

// write reads what the profiles left and writes all documents.
func (d *document) write(parts []*part) error {
	var runs []*report.Run
	for _, p := range parts {
		ch := d.read(p)
		d.chapters = append(d.chapters, ch)
		if ch.run != nil {
			runs = append(runs, ch.run)
		}
	}
	slices.SortStableFunc(d.chapters, func(a, b *chapter) int {
		return cmp.Or(strings.Compare(a.paper(), b.paper()), strings.Compare(a.profile.Name, b.profile.Name))
	})
	slices.SortStableFunc(runs, func(a, b *report.Run) int { return strings.Compare(a.Dir, b.Dir) })
	for _, ch := range d.chapters {
		if i := len(d.papers) - 1; i < 0 || d.papers[i].Paper != ch.paper() {
			d.papers = append(d.papers, PaperResult{Paper: ch.paper()})
		}
		last := &d.papers[len(d.papers)-1]
		last.Profiles++
		last.Counts.add(ch.counts)
		d.counts.add(ch.counts)
	}
	errs := []error{d.figures()}
	errs = append(errs, report.WriteFile(filepath.Join(d.dir, documentFile), func(w io.Writer) error { return d.markdown(w) }))
	if len(runs) > 0 {
		errs = append(errs, report.WriteFile(filepath.Join(d.dir, pageFile), func(w io.Writer) error { return html.Write(w, runs) }))
	}
	return errors.Join(errs...)
}

func (d *document) read(p *part) *chapter {
	ch := &chapter{part: p}
	dir := filepath.Join(d.dir, p.profile.Name)
	if !begun(dir) {
		ch.failed = cmp.Or(p.err, errors.New("it was not begun"))
		return ch
	}
	run, err := report.ReadDir(dir)
	if err != nil {
		ch.failed = err
		return ch
	}
	ch.run = run
	results := run.Claims()
	for i := range results {
		ch.lines = append(ch.lines, results[i].Line())
		switch results[i].Outcome {
		case report.Holds:
			ch.counts.Holds++
		case report.DoesNotHold:
			ch.counts.DoesNotHold++
		default:
			ch.counts.Undecided++
		}
	}
	drawn, err := filepath.Glob(filepath.Join(dir, "plots", "*.svg"))
	if err != nil {
		drawn = nil // only a malformed pattern is an error
	}
	for _, f := range drawn {
		ch.plots = append(ch.plots, p.profile.Name+"/plots/"+filepath.Base(f))
	}
	return ch
}

const definition = `
*ours* is of the repeats together, in parentheses the range of the single repeats (from six repeats on: an interval that has the median with 95 %
confidence). A claim over a baseline is a ratio, turned so that more is better for the controller. *optimum* is what the model says could be served of
the class at that load, *ceiling* what an ideal single queue could; *limit* is their ratio: the most that is to be gained in goodput over such a queue.
A point that is not valid or missing, and a controller that had not converged, leave a claim *undecided*.
`

func (d *document) markdown(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("# Reproduction\n\n")
	fmt.Fprintf(&b, "%s, on the ground sim: %s\n", d.what(), tally(d.counts))
	if d.interrupted {
		b.WriteString("\n**This reproduction was interrupted.** The same command goes on; claims below are about what was measured so far.\n")
	}
	b.WriteString("\n| paper | profiles | claims | hold | do not hold | undecided |\n|:--|--:|--:|--:|--:|--:|\n")
	for _, p := range d.papers {
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d | %d | %d | %d |\n", report.MarkdownCell(p.Paper), anchor(p.Paper), p.Profiles, p.Counts.All(),
			p.Counts.Holds, p.Counts.DoesNotHold, p.Counts.Undecided)
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d | %d | %d |\n", len(d.chapters), d.counts.All(), d.counts.Holds, d.counts.DoesNotHold, d.counts.Undecided)
	b.WriteString(definition)
	fmt.Fprintf(&b, "\nEvery chart, with the table behind it: [%s](%s). loadgen %s.\n", pageFile, pageFile, report.MarkdownCell(d.config.Version))
	for _, p := range d.papers {
		d.paper(&b, p)
	}
	if len(d.elsewhere) > 0 {
		b.WriteString("\n## Not run here\n\nThese need real servers, and this computer to itself.\n\n| paper | profile | what | run it with |\n|:--|:--|:--|:--|\n")
		for _, p := range d.elsewhere {
			fmt.Fprintf(&b, "| %s | %s | %s | `loadgen run %s` |\n", report.MarkdownCell(p.Source.Paper), p.Name, report.MarkdownCell(p.Title), p.Name)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// what says of what it is, and in which size.
func (d *document) what() string {
	size := "sweeps as shipped"
	switch d.config.Size {
	case profiles.SizeQuick:
		size = "`--quick`: a few loads, short windows; what it decides is for a look"
	case profiles.SizeFull:
		size = "`--full`: the published sweeps, where they are known"
	}
	if d.config.Seed != nil {
		size += fmt.Sprintf(", seed %d", *d.config.Seed)
	}
	return "Written " + d.now.UTC().Format("2006-01-02 15:04 UTC") + ", " + size
}

func tally(c Counts) string {
	form := func(n int, one, several string) string {
		if n == 1 {
			return one
		}
		return several
	}
	return fmt.Sprintf("%d %s, of which %d %s, %d %s and %d %s undecided.", c.All(), form(c.All(), "claim", "claims"), c.Holds, form(c.Holds, "holds", "hold"),
		c.DoesNotHold, form(c.DoesNotHold, "does not hold", "do not hold"), c.Undecided, form(c.Undecided, "is", "are"))
}

// paper writes the chapter of a paper.
func (d *document) paper(b *bytes.Buffer, p PaperResult) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", report.MarkdownCell(p.Paper), tally(p.Counts))
	b.WriteString("\n| profile | what | figure | points | not valid | arrivals | took | claims | hold | do not | undecided |\n|:--|:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, ch := range d.chapters {
		if ch.paper() != p.Paper {
			continue
		}
		points, invalid, arrivals, took := ch.facts()
		fmt.Fprintf(b, "| [%s](#%s) | %s | [%s](%s) | %s | %d | %s | %s | %d | %d | %d | %d |\n", ch.profile.Name, anchor(ch.profile.Name), report.MarkdownCell(ch.profile.Title),
			report.MarkdownCell(ch.figure()), ch.page(), points, invalid, arrivals, took, ch.counts.All(), ch.counts.Holds, ch.counts.DoesNotHold, ch.counts.Undecided)
	}
	for _, ch := range d.chapters {
		if ch.paper() != p.Paper {
			continue
		}
		fmt.Fprintf(b, "\n### %s\n\n", ch.profile.Name)
		ch.links(b, "")
		ch.claims(b)
		ch.moves(b)
	}
}

// facts returns what a profile took: points of those planned, how many are not valid, arrivals (those of warm-ups included), and the time of a core.
func (ch *chapter) facts() (points string, invalid int, arrivals, took string) {
	if ch.run == nil {
		return fmt.Sprintf("0 of %d", ch.points), 0, "–", "–"
	}
	m := &ch.run.Manifest
	points = fmt.Sprint(len(m.Points))
	if len(m.Points) != m.Planned {
		points = fmt.Sprintf("%d of %d", len(m.Points), m.Planned)
	}
	for i := range ch.run.Rows {
		if r := &ch.run.Rows[i]; r.Class == report.AllClasses && !r.Valid {
			invalid++
		}
	}
	requests, wall := int64(0), 0.0
	for i := range m.Points {
		requests, wall = requests+m.Points[i].Requests, wall+m.Points[i].WallS
	}
	arrivals = "fluid"
	if requests > 0 {
		arrivals = Count(float64(requests))
	}
	took = "–"
	if wall > 0 {
		took = (time.Duration(wall * float64(time.Second))).Round(time.Second / 10).String()
	}
	return points, invalid, arrivals, took
}

// links writes where the results of a profile are; up leads to the reproduction.
func (ch *chapter) links(b *bytes.Buffer, up string) {
	if ch.failed != nil {
		fmt.Fprintf(b, "There are no results: %s\n", report.MarkdownCell(ch.failed.Error()))
		return
	}
	name := ch.profile.Name
	fmt.Fprintf(b, "%s: [report](%s%s/report.md), [charts](%s%s/report.html), [points](%s%s/points.csv), [figure](%s%s)\n", report.MarkdownCell(ch.profile.Title),
		up, name, up, name, up, name, up, ch.page())
}

// claims writes the table of claims.
func (ch *chapter) claims(b *bytes.Buffer) {
	if len(ch.lines) == 0 {
		if ch.failed == nil {
			b.WriteString("\nIt claims nothing.\n")
		}
		return
	}
	variants := slices.ContainsFunc(ch.lines, func(l report.ClaimLine) bool { return l.Variant != "" })
	head, rule := "| # | claim | outcome | class |", "|--:|:--|:--|:--|"
	if variants {
		head, rule = head+" variant |", rule+":--|"
	}
	fmt.Fprintf(b, "\n%s of | at | paper | threshold | ours | optimum/s | ceiling/s | limit | why |\n%s:--|:--|--:|--:|--:|--:|--:|--:|:--|\n", head, rule)
	for i := range ch.lines {
		l := &ch.lines[i]
		fmt.Fprintf(b, "| %d | %s | **%s** | %s |", i+1, report.MarkdownCell(l.Text), l.Outcome, report.MarkdownCell(l.Class))
		if variants {
			fmt.Fprintf(b, " %s |", report.MarkdownCell(l.Variant))
		}
		fmt.Fprintf(b, " %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", report.MarkdownCell(l.Of), report.MarkdownCell(l.At), l.Paper, l.Threshold, l.Ours,
			l.Optimum, l.Ceiling, l.Limit, report.MarkdownCell(l.Why))
	}
}

// moves writes how figures move with the machine: those that are claimed of several variants which differ in the machine.
func (ch *chapter) moves(b *bytes.Buffer) {
	if ch.run == nil {
		return
	}
	var variants []string
	what := map[string]string{}
	for _, v := range ch.run.Manifest.Variants {
		if other := slices.ContainsFunc(keysOf(v.Set), func(k string) bool { return !strings.HasPrefix(k, "machine.") && !strings.HasPrefix(k, "load") }); other {
			return // they differ in more than that
		}
		variants = append(variants, v.Name)
		if m := v.ModelledMachine; m != nil {
			var figures []string
			for _, f := range m.Figures {
				if strings.HasPrefix(f.Name, "bus") || f.Name == "cores" {
					figures = append(figures, f.Name+" "+f.Value)
				}
			}
			what[v.Name] = strings.Join(figures, ", ")
		}
	}
	type key struct{ metric, class, of, take, paper, threshold string }
	var order []key
	cells := map[key]map[string]string{}
	for i := range ch.lines {
		l := &ch.lines[i]
		k := key{l.Metric, l.Class, l.Of, l.Take, l.Paper, l.Threshold}
		if cells[k] == nil {
			cells[k] = map[string]string{}
			order = append(order, k)
		}
		cells[k][l.Variant] = fmt.Sprintf("%s at %s, limit %s: **%s**", l.Ours, report.MarkdownCell(l.At), l.Limit, l.Outcome)
	}
	order = slices.DeleteFunc(order, func(k key) bool { return len(cells[k]) < 2 })
	if len(order) == 0 || len(variants) < 2 {
		return
	}
	b.WriteString("\nHow figures move with the machine:\n\n| metric | class | of | paper | threshold |")
	for _, v := range variants {
		fmt.Fprintf(b, " %s (%s) |", report.MarkdownCell(v), report.MarkdownCell(what[v]))
	}
	b.WriteString("\n|:--|:--|:--|--:|--:|" + strings.Repeat(":--|", len(variants)) + "\n")
	for _, k := range order {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |", report.MarkdownCell(k.metric), report.MarkdownCell(k.class), report.MarkdownCell(k.of), k.paper, k.threshold)
		for _, v := range variants {
			fmt.Fprintf(b, " %s |", cmp.Or(cells[k][v], "–"))
		}
		b.WriteString("\n")
	}
}

func keysOf(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// page returns the path of the page of the figure that the profile repeats.
func (ch *chapter) page() string { return figuresDir + "/" + slug(ch.paper()+"-"+ch.figure()) + ".md" }

// slug makes text fit for the name of a file.
func slug(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		}
		return '_'
	}, strings.TrimLeft(s, "."))
}

// anchor returns what a link to a heading ends with.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(heading))
}

// Count writes a number of requests in three digits: 950, 41.2k, 1.20M.
func Count(n float64) string {
	for _, u := range []struct {
		unit string
		size float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n >= u.size {
			return fmt.Sprintf("%.3g%s", n/u.size, u.unit)
		}
	}
	return fmt.Sprintf("%.0f", n)
}
