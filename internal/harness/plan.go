//go:build linux

package harness

import (
	"fmt"
	"maps"
	"slices"

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
	steady  bool // leave out the shape of the rate: a probe is about one rate
}

// String names the point for progress and errors.
func (p Point) String() string {
	return fmt.Sprintf("%s at %s, repeat %d", p.Controller.Label(), p.row().Load(), p.Repeat)
}

// ofRequests describes the point for requests.bin.
func (p *Point) ofRequests(of *profiles.Profile) report.PointOfRequests {
	d := report.PointOfRequests{Controller: p.Controller.Label(), Load: p.row().Load(), Repeat: p.Repeat}
	for i := range of.Workload.Classes {
		d.Classes = append(d.Classes, of.Workload.Classes[i].Name)
	}
	return d
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
				list = append(list, Point{Controller: c, Factor: factor, Rate: rate, Repeat: repeat, Seed: seedOf(p.Seed, repeat)})
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

// seedOf returns the seed of a repeat. The first has that of the profile, so that a row's seed measures it again; the others have seeds that
// no neighbouring seed of a profile shares. They are whole numbers that every reader of JSON and CSV represents exactly, below 2^53.
func seedOf(seed uint64, repeat int) uint64 {
	if repeat == 1 {
		return seed
	}
	return dist.Mix(dist.Mix(seed)^uint64(repeat)) >> 11
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

// settingList writes settings as key=value, sorted.
func settingList(settings map[string]string) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, k+"="+settings[k])
	}
	return list
}
