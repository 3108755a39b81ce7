//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/control/capacity"
	"spillway/profiles"
	"spillway/report"
	"spillway/sim/allocation"
)

// kindWeb is the kind of server that the locations of an allocation are, where they are real.
const kindWeb = "web"

// isAllocation reports whether p is about a budget that is shared in cycles, by allocators instead of controllers.
func isAllocation(p *profiles.Profile) bool { return p.Workload.Kind == profiles.KindAllocation }

// ControllerNames returns the names that the controllers of p can have: of the catalog, or of allocators.
func ControllerNames(p *profiles.Profile, catalog []string) []string {
	if isAllocation(p) {
		return allocation.Names()
	}
	return catalog
}

// Allocators returns the descriptions of the allocators, which stand in the place of controllers where a budget is shared.
func Allocators() (list []allocation.Description) {
	for _, name := range allocation.Names() {
		d, _ := allocation.Describe(name)
		list = append(list, d)
	}
	return list
}

// refuseAllocation says what of an allocation cannot be run on its ground.
func refuseAllocation(p *profiles.Profile) error {
	for i := range p.Controllers {
		c := &p.Controllers[i]
		if _, ok := allocation.Describe(c.Name); !ok {
			hint := "there are " + strings.Join(allocation.Names(), ", ")
			if near := profiles.Nearest(c.Name, allocation.Names()); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return mistake(p, fmt.Sprintf("controllers.%d.name", i), "controllers: there is no allocator %q; %s", c.Name, hint)
		}
		if s := p.Workload.Scenario(); s != nil {
			_, err := allocation.New(c.Name, c.Settings, policy(&p.Workload, s))
			var wrong *allocation.SettingError
			if errors.As(err, &wrong) {
				return mistake(p, fmt.Sprintf("controllers.%d.settings.%s", i, wrong.Setting), "controllers: %s: %w", c.Label(), err)
			}
			if err != nil {
				return mistake(p, "workload.allocation", "controllers: %s: %w", c.Label(), err)
			}
		}
	}
	switch p.On {
	case groundSim:
		if len(p.Workload.Allocation.Faults) > 0 {
			return mistake(p, "workload.allocation.faults", "workload.allocation.faults: a simulation has no processes that could end; --set workload.allocation.faults=null, or --on host")
		}
		return nil
	case groundHost:
		return refuseEdges(p)
	default:
		return mistake(p, "on", "on: an allocation runs on sim, where requests are a fluid, or on host, where locations are servers; not on %s", p.On)
	}
}

// policy returns the baselines of a scenario.
func policy(w *profiles.Workload, s *profiles.Scenario) capacity.Policy {
	a := w.Allocation
	var shares []float64
	for i := range w.Classes {
		shares = append(shares, w.ShareOf(s, i))
	}
	return capacity.Policy{
		Grid:     capacity.Grid{Classes: len(w.Classes), Locations: a.Locations},
		Baseline: allocation.Baselines(float64(a.Budget), shares, allocation.Weights(a.Locations, a.Skew)),
	}
}

// demands returns what the classes ask for in a scenario.
func demands(w *profiles.Workload, s *profiles.Scenario) (list []allocation.Demand) {
	a := w.Allocation
	budget, weights := float64(a.Budget), allocation.Weights(a.Locations, a.Skew)
	cycles := func(d time.Duration) int { return int(d / a.Cycle) }
	for i := range w.Classes {
		d := s.Demand[w.Classes[i].Name]
		one := allocation.Demand{Level: d.Level * budget, Weights: slices.Clone(weights)}
		if d.Order == profiles.OrderReversed {
			slices.Reverse(one.Weights)
		}
		if d.At != nil {
			confine(one.Weights, d.At)
		}
		if d.Pulses != nil {
			one.Pulse = allocation.Pulse{On: cycles(d.Pulses.On), Of: cycles(d.Pulses.Of), Calm: d.Pulses.Calm * budget}
		}
		if d.Swing != nil {
			one.Swing = allocation.Swing{By: d.Swing.By, Every: cycles(d.Swing.Every)}
		}
		if r := d.Reports; r != nil {
			one.Report = make([]float64, a.Locations)
			for j := range one.Report {
				one.Report[j] = 1
				if slices.Contains(r.At, j+1) {
					one.Report[j] = r.Times
				}
			}
		}
		list = append(list, one)
	}
	return list
}

// confine leaves weights at some locations only, which count from 1.
func confine(weights []float64, at []int) {
	sum := 0.0
	for _, i := range at {
		sum += weights[i-1]
	}
	for i := range weights {
		if slices.Contains(at, i+1) {
			weights[i] /= sum
		} else {
			weights[i] = 0
		}
	}
}

// offered returns the demand of a scenario on average, in requests per second.
func offered(w *profiles.Workload) (rate float64) {
	s := w.Scenario()
	for i := range w.Classes {
		d := s.Demand[w.Classes[i].Name]
		rate += d.Mean() * float64(w.Allocation.Budget)
	}
	return rate
}

// fluid carries out the scenario of a run in virtual time.
type fluid struct{ profile *profiles.Profile }

// spansOfTrace is how many values a series of an allocation has.
const spansOfTrace = 50

// Run implements Runner.
func (f *fluid) Run(_ context.Context, p Point) (Result, error) {
	w := &f.profile.Workload
	a, s := w.Allocation, w.Scenario()
	t := p.spans(f.profile)
	c := allocation.Config{
		Policy: policy(w, s), Allocator: p.Controller.Name, Settings: p.Controller.Settings, Demand: demands(w, s),
		Cycle: a.Cycle, WarmUp: int(t.warmUp / a.Cycle), Cycles: int(t.window / a.Cycle), Lag: a.Lag, Noise: a.Noise, Seed: p.Seed,
	}
	if wait := s.Waiting; wait != nil {
		of := func(name string) int {
			return slices.IndexFunc(w.Classes, func(c profiles.Class) bool { return c.Name == name })
		}
		c.Waiting = &allocation.Waiting{Class: of(wait.Class), To: of(wait.To), Clears: wait.Clears, Leaves: wait.Leaves}
	}
	var trace cellTrace
	if s.Cell == nil {
		trace = cellTrace{workload: w, grid: c.Policy.Grid, every: max(1, c.Cycles/spansOfTrace), cycle: a.Cycle}
		c.Observe = trace.observe
	}
	began := time.Now()
	out, err := allocation.Run(c)
	if err != nil {
		return Result{}, err
	}
	ready := allocationPoint(f.profile, &p, &out)
	ready.Samples, ready.Facts.WallS, ready.Facts.Events = trace.samples, time.Since(began).Seconds(), int64(c.Cycles)
	ready.Start = time.Time{}.Add(t.warmUp)
	return Result{Profile: f.profile, Server: report.Server{Kind: f.profile.Server.Kind}, Modelled: true, Ready: ready}, nil
}

// Close implements Runner.
func (f *fluid) Close() error { return nil }

// allocationPoint brings an outcome into the form of results.
func allocationPoint(of *profiles.Profile, p *Point, out *allocation.Outcome) *report.Point {
	w := &of.Workload
	base := p.row()
	base.Profile, base.Ground, base.Valid = of.RowName(), of.On, true
	ready := &report.Point{Window: of.Window}
	var sum report.Fates
	for i := range w.Classes {
		c := &out.Classes[i]
		fates := report.Fates{OK: count(c.Served), TimedOut: count(c.Left)}
		// Whole requests have to add up: the rounding is with those turned away.
		fates.Rejected = max(0, count(c.Arrivals)-fates.OK-fates.TimedOut)
		sum = sum.Add(fates)
		ready.Rows = append(ready.Rows, allocationRow(*base, w.Classes[i].Name, fates, of.Window))
	}
	ready.Rows = append(ready.Rows, allocationRow(*base, report.AllClasses, sum, of.Window))
	grid := capacity.Grid{Classes: len(w.Classes), Locations: w.Allocation.Locations}
	for k := range w.Classes {
		for i := range grid.Locations {
			cell := grid.Cell(k, i)
			ready.Cells = append(ready.Cells, report.AllocationCell{
				Class: w.Classes[k].Name, Location: strconv.Itoa(i + 1),
				Demand: report.Known(out.Demand[cell]), Granted: report.Known(out.Granted[cell]), Served: report.Known(out.Served[cell]),
			})
		}
	}
	ready.Facts = report.PointFacts{
		Variant: of.Variant(), Controller: base.Controller, Settings: p.Controller.Settings, Load: base.Load(), Repeat: p.Repeat, Seed: p.Seed,
		WindowS: of.Window.Seconds(),
		Allocation: &report.AllocationFacts{
			Utilisation: report.Known(out.Utilisation), Idle: report.Known(out.Idle), OverCommit: report.Known(out.OverCommit),
			Conservation: report.Known(out.Conservation), CurrentIdle: report.Known(out.CurrentIdle), CurrentOverCommit: report.Known(out.CurrentOverCommit),
		},
	}
	return ready
}

func count(requests float64) int64 { return int64(math.Round(max(0, requests))) }

// allocationRow fills in the columns that an allocation has: counts, rates and ratios, and no times.
func allocationRow(row report.Row, class string, fates report.Fates, window time.Duration) report.Row {
	per := func(n int64) report.Value { return report.Known(float64(n) / window.Seconds()) }
	row.Class, row.Fates = class, fates
	row.OfferedRPS, row.SentRPS = per(fates.Arrivals()), per(fates.Sent())
	row.ThroughputRPS, row.GoodputRPS = per(fates.Completed()), per(fates.OK)
	row.ShedRatio, row.DropRatio = share(fates.Shed(), fates.Arrivals()), share(fates.Rejected+fates.Dropped+fates.Expired, fates.Sent())
	return row
}

// cellTrace makes time series of what each class asked for, was granted and was served: means over several cycles.
type cellTrace struct {
	workload *profiles.Workload
	grid     capacity.Grid
	every    int // cycles
	cycle    time.Duration
	sums     [3][]float64 // by class
	samples  []report.Sample
}

// namesOfTrace are the series of an allocation.
var namesOfTrace = [3]string{"demand", "granted", "served"}

func (t *cellTrace) observe(c allocation.Cycle) {
	for j, cells := range [3][]float64{c.Demand, c.Granted, c.Served} {
		if t.sums[j] == nil {
			t.sums[j] = make([]float64, t.grid.Classes)
		}
		for k := range t.sums[j] {
			t.sums[j][k] += total(capacity.Row(t.grid, cells, k))
		}
	}
	if (c.Number+1)%t.every != 0 {
		return
	}
	at := micros(time.Duration(c.Number+1-t.every) * t.cycle)
	for j, name := range namesOfTrace {
		for k, v := range t.sums[j] {
			t.samples = append(t.samples, report.Sample{
				Class: t.workload.Classes[k].Name, TimeUS: at, Name: name, Unit: "rps", Value: report.Known(v / float64(t.every)),
			})
		}
		clear(t.sums[j])
	}
}

// ofAllocation describes an allocation for the manifest; nil for anything else.
func (e *experiment) ofAllocation() *report.Allocation {
	p := e.config.Profile
	a := p.Workload.Allocation
	if a == nil {
		return nil
	}
	m := &report.Allocation{
		BudgetRPS: float64(a.Budget), Locations: a.Locations, CycleUS: micros(a.Cycle), Cycles: int(p.Window / a.Cycle), Lag: a.Lag, Noise: a.Noise,
		Reserved: map[string]float64{},
	}
	var names []string
	for i := range p.Workload.Classes {
		names = append(names, p.Workload.Classes[i].Name)
		m.Reserved[names[i]] = p.Workload.Classes[i].Share
	}
	for _, run := range p.Runs() {
		s := run.Workload.Scenario()
		one := report.AllocationScenario{Name: s.Name, Title: s.Title, Demand: s.AllocationText(names), Basis: s.Basis, Reserved: s.Shares}
		if s.Cell != nil {
			one.Surface, one.Row, one.Column = s.Cell.Surface+1, s.Cell.Row, s.Cell.Column
		}
		m.Scenarios = append(m.Scenarios, one)
	}
	for i := range a.Surfaces {
		f := &a.Surfaces[i]
		m.Surfaces = append(m.Surfaces, report.AllocationSurface{
			Name: f.Name, Title: f.Title, Rows: f.Rows.Key, Columns: f.Columns.Key, Metric: f.Metric, Class: f.Class, Controller: f.Controller, Over: f.Over,
			Paper: f.Paper, Within: f.Within,
		})
	}
	return m
}
