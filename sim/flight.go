package sim

import (
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
)

// flight is one request between its due instant and the end of its last message. Its token is free again when nothing refers to it any
// more: no message, no server, no client's Outbox.
type flight struct {
	rec        reqlog.Record
	client     uint32
	prev, next uint32
	demand     int32 // its client's, when it left
	priority   uint16
	server     uint8 // that it is for
	waiting    bool  // its client waits for it; otherwise it is a ghost
	away       bool  // it has left and no reply has been read; otherwise it is in its client's Outbox
	second     bool  // it has been sent, or was to be sent, to another server before
	bytes      int64
	steps      []machine.Step
}

// none ends the list of flights.
const none = ^uint32(0)

// begin makes f the flight of another request.
func (f *flight) begin(rec reqlog.Record, client uint32) {
	f.rec, f.client = rec, client
	f.waiting, f.away, f.second = true, false, false
}

// settle decides the fate of a flight whose client waits.
func (w *world) settle(now clock.Instant, token uint32, r load.Reply) {
	f := &w.flights[token]
	if f.rec.Attempts > 0 {
		w.flying.add(now, -1)
	}
	w.unlink(token)
	load.Judge(&f.rec, r, w.Tally.Classes[f.rec.Class].SLO)
	w.Tally.Add(&f.rec)
	if w.Settled != nil {
		w.Settled(&f.rec)
	}
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
	w.waiting++
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
	w.waiting--
}

// gauge is a number over time, and the area under it within the window.
type gauge struct {
	from, to clock.Instant // the window
	n        int64
	area     float64 // n over time, in ns
	at       clock.Instant
}

// add changes the number at now.
func (g *gauge) add(now clock.Instant, n int64) {
	if from, to := max(g.at, g.from), min(now, g.to); to > from {
		g.area += float64(g.n) * float64(to-from)
	}
	g.at = now
	g.n += n
}

// window reads the sensors when the window begins and ends; now is the instant that comes next.
func (w *world) window(now clock.Instant) {
	if !w.opened && now >= w.Tally.From {
		w.opened = true
		w.busy, w.moved = w.sensors(w.Tally.From)
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
	cores := 0
	for i := range w.servers {
		cores += w.servers[i].cores
	}
	busy, moved := w.sensors(at)
	w.result.CPURatio = float64(busy-w.busy) / float64(window) / float64(cores)
	w.result.Moved = moved - w.moved
}

// sensors returns the core-time used and the bytes moved by all servers up to an instant.
func (w *world) sensors(at clock.Instant) (busy time.Duration, moved uint64) {
	for i := range w.servers {
		m := w.servers[i].station.Machine()
		busy += m.BusyTime(at)
		moved += m.BytesMoved(at)
	}
	return busy, moved
}

// addStats adds the counts of another server.
func addStats(sum *control.Stats, s control.Stats) {
	sum.Arrived += s.Arrived
	sum.Started += s.Started
	sum.Finished += s.Finished
	sum.Failed += s.Failed
	for i, n := range s.Shed {
		sum.Shed[i] += n
	}
	sum.Queued += s.Queued
	sum.InService += s.InService
	sum.MaxQueued = max(sum.MaxQueued, s.MaxQueued)
}
