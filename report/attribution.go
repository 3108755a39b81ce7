package report

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// The ways in which a gain is attributed to parts.
const (
	FormShapley = "shapley" // every combination of parts was measured: the mean over all orders of adding them
	FormOrders  = "orders"  // not every one: the mean over all orders of which each step was measured
	FormChain   = "chain"   // in the one order that the profile gives, some steps of which may add several parts
)

// Attribution says what each part of a controller contributes to its goodput, for one class at one load.
type Attribution struct {
	Variant, Load, Class string
	Target               Value
	Form                 string
	From, To             string // labels: without the parts, and with all
	FromRPS, ToRPS       Value
	Shares               []PartShare // sum to ToRPS − FromRPS
	Repeats              int
	Doubts               []string // why the shares are missing or must not be believed
}

// PartShare is the contribution of one part.
type PartShare struct {
	Part   string
	RPS    Range // of the repeats together, and the range of the single ones
	OfGain Value // as a share of the whole gain; unknown when there is none
}

// plan is how the gain is attributed: which controllers are compared.
type plan struct {
	form   string
	parts  []string
	labels []string // of the controllers, by the set of their parts
	sets   []uint64 // of labels, a bit for each of parts, in the order of the profile
	from   uint64
	to     uint64
	left   []string // labels with parts that have no place in it
	why    string   // there is none
}

// most parts that are taken apart: the work doubles with each.
const mostParts = 12

// attributionPlan finds out what the controllers' parts allow. ok is false when they have none.
func (run *Run) attributionPlan() (p plan, ok bool) {
	for _, c := range run.Manifest.Controllers {
		if c.Parts == nil {
			continue
		}
		set := uint64(0)
		for _, part := range c.Parts {
			i := slices.Index(p.parts, part)
			if i < 0 {
				i = len(p.parts)
				p.parts = append(p.parts, part)
			}
			if i < mostParts {
				set |= 1 << i
			}
		}
		if slices.Contains(p.sets, set) {
			p.left = append(p.left, c.Label)
			continue
		}
		p.labels, p.sets = append(p.labels, c.Label), append(p.sets, set)
	}
	switch {
	case len(p.sets) == 0:
		return plan{}, false
	case len(p.parts) > mostParts:
		p.why = fmt.Sprintf("there are more than %d parts", mostParts)
		return p, true
	}
	p.choose()
	return p, true
}

// choose picks the form: steps of one part where they lead from the smallest set to the whole, else the chain that the profile's order
// gives.
func (p *plan) choose() {
	bottom, top := p.sets[0], uint64(0)
	for _, s := range p.sets {
		bottom &= s
		top |= s
	}
	if slices.Contains(p.sets, bottom) && slices.Contains(p.sets, top) && bottom != top {
		p.from, p.to = bottom, top
		if p.orders() > 0 {
			p.form = FormOrders
			if len(p.sets) == 1<<bits.OnesCount64(top&^bottom) {
				p.form = FormShapley
			} else if p.orders() == 1 {
				p.form = FormChain
			}
			to, on := p.waysTo(), p.waysOn()
			p.leaveOut(func(s uint64) bool { return to[s] > 0 && on[s] > 0 })
			return
		}
	}
	p.chain()
}

// chain keeps the controllers of which each adds to the one before.
func (p *plan) chain() {
	kept := []uint64{p.sets[0]}
	for _, s := range p.sets[1:] {
		if last := kept[len(kept)-1]; s&last == last {
			kept = append(kept, s)
		}
	}
	if len(kept) < 2 {
		p.why = "no controller has the parts of another and more"
		return
	}
	p.form, p.from, p.to = FormChain, kept[0], kept[len(kept)-1]
	p.leaveOut(func(s uint64) bool { return slices.Contains(kept, s) })
}

// leaveOut drops the controllers that are not kept.
func (p *plan) leaveOut(kept func(uint64) bool) {
	labels, sets := p.labels, p.sets
	p.labels, p.sets = nil, nil
	for i, s := range sets {
		if kept(s) {
			p.labels, p.sets = append(p.labels, labels[i]), append(p.sets, s)
		} else {
			p.left = append(p.left, labels[i])
		}
	}
}

// steps returns the sets of one part more than s that were measured.
func (p *plan) steps(s uint64) (list []uint64) {
	for _, o := range p.sets {
		if o&s == s && bits.OnesCount64(o&^s) == 1 {
			list = append(list, o)
		}
	}
	return list
}

// waysTo returns, for each measured set, in how many ways steps of one part lead to it from the smallest.
func (p *plan) waysTo() map[uint64]float64 {
	ways := map[uint64]float64{p.from: 1}
	for _, s := range p.bySize() {
		for _, next := range p.steps(s) {
			ways[next] += ways[s]
		}
	}
	return ways
}

// waysOn returns, for each measured set, in how many ways steps lead on from it to the whole.
func (p *plan) waysOn() map[uint64]float64 {
	ways := map[uint64]float64{p.to: 1}
	order := p.bySize()
	for i := len(order) - 1; i >= 0; i-- {
		for _, next := range p.steps(order[i]) {
			ways[order[i]] += ways[next]
		}
	}
	return ways
}

// orders returns how many orders of adding the parts one by one were measured at every step.
func (p *plan) orders() float64 { return p.waysTo()[p.to] }

// bySize returns the sets, the smaller ones first.
func (p *plan) bySize() []uint64 {
	order := slices.Clone(p.sets)
	slices.SortFunc(order, func(a, b uint64) int {
		if d := bits.OnesCount64(a) - bits.OnesCount64(b); d != 0 {
			return d
		}
		return int(a) - int(b)
	})
	return order
}

// groups are what shares are given to: the parts one by one, or as a chain adds them together.
func (p *plan) groups() (sets []uint64, names []string) {
	if p.form == FormChain {
		order := p.bySize()
		for i := 1; i < len(order); i++ {
			sets = append(sets, order[i]&^order[i-1])
		}
	} else {
		for i := range p.parts {
			if p.to&^p.from&(1<<i) != 0 {
				sets = append(sets, 1<<i)
			}
		}
	}
	for _, s := range sets {
		names = append(names, p.name(s))
	}
	return sets, names
}

func (p *plan) name(set uint64) string {
	var names []string
	for i, part := range p.parts {
		if set&(1<<i) != 0 {
			names = append(names, part)
		}
	}
	return strings.Join(names, " + ")
}

// shares divides worth(to) − worth(from) among the groups. The weight of a step is the share of the orders that take it, so the shares sum to
// the whole whatever the worths are: each order's steps do.
func (p *plan) shares(worth map[uint64]float64) []float64 {
	groups, _ := p.groups()
	out := make([]float64, len(groups))
	if p.form == FormChain {
		order := p.bySize()
		for i := range out {
			out[i] = worth[order[i+1]] - worth[order[i]]
		}
		return out
	}
	to, on, orders := p.waysTo(), p.waysOn(), p.orders()
	for _, s := range p.sets {
		for _, next := range p.steps(s) {
			weight := to[s] * on[next] / orders
			out[slices.Index(groups, next&^s)] += weight * (worth[next] - worth[s])
		}
	}
	return out
}

// Attributions says for every variant, load and class what the parts contribute, when controllers have parts.
func (run *Run) Attributions() (list []Attribution) {
	p, ok := run.attributionPlan()
	if !ok || p.why != "" {
		return nil
	}
	g := run.grid()
	for _, variant := range g.variants {
		for _, load := range g.loadsOf(variant) {
			for _, class := range g.shown() {
				list = append(list, run.attribute(&p, g, cell{variant: variant, load: load, class: class}))
			}
		}
	}
	return list
}

// attribute divides the gain of one class at one load.
func (run *Run) attribute(p *plan, g *grid, at cell) Attribution {
	a := Attribution{Variant: at.variant, Load: at.load, Class: at.class, Form: p.form}
	goodput, _ := metricNamed(metricGoodput)
	rows := map[uint64][]*Row{}
	for i, set := range p.sets {
		at.controller = p.labels[i]
		e := evaluation{run: run, g: g, variant: at.variant, class: at.class, metric: goodput}
		a.Doubts = append(a.Doubts, e.doubts(at.controller, at.load)...)
		rows[set] = believed(g.rows[at])
		switch set {
		case p.from:
			a.From = at.controller
		case p.to:
			a.To = at.controller
		}
	}
	common := p.common(rows)
	worth := map[uint64]float64{}
	repeats := map[int]map[uint64]float64{} // by repeat
	for i, set := range p.sets {
		used := slices.DeleteFunc(slices.Clone(rows[set]), func(r *Row) bool { return len(common) > 0 && !slices.Contains(common, r.Repeat) })
		v := goodput.pooled(run, used).value
		if v.known {
			worth[set] = v.number
			a.Target = used[0].OfferedTargetRPS
		} else if len(used) > 0 {
			a.Doubts = append(a.Doubts, fmt.Sprintf("%s has no goodput at %s", p.labels[i], at.load))
		}
		for _, r := range used {
			if repeats[r.Repeat] == nil {
				repeats[r.Repeat] = map[uint64]float64{}
			}
			if r.GoodputRPS.known {
				repeats[r.Repeat][set] = r.GoodputRPS.number
			}
		}
		switch set {
		case p.from:
			a.FromRPS = v
		case p.to:
			a.ToRPS = v
		}
	}
	a.divide(p, worth, repeats)
	return a
}

// common returns the repeats that all sets have, whose arrivals are the same.
func (p *plan) common(rows map[uint64][]*Row) (repeats []int) {
	for _, r := range rows[p.from] {
		if !slices.ContainsFunc(p.sets, func(s uint64) bool { return byRepeat(rows[s], r.Repeat) == nil }) {
			repeats = append(repeats, r.Repeat)
		}
	}
	return repeats
}

// divide sets the shares, and their range over the repeats.
func (a *Attribution) divide(p *plan, worth map[uint64]float64, repeats map[int]map[uint64]float64) {
	_, names := p.groups()
	for _, name := range names {
		a.Shares = append(a.Shares, PartShare{Part: name})
	}
	if len(worth) < len(p.sets) {
		return
	}
	gain := a.ToRPS.number - a.FromRPS.number
	for i, s := range p.shares(worth) {
		a.Shares[i].RPS.Value = Known(s)
		a.Shares[i].OfGain = over(Known(s), Known(gain))
	}
	for _, worth := range repeats {
		if len(worth) < len(p.sets) {
			continue
		}
		a.Repeats++
		for i, s := range p.shares(worth) {
			a.Shares[i].RPS.include(s)
		}
	}
}

// include widens the range so that v lies in it.
func (r *Range) include(v float64) {
	if !r.Low.known || v < r.Low.number {
		r.Low = Known(v)
	}
	if !r.High.known || v > r.High.number {
		r.High = Known(v)
	}
}
