package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
	"spillway/control/credit"
	"spillway/guard"
)

// wire is a network without sockets: a request is served in the goroutine that sends it.
type wire struct {
	handler http.Handler
	broken  atomic.Bool
	mu      sync.Mutex
	log     []string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.broken.Load() {
		return nil, errors.New("no route")
	}
	_, rest, _ := strings.Cut(r.Header.Get(guard.CreditsHeader), " ")
	w.mu.Lock()
	w.log = append(w.log, r.Method+" "+rest)
	w.mu.Unlock()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return rec.Result(), r.Context().Err()
}

func (w *wire) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.log = nil }()
	return strings.Join(w.log, ", ")
}

// bank hands out the credits that a test says.
type bank struct {
	control.None
	credits int
	demands []int
	clients map[uint32]bool
	forgot  int
	wake    bool // everybody is to be told
	sender  uint32
}

func (b *bank) Decide(_ clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtArrival {
		b.sender = r.Client
	}
	return control.Decision{}
}

func (b *bank) Demand(_ clock.Instant, client uint32, n int) {
	b.demands = append(b.demands, n)
	if b.clients == nil {
		b.clients = make(map[uint32]bool)
	}
	b.clients[client] = true
}

func (b *bank) Credits(clock.Instant, uint32) int { return b.credits }

func (b *bank) Wake(_ clock.Instant, out []control.Action) []control.Action {
	if !b.wake {
		return out
	}
	b.wake = false
	for client := range b.clients {
		out = append(out, control.Action{Kind: control.Credit, Credits: int32(b.credits), Request: control.Request{Client: client}})
	}
	return out
}

func (b *bank) Forget(_ clock.Instant, client uint32) {
	delete(b.clients, client)
	b.forgot++
}

// grant lets the bank have n credits for everybody from now on, and tells those who wait.
func (b *bank) grant(t *testing.T, g *guard.Guard, n int) {
	t.Helper()
	g.With(func(clock.Instant) { b.credits, b.wake = n, true })
	done, err := g.Acquire(t.Context(), control.Request{}) // whatever happens at the gate
	if err != nil {
		t.Fatal(err)
	}
	done(false)
}

type creditWorld struct {
	bank   *bank
	guard  *guard.Guard
	wire   *wire
	client *guard.Transport
}

// newCreditWorld returns a guarded service at the other end of a wire. Its clients wait for up to a minute for credits.
func newCreditWorld(t *testing.T, credits int, service http.HandlerFunc) *creditWorld {
	t.Helper()
	b := &bank{credits: credits}
	g, err := guard.NewFromStack(control.Stack{Controller: b}, guard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &creditWorld{bank: b, guard: g, wire: &wire{handler: g.Handler(service, nil)}}
	c := credit.ClientConfig{RTT: time.Millisecond, Delay: time.Minute, Queue: 4}
	w.client = guard.NewTransport(w.wire, c.NewOutbox)
	return w
}

func (w *creditWorld) close() {
	w.guard.Close()
	w.client.Close()
}

// get asks for something from another goroutine; the text says what came of it.
func (w *creditWorld) get(ctx context.Context) chan string {
	done := make(chan string, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service/x", nil)
		if err != nil {
			done <- err.Error()
			return
		}
		resp, err := w.client.RoundTrip(r)
		if err != nil {
			done <- err.Error()
			return
		}
		body, err := io.ReadAll(resp.Body)
		done <- fmt.Sprintf("%d %s %v", resp.StatusCode, body, errors.Join(err, resp.Body.Close()))
	}()
	return done
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func received(t *testing.T, c chan string, want string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	default:
		if want != "" {
			t.Errorf("nothing came, want %q", want)
		}
	}
}

// A client meets its server by a question, and lets as many requests leave as it has credits for. Without any it asks for one, and learns of it
// when there is one.
func TestTransportWaitsForCredits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		w := newCreditWorld(t, 2, func(rw http.ResponseWriter, r *http.Request) { <-release; hello(rw, r) })
		defer w.close()
		var gets [3]chan string
		for i := range gets {
			gets[i] = w.get(t.Context())
			synctest.Wait()
		}
		if got, want := w.wire.said(), "OPTIONS 1 ask, GET 0, GET 0"; got != want || w.guard.Stats().InService != 2 {
			t.Errorf("the client said %q, want %q; %d in service with two credits", got, want, w.guard.Stats().InService)
		}
		w.guard.With(func(clock.Instant) { w.bank.credits = 0 })
		release <- true
		received(t, gets[0], "200 hello <nil>")
		release <- true
		received(t, gets[1], "200 hello <nil>")
		received(t, gets[2], "")
		if got, want := w.wire.said(), "OPTIONS 1 ask"; got != want {
			t.Errorf("without credits the client said %q, want %q", got, want)
		}
		w.bank.grant(t, w.guard, 1)
		synctest.Wait()
		if got, want := w.wire.said(), "GET 0"; got != want {
			t.Errorf("when there was a credit the client said %q, want %q", got, want)
		}
		release <- true
		received(t, gets[2], "200 hello <nil>")
	})
}

// A question that stays open for long is answered with nothing, and asked again as long as somebody waits; if nobody does, when somebody
// comes.
func TestTransportAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newCreditWorld(t, 0, hello)
		defer w.close()
		get := w.get(t.Context())
		<-time.After(12 * time.Second)
		received(t, get, "")
		if got, want := w.wire.said(), "OPTIONS 1 ask, OPTIONS 1 ask, OPTIONS 1 ask"; got != want {
			t.Errorf("in 12 s it said %q, want %q", got, want)
		}
		<-time.After(time.Minute)
		received(t, get, guard.ErrHeldBack.Error())
		<-time.After(time.Minute)
		w.wire.said()
		<-time.After(time.Minute)
		if got := w.wire.said(); got != "" {
			t.Errorf("with nothing to send it said %q", got)
		}
		get = w.get(t.Context())
		synctest.Wait()
		w.bank.grant(t, w.guard, 1)
		received(t, get, "200 hello <nil>")
	})
}

// To a server that knows nothing of credits, and to one that cannot be reached, everything is sent.
func TestTransportToStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newCreditWorld(t, 0, hello)
		defer w.close()
		w.wire.handler = http.HandlerFunc(hello)
		for range 3 {
			received(t, w.get(t.Context()), "200 hello <nil>")
		}
		w.wire.broken.Store(true)
		received(t, w.get(t.Context()), "no route")
		other := newCreditWorld(t, 0, hello)
		defer other.close()
		other.wire.broken.Store(true)
		for range 3 {
			received(t, other.get(t.Context()), "no route")
		}
	})
}

// A request whose caller has given it up, and one that fails, are no longer under way.
func TestTransportGivesCreditsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newCreditWorld(t, 0, hello)
		defer w.close()
		ctx, cancel := context.WithCancel(t.Context())
		given := w.get(ctx)
		synctest.Wait()
		cancel()
		received(t, given, context.Canceled.Error())
		w.bank.grant(t, w.guard, 1)
		synctest.Wait() // the credit is for those to come
		for range 3 {
			received(t, w.get(t.Context()), "200 hello <nil>")
		}
		w.wire.broken.Store(true)
		received(t, w.get(t.Context()), "no route")
		w.wire.broken.Store(false)
		received(t, w.get(t.Context()), "200 hello <nil>")
	})
}

// A request that was given up while it waited is no demand any more, and takes no place in the queue.
func TestTransportWithdraws(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newCreditWorld(t, 0, hello)
		defer w.close()
		ctx, cancel := context.WithCancel(t.Context())
		var given [4]chan string // as many as may wait
		for i := range given {
			given[i] = w.get(ctx)
		}
		synctest.Wait()
		cancel()
		for _, g := range given {
			received(t, g, context.Canceled.Error())
		}
		var gets [4]chan string
		for i := range gets {
			gets[i] = w.get(t.Context())
			synctest.Wait()
		}
		received(t, gets[0], "") // none has had to make room
		w.wire.said()
		w.bank.grant(t, w.guard, 1)
		for _, g := range gets {
			received(t, g, "200 hello <nil>")
		}
		if got, want := w.wire.said(), "GET 3, GET 2, GET 1, GET 0"; got != want {
			t.Errorf("the client said %q, want %q", got, want)
		}
	})
}

// What Describe says of a request decides at a client that goes by priorities.
func TestTransportDescribes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack, err := catalog.New("dagor", nil, catalog.Env{Cores: 1, SLO: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		level := &bank{} // what it grants are levels to this client: at 0 only the most important go
		g, err := guard.NewFromStack(control.Stack{Controller: level}, guard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		client := guard.NewTransport(&wire{handler: g.Handler(http.HandlerFunc(hello), nil)}, stack.NewClient)
		defer client.Close()
		client.Describe = func(r *http.Request) control.Outgoing {
			return control.Outgoing{Priority: map[string]uint16{"/vital": 0, "/extra": 127}[r.URL.Path]}
		}
		ask := func(path string) error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://service.test"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.RoundTrip(r)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
		if err := ask("/vital"); err != nil { // which is how the client hears the level
			t.Fatal(err)
		}
		if err := ask("/extra"); !errors.Is(err, guard.ErrHeldBack) {
			t.Errorf("what is less important than the level: %v, want that it is held back", err)
		}
		if err := ask("/vital"); err != nil {
			t.Errorf("the most important: %v", err)
		}
	})
}

// What is shed tells its client of credits too; who is held back for too long, or by too many, is given up at the client.
func TestTransportUnderOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		w := newCreditWorld(t, 1, func(rw http.ResponseWriter, r *http.Request) { <-release; rw.WriteHeader(503) })
		defer w.close()
		first := w.get(t.Context())
		synctest.Wait()
		var queue [5]chan string
		for i := range queue {
			queue[i] = w.get(t.Context())
			synctest.Wait()
		}
		received(t, queue[0], guard.ErrHeldBack.Error()) // four may wait, so the oldest makes room
		w.guard.With(func(clock.Instant) { w.bank.credits = 2 })
		release <- true
		received(t, first, "503  <nil>")
		if n := w.guard.Stats().InService; n != 2 {
			t.Errorf("%d in service after a shed reply with two credits", n)
		}
		<-time.After(time.Minute)
		received(t, queue[3], guard.ErrHeldBack.Error())
		close(release)
	})
}

// The credits of clients that send nothing for long are taken back, and questions end with the Guard.
func TestClientsOfAGuardAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newCreditWorld(t, 1, hello)
		received(t, w.get(t.Context()), "200 hello <nil>")
		other := &creditWorld{client: guard.NewTransport(w.wire, credit.DefaultClient().NewOutbox), wire: w.wire}
		defer other.client.Close()
		<-time.After(2 * time.Minute)
		if w.bank.forgot != 0 {
			t.Error("forgotten, though nobody came")
		}
		other.get(t.Context())
		synctest.Wait()
		if w.bank.forgot != 1 || len(w.bank.clients) != 1 {
			t.Errorf("%d forgotten, %d known", w.bank.forgot, len(w.bank.clients))
		}
		w.guard.With(func(clock.Instant) { w.bank.credits = 0 })
		held := w.get(t.Context()) // its first request shows that there are no credits; it waits for one with the next
		received(t, held, "200 hello <nil>")
		held = w.get(t.Context())
		received(t, held, "")
		w.guard.Close()
		received(t, held, "503 shutting down\n <nil>")
		w.client.Close()
	})
}

// A header that is not one of ours changes nothing.
func TestStrangeCreditHeaders(t *testing.T) {
	t.Parallel()
	b := &bank{credits: 1}
	g, err := guard.NewFromStack(control.Stack{Controller: b}, guard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	h := g.Handler(http.HandlerFunc(hello), func(*http.Request) control.Request { return control.Request{Client: 7} })
	for header, ours := range map[string]bool{
		"": false, "a": false, "a b": false, "a -1": false, "a 1 b": false, "a 1 ask b": false, strings.Repeat("a", 65) + " 1": false, "a 0": true, "a  3": true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(guard.CreditsHeader, header)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		told := rec.Header().Get(guard.CreditsHeader) == "1"
		if rec.Body.String() != "hello" || told != ours || (b.sender == 7) == ours {
			t.Errorf("%q: %q, told %v, from client %d", header, rec.Body, told, b.sender)
		}
	}
}

// TestSvalinnOverHTTP: four clients that ask for far more than one slot can do. What is over is held back at the clients; the server sheds
// next to nothing, and what it serves is in time.
func TestSvalinnOverHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack, err := catalog.New("svalinn", map[string]any{
			"budget": "20ms", "prepare": "20ms", "interval": "40ms", "rtt": "1ms", "client_delay": "20ms", "section": "off",
		}, catalog.Env{Cores: 1, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.NewFromStack(stack, guard.Config{Gate: control.GateConfig{Slots: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		w := &wire{handler: g.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			<-time.After(5 * time.Millisecond)
			hello(rw, r)
		}), nil)}
		var served, held, shed, slow atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			client := guard.NewTransport(w, stack.NewClient)
			defer client.Close()
			for range 800 { // 200 a second each, for four seconds: four times what can be served
				all.Go(func() {
					began := time.Now()
					r := httptest.NewRequest(http.MethodGet, "http://service/", nil)
					resp, err := client.RoundTrip(r.WithContext(t.Context()))
					switch {
					case errors.Is(err, guard.ErrHeldBack):
						held.Add(1)
						return
					case err != nil:
						t.Error(err)
						return
					case resp.StatusCode != http.StatusOK:
						shed.Add(1)
					default:
						served.Add(1)
					}
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
					if time.Since(began) > 50*time.Millisecond {
						slow.Add(1)
					}
				})
				<-time.After(1250 * time.Microsecond)
			}
		}
		all.Wait()
		if n := served.Load(); n < 600 || held.Load() < 1500 || shed.Load() > 200 || slow.Load() > n/10 {
			t.Errorf("%d served, %d of them slow, %d held back, %d shed", n, slow.Load(), held.Load(), shed.Load())
		}
	})
}
