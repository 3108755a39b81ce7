package capacity

import (
	"errors"
	"fmt"
)

// LedgerConfig says what an allocator does about locations that it does not hear from.
type LedgerConfig struct {
	Policy Policy
	Keep   int // cycles for which a location's last demand stands in for one that is missing
	// Absorb is the number of cycles without a report after which a location counts as gone and its baseline is used elsewhere; 0 for
	// never. It must be more than the cycles of a lease: until then the location may be serving, cut off from the allocator but not
	// from its users. One that is cut off for longer and falls back to its baseline adds that to the budget in use; who cannot bear that
	// sets 0, and leaves the baselines of dead locations idle.
	Absorb int
}

// Ledger is the memory of an allocator: what each location asked for last, and how long ago.
type Ledger struct {
	config LedgerConfig
	demand []float64 // by cell, as last reported
	silent []int     // by location: cycles since its last report; -1 before the first
	used   []float64 // by cell: what the last cycle took for the demand
}

// NewLedger returns a Ledger that has heard of nobody.
func NewLedger(c LedgerConfig) (*Ledger, error) {
	if err := c.Policy.Check(); err != nil {
		return nil, err
	}
	if c.Keep < 0 || c.Absorb < 0 || c.Absorb > 0 && c.Absorb <= c.Keep {
		return nil, errors.New("capacity: cycles must not be negative, and a location counts as gone only after its last demand has been kept")
	}
	l := &Ledger{config: c, demand: make([]float64, c.Policy.Cells()), silent: make([]int, c.Policy.Locations), used: make([]float64, c.Policy.Cells())}
	for i := range l.silent {
		l.silent[i] = -1
	}
	return l, nil
}

// Report takes in the demand of a location, by class.
func (l *Ledger) Report(location int, demand []float64) error {
	p := &l.config.Policy
	if location < 0 || location >= p.Locations {
		return fmt.Errorf("capacity: there is no location %d", location)
	}
	if len(demand) != p.Classes {
		return fmt.Errorf("capacity: a report for %d classes, there are %d", len(demand), p.Classes)
	}
	for _, d := range demand {
		if !(d >= 0) {
			return errors.New("capacity: demand must not be negative")
		}
	}
	for k, d := range demand {
		l.demand[p.Cell(k, location)] = d
	}
	l.silent[location] = 0
	return nil
}

// Cycle allocates for the cycle that begins now, and writes the grants. A location that has not reported since the last cycle keeps its last
// demand for a while, then gets its baseline, which it falls back to by itself, and in the end nothing. What nobody asks for is headroom (Spread).
func (l *Ledger) Cycle(grants []float64) {
	p := &l.config.Policy
	for i := range p.Locations {
		for k := range p.Classes {
			c := p.Cell(k, i)
			switch {
			case l.silent[i] >= 0 && l.silent[i] <= l.config.Keep:
				l.used[c] = l.demand[c]
			case l.Gone(i):
				l.used[c] = 0
			default: // it is on its baseline, and must find that free
				l.used[c] = p.Baseline[c]
			}
		}
	}
	p.Allocate(l.used, grants)
	p.Spread(l.used, grants)
	for i := range l.silent {
		if l.silent[i] >= 0 {
			l.silent[i]++
		}
	}
}

// Gone reports whether a location counts as gone.
func (l *Ledger) Gone(location int) bool {
	return l.config.Absorb > 0 && l.silent[location] > l.config.Absorb
}

// Demand returns what the last cycle took for the demand of each cell. It is the Ledger's own, and valid until the next cycle.
func (l *Ledger) Demand() []float64 { return l.used }
