package profiles

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KindAllocation is the workload kind of a budget that is shared over classes and locations, cycle by cycle. Its controllers are allocators.
const KindAllocation = "allocation"

// Allocation says what is shared, and between whom. A class's share in it is that of the budget that is reserved for it.
type Allocation struct {
	Budget    Rate          `yaml:"budget"`
	Locations int           `yaml:"locations"`
	Skew      float64       `yaml:"skew"`  // location i has a weight in proportion to 1/i^skew
	Cycle     time.Duration `yaml:"cycle"` // between two allocations
	Lag       int           `yaml:"lag"`   // how many cycles old the demand is that an allocator knows; not on host, where it is as old as it is
	Noise     float64       `yaml:"noise"` // standard deviation of a cell's demand in a cycle, as a share of it; not on host, which has real arrivals
	Scenarios []Scenario    `yaml:"scenarios"`
	Surfaces  []Surface     `yaml:"surfaces"`
	Faults    []Fault       `yaml:"faults"` // on host only
	Live      *Live         `yaml:"live"`   // on host only; nil for DefaultLive
}

// Scenario is one course of demand, measured under every allocator.
type Scenario struct {
	Name    string             `yaml:"name"`
	Title   string             `yaml:"title"`
	Basis   string             `yaml:"basis"`  // where its parameters are from: BasisConstruction or empty for our choice
	Shares  map[string]float64 `yaml:"shares"` // by class, in place of the classes' own
	Demand  map[string]Demand  `yaml:"demand"` // by class; who is not named asks for nothing
	Waiting *Waiting           `yaml:"waiting"`

	Cell *Cell // its place on a surface; nil for what was written
}

// BasisConstruction marks a scenario whose parameters were solved from the paper's own figures: that it meets them says nothing.
const BasisConstruction = "by construction"

// Demand is what the users of a class ask for. Levels are shares of the budget.
type Demand struct {
	Level   float64  `yaml:"level"`
	Order   string   `yaml:"order"` // of the locations' weights: reversed, or empty for theirs
	At      []int    `yaml:"at"`    // only at these locations, which count from 1; nil for all
	Pulses  *Pulses  `yaml:"pulses"`
	Swing   *Swing   `yaml:"swing"`
	Reports *Reports `yaml:"reports"`
}

// OrderReversed gives the largest weight to the last location.
const OrderReversed = "reversed"

// Pulses are demand that comes and goes: for On at the level, for the rest of every Of at Calm.
type Pulses struct {
	On   time.Duration `yaml:"on"`
	Of   time.Duration `yaml:"of"`
	Calm float64       `yaml:"calm"`
}

// Swing lets the demand of each location rise and fall by a share of it, the locations by turns.
type Swing struct {
	By    float64       `yaml:"by"`
	Every time.Duration `yaml:"every"`
}

// Reports are demand that locations report otherwise than it is.
type Reports struct {
	Times float64 `yaml:"times"`
	At    []int   `yaml:"at"`
}

// Waiting lets requests of a class that were not served ask again in the next cycle, a share of them as another class.
type Waiting struct {
	Class  string  `yaml:"class"`
	To     string  `yaml:"to"`
	Clears float64 `yaml:"clears"`
	Leaves float64 `yaml:"leaves"`
}

// Surface is one figure over two parameters of a scenario, which both take several values.
type Surface struct {
	Name       string  `yaml:"name"`
	Title      string  `yaml:"title"`
	Of         string  `yaml:"of"` // the scenario
	Rows       Axis    `yaml:"rows"`
	Columns    Axis    `yaml:"columns"`
	Metric     string  `yaml:"metric"`
	Class      string  `yaml:"class"`
	Controller string  `yaml:"controller"` // label
	Over       string  `yaml:"over"`       // label of what it is held against
	Paper      float64 `yaml:"paper"`      // the paper's figure, marked where it is met within Within; 0 for none
	Within     float64 `yaml:"within"`
}

// Axis is a parameter of a scenario and its values.
type Axis struct {
	Key    string    `yaml:"key"` // one of axisKeys, a dot, a class
	Values []float64 `yaml:"values"`
}

// axisKeys are the parameters that a surface can vary.
var axisKeys = []string{"share", "demand", "calm", "calm_share", "surplus"}

// Live says how real edges and their allocator work. Cycles are those of the allocation.
type Live struct {
	Lease  time.Duration `yaml:"lease"`  // how long a grant holds without a word from the allocator
	Keep   int           `yaml:"keep"`   // cycles for which a location's last demand stands in for a report that is missing
	Absorb int           `yaml:"absorb"` // cycles without a report after which a location's baseline is used elsewhere
	Burst  float64       `yaml:"burst"`  // how much of a grant may be used at once, in cycles of it
	Path   string        `yaml:"path"`   // what is asked for, of the origin
}

// DefaultLive returns what holds where nothing is said, for a cycle.
func DefaultLive(cycle time.Duration) Live {
	return Live{Lease: 6 * cycle, Keep: 2, Absorb: 7, Burst: 1, Path: "work/c20us"}
}

// fromNode reads settings of real edges over their defaults. What depends on the cycle is filled in where that is known.
func (l *Live) fromNode(d *decoder, n *node, path string) error {
	*l = DefaultLive(0)
	return d.structure(reflect.ValueOf(l).Elem(), n, path)
}

// LiveSettings returns how the edges of a work, with all defaults.
func (a *Allocation) LiveSettings() Live {
	defaults := DefaultLive(a.Cycle)
	if a.Live == nil {
		return defaults
	}
	l := *a.Live
	if l.Lease == 0 {
		l.Lease = defaults.Lease
	}
	return l
}

// Fault ends a process of an allocation on host.
type Fault struct {
	At   time.Duration `yaml:"at"`   // since the beginning of the window
	Kill string        `yaml:"kill"` // allocator, or edge-N with the edge's number from 1
}

// Cell is the place of a scenario on a surface.
type Cell struct {
	Surface     int // its number
	Row, Column float64
}

// fromNode reads an allocation over its defaults.
func (a *Allocation) fromNode(d *decoder, n *node, path string) error {
	a.Cycle, a.Lag = time.Second, 1
	return d.structure(reflect.ValueOf(a).Elem(), n, path)
}

// Scenario returns the scenario of a run of an allocation; nil of anything else.
func (w *Workload) Scenario() *Scenario {
	if w.Allocation == nil || len(w.Allocation.Scenarios) != 1 {
		return nil
	}
	return &w.Allocation.Scenarios[0]
}

// ShareOf returns the share of the budget that is reserved for class i in a scenario.
func (w *Workload) ShareOf(s *Scenario, i int) float64 {
	if s.Shares == nil {
		return w.Classes[i].Share
	}
	return s.Shares[w.Classes[i].Name]
}

// Mean returns the demand of d on average, as a share of the budget.
func (d *Demand) Mean() float64 {
	if d.Pulses == nil {
		return d.Level
	}
	on := float64(d.Pulses.On) / float64(d.Pulses.Of)
	return on*d.Level + (1-on)*d.Pulses.Calm
}

// scenarios returns the scenarios of an allocation as profiles of their own, those of the surfaces last.
func (p *Profile) scenarios() (list []*Profile) {
	add := func(s Scenario, controllers []Controller) {
		run, a := *p, *p.Workload.Allocation
		a.Scenarios, a.Surfaces = []Scenario{s}, nil
		run.Workload.Allocation, run.Controllers, run.Claims, run.variant = &a, controllers, nil, s.Name
		list = append(list, &run)
	}
	a := p.Workload.Allocation
	for _, s := range a.Scenarios {
		add(s, p.Controllers)
	}
	for i := range a.Surfaces {
		var needed []Controller
		for _, c := range p.Controllers {
			if label := c.Label(); label == a.Surfaces[i].Controller || label == a.Surfaces[i].Over {
				needed = append(needed, c)
			}
		}
		for _, s := range p.cells(i) {
			add(s, needed)
		}
	}
	return list
}

// cells returns the scenarios of a surface, row by row. Cells that no parameters make have been refused.
func (p *Profile) cells(surface int) (list []Scenario) {
	f := &p.Workload.Allocation.Surfaces[surface]
	base := p.Workload.Allocation.scenario(f.Of)
	if base == nil {
		return nil
	}
	for _, row := range f.Rows.Values {
		for _, column := range f.Columns.Values {
			s := *base
			s.Name = f.Name + "-" + figure(row) + "-" + figure(column)
			s.Title, s.Cell = "", &Cell{surface, row, column}
			// Shares first: a surplus is what demand leaves of them.
			first, second := f.Rows, f.Columns
			u, v := row, column
			if strings.HasPrefix(second.Key, "share.") {
				first, second, u, v = second, first, v, u
			}
			p.vary1(&s, first.Key, u)
			p.vary1(&s, second.Key, v)
			list = append(list, s)
		}
	}
	return list
}

func figure(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (a *Allocation) scenario(name string) *Scenario {
	i := slices.IndexFunc(a.Scenarios, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &a.Scenarios[i]
}

// vary1 sets one parameter of a scenario.
func (p *Profile) vary1(s *Scenario, key string, v float64) {
	what, class, _ := strings.Cut(key, ".")
	if what == "share" {
		p.reserve(s, class, v)
		return
	}
	changed := map[string]Demand{}
	for name, d := range s.Demand {
		changed[name] = d
	}
	s.Demand = changed
	d := changed[class]
	pulses := Pulses{}
	if d.Pulses != nil {
		pulses = *d.Pulses
		d.Pulses = &pulses
	}
	switch what {
	case "demand":
		d.Level = v
	case "calm":
		pulses.Calm = v
	case "calm_share":
		cycle := p.Workload.Allocation.Cycle
		pulses.On = time.Duration(math.Round((1-v)*float64(pulses.Of)/float64(cycle))) * cycle
	case "surplus":
		i := slices.Index(p.Workload.classNames(), class)
		pulses.Calm = max(0, p.Workload.ShareOf(s, i)-v)
	}
	changed[class] = d
}

// reserve gives a class a share of the budget. The others keep their proportions.
func (p *Profile) reserve(s *Scenario, class string, v float64) {
	rest := 0.0
	for i := range p.Workload.Classes {
		if p.Workload.Classes[i].Name != class {
			rest += p.Workload.ShareOf(s, i)
		}
	}
	shares := map[string]float64{}
	for i := range p.Workload.Classes {
		name := p.Workload.Classes[i].Name
		shares[name] = v
		if name != class {
			shares[name] = (1 - v) * p.Workload.ShareOf(s, i) / rest
		}
	}
	s.Shares = shares
}

// AllocationText says in a few words what a scenario asks for, for reports.
func (s *Scenario) AllocationText(classes []string) string {
	var parts []string
	for _, name := range classes {
		d, ok := s.Demand[name]
		if !ok {
			continue
		}
		text := name + " " + figure(d.Level)
		if d.Pulses != nil {
			text += fmt.Sprintf(" for %s of every %s, else %s", d.Pulses.On, d.Pulses.Of, figure(d.Pulses.Calm))
		}
		if d.Swing != nil {
			text += fmt.Sprintf(", ±%s every %s", figure(d.Swing.By), d.Swing.Every)
		}
		if d.Order != "" {
			text += ", weights " + d.Order
		}
		if d.At != nil {
			text += fmt.Sprintf(", at %v only", d.At)
		}
		if d.Reports != nil {
			text += fmt.Sprintf(", reported ×%s at %v", figure(d.Reports.Times), d.Reports.At)
		}
		parts = append(parts, text)
	}
	if w := s.Waiting; w != nil {
		parts = append(parts, fmt.Sprintf("%s waits: in a cycle %s of it clears to %s, %s leaves", w.Class, figure(w.Clears), w.To, figure(w.Leaves)))
	}
	return strings.Join(parts, "; ")
}
