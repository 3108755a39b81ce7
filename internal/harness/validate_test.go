//go:build linux

package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/profiles"
	"spillway/report"
)

// knows is a Measuring that knows a machine already.
type knows struct {
	machine  *profiles.Machine
	overhead time.Duration
	asked    *int
}

func (k knows) Machine(context.Context, func(string)) (*profiles.Machine, []string, error) {
	*k.asked++
	return k.machine, []string{"somebody was here"}, nil
}

func (k knows) Overhead(context.Context, func(string)) (time.Duration, error) { return k.overhead, nil }

func validateModel(t *testing.T) *profiles.Profile {
	t.Helper()
	p, err := profiles.Load("validate-model")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func aMachine() *profiles.Machine {
	return &profiles.Machine{
		Cores: 64, Network: 10 * time.Microsecond, Bus: &profiles.Bus{Total: 40e9, PerCore: 20e9},
		Provenance: map[string]string{"cores": "measured", "bus": "measured"}, Spread: map[string]float64{"cores": 0},
	}
}

// TestValidationMakesTwoRuns: one on this computer, one on a simulation of it that has as many cores as the server, and requests that cost a
// little more than their work.
func TestValidationMakesTwoRuns(t *testing.T) {
	t.Parallel()
	asked := 0
	c := Config{Profile: validateModel(t), Out: filepath.Join(t.TempDir(), "out"), Observe: func(Event) {}, Measuring: knows{aMachine(), 7 * time.Microsecond, &asked}}
	if err := c.validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	runs := c.Profile.Runs()
	if len(runs) != 2 || asked != 1 {
		t.Fatalf("%d runs, asked %d times", len(runs), asked)
	}
	here, sim := runs[0], runs[1]
	if here.On != groundHost || here.RowName() != "validate-model/measured" || here.Workload.Classes[0].Work[0].Compute != "400us" {
		t.Errorf("measured: %s on %s, %+v", here.RowName(), here.On, here.Workload.Classes[0].Work)
	}
	if sim.On != groundSim || sim.RowName() != "validate-model/predicted" || sim.Workload.Classes[0].Work[0].Compute != "7us" || sim.Workload.Classes[0].Work[1].Compute != "400us" {
		t.Errorf("predicted: %s on %s, %+v", sim.RowName(), sim.On, sim.Workload.Classes[0].Work)
	}
	if m := sim.Machine; m.Cores != serverCores() || m.Origin("cores") != "derived" || m.Bus.Total != 40e9 {
		t.Errorf("the simulated machine: %+v", m)
	}
	f := c.validation.facts
	if !f.Calibrated || f.MachineCores != 64 || f.Streams != 2 || f.OverheadUS != 7 || f.Saturable() != (serverCores() > 2) || len(f.Disturbed) != 1 {
		t.Errorf("%+v", f)
	}
	if _, err := newModelled(sim); err != nil {
		t.Errorf("the prediction cannot be simulated: %v", err)
	}
	points := append(points(sim, 1, 1000), points(here, 0, 1000)...)
	measuredFirst(points)
	if points[0].variant != 0 || points[len(points)-1].variant != 1 || len(labels(c.Profile)) != len(points) {
		t.Errorf("%v", points)
	}
}

// TestValidationTakesAFile: with a machine in the profile nothing is measured but what a request costs.
func TestValidationTakesAFile(t *testing.T) {
	t.Parallel()
	asked := 0
	p, err := validateModel(t).Set([]profiles.Assignment{{Key: "machine", Value: "laptop"}})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Profile: p, Out: filepath.Join(t.TempDir(), "out"), Observe: func(Event) {}, Measuring: knows{nil, time.Microsecond, &asked}}
	if err := c.validate(t.Context()); err != nil || asked != 0 || c.validation.facts.Calibrated || c.validation.facts.MachineCores != 8 {
		t.Errorf("%v, asked %d times, %+v", err, asked, c.validation)
	}
}

func TestValidationRefuses(t *testing.T) {
	t.Parallel()
	c := Config{Profile: validateModel(t), Observe: func(Event) {}, Out: filepath.Join(t.TempDir(), "out")}
	if err := c.validate(t.Context()); !errors.Is(err, ErrUsage) {
		t.Errorf("without anybody to measure: %v", err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "results"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	asked := 0
	c = Config{Profile: validateModel(t), Observe: func(Event) {}, Out: full, Measuring: knows{aMachine(), 1, &asked}}
	if err := c.validate(t.Context()); !errors.Is(err, report.ErrNotEmpty) || !errors.Is(err, ErrUsage) || asked > 0 {
		t.Errorf("%v, and it was measured %d times before", err, asked)
	}
	for key, want := range map[string]string{
		"on=sim":                               "the profile's ground is host",
		"validate.against=model":               "sim",
		"load={phases: [{for: 1s, rate: 1k}]}": "no phases",
	} {
		a, err := profiles.ParseAssignment(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := validateModel(t).Set([]profiles.Assignment{a}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

// TestCostsBesideSyntheticWork: the table that calibrate writes makes every request compute for longer.
func TestCostsBesideSyntheticWork(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "costs.yaml")
	table := profiles.Costs{Operations: map[string]profiles.OperationCost{"get": {Compute: 7 * time.Microsecond}}, Provenance: map[string]string{"get.compute": "measured"}}
	if err := os.WriteFile(path, table.Text(), 0o644); err != nil {
		t.Fatal(err)
	}
	capacity := func(settings string) float64 {
		p, err := profiles.Load("model-check")
		if err != nil {
			t.Fatal(err)
		}
		if p, err = p.Set([]profiles.Assignment{{Key: "server.settings", Value: settings}}); err != nil {
			t.Fatal(err)
		}
		m, err := newModelled(p)
		if err != nil {
			t.Fatal(err)
		}
		if m.profile.Server.Settings[settingCosts] != "" {
			t.Error("the table is still there, for somebody else to wonder about")
		}
		return m.capacity.RPS
	}
	with, without := capacity("{costs: "+path+"}"), capacity("{slots: 4}")
	// The mean work of a request grows by 7 µs, on each of four cores.
	if got := 4e6/with - 4e6/without; got < 6.9 || got > 7.1 {
		t.Errorf("capacity %g with and %g without: %g us more a request, want 7", with, without, got)
	}
}
