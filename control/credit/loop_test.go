package credit

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/machine"
	"spillway/machine/station"
)

const (
	us = clock.Instant(time.Microsecond)
	ms = clock.Instant(time.Millisecond)
)

// loop is a whole system in virtual time: clients with their outboxes, a network that may lose what it carries, and a modelled server. It
// is what the two halves of a law are tested together in; profiles and claims are the simulator's.
type loop struct {
	rng      *rand.Rand
	station  *station.Station
	clients  []*half
	parties  map[uint32]*half // by the number of their connection
	numbers  uint32           // the last of those
	classes  []class
	interval float64 // mean time between arrivals, all clients together, in nanoseconds
	delay    clock.Instant
	loss     float64       // share of requests and of replies that are lost
	jitter   clock.Instant // by which a message is late at most, so that others overtake it
	breaks   float64       // connections that break, per second, all together
	timeout  clock.Instant
	until    clock.Instant
	from     clock.Instant // what counts is due from here on

	now     clock.Instant
	events  agenda
	seq     uint64
	flying  map[uint64]*flight
	tokens  uint64
	list    []control.Dispatch
	check   func() // after every event
	results map[string]*outcome
	asked   int
}

// class is a kind of requests.
type class struct {
	name  string
	share float64
	steps func(rng *rand.Rand) []machine.Step
}

type outcome struct {
	due, served, shed, refused, lost int
	latency                          []time.Duration
}

// half is one client.
type half struct {
	outbox *control.Outbox
	number uint32
	life   int // connections so far
	tick   clock.Instant
}

type flight struct {
	client *half
	class  *class
	due    clock.Instant
	sent   bool
	over   bool // the client has heard of it, or given it up
}

type event struct {
	at  clock.Instant
	seq uint64
	do  func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

func (l *loop) at(t clock.Instant, do func()) {
	l.seq++
	heap.Push(&l.events, event{t, l.seq, do})
}

// newLoop returns a system under stack, in which clients send rate requests a second together.
func newLoop(stack control.Stack, spec machine.Spec, clients int, rate float64, seed uint64, classes ...class) *loop {
	l := &loop{
		rng:     rand.New(rand.NewPCG(seed, 0)),
		classes: classes, interval: 1e9 / rate, delay: 5 * us, timeout: 10 * ms,
		parties: make(map[uint32]*half), flying: make(map[uint64]*flight), results: make(map[string]*outcome),
	}
	l.station = station.New(station.Config{
		Controller: stack.Controller, Machine: spec, Sections: station.Sections(stack, 1), LockQueues: station.LockQueues(stack, 1), Locks: 1,
	})
	for range clients {
		l.numbers++
		h := &half{number: l.numbers, tick: clock.Never}
		l.parties[h.number] = h
		if stack.NewClient != nil {
			h.outbox = stack.NewClient(l.rng)
		}
		l.clients = append(l.clients, h)
	}
	for i := range classes {
		l.results[classes[i].name] = new(outcome)
	}
	return l
}

// run lets it run until the given instant; what is due from from on counts.
func (l *loop) run(from, until clock.Instant) {
	l.from, l.until = from, until
	l.at(0, l.arrive)
	if l.breaks > 0 {
		l.at(l.pause(1e9/l.breaks), l.breakOne)
	}
	for {
		next := l.station.Next()
		if len(l.events) > 0 && l.events[0].at < next {
			e := heap.Pop(&l.events).(event)
			l.now = e.at
			e.do()
		} else if next <= until+20*ms {
			l.now = next
			l.replies(l.station.Advance(next))
		} else {
			return
		}
		if l.check != nil {
			l.check()
		}
	}
}

// arrival returns when a message that leaves now gets to the other end.
func (l *loop) arrival() clock.Instant {
	at := l.now + l.delay
	if l.jitter > 0 {
		at += clock.Instant(l.rng.Int64N(int64(l.jitter)))
	}
	return at
}

func (l *loop) pause(mean float64) clock.Instant {
	return l.now + max(1, clock.Instant(l.rng.ExpFloat64()*mean))
}

func (l *loop) arrive() {
	if l.now >= l.until {
		return
	}
	l.at(l.pause(l.interval), l.arrive)
	l.tokens++
	f := &flight{client: l.clients[l.rng.IntN(len(l.clients))], class: l.pick(), due: l.now}
	l.flying[l.tokens] = f
	if l.now >= l.from {
		l.results[f.class.name].due++
	}
	if f.client.outbox == nil {
		l.send(l.tokens, station.NoDemand)
		return
	}
	l.dispatch(f.client, f.client.outbox.Offer(l.now, control.Outgoing{Token: l.tokens}, l.list[:0]))
}

func (l *loop) pick() *class {
	x := l.rng.Float64()
	for i := range l.classes {
		if x -= l.classes[i].share; x < 0 {
			return &l.classes[i]
		}
	}
	return &l.classes[len(l.classes)-1]
}

func (l *loop) dispatch(h *half, list []control.Dispatch) {
	l.list = list
	for _, d := range slices.Clone(list) {
		switch d.Kind {
		case control.Send:
			l.send(d.Token, d.Demand)
		case control.Shun:
			l.settle(d.Token, func(o *outcome, _ *flight) { o.refused++ })
			delete(l.flying, d.Token)
		case control.Inform:
			life := h.life
			l.asked++
			l.at(l.arrival(), func() {
				if h.life == life {
					l.replies(l.station.Poll(l.now, h.number, d.Demand, uint64(life)))
				}
			})
		}
	}
	if next := h.outbox.Next(); next != clock.Never && next < h.tick {
		h.tick = max(next, l.now)
		at := h.tick
		l.at(at, func() {
			if h.tick == at {
				h.tick = clock.Never
				l.dispatch(h, h.outbox.Tick(l.now, l.list[:0]))
			}
		})
	}
}

func (l *loop) send(token uint64, demand int) {
	f := l.flying[token]
	f.sent = true
	life := f.client.life
	if l.rng.Float64() >= l.loss {
		l.at(l.arrival(), func() {
			if f.client.life != life {
				return // it was on a connection that broke
			}
			l.replies(l.station.Arrive(l.now, control.Request{Client: f.client.number}, f.class.steps(l.rng), token, demand))
		})
	}
	l.at(l.now+l.timeout, func() {
		if !f.over {
			l.lose(token)
		}
	})
}

// lose makes a client give up a request.
func (l *loop) lose(token uint64) {
	f := l.flying[token]
	l.settle(token, func(o *outcome, _ *flight) { o.lost++ })
	f.over = true
	if f.client.outbox != nil {
		l.dispatch(f.client, f.client.outbox.Hear(l.now, control.Notice{Kind: control.Lost, Credits: -1}, l.list[:0]))
	}
}

func (l *loop) settle(token uint64, count func(*outcome, *flight)) {
	if f := l.flying[token]; f.due >= l.from {
		count(l.results[f.class.name], f)
	}
}

// replies sends what the server answers.
func (l *loop) replies(list []station.Reply) {
	for _, r := range slices.Clone(list) {
		h := l.parties[r.Client]
		life := h.life
		if h.number != r.Client {
			continue // nobody is there to be replied to
		}
		if r.Poll {
			if int(r.Token) == life {
				l.at(l.arrival(), func() {
					if h.life == life {
						l.dispatch(h, h.outbox.Hear(l.now, control.Notice{Kind: control.Told, Credits: int(r.Credits)}, l.list[:0]))
					}
				})
			}
			continue
		}
		if l.rng.Float64() < l.loss {
			continue
		}
		l.at(l.arrival(), func() {
			if h.life == life {
				l.reply(h, r)
			}
		})
	}
}

func (l *loop) reply(h *half, r station.Reply) {
	f := l.flying[r.Token]
	n := control.Notice{Kind: control.Replied, Shed: r.Reason != control.NoReason, Latency: l.now.Sub(f.due), Credits: int(r.Credits)}
	if f.over {
		n.Kind = control.Told
	} else {
		l.settle(r.Token, func(o *outcome, f *flight) {
			if n.Shed {
				o.shed++
				return
			}
			o.served++
			o.latency = append(o.latency, l.now.Sub(f.due))
		})
	}
	f.over = true
	if h.outbox != nil {
		l.dispatch(h, h.outbox.Hear(l.now, n, l.list[:0]))
	}
}

// breakOne breaks the connection of one client, which comes back at once.
func (l *loop) breakOne() {
	if l.now >= l.until || l.breaks == 0 {
		return
	}
	l.at(l.pause(1e9/l.breaks), l.breakOne)
	h := l.clients[l.rng.IntN(len(l.clients))]
	gone := h.number
	h.life++
	l.numbers++
	h.number = l.numbers // servers number connections
	l.parties[h.number] = h
	_, _, replies := l.station.Forget(l.now, gone)
	l.replies(replies)
	for token := uint64(1); token <= l.tokens; token++ {
		if f := l.flying[token]; f != nil && f.client == h && f.sent && !f.over {
			l.lose(token)
		}
	}
	l.dispatch(h, h.outbox.Hear(l.now, control.Notice{Kind: control.Parted, Credits: -1}, l.list[:0]))
}

func p99(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*99/100]
}
