//go:build linux

package harness

import (
	"cmp"
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
	speed      profiles.Speed  // of a log; empty when the profile gives none
	Repeat     int             // from 1
	Seed       uint64          // of the arrivals. It depends on the repeat only, so all controllers face the same sequences
	ofFloor    bool            // Factor is of what the capacity is at least, and it is not known

	profile *profiles.Profile // the variant that it is of
	variant int               // its number
	observe func(phase string)
	live    func(rps float64) // is told the goodput while it is measured, from another goroutine; nil for nobody
	steady  bool              // leave out the shape of the rate: a probe is about one rate
}

// String names the point for progress and errors.
func (p Point) String() string {
	text := fmt.Sprintf("%s at %s, repeat %d", p.Controller.Label(), p.row().Load(), p.Repeat)
	if v := p.row().Variant(); v != "" {
		return v + ": " + text
	}
	return text
}

// of returns the variant that the point is of; whole where it was not said.
func (p *Point) of(whole *profiles.Profile) *profiles.Profile { return cmp.Or(p.profile, whole) }

// spans returns the lengths of the phases of the point.
func (p *Point) spans(of *profiles.Profile) spans {
	return spans{cmp.Or(p.Controller.WarmUp, of.WarmUp), of.Window, of.Drain}
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
	name := ""
	if p.profile != nil {
		name = p.profile.RowName()
	}
	return &report.Row{
		Profile: name, Controller: p.Controller.Label(), OfferedTargetRPS: report.Known(p.Rate), LoadFactor: string(p.Factor),
		Repeat: p.Repeat, Seed: p.Seed,
	}
}

// points lists the points of p, which is the variant of that number, in its order. Factors are of capacity.
func points(p *profiles.Profile, variant int, capacity float64) []Point {
	var list []Point
	for _, c := range p.Controllers {
		add := func(factor profiles.Factor, rate float64) {
			for repeat := 1; repeat <= p.Repeats; repeat++ {
				list = append(list, Point{
					Controller: c, Factor: factor, Rate: rate, Repeat: repeat, Seed: seedOf(p.Seed, repeat), profile: p, variant: variant,
				})
			}
		}
		for _, r := range p.Load.Rates {
			add("", float64(r))
		}
		for _, f := range p.Load.OfCapacity {
			add(f, f.Value()*capacity)
		}
		for _, s := range p.Load.Speeds {
			add("", s.Value()*recordedRate(p))
			for i := range p.Repeats {
				list[len(list)-1-i].speed = s
			}
		}
		if len(p.Load.Phases) > 0 {
			add("", p.Load.MeanRate())
		}
		if isAllocation(p) {
			add("", offered(&p.Workload))
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
	for i, run := range p.Runs() {
		for _, pt := range points(run, i, 1) {
			list = append(list, pt.row().Point())
		}
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
