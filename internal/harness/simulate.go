//go:build linux

package harness

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/stats"
	"spillway/machine/station"
	"spillway/profiles"
	"spillway/report"
	"spillway/sim"
)

// simulation measures in virtual time. Several points may be under way at once: they share nothing that changes.
type simulation struct{ *modelled }

const (
	// gatherings is how many samples the sensors give over a window, spansPerWindow how many the counts give: fewer, because each must hold
	// enough requests to say something about drift.
	gatherings     = 100
	spansPerWindow = 20
	// simLittle is how nearly Little's law must hold in virtual time, where both sides of it are exact.
	simLittle = 0.001
)

// Run implements Runner.
func (s *simulation) Run(ctx context.Context, p Point) (Result, error) {
	r := Result{Profile: s.profile, Server: report.Server{Kind: s.profile.Server.Kind}, Modelled: true}
	r.Began = time.Time{}.Add(s.profile.WarmUp) // the calendar of a simulation begins with its warm-up
	c, controller, err := s.config(&p, &r)
	if err != nil {
		return r, err
	}
	watch := newSensors(controller, c.Tally.From, s.spec.Cores)
	c.Sample, c.SamplePeriod = watch.sample, period(s.profile.Window, gatherings)
	c.Stop = func() bool { return ctx.Err() != nil }

	began := time.Now()
	out, err := sim.Run(c)
	if err != nil {
		return r, err
	}
	r.Wall, r.Events = time.Since(began), out.Events
	s.take(&r, &out, c.Tally)
	r.Samples = append(tallySamples(c.Tally), watch.samples...)
	s.best(&r, p.Rate)
	s.findings(&r, &p)
	return r, nil
}

// config puts a point into the form that package sim takes.
func (s *simulation) config(p *Point, r *Result) (sim.Config, control.Controller, error) {
	t := spans{s.profile.WarmUp, s.profile.Window, s.profile.Drain}
	w, costs, err := s.workload()
	if err != nil {
		return sim.Config{}, nil, err
	}
	g, classes, err := generator(s.profile, p, w, t)
	if err != nil {
		return sim.Config{}, nil, err
	}
	settings, err := catalog.ParseSettings(settingList(p.Controller.Settings))
	if err != nil {
		return sim.Config{}, nil, err
	}
	stack, err := catalog.New(p.Controller.Name, settings, catalog.Env{Cores: s.spec.Cores, SLO: cmp.Or(s.settings.slo, tightest(s.profile)), Seed: p.Seed})
	if err != nil {
		return sim.Config{}, nil, err
	}
	from := clock.Instant(t.warmUp)
	return sim.Config{
		Station: s.station(stack), Costs: costs, Generator: g,
		Tally:   load.NewTallyIn(min(period(t.window, spansPerWindow), load.BucketSpan), classes, from, from.Add(t.window)),
		Timeout: s.profile.Timeout, Drain: t.drain, Deadline: s.settings.deadline, Budget: stack.Budget,
		Settled: func(rec *reqlog.Record) { r.Totals[0][rec.Fate]++ },
	}, stack.Controller, nil
}

// tightest returns the smallest objective of any class, 0 if there is none.
func tightest(p *profiles.Profile) time.Duration {
	least := time.Duration(0)
	for i := range p.Workload.Classes {
		if limit := p.Workload.Classes[i].SLO.Limit; limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// period returns a parts-th of a window, not less than a microsecond nor more than the span that series have on the host.
func period(window time.Duration, parts int) time.Duration {
	return min(max(window/time.Duration(parts), time.Microsecond), load.BucketSpan)
}

// take brings what a simulation found into the form of the other grounds.
func (s *simulation) take(r *Result, out *sim.Result, tally *load.Tally) {
	r.Load = drive.Result{
		Tally: tally, Arrivals: out.Arrivals, CutShort: out.CutShort, Undrained: out.Undrained, InFlight: out.InFlight,
	}
	r.CPU = report.Known(out.CPURatio)
	if s.spec.Bus.Total > 0 && tally.Window() > 0 {
		r.MemBW, r.MemBWSource = report.Known(float64(out.Moved)/tally.Window().Seconds()), sourceModel
	}
	if out.Died != clock.Never {
		r.Died = true
		after, when := out.Died.Sub(tally.From), "after the window began"
		if after < 0 {
			after, when = -after, "before the window began"
		}
		r.LastWord = fmt.Sprintf("the modelled RAM of %s ran out %s %s", s.profile.Machine.RAM, after.Round(time.Microsecond), when)
	}
	// The Gate does not know what kind of operation a request is, so all are held against its count as if they were of one.
	r.Before.Known, r.After.Known = true, true
	r.After.Executed[0] = int64(out.Gate.Finished - out.Gate.Failed)
}

// sourceModel is the membw_source of bytes that a modelled bus moved.
const sourceModel = "model"

// findings judges the numbers by the rules of the load driver, as far as they have a meaning without a clock.
func (s *simulation) findings(r *Result, p *Point) {
	l := &r.Load
	all := l.Tally.All()
	warn := func(when bool, code string) {
		if when {
			l.Warnings = append(l.Warnings, code)
		}
	}
	invalid := func(when bool, code string) {
		warn(when, code)
		if when {
			l.Invalid = append(l.Invalid, code)
		}
	}
	invalid(l.Tally.Check(l.Arrivals) != nil, drive.WarnAccounting)
	invalid(l.CutShort, drive.WarnCutShort)
	if window := l.Tally.Window(); window > 0 {
		stamped := float64(l.Tally.Busy) / float64(window)
		invalid(math.Abs(l.InFlight-stamped) > simLittle*max(l.InFlight, stamped)+1e-9, drive.WarnLittle)
		warn(drifts(&all, window), drive.WarnDrift)
	}
	warn(all.Latency.Overflow()+all.Queue.Overflow()+all.Service.Overflow() > 0, drive.WarnOverflow)
	warn(l.Undrained > 0, drive.WarnUndrained)
	warn(s.blind(p), warnSlotsUnlimited)
}

// blind reports whether the point's controller judges requests only when they leave the Gate's queue, and nothing ever waits there.
func (m *modelled) blind(p *Point) bool {
	e, _ := catalog.Describe(p.Controller.Name)
	return e.JudgesAtDequeue && m.settings.slots == 0
}

func drifts(all *load.ClassTally, window time.Duration) bool {
	completed, latency := all.Series(window)
	for _, series := range [][]float64{completed, latency} {
		if d, ok := stats.TestDrift(series); ok && d.Drifts {
			return true
		}
	}
	return false
}

// sensors turns what a simulated server shows into time series.
type sensors struct {
	controller control.Controller
	from       clock.Instant
	cores      int
	samples    []report.Sample

	last  clock.Instant
	busy  time.Duration
	moved uint64
	begun bool
}

func newSensors(c control.Controller, from clock.Instant, cores int) *sensors {
	return &sensors{controller: c, from: from, cores: cores}
}

func (s *sensors) sample(at sim.Sample) {
	micro := micros(at.Now.Sub(s.from))
	add := func(name, unit string, v float64) {
		s.samples = append(s.samples, report.Sample{TimeUS: micro, Name: name, Unit: unit, Value: report.Known(v)})
	}
	s.rates(at.Now, at.Station, add)
	add("queue_delay", "us", micros(at.Station.QueueDelay(at.Now)))
	g := at.Station.Gate().Stats()
	add("queued", "requests", float64(g.Queued))
	add("in_service", "requests", float64(g.InService))
	if m, ok := s.controller.(control.Meter); ok {
		for name, v := range m.Meters() {
			add(name, unitOf(name), v)
		}
	}
}

// rates adds what is a difference between two samples.
func (s *sensors) rates(now clock.Instant, st *station.Station, add func(name, unit string, v float64)) {
	busy, moved := st.Machine().BusyTime(now), st.Machine().BytesMoved(now)
	if span := now.Sub(s.last); s.begun && span > 0 {
		add("cpu", "ratio", float64(busy-s.busy)/float64(span)/float64(s.cores))
		if st.Machine().Spec().Bus.Total > 0 {
			add("membw", "bytes_per_s", float64(moved-s.moved)/span.Seconds())
		}
	}
	s.last, s.busy, s.moved, s.begun = now, busy, moved, true
}

// Close implements Runner.
func (s *simulation) Close() error { return nil }
