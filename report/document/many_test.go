package document_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"spillway/internal/hist"
	"spillway/report"
	"spillway/report/document"
)

// manyPoints writes a result directory of 10 controllers at 100 loads with 10 repeats of two classes, as a run of hours leaves one behind.
func manyPoints(tb testing.TB, controllers, loads, repeats int) string {
	tb.Helper()
	dir := tb.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	m := report.Manifest{
		SchemaVersion: report.SchemaVersion, Name: "fixed", Ground: "sim", State: report.StateComplete, Started: began, Ended: began.Add(time.Hour),
		Classes: []report.Class{{Name: "cpu", SLOUS: 500}, {Name: "memory", SLOUS: 500}}, Planned: controllers * loads * repeats,
	}
	var rows []report.Row
	file, err := os.Create(filepath.Join(dir, "histograms.hlog"))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	log, err := hist.NewLogWriter(file, time.Time{})
	if err != nil {
		tb.Fatal(err)
	}
	for c := range controllers {
		for l := range loads {
			for repeat := 1; repeat <= repeats; repeat++ {
				label, rate := fmt.Sprintf("controller-%d", c), float64(1000*(l+1))
				m.Points = append(m.Points, report.PointFacts{Controller: label, Load: report.Known(rate).String(), Repeat: repeat, WindowS: 1})
				for _, class := range []string{"cpu", "memory", report.AllClasses} {
					h := hist.New()
					for range 300 {
						h.Record(time.Duration(rng.ExpFloat64() * 200e3 * (1 + float64(l)/10)))
					}
					r := row(label, rate, repeat, class, 300, 40, h)
					rows = append(rows, r)
					if err := log.Write(r.Tag(), 0, time.Second, h); err != nil {
						tb.Fatal(err)
					}
				}
			}
		}
	}
	text, err := json.Marshal(&m)
	if err != nil {
		tb.Fatal(err)
	}
	err = report.WriteFile(filepath.Join(dir, "points.csv"), func(w io.Writer) error { return report.CSV(w, rows) })
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o666)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// BenchmarkWrite makes every document of a result of 10 000 points. It should take less than 10 s.
func BenchmarkWrite(b *testing.B) {
	dir := manyPoints(b, 10, 100, 10)
	for b.Loop() {
		if err := document.Write(dir); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/report")
}
