// Package allocation shares a budget over classes and locations in virtual time, cycle by cycle: what is asked for, what an allocator makes
// of the demand that it knows of, and what is served. Requests are a fluid here: what a grant covers is served, the rest is not.
//
// The source of the scheme is Mainardi, Bansal and Singh, arXiv 2608.07747, of which only the abstract was at hand. The scenarios and the
// rules of this simulation are ours.
package allocation

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"spillway/control/capacity"
	"spillway/internal/dist"
)

// Config is one scenario under one allocator.
type Config struct {
	Policy    capacity.Policy // of which the grid and the baselines count for everybody
	Allocator string          // one of Names
	Settings  map[string]string
	Demand    []Demand // by class
	Waiting   *Waiting // what becomes of requests that are not served; nil when they are turned away

	Cycle          time.Duration
	WarmUp, Cycles int     // of which the second are measured
	Lag            int     // how many cycles old the demand is that the allocator knows; 0 for that of the cycle it allocates for
	Noise          float64 // standard deviation of a cell's demand in one cycle, as a share of it
	Seed           uint64

	Observe func(Cycle) // is shown each measured cycle; may be nil
}

// Demand is what the users of a class ask for.
type Demand struct {
	Level   float64   // requests per second, over all locations
	Weights []float64 // by location; they sum to 1
	Pulse   Pulse
	Swing   Swing
	Report  []float64 // by location: the factor by which its report differs from its demand; nil for none
}

// Pulse is demand that comes and goes: On cycles at the Level, the rest of every Of cycles at Calm. Of 0 means that there are none.
type Pulse struct {
	On, Of int
	Calm   float64 // requests per second
}

// Swing lets the demand of each location rise and fall by the share By as a sine of Every cycles. The locations take turns: they are spread
// over the period. Every 0 means that there is none.
type Swing struct {
	By    float64
	Every int
}

// Waiting lets requests of a class that were not served ask again in the next cycle, and some of them as another class: they have been found
// legitimate while they waited.
type Waiting struct {
	Class, To int
	Clears    float64 // share of those left over in a cycle that is found to be of class To
	Leaves    float64 // share that gives up
}

// Cycle is what happened in one. Its slices are by cell, in requests per second, and valid during the call only.
type Cycle struct {
	Number                  int // from 0, the first one measured
	Demand, Granted, Served []float64
}

// Outcome is what came of the measured cycles.
type Outcome struct {
	Demand, Granted, Served []float64 // by cell: means, requests per second
	Classes                 []Class
	Utilisation             float64 // share of the budget that was served, mean
	Idle                    float64 // share of the budget that was not used though somebody wanted it, mean
	OverCommit              float64 // share of the budget that was granted beyond it, in the worst cycle
	Conservation            float64 // by how much the grants of the worst cycle differ from the budget, as a share of it
	// What would have been left idle, and granted too much, in the worst cycle, if the allocator had known the demand of that very cycle.
	CurrentIdle, CurrentOverCommit float64
}

// Class counts the requests of a class. Each counts in the class that it is of at the end. Arrivals is the sum of the others.
type Class struct {
	Arrivals, Served, Rejected float64
	Left                       float64 // gave up waiting, or were still waiting at the end
}

// errGrant is what an allocator must never do.
var errGrant = errors.New("a grant that is negative or no number")

// Run carries out c.
func Run(c Config) (Outcome, error) {
	r, err := newRun(&c)
	if err != nil {
		return Outcome{}, err
	}
	for n := range c.WarmUp + c.Cycles {
		if n == c.WarmUp {
			clear(r.carried) // what waits from before the window is not of it
		}
		if err := r.cycle(n); err != nil {
			return Outcome{}, fmt.Errorf("allocator %s, cycle %d: %w", c.Allocator, n, err)
		}
	}
	return r.outcome(), nil
}

// run is a simulation under way.
type run struct {
	c       *Config
	budget  float64
	lagging Allocator // knows what was
	knowing Allocator // knows what is
	noise   *rand.Rand

	carried                 []float64   // by cell: left over from the last cycle
	known                   [][]float64 // ring of the last reports, the one of cycle n at n modulo its length
	demand, granted, served []float64   // of this cycle, by cell
	current                 []float64   // grants of knowing

	out Outcome // sums, until the end
}

func newRun(c *Config) (*run, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &run{c: c, budget: c.Policy.Budget(), noise: dist.Stream(c.Seed, "allocation demand", 0)}
	var err error
	if r.lagging, err = New(c.Allocator, c.Settings, c.Policy); err != nil {
		return nil, err
	}
	if r.knowing, err = New(c.Allocator, c.Settings, c.Policy); err != nil {
		return nil, err
	}
	cells := c.Policy.Cells()
	for _, list := range []*[]float64{
		&r.carried, &r.demand, &r.granted, &r.served, &r.current, &r.out.Demand, &r.out.Granted, &r.out.Served,
	} {
		*list = make([]float64, cells)
	}
	for range c.Lag + 1 {
		r.known = append(r.known, append([]float64(nil), c.Policy.Baseline...)) // of what was before nobody knows anything
	}
	r.out.Classes = make([]Class, c.Policy.Classes)
	return r, nil
}

func (c *Config) check() error {
	if err := c.Policy.Check(); err != nil {
		return err
	}
	switch {
	case c.Cycle <= 0 || c.Cycles < 1 || c.WarmUp < 0 || c.Lag < 0:
		return errors.New("allocation: there is at least one cycle, of some length, and no negative number of them")
	case len(c.Demand) != c.Policy.Classes:
		return fmt.Errorf("allocation: %d demands for %d classes", len(c.Demand), c.Policy.Classes)
	case !(c.Noise >= 0):
		return errors.New("allocation: noise must not be negative")
	}
	for k := range c.Demand {
		if d := &c.Demand[k]; len(d.Weights) != c.Policy.Locations || d.Report != nil && len(d.Report) != c.Policy.Locations {
			return fmt.Errorf("allocation: the demand of class %d is not of %d locations", k, c.Policy.Locations)
		}
	}
	if w := c.Waiting; w != nil && (min(w.Class, w.To) < 0 || max(w.Class, w.To) >= c.Policy.Classes || w.Class == w.To || !(w.Clears >= 0 && w.Leaves >= 0 && w.Clears+w.Leaves <= 1)) {
		return errors.New("allocation: requests wait in one class and are cleared for another, in shares that sum to at most 1")
	}
	return nil
}

// cycle goes through cycle n.
func (r *run) cycle(n int) error {
	r.ask(n)
	report := r.known[n%len(r.known)]
	for k := range r.c.Demand {
		row, factors := capacity.Row(r.c.Policy.Grid, report, k), r.c.Demand[k].Report
		copy(row, capacity.Row(r.c.Policy.Grid, r.demand, k))
		for i, f := range factors {
			row[i] *= f
		}
	}
	// The oldest report of the ring is the one that follows.
	r.lagging.Allocate(r.known[(n+1)%len(r.known)], r.granted)
	r.knowing.Allocate(report, r.current)
	for c, d := range r.demand {
		if g := r.granted[c]; !(g >= -tolerance*r.budget) || math.IsInf(g, 0) {
			return errGrant
		}
		r.served[c] = min(d, max(r.granted[c], 0))
	}
	if n >= r.c.WarmUp {
		r.count(n - r.c.WarmUp)
	}
	r.carry(n >= r.c.WarmUp)
	return nil
}

// tolerance is the rounding that sums of grants may have, as a share of the budget.
const tolerance = 1e-9

// ask works out the demand of cycle n. The noise is the same whatever the allocator.
func (r *run) ask(n int) {
	for k := range r.c.Demand {
		d := &r.c.Demand[k]
		for i := range d.Weights {
			c := r.c.Policy.Cell(k, i)
			fresh := d.Rate(n, i) * max(0, 1+r.c.Noise*r.noise.NormFloat64())
			r.demand[c] = fresh + r.carried[c]
			if n >= r.c.WarmUp {
				r.out.Classes[k].Arrivals += fresh
			}
		}
	}
}

// Rate returns what is asked for at a location in a cycle, which counts from the beginning of the warm-up, without noise.
func (d *Demand) Rate(cycle, location int) float64 {
	return d.at(cycle) * d.Weights[location] * d.Swing.at(cycle, location, len(d.Weights))
}

// at returns the level of cycle n.
func (d *Demand) at(n int) float64 {
	if d.Pulse.Of > 0 && n%d.Pulse.Of >= d.Pulse.On {
		return d.Pulse.Calm
	}
	return d.Level
}

func (s Swing) at(n, location, locations int) float64 {
	if s.Every == 0 {
		return 1
	}
	return max(0, 1+s.By*math.Sin(2*math.Pi*(float64(n)/float64(s.Every)+float64(location)/float64(locations))))
}

// count adds a measured cycle to the outcome.
func (r *run) count(number int) {
	for c := range r.demand {
		r.out.Demand[c] += r.demand[c]
		r.out.Granted[c] += r.granted[c]
		r.out.Served[c] += r.served[c]
	}
	asked, granted, served := sum(r.demand), sum(r.granted), sum(r.served)
	o := &r.out
	o.Utilisation += served / r.budget
	o.Idle += max(0, min(asked, r.budget)-served) / r.budget
	o.OverCommit = max(o.OverCommit, (granted-r.budget)/r.budget)
	o.Conservation = max(o.Conservation, math.Abs(granted-r.budget)/r.budget)
	could := 0.0
	for c, d := range r.demand {
		could += min(d, max(r.current[c], 0))
	}
	o.CurrentIdle = max(o.CurrentIdle, (min(asked, r.budget)-could)/r.budget)
	o.CurrentOverCommit = max(o.CurrentOverCommit, (sum(r.current)-r.budget)/r.budget)
	for k := range o.Classes {
		cl := &o.Classes[k]
		cl.Served += sum(capacity.Row(r.c.Policy.Grid, r.served, k))
		if w := r.c.Waiting; w == nil || k != w.Class {
			cl.Rejected += sum(capacity.Row(r.c.Policy.Grid, r.demand, k)) - sum(capacity.Row(r.c.Policy.Grid, r.served, k))
		}
	}
	if r.c.Observe != nil {
		r.c.Observe(Cycle{Number: number, Demand: r.demand, Granted: r.granted, Served: r.served})
	}
}

// carry takes what was not served into the next cycle.
func (r *run) carry(measured bool) {
	w := r.c.Waiting
	if w == nil {
		return
	}
	for i := range r.c.Policy.Locations {
		from, to := r.c.Policy.Cell(w.Class, i), r.c.Policy.Cell(w.To, i)
		left := r.demand[from] - r.served[from]
		r.carried[to] = w.Clears * left
		r.carried[from] = (1 - w.Clears - w.Leaves) * left
		if measured {
			r.out.Classes[w.Class].Left += w.Leaves * left
			r.out.Classes[w.Class].Arrivals -= r.carried[to]
			r.out.Classes[w.To].Arrivals += r.carried[to]
		}
	}
}

func (r *run) outcome() Outcome {
	o := &r.out
	n := float64(r.c.Cycles)
	for c := range o.Demand {
		o.Demand[c] /= n
		o.Granted[c] /= n
		o.Served[c] /= n
	}
	o.Utilisation /= n
	o.Idle /= n
	o.CurrentIdle, o.CurrentOverCommit = max(o.CurrentIdle, 0), max(o.CurrentOverCommit, 0)
	seconds := r.c.Cycle.Seconds()
	for k := range o.Classes {
		cl := &o.Classes[k]
		cl.Left += sum(capacity.Row(r.c.Policy.Grid, r.carried, k))
		cl.Arrivals, cl.Served, cl.Rejected, cl.Left = cl.Arrivals*seconds, cl.Served*seconds, cl.Rejected*seconds, cl.Left*seconds
	}
	return *o
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// Weights returns weights of locations in proportion to 1/i^skew, the first the largest, that sum to 1.
func Weights(locations int, skew float64) []float64 {
	list := make([]float64, locations)
	for i := range list {
		list[i] = math.Pow(float64(i+1), -skew)
	}
	total := sum(list)
	for i := range list {
		list[i] /= total
	}
	return list
}

// Baselines splits a budget over classes by their reservations, and inside each over locations by their weights.
func Baselines(budget float64, reservations, weights []float64) []float64 {
	var list []float64
	for _, share := range reservations {
		for _, w := range weights {
			list = append(list, budget*share*w)
		}
	}
	return list
}
