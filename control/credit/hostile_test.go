package credit

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/bandit"
	"spillway/control/memsem"
	"spillway/machine"
)

// hostile drives a whole server half, a law in a Chain with a memory section, as the worst of drivers may: clients that come back under
// their old number, that send without a demand, that are forgotten with requests under way; instants that stand still; ticks that do not
// come for long, and then all at once.
type hostile struct {
	law      law
	gate     *control.Gate
	issuer   control.Issuer
	semaphor *memsem.Semaphore
	polls    control.Polls
	now      clock.Instant
	ids      uint64
	served   []control.Request
	inside   []control.Request
	places   []control.Place
	out      []control.Action
}

func (h *hostile) apply(actions []control.Action) {
	for _, a := range actions {
		switch a.Kind {
		case control.Start:
			h.served = append(h.served, a.Request)
		case control.Queue:
			h.places = append(h.places, a.Place)
		case control.Refuse:
			h.issuer.Credits(h.now, a.Request.Client)
		case control.Credit:
			h.polls.Tell(&a)
		case control.Resume:
		}
	}
}

func (h *hostile) step(t *rapid.T) {
	h.now += clock.Instant(rapid.SampledFrom([]int{0, 0, 1, 1000, 10_000, 100_000, 5_000_000}).Draw(t, "pause"))
	client := rapid.Uint32Range(0, 5).Draw(t, "client")
	h.out = h.out[:0]
	switch rapid.SampledFrom([]string{"request", "request", "bare", "finish", "finish", "poll", "forget", "withdraw", "tick", "enter", "leave"}).Draw(t, "event") {
	case "request":
		h.issuer.Demand(h.now, client, rapid.IntRange(-1, 70).Draw(t, "demand"))
		h.arrive(t, client)
	case "bare":
		h.arrive(t, client)
	case "finish":
		if len(h.served) > 0 {
			i := rapid.IntRange(0, len(h.served)-1).Draw(t, "which")
			r := h.served[i]
			h.served = append(h.served[:i], h.served[i+1:]...)
			r.Waited += time.Duration(rapid.IntRange(0, 400_000).Draw(t, "waited"))
			h.apply(h.gate.Finish(h.now, r, 0, rapid.Bool().Draw(t, "failed"), h.out))
			h.issuer.Credits(h.now, r.Client)
		}
	case "poll":
		h.polls.Ask(h.now, h.issuer, client, rapid.IntRange(0, 3).Draw(t, "demand"), h.ids, nil)
	case "forget":
		h.polls.Drop(client)
		h.issuer.Forget(h.now, client)
	case "withdraw":
		if len(h.places) > 0 {
			_, out := h.gate.Withdraw(h.now, h.places[rapid.IntRange(0, len(h.places)-1).Draw(t, "place")], h.out)
			h.apply(out)
		}
	case "tick":
		out, next := h.gate.Tick(h.now, control.Signals{
			QueueDelay: time.Duration(rapid.IntRange(0, 500_000).Draw(t, "delay")), MemBytes: uint64(h.now) * 5, MemAt: h.now, Joules: float64(h.now) / 1e7,
		}, h.out)
		if next <= h.now {
			t.Fatalf("at %v the next tick is at %v", h.now, next)
		}
		h.apply(out)
	case "enter":
		if h.semaphor.Enter(h.now, &control.Request{ID: h.ids + 1}, control.Try).Verdict == control.Admit {
			h.inside = append(h.inside, control.Request{})
		}
	case "leave":
		if len(h.inside) > 0 {
			h.inside = h.inside[1:]
			h.semaphor.Leave(h.now, &control.Request{}, nil)
		}
	}
	checkPool(t, h.law.pool)
}

func (h *hostile) arrive(t *rapid.T, client uint32) {
	h.ids++
	r := control.Request{
		ID: h.ids, Client: client, Tag: rapid.Uint32().Draw(t, "tag"), // of another life: it must not count
		QueueDelay: time.Duration(rapid.IntRange(0, 500_000).Draw(t, "delay")),
	}
	if rapid.Bool().Draw(t, "impatient") {
		r.Deadline = h.now + 1000
	}
	h.apply(h.gate.Arrive(h.now, r, h.out))
}

// TestHostileDrivers: under every law and with settings at their edges the books are in order after every event, the pool stays within its
// bounds, and when everybody has gone nothing is left.
func TestHostileDrivers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cores := rapid.IntRange(1, 3).Draw(t, "cores")
		sc := DefaultSvalinn()
		sc.Budget, sc.Step = 200*time.Microsecond, rapid.SampledFrom([]int{1, 10, 1000}).Draw(t, "step")
		sc.Prepare, sc.Interval = 0, time.Duration(rapid.SampledFrom([]int{1, 1000, 400_000}).Draw(t, "interval"))
		sc.Late = rapid.SampledFrom([]string{Wait, Lose}).Draw(t, "late")
		sc.Label = rapid.SampledFrom([]string{Lazy, Strict}).Draw(t, "label")
		sc.Perturb = rapid.Bool().Draw(t, "perturb")
		sc.Utility = rapid.SampledFrom([]string{ThroughputUtility, GoodputUtility, DelayUtility, DropUtility, PowerUtility}).Draw(t, "utility")
		sc.Comparator = rapid.SampledFrom([]string{DeadbandComparator, SimpleComparator, SlopeComparator}).Draw(t, "comparator")
		pc := DefaultProtego()
		pc.Budget, pc.Skip = 200*time.Microsecond, time.Duration(rapid.IntRange(0, 1).Draw(t, "skip"))
		bc := DefaultBreakwater()
		bc.Threshold, bc.AQM = 80*time.Microsecond, 160*time.Microsecond
		s := NewSvalinn(sc, cores, rand.New(rand.NewPCG(1, 2)), nil)
		s.number = rapid.SampledFrom([]uint32{0, lastNumber - 1, lastNumber}).Draw(t, "number") // of the experiments; it begins anew
		p, b := NewProtego(pc, cores), NewBreakwater(bc, cores)
		h := &hostile{law: rapid.SampledFrom([]law{
			{"svalinn", control.Stack{Controller: s}, &s.Pool}, {"protego", control.Stack{Controller: p}, &p.Pool}, {"breakwater", control.Stack{Controller: b}, &b.Pool},
		}).Draw(t, "law")}
		arms, err := bandit.New(bandit.Config{Name: "egreedy", Omega: 0.8, Epsilon: 0.3, Arms: cores, Rand: rand.New(rand.NewPCG(1, 3))})
		if err != nil {
			t.Fatal(err)
		}
		h.semaphor = memsem.New(arms, bandit.NewReward(0.7, 1, cores, 50), 500*time.Microsecond)
		chain := control.NewChain(h.law.stack.Controller, h.semaphor)
		h.issuer = chain.(control.Issuer)
		h.gate = control.NewGate(chain, control.GateConfig{Slots: rapid.IntRange(0, 2).Draw(t, "slots"), Queue: rapid.IntRange(0, 3).Draw(t, "queue")})
		for range rapid.IntRange(1, 300).Draw(t, "events") {
			h.step(t)
		}
		for client := range uint32(6) {
			h.issuer.Forget(h.now, client)
		}
		h.now += clock.Instant(time.Second)
		for len(h.served) > 0 {
			r := h.served[0]
			h.served = h.served[1:]
			h.apply(h.gate.Finish(h.now, r, 0, false, nil))
			checkPool(t, h.law.pool)
		}
		if here := h.gate.Stats(); here.Queued+here.InService == 0 && (len(h.law.pool.clients) > 0 || h.law.pool.used > 0) {
			t.Fatalf("left behind: %d clients with %d credits", len(h.law.pool.clients), h.law.pool.used)
		}
	})
}

// TestReorderedReplies: on a network on which messages overtake each other, as answers do on the ground model, and which loses some, what a client
// believes is soon what the server says again: nobody is left to wait for ever, and once the network is sound everybody is served.
func TestReorderedReplies(t *testing.T) {
	t.Parallel()
	for _, law := range laws(t, 4, slo) {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			l := newLoop(law.stack, machine.Spec{Cores: 4}, 20, 120e3, 1, plain(100*time.Microsecond))
			l.loss, l.breaks, l.timeout, l.jitter = 0.02, 500, ms, 400*us
			events := 0
			l.check = func() {
				if events++; events%16 == 0 {
					checkPool(t, law.pool)
				}
			}
			l.at(100*ms, func() { l.loss, l.breaks, l.jitter, l.interval = 0, 0, 0, 1e9/2e3 })
			l.run(150*ms, 400*ms)
			o := l.results["plain"]
			if o.due < 400 || o.served < o.due*97/100 || o.lost > 0 {
				t.Errorf("after the storm %d are due, %d served, %d refused, %d shed, %d lost", o.due, o.served, o.refused, o.shed, o.lost)
			}
			for _, h := range l.clients {
				if w := h.outbox.Throttle().(*Wallet); w.Used() != 0 {
					t.Errorf("client %d has %d under way in the end", h.number, w.Used())
				}
			}
		})
	}
}

// TestManyClients: with a hundred thousand clients, all but a few of them without credits and with a demand that is out of date, whoever gives up
// credits has others told of them, and no single call goes through all clients.
func TestManyClients(t *testing.T) {
	const many = 100_000
	for _, l := range laws(t, 18, slo) {
		p, issuer := l.pool, l.stack.Controller.(control.Issuer)
		for id := range uint32(many) {
			issuer.Demand(0, id, 1)
			issuer.Credits(0, id)
		}
		checkPool(t, p)
		if p.n != many || p.used < p.size || p.used > 2*p.size { // with no more clients than cores everybody has one, whatever is left
			t.Fatalf("%s: %d clients with %d of %d credits", l.name, p.n, p.used, p.size)
		}
		now, id := clock.Instant(0), uint32(many-1) // the first to go is the first that came, who has most of the credits
		told := make(map[uint32]bool, many)
		var out []control.Action
		step := func() {
			now += 20 * us
			id = (id + 1) % many
			issuer.Forget(now, id) // and with it a credit or a place on a list
			moved := demands(p)
			out = issuer.Wake(now, out[:0])
			for i := range out {
				told[out[i].Request.Client] = true
			}
			if moved -= demands(p); moved > 16*(len(out)+1) {
				t.Fatalf("%s: %d clients change lists for %d that are told", l.name, moved, len(out))
			}
			issuer.Demand(now, id, 1)
			issuer.Credits(now, id)
		}
		for range 50 {
			step()
		}
		checkPool(t, p)
		if len(told) == 0 {
			t.Errorf("%s: nobody was told of a credit that others gave up", l.name)
		}
	}
}

// demands returns how many drained clients are on the list of those with a demand.
func demands(p *Pool) (n int) {
	for c := p.high.first; c != nil; c = c.next {
		n++
	}
	return n
}
