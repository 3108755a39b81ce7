package station

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
	"spillway/machine"
)

// pool hands out a fixed number of credits: as simple an Issuer as may be. It admits everybody, so that what is seen are the credits.
type pool struct {
	control.None
	size, used int
	held, want map[uint32]int // by client, as far as they are known
	under      map[uint32]int // way, as far as the Gate knows
}

func newPool(size int) *pool {
	return &pool{size: size, held: map[uint32]int{}, want: map[uint32]int{}, under: map[uint32]int{}}
}

func (p *pool) Observe(_ clock.Instant, e control.Event) {
	switch client := e.Request.Client; e.Kind {
	case control.Queued:
		p.under[client]++
	case control.Finished:
		p.under[client]--
	case control.Refused:
		if e.Stage == control.AtDequeue {
			p.under[client]--
		}
	}
}

func (p *pool) Demand(_ clock.Instant, client uint32, n int) {
	if _, known := p.held[client]; !known {
		p.held[client] = 0
	}
	p.want[client] = n
}

func (p *pool) Credits(_ clock.Instant, client uint32) int {
	if _, known := p.held[client]; !known { // it has gone, and this is the end of what it had sent
		return 0
	}
	p.grant(client, max(min(p.under[client]+p.want[client], p.held[client]+p.size-p.used), p.under[client]))
	return p.held[client]
}

func (p *pool) grant(client uint32, n int) {
	p.used += n - p.held[client]
	p.held[client] = n
}

func (p *pool) Wake(_ clock.Instant, out []control.Action) []control.Action {
	for _, client := range slices.Sorted(maps.Keys(p.held)) {
		if p.held[client] == 0 && p.under[client] == 0 && p.want[client] > 0 && p.used < p.size {
			p.grant(client, 1)
			out = append(out, control.Action{Kind: control.Credit, Credits: 1, Request: control.Request{Client: client}})
		}
	}
	return out
}

func (p *pool) Forget(_ clock.Instant, client uint32) {
	p.used -= p.held[client]
	delete(p.held, client)
	delete(p.want, client)
}

// check holds what is granted against what is used.
func (p *pool) check(t *rapid.T) {
	sum := 0
	for client, n := range p.held {
		if n < 0 {
			t.Fatalf("client %d holds %d credits", client, n)
		}
		sum += n
	}
	if sum != p.used || p.used > max(p.size, 0)+underway(p) {
		t.Fatalf("%d credits are held, %d count as used, of %d", sum, p.used, p.size)
	}
}

// underway is what the pool may have beyond its size: requests of clients that it has forgotten keep theirs until they end.
func underway(p *pool) (n int) {
	for _, u := range p.under {
		n += u
	}
	return n
}

// sender is a client that keeps to what it is told.
type sender struct {
	credits, out, want int
	question           uint64 // that it has asked and has no answer to; 0 for none
}

// questions are tokens of their own.
const questions = 1 << 32

// TestCreditsAreConserved: clients send, ask, ask again, go and come back. At every step the credits that they hold are those that are used,
// every question is answered once or forgotten, and at the end nobody waits for an answer while there is a credit.
func TestCreditsAreConserved(t *testing.T) {
	t.Parallel()
	answered, superseded, forgotten := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := newPool(rapid.IntRange(1, 6).Draw(t, "credits"))
		s := New(Config{
			Controller: p, Gate: control.GateConfig{Slots: 2, Queue: rapid.IntRange(0, 3).Draw(t, "queue")}, Machine: machine.Spec{Cores: 2},
			Sections: []Section{{limit.NewSection(1, control.Memory), control.Try}},
		})
		clients := make([]sender, rapid.IntRange(1, 8).Draw(t, "clients"))
		now, asked := clock.Instant(0), uint64(questions)
		hear := func(replies []Reply) {
			for _, r := range replies {
				c := &clients[r.Client]
				switch {
				case r.Poll && r.Token == c.question:
					c.question = 0
					answered++
				case r.Poll:
					superseded++
				default:
					if c.out--; c.out < 0 { // of its former connection
						c.out = 0
						continue
					}
				}
				if r.Credits < 0 {
					t.Fatalf("client %d gave its demand and is told nothing", r.Client)
				}
				c.credits = int(r.Credits)
			}
			p.check(t)
		}
		advance := func(until clock.Instant) {
			for s.Next() <= until {
				now = s.Next()
				hear(s.Advance(now))
			}
			now = until
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			id := rapid.IntRange(0, len(clients)-1).Draw(t, "client")
			c := &clients[id]
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1, 2:
				if c.out >= c.credits {
					continue
				}
				c.out++
				c.want = rapid.IntRange(0, 3).Draw(t, "demand")
				hear(s.Arrive(now, control.Request{Client: uint32(id)},
					[]machine.Step{compute(time.Duration(rapid.IntRange(0, 2000).Draw(t, "work"))), {Kind: machine.Enter}, compute(200), {Kind: machine.Leave}}, uint64(id), c.want))
			case 3, 4:
				if c.out > 0 || c.credits > 0 {
					continue
				}
				asked++
				c.question, c.want = asked, rapid.IntRange(1, 3).Draw(t, "demand")
				hear(s.Poll(now, uint32(id), c.want, asked))
			case 5:
				if c.out > 0 { // its replies would be taken for those of the new connection
					continue
				}
				question, open, replies := s.Forget(now, uint32(id))
				if open != (c.question != 0) || open && question != c.question {
					t.Fatalf("client %d goes with question %d open, the station says %d, %v", id, c.question, question, open)
				}
				if open {
					forgotten++
				}
				*c = sender{}
				hear(replies)
			case 6:
				advance(now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "time"))))
			}
		}
		advance(clock.Instant(time.Second))
		for id := range clients {
			if c := &clients[id]; c.question != 0 && p.used < p.size {
				t.Fatalf("client %d waits for an answer, and %d of %d credits are used", id, p.used, p.size)
			}
		}
	})
	if answered == 0 || superseded == 0 || forgotten == 0 {
		t.Errorf("%d questions were answered, %d superseded, %d forgotten: all of these should be tested", answered, superseded, forgotten)
	}
}

// TestQuestions tells the life of questions in one scene.
func TestQuestions(t *testing.T) {
	t.Parallel()
	p := newPool(1)
	s := New(Config{Controller: p, Machine: machine.Spec{Cores: 1}})
	var log []string
	hear := func(replies []Reply) {
		for _, r := range replies {
			log = append(log, fmt.Sprintf("client %d, token %d: poll %v, credits %d", r.Client, r.Token, r.Poll, r.Credits))
		}
		log = append(log, "–")
	}
	work := []machine.Step{compute(10 * us)}
	s.Advance(0)                                              // the first tick
	hear(s.Poll(0, 1, 1, 100))                                // there is a credit: at once
	hear(s.Poll(0, 2, 1, 200))                                // there is none: held
	hear(s.Poll(0, 2, 5, 201))                                // more demand: 200 is answered with nothing
	hear(s.Poll(0, 3, 1, 300))                                // held
	hear(s.Arrive(0, control.Request{Client: 1}, work, 1, 0)) // the credit is used
	hear(s.Advance(clock.Instant(10 * us)))                   // 1 wants no more: its credit goes to 2
	_, open, replies := s.Forget(clock.Instant(30*us), 2)     // 2 goes: its credit goes to 3
	hear(replies)
	if open {
		t.Error("client 2 had its answer, and leaves a question")
	}
	want := []string{
		"client 1, token 100: poll true, credits 1", "–",
		"–",
		"client 2, token 200: poll true, credits 0", "–",
		"–",
		"–",
		"client 1, token 1: poll false, credits 0", "client 2, token 201: poll true, credits 1", "–",
		"client 3, token 300: poll true, credits 1", "–",
	}
	if !slices.Equal(log, want) {
		t.Errorf("got\n%q\nwant\n%q", log, want)
	}
}

// TestQuestionsWithoutAnIssuer: a server that hands out no credits answers at once, and says nothing of any.
func TestQuestionsWithoutAnIssuer(t *testing.T) {
	t.Parallel()
	s := New(Config{Controller: control.None{}, Machine: machine.Spec{Cores: 1}})
	if got, want := s.Poll(5, 3, 1, 77), []Reply{{Token: 77, Client: 3, Credits: -1, Poll: true}}; !slices.Equal(got, want) {
		t.Errorf("answered %+v, want %+v", got, want)
	}
	if _, open, replies := s.Forget(6, 3); open || len(replies) > 0 {
		t.Error("a question stays open without an issuer")
	}
}
