package capacity

import (
	"math"
	"slices"
)

// Static is the split that never changes: everybody has its baseline.
func Static(p *Policy, grants []float64) { copy(grants, p.Baseline) }

// SingleClass is the optimum of the programme that knows only class 0: as much of its demand as budget allows, whatever is left going to
// nobody. Where demand is more than the budget every location is served in proportion; any split would do. It maximises Σ x over the
// class with x ≤ demand and Σ x ≤ budget.
func SingleClass(g Grid, budget float64, demand, grants []float64) {
	clear(grants)
	important := Row(g, demand, 0)
	scale := fit(budget, sum(important))
	for i, d := range important {
		grants[i] = scale * d
	}
}

// Tie says which of the optima of TwoClass is taken: wherever demand exceeds the budget there are many, and the programme cannot tell one
// class from another.
type Tie uint8

// The ties.
const (
	ProRata     Tie = iota // in proportion to demand
	VolumeFirst            // the class with the largest demand first: what costs the important class most
	FirstFirst             // class 0 first, then class 1, …: what helps it most
)

// TwoClass is an optimum of the programme that maximises throughput over all classes: Σ x over all cells with x ≤ demand and Σ x ≤
// budget. The constraints nest, so taking greedily what fits is exact.
func TwoClass(g Grid, budget float64, demand, grants []float64, tie Tie) {
	if tie == ProRata {
		scale := fit(budget, sum(demand))
		for c, d := range demand {
			grants[c] = scale * d
		}
		return
	}
	var few [8]int
	classes := few[:0]
	for k := range g.Classes {
		classes = append(classes, k)
	}
	if tie == VolumeFirst {
		slices.SortStableFunc(classes, func(a, b int) int {
			x, y := sum(Row(g, demand, a)), sum(Row(g, demand, b))
			switch {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
	}
	left := budget
	for _, k := range classes {
		asked := Row(g, demand, k)
		scale := fit(left, sum(asked))
		for i, d := range asked {
			grants[g.Cell(k, i)] = scale * d
		}
		left -= scale * sum(asked)
	}
}

// fit returns the share of demand that budget has room for.
func fit(budget, demand float64) float64 {
	if demand <= budget || demand <= 0 {
		return 1
	}
	return max(budget, 0) / demand
}

// ProportionalShare is Doorman's algorithm of that name (its documentation, "Algorithms"): every client gets what it wants up to an equal
// share; what others leave of theirs goes to those who want more, in proportion to how much more.
func ProportionalShare(budget float64, wants, grants []float64) {
	if len(wants) == 0 {
		return
	}
	equal := budget / float64(len(wants))
	spare, excess := 0.0, 0.0
	for _, w := range wants {
		spare += max(0, equal-w)
		excess += max(0, w-equal)
	}
	for i, w := range wants {
		grants[i] = min(w, equal)
		if w > equal {
			grants[i] += (w - equal) * fit(spare, excess)
		}
	}
}

// Borrower is one level of Kubernetes' API priority and fairness: what it may lend and borrow, and what it has wanted lately.
type Borrower struct {
	Nominal float64 // its own share of the budget
	Lend    float64 // the share of Nominal that others may borrow, from 0 to 1
	Borrow  float64 // the most that it may borrow; negative for no limit

	Smoothed float64 // its demand as Observe last left it
}

// Observe takes in the demand of one period: its mean, its standard deviation and its highest. Demand counts at once when it rises and decays
// slowly when it falls: the smoothing constant is 0.977 for periods of ten seconds, a half-life of five minutes (k8s.io/apiserver,
// pkg/util/flowcontrol).
func (b *Borrower) Observe(mean, deviation float64) {
	const decay = 0.977
	envelope := mean + deviation
	b.Smoothed = max(envelope, decay*b.Smoothed+(1-decay)*envelope)
}

// Borrowing divides budget over levels as Kubernetes does with concurrency: each gets fair × its smoothed demand, within the bounds of
// what it may not lend and what it may borrow, with the one fair for which the grants sum to the budget. high is the highest demand of each
// in the period, below which a level is not cut if its nominal share covers it.
func Borrowing(budget float64, levels []Borrower, high, grants []float64) {
	bounds := func(i int) (low, most float64) {
		l := &levels[i]
		least := l.Nominal * (1 - l.Lend)
		low, most = max(least, min(l.Nominal, high[i])), math.Inf(1)
		if l.Borrow >= 0 {
			most = l.Nominal + l.Borrow
		}
		return low, most
	}
	total := func(fair float64) (all float64) {
		for i := range levels {
			low, most := bounds(i)
			grants[i] = min(max(fair*max(levels[i].Smoothed, 1e-9), low), most)
			all += grants[i]
		}
		return all
	}
	// The total grows with fair, so the one that is right is found by halving; 200 halvings of any range leave nothing of it.
	lowest, highest := 0.0, 1.0
	for total(highest) < budget && highest < 1e18 {
		highest *= 2
	}
	for range 200 {
		middle := (lowest + highest) / 2
		if middle <= lowest || middle >= highest {
			break
		}
		if total(middle) < budget {
			lowest = middle
		} else {
			highest = middle
		}
	}
	if all := total(highest); all > budget { // the lower bounds alone are too much: everybody gives in proportion
		for i := range grants[:len(levels)] {
			grants[i] *= budget / all
		}
	}
}
