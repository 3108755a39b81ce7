//go:build linux

package harness

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/profiles"
	"spillway/report"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

const allocationText = `name: shared
on: sim
workload:
  kind: allocation
  classes: [{name: high, share: 0.7}, {name: low, share: 0.3}]
  allocation:
    budget: 10k
    locations: 3
    skew: 0.8
    noise: 0.05
    scenarios:
      - {name: steady, demand: {high: {level: 0.8, order: reversed}, low: {level: 2, at: [1, 3]}}}
      - {name: pulses, basis: by construction, demand: {high: {level: 0.8, reports: {times: 2, at: [2]}, swing: {by: 0.2, every: 10s}}, low: {level: 3, pulses: {on: 2s, of: 6s, calm: 0.15}}}, waiting: {class: low, to: high, clears: 0.1, leaves: 0.1}}
    surfaces:
      - {name: reach, of: steady, rows: {key: share.high, values: [0.5, 0.7]}, columns: {key: demand.high, values: [0.6]}, metric: served_share, class: high, controller: two-level}
controllers: [{name: two-level}, {name: two-level, as: whole, settings: {whole: true, lend: "0,1"}}, {name: borrowing}]
warmup: 2s
window: 60s
repeats: 2
claims:
  - {text: used, metric: current_idle, controller: two-level, variant: "*", holds_under: 0.6}
  - {text: more, metric: served_gain, class: high, controller: two-level, over: [borrowing], variant: "*", take: most, holds_at: 0}
`

func allocationProfile(t *testing.T, replace ...string) *profiles.Profile {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(allocationText, replace[i]) {
			t.Fatalf("the profile has no %q", replace[i])
		}
	}
	p, err := profiles.Parse("shared.yaml", []byte(strings.NewReplacer(replace...).Replace(allocationText)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAllocationIsPinned: the same profile gives the same bytes, today and next year, whatever the number of jobs.
func TestAllocationIsPinned(t *testing.T) {
	t.Parallel()
	run, other := simulate(t, allocationProfile(t), 1), simulate(t, allocationProfile(t), 3)
	read := func(run *report.Run, file string) string {
		text, err := os.ReadFile(filepath.Join(run.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, file := range []string{"points.csv", "trace.csv", "allocation.csv", "claims.csv"} {
		if a, b := read(run, file), read(other, file); a != b {
			t.Errorf("%s depends on the number of jobs", file)
		}
	}
	path, got := filepath.Join("testdata", "allocation.csv.golden"), read(run, "allocation.csv")
	if *updateGolden {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestAllocationResults: every scenario has its rows, whose counts add up; those of a surface only under the allocators that it needs.
func TestAllocationResults(t *testing.T) {
	t.Parallel()
	run := simulate(t, allocationProfile(t), 2)
	points := map[string]int{}
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Class == report.AllClasses {
			points[r.Variant()+" "+r.Controller]++
			if !r.Valid {
				t.Errorf("%s is not valid", r.Point())
			}
			continue
		}
		offered, goodput := value(t, r.OfferedRPS), value(t, r.GoodputRPS)
		if n := float64(r.Fates.Arrivals()) / 60; math.Abs(n-offered) > 1e-6 || goodput > offered || r.Fates.Rejected < 0 {
			t.Errorf("%s, class %s: offered %g, goodput %g, fates %+v", r.Point(), r.Class, offered, goodput, r.Fates)
		}
		if _, known := r.Latency.P50.Get(); known {
			t.Errorf("%s has a latency, which a fluid has not", r.Point())
		}
		if waits := r.Variant() == "pulses"; (r.Fates.TimedOut > 0) != waits {
			t.Errorf("%s, class %s: %d gave up waiting", r.Point(), r.Class, r.Fates.TimedOut)
		}
	}
	want := map[string]int{
		"steady two-level": 2, "steady whole": 2, "steady borrowing": 2, "pulses two-level": 2, "pulses whole": 2, "pulses borrowing": 2,
		"reach-0.5-0.6 two-level": 2, "reach-0.7-0.6 two-level": 2,
	}
	if diff := cmp.Diff(want, points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if run.Manifest.Planned != 16 || len(run.Manifest.Points) != 16 {
		t.Errorf("%d of %d points", len(run.Manifest.Points), run.Manifest.Planned)
	}
	// What scenarios asked for is what the profile says: 0.8 and 2 budgets of 10 000.
	sums := map[string]float64{}
	for _, c := range run.Cells {
		if c.Scenario == "steady" && c.Controller == "two-level" {
			sums[c.Class] += value(t, c.Demand)
			if c.Class == "low" && c.Location == "2" && value(t, c.Demand) != 0 {
				t.Error("class low asks for something where it is not")
			}
		}
	}
	if math.Abs(sums["high"]-8000) > 100 || math.Abs(sums["low"]-20000) > 300 {
		t.Errorf("asked for %v", sums)
	}
	facts := run.Manifest.Points[0].Allocation
	if facts == nil || value(t, facts.Conservation) > 1e-9 || value(t, facts.CurrentIdle) > 1e-9 || value(t, facts.Utilisation) < 0.95 {
		t.Errorf("facts of the first point: %+v", facts)
	}
	for _, c := range run.Claims() {
		if c.Outcome == report.Undecided {
			t.Errorf("claim %q: %v", c.Claim.Text, c.Reasons)
		}
	}
}

func TestAllocationRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ old, new, want string }{
		{"{name: borrowing}", "{name: borowing, as: borrowing}", `shared.yaml:16:103: controllers: there is no allocator "borowing"; did you mean "borrowing"?`},
		{"{name: borrowing}", "{name: none, as: borrowing}", "there are two-level, static"},
		{`lend: "0,1"`, `lend: "0,2"`, `shared.yaml:16:87: controllers: whole: lend: "2": a share is a number from 0 to 1`},
		{"on: sim", "on: model", "shared.yaml:2:1: on: an allocation runs on sim, where requests are a fluid, or on host"},
		{"    surfaces:\n", "    faults: [{at: 5s, kill: allocator}]\n    surfaces:\n", "a simulation has no processes that could end"},
	} {
		_, err := Run(t.Context(), Config{Profile: allocationProfile(t, tt.old, tt.new), Out: filepath.Join(t.TempDir(), "out")})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.new, err, tt.want)
		}
	}
}

// TestShippedAllocations: what ships runs in seconds, and every claim of it is decided.
func TestShippedAllocations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"allocation-cdn", "allocation-burst", "allocation-cases"} {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Grounds(p); !slices.Contains(got, "sim") {
			t.Errorf("%s runs on %v", name, got)
		}
		p, err = p.Set([]profiles.Assignment{{Key: "repeats", Value: "1", Origin: "--set"}, {Key: "window", Value: "120s", Origin: "--set"}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		run := simulate(t, p, 2)
		t.Logf("%s: %s", name, time.Since(began).Round(time.Millisecond))
		for _, c := range run.Claims() {
			if c.Outcome == report.Undecided {
				t.Errorf("%s: claim %q is undecided: %v", name, c.Claim.Text, c.Reasons)
			}
		}
	}
}
