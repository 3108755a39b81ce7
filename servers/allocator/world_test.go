package allocator

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control/capacity"
)

// place is an edge in virtual time: the real controller, and a link that loses things.
type place struct {
	limiter   *capacity.Limiter
	baseline  []float64
	seq, last int64
	demand    []float64 // what it reports; nil for what its controller has counted
	reach     bool      // the allocator can be reached

	asking bool          // its report number seq waits for an answer
	wakes  clock.Instant // when it gives up waiting, or reports again after something went wrong
}

func (p *place) holds(now clock.Instant) []float64 {
	rates := make([]float64, len(p.baseline))
	for k := range rates {
		rates[k], _ = p.limiter.Quota(now, uint16(k))
	}
	return rates
}

// message is something under way.
type message struct {
	at clock.Instant
	do func(now clock.Instant)
}

// world is an allocator and its edges, with what Server and Link do around book and Limiter.
type world struct {
	config   Config
	book     *book
	lives    int64
	alive    bool // the allocator is
	places   []*place
	messages []message
	// delays says how long a report of an edge and its answer are under way; less than 0 is for ever.
	delays func(edge int) (ask, reply time.Duration)
	check  func(now clock.Instant) // is called after everything that happens; may be nil
	sent   int                     // reports, all in all
}

// oneWay is how long messages take where nobody says otherwise.
const oneWay = 2 * time.Millisecond

func newWorld(c Config) *world { return newBurstyWorld(c, 1) }

// newBurstyWorld is newWorld with buckets of so many cycles.
func newBurstyWorld(c Config, burst float64) *world {
	w := &world{config: c, alive: true, delays: func(int) (ask, reply time.Duration) { return oneWay, oneWay }}
	w.restart(0)
	p := c.Policy()
	for i := range c.Locations {
		var rates []string
		own := &place{demand: make([]float64, len(c.Classes)), reach: true}
		for k := range c.Classes {
			b := p.Baseline[p.Cell(k, i)]
			own.baseline = append(own.baseline, b)
			rates = append(rates, strconv.FormatFloat(b, 'g', -1, 64))
		}
		config := capacity.DefaultLimiter()
		config.Baseline, config.Cycle, config.Burst = strings.Join(rates, ","), c.Cycle, burst
		own.limiter = capacity.NewLimiter(config)
		w.places = append(w.places, own)
	}
	return w
}

// restart gives the allocator another life, which knows nothing. Whoever waited for an answer is told so by the connection.
func (w *world) restart(now clock.Instant) {
	w.lives++
	book, err := newBook(w.config, now, w.lives*1_000_000_000)
	if err != nil {
		panic(err)
	}
	w.book = book
	for _, p := range w.places {
		if p.asking {
			p.asking, p.wakes = false, now.Add(w.config.Cycle/2)
		}
	}
}

// report has an edge say where it stands.
func (w *world) report(now clock.Instant, i int) {
	p := w.places[i]
	p.seq++
	p.asking, p.wakes = true, now.Add(w.config.Cycle+w.config.Cycle/2)
	w.sent++
	r := arrival{seq: p.seq, last: p.last, demand: slices.Clone(p.demand), holds: p.holds(now), wait: w.config.Cycle}
	if p.demand == nil {
		r.demand = make([]float64, len(p.baseline))
		p.limiter.Demand(now, r.demand)
	}
	ask, _ := w.delays(i)
	if ask < 0 || !p.reach {
		return
	}
	life := w.lives
	w.messages = append(w.messages, message{now.Add(ask), func(at clock.Instant) {
		if life == w.lives && w.alive && w.book.arrive(at, i, &r) == nil { // otherwise the connection has ended with the process
			w.turn(at)
		}
	}})
}

// turn has the allocator do what is due, and its answers be under way.
func (w *world) turn(now clock.Instant) {
	w.book.turn(now, func(g grant) {
		p := w.places[g.place]
		seq := w.book.locations[g.place].seq
		_, reply := w.delays(g.place)
		if reply < 0 || !p.reach {
			return
		}
		w.messages = append(w.messages, message{now.Add(reply), func(back clock.Instant) {
			if p.seq != seq || !p.asking {
				return // it has given up waiting
			}
			// What is borrowed counts from when the report was sent, which was before it arrived.
			sent := p.wakes.Add(-w.config.Cycle - w.config.Cycle/2)
			p.last = g.id
			if err := p.limiter.GrantBorrowed(back, g.rates, sent.Add(g.borrowed), back.Add(w.config.Lease)); err != nil {
				panic(err)
			}
			w.report(back, g.place)
		}})
	})
}

// advance lets everything happen that is due by an instant, one after the other.
func (w *world) advance(to clock.Instant) {
	for {
		at, do := to+1, func(clock.Instant) {}
		for i := range w.messages {
			if m := &w.messages[i]; m.at < at {
				at, do = m.at, func(now clock.Instant) {
					f := m.do
					w.messages = slices.Delete(w.messages, i, i+1)
					f(now)
				}
			}
		}
		if w.alive && w.book.next() < at {
			at, do = w.book.next(), w.turn
		}
		for i, p := range w.places {
			if p.wakes < at {
				at, do = p.wakes, func(now clock.Instant) { w.report(now, i) }
			}
		}
		if at > to {
			return
		}
		do(at)
		if w.check != nil {
			w.check(at)
		}
	}
}

// inForce returns the sum of all rates in force.
func (w *world) inForce(now clock.Instant) (sum float64) {
	for _, p := range w.places {
		for _, r := range p.holds(now) {
			sum += r
		}
	}
	return sum
}

// run lets the world go on for so many cycles.
func (w *world) run(from clock.Instant, cycles int) (now clock.Instant) {
	now = from.Add(time.Duration(cycles) * w.config.Cycle)
	w.advance(now)
	return now
}
