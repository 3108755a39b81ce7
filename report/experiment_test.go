package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/internal/hist"
)

// served is what one controller made of one load, by class: goodput and what was late, of 1000 requests of each class in a window of a second.
type served struct {
	profile, controller string
	rate                float64
	repeat              int
	cpu, memory         int
	slow                time.Duration // the latency of one answer in fifty
	warnings            []string
	invalid             bool
	memsem              []float64 // every 10 ms
}

// experimentPoint makes a point of classes cpu and memory on a machine whose optimum is 800 and 400, and whose single-queue ceiling is 200 and 200.
func experimentPoint(s served) *Point {
	p := &Point{Start: time.Time{}.Add(time.Second), Window: time.Second}
	all, merged := Row{}, hist.New()
	for i, c := range []struct {
		name             string
		ok               int
		optimum, ceiling float64
	}{{"cpu", s.cpu, 800, 200}, {"memory", s.memory, 400, 200}} {
		h := hist.New()
		for n := range c.ok {
			if n%50 == 49 && s.slow > 0 {
				h.Record(s.slow)
			} else {
				h.Record(time.Duration(100+n%7) * time.Microsecond)
			}
		}
		f := Fates{OK: int64(c.ok), Rejected: int64(1000 - c.ok)}
		row := experimentRow(s, f, h)
		row.Class, row.SLO = c.name, Known(500)
		row.OptimumRPS, row.CeilingRPS = Known(c.optimum), Known(c.ceiling)
		p.Rows, p.Latencies = append(p.Rows, row), append(p.Latencies, h)
		merged.Merge(h)
		all.Fates = all.Fates.Add(f)
		_ = i
	}
	all = experimentRow(s, all.Fates, merged)
	all.Class, all.OptimumRPS, all.CeilingRPS = AllClasses, Known(1200), Known(400)
	p.Rows, p.Latencies = append(p.Rows, all), append(p.Latencies, merged)
	for i, v := range s.memsem {
		p.Samples = append(p.Samples, Sample{TimeUS: float64(i) * 10_000, Name: "memsem", Value: Known(v)}, Sample{TimeUS: float64(i) * 10_000, Name: "cpu", Value: Known(1)})
	}
	p.Facts = PointFacts{Variant: all.Variant(), Controller: s.controller, Load: all.Load(), Repeat: s.repeat, Seed: uint64(s.repeat), WindowS: 1}
	return p
}

func experimentRow(s served, f Fates, h *hist.Hist) Row {
	us := func(d time.Duration) Value {
		if h.Count() == 0 {
			return Value{}
		}
		return Known(float64(d) / 1e3)
	}
	return Row{
		Profile: s.profile, Ground: "sim", Controller: s.controller, OfferedTargetRPS: Known(s.rate), Repeat: s.repeat, Seed: uint64(s.repeat), Fates: f,
		OfferedRPS: Known(float64(f.Arrivals())), SentRPS: Known(float64(f.Sent())), ThroughputRPS: Known(float64(f.Completed())),
		GoodputRPS: Known(float64(f.OK)), ShedRatio: ratio(f.Shed(), f.Arrivals()), DropRatio: ratio(f.Rejected, f.Sent()),
		Latency: Latency{
			Mean: us(h.Mean()), P50: us(h.Percentile(50)), P90: us(h.Percentile(90)), P99: us(h.Percentile(99)), P999: us(h.Percentile(99.9)), Max: us(h.Max()),
		},
		Valid: !s.invalid, Warnings: s.warnings,
	}
}

// experimentManifest is of an experiment with everything that one can be asked for.
func experimentManifest() Manifest {
	return Manifest{
		Name: "exp", Title: "Every part of a report", Ground: "sim", State: StateRunning, Started: began, Seed: 1, Jobs: 1,
		Argv: []string{"loadgen", "run", "exp"}, Versions: Versions{Module: "v0.0.0", Go: "go1.26"}, Machine: Machine{Cores: 2},
		ModelledMachine: &ModelledMachine{Name: "xl170", Figures: []Figure{{Name: "cores", Value: "18", Provenance: "assumed"}}},
		Server:          Server{Kind: "synthetic"}, Paper: &Paper{Name: "svalinn", Figure: "4"},
		Classes: []Class{
			{Name: "cpu", SLOUS: 500, Objectives: []Objective{{Percentile: 50, LimitUS: 150}, {Percentile: 99, LimitUS: 300}}, Priority: 1},
			{Name: "memory", SLOUS: 500},
		},
		Controllers: []ControllerInfo{
			{Label: "none", Name: "none", Parts: []string{}},
			{Label: "credits", Name: "svalinn", Parts: []string{"credits"}},
			{Label: "section", Name: "svalinn", Parts: []string{"section"}},
			{Label: "svalinn", Name: "svalinn", Parts: []string{"credits", "section"}},
		},
		Variants: []Variant{{Name: "bus36"}, {
			Name: "bus55", Set: map[string]string{"machine.bus.total": "55GB"}, ModelledMachine: &ModelledMachine{Figures: []Figure{{Name: "bus.total", Value: "55GB/s", Provenance: "assumed"}}},
			Capacity: &Capacity{RPS: 250_000, Analytic: true, Bottleneck: "bus"},
			Phases:   []Phase{{AtUS: 0, ForUS: 300_000, Rate: 1000}, {AtUS: 300_000, ForUS: 500_000, Rate: 2000}},
			Classes:  []Class{{Name: "cpu", SLOUS: 500, Objectives: []Objective{{Percentile: 90, LimitUS: 500}}}, {Name: "memory", SLOUS: 500}},
		}},
		Phases: []Phase{{AtUS: 0, ForUS: 400_000, Rate: 1000}, {AtUS: 400_000, ForUS: 400_000, Rate: 2000}},
		Claims: []Claim{
			{
				Text: "CPU goodput over the baselines", Metric: "goodput_rps", Class: "cpu", Controller: "svalinn", Over: []string{"none", "credits"}, Paper: Known(5.06),
				HoldsAt: Known(3), Note: "the paper's best load",
			},
			{Text: "p99 within the limit", Metric: "latency_p99_us", Class: "cpu", Controller: "svalinn", HoldsUnder: Known(300)},
			{Text: "lower p99", Metric: "latency_p99_us", Class: "memory", Controller: "svalinn", Over: []string{"none"}, Paper: Known(3.49), HoldsAt: Known(2), Variant: "bus36"},
			{Text: "few drops", Metric: "drop_ratio", Controller: "svalinn", Take: "mean", Paper: Known(0.07), HoldsUnder: Known(0.1)},
			{Text: "settles", Metric: "settle_us", Controller: "svalinn", Paper: Known(50_000), HoldsUnder: Known(100_000), At: "2000"},
			{Text: "share", Metric: "optimum_share", Controller: "section", Take: "last", HoldsAt: Known(0.9)},
			{Text: "nothing known", Metric: "no_such", Controller: "section"},
		},
		Planned: 24, ProfileText: "name: exp\n", ResolvedProfile: "name: exp\n",
	}
}

// capacityStep is a capacity that goes from one level to another at 400 ms and takes some samples to arrive.
func capacityStep(from, to float64, late int) (list []float64) {
	for i := range 80 {
		v := from
		if i >= 40+late {
			v = to
		}
		list = append(list, v)
	}
	return list
}

func experimentDir(t *testing.T) string {
	t.Helper()
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), experimentManifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for v, variant := range []string{"exp/bus36", "exp/bus55"} {
		for _, rate := range []float64{1000, 2000} {
			for repeat := 1; repeat <= 2; repeat++ {
				n := repeat * 5
				points := []served{
					{profile: variant, controller: "none", cpu: 100 + n, memory: 100, slow: 450 * time.Microsecond},
					{profile: variant, controller: "credits", cpu: 195 + n, memory: 150, slow: 400 * time.Microsecond},
					{profile: variant, controller: "section", cpu: 150, memory: 250 + n},
					{profile: variant, controller: "svalinn", cpu: 760 + n, memory: 380, slow: 200 * time.Microsecond, memsem: capacityStep(6, 12, 3*repeat)},
				}
				if rate == 1000 {
					points[0].warnings = []string{"unconverged"}
				}
				if v == 1 && rate == 2000 && repeat == 2 {
					points[1].invalid, points[1].warnings = true, []string{"little"}
				}
				for _, s := range points {
					s.rate, s.repeat = rate, repeat
					if err := w.Add(experimentPoint(s)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	w.Manifest.Planned = len(w.Manifest.Points)
	closeAndReport(t, w, began.Add(time.Minute), StateComplete)
	return w.Dir()
}

func TestExperimentGolden(t *testing.T) {
	t.Parallel()
	dir := experimentDir(t)
	for _, name := range []string{claimsFile, attributionFile, settlingFile, sloFile, reportFile} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		noNonsense(t, name, got)
		sameCells(t, got)
		golden(t, "experiment_"+name, got)
	}
	run, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out, again bytes.Buffer
	if err := errors.Join(Terminal(&out, run), Markdown(&again, []*Run{run})); err != nil {
		t.Fatal(err)
	}
	golden(t, "experiment_terminal", out.Bytes())
	if written, _ := os.ReadFile(filepath.Join(dir, reportFile)); !bytes.Equal(written, again.Bytes()) {
		t.Error("the report made of the files is not the one that was written with them")
	}
}

// noNonsense fails when a text has a number that is none.
func noNonsense(t *testing.T, name string, text []byte) {
	t.Helper()
	for _, bad := range []string{"NaN", "Inf", "%!", "<nil>"} {
		if bytes.Contains(text, []byte(bad)) {
			t.Errorf("%s has %s:\n%s", name, bad, text)
		}
	}
}

// sameCells fails when a row of a Markdown table has another number of cells than its head.
func sameCells(t *testing.T, text []byte) {
	t.Helper()
	cells := func(line string) int { return strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") }
	head := ""
	for line := range strings.Lines(string(text)) {
		switch {
		case !strings.HasPrefix(line, "|"):
			head = ""
		case head == "":
			head = line
		case cells(line) != cells(head):
			t.Errorf("a row has %d bars and its head %d:\n%s%s", cells(line), cells(head), head, line)
		}
	}
}

// TestOddRunsGolden renders what has little or nothing to show.
func TestOddRunsGolden(t *testing.T) {
	t.Parallel()
	everything := func(change func(*served)) (list []served) {
		for _, controller := range []string{"none", "credits", "section", "svalinn"} {
			s := served{profile: "exp", controller: controller, rate: 1000, repeat: 1, cpu: 100, memory: 100}
			change(&s)
			list = append(list, s)
		}
		return list
	}
	for name, tt := range map[string]struct {
		points  []served
		planned int
		state   string
	}{
		"empty":       {nil, 4, StateFailed},
		"single":      {everything(func(s *served) {})[3:], 1, StateComplete},
		"shed":        {everything(func(s *served) { s.cpu, s.memory = 0, 0 }), 4, StateComplete},
		"invalid":     {everything(func(s *served) { s.invalid, s.warnings = true, []string{"little"} }), 4, StateComplete},
		"interrupted": {everything(func(s *served) { s.memsem = []float64{1, 2} })[1:], 8, StateCutShort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := experimentManifest()
			m.Variants, m.Planned = nil, tt.planned
			for i := range m.Claims {
				m.Claims[i].Variant = ""
			}
			w, err := NewWriter(filepath.Join(t.TempDir(), "r"), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range tt.points {
				if err := w.Add(experimentPoint(s)); err != nil {
					t.Fatal(err)
				}
			}
			closeAndReport(t, w, began, tt.state)
			run, err := ReadDir(w.Dir())
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			for _, f := range []string{claimsFile, attributionFile, settlingFile, sloFile, reportFile} {
				text, err := os.ReadFile(filepath.Join(w.Dir(), f))
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if f == reportFile {
					text, _, _ = bytes.Cut(text, []byte("\n## Circumstances"))
				}
				fmt.Fprintf(&out, "=== %s\n%s", f, text)
			}
			out.WriteString("=== terminal\n")
			if err := Terminal(&out, run); err != nil {
				t.Fatal(err)
			}
			noNonsense(t, name, out.Bytes())
			sameCells(t, out.Bytes())
			golden(t, "odd_"+name, out.Bytes())
		})
	}
}

// TestOlderResultsOpen reads a directory as the first version of the schema left it.
func TestOlderResultsOpen(t *testing.T) {
	t.Parallel()
	dir := goldenDir(t)
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), `"schema_version": 2`, `"schema_version": 1`, 1)
	if err := os.WriteFile(path, []byte(old), 0o666); err != nil || old == string(text) {
		t.Fatal(err, old)
	}
	run, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Markdown(&out, []*Run{run}); err != nil {
		t.Fatal(err)
	}
	golden(t, reportFile, out.Bytes())
	if run.Claims() != nil || run.Attributions() != nil || run.Settlings() != nil || run.Attainments() != nil {
		t.Error("a result without claims, parts, phases and objectives has some")
	}
}
