//go:build linux

package calibrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/frames"
	"spillway/profiles"
)

// framePoints follow a law: 20 us a request, 2 ns a step, and for what no cache holds 10 GB/s beside them, but for decay.
func framePoints(cold int) (points []CostPoint) {
	for k := range frames.NumKinds {
		q := frames.Standard(k)
		at := func(rows int) CostPoint {
			return CostPoint{Operation: k.String(), Rows: rows, Best: 20*time.Microsecond + time.Duration(2*q.Steps(rows)), Requests: 5}
		}
		points = append(points, at(leastOf(k)), at(usualRows))
		if q.Steps(cold) > coldSteps {
			continue
		}
		p := at(cold)
		p.Cold = true
		if k != frames.Decay {
			p.Best += time.Duration(q.Moved(cold) / 10)
		}
		points = append(points, p)
	}
	return points
}

// TestFitFrames: from points that follow a law, the table has its figures, and all operations; its file is one that profiles reads.
func TestFitFrames(t *testing.T) {
	t.Parallel()
	const cold, llc, cores = 2_000_000, 32_000_000, 4
	points := framePoints(cold)
	table := FitFrames(points, llc, cores)
	for k := range frames.NumKinds {
		o, q := table.Operations[k.String()], frames.Standard(k)
		if o.Compute != 20*time.Microsecond || o.ComputePerKStep != 2*time.Microsecond || o.MovedPerRow != float64(q.Moved(1000))/1000 {
			t.Errorf("%s: %+v", k, o)
		}
		if want := q.Steps(cold) <= coldSteps && k != frames.Decay && 2*float64(q.Steps(cold))*sureShare < float64(q.Moved(cold))/10; want != (o.At > 0) || want && o.At != 10e9 {
			t.Errorf("%s comes at %v, and it should be told: %v", k, o.At, want)
		}
	}
	if o := table.Operations["max"]; o.CachedBelow != 21_300_000 { // two thirds
		t.Errorf("max: %v", o.CachedBelow)
	}
	if o := table.Operations["ad"]; o.CachedBelow != 48_000_000 { // 8 MB of results, and five columns as long
		t.Errorf("ad: %v", o.CachedBelow)
	}
	if table.Provenance["max.at"] != "measured" || table.Provenance["decay.at"] != "" || table.Provenance["ad.moved_per_row"] != "derived" {
		t.Errorf("%v", table.Provenance)
	}
	text, err := (&CostTable{Kind: "dataframe", Points: points, Table: table}).File()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := profiles.LoadCosts(path)
	if diff := cmp.Diff(table, again); diff != "" || err != nil {
		t.Errorf("written and read again: %v\n%s", err, diff)
	}
	for _, want := range []string{"# Measured by loadgen calibrate --costs dataframe", "2000000  no ", "      60000  yes"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file does not say %q:\n%s", want, text)
		}
	}
	points = points[1:] // without one of max's
	if _, ok := FitFrames(points, llc, cores).Operations["max"]; ok {
		t.Error("an operation that was not measured has costs")
	}
}

// TestCostsOfAFrame measures a server over the frames, all operations.
func TestCostsOfAFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	table, err := Costs(t.Context(), CostConfig{Kind: "dataframe", Quick: true, Start: inProcess(t)})
	if err != nil {
		t.Fatal(err)
	}
	if n := int(frames.NumKinds); len(table.Table.Operations) != n || len(table.Points) != 2*n {
		t.Errorf("%d operations of %d points", len(table.Table.Operations), len(table.Points))
	}
	for name, o := range table.Table.Operations {
		if o.Compute < 0 || o.Compute == 0 && o.ComputePerKStep == 0 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
