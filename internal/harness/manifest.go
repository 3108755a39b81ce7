//go:build linux

package harness

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/profiles"
	"spillway/report"
)

// manifest returns the circumstances of the run as far as they are known at its start.
func (e *experiment) manifest() report.Manifest {
	p := e.config.Profile
	m := report.Manifest{
		Name: p.Name, Title: p.Title, Ground: p.On, State: report.StateRunning, Started: e.now().UTC(),
		Argv: e.config.Argv, Seed: p.Seed, Pacing: e.config.Pace, PacingTest: e.config.pacing,
		Versions: report.Versions{Module: e.config.Version, Go: goVersion(), Kernel: kernelVersion()},
		Machine:  machineFacts(),
		Server:   report.Server{Kind: p.Server.Kind, Target: p.Server.Settings["target"]},
		Planned:  len(labels(p)), ProfileText: p.Text(), ResolvedProfile: string(p.Resolved()),
		Variants: e.ofVariants(), Phases: phasesOf(p.Runs()[0]), Allocation: e.ofAllocation(), Replay: ofReplay(p.Runs()[0]),
	}
	if v := e.config.validation; v != nil {
		m.Validation = &v.facts
		m.Variants = []report.Variant{
			{Name: v.facts.Measured, Set: map[string]string{"on": groundHost}}, {Name: v.facts.Predicted, Set: map[string]string{"on": v.facts.Against}},
		}
	}
	if e.config.tracing != nil {
		m.Sampling = e.config.tracing.facts()
	}
	if p.Source != nil {
		m.Paper = &report.Paper{Name: p.Source.Paper, Figure: p.Source.Figure}
	}
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		m.Classes = append(m.Classes, report.Class{
			Name: c.Name, SLOUS: micros(c.SLO.Limit), Objectives: objectives(c.SLO), Priority: uint8(c.Priority),
		})
	}
	for i := range p.Controllers {
		c := &p.Controllers[i]
		m.Controllers = append(m.Controllers, report.ControllerInfo{Label: c.Label(), Name: c.Name, Settings: c.Settings, Parts: c.Parts})
	}
	for i := range p.Claims {
		m.Claims = append(m.Claims, claimOf(p, &p.Claims[i]))
	}
	if len(e.models) > 0 {
		m.TimeScale, m.Jobs = e.config.TimeScale, e.config.Jobs
		if len(e.models) == 1 { // otherwise each variant says its own
			m.ModelledMachine = e.models[0].facts()
		}
	}
	return m
}

// phasesOf returns the phases of a profile's window; those of the first variant where variants differ.
func phasesOf(p *profiles.Profile) (list []report.Phase) {
	at := time.Duration(0)
	for i := range p.Load.Phases {
		ph := &p.Load.Phases[i]
		list = append(list, report.Phase{AtUS: micros(at), ForUS: micros(ph.For), Rate: float64(ph.Rate), Shares: ph.Shares})
		at += ph.For
	}
	return list
}

// objectives returns the percentiles of an SLO, the lowest first; nil when one limit was given.
func objectives(s profiles.SLO) (list []report.Objective) {
	for name, limit := range s.Percentiles {
		list = append(list, report.Objective{Percentile: percentileOf(name), LimitUS: micros(limit)})
	}
	slices.SortFunc(list, func(a, b report.Objective) int {
		if a.Percentile < b.Percentile {
			return -1
		}
		return 1
	})
	return list
}

// percentileOf returns 99.9 for p99.9. The profile has been checked.
func percentileOf(name string) float64 {
	p, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
	if err != nil {
		panic("harness: " + name + " is no percentile, and the profile was accepted")
	}
	return p
}

func claimOf(p *profiles.Profile, c *profiles.Claim) report.Claim {
	known := func(v *float64) report.Value {
		if v == nil {
			return report.Value{}
		}
		return report.Known(*v)
	}
	return report.Claim{
		Text: c.Text, Metric: c.Metric, Class: c.Class, Controller: c.Controller, Over: c.Over, Take: c.Take, Variant: c.Variant,
		At: p.LoadName(c), Paper: known(c.Paper), HoldsAt: known(c.HoldsAt), HoldsUnder: known(c.HoldsUnder), Note: c.Note,
	}
}
