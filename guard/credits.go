package guard

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control"
)

// CreditsHeader is how a Transport and a Guard's Handler talk about credits. A request says who sends it and how many more wait behind it
// ("3f2a… 4"), a question for credits that comes without a request adds the word ask, and a reply says what its client holds from now on.
// Whoever does not know the header ignores it.
const CreditsHeader = "X-Credits"

const (
	askWord = "ask"

	// firstParty is the number of the first client with a wallet. What services themselves call their clients is smaller, as a rule.
	firstParty = 1 << 31

	maxParties = 1 << 16         // who comes beyond them is served like one without a wallet
	partyIdle  = time.Minute     // for how long a client is known that sends nothing
	holdAnswer = 5 * time.Second // a question that is open for longer is answered with what there is: proxies and shutdowns do not wait for ever
)

// party is a client with a wallet.
type party struct {
	name       string
	number     uint32
	seen       clock.Instant
	under      int // requests and questions of it that are being answered
	prev, next *party
}

// parties are the clients with a wallet, and their open questions. It is guarded by the Guard's lock.
type parties struct {
	issuer         control.Issuer // nil when the controller hands out nothing
	polls          control.Polls
	open           map[uint64]chan int // answers to questions, by token
	token          uint64
	byName         map[string]*party
	count          uint32 // that there ever were
	oldest, newest *party // in the order in which they were seen last
	answers        []control.Answer
}

func newParties(c control.Controller) parties {
	issuer, _ := c.(control.Issuer)
	return parties{issuer: issuer, open: make(map[uint64]chan int), byName: make(map[string]*party)}
}

// said is what the header of a request says.
type said struct {
	client string
	demand int
	asks   bool
}

func parseCredits(h http.Header) (s said, ok bool) {
	words := strings.Fields(h.Get(CreditsHeader))
	if len(words) < 2 || len(words) > 3 || len(words[0]) > 64 {
		return s, false
	}
	n, err := strconv.Atoi(words[1])
	s = said{client: words[0], demand: n, asks: len(words) == 3 && words[2] == askWord}
	return s, err == nil && n >= 0 && (len(words) == 2 || s.asks)
}

func (s said) String() string {
	text := fmt.Sprintf("%s %d", s.client, s.demand)
	if s.asks {
		text += " " + askWord
	}
	return text
}

// meet takes note of what a request says of its client, and returns that client; nil when it says nothing or nobody cares. Each is ended by
// part.
func (g *Guard) meet(r *http.Request) (*party, said) {
	s, ok := parseCredits(r.Header)
	if !ok {
		return nil, s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.mu.parties
	if p.issuer == nil {
		return nil, s
	}
	now := g.clock.Now()
	g.forget(now)
	c := p.byName[s.client]
	if c == nil {
		if len(p.byName) == maxParties {
			return nil, s
		}
		c = &party{name: s.client, number: firstParty + p.count}
		p.count++
		p.byName[c.name] = c
	} else {
		p.unlink(c)
	}
	c.seen = now
	c.under++
	p.link(c)
	if !s.asks {
		p.issuer.Demand(now, c.number, s.demand)
	}
	return c, s
}

// part ends what meet began.
func (g *Guard) part(c *party) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.under--
}

// forget takes back what clients hold that have not been seen for long.
func (g *Guard) forget(now clock.Instant) {
	p := &g.mu.parties
	for c := p.oldest; c != nil && now.Sub(c.seen) > partyIdle; {
		next := c.next
		if c.under == 0 {
			p.unlink(c)
			delete(p.byName, c.name)
			p.issuer.Forget(now, c.number)
		}
		c = next
	}
	g.apply(now, p.issuer.Wake(now, g.mu.actions[:0]))
}

func (p *parties) link(c *party) {
	c.prev, c.next = p.newest, nil
	if p.newest == nil {
		p.oldest = c
	} else {
		p.newest.next = c
	}
	p.newest = c
}

func (p *parties) unlink(c *party) {
	if c.prev == nil {
		p.oldest = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		p.newest = c.prev
	} else {
		c.next.prev = c.prev
	}
}

// tell puts into the header of a reply what its client holds.
func (g *Guard) tell(h http.Header, c *party) {
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	issuer := g.mu.parties.issuer
	if issuer == nil {
		return // closed meanwhile
	}
	now := g.clock.Now()
	h.Set(CreditsHeader, strconv.Itoa(issuer.Credits(now, c.number)))
	// It may be told of fewer than it had, and then somebody else can have some.
	g.apply(now, issuer.Wake(now, g.mu.actions[:0]))
}

// answer replies to a question for credits, as soon as there is one; at once and without the header where there never will be.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, c *party, s said) {
	if c == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	token, answered := g.ask(c, s.demand)
	timer := time.NewTimer(holdAnswer)
	defer timer.Stop()
	credits := 0
	select {
	case credits = <-answered:
	case <-timer.C:
		credits = g.recall(token, c, answered)
	case <-r.Context().Done():
		credits = g.recall(token, c, answered)
	}
	w.Header().Set(CreditsHeader, strconv.Itoa(credits))
	w.WriteHeader(http.StatusNoContent)
}

// ask opens a question, and ends those that have their answer now.
func (g *Guard) ask(c *party, demand int) (token uint64, answered chan int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.mu.parties
	p.token++
	answered = make(chan int, 1)
	p.open[p.token] = answered
	if p.issuer == nil { // closed meanwhile
		p.end(control.Answer{Token: p.token})
		return p.token, answered
	}
	p.answers = p.polls.Ask(g.clock.Now(), p.issuer, c.number, demand, p.token, p.answers[:0])
	for _, a := range p.answers {
		p.end(a)
	}
	return p.token, answered
}

// recall ends a question that has been open for too long, and returns the answer that came in the last moment, if one did.
func (g *Guard) recall(token uint64, c *party, answered chan int) (credits int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.mu.parties
	if _, open := p.open[token]; open { // so it is the newest of its client
		p.polls.Drop(c.number)
		delete(p.open, token)
		return 0
	}
	return <-answered
}

// end gives a question its answer.
func (p *parties) end(a control.Answer) {
	p.open[a.Token] <- a.Credits
	delete(p.open, a.Token)
}

// wake answers the question of the client that a Credit action names.
func (p *parties) wake(a *control.Action) {
	if answer, ok := p.polls.Tell(a); ok {
		p.end(answer)
	}
}

// close answers all questions: there will be no more credits.
func (p *parties) close() {
	for token := range p.open {
		p.end(control.Answer{Token: token})
	}
	p.issuer = nil
}
