// Package html writes the report of runs as one HTML page that needs nothing from outside of it: no network, no font, no script.
//
// The page carries the results as data and draws them when they come into view, so that it opens quickly however many points it has. What it says in
// words and in tables is what report.md says; what it draws are the Charts of each run, the distribution of latencies, what became of the requests,
// and the time series of trace.csv. A page of the same files has the same bytes.
package html

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"spillway/report"
)

var (
	//go:embed assets/uplot.min.js
	uplotJS string
	//go:embed assets/uplot.min.css
	uplotCSS string
	//go:embed assets/uplot.LICENSE.txt
	uplotLicence string // which goes with every copy, and a page is one
	//go:embed assets/format.js
	formatJS string
	//go:embed assets/chart.js
	chartJS string
	//go:embed assets/bars.js
	barsJS string
	//go:embed assets/page.js
	pageJS string
	//go:embed assets/page.css
	pageCSS string
	//go:embed assets/page.tmpl
	pageTemplate string
)

var page = template.Must(template.New("page").Parse(pageTemplate))

// sheets and scripts are the page's own; it runs and applies nothing else.
var (
	sheets  = []string{uplotCSS, pageCSS}
	scripts = []string{uplotJS, formatJS, chartJS, barsJS, pageJS}
)

// policy is what a browser lets the page do: apply its own sheets and run its own scripts, by their hashes, and nothing more.
func policy() string {
	list := func(texts []string) string {
		var hashes []string
		for _, t := range texts {
			sum := sha256.Sum256([]byte(t))
			hashes = append(hashes, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
		}
		return strings.Join(hashes, " ")
	}
	return "default-src 'none'; style-src " + list(sheets) + "; script-src " + list(scripts) + "; base-uri 'none'; form-action 'none'"
}

// pageView is what the template shows.
type pageView struct {
	Title  string
	Policy string
	Styles template.HTML
	Runs   []runView
	Mixed  string // the grounds, where there are several
	HowTo  []block
}

type runView struct {
	Prefix, Name, Title    string
	Ground, State, Source  string
	Claims                 string // how many hold
	Findings               []string
	SLOs                   []sloView
	Capacity               string
	Points, Valid, Planned int
	Text                   map[string][]block
	Allocation             bool
	HasDist                bool
	Groups                 []groupView
	Trace                  *traceData
	Profile, Resolved      string
	Shown                  []string // names of the sections of text that stand behind the charts
}

type groupView struct {
	ID, Title string
	Open      bool
	Words     []string // what its figures show, until they are drawn
}

// sloView is the limit of a class.
type sloView struct{ Class, Limit string }

// Write writes one page with a section for each of runs, whose folders it reads the time series of. Results of different runs do not share a chart.
func Write(w io.Writer, runs []*report.Run) error {
	view := pageView{Title: "Spillway report", Policy: policy(), HowTo: parseText(report.HowToRead(runs))}
	for _, s := range sheets {
		view.Styles += template.HTML("<style>" + s + "</style>\n") // a constant of this package
	}
	var data pageData
	var names, grounds []string
	for i, run := range runs {
		prefix := ""
		if len(runs) > 1 {
			prefix = fmt.Sprintf("r%d-", i+1)
		}
		d := newRunData(run, prefix)
		v := viewOf(run, d)
		data.Runs, view.Runs = append(data.Runs, d), append(view.Runs, v)
		names = append(names, v.Name)
		if !slices.Contains(grounds, v.Ground) {
			grounds = append(grounds, v.Ground)
		}
	}
	if len(names) > 0 {
		view.Title = strings.Join(names, ", ") + " · " + view.Title
	}
	if len(grounds) > 1 {
		view.Mixed = strings.Join(grounds, ", ")
	}
	return write(w, &view, &data)
}

func write(w io.Writer, view *pageView, data *pageData) error {
	out := bufio.NewWriterSize(w, 1<<16)
	if err := page.Execute(out, view); err != nil {
		return err
	}
	// The encoder writes <, > and & as escapes, so that nothing in the data can end the element.
	io.WriteString(out, `<script type="application/json" id="data">`)
	if err := json.NewEncoder(out).Encode(data); err != nil {
		return err
	}
	io.WriteString(out, "</script>\n")
	io.WriteString(out, "<!-- The first script is uPlot.\n"+uplotLicence+"-->\n")
	for _, s := range scripts {
		io.WriteString(out, "<script>"+s+"</script>\n")
	}
	io.WriteString(out, "</body>\n</html>\n")
	return out.Flush() // has the first error of all of them
}

// textBehind are the sections that stand behind the charts, in their order.
var textBehind = []string{"objectives", "attribution", "settling", "regret", "warnings", "variants", "capacity", "responses"}

func viewOf(run *report.Run, d *runData) runView {
	m := &run.Manifest
	v := runView{
		Prefix: d.Prefix, Name: clean(m.Name), Title: clean(m.Title), Ground: clean(m.Ground), State: clean(m.State), Text: d.sections(run),
		Allocation: m.Allocation != nil, HasDist: d.Dist != nil, Trace: d.Trace, Profile: visible(m.ProfileText), Resolved: visible(m.ResolvedProfile),
	}
	if m.Paper != nil {
		v.Source = clean(m.Paper.Name)
		if m.Paper.Figure != "" {
			v.Source += ", figure " + clean(m.Paper.Figure)
		}
	}
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Class == report.AllClasses {
			v.Points++
			v.Valid += flag(r.Valid)
		}
	}
	for _, g := range d.Groups {
		title := "Class " + g.Class
		if g.Class == report.AllClasses {
			title = "All classes"
		}
		if g.Variant != "" {
			title = g.Variant + " · " + title
		}
		view := groupView{ID: g.ID, Title: title, Open: len(v.Groups) < mostOpen}
		for _, c := range g.Charts {
			view.Words = append(view.Words, c.Title+". "+c.Summary)
		}
		v.Groups = append(v.Groups, view)
	}
	v.top(run)
	for _, name := range textBehind {
		if len(v.Text[name]) > 0 {
			v.Shown = append(v.Shown, name)
		}
	}
	return v
}

// top fills in what stands before everything else.
func (v *runView) top(run *report.Run) {
	m := &run.Manifest
	v.Findings, v.Claims = findings(run), claimsSaid(run)
	for _, c := range m.Classes {
		if c.SLOUS > 0 {
			v.SLOs = append(v.SLOs, sloView{clean(c.Name), micros(report.Known(c.SLOUS))})
		}
	}
	if m.Capacity != nil {
		v.Capacity = rate(report.Known(m.Capacity.RPS))
	}
	v.Planned = m.Planned
	if text := v.Text["summary"]; len(text) > 1 && m.State == report.StateComplete && m.Error == "" {
		v.Text["summary"] = text[1:] // its first paragraph says what the facts above it do
	}
	if claims := v.Text["claims"]; len(claims) > 0 {
		v.Text["claims"] = withClaims(claims, claimViews(run))
	}
}

// mostOpen is how many groups of charts are open at first.
const mostOpen = 6

// visible takes out of a text of several lines what hides or reorders what is written.
func visible(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
