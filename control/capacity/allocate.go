// Package capacity shares one conserved budget, the request rate of an origin say, over classes and locations, anew in every cycle: first
// inside each class over its locations, then between the classes. It also enforces what has been granted, and holds the allocators that
// this one is compared with.
//
// The source is a paper of which only the abstract was at hand (Mainardi, Bansal and Singh, arXiv 2608.07747): two levels, in proportion to
// deficit and surplus, elastic lending between classes, a budget that is exactly conserved, one cycle to the stable allocation, O(KN).
// The formulas here are ours; they have the properties that the abstract states, and the tests show it.
//
// A class's baseline over all locations is its reservation. Class 0 is the most important one wherever importance matters.
package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Grid says how many classes and locations there are. What belongs to cells is a slice of Classes × Locations numbers, class by class.
type Grid struct {
	Classes, Locations int
}

// Cells returns how many cells there are.
func (g Grid) Cells() int { return g.Classes * g.Locations }

// Cell returns where the cell of a class at a location stands.
func (g Grid) Cell(class, location int) int { return class*g.Locations + location }

// Row returns the part of cells that belongs to a class.
func Row[T any](g Grid, cells []T, class int) []T {
	return cells[class*g.Locations : (class+1)*g.Locations]
}

// Sharing says how what is given away is shared among those who want it.
type Sharing uint8

// The ways of sharing.
const (
	ByDeficit Sharing = iota // in proportion to what each lacks of its demand
	// ByDemand gives the locations of a class in deficit grants in proportion to their demand: the alternative reading of the abstract. Class
	// totals are the same. A location that cannot be reached, and serves its baseline, may then serve more than its grant.
	ByDemand
)

// Order says which classes borrow first.
type Order uint8

// The orders.
const (
	ByImportance Order = iota // class 0 first
	Alike                     // all in proportion to what they lack
)

// Policy says how a budget is allocated. Its slices are not changed.
type Policy struct {
	Grid
	Baseline []float64 // what each cell gets when all want at least that; the sum is the budget
	Lend     []float64 // by class: the share of its surplus that other classes may borrow; nil for all of it
	Caps     []float64 // by location: the most that all classes together may be granted there; nil for none
	Floor    float64   // the share of its baseline that a cell keeps however little it asks for, from 0 to 1; only with ByDeficit
	Sharing  Sharing
	Order    Order
}

// Check says what is wrong with p, nil if nothing is.
func (p *Policy) Check() error {
	switch {
	case p.Classes < 1 || p.Locations < 1:
		return errors.New("capacity: at least one class and one location are needed")
	case len(p.Baseline) != p.Cells():
		return fmt.Errorf("capacity: %d baselines for %d classes at %d locations", len(p.Baseline), p.Classes, p.Locations)
	case p.Lend != nil && len(p.Lend) != p.Classes:
		return fmt.Errorf("capacity: %d limits on lending for %d classes", len(p.Lend), p.Classes)
	case p.Caps != nil && len(p.Caps) != p.Locations:
		return fmt.Errorf("capacity: %d caps for %d locations", len(p.Caps), p.Locations)
	case !(p.Floor >= 0 && p.Floor <= 1):
		return fmt.Errorf("capacity: floor %g: must be from 0 to 1", p.Floor)
	case p.Sharing > ByDemand || p.Order > Alike:
		return errors.New("capacity: unknown sharing or order")
	}
	for i, b := range p.Baseline {
		if !(b >= 0) || math.IsInf(b, 0) {
			return fmt.Errorf("capacity: the baseline of cell %d is %g, must not be negative", i, b)
		}
	}
	for k, l := range p.Lend {
		if !(l >= 0 && l <= 1) {
			return fmt.Errorf("capacity: class %d may lend %g of its surplus, must be from 0 to 1", k, l)
		}
	}
	return p.checkCaps()
}

// checkCaps sees to it that the baselines themselves fit: a location that falls back to its baseline must be allowed to.
func (p *Policy) checkCaps() error {
	for i, c := range p.Caps {
		sum := 0.0
		for k := range p.Classes {
			sum += p.Baseline[p.Cell(k, i)]
		}
		if !(c >= sum) {
			return fmt.Errorf("capacity: location %d has a cap of %g, its baselines sum to %g", i, c, sum)
		}
	}
	return nil
}

// Budget returns what is shared: the sum of the baselines.
func (p *Policy) Budget() float64 { return sum(p.Baseline) }

// Allocate works out the grants of one cycle from the demand of each cell, and writes them to grants. Nothing is carried from cycle to
// cycle: the same demand gives the same grants, so they are settled one cycle after the demand is. The grants are not negative and sum to the
// budget; where demand is less than that, what nobody wants stays with those who have it in surplus. It takes two passes over the cells
// (three with caps) and allocates no memory. A policy that Check refuses gives nonsense.
func (p *Policy) Allocate(demand, grants []float64) {
	copy(grants, p.Baseline)
	for k := range p.Classes {
		p.inside(Row(p.Grid, p.Baseline, k), Row(p.Grid, demand, k), Row(p.Grid, grants, k))
	}
	if p.Classes > 1 {
		p.lend(demand, grants)
	}
	if p.Caps != nil {
		p.cap(demand, grants)
	}
}

// wanted returns what a cell is to get if possible: its demand, but never less than its floor.
func (p *Policy) wanted(demand, baseline float64) float64 { return max(demand, p.Floor*baseline) }

// inside moves the surplus of a class's locations to those with a deficit.
func (p *Policy) inside(baseline, demand, grants []float64) {
	surplus, deficit, all := 0.0, 0.0, 0.0
	for i, b := range baseline {
		d := p.wanted(demand[i], b)
		surplus += max(0, b-d)
		deficit += max(0, d-b)
		all += d
	}
	if p.Sharing == ByDemand && deficit >= surplus && all > 0 {
		scale := sum(baseline) / all
		for i, b := range baseline {
			grants[i] = scale * p.wanted(demand[i], b)
		}
		return
	}
	moved := min(surplus, deficit)
	if moved <= 0 {
		return
	}
	give, take := moved/surplus, moved/deficit
	for i, b := range baseline {
		d := p.wanted(demand[i], b)
		if d < b {
			grants[i] = b - give*(b-d)
		} else {
			grants[i] = b + take*(d-b)
		}
	}
}

// lend moves what classes have in surplus, and may lend, to those with a deficit.
func (p *Policy) lend(demand, grants []float64) {
	offered, lacking := 0.0, 0.0
	for k := range p.Classes {
		s, f := p.balance(k, demand, grants)
		offered += p.lendable(k) * s
		lacking += f
	}
	moved := min(offered, lacking)
	if moved <= 0 {
		return
	}
	left := moved
	for k := range p.Classes {
		_, f := p.balance(k, demand, grants)
		take := 0.0
		switch {
		case f <= 0:
		case p.Order == Alike:
			take = moved / lacking
		default:
			take = min(1, left/f)
			left -= take * f
		}
		p.settle(k, demand, grants, p.lendable(k)*moved/offered, take)
	}
}

// settle takes the share give of every surplus of a class and adds the share take of every deficit.
func (p *Policy) settle(class int, demand, grants []float64, give, take float64) {
	baseline, asked, got := Row(p.Grid, p.Baseline, class), Row(p.Grid, demand, class), Row(p.Grid, grants, class)
	for i, g := range got {
		d := p.wanted(asked[i], baseline[i])
		if g > d {
			got[i] = g - give*(g-d)
		} else {
			got[i] = g + take*(d-g)
		}
	}
}

// balance returns what the cells of a class have above what they want, and what they lack.
func (p *Policy) balance(class int, demand, grants []float64) (surplus, deficit float64) {
	baseline, asked, got := Row(p.Grid, p.Baseline, class), Row(p.Grid, demand, class), Row(p.Grid, grants, class)
	for i, g := range got {
		d := p.wanted(asked[i], baseline[i])
		surplus += max(0, g-d)
		deficit += max(0, d-g)
	}
	return surplus, deficit
}

// lendable returns the share of its surplus that a class may lend.
func (p *Policy) lendable(class int) float64 {
	if p.Lend == nil {
		return 1
	}
	return p.Lend[class]
}

// cap cuts locations down to their caps and gives what they lose to cells with a deficit elsewhere, once: in proportion to what they lack
// and as far as their own caps allow. What nobody can take then stays ungranted.
func (p *Policy) cap(demand, grants []float64) {
	lost, lacking := 0.0, 0.0
	for i, limit := range p.Caps {
		here := 0.0
		for k := range p.Classes {
			here += grants[p.Cell(k, i)]
		}
		if here > limit {
			p.cut(i, here, limit, grants)
			lost += here - limit
			continue
		}
		lacking += p.room(i, limit-here, demand, grants)
	}
	if lost <= 0 || lacking <= 0 {
		return
	}
	share := min(1, lost/lacking)
	for i, limit := range p.Caps {
		here, lack := 0.0, 0.0
		for k := range p.Classes {
			c := p.Cell(k, i)
			here += grants[c]
			lack += max(0, p.wanted(demand[c], p.Baseline[c])-grants[c])
		}
		if here >= limit || lack <= 0 {
			continue
		}
		scale := share * min(1, (limit-here)/lack)
		for k := range p.Classes {
			c := p.Cell(k, i)
			grants[c] += scale * max(0, p.wanted(demand[c], p.Baseline[c])-grants[c])
		}
	}
}

// cut brings a location from what it has been granted down to its cap: the least important classes first, or all alike.
func (p *Policy) cut(location int, here, limit float64, grants []float64) {
	over := here - limit
	for k := p.Classes - 1; k >= 0; k-- {
		c := p.Cell(k, location)
		if p.Order == Alike {
			grants[c] *= limit / here
			continue
		}
		less := min(over, grants[c])
		grants[c] -= less
		over -= less
	}
}

// room returns how much of what a location lacks fits below its cap.
func (p *Policy) room(location int, left float64, demand, grants []float64) float64 {
	lack := 0.0
	for k := range p.Classes {
		c := p.Cell(k, location)
		lack += max(0, p.wanted(demand[c], p.Baseline[c])-grants[c])
	}
	return min(lack, left)
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}
