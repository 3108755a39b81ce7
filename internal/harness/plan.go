//go:build linux

package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/profiles"
	"spillway/report"
)

// Point is one load under one controller, measured once.
type Point struct {
	Controller profiles.Controller
	Factor     profiles.Factor // of capacity; empty when the profile gives rates
	Rate       float64         // requests per second
	Repeat     int             // from 1
	Seed       uint64          // of the arrivals. It depends on the repeat only, so all controllers face the same sequences

	observe func(phase string)
}

// String names the point for progress and errors.
func (p Point) String() string {
	return fmt.Sprintf("%s at %s, repeat %d", p.Controller.Label(), p.row().Load(), p.Repeat)
}

// row returns the columns of a row that the point decides.
func (p Point) row() *report.Row {
	return &report.Row{
		Controller: p.Controller.Label(), OfferedTargetRPS: report.Known(p.Rate), LoadFactor: string(p.Factor),
		Repeat: p.Repeat, Seed: p.Seed,
	}
}

// points lists the points of p in its order. Factors are of capacity.
func points(p *profiles.Profile, capacity float64) []Point {
	var list []Point
	for _, c := range p.Controllers {
		add := func(factor profiles.Factor, rate float64) {
			for repeat := 1; repeat <= p.Repeats; repeat++ {
				list = append(list, Point{Controller: c, Factor: factor, Rate: rate, Repeat: repeat, Seed: p.Seed + uint64(repeat) - 1})
			}
		}
		for _, r := range p.Load.Rates {
			add("", float64(r))
		}
		for _, f := range p.Load.OfCapacity {
			add(f, f.Value()*capacity)
		}
	}
	return list
}

// labels lists the labels of the points of p in its order, which do not depend on its capacity.
func labels(p *profiles.Profile) []string {
	var list []string
	for _, pt := range points(p, 1) {
		list = append(list, report.PointLabel(pt.Controller.Label(), pt.row().Load(), pt.Repeat))
	}
	return list
}

// shuffle puts points into the order in which they are measured. What drifts on a machine (heat, neighbours) then falls on all
// controllers and loads alike instead of on those that come last.
func shuffle(points []Point, seed uint64) {
	dist.Stream(seed, "order", 0).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
}

// refuse says what of p this version cannot run. Nothing is passed over in silence.
func refuse(p *profiles.Profile) error {
	cannot := func(part, what string) error {
		return usage("%s: %s: this version cannot run %s", p.File(), part, what)
	}
	switch {
	case p.On != "host":
		return cannot("on: "+p.On, "this ground yet; --on host measures on this machine")
	case p.Server.Kind != "memcached" && p.Server.Kind != "external":
		return cannot("server.kind: "+p.Server.Kind, "this kind of server yet; there are memcached and external")
	case p.Server.Replicas > 1:
		return cannot("server.replicas", "several servers yet")
	case p.Retry != nil:
		return cannot("retry", "retries yet")
	case p.Workload.Kind != "kv":
		return cannot("workload.kind: "+p.Workload.Kind, "this kind of workload yet; there is kv")
	case len(p.Load.Phases) > 0:
		return cannot("load.phases", "phases yet; give rates or of_capacity")
	case len(p.Claims) > 0:
		return cannot("claims", "claims yet")
	}
	objective := false
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		if c.SLO.Percentiles != nil {
			return cannot(fmt.Sprintf("slo of class %s", c.Name), "an SLO of several percentiles yet; give one duration")
		}
		objective = objective || c.SLO.Limit > 0
	}
	if len(p.Load.OfCapacity) > 0 && !objective {
		return usage("%s: load.of_capacity: capacity is the highest rate at which the SLO holds, but no class has an slo", p.File())
	}
	return refuseControllers(p)
}

func refuseControllers(p *profiles.Profile) error {
	if p.Server.Kind == "external" {
		if len(p.Controllers) != 1 || p.Controllers[0].Name != "none" || len(p.Controllers[0].Settings) > 0 {
			return usage("%s: controllers: a server that already runs has the controller it was started with; write [{name: none}]", p.File())
		}
		return nil
	}
	for i := range p.Controllers {
		c := &p.Controllers[i]
		settings, err := catalog.ParseSettings(settingList(c.Settings))
		if err == nil {
			// Only the check is wanted; the controller itself runs in the server.
			_, err = catalog.New(c.Name, settings, catalog.Env{Cores: 1})
		}
		if err != nil {
			return usage("%s: controllers: %s: %w", p.File(), c.Label(), err)
		}
	}
	return nil
}

// settingList writes settings as key=value, sorted.
func settingList(settings map[string]string) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, k+"="+settings[k])
	}
	return list
}

// serverFlags turns server.settings of the kind memcached into flags of refserver.
func serverFlags(p *profiles.Profile) ([]string, error) {
	flags := map[string]string{
		"reply": "--reply", "memory": "--memory", "max_item": "--max-item", "max_conns": "--max-conns", "threads": "--threads",
		"slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
	}
	known := slices.Sorted(maps.Keys(flags))
	var list []string
	for _, k := range slices.Sorted(maps.Keys(p.Server.Settings)) {
		flag, ok := flags[k]
		if !ok {
			hint := "it takes " + strings.Join(known, ", ")
			if near := profiles.Nearest(k, known); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, usage("%s: server.settings: memcached has no setting %q; %s", p.File(), k, hint)
		}
		list = append(list, flag, p.Server.Settings[k])
	}
	return list, nil
}
