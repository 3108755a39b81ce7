package html

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/internal/hist"
	"spillway/report"
)

// experiment says which results to make up.
type experiment struct {
	name        string
	variants    []string // nil for none
	controllers []string
	loads       []float64
	classes     []string
	repeats     int
	invalid     func(controller string, load float64) bool
	shed        bool // all of it
	trace       bool

	made map[string]*hist.Hist // by load and controller: classes and repeats share them
}

func small() experiment {
	return experiment{
		name: "sample", variants: []string{"slow", "fast"}, controllers: []string{"none", "protego", "svalinn", "mine"}, loads: []float64{50e3, 100e3, 400e3, 1e6},
		classes: []string{"cpu", "memory"}, repeats: 2, trace: true, invalid: func(c string, load float64) bool { return c == "protego" && load == 400e3 },
	}
}

// simple has fewer points, and no variants.
func simple() experiment {
	e := small()
	e.variants, e.controllers, e.loads, e.repeats = nil, e.controllers[1:], e.loads[2:], 2
	return e
}

// make returns the results as they would have been read from a folder, in which there is a trace where one is asked for.
func (e experiment) make(t testing.TB) *report.Run {
	t.Helper()
	e.made = map[string]*hist.Hist{}
	run := &report.Run{Dir: t.TempDir(), Latency: map[string]*hist.Hist{}, Manifest: report.Manifest{
		SchemaVersion: report.SchemaVersion, Name: e.name, Title: "Results that were made up", Ground: "sim", State: report.StateComplete, Seed: 1,
		Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Argv: []string{"loadgen", "run", e.name}, Versions: report.Versions{Module: "v0", Go: "go1.26"},
		Machine: report.Machine{Cores: 2}, Server: report.Server{Kind: "synthetic"}, ProfileText: "name: " + e.name + "\nload: {rates: [50k]}\n",
	}}
	for _, c := range e.classes {
		run.Manifest.Classes = append(run.Manifest.Classes, report.Class{Name: c, SLOUS: 500})
	}
	variants := e.variants
	if variants == nil {
		variants = []string{""}
	}
	for _, v := range e.variants {
		run.Manifest.Variants = append(run.Manifest.Variants, report.Variant{Name: v})
	}
	for _, c := range e.controllers {
		run.Manifest.Controllers = append(run.Manifest.Controllers, report.ControllerInfo{Label: c, Name: "none"})
	}
	for _, v := range variants {
		for _, load := range e.loads {
			for n, c := range e.controllers {
				for repeat := 1; repeat <= e.repeats; repeat++ {
					e.point(run, v, c, load, repeat, n)
				}
			}
		}
	}
	run.Manifest.Planned = len(run.Manifest.Points)
	if e.trace {
		e.writeTrace(t, run)
	}
	return run
}

func (e experiment) point(run *report.Run, variant, controller string, load float64, repeat, n int) {
	profile := e.name
	if variant != "" {
		profile += "/" + variant
	}
	share := 1 / (1 + load*float64(5-n%5)/1e6) // the later in the list the better
	facts := report.PointFacts{Variant: variant, Controller: controller, Load: report.Known(load).String(), Repeat: repeat, Seed: 1, WindowS: 1, Shed: map[string]map[string]int64{}}
	var all report.Row
	for i, class := range append([]string{report.AllClasses}, e.classes...) {
		arrivals := int64(load) / int64(len(e.classes))
		if i == 0 {
			arrivals = int64(load)
		}
		ok := int64(float64(arrivals)*share) + int64(repeat)
		if e.shed {
			ok = 0
		}
		ok = min(ok, arrivals)
		row := report.Row{
			Profile: profile, Ground: "sim", Controller: controller, OfferedTargetRPS: report.Known(load), Repeat: repeat, Seed: 1, Class: class,
			OfferedRPS: report.Known(float64(arrivals)), SentRPS: report.Known(float64(arrivals)), GoodputRPS: report.Known(float64(ok)),
			OptimumRPS: report.Known(math.Min(float64(arrivals), 200e3)), CeilingRPS: report.Known(math.Min(float64(arrivals), 60e3)),
			Fates:     report.Fates{OK: ok, Rejected: arrivals - ok},
			ShedRatio: report.Known(float64(arrivals-ok) / float64(arrivals)), DropRatio: report.Known(float64(arrivals-ok) / float64(arrivals)), Valid: true,
		}
		facts.Shed[class] = map[string]int64{"queue_full": arrivals - ok}
		if e.invalid != nil && e.invalid(controller, load) {
			row.Valid, row.Warnings = false, []string{"send_lag"}
		}
		if ok > 0 {
			h := e.latencies(load, n)
			us := func(d time.Duration) report.Value { return report.Known(float64(d) / 1e3) }
			row.Latency = report.Latency{Mean: us(h.Mean()), P50: us(h.Percentile(50)), P90: us(h.Percentile(90)), P99: us(h.Percentile(99)), P999: us(h.Percentile(99.9)), Max: us(h.Max())}
			run.Latency[row.Tag()] = h
		}
		if i == 0 {
			all = row
			continue
		}
		row.SLO = report.Known(500)
		run.Rows = append(run.Rows, row)
	}
	run.Rows = append(run.Rows, all)
	run.Manifest.Points = append(run.Manifest.Points, facts)
}

func (e experiment) latencies(load float64, n int) *hist.Hist {
	key := fmt.Sprint(load, n)
	if e.made[key] == nil {
		h := hist.New()
		for j := range 200 {
			h.Record(time.Duration(80_000 + j*j*int(load/1e4) + 1000*n))
		}
		e.made[key] = h
	}
	return e.made[key]
}

const traceHead = "profile,ground,controller,offered_target_rps,repeat,class,time_us,name,unit,value\n"

func (e experiment) writeTrace(t testing.TB, run *report.Run) {
	t.Helper()
	var b strings.Builder
	b.WriteString(traceHead)
	w := csv.NewWriter(&b)
	for i := range run.Rows {
		r := &run.Rows[i]
		for at := range 50 {
			line := func(class, name, unit string, v float64) {
				err := w.Write([]string{
					r.Profile, "sim", r.Controller, r.OfferedTargetRPS.String(), strconv.Itoa(r.Repeat), class, strconv.Itoa(at * 10_000), name, unit, report.Known(v).String(),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if r.Class != report.AllClasses {
				line(r.Class, "goodput", "rps", 1000+100*math.Sin(float64(at)))
				continue
			}
			line("", "queue_delay", "us", float64(at*at))
			line("", "credits", "", float64(at))
			line("", "memsem", "", float64(6+at%3))
			line("", "membw", "bytes_per_s", 30e9+float64(at)*1e8)
			line("", "cpu", "ratio", 0.5)
			line("", "window_in", "", 3)
		}
	}
	w.Flush()
	write1(t, filepath.Join(run.Dir, traceFile), b.String())
}

func write1(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// written returns the page of runs.
func written(t testing.TB, runs ...*report.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// dataOf returns the data of a page.
func dataOf(t testing.TB, page string) *pageData {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<script type="application/json" id="data">`)
	text, _, end := strings.Cut(rest, "</script>")
	if !ok || !end {
		t.Fatal("the page has no data")
	}
	var d pageData
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}
