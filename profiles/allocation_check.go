package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/dist"
)

// Bounds on an allocation.
const (
	maxLocations = 100_000
	maxCells     = 400 // of all surfaces
	maxLag       = 1000
	maxLevel     = 1000 // budgets that a class may ask for
)

// allocation checks a workload of the kind allocation, or that another kind has nothing of it.
func (c *checker) allocation(p *Profile) {
	w := &p.Workload
	a := w.Allocation
	switch {
	case w.Kind != KindAllocation && a != nil:
		c.fail("workload.allocation", "allocation belongs to the workload kind allocation, this is %s", w.Kind)
		return
	case w.Kind != KindAllocation:
		return
	case a == nil:
		c.fail("workload", "a workload of the kind allocation has a key allocation, with budget, locations and scenarios")
		return
	}
	const at = "workload.allocation"
	if a.Budget <= 0 {
		c.fail(at, "an allocation has a budget, in requests per second")
	}
	if a.Locations < 1 || a.Locations > maxLocations {
		c.fail(at+".locations", "locations is between 1 and %d", maxLocations)
	}
	if a.Skew > 10 {
		c.fail(at+".skew", "skew is at most 10")
	}
	if a.Lag < 0 || a.Lag > maxLag {
		c.fail(at+".lag", "lag is between 0 and %d cycles", maxLag)
	}
	c.ratio(at+".noise", a.Noise)
	if a.Cycle <= 0 || a.Cycle > maxDuration {
		c.fail(at+".cycle", "a cycle lasts longer than 0 and at most 24h")
	}
	c.unused(p)
	if c.err != nil {
		return
	}
	c.cycles(a, "window", p.Window, 1)
	c.cycles(a, "warmup", p.WarmUp, 0)
	c.length(at+".scenarios", len(a.Scenarios))
	if len(a.Scenarios) == 0 {
		c.fail(at+".scenarios", "an allocation has at least one scenario")
	}
	for i := range a.Scenarios {
		c.scenario(p, i)
	}
	c.surfaces(p)
	c.live(a)
	c.faults(p)
}

// unused refuses what an allocation has no use for.
func (c *checker) unused(p *Profile) {
	w := &p.Workload
	for key, given := range map[string]bool{
		"load":     len(p.Load.Rates)+len(p.Load.OfCapacity)+len(p.Load.Phases) > 0 || p.Load.Drift != nil,
		"machine":  p.Machine != nil,
		"retry":    p.Retry != nil,
		"variants": len(p.Variants) > 0,

		"workload.preset": w.Preset != "", "workload.shape": w.Shape != "", "workload.max_connections": w.MaxConnections != 0,
		"workload.in_flight": w.InFlight != 0, "workload.senders": w.Senders != 0, "workload.catch_up": w.CatchUp != "", "workload.client": w.Client != "",
	} {
		if given {
			c.fail(key, "an allocation has no %s: its scenarios say who asks for how much", lastKey(key))
		}
	}
	if p.Server.Kind != kindWeb {
		c.fail("server.kind", "the edges of an allocation are servers of the kind web; leave server out")
	}
	if p.Server.Replicas != 0 {
		c.fail("server.replicas", "an allocation has as many edges as locations")
	}
	for i := range w.Classes {
		if w.Classes[i].SLO.Limit > 0 {
			c.fail(fmt.Sprintf("workload.classes.%d.slo", i), "an allocation is about how much is served, not when; leave slo out")
		}
		if len(w.Classes[i].Work) > 0 {
			c.fail(fmt.Sprintf("workload.classes.%d.work", i), "the requests of an allocation are all alike; leave work out")
		}
	}
}

const kindWeb = "web"

// cycles checks that a duration is a whole number of cycles.
func (c *checker) cycles(a *Allocation, path string, d time.Duration, least int) {
	if d%a.Cycle != 0 || int64(d/a.Cycle) < int64(least) {
		c.fail(path, "%s is a whole number of cycles, which are %s each, at least %d; this is %s", lastKey(path), dist.FormatDuration(a.Cycle), least, dist.FormatDuration(d))
	}
}

func (c *checker) scenario(p *Profile, i int) {
	w := &p.Workload
	s, path := &w.Allocation.Scenarios[i], fmt.Sprintf("workload.allocation.scenarios.%d", i)
	c.name(path+".name", s.Name)
	if slices.ContainsFunc(w.Allocation.Scenarios[:i], func(o Scenario) bool { return o.Name == s.Name }) {
		c.fail(path+".name", "the scenario %q stands here a second time", s.Name)
	}
	if strings.ContainsAny(s.Title, "\n\r") {
		c.fail(path+".title", "a title is one line")
	}
	if s.Basis != "" {
		c.oneOf(path+".basis", s.Basis, []string{BasisConstruction})
	}
	if s.Shares != nil {
		c.shares(path+".shares", s.Shares, w.classNames())
	}
	if len(s.Demand) == 0 {
		c.fail(path, "a scenario has a demand, by class")
	}
	for _, name := range sortedKeys(s.Demand) {
		d := s.Demand[name]
		c.oneOf(path+".demand."+name, name, w.classNames())
		c.demand(w.Allocation, &d, path+".demand."+name)
	}
	if s.Waiting != nil {
		c.waiting(w, s.Waiting, path+".waiting")
	}
}

func (c *checker) demand(a *Allocation, d *Demand, path string) {
	if d.Level > maxLevel {
		c.fail(path+".level", "a level is at most %d budgets", maxLevel)
	}
	if d.Order != "" {
		c.oneOf(path+".order", d.Order, []string{OrderReversed})
	}
	if d.At != nil && len(d.At) == 0 {
		c.fail(path+".at", "at names at least one location")
	}
	c.locations(a, path+".at", d.At)
	if u := d.Pulses; u != nil {
		c.cycles(a, path+".pulses.on", u.On, 0)
		c.cycles(a, path+".pulses.of", u.Of, 1)
		if u.On > u.Of {
			c.fail(path+".pulses.on", "a pulse is no longer than the time from one to the next")
		}
		if u.Calm > maxLevel {
			c.fail(path+".pulses.calm", "a level is at most %d budgets", maxLevel)
		}
	}
	if s := d.Swing; s != nil {
		c.ratio(path+".swing.by", s.By)
		c.cycles(a, path+".swing.every", s.Every, 2)
	}
	if r := d.Reports; r != nil {
		if r.Times > 1e6 {
			c.fail(path+".reports.times", "times is at most a million")
		}
		if len(r.At) == 0 {
			c.fail(path+".reports", "reports say at which locations they are wrong")
		}
		c.locations(a, path+".reports.at", r.At)
	}
}

func (c *checker) locations(a *Allocation, path string, list []int) {
	for i, at := range list {
		if at < 1 || at > a.Locations {
			c.fail(path+"."+strconv.Itoa(i), "locations count from 1 to %d", a.Locations)
		}
		if slices.Contains(list[:i], at) {
			c.fail(path+"."+strconv.Itoa(i), "location %d stands here a second time", at)
		}
	}
}

func (c *checker) waiting(w *Workload, wait *Waiting, path string) {
	c.oneOf(path+".class", wait.Class, w.classNames())
	c.oneOf(path+".to", wait.To, w.classNames())
	if wait.Class == wait.To {
		c.fail(path+".to", "who waits is cleared for another class")
	}
	c.ratio(path+".clears", wait.Clears)
	c.ratio(path+".leaves", wait.Leaves)
	if wait.Clears+wait.Leaves > 1 {
		c.fail(path, "clears and leaves are shares of those who wait, and sum to at most 1")
	}
}

func (c *checker) surfaces(p *Profile) {
	a, cells := p.Workload.Allocation, 0
	for i := range a.Surfaces {
		f, path := &a.Surfaces[i], fmt.Sprintf("workload.allocation.surfaces.%d", i)
		c.name(path+".name", f.Name)
		if slices.ContainsFunc(a.Surfaces[:i], func(o Surface) bool { return o.Name == f.Name }) {
			c.fail(path+".name", "the surface %q stands here a second time", f.Name)
		}
		if strings.ContainsAny(f.Title, "\n\r") {
			c.fail(path+".title", "a title is one line")
		}
		var names []string
		for _, s := range a.Scenarios {
			names = append(names, s.Name)
		}
		c.oneOf(path+".of", f.Of, names)
		c.oneOf(path+".metric", f.Metric, surfaceMetrics)
		c.oneOf(path+".class", f.Class, append(p.Workload.classNames(), AllClasses))
		if isDifference(f.Metric) != (f.Over != "") {
			c.fail(path, "served_gain and served_loss are over another controller, and no other metric is")
		}
		if n := c.d.at[path]; c.elsewhere == "" || n.touched(c.elsewhere) {
			c.oneOf(path+".controller", f.Controller, p.labels())
			if f.Over != "" {
				c.oneOf(path+".over", f.Over, p.labels())
			}
		}
		if c.err == nil {
			c.axis(p, &f.Rows, f.Of, path+".rows")
			c.axis(p, &f.Columns, f.Of, path+".columns")
		}
		if f.Rows.Key == f.Columns.Key {
			c.fail(path+".columns.key", "rows and columns vary the same parameter")
		}
		if cells += len(f.Rows.Values) * len(f.Columns.Values); cells > maxCells {
			c.fail(path, "all surfaces have at most %d cells", maxCells)
		}
	}
}

// surfaceMetrics are those that a surface can show.
var surfaceMetrics = []string{MetricServed, MetricGain, MetricLoss, MetricUtilisation, MetricIdle}

func (c *checker) axis(p *Profile, x *Axis, of, path string) {
	what, class, _ := strings.Cut(x.Key, ".")
	if !slices.Contains(axisKeys, what) || !slices.Contains(p.Workload.classNames(), class) {
		c.fail(path+".key", "%q is no parameter; write one of %s, a dot and a class", x.Key, strings.Join(axisKeys, ", "))
		return
	}
	if len(x.Values) < 1 {
		c.fail(path+".values", "an axis has at least one value")
	}
	base := p.Workload.Allocation.scenario(of).Demand[class]
	if pulsed := slices.Contains([]string{"calm", "calm_share", "surplus"}, what); pulsed && base.Pulses == nil {
		c.fail(path+".key", "%s needs pulses, which class %s of scenario %s has none of", what, class, of)
	}
	for i, v := range x.Values {
		at := fmt.Sprintf("%s.values.%d", path, i)
		if slices.Contains(x.Values[:i], v) {
			c.fail(at, "%s stands here a second time", figure(v))
		}
		if what == "share" && !(v > 0 && v < 1) {
			c.fail(at, "a share is between 0 and 1, both excluded")
		}
		if what == "calm_share" || what == "surplus" {
			c.ratio(at, v)
		}
		if v > maxLevel {
			c.fail(at, "a level is at most %d budgets", maxLevel)
		}
	}
}

func (c *checker) live(a *Allocation) {
	if a.Live == nil {
		return
	}
	l, path := a.LiveSettings(), "workload.allocation.live"
	c.cycles(a, path+".lease", l.Lease, 6) // what refserver allocator wants
	if l.Keep < 0 || l.Keep > maxLag {
		c.fail(path+".keep", "keep is between 0 and %d cycles", maxLag)
	}
	if l.Absorb != 0 && (time.Duration(l.Absorb)*a.Cycle <= l.Lease || l.Absorb <= l.Keep) {
		c.fail(path+".absorb", "a location counts as gone after its lease, which is %s, and after its last demand has been kept; or never, with 0", dist.FormatDuration(l.Lease))
	}
	if l.Burst <= 0 || l.Burst > 1 && l.Burst*a.Cycle.Seconds() > 1 {
		c.fail(path+".burst", "burst is above 0 and at most 1 cycle, or so many as are a second")
	}
	if l.Path == "" || strings.ContainsAny(l.Path, " ?#\n\r") {
		c.fail(path+".path", "%q is no path, such as work/c20us or kv/key", l.Path)
	}
}

func (c *checker) faults(p *Profile) {
	for i, f := range p.Workload.Allocation.Faults {
		path := fmt.Sprintf("workload.allocation.faults.%d", i)
		if f.At <= 0 || f.At >= p.Window {
			c.fail(path+".at", "a fault happens within the window, which is %s", dist.FormatDuration(p.Window))
		}
		edge, isEdge := strings.CutPrefix(f.Kill, "edge-")
		n, err := strconv.Atoi(edge)
		if f.Kill != "allocator" && (!isEdge || err != nil || n < 1 || n > p.Workload.Allocation.Locations) {
			c.fail(path+".kill", "%q: kill is allocator, or edge-1 to edge-%d", f.Kill, p.Workload.Allocation.Locations)
		}
	}
}
