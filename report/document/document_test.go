package document_test

import (
	"bytes"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/hist"
	"spillway/report"
	"spillway/report/document"
	"spillway/report/export"
)

var update = flag.Bool("update", false, "write the golden files anew")

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// row makes a row of a window of a second from its latencies and what was shed.
func row(controller string, rate float64, repeat int, class string, ok, shed int64, h *hist.Hist) report.Row {
	us := func(d time.Duration) report.Value {
		if h.Count() == 0 {
			return report.Value{}
		}
		return report.Known(float64(d) / 1e3)
	}
	f := report.Fates{OK: ok, Dropped: shed}
	r := report.Row{
		Profile: "fixed", Ground: "sim", Controller: controller, OfferedTargetRPS: report.Known(rate), Repeat: repeat, Seed: uint64(repeat), Class: class,
		SLO: report.Known(500), OfferedRPS: report.Known(float64(f.Arrivals())), SentRPS: report.Known(float64(f.Sent())),
		ThroughputRPS: report.Known(float64(f.Completed())), GoodputRPS: report.Known(float64(ok)), OptimumRPS: report.Known(400), CeilingRPS: report.Known(250),
		Fates: f, Valid: true,
		Latency: report.Latency{
			Mean: us(h.Mean()), P50: us(h.Percentile(50)), P90: us(h.Percentile(90)), P99: us(h.Percentile(99)), P999: us(h.Percentile(99.9)), Max: us(h.Max()),
		},
	}
	if n := f.Arrivals(); n > 0 {
		r.ShedRatio, r.DropRatio = report.Known(float64(shed)/float64(n)), report.Known(float64(shed)/float64(n))
	}
	if class == report.AllClasses {
		r.SLO = report.Value{}
	}
	return r
}

// point makes a point of classes cpu and memory: of 100 requests each so many are answered, the slower the higher the load.
func point(controller string, rate float64, repeat, answered int) *report.Point {
	p := &report.Point{Window: time.Second, Facts: report.PointFacts{
		Controller: controller, Load: report.Known(rate).String(), Repeat: repeat, Seed: uint64(repeat), WindowS: 1,
	}}
	all := hist.New()
	for _, class := range []string{"cpu", "memory"} {
		h := hist.New()
		for i := range answered {
			h.Record(time.Duration(float64(100+i+10*repeat)*rate) * time.Microsecond / 100)
		}
		all.Merge(h)
		p.Rows, p.Latencies = append(p.Rows, row(controller, rate, repeat, class, int64(answered), int64(100-answered), h)), append(p.Latencies, h)
	}
	p.Rows, p.Latencies = append(p.Rows, row(controller, rate, repeat, report.AllClasses, int64(2*answered), int64(200-2*answered), all)), append(p.Latencies, all)
	for i := range 3 {
		p.Samples = append(p.Samples, report.Sample{TimeUS: float64(i) * 1e5, Name: "goodput", Unit: "rps", Value: report.Known(float64(answered))})
	}
	return p
}

func manifest() report.Manifest {
	return report.Manifest{
		Name: "fixed", Title: "Records that never change", Ground: "sim", State: report.StateRunning, Started: began, Seed: 1, Argv: []string{"loadgen", "run", "fixed"},
		Versions: report.Versions{Module: "v0.0.0", Go: "go1.26"}, Machine: report.Machine{Cores: 2}, Server: report.Server{Kind: "synthetic"},
		ModelledMachine: &report.ModelledMachine{Name: "xl170", Figures: []report.Figure{{Name: "cores", Value: "18", Provenance: "assumed"}}},
		Classes:         []report.Class{{Name: "cpu", SLOUS: 500}, {Name: "memory", SLOUS: 500}},
		Controllers:     []report.ControllerInfo{{Label: "none", Name: "none"}, {Label: "svalinn", Name: "svalinn"}},
		Claims:          []report.Claim{{Text: "more goodput", Metric: "goodput_rps", Controller: "svalinn", Over: []string{"none"}, Paper: report.Known(5), HoldsAt: report.Known(2)}},
		ProfileText:     "name: fixed\n", ResolvedProfile: "name: fixed\n",
	}
}

func results(t *testing.T, state string, points ...*report.Point) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r")
	m := manifest()
	m.Planned = max(len(points), 1)
	w, err := report.NewWriter(dir, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		if err := w.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(began.Add(time.Minute), state, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// files returns what a result directory holds, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func complete(t *testing.T) string {
	return results(t, report.StateComplete,
		point("none", 100, 1, 100), point("none", 100, 2, 98), point("none", 200, 1, 20), point("none", 200, 2, 15),
		point("svalinn", 100, 1, 99), point("svalinn", 100, 2, 99), point("svalinn", 200, 1, 90), point("svalinn", 200, 2, 95))
}

var link = regexp.MustCompile(`\]\(([^)]+)\)`)

// TestWrite writes all documents of a run, whose measurements stay as they are, and a second time with the same bytes.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := complete(t)
	before := files(t, dir)
	if err := document.Write(dir); err != nil {
		t.Fatal(err)
	}
	after := files(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	for _, name := range []string{"claims.csv", "report.md", "report.html", "plots/goodput-all.svg", "plots/latency-p99-cpu.svg", "plots/cdf-memory-200.svg"} {
		if after[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	links := link.FindAllStringSubmatch(after["report.md"], -1)
	for _, l := range links {
		if after[l[1]] == "" {
			t.Errorf("report.md links %s, which is not there", l[1])
		}
	}
	if len(links) < 18 {
		t.Errorf("report.md has %d links", len(links))
	}
	if err := document.Write(dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, files(t, dir)); diff != "" {
		t.Errorf("written again, it is another (-first +second):\n%s", diff)
	}
	path := filepath.Join("testdata", "report.md.golden")
	if *update {
		if err := os.WriteFile(path, []byte(after["report.md"]), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), after["report.md"]); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// nonsense is a number that is none, as Go or JavaScript writes it, where no word of a sentence has it.
var nonsense = regexp.MustCompile(`\bNaN\b|[^a-zA-Z]Inf\b|%!|<nil>|\+Inf`)

// TestOddResults makes every document and every export of results that have little or nothing to show.
func TestOddResults(t *testing.T) {
	t.Parallel()
	invalid := func(p *report.Point) *report.Point {
		for i := range p.Rows {
			p.Rows[i].Valid, p.Rows[i].Warnings = false, []string{"little"}
		}
		return p
	}
	cut := point("svalinn", 200, 1, 0)
	for i := range cut.Rows {
		r := &cut.Rows[i]
		r.OfferedRPS, r.SentRPS, r.ThroughputRPS, r.GoodputRPS, r.Fates = report.Value{}, report.Value{}, report.Value{}, report.Value{}, report.Fates{}
		r.ShedRatio, r.DropRatio, r.Valid, r.Warnings = report.Value{}, report.Value{}, false, []string{"cut_short"}
	}
	cut.Window, cut.Facts.WindowS = 0, 0
	for name, dir := range map[string]string{
		"empty":       results(t, report.StateFailed),
		"single":      results(t, report.StateComplete, point("none", 100, 1, 50)),
		"shed":        results(t, report.StateComplete, point("none", 100, 1, 0), point("none", 200, 1, 0)),
		"invalid":     results(t, report.StateComplete, invalid(point("none", 100, 1, 50)), invalid(point("none", 200, 1, 50))),
		"interrupted": results(t, report.StateCutShort, point("none", 100, 1, 50), cut),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := document.Write(dir); err != nil {
				t.Fatal(err)
			}
			run, err := report.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			all := files(t, dir)
			for format, write := range map[string]func(io.Writer, []*report.Run) error{
				"benchfmt": export.Benchfmt, "hlog": export.Hlog, "history": func(w io.Writer, runs []*report.Run) error { return export.History(w, runs, "") },
			} {
				var b bytes.Buffer
				if err := write(&b, []*report.Run{run}); err != nil {
					t.Errorf("%s: %v", format, err)
				}
				all[format] = b.String()
			}
			for file, text := range all {
				if file == "report.html" {
					text = text[strings.Index(text, "<body"):] // its scripts may speak of such numbers
				}
				if bad := nonsense.FindStringIndex(text); bad != nil && file != "report.html" {
					t.Errorf("%s has %q", file, text[max(bad[0]-40, 0):min(bad[1]+40, len(text))])
				}
				if text == "" && file != "finished.jsonl" {
					t.Errorf("%s is empty", file)
				}
			}
			if all["report.md"] == "" || all["report.html"] == "" {
				t.Errorf("only %d files were written", len(all))
			}
			if _, drawn := all["plots/goodput-all.svg"]; drawn == (name == "empty") {
				t.Errorf("goodput is drawn: %v", drawn)
			}
		})
	}
}

// TestOneFailureLeavesTheOthers stands in the way of two documents: the others are written, and the cause of both is said once.
func TestOneFailureLeavesTheOthers(t *testing.T) {
	t.Parallel()
	dir := complete(t)
	for _, name := range []string{"claims.csv.partial", "report.html.partial"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "plots"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	err := document.Write(dir)
	if err == nil || !strings.Contains(err.Error(), "claims.csv") || !strings.Contains(err.Error(), "plots") || strings.Contains(err.Error(), "report.html") {
		t.Errorf("error %v, want one of claims.csv and one of plots, and the cause of report.html, which is that of claims.csv, not once more", err)
	}
	text := files(t, dir)["report.md"]
	if !strings.Contains(text, "## Class cpu") || strings.Contains(text, "](plots/") {
		t.Errorf("report.md is missing, or links figures that are not there:\n%s", text)
	}
}

// TestFirstSchema writes the documents of results that the first version of this program left behind.
func TestFirstSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", "schema1"))); err != nil {
		t.Fatal(err)
	}
	run, err := report.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if run.Manifest.SchemaVersion != 1 || len(run.Rows) != 24 || len(run.Latency) != 24 {
		t.Fatalf("version %d with %d rows and %d histograms", run.Manifest.SchemaVersion, len(run.Rows), len(run.Latency))
	}
	for i := range run.Rows {
		r := &run.Rows[i]
		h := run.Latency[r.Tag()]
		if h == nil || h.Count() != r.Fates.Completed() {
			t.Errorf("%s: no histogram of its %d answers", r.Tag(), r.Fates.Completed())
			continue
		}
		last := 0.0
		for _, p := range []report.Value{r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.P999, r.Latency.Max} {
			v, ok := p.Get()
			if !ok || v < last {
				t.Errorf("%s: percentiles fall, or are unknown: %v", r.Tag(), r.Latency)
			}
			last = v
		}
		if p100 := float64(h.Percentile(100)) / 1e3; p100 < last*0.999 || p100 > last*1.001 {
			t.Errorf("%s: p100 is %v, the maximum %v", r.Tag(), p100, last)
		}
	}
	if err := document.Write(dir); err != nil {
		t.Fatal(err)
	}
	all := files(t, dir)
	for name, want := range map[string]string{
		"report.md": "8 of 8 points measured", "report.html": "tiny", "plots/goodput-small.svg": "codel", "plots/latency-p99-large.svg": "none",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
}

// TestNewerSchemaIsRefused: what a later version wrote would be misread.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	dir := complete(t)
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"schema_version": 2`), []byte(`"schema_version": 99`), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := document.Write(dir); err == nil || !strings.Contains(err.Error(), "schema version 99, this loadgen reads versions 1 to 2; use the loadgen that wrote them") {
		t.Errorf("error %v", err)
	}
	if all := files(t, dir); all["report.md"] != "" || all["report.html"] != "" {
		t.Error("documents were written of what cannot be read")
	}
}

// running is what would run, or be a link, were it read as HTML or Markdown.
var running = regexp.MustCompile(`<script>alert|<img/src|[^\\]\]\(javascript:alert\(1\)\)<`)

// TestNamesStayNames: what somebody called a controller or a profile to do harm is text in every document.
func TestNamesStayNames(t *testing.T) {
	t.Parallel()
	const script, escape = "<script>alert(1)</script>", "](javascript:alert(1))<img/src=x/onerror=alert(1)>"
	dir := results(t, report.StateComplete, point(script, 100, 1, 50), point(escape, 100, 1, 60), point("none", 100, 1, 60))
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"name": "fixed"`), []byte(`"name": "`+script+`"`), 1)
	text = bytes.Replace(text, []byte(`"Records that never change"`), []byte(`"`+escape+`"`), 1)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := document.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range files(t, dir) {
		switch filepath.Ext(name) {
		case ".md", ".html", ".svg":
			if at := running.FindStringIndex(text); at != nil {
				t.Errorf("%s has %s", name, text[max(at[0]-120, 0):min(at[1]+80, len(text))])
			}
		}
	}
}
