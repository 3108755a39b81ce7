package allocator

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control/capacity"
)

// book is an allocator without its sockets: what has been granted to whom, and what may therefore be in force. It is told the time, and is not
// safe for concurrent use.
type book struct {
	config    Config
	policy    capacity.Policy
	ledger    *capacity.Ledger
	places    map[string]int // by name of the location
	locations []location
	grants    []float64 // by cell, of the last cycle
	cycles    int64
	began     clock.Instant
	first     int64 // IDs of this life are above
	lastID    int64

	// The cycle under way.
	tick       clock.Instant // when it began
	collecting bool          // it waits for the demand of all, and is not decided yet
	part       clock.Instant // when grants of which a part is free are next given out
	partial    bool          // there are some
	rates      []float64     // of one location, by class: room for working
}

// location is what is known of one place.
type location struct {
	bound    []float64     // by class: the most that may be in force there
	borrowed clock.Instant // until when it may have more than its baseline
	lease    clock.Instant // until when it cannot return to its baseline; 0 when it may any time
	heard    clock.Instant
	reports  uint64
	seq      int64 // of its last report

	// Its last report, while it waits for an answer.
	waiting bool
	owes    bool // it was answered when the cycle began, and has not reported since
	arrived clock.Instant
	until   clock.Instant // when it is answered at the latest
	holds   []float64

	// The last grants, which it may have received or not.
	sent      int64 // their ID
	sentLease clock.Instant
}

// newBook returns the book of an allocator that begins now. Its grants are numbered from first on, which must be beyond the numbers of
// earlier lives.
func newBook(c Config, now clock.Instant, first int64) (*book, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("allocator: %w", err)
	}
	b := &book{config: c, policy: c.Policy(), places: make(map[string]int), began: now, first: first, lastID: first, tick: now, part: now}
	var err error
	if b.ledger, err = capacity.NewLedger(capacity.LedgerConfig{Policy: b.policy, Keep: c.Keep, Absorb: c.Absorb}); err != nil {
		return nil, err
	}
	b.grants = append(b.grants, b.policy.Baseline...)
	b.rates = make([]float64, len(c.Classes))
	b.locations = make([]location, len(c.Locations))
	for i, l := range c.Locations {
		b.places[l.Name] = i
		b.locations[i].bound, b.locations[i].holds = make([]float64, len(c.Classes)), make([]float64, len(c.Classes))
	}
	return b, nil
}

// learning reports whether grants of an earlier life of this allocator may be in force at locations that have not been heard of.
func (b *book) learning(now clock.Instant) bool {
	if now >= b.began.Add(b.config.Lease) {
		return false
	}
	for i := range b.locations {
		if b.locations[i].reports == 0 {
			return true
		}
	}
	return false
}

// cycle decides anew.
func (b *book) cycle() {
	b.ledger.Cycle(b.grants)
	b.cycles++
}

// most returns the most that a class may have in force at a location from now until an instant. A location that counts as gone has nothing.
func (b *book) most(now, until clock.Instant, class, place int) (rate float64) {
	l, baseline := &b.locations[place], b.policy.Baseline[b.policy.Cell(class, place)]
	switch {
	case b.ledger.Gone(place):
		return 0
	case now < l.borrowed:
		rate = l.bound[class]
	default:
		rate = min(l.bound[class], baseline)
	}
	if until >= l.lease {
		rate = max(rate, baseline)
	}
	return rate
}

// arrival is a Report in the order of classes.
type arrival struct {
	seq, last     int64
	demand, holds []float64
	wait          time.Duration // how long the answer may be kept back
}

// state says where everything stands.
func (b *book) state(now clock.Instant) State {
	s := State{Cycle: b.cycles, Learning: b.learning(now), Budget: b.policy.Budget()}
	byName := func(value func(class int) float64) map[string]float64 {
		m := make(map[string]float64)
		for k, c := range b.config.Classes {
			m[c.Name] = value(k)
		}
		return m
	}
	for i, c := range b.config.Locations {
		l := &b.locations[i]
		row := LocationState{
			Name: c.Name, Reports: l.reports, SilentMS: -1, CountGone: b.ledger.Gone(i),
			Baseline: byName(func(k int) float64 { return b.policy.Baseline[b.policy.Cell(k, i)] }),
			Demand:   byName(func(k int) float64 { return b.ledger.Demand()[b.policy.Cell(k, i)] }),
			Granted:  byName(func(k int) float64 { return b.grants[b.policy.Cell(k, i)] }),
			Bound:    byName(func(k int) float64 { return b.most(now, now, k, i) }),
		}
		if l.reports > 0 {
			row.SilentMS = now.Sub(l.heard).Milliseconds()
			row.LeasedMS = max(l.lease.Sub(now).Milliseconds(), 0)
		}
		for k := range b.config.Classes {
			s.Bound += b.most(now, now, k, i)
		}
		s.Locations = append(s.Locations, row)
	}
	return s
}
