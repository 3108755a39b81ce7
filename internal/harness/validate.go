//go:build linux

package harness

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"spillway/profiles"
	"spillway/report"
)

// Measuring is what a validation has to find out of this computer before it can predict it.
type Measuring interface {
	// Machine describes this computer, and says what disturbed the measurement.
	Machine(ctx context.Context, observe func(what string)) (m *profiles.Machine, disturbed []string, err error)
	// Overhead returns the time of a core that a synthetic request costs beside the work that it spells.
	Overhead(ctx context.Context, observe func(what string)) (time.Duration, error)
}

// validation is a run that holds a simulation against this computer.
type validation struct {
	facts report.Validation
}

// validate finds out what the profile's prediction needs, and makes two runs of the profile: one on this computer, one on a simulation of it.
func (c *Config) validate(ctx context.Context) error {
	p := c.Profile
	if p.Validate == nil {
		return nil
	}
	if entries, err := os.ReadDir(c.Out); err == nil && len(entries) > 0 { // said before a minute of measuring rather than after it
		return usageError{fmt.Errorf("results folder %s: %w", c.Out, report.ErrNotEmpty)}
	}
	if c.Measuring == nil {
		return usage("%s: validate: there is nobody to measure this computer", p.File())
	}
	tell := func(what string) { c.Observe(Event{What: "calibration", Phase: what}) }
	v := &validation{facts: report.Validation{
		Against: p.Validate.Against, GoodputOff: p.Validate.Goodput, P50Off: p.Validate.P50, Measured: profiles.Measurement, Predicted: profiles.Prediction,
	}}
	m := p.Machine
	if m == nil || m.Ref == profiles.HostMachine {
		var err error
		if m, v.facts.Disturbed, err = c.Measuring.Machine(ctx, tell); err != nil {
			return fmt.Errorf("calibration: %w", err)
		}
		v.facts.Calibrated = true
	}
	overhead, err := c.Measuring.Overhead(ctx, tell)
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	v.facts.OverheadUS = micros(overhead)
	v.facts.MachineCores, v.facts.ServerCores = m.Cores, serverCores()
	if m.Bus != nil {
		v.facts.Streams = float64(m.Bus.Total) / float64(m.Bus.PerCore)
	}
	c.Profile, c.validation = p.Predicted(narrowed(m, v.facts.ServerCores), overhead), v
	return refuse(c.Profile.Runs()[1])
}

// narrowed returns m with as many cores as the server has. On a small computer that is one less than there are.
func narrowed(m *profiles.Machine, cores int) *profiles.Machine {
	n := *m
	n.Provenance, n.Spread = maps.Clone(m.Provenance), maps.Clone(m.Spread)
	if n.Cores != cores {
		n.Cores = cores
		if n.Provenance == nil {
			n.Provenance = map[string]string{}
		}
		n.Provenance["cores"] = "derived"
		delete(n.Spread, "cores")
	}
	return &n
}

// known returns what a list says of a figure.
func known(list map[string]float64, figure string) report.Value {
	if v, ok := list[figure]; ok {
		return report.Known(v)
	}
	return report.Value{}
}

// compared returns the points of a validation: each load, which is a share of what the simulation can do, is measured and predicted.
func (e *experiment) compared() ([]Point, error) {
	c := e.models[0].capacity
	if c.Bottleneck != "" {
		e.writer.Manifest.Capacity = &c
		e.note("the simulated machine is full at %.0f requests per second, bottleneck: %s", c.RPS, c.Bottleneck)
	}
	var list []Point
	for i, run := range e.config.Profile.Runs() {
		list = append(list, points(run, i, c.RPS)...)
	}
	return list, e.writer.Update()
}

// measuredFirst puts the points of the simulation last: computing between two measurements would change how warm the machine is.
func measuredFirst(points []Point) {
	slices.SortStableFunc(points, func(a, b Point) int { return a.variant - b.variant })
}

// besideWork returns a profile of a synthetic server with what a request costs beside its work, where server.settings.costs names a table of that,
// as a part of the work.
func besideWork(p *profiles.Profile) (*profiles.Profile, error) {
	if p.Workload.Kind != "synthetic" || p.Server.Settings[settingCosts] == "" {
		return p, nil
	}
	t, err := p.CostsFor()
	if err != nil {
		return nil, usage("%s: %w", p.File(), err)
	}
	get, ok := t.Operations["get"]
	if !ok || len(t.Operations) > 1 || get != (profiles.OperationCost{Compute: get.Compute}) {
		return nil, usage("%s: server.settings.costs: synthetic work has its own costs; beside them a table may say what `get` computes and nothing else, "+
			"as `loadgen calibrate --costs synthetic` writes it", p.File())
	}
	more := p.WithOverhead(get.Compute)
	more.Server.Settings = maps.Clone(p.Server.Settings)
	delete(more.Server.Settings, settingCosts)
	return more, nil
}
