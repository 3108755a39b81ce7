package capacity

// Spread hands out what nobody asks for. Allocate leaves it with those who have it in surplus, where it serves nobody; but demand is known a cycle
// late, and noisy, so that who was granted just what it asked for is short half of the time. When every cell has what it asks for, Spread gives
// all of them the same headroom above that, in proportion to their demand. A class keeps what it may not lend, and nobody is left
// with less than it asks for. Where somebody lacks something, nothing is changed: there is nothing to spare.
func (p *Policy) Spread(demand, grants []float64) {
	rest, asked := 0.0, 0.0
	for k := range p.Classes {
		for i := range p.Locations {
			c := p.Cell(k, i)
			d := p.wanted(demand[c], p.Baseline[c])
			if grants[c] < d*(1-rounding) {
				return
			}
			rest += p.lendable(k) * (grants[c] - d)
			asked += d
		}
	}
	if asked <= 0 || p.Caps != nil { // with caps headroom could be more than a location may have
		return
	}
	for k := range p.Classes {
		for i := range p.Locations {
			c := p.Cell(k, i)
			d := p.wanted(demand[c], p.Baseline[c])
			grants[c] += rest*d/asked - p.lendable(k)*(grants[c]-d)
		}
	}
}

// rounding is by which share of itself a grant may be below a demand that it was made for.
const rounding = 1e-9
