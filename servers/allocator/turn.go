package allocator

import (
	"errors"
	"time"

	"spillway/clock"
)

// A cycle goes like this. When it begins, everybody whose report waits is answered, and so reports anew: what is decided is decided from the demand
// of this moment. It is decided once all have reported, or gatherShare of the cycle has passed. Those who are to give something up are answered
// at once, and their next report confirms it; those who are to get it are answered when it has been confirmed. So a shift takes as long as
// messages do, and not cycles.
const (
	// gatherShare is the share of a cycle, one in so many, for which the decision waits for demand. Who is farther away than that, or silent,
	// counts with the last that was heard: the others need not wait for it.
	gatherShare = 4
	// partShare is the share of a cycle, one in so many, after which somebody who is to get more is given what is free of it. Without it each
	// confirmation would be a message to everybody; with it a cycle has at most so many for each location.
	partShare = 20
	// negligible is the share of the budget below which a difference is one of rounding.
	negligible = 1e-9
)

// errStale is the answer to a report that was overtaken by a later one.
var errStale = errors.New("allocator: a later report has been here before")

// grant is an answer to a report.
type grant struct {
	place    int
	id       int64
	rates    []float64     // by class
	borrowed time.Duration // how long what is above the baseline holds, from when the report was sent on
}

// arrive takes in what a location says. The report then waits until turn answers it.
func (b *book) arrive(now clock.Instant, place int, r *arrival) error {
	l := &b.locations[place]
	if r.seq <= l.seq {
		return errStale
	}
	if err := b.ledger.Report(place, r.demand); err != nil {
		return err
	}
	l.heard, l.reports, l.seq = now, l.reports+1, r.seq
	switch {
	case r.last == l.sent && r.last != 0:
		l.lease = l.sentLease
	case r.last <= b.first: // of an earlier life, or none
		l.lease = 0
	}
	// It waits for no other answer, so what it has is known. It cannot have had it from an answer later than this.
	copy(l.bound, r.holds)
	copy(l.holds, r.holds)
	l.borrowed = now.Add(b.config.borrowed())
	l.waiting, l.owes, l.arrived, l.until = true, false, now, now.Add(max(r.wait, 0))
	return nil
}

// leave withdraws a report whose sender has gone. What it said stays true.
func (b *book) leave(place int, seq int64) {
	if l := &b.locations[place]; l.seq == seq {
		l.waiting = false
	}
}

// turn does what is due, and hands each answer to send. It is to be called after every report, and whenever next says.
func (b *book) turn(now clock.Instant, send func(grant)) {
	if cycle := b.config.Cycle; now >= b.tick.Add(cycle) {
		b.tick = b.tick.Add(now.Sub(b.tick) / cycle * cycle)
		b.collecting, b.part = true, b.tick
		left := b.free(now)
		for i := range b.locations {
			l := &b.locations[i]
			if l.owes = l.waiting; l.waiting { // who was silent before is not waited for
				left = b.answer(now, i, left, send)
			}
		}
	}
	if b.collecting && (now >= b.tick.Add(b.config.Cycle/gatherShare) || b.complete()) {
		b.cycle()
		b.collecting = false
	}
	b.changes(now, send)
}

// complete reports whether all who were answered at the beginning of the cycle have reported since.
func (b *book) complete() bool {
	for i := range b.locations {
		if b.locations[i].owes {
			return false
		}
	}
	return true
}

// changes answers those for whom there is something new, or whose time is up.
func (b *book) changes(now clock.Instant, send func(grant)) {
	apart := now >= b.part
	if apart {
		part := b.config.Cycle / partShare
		b.part = b.part.Add((now.Sub(b.part)/part + 1) * part)
	}
	b.partial = false
	left := b.free(now)
	for i := range b.locations {
		l := &b.locations[i]
		if !l.waiting {
			continue
		}
		b.offer(now, i, b.own(now, i)+left)
		less, more, all := b.differs(i)
		switch {
		case less, more && all, more && apart, now >= l.until:
			left = b.answer(now, i, left, send)
		case more:
			b.partial = true
		}
	}
}

// next returns when turn is to be called although no report has come.
func (b *book) next() clock.Instant {
	at := b.tick.Add(b.config.Cycle)
	if b.collecting {
		at = min(at, b.tick.Add(b.config.Cycle/gatherShare))
	}
	if b.partial {
		at = min(at, b.part)
	}
	for i := range b.locations {
		if l := &b.locations[i]; l.waiting {
			at = min(at, l.until)
		}
	}
	return at
}

// free returns what is left of the budget, until what is borrowed now ends, beside what may be in force anywhere. It is below zero when more may
// be in force than there is.
func (b *book) free(now clock.Instant) float64 {
	left := b.policy.Budget()
	for i := range b.locations {
		left -= b.own(now, i)
	}
	return left
}

// own returns the most that may be in force at a location until what is borrowed now ends.
func (b *book) own(now clock.Instant, place int) (rate float64) {
	until := now.Add(b.config.borrowed())
	for k := range b.policy.Classes {
		rate += b.most(now, until, k, place)
	}
	return rate
}

// offer works out what a location may use when there is room for it of so much, and leaves it in b.rates. What it is to give up it gives up at
// once; what it is to get it gets as far as there is room, the most important class first. There is room when others have given up as
// much, and cannot take it back before what is given now has ended. While the allocator is learning, nobody gets more, nor keeps more than its
// baseline: whatever locations that have not been heard of have in force, and fall back to, the sum cannot grow.
func (b *book) offer(now clock.Instant, place int, left float64) {
	holds, learning := b.locations[place].holds, b.learning(now)
	left = max(left, 0)
	for k := range b.rates {
		c := b.policy.Cell(k, place)
		if learning {
			b.rates[k] = min(holds[k], b.policy.Baseline[c])
		} else {
			b.rates[k] = min(b.grants[c], holds[k], left)
		}
		left = max(left-b.rates[k], 0)
	}
	for k := range b.rates {
		if learning {
			break
		}
		more := min(max(b.grants[b.policy.Cell(k, place)]-b.rates[k], 0), left)
		b.rates[k] += more
		left -= more
	}
}

// differs compares the last offer with what the location has: whether it is less of some class, more of some, and all that there is to be.
func (b *book) differs(place int) (less, more, all bool) {
	holds, small := b.locations[place].holds, negligible*b.policy.Budget()
	all = true
	for k, r := range b.rates {
		less = less || r < holds[k]-small
		more = more || r > holds[k]+small
		all = all && r >= b.grants[b.policy.Cell(k, place)]-small
	}
	return less, more, all
}

// answer grants a location what there is for it. left is what is free beside what may be in force anywhere, and returned as it then is.
func (b *book) answer(now clock.Instant, place int, left float64, send func(grant)) float64 {
	l := &b.locations[place]
	before := b.own(now, place)
	b.offer(now, place, before+left)
	g := grant{place: place, rates: append([]float64(nil), b.rates...), borrowed: now.Add(b.config.borrowed()).Sub(l.arrived)}
	for k, r := range g.rates {
		l.bound[k] = max(r, l.holds[k]) // the answer may be lost: then what it has stays in force
	}
	b.lastID++
	g.id, l.waiting = b.lastID, false
	l.borrowed, l.sent, l.sentLease = now.Add(b.config.borrowed()), b.lastID, now.Add(b.config.Lease)
	left += before - b.own(now, place)
	send(g)
	return left
}

// shortestCycle has parts of a millisecond.
const shortestCycle = partShare * time.Millisecond
