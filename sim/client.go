package sim

import (
	"math"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/dist"
	"spillway/internal/evq"
	"spillway/internal/load"
	"spillway/machine/station"
)

// clients are the sending ends of all connections: one Outbox for each client and server, made when the first request is due.
type clients struct {
	boxes  []*control.Outbox // by client·servers + server; nil altogether when clients just send
	alarms evq.Alarms        // when each of them wants to be ticked
	out    []control.Dispatch
	saved  *load.Savings // retries; nil without
	count  uint32        // servers
}

func (c *clients) init(config *Config) {
	c.count = uint32(1 + len(config.More))
	n := config.Generator.Clients()
	if config.NewClient != nil {
		c.boxes = make([]*control.Outbox, n*int(c.count))
		c.alarms.Grow(len(c.boxes))
	}
	c.saved = config.Retry.Savings(n)
}

// index numbers the Outbox of a client for a server.
func (c *clients) index(client uint32, server uint8) uint32 { return client*c.count + uint32(server) }

// primary returns the server that a client asks first.
func (w *world) primary(client uint32) uint8 {
	return w.Retry.Primary(uint64(client), uint32(len(w.servers)))
}

// offer brings a request to what controls sending to its server.
func (w *world) offer(now clock.Instant, token uint32) {
	if w.boxes == nil {
		w.launch(now, token, station.NoDemand)
		return
	}
	f := &w.flights[token]
	i := w.index(f.client, f.server)
	if w.boxes[i] == nil {
		// The streams of one server's clients have the same numbers however many servers there are.
		w.boxes[i] = w.NewClient(dist.Stream(w.Seed, "client", uint64(f.server)<<32|uint64(f.client)))
	}
	w.held.add(now, 1)
	begin := len(w.out)
	w.out = w.boxes[i].Offer(now, control.Outgoing{Token: uint64(token), Class: f.rec.Class, Priority: f.priority}, w.out)
	w.dispatch(now, i, begin)
}

// hear tells a client's control of a server what it has heard.
func (w *world) hear(now clock.Instant, client uint32, server uint8, n control.Notice) {
	if w.boxes == nil {
		return
	}
	i := w.index(client, server)
	begin := len(w.out)
	w.out = w.boxes[i].Hear(now, n, w.out)
	w.dispatch(now, i, begin)
}

// withdraw takes a request that its client has given up out of the Outbox in which it waits.
func (w *world) withdraw(now clock.Instant, token uint32) {
	f := &w.flights[token]
	i := w.index(f.client, f.server)
	w.held.add(now, -1)
	w.unused = append(w.unused, token)
	begin := len(w.out)
	_, w.out = w.boxes[i].Withdraw(now, uint64(token), w.out)
	w.dispatch(now, i, begin)
}

// wake ticks the Outbox whose alarm is due.
func (w *world) wake(now clock.Instant) {
	i := w.alarms.First()
	begin := len(w.out)
	w.out = w.boxes[i].Tick(now, w.out)
	w.dispatch(now, i, begin)
}

// part tells everybody who has sent to a server that its connection is broken.
func (w *world) part(now clock.Instant, server uint8) {
	for i := uint32(server); i < uint32(len(w.boxes)); i += w.count {
		if w.boxes[i] != nil {
			w.hear(now, i/w.count, server, control.Notice{Kind: control.Parted, Credits: -1})
		}
	}
}

// dispatch does what an Outbox has said from begin on. What is done may make this or another Outbox say more, which goes on top and is
// done first; so the list is a stack of lists, and nothing is allocated.
func (w *world) dispatch(now clock.Instant, i uint32, begin int) {
	for k := begin; k < len(w.out); k++ {
		w.do(now, i, w.out[k])
	}
	w.out = w.out[:begin]
	// An alarm at the instant itself could go off for ever: whoever waits for time to pass waits for some of it.
	w.alarms.Set(i, uint64(max(w.boxes[i].Next(), now+1)))
}

func (w *world) do(now clock.Instant, i uint32, d control.Dispatch) {
	if d.Kind == control.Inform {
		w.result.Questions++
		server := uint8(i % w.count)
		w.mail.Push(uint64(now.Add(w.servers[server].network)), message{
			kind: question, server: server, token: i / w.count, demand: int32(min(d.Demand, math.MaxInt32)),
		})
		return
	}
	w.held.add(now, -1)
	token := uint32(d.Token)
	f := &w.flights[token]
	switch {
	case d.Kind == control.Send:
		w.launch(now, token, d.Demand)
	case !w.resend(now, token, control.NoReason, -1, -1):
		w.settle(now, token, load.TurnedAway(&f.rec, now))
		w.unused = append(w.unused, token)
	}
}

// resend offers a request to the next server, if it may be retried. why and the times are what the server that shed it has said of it;
// NoReason when its client's own control refused it.
func (w *world) resend(now clock.Instant, token uint32, why control.Reason, queued, service time.Duration) bool {
	f := &w.flights[token]
	if f.second || !w.saved.Has(f.client) {
		return false
	}
	w.saved.Spend(f.client)
	w.result.Retries++
	f.second = true
	f.rec.Reason, f.rec.Queued, f.rec.Service = uint8(why), queued, service
	f.server = uint8((uint32(f.server) + 1) % w.count)
	w.offer(now, token)
	return true
}
