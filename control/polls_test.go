package control_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
)

// till is an Issuer whose clients hold what a test says.
type till struct {
	credits map[uint32]int
	demand  map[uint32]int
}

func newTill() *till { return &till{credits: make(map[uint32]int), demand: make(map[uint32]int)} }

func (i *till) Demand(_ clock.Instant, client uint32, n int)                { i.demand[client] = n }
func (i *till) Credits(_ clock.Instant, client uint32) int                  { return i.credits[client] }
func (i *till) Wake(_ clock.Instant, out []control.Action) []control.Action { return out }
func (i *till) Forget(_ clock.Instant, client uint32)                       { delete(i.credits, client) }
func creditFor(client uint32, n int32) *control.Action {
	return &control.Action{Kind: control.Credit, Credits: n, Request: control.Request{Client: client}}
}

func TestPolls(t *testing.T) {
	t.Parallel()
	from := newTill()
	var p control.Polls
	check := func(what string, got, want []control.Answer) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	from.credits[1] = 3
	check("one with credits", p.Ask(0, from, 1, 5, 10, nil), []control.Answer{{Token: 10, Client: 1, Credits: 3}})
	check("one without", p.Ask(0, from, 2, 0, 11, nil), nil)
	check("a newer question", p.Ask(0, from, 2, 4, 12, nil), []control.Answer{{Token: 11, Client: 2}})
	if from.demand[1] != 5 || from.demand[2] != 4 {
		t.Errorf("demands %v", from.demand)
	}
	if a, ok := p.Tell(creditFor(1, 1)); ok {
		t.Errorf("a client without a question was answered: %+v", a)
	}
	if a, ok := p.Tell(creditFor(2, 2)); !ok || a != (control.Answer{Token: 12, Client: 2, Credits: 2}) {
		t.Errorf("answer %+v, %v", a, ok)
	}
	if _, ok := p.Tell(creditFor(2, 2)); ok {
		t.Error("a question was answered twice")
	}
	check("open once more", p.Ask(0, from, 2, 4, 13, nil), nil)
	from.credits[2] = 1
	check("credits found by the newer question", p.Ask(0, from, 2, 4, 14, nil), []control.Answer{
		{Token: 13, Client: 2, Credits: 1}, {Token: 14, Client: 2, Credits: 1},
	})
	from.credits[2] = 0
	check("and again", p.Ask(0, from, 2, 4, 15, nil), nil)
	if token, ok := p.Drop(2); !ok || token != 15 {
		t.Errorf("dropped %d, %v", token, ok)
	}
	if _, ok := p.Drop(2); ok {
		t.Error("a question was dropped twice")
	}
}

// TestPollsAnswerOnce: each question is answered once at the most, those of one client in the order of asking, and only the newest stays open.
func TestPollsAnswerOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := newTill()
		var p control.Polls
		open := make(map[uint32][]uint64)
		answered := func(list ...control.Answer) {
			for _, a := range list {
				if q := open[a.Client]; len(q) == 0 || q[0] != a.Token {
					t.Fatalf("answer %+v while %v are open", a, q)
				}
				open[a.Client] = open[a.Client][1:]
			}
		}
		token := uint64(0)
		for range rapid.IntRange(1, 100).Draw(t, "events") {
			client := rapid.Uint32Range(0, 3).Draw(t, "client")
			from.credits[client] = rapid.IntRange(0, 1).Draw(t, "credits")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				token++
				open[client] = append(open[client], token)
				answered(p.Ask(0, from, client, 1, token, nil)...)
				if len(open[client]) > 1 || len(open[client]) == 1 && from.credits[client] > 0 {
					t.Fatalf("%v are open with %d credits", open[client], from.credits[client])
				}
			case 2, 3:
				if a, ok := p.Tell(creditFor(client, 1)); ok {
					answered(a)
				} else if len(open[client]) > 0 {
					t.Fatalf("%v is open and was not answered", open[client])
				}
			case 4:
				token, ok := p.Drop(client)
				if ok != (len(open[client]) == 1) || ok && token != open[client][0] {
					t.Fatalf("dropped %d, %v while %v are open", token, ok, open[client])
				}
				delete(open, client)
			}
		}
	})
}
