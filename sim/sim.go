// Package sim runs clients, network, server and machine in virtual time: one thread, no goroutine, no socket, no clock. The
// controllers, the Gate, the generator, the fates and the tallies are the ones of the real thing; only what carries them is
// simulated. One configuration gives one result, to the bit.
package sim

import (
	"errors"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/evq"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/workloads"
)

// Coster says what an operation costs the server.
type Coster interface {
	// Steps appends the work of op to dst. It draws nothing: the same operation costs the same.
	Steps(dst []machine.Step, op *workloads.Op) []machine.Step
}

// OwnSteps are the costs of operations that say themselves what work they are.
type OwnSteps struct{}

// Steps appends op.Steps.
func (OwnSteps) Steps(dst []machine.Step, op *workloads.Op) []machine.Step {
	return append(dst, op.Steps...)
}

// Config says what is simulated.
type Config struct {
	Station   station.Config
	Costs     Coster
	Generator *load.Generator // its instants count from the start of the warm-up
	Tally     *load.Tally     // of the window; must be empty
	Timeout   time.Duration   // from the due instant; 0 for none
	Deadline  time.Duration   // from the arrival at the server; who still waits in the Gate then expires; 0 for none
	Budget    time.Duration   // the waiting that each request may be asked to bear; 0 for no budget
	Drain     time.Duration   // after the window, for what is still under way

	// Sample is called every SamplePeriod of virtual time within the window, SamplePeriod 0 for never.
	SamplePeriod time.Duration
	Sample       func(Sample)
	// Settled is called with every record whose fate is decided, the warm-up's included; may be nil. The record is only valid during
	// the call.
	Settled func(*reqlog.Record)
	// Stop is asked now and then whether to end early; may be nil.
	Stop func() bool
}

// Sample is what sensors show at one instant.
type Sample struct {
	Now     clock.Instant
	Station *station.Station
}

// Result is how a simulation ended. What it measured is in Config.Tally.
type Result struct {
	Arrivals  int64         // requests due in the window
	End       clock.Instant // when the last request was settled, or the drain ended
	Undrained int64         // requests under way at the end of the drain, counted timed_out
	CutShort  bool          // Stop said so; the tally was cut to End
	Died      clock.Instant // when the server's RAM ran out; clock.Never when it did not
	Events    int64         // instants at which something happened
	InFlight  float64       // mean number of requests between sent and settled in the window
	CPURatio  float64       // core-time used in the window, over cores times window
	Moved     uint64        // bytes over the memory bus in the window
	Gate      control.Stats // the server's own counts, of the whole simulation
}

// world is one simulation under way.
type world struct {
	Config
	station *station.Station
	network time.Duration
	end     clock.Instant // of the window

	mail    evq.Queue[message]
	flights []flight // by token
	unused  []uint32
	oldest  uint32 // ends of the list of flights whose client waits, in order of their due instants
	newest  uint32
	flying  int64 // length of that list

	result   Result
	sampleAt clock.Instant
	area     float64       // flying over time within the window, in request·ns
	areaAt   clock.Instant // up to when
	opened   bool          // the sensors have been read at the beginning of the window
	closed   bool          // and at its end
	busy     time.Duration
	moved    uint64
}

// message is something on the network.
type message struct {
	token uint32
	reply bool
	end   station.Reply
}

// flight is one request between its due instant and the end of its last message.
type flight struct {
	rec        reqlog.Record
	client     uint32
	prev, next uint32
	waiting    bool // its client still waits; otherwise it is a ghost that the server has not given back yet
	steps      []machine.Step
}

// none ends the list of flights.
const none = ^uint32(0)

// stopEvery is how many events pass between questions to Config.Stop: some milliseconds of a run.
const stopEvery = 1 << 14

// Run simulates until everything is settled or the drain is over.
func Run(c Config) (Result, error) {
	switch {
	case c.Generator == nil || c.Tally == nil || c.Costs == nil:
		return Result{}, errors.New("sim: a generator, a tally and costs are needed")
	case c.Timeout < 0 || c.Drain < 0 || c.SamplePeriod < 0 || c.Deadline < 0 || c.Budget < 0:
		return Result{}, errors.New("sim: timeout, drain, sample period, deadline and budget must not be negative")
	}
	w := &world{
		Config: c, station: station.New(c.Station), network: c.Station.Machine.Network,
		end: c.Tally.To, oldest: none, newest: none, sampleAt: clock.Never,
	}
	w.result.Died = clock.Never
	if c.SamplePeriod > 0 && c.Sample != nil {
		w.sampleAt = c.Tally.From
	}
	w.run()
	return w.result, nil
}

// run takes one instant after the other. Things of one instant happen in a fixed order: messages in the order of their sending,
// then the server's completions and ticks, then clients that give up, new requests, sensors. Each of these is in order by itself, so a
// look at their heads replaces one heap of everything.
func (w *world) run() {
	deadline := w.end.Add(w.Drain)
	for {
		mail, server, due := clock.Never, w.station.Next(), w.Generator.Due()
		if w.mail.Len() > 0 {
			mail = clock.Instant(w.mail.Key())
		}
		giveUp := w.nextTimeout()
		now := min(mail, server, giveUp, due, w.sampleAt)
		if due == clock.Never && w.flying == 0 && w.sampleAt == clock.Never || now > deadline {
			w.finish(min(now, deadline))
			return
		}
		w.result.Events++
		if w.Stop != nil && w.result.Events%stopEvery == 0 && w.Stop() {
			w.result.CutShort = true
			w.finish(now)
			return
		}
		w.window(now)
		switch now {
		case mail:
			w.deliver(now, w.mail.Pop())
		case server:
			w.replies(now, w.station.Advance(now))
		case giveUp:
			w.abandon(now)
		case due:
			w.send(now)
		default:
			w.Sample(Sample{Now: now, Station: w.station})
			if w.sampleAt = now.Add(w.SamplePeriod); w.sampleAt >= w.end {
				w.sampleAt = clock.Never
			}
		}
	}
}

// window reads the sensors when the window begins and ends; now is the instant that comes next.
func (w *world) window(now clock.Instant) {
	if !w.opened && now >= w.Tally.From {
		w.opened = true
		w.busy = w.station.Machine().BusyTime(w.Tally.From)
		w.moved = w.station.Machine().BytesMoved(w.Tally.From)
	}
	if now >= w.end {
		w.close(w.end)
	}
}

// close computes what the sensors say of the window.
func (w *world) close(at clock.Instant) {
	window := at.Sub(w.Tally.From)
	if w.closed || !w.opened || window <= 0 {
		return
	}
	w.closed = true
	m := w.station.Machine()
	w.result.CPURatio = float64(m.BusyTime(at)-w.busy) / float64(window) / float64(w.Station.Machine.Cores)
	w.result.Moved = m.BytesMoved(at) - w.moved
}

// count adds the requests in flight since the last change of their number to the area under it, before it changes at now.
func (w *world) count(now clock.Instant) {
	if from, to := max(w.areaAt, w.Tally.From), min(now, w.Tally.To); to > from {
		w.area += float64(w.flying) * float64(to-from)
	}
	w.areaAt = now
}

// send lets the next request leave.
func (w *world) send(now clock.Instant) {
	rec, client, op := w.Generator.Fire()
	if rec.Intended >= w.Tally.From && rec.Intended < w.Tally.To {
		w.result.Arrivals++
	}
	rec.Sent, rec.Attempts = now, 1
	token := w.take()
	f := &w.flights[token]
	f.rec, f.client, f.waiting = rec, client, true
	f.steps = w.Costs.Steps(f.steps[:0], op)
	w.count(now)
	w.link(token)
	w.mail.Push(uint64(now.Add(w.network)), message{token: token})
}

// deliver brings a message to its end of the network.
func (w *world) deliver(now clock.Instant, m message) {
	f := &w.flights[m.token]
	if !m.reply {
		if w.result.Died != clock.Never {
			// Nobody listens any more: the connection is refused.
			if f.waiting {
				w.settle(now, m.token, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
			}
			w.unused = append(w.unused, m.token)
			return
		}
		r := control.Request{Client: f.client, Class: f.rec.Class, Budget: w.Budget}
		if w.Deadline > 0 {
			r.Deadline = now.Add(w.Deadline)
		}
		w.replies(now, w.station.Arrive(now, r, f.steps, uint64(m.token), station.NoDemand))
		return
	}
	if f.waiting {
		r := load.Reply{At: now, Outcome: load.Answered, Queued: m.end.Queued, Service: m.end.Service}
		// Whatever is asked for is there.
		if r.Hit = f.rec.Keys <= 1; !r.Hit {
			r.Hits = f.rec.Keys
		}
		if m.end.Reason != control.NoReason {
			r.Outcome, r.Reason = load.Shed, m.end.Reason
		}
		w.settle(now, m.token, r)
	}
	w.unused = append(w.unused, m.token)
}

// replies puts what the server has finished on the network, and notices when the server has died.
func (w *world) replies(now clock.Instant, replies []station.Reply) {
	for _, r := range replies {
		w.mail.Push(uint64(now.Add(w.network)), message{token: uint32(r.Token), reply: true, end: r})
	}
	if w.station.Machine().Dead() && w.result.Died == clock.Never {
		w.result.Died = now
		w.lose(now)
	}
}

// lose breaks every connection: the server is gone, and with it all that it had not answered.
func (w *world) lose(now clock.Instant) {
	for w.oldest != none {
		// Those still on their way to the server are lost with the rest; deliver finds nobody waiting for them.
		w.settle(now, w.oldest, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
	}
}

// nextTimeout returns when the oldest waiting client gives up.
func (w *world) nextTimeout() clock.Instant {
	if w.Timeout == 0 || w.oldest == none {
		return clock.Never
	}
	return w.flights[w.oldest].rec.Intended.Add(w.Timeout)
}

// abandon settles the oldest flight: its client stops waiting. The server does not know, and works on.
func (w *world) abandon(now clock.Instant) {
	w.settle(now, w.oldest, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
}

// settle decides the fate of a flight whose client waits.
func (w *world) settle(now clock.Instant, token uint32, r load.Reply) {
	f := &w.flights[token]
	w.count(now)
	w.unlink(token)
	load.Judge(&f.rec, r, w.Tally.Classes[f.rec.Class].SLO)
	w.Tally.Add(&f.rec)
	if w.Settled != nil {
		w.Settled(&f.rec)
	}
}

// finish settles what is left: the clients stop waiting.
func (w *world) finish(now clock.Instant) {
	w.window(now)
	w.close(min(now, w.end))
	for w.oldest != none {
		w.result.Undrained++
		w.abandon(now)
	}
	w.count(now)
	if w.result.CutShort {
		w.Tally.Cut(now)
	}
	if window := w.Tally.Window(); window > 0 {
		w.result.InFlight = w.area / float64(window)
	}
	w.result.End = now
	w.result.Gate = w.station.Gate().Stats()
}

// take returns the token of a free flight.
func (w *world) take() uint32 {
	if n := len(w.unused); n > 0 {
		token := w.unused[n-1]
		w.unused = w.unused[:n-1]
		return token
	}
	w.flights = append(w.flights, flight{})
	return uint32(len(w.flights) - 1)
}

// link puts a flight at the young end of the list of waiting clients.
func (w *world) link(token uint32) {
	f := &w.flights[token]
	f.prev, f.next = w.newest, none
	if w.newest == none {
		w.oldest = token
	} else {
		w.flights[w.newest].next = token
	}
	w.newest = token
	w.flying++
}

// unlink takes a flight out of that list, from wherever it is.
func (w *world) unlink(token uint32) {
	f := &w.flights[token]
	f.waiting = false
	if f.prev == none {
		w.oldest = f.next
	} else {
		w.flights[f.prev].next = f.next
	}
	if f.next == none {
		w.newest = f.prev
	} else {
		w.flights[f.next].prev = f.prev
	}
	w.flying--
}
