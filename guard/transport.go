package guard

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"spillway/clock"
	"spillway/control"
)

// ErrHeldBack is the error of a request that a Transport has given up: the server gave no credit for it in time, or too many waited for one. It
// has never left, so it cost the server nothing.
var ErrHeldBack = errors.New("guard: held back: the server is overloaded")

// Transport is the client's half of a control for HTTP: a request that its server gave no credit for waits, or is given up, where that costs
// the server nothing. It speaks to a Guard's Handler by CreditsHeader. To a server that knows nothing of credits it sends everything.
//
//	stack, err := catalog.New("svalinn", map[string]any{"client_delay": "20ms"}, env) // the server's name and settings
//	…
//	t := guard.NewTransport(nil, stack.NewClient)
//	defer t.Close()
//	client := &http.Client{Transport: t}
//
// Each scheme and host is a server of its own, and kept for good: a Transport is for a service's few servers, not for any that a link may lead to. A client that holds no credits and has nothing under way asks for one, by a request OPTIONS of
// the path that it asked for last, whose answer the server holds back until it has one (docs/adr/0015). A request counts as under way
// until its body has been read or closed, as http.Client demands anyway.
type Transport struct {
	// Describe says the class of a request and its priority, as the server's handler does; its Token does not count. It is set before the first request, by
	// whoever uses a control that goes by them, such as DAGOR. While it is nil all requests are of class 0 and the most important.
	Describe func(*http.Request) control.Outgoing

	base      http.RoundTripper
	newClient func(*rand.Rand) *control.Outbox
	clock     clock.Clock
	ctx       context.Context // ends with Close
	stop      context.CancelFunc
	asking    sync.WaitGroup

	mu struct {
		sync.Mutex
		servers map[string]*server
		closed  bool
	}
}

// NewTransport returns a Transport that sends by base, http.DefaultTransport when that is nil. newClient is that of a control.Stack, whose name
// and settings are those of the servers.
func NewTransport(base http.RoundTripper, newClient func(*rand.Rand) *control.Outbox) *Transport {
	if newClient == nil {
		panic("guard: a transport for a control that has nothing for clients")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	t := &Transport{base: base, newClient: newClient, clock: clock.NewReal()}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.mu.servers = make(map[string]*server)
	return t
}

// Close ends what is going on without a request. Requests may still be made; those without credits are given up, or wait for their context.
func (t *Transport) Close() {
	t.mu.Lock()
	t.mu.closed = true
	t.mu.Unlock()
	t.stop()
	t.asking.Wait()
}

// server is one that requests are for.
type server struct {
	of   *Transport
	name string // of this client, to the server

	mu       sync.Mutex
	outbox   *control.Outbox
	waiting  map[uint64]chan verdict // of requests that wait to leave, by token; each has room for one
	token    uint64
	url      *url.URL // that was asked for last
	asked    int      // questions so far
	recalled bool     // the last of them was answered with nothing, while nobody waited; to be asked again
	timer    *time.Timer
	out      []control.Dispatch
}

// verdict is what becomes of a request that waits to leave.
type verdict struct {
	sent   bool
	demand int
}

func (t *Transport) server(u *url.URL) *server {
	key := u.Scheme + "://" + u.Host
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.servers[key]
	if s == nil {
		rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		s = &server{
			of: t, name: strconv.FormatUint(rng.Uint64(), 16), outbox: t.newClient(rng), waiting: make(map[uint64]chan verdict),
		}
		t.mu.servers[key] = s
	}
	return s
}

// RoundTrip implements http.RoundTripper. It waits until the request may leave.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.server(r.URL)
	due := t.clock.Now()
	demand, err := s.leave(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must; the error is the other one
		}
		return nil, err
	}
	sent := r.Clone(r.Context())
	sent.Header.Set(CreditsHeader, said{client: s.name, demand: demand}.String())
	resp, err := t.base.RoundTrip(sent)
	if err != nil {
		s.hear(control.Notice{Kind: control.Lost, Credits: -1})
		return nil, err
	}
	over := func() {
		s.hear(control.Notice{
			Kind: control.Replied, Latency: t.clock.Now().Sub(due), Credits: creditsOf(resp),
			Shed: resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests,
		})
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		over() // what goes on there is no request any more
		return resp, nil
	}
	resp.Body = &body{ReadCloser: resp.Body, over: sync.OnceFunc(over)}
	return resp, nil
}

// creditsOf returns what a reply says of credits, -1 when it says nothing.
func creditsOf(resp *http.Response) int {
	n, err := strconv.Atoi(resp.Header.Get(CreditsHeader))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// body notices when a reply has been read.
type body struct {
	io.ReadCloser
	over func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.over()
	return b.ReadCloser.Close()
}

// leave returns when the request may leave, with how many wait behind it.
func (s *server) leave(r *http.Request) (demand int, err error) {
	var o control.Outgoing
	if s.of.Describe != nil {
		o = s.of.Describe(r)
	}
	leaves := make(chan verdict, 1)
	s.mu.Lock()
	s.token++
	o.Token = s.token
	s.waiting[o.Token] = leaves
	s.url = r.URL
	s.do(s.outbox.Offer(s.of.clock.Now(), o, s.out[:0]))
	if s.recalled && s.outbox.Len() > 0 {
		s.ask(s.outbox.Len())
	}
	s.mu.Unlock()
	select {
	case v := <-leaves:
		if !v.sent {
			return 0, ErrHeldBack
		}
		return v.demand, nil
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case v := <-leaves:
		if v.sent { // in the last moment: it is given back
			s.do(s.outbox.Hear(s.of.clock.Now(), control.Notice{Kind: control.Lost, Credits: -1}, s.out[:0]))
		}
	default: // it counts as demand no more, and spends no credit when its turn would come
		delete(s.waiting, o.Token)
		_, out := s.outbox.Withdraw(s.of.clock.Now(), o.Token, s.out[:0])
		s.do(out)
	}
	return 0, r.Context().Err()
}

// hear passes on news from the server.
func (s *server) hear(n control.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do(s.outbox.Hear(s.of.clock.Now(), n, s.out[:0]))
}

// do does what the Outbox said. It is called with mu held.
func (s *server) do(list []control.Dispatch) {
	for _, d := range list {
		if d.Kind == control.Inform {
			s.ask(d.Demand)
			continue
		}
		s.waiting[d.Token] <- verdict{sent: d.Kind == control.Send, demand: d.Demand}
		delete(s.waiting, d.Token)
	}
	s.out = list[:0]
	if s.timer != nil {
		s.timer.Stop()
	}
	if next := s.outbox.Next(); next != clock.Never {
		s.timer = time.AfterFunc(next.Sub(s.of.clock.Now()), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.do(s.outbox.Tick(s.of.clock.Now(), s.out[:0]))
		})
	}
}

// ask sends a question for credits. It is called with mu held.
func (s *server) ask(demand int) {
	t := s.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	s.asked, s.recalled = s.asked+1, false
	u, number := *s.url, s.asked
	t.asking.Go(func() { s.question(&u, demand, number) })
}

// question asks for credits and passes the answer on. Nothing is the answer to a question that a newer one has replaced, which the wallet knows,
// and to one that has been recalled, which it need not know: that is asked again.
func (s *server) question(u *url.URL, demand, number int) {
	credits, err := s.inquire(u, demand)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.of.clock.Now()
	switch {
	case s.of.ctx.Err() != nil: // closed
	case err != nil || credits < 0:
		// Nobody is there, or nobody who hands out credits, perhaps no longer. Requests shall find out for themselves.
		s.outbox.Throttle().Hear(now, control.Notice{Kind: control.Parted, Credits: -1})
		s.do(s.outbox.Hear(now, control.Notice{Kind: control.Told, Credits: -1}, s.out[:0]))
	case credits == 0 && number == s.asked && s.outbox.Len() == 0:
		s.recalled = true
	case credits == 0 && number == s.asked:
		s.ask(s.outbox.Len())
	default:
		s.do(s.outbox.Hear(now, control.Notice{Kind: control.Told, Credits: credits}, s.out[:0]))
	}
}

// inquire asks once.
func (s *server) inquire(u *url.URL, demand int) (credits int, err error) {
	r, err := http.NewRequestWithContext(s.of.ctx, http.MethodOptions, u.String(), http.NoBody)
	if err != nil {
		return -1, err
	}
	r.Header.Set(CreditsHeader, said{client: s.name, demand: demand, asks: true}.String())
	resp, err := s.of.base.RoundTrip(r)
	if err != nil {
		return -1, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // so that the connection can be used again
	return creditsOf(resp), resp.Body.Close()
}
