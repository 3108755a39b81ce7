//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spillway/internal/drive"
	"spillway/internal/hist"
	"spillway/internal/reqlog"
	"spillway/profiles"
	"spillway/report"
	"spillway/sim/allocation"
)

const (
	mostEdges = 64     // processes on one computer
	mostAsked = 20_000 // requests per second that the crowd is good for
	// lookEvery is how often edges are asked what they have in force.
	lookEvery = 250 * time.Millisecond
	// lateShare is the share of a cycle that requests may leave late, at the 99th percentile.
	lateShare = 10
)

// onEdges are the settings of the two levels that a real allocator has.
var onEdges = []string{"lend", "order", "floor"}

// refuseEdges says what of an allocation real edges cannot do.
func refuseEdges(p *profiles.Profile) error {
	w := &p.Workload
	const at = "workload.allocation"
	a, s := w.Allocation, w.Scenario()
	if a.Locations > mostEdges {
		return mistake(p, at+".locations", "locations: on the ground host each is a process; at most %d, or --on sim", mostEdges)
	}
	if s == nil {
		return nil
	}
	if s.Cell != nil {
		return mistake(p, at+".surfaces", "surfaces: on the ground host each cell would take as long as the window; --set workload.allocation.surfaces=null, or --on sim")
	}
	if s.Waiting != nil {
		return mistake(p, at+".scenarios", "scenario %s: waiting: on the ground host nobody asks twice; --on sim", s.Name)
	}
	for name, d := range s.Demand {
		if d.Reports != nil {
			return mistake(p, at+".scenarios", "scenario %s: class %s: reports: edges report what they are asked for; --on sim", s.Name, name)
		}
	}
	if rate := offered(w); rate > mostAsked {
		return mistake(p, at+".budget", "budget: scenario %s asks for %.0f requests per second, at most %d are possible on one computer; --on sim, or a smaller budget", s.Name, rate, mostAsked)
	}
	if a.Noise > 0 {
		return mistake(p, at+".noise", "noise: on the ground host demand varies as workload.arrivals do; leave noise out, or --on sim")
	}
	for i := range p.Controllers {
		c := &p.Controllers[i]
		if c.Name != "two-level" {
			return mistake(p, fmt.Sprintf("controllers.%d.name", i), "controllers: %s: on the ground host there is the allocator two-level only; --on sim has the others", c.Label())
		}
		for key := range c.Settings {
			if !slices.Contains(onEdges, key) {
				return mistake(p, fmt.Sprintf("controllers.%d.settings.%s", i, key), "controllers: %s: %s is not on the ground host; --on sim", c.Label(), key)
			}
		}
	}
	if arrivals := w.Arrivals; arrivals == profiles.ArrivalsClosed {
		return mistake(p, "workload.arrivals", "arrivals: the demand of an allocation is an open loop")
	}
	return nil
}

// weightsOf returns the weights of the locations.
func weightsOf(a *profiles.Allocation) []float64 { return allocation.Weights(a.Locations, a.Skew) }

// edges carries out an allocation with real processes.
type edges struct {
	profile *profiles.Profile
	binary  string
}

func newEdges(p *profiles.Profile) (*edges, error) {
	binary, err := findServer()
	if err != nil {
		return nil, err
	}
	return &edges{p, binary}, nil
}

// Close implements Runner.
func (e *edges) Close() error { return nil }

// Run implements Runner.
func (e *edges) Run(ctx context.Context, p Point) (Result, error) {
	r := Result{Profile: e.profile, Server: report.Server{Kind: kindWeb, Argv: []string{serverName, kindWeb}}}
	t := p.spans(e.profile)
	p.observe("server")
	f, err := startFleet(ctx, e.binary, nil, e.profile, &p.Controller)
	if err != nil {
		return r, err
	}
	defer f.stop()
	c, err := newCrowd(f, e.profile, p.Seed, t.warmUp, t.window)
	if err != nil {
		return r, err
	}
	run := &liveRun{profile: e.profile, controller: p.Controller, fleet: f, crowd: c, warmUp: t.warmUp, window: t.window}
	stop := p.follow(&c.ok)
	err = run.carryOut(ctx, p.observe)
	if stop(); err != nil {
		return r, err
	}
	r.Began = c.began.Add(t.warmUp)
	r.Load.CutShort = run.cut
	r.Ready = run.point(&p)
	r.Ready.Start, r.Ready.Facts.Started = r.Began, r.Began.UTC()
	return r, nil
}

// liveRun is an allocation with real processes under way, and what was seen of it.
type liveRun struct {
	profile        *profiles.Profile
	controller     profiles.Controller
	fleet          *fleet
	crowd          *crowd
	warmUp, window time.Duration

	rounds  []round
	origin  originCounts
	cut     bool
	counted error // why the origin's counts are not known
}

// carryOut sends the load while it looks at the edges and kills whom the profile says.
func (r *liveRun) carryOut(ctx context.Context, observe func(string)) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	r.crowd.began = time.Now()
	watching.Go(func() { r.watch(within) })
	var faults error
	watching.Go(func() { faults = r.kill(within) })
	observe("warm-up")
	watching.Go(func() {
		timer := time.NewTimer(r.warmUp)
		defer timer.Stop()
		select {
		case <-timer.C:
			observe("window")
		case <-within.Done():
		}
	})
	r.cut = r.crowd.run(ctx)
	cancel()
	watching.Wait()
	r.counted = r.fleet.get(context.WithoutCancel(ctx), r.fleet.origin, "/origin", &r.origin)
	return errors.Join(faults, r.fleet.lost())
}

func (r *liveRun) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if one := r.fleet.look(ctx, r.crowd.began); ctx.Err() == nil && one.missing == 0 {
			r.rounds = append(r.rounds, one)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *liveRun) kill(ctx context.Context) error {
	list := slices.Clone(r.profile.Workload.Allocation.Faults)
	slices.SortStableFunc(list, func(a, b profiles.Fault) int { return int(a.At - b.At) })
	for _, f := range list {
		timer := time.NewTimer(r.warmUp + f.At - time.Since(r.crowd.began))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		if err := r.fleet.kill(f.Kill); err != nil {
			return err
		}
	}
	return nil
}

// point brings what was seen into the form of results.
func (r *liveRun) point(p *Point) *report.Point {
	w := &r.profile.Workload
	base := p.row()
	base.Profile, base.Ground = r.profile.RowName(), r.profile.On
	v := verdict{valid: true, notes: map[string]string{}}
	fates, all := make([]report.Fates, len(w.Classes)), report.Fates{}
	latencies, lag := []*hist.Hist{}, hist.New()
	for range w.Classes {
		latencies = append(latencies, hist.New())
	}
	for i := range r.crowd.asks {
		a := &r.crowd.asks[i]
		if a.due < r.warmUp {
			continue
		}
		addFate(&fates[a.class], a.fate)
		if a.fate == reqlog.OK {
			latencies[a.class].Record(a.latency)
		}
		if a.fate != reqlog.Unsent {
			lag.Record(a.sent - a.due)
		}
	}
	r.judge(&v, lag)
	if text := r.unanswered(); text != "" {
		v.notes["failed"] = text
	}
	base.Valid, base.Warnings = v.valid, v.warnings
	slices.Sort(base.Warnings)
	window := r.measured()
	out := &report.Point{Window: window}
	add := func(class string, f report.Fates, h *hist.Hist) {
		row := allocationRow(*base, class, f, window)
		row.Latency = report.Latency{Mean: mean(h), P50: percentile(h, 50), P90: percentile(h, 90), P99: percentile(h, 99), P999: percentile(h, 99.9)}
		if h.Count() > 0 {
			row.Latency.Max = report.Known(micros(h.Max()))
		}
		row.SendLagP50, row.SendLagP99 = percentile(lag, 50), percentile(lag, 99)
		out.Rows, out.Latencies = append(out.Rows, row), append(out.Latencies, h)
	}
	merged := hist.New()
	for k := range w.Classes {
		add(w.Classes[k].Name, fates[k], latencies[k])
		all = all.Add(fates[k])
		merged.Merge(latencies[k])
	}
	add(report.AllClasses, all, merged)
	out.Facts = report.PointFacts{
		Variant: r.profile.Variant(), Controller: base.Controller, Settings: p.Controller.Settings, Load: base.Load(), Repeat: p.Repeat, Seed: p.Seed,
		WindowS: window.Seconds(), Notes: v.notes,
	}
	r.account(out)
	return out
}

// measured returns the length of the window as far as it was measured.
func (r *liveRun) measured() time.Duration {
	if n := len(r.crowd.asks); r.cut && n > 0 {
		return max(min(r.crowd.asks[n-1].due-r.warmUp, r.window), time.Nanosecond)
	}
	return r.window
}

// judge says whether the numbers may be believed.
func (r *liveRun) judge(v *verdict, lag *hist.Hist) {
	limit := r.profile.Workload.Allocation.Cycle / lateShare
	if late := lag.Percentile(99); lag.Count() > 0 && late > limit {
		v.invalid(drive.WarnSendLag, fmt.Sprintf("p99 send lag %s, a tenth of a cycle is %s", late.Round(time.Microsecond), limit))
	}
	if r.cut {
		v.invalid(drive.WarnCutShort, fmt.Sprintf("after %s of the window", r.measured().Round(time.Millisecond)))
	}
	if r.counted != nil {
		v.warn(warnUncounted, r.counted.Error())
		return
	}
	// What the origin was asked is what was answered, but for requests whose edge died before it could pass the answer on.
	served, doubtful := int64(0), int64(0)
	for i := range r.crowd.asks {
		switch a := &r.crowd.asks[i]; {
		case a.fate == reqlog.OK:
			served++
		case a.fate == reqlog.Failed, a.fate == reqlog.TimedOut:
			doubtful++
		}
	}
	for i := range r.fleet.down {
		if r.fleet.down[i].Load() {
			doubtful += int64(r.profile.Workload.Connections) // asked there, and asked again elsewhere
		}
	}
	if n := r.origin.total(); n < served || n > served+doubtful {
		v.invalid(warnServerCount, "the origin counted "+strconv.FormatInt(n, 10)+" requests, "+strconv.FormatInt(served, 10)+" were answered")
	}
}

// unanswered says of the first requests without an answer why they have none.
func (r *liveRun) unanswered() string {
	const most = 5
	var list []string
	for i := range r.crowd.asks {
		a := &r.crowd.asks[i]
		if a.fate != reqlog.Failed && a.fate != reqlog.TimedOut || a.due < r.warmUp {
			continue
		}
		why := "status " + strconv.Itoa(a.status)
		if a.why != nil {
			why = a.why.Error()
		}
		if list = append(list, fmt.Sprintf("%s at %s: %s", edgeName(a.to), (a.due-r.warmUp).Round(time.Millisecond), why)); len(list) == most {
			break
		}
	}
	return strings.Join(list, "; ")
}

func addFate(f *report.Fates, fate reqlog.Fate) {
	switch fate {
	case reqlog.OK:
		f.OK++
	case reqlog.Rejected:
		f.Rejected++
	case reqlog.TimedOut:
		f.TimedOut++
	case reqlog.Unsent:
		f.Unsent++
	default:
		f.Failed++
	}
}
