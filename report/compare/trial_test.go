//go:build linux

package compare_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"spillway/internal/harness"
	"spillway/profiles"
	"spillway/report"
	"spillway/report/compare"
)

// seeds is the number of repeats a side of every trial: the fewest that can decide.
const seeds = compare.Fewest

// simulated runs a profile on sim and returns what was written.
func simulated(t *testing.T, text string, set ...string) *report.Run {
	t.Helper()
	p, err := profiles.Parse("trial.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []profiles.Assignment
	for i := 0; i < len(set); i += 2 {
		list = append(list, profiles.Assignment{Key: set[i], Value: set[i+1], Origin: "test"})
	}
	if p, err = p.Set(list); err != nil {
		t.Fatal(err)
	}
	out, err := harness.Run(t.Context(), harness.Config{Profile: p, Out: filepath.Join(folder(t), "out"), Pace: "auto", Version: "test"})
	if err != nil || out.Invalid > 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	run, err := report.ReadDir(out.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// folder returns a folder for a run, in memory where there is one: after every point its files are written anew and forced to the disk, which would take most of
// the time of thousands of points.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "spillway")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// trials cuts the repeats of a run into trials of as many as there are seeds.
func trials(run *report.Run) []*report.Run {
	var list []*report.Run
	for i := range run.Rows {
		row := run.Rows[i]
		n := (row.Repeat - 1) / seeds
		for len(list) <= n {
			list = append(list, &report.Run{Dir: run.Dir, Manifest: run.Manifest})
		}
		row.Repeat = (row.Repeat-1)%seeds + 1
		list[n].Rows = append(list[n].Rows, row)
	}
	return list
}

// small is a server of four cores above its capacity, of which a repeat takes milliseconds.
const small = `
name: trial
on: sim
machine: {cores: 4, network: 5us}
server: {kind: synthetic}
workload:
  kind: synthetic
  connections: 8
  arrivals: poisson
  classes:
    - {name: short, share: 0.5, slo: 3ms, work: [{compute: "exp:50us"}]}
    - {name: long, share: 0.5, slo: 3ms, work: [{compute: "exp:150us"}]}
load: {of_capacity: [1.2]}
controllers: [{name: fixed, settings: {limit: 4, queue: 16}}]
timeout: 20ms
drain: 20ms
warmup: 5ms
window: 15ms
seed: 1
`

// TestFalseAlarms compares the same thing with itself under other seeds, two hundred times, and counts in how many of them anything is called different.
// The stated share is one in twenty, all comparisons of a trial taken together. What is asserted is asserted without the least effect, which would hide
// most alarms.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	batches, perBatch := 20, 10
	if testing.Short() {
		batches = 2
	}
	count := map[string]int{}
	total, single, tested := 0, map[string]int{}, map[string]int{}
	for batch := range batches {
		repeats := strconv.Itoa(perBatch * seeds)
		a := trials(simulated(t, small, "repeats", repeats, "seed", strconv.Itoa(2*batch+1)))
		b := trials(simulated(t, small, "repeats", repeats, "seed", strconv.Itoa(2*batch+2)))
		for i := range a {
			total++
			for form, candidate := range map[string]*report.Run{"unpaired": b[i], "paired": asPairs(a[i], b[i])} {
				for _, threshold := range []float64{0, compare.DefaultThreshold} {
					r, err := compare.Runs([]*report.Run{a[i]}, []*report.Run{candidate}, compare.Options{Threshold: threshold})
					if err != nil {
						t.Fatal(err)
					}
					if r.Count(compare.Better)+r.Count(compare.Worse) > 0 {
						count[fmt.Sprintf("%s, least effect %g %%", form, 100*threshold)]++
					}
					for j := range r.Comparisons {
						c := &r.Comparisons[j]
						if c.Paired != (form == "paired") {
							t.Fatalf("%s: %+v", form, c)
						}
						if p, ok := c.Student.Get(); ok && threshold == 0 {
							tested[form]++
							if p <= 0.05 {
								single[form]++
							}
						}
					}
				}
			}
		}
	}
	for _, form := range []string{"paired", "unpaired"} {
		for _, threshold := range []float64{0, compare.DefaultThreshold} {
			name := fmt.Sprintf("%s, least effect %g %%", form, 100*threshold)
			t.Logf("%s: %d of %d trials called something different (%.1f %%)", name, count[name], total, 100*float64(count[name])/float64(total))
			if most := max(total/20, 2); count[name] > most { // of few trials chance makes more
				t.Errorf("%s: more than %d", name, most)
			}
		}
		share := float64(single[form]) / float64(tested[form])
		t.Logf("%s: Student's test alone, of single comparisons: %.1f %% at 5 %%", form, 100*share)
		if !testing.Short() && (share < 0.02 || share > 0.075) {
			t.Errorf("%s: the test does not keep its level: %.1f %%", form, 100*share)
		}
	}
}

// asPairs returns b under the seeds of a, so that what has nothing in common is taken for pairs: under the hypothesis the test for pairs must hold for it too.
func asPairs(a, b *report.Run) *report.Run {
	same := *b
	same.Rows = append([]report.Row(nil), b.Rows...)
	for i := range same.Rows {
		same.Rows[i].Seed = a.Rows[i].Seed
	}
	return &same
}

// TestTenPercentWorseIsFound: a limit of eighteen where twenty cores could work.
func TestTenPercentWorseIsFound(t *testing.T) {
	t.Parallel()
	set := []string{"machine.cores", "20", "controllers.0.settings.limit", "20", "repeats", strconv.Itoa(seeds), "load", "{of_capacity: [1.5]}"}
	base := simulated(t, small, set...)
	set[3] = "18"
	worse := simulated(t, small, set...)
	set[3] = "20"
	set = append(set, "seed", "77")
	elsewhere := simulated(t, small, set...)
	for name, candidate := range map[string]*report.Run{"worse": worse, "the same under other seeds": elsewhere} {
		r, err := compare.Runs([]*report.Run{base}, []*report.Run{candidate}, compare.Options{Threshold: compare.DefaultThreshold})
		if err != nil {
			t.Fatal(err)
		}
		if r.Regressed() != (name == "worse") || !r.Comparable() {
			t.Errorf("%s: %d of %d comparisons are worse", name, r.Count(compare.Worse), len(r.Comparisons))
		}
	}
}

// TestLeastEffect finds out how small a difference six paired seeds tell apart: a server of a hundred cores is overloaded, and its limit made lower by
// one core after another, each of which costs one per cent of the goodput.
func TestLeastEffect(t *testing.T) {
	t.Parallel()
	const cores = 100
	turns, levels := 5, []int{5, 3, 2, 1}
	if testing.Short() {
		turns, levels = 1, []int{5, 2}
	}
	run := func(limit int) []*report.Run {
		return trials(simulated(t, small, "machine.cores", strconv.Itoa(cores), "controllers.0.settings.limit", strconv.Itoa(limit), "controllers.0.settings.queue", "50",
			"repeats", strconv.Itoa(turns*seeds), "load", "{of_capacity: [1.5]}", "window", "20ms"))
	}
	base := run(cores)
	least := 0
	for _, fewer := range levels {
		found := map[float64]int{}
		candidates := run(cores - fewer)
		for i := range base {
			for _, threshold := range []float64{0, 0.02} {
				r, err := compare.Runs([]*report.Run{base[i]}, []*report.Run{candidates[i]}, compare.Options{Metrics: []string{"goodput_rps"}, Threshold: threshold})
				if err != nil {
					t.Fatal(err)
				}
				if r.Regressed() {
					found[threshold]++
				}
			}
		}
		t.Logf("goodput lower by %d %%: found in %d of %d trials of six paired seeds without a least effect, in %d at the default of 2 %%", fewer, found[0], turns, found[0.02])
		if found[0] == turns {
			least = fewer
		}
	}
	t.Logf("the least effect that is always found: %d %%", least)
	if least == 0 || least > 2 {
		t.Errorf("the least effect that is always found is %d %%", least)
	}
}
