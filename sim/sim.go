// Package sim runs clients, network, servers and their machines in virtual time: one thread, no goroutine, no socket, no clock. The
// controllers with both their halves, the Gate, the generator, the fates and the tallies are the ones of the real thing; only what
// carries them is simulated. One configuration gives one result, to the bit.
package sim

import (
	"fmt"
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/evq"
	"spillway/internal/load"
	"spillway/machine/station"
)

// world is one simulation under way.
type world struct {
	Config
	servers []server
	end     clock.Instant // of the window

	mail    evq.Queue[message]
	flights []flight // by token
	unused  []uint32
	oldest  uint32 // ends of the list of flights whose client waits, in order of their due instants
	newest  uint32
	waiting int64 // length of that list

	clients

	result   Result
	sampleAt clock.Instant
	flying   gauge // requests between sent and settled
	held     gauge // requests that wait at their clients
	opened   bool  // the sensors have been read at the beginning of the window
	closed   bool  // and at its end
	busy     time.Duration
	moved    uint64
}

// server is one replica.
type server struct {
	station *station.Station
	network time.Duration // to it and from it
	cores   int
	died    clock.Instant // clock.Never while it lives
}

// message is something on the network.
type message struct {
	kind   messageKind
	server uint8
	demand int32  // of a question
	token  uint32 // the flight; of questions and their answers the client
	end    station.Reply
}

type messageKind uint8

const (
	request messageKind = iota
	reply
	question
	answer
)

// maxServers is what a message has room for.
const maxServers = math.MaxUint8 + 1

// stopEvery is how many events pass between questions to Config.Stop: some milliseconds of a run.
const stopEvery = 1 << 14

// Run simulates until everything is settled or the drain is over.
func Run(c Config) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	w := newWorld(c)
	w.run()
	return w.result, nil
}

func newWorld(c Config) *world {
	w := &world{Config: c, end: c.Tally.To, oldest: none, newest: none, sampleAt: clock.Never}
	for _, s := range append([]station.Config{c.Station}, c.More...) {
		w.servers = append(w.servers, server{
			station: station.New(s), network: s.Machine.Network, cores: s.Machine.Cores, died: clock.Never,
		})
	}
	w.clients.init(&w.Config)
	w.flying.from, w.flying.to = c.Tally.From, c.Tally.To
	w.held.from, w.held.to = c.Tally.From, c.Tally.To
	w.result.Died = clock.Never
	if c.SamplePeriod > 0 && c.Sample != nil {
		w.sampleAt = c.Tally.From
	}
	return w
}

// run takes one instant after the other. Things of one instant happen in a fixed order: messages in the order of their sending,
// then completions and ticks of one server after the other, then clients that give up, then clients whose own control has waited for
// this instant, in the order of their numbers, then new requests, then sensors. Each of these is in order by itself, so a look at
// their heads replaces one heap of everything.
func (w *world) run() {
	deadline := w.end.Add(w.Drain)
	for {
		mail, due, alarm := w.nextMail(), w.Generator.Due(), clock.Instant(w.alarms.Next())
		server, which := w.nextServer()
		giveUp := w.nextTimeout()
		now := min(mail, server, giveUp, alarm, due, w.sampleAt)
		if due == clock.Never && w.waiting == 0 && w.sampleAt == clock.Never || now > deadline {
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
			w.replies(now, which, w.servers[which].station.Advance(now))
		case giveUp:
			w.abandon(now)
		case alarm:
			w.wake(now)
		case due:
			w.fire(now)
		default:
			w.Sample(Sample{Now: now, Station: w.servers[0].station, world: w})
			if w.sampleAt = now.Add(w.SamplePeriod); w.sampleAt >= w.end {
				w.sampleAt = clock.Never
			}
		}
	}
}

// nextMail returns when the next message comes to its end of the network.
func (w *world) nextMail() clock.Instant {
	if w.mail.Len() == 0 {
		return clock.Never
	}
	return clock.Instant(w.mail.Key())
}

// nextServer returns when the first of the servers does something by itself, and which that is.
func (w *world) nextServer() (at clock.Instant, which uint8) {
	at = w.servers[0].station.Next()
	for i := 1; i < len(w.servers); i++ {
		if next := w.servers[i].station.Next(); next < at {
			at, which = next, uint8(i)
		}
	}
	return at, which
}

// fire brings the request that is due to its client.
func (w *world) fire(now clock.Instant) {
	rec, client, op := w.Generator.Fire()
	if rec.Intended >= w.Tally.From && rec.Intended < w.Tally.To {
		w.result.Arrivals++
	}
	token := w.take()
	f := &w.flights[token]
	f.begin(rec, client)
	f.priority = control.PriorityOf(w.Tally.Classes[rec.Class].Priority, rec.Seq)
	f.steps, f.bytes = w.Costs.Steps(f.steps[:0], op)
	w.link(token)
	w.saved.Earn(client)
	f.server = w.primary(client)
	w.offer(now, token)
}

// launch lets a request leave for its server.
func (w *world) launch(now clock.Instant, token uint32, demand int) {
	f := &w.flights[token]
	if f.rec.Attempts == 0 {
		f.rec.Sent, f.rec.Held = now, now.Sub(f.rec.Intended) // nobody here is late by any other fault
		w.flying.add(now, 1)
	}
	f.rec.Attempts++
	f.away, f.demand = true, int32(demand)
	w.mail.Push(uint64(now.Add(w.servers[f.server].network)), message{kind: request, server: f.server, token: token})
}

// deliver brings a message to its end of the network.
func (w *world) deliver(now clock.Instant, m message) {
	s := &w.servers[m.server]
	switch m.kind {
	case request:
		if s.died != clock.Never {
			w.refused(now, m.token)
			return
		}
		f := &w.flights[m.token]
		r := control.Request{Client: f.client, Class: f.rec.Class, Priority: f.priority, Bytes: f.bytes, Budget: w.Budget}
		if w.Deadline > 0 {
			r.Deadline = now.Add(w.Deadline)
		}
		w.replies(now, m.server, s.station.Arrive(now, r, f.steps, uint64(m.token), int(f.demand)))
	case reply:
		w.replied(now, &m)
	case question:
		if s.died == clock.Never {
			w.replies(now, m.server, s.station.Poll(now, m.token, int(m.demand), uint64(m.token)))
		}
	case answer:
		if s.died == clock.Never {
			w.hear(now, m.token, m.server, control.Notice{Kind: control.Told, Credits: int(m.end.Credits)})
		}
	}
}

// refused is a request that finds nobody listening any more: its connection is refused.
func (w *world) refused(now clock.Instant, token uint32) {
	f := &w.flights[token]
	waiting, client, server := f.waiting, f.client, f.server
	if waiting {
		w.settle(now, token, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
	}
	w.unused = append(w.unused, token)
	if waiting {
		w.hear(now, client, server, control.Notice{Kind: control.Lost, Credits: -1})
	}
}

// replied is a reply that its client has read.
func (w *world) replied(now clock.Instant, m *message) {
	f := &w.flights[m.token]
	client, credits, shed := f.client, int(m.end.Credits), m.end.Reason != control.NoReason
	if !f.waiting {
		// Its client has given it up, and has told its own control so.
		w.unused = append(w.unused, m.token)
		if w.servers[m.server].died == clock.Never {
			w.hear(now, client, m.server, control.Notice{Kind: control.Told, Credits: credits})
		}
		return
	}
	latency := now.Sub(f.rec.Intended)
	f.away = false
	if !shed || !w.resend(now, m.token, m.end.Reason, m.end.Queued, m.end.Service) {
		w.settle(now, m.token, f.outcome(now, &m.end))
		w.unused = append(w.unused, m.token)
	}
	w.hear(now, client, m.server, control.Notice{Kind: control.Replied, Shed: shed, Latency: latency, Credits: credits})
}

// outcome is what a reply says of a request.
func (f *flight) outcome(now clock.Instant, end *station.Reply) load.Reply {
	r := load.Reply{At: now, Outcome: load.Answered, Queued: end.Queued, Service: end.Service}
	// Whatever is asked for is there.
	if r.Hit = f.rec.Keys <= 1; !r.Hit {
		r.Hits = f.rec.Keys
	}
	if end.Reason != control.NoReason {
		r.Outcome, r.Reason = load.Shed, end.Reason
	}
	return r
}

// replies puts what a server has finished on the network, and notices when it has died.
func (w *world) replies(now clock.Instant, from uint8, replies []station.Reply) {
	s := &w.servers[from]
	at := uint64(now.Add(s.network))
	for i := range replies {
		m := message{kind: reply, server: from, token: uint32(replies[i].Token), end: replies[i]}
		if m.end.Poll {
			m.kind = answer
		}
		w.mail.Push(at, m)
	}
	if s.died == clock.Never && s.station.Machine().Dead() {
		s.died = now
		w.result.Died = min(w.result.Died, now)
		w.lose(now, from)
	}
}

// lose breaks every connection to a server that is gone, and with it all that it had not answered: also what is still on its way there, and
// replies that are on their way back.
func (w *world) lose(now clock.Instant, from uint8) {
	var lost []uint32 // clients
	for token := w.oldest; token != none; {
		f := &w.flights[token]
		next := f.next
		if f.away && f.server == from {
			lost = append(lost, f.client)
			w.settle(now, token, load.Reply{At: now, Outcome: load.Broken, Queued: -1, Service: -1})
		}
		token = next
	}
	for _, client := range lost {
		w.hear(now, client, from, control.Notice{Kind: control.Lost, Credits: -1})
	}
	w.part(now, from)
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
	token := w.oldest
	f := &w.flights[token]
	w.settle(now, token, load.GivenUp(&f.rec, now))
	if f.away {
		w.hear(now, f.client, f.server, control.Notice{Kind: control.Lost, Credits: -1})
	} else {
		w.withdraw(now, token)
	}
}

// finish settles what is left: the clients stop waiting.
func (w *world) finish(now clock.Instant) {
	w.window(now)
	w.close(min(now, w.end))
	for w.oldest != none {
		w.result.Undrained++
		w.settle(now, w.oldest, load.GivenUp(&w.flights[w.oldest].rec, now))
	}
	w.flying.add(now, 0)
	w.held.add(now, 0)
	if w.result.CutShort {
		w.Tally.Cut(now)
	}
	if window := w.Tally.Window(); window > 0 {
		w.result.InFlight = w.flying.area / float64(window)
		w.result.Waiting = w.held.area / float64(window)
	}
	w.result.End = now
	for i := range w.servers {
		addStats(&w.result.Gate, w.servers[i].station.Gate().Stats())
	}
}
