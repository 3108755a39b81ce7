//go:build linux

package harness

import (
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
	// Where load changes within the window, how the memory section takes to it is looked at more closely: each time that the published
	// bandit chooses, as long as that is no more than so many times.
	closeLook      = 500 * time.Microsecond
	mostGatherings = 20_000
	// simLittle is how nearly Little's law must hold in virtual time, where both sides of it are exact.
	simLittle = 0.001
)

// Run implements Runner.
func (s *simulation) Run(ctx context.Context, p Point) (Result, error) {
	r := Result{Profile: s.profile, Server: report.Server{Kind: s.profile.Server.Kind}, Modelled: true}
	r.Began = time.Time{}.Add(p.spans(s.profile).warmUp) // the calendar of a simulation begins with its warm-up
	c, controllers, err := s.config(&p, &r)
	if err != nil {
		return r, err
	}
	watch := newSensors(controllers, &c)
	c.Sample, c.SamplePeriod = watch.sample, max(s.profile.Window/gatherings, time.Microsecond) // however long: a trace is to be looked at
	if l := &s.profile.Load; len(l.Phases) > 0 || l.Drift != nil {
		watch.every, c.SamplePeriod = c.SamplePeriod, min(max(s.profile.Window/mostGatherings, closeLook), c.SamplePeriod)
	}
	c.Stop = func() bool { return ctx.Err() != nil }

	began := time.Now()
	out, err := sim.Run(c)
	if err != nil {
		return r, err
	}
	r.Wall, r.Events = time.Since(began), out.Events
	s.take(&r, &out, c.Tally)
	r.Samples = append(tallySamples(c.Tally), watch.samples...)
	r.Converged = convergedAtEnd(watch.samples, c.Tally.Window())
	s.best(&r, &p)
	s.findings(&r, &p)
	return r, nil
}

// config puts a point into the form that package sim takes. It returns the controllers of all replicas too, for their meters.
func (s *simulation) config(p *Point, r *Result) (sim.Config, []control.Controller, error) {
	t := p.spans(s.profile)
	w, costs, err := s.workload(t.warmUp)
	if err != nil {
		return sim.Config{}, nil, err
	}
	g, classes, err := generator(s.profile, p, w, t)
	if err != nil {
		return sim.Config{}, nil, err
	}
	from := clock.Instant(t.warmUp)
	c := sim.Config{
		Costs: costs, Generator: g, Seed: p.Seed,
		Tally:   load.NewTallyIn(min(period(t.window, spansPerWindow), load.BucketSpan), classes, from, from.Add(t.window)),
		Timeout: s.profile.Timeout, Drain: t.drain, Deadline: s.settings.deadline,
		Settled: func(rec *reqlog.Record) { r.Totals[0][rec.Fate]++ },
	}
	if retry := s.profile.Retry; retry != nil {
		c.Retry = &load.Retry{Budget: retry.Budget, First: retry.Primary == profiles.PrimaryFirst}
	}
	var controllers []control.Controller
	for i := range s.replicas() {
		env := environment(s.profile, s.spec.Cores, s.settings.slo, replicaSeed(p.Seed, i))
		env.Oracle = s.oracle(t.warmUp)
		stack, err := build(&p.Controller, env)
		if err != nil {
			return sim.Config{}, nil, err
		}
		controllers = append(controllers, stack.Controller)
		if i == 0 {
			c.Station, c.NewClient, c.Budget = s.station(stack), stack.NewClient, stack.Budget
		} else {
			c.More = append(c.More, s.station(stack))
		}
	}
	return c, controllers, nil
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

// sensors turns what simulated servers and clients show into time series. Of what several servers show see sharedBy.
type sensors struct {
	controllers []control.Controller
	from        clock.Instant
	cores       int  // of one server
	clients     bool // have a half of the control
	samples     []report.Sample

	every time.Duration // between two samples of all there is; in between only the memory section is looked at; 0 for all at each
	next  clock.Instant // of these

	last  clock.Instant
	busy  time.Duration
	moved uint64
	begun bool

	names []string // of meters, in the order in which they were first met
	sums  map[string]float64
}

func newSensors(controllers []control.Controller, c *sim.Config) *sensors {
	return &sensors{
		controllers: controllers, from: c.Tally.From, cores: c.Station.Machine.Cores, clients: c.NewClient != nil, sums: map[string]float64{},
	}
}

func (s *sensors) sample(at sim.Sample) {
	micro := micros(at.Now.Sub(s.from))
	add := func(name, unit string, v float64) {
		s.samples = append(s.samples, report.Sample{TimeUS: micro, Name: name, Unit: unit, Value: report.Known(v)})
	}
	if at.Now < s.next {
		s.meters(add, meterMemsem)
		return
	}
	s.next = at.Now.Add(s.every)
	s.rates(&at, add)
	delay, queued, inService := time.Duration(0), 0, 0
	for st := range at.Stations() {
		g := st.Gate().Stats()
		delay += st.QueueDelay(at.Now)
		queued, inService = queued+g.Queued, inService+g.InService
	}
	add("queue_delay", "us", micros(delay)/float64(len(s.controllers)))
	add("queued", "requests", float64(queued))
	add("in_service", "requests", float64(inService))
	s.meters(add, "")
	for name, v := range at.ClientMeters() {
		add(ofClients(name), unitOf(name), v)
	}
	if s.clients {
		add("client_waiting", "requests", float64(at.Waiting()))
	}
}

// meterMemsem is the capacity of the memory section.
const meterMemsem = "memsem"

// meters adds what controllers have to plot: all, or only what is called so.
func (s *sensors) meters(add func(name, unit string, v float64), only string) {
	s.names = s.names[:0]
	clear(s.sums)
	for _, c := range s.controllers {
		m, ok := c.(control.Meter)
		if !ok {
			continue
		}
		for name, v := range m.Meters() {
			if only != "" && name != only {
				continue
			}
			if _, met := s.sums[name]; !met {
				s.names = append(s.names, name)
			}
			s.sums[name] += v
		}
	}
	for _, name := range s.names {
		add(name, unitOf(name), s.sums[name]/sharedBy(name, len(s.controllers)))
	}
}

// rates adds what is a difference between two samples.
func (s *sensors) rates(at *sim.Sample, add func(name, unit string, v float64)) {
	busy, moved, bus := time.Duration(0), uint64(0), false
	for st := range at.Stations() {
		busy, moved = busy+st.Machine().BusyTime(at.Now), moved+st.Machine().BytesMoved(at.Now)
		bus = st.Machine().Spec().Bus.Total > 0
	}
	if span := at.Now.Sub(s.last); s.begun && span > 0 {
		add("cpu", "ratio", float64(busy-s.busy)/float64(span)/float64(s.cores*len(s.controllers)))
		if bus {
			add("membw", "bytes_per_s", float64(moved-s.moved)/span.Seconds())
		}
	}
	s.last, s.busy, s.moved, s.begun = at.Now, busy, moved, true
}

// Close implements Runner.
func (s *simulation) Close() error { return nil }
