//go:build linux

package harness

import (
	"sync"
	"sync/atomic"
	"time"

	"spillway/clock"
	"spillway/internal/drive"
	"spillway/report"
)

// EventKind says what an event is about.
type EventKind uint8

// The kinds of events.
const (
	Entered  EventKind = iota // a phase of a point, or a probe of a search, begins
	Live                      // the goodput of the current point is known anew; nothing else has changed
	Finished                  // a point has been measured and written
	Noted                     // something is told once
)

// Event says where a run stands.
type Event struct {
	Kind EventKind

	Note  string        // of Noted: what is told; the other fields are then empty
	What  string        // what is being measured, such as "codel at 1.5x, repeat 2"
	Phase string        // server, preload, warm-up, window, drain, simulation; empty when Finished
	Done  int           // points or probes finished
	Total int           // of how many; 0 when unknown, as in a search
	Left  time.Duration // estimate for all that is still to be done; 0 when unknown

	// The point that is being measured, or was Finished; empty in a search and in a calibration.
	Variant    string
	Controller string // its label
	Load       string // as reports write it: "1.5x", "20000"
	Repeat     int

	// Goodput is how many requests a second are answered in time, of modelled time on a modelled machine. While a point is under way on host and
	// model it is that of its last second; of a Finished one, that of its window. Simulations have no goodput while they are under way: theirs is of the
	// point that was finished last, and Earlier is true.
	Goodput report.Value
	Earlier bool
	Valid   bool // of Finished: whether the numbers may be believed
}

// event returns what is known about the point at hand.
func (e *experiment) event(kind EventKind, phase string) Event {
	ev := Event{Kind: kind, What: e.what, Phase: phase, Done: e.done, Total: e.total}
	if p := e.point; p != nil {
		row := p.row()
		ev.Variant, ev.Controller, ev.Load, ev.Repeat = row.Variant(), row.Controller, row.Load(), row.Repeat
	}
	switch {
	case e.total == 0: // a search
	case e.worked > 0:
		ev.Left = time.Duration(float64(e.spent) * (e.work - e.worked) / e.worked)
	case e.config.Profile.On != groundSim: // what a simulation takes shows once one is done
		ev.Left = time.Duration(e.work)
	}
	return ev
}

// begin makes p the point at hand.
func (e *experiment) begin(p *Point) { e.point, e.what, e.stage = p, p.String(), "" }

// phase tells that the point at hand has come to a phase.
func (e *experiment) phase(phase string) {
	e.telling.Lock()
	defer e.telling.Unlock()
	e.stage = phase
	ev := e.event(Entered, phase)
	if e.config.Profile.On == groundSim {
		ev.Goodput = e.goodput
		_, ev.Earlier = e.goodput.Get()
	}
	e.config.Observe(ev)
}

// live tells the goodput of the point at hand, in requests per second.
func (e *experiment) live(rps float64) {
	e.telling.Lock()
	defer e.telling.Unlock()
	ev := e.event(Live, e.stage)
	ev.Goodput = report.Known(rps)
	e.config.Observe(ev)
}

// measured keeps what is told of a point that has been judged.
func (e *experiment) measured(p *report.Point) {
	e.goodput, e.valid = report.Value{}, false
	for i := range p.Rows {
		if p.Rows[i].Class == report.AllClasses {
			e.goodput, e.valid = p.Rows[i].GoodputRPS, p.Rows[i].Valid
		}
	}
}

// finished tells that the point at hand has been measured and written.
func (e *experiment) finished() {
	ev := e.event(Finished, "")
	ev.Goodput, ev.Valid = e.goodput, e.valid
	e.config.Observe(ev)
}

// progress turns the driver's snapshots, several a second, into a call for each phase and one for each new figure of the goodput. It runs on the
// driver's own goroutine for it, never on a thread that measures.
func (p *Point) progress(c clock.Clock) func(drive.Snapshot) {
	names := map[drive.Phase]string{drive.WarmingUp: "warm-up", drive.Measuring: "window", drive.Draining: "drain"}
	last := drive.Dialling
	var m meter
	return func(s drive.Snapshot) {
		if s.Phase != last {
			last = s.Phase
			p.observe(names[s.Phase])
		}
		if rate, ok := m.rate(s.Elapsed, s.OK); ok && p.live != nil {
			p.live(rate * float64(clock.Scale(c)))
		}
	}
}

// follow tells p.live the rate of a count that grows, until the function it returns is called, which waits for the last call to end.
func (p *Point) follow(count *atomic.Int64) (stop func()) {
	if p.live == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		var m meter
		for began := time.Now(); ; {
			if rate, ok := m.rate(time.Since(began), count.Load()); ok {
				p.live(rate)
			}
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// followEvery is as often as the driver takes a snapshot.
const followEvery = 200 * time.Millisecond

// meter is the rate of a count over about the last second.
type meter struct {
	seen [meterSpan]struct {
		at time.Duration
		n  int64
	}
	next, full int
}

// meterSpan is how many snapshots of the driver a figure spans: it takes five a second, and a single gap between two of them would be a figure
// that jumps.
const meterSpan = 6

// rate takes a count that grows and returns by how much it does, per second; ok is false while nothing is known.
func (m *meter) rate(at time.Duration, n int64) (rate float64, ok bool) {
	oldest := m.seen[m.next]
	if m.full < meterSpan {
		oldest = m.seen[0]
	}
	ok = m.full > 0 && at > oldest.at
	m.seen[m.next].at, m.seen[m.next].n = at, n
	m.next, m.full = (m.next+1)%meterSpan, min(m.full+1, meterSpan)
	if ok {
		rate = float64(n-oldest.n) / (at - oldest.at).Seconds()
	}
	return rate, ok
}
