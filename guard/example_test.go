package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/catalog"
	"spillway/control/limit"
	"spillway/guard"
)

// A whole control from its name: the memory section has room for one here, and whoever finds it full is dropped halfway.
func ExampleGuard_Begin() {
	stack, err := catalog.New("svalinn", map[string]any{"bandit": "fixed", "capacity": 1}, catalog.Env{Cores: 4, SLO: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := guard.NewFromStack(stack, guard.Config{Gate: control.GateConfig{Slots: 8}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()

	work := func(name string, inside func()) {
		t, err := g.Begin(context.Background(), control.Request{})
		if err != nil {
			fmt.Println(name, "turned away:", err)
			return
		}
		defer t.Done(true) // counts only if we do not get to the end
		t.OnDrop(func() { fmt.Println(name, "cleans up") })
		leave, err := t.Memory()
		if err != nil {
			fmt.Println(name, "dropped:", err)
			return
		}
		defer leave()
		inside()
		fmt.Println(name, "done")
		t.Done(false)
	}
	work("first", func() { work("second", nil) })
	// Output:
	// second cleans up
	// second dropped: guard: overloaded: memory
	// first done
}

// One request is served at a time, and nobody may wait: the second is turned away while the first is being served.
func ExampleGuard_Acquire() {
	controller := limit.NewFixed(limit.FixedConfig{Limit: 1, Queue: 0}, 1)
	g := guard.New(control.NewGate(controller, control.GateConfig{}), clock.NewReal(), nil)
	defer g.Close()

	done, err := g.Acquire(context.Background(), control.Request{})
	fmt.Println("first:", err)

	_, err = g.Acquire(context.Background(), control.Request{})
	var overloaded *guard.Overloaded
	if errors.As(err, &overloaded) {
		fmt.Println("second:", overloaded.Reason)
	}

	done(false)
	done, err = g.Acquire(context.Background(), control.Request{})
	fmt.Println("third:", err)
	done(false)
	// Output:
	// first: <nil>
	// second: limit
	// third: <nil>
}

// A web service that serves eight requests at a time, and lets CoDel drop from the queue in front of them when they wait longer
// than 5 ms for more than 100 ms on end. Its handlers stay as they are.
func ExampleGuard_Handler() {
	g := guard.New(
		control.NewGate(aqm.NewCoDel(aqm.DefaultCoDel()), control.GateConfig{Slots: 8}),
		clock.NewReal(), nil,
	)
	defer g.Close()

	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := g.Handler(hello, nil)

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 hello
}

// Both halves of a control over HTTP: the service hands out credits, and the client holds back what it has none for. Here it is one request a time
// that the server has a core for, and nobody waits long for a credit.
func ExampleNewTransport() {
	settings := map[string]any{"section": "off", "client_delay": "1s"}
	stack, err := catalog.New("svalinn", settings, catalog.Env{Cores: 1, SLO: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := guard.NewFromStack(stack, guard.Config{Gate: control.GateConfig{Slots: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	server := httptest.NewServer(g.Handler(hello, nil))
	defer server.Close()
	defer g.Close()

	transport := guard.NewTransport(nil, stack.NewClient)
	defer transport.Close()
	client := &http.Client{Transport: transport}
	resp, err := client.Get(server.URL)
	if errors.Is(err, guard.ErrHeldBack) {
		fmt.Println("try again later")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "with credits left:", resp.Header.Get(guard.CreditsHeader) != "0")
	// Output: 200 OK with credits left: true
}

// A limit on how many are served, and CoDel for those who wait: a chain asks the limit first, so that CoDel judges only requests
// that could start.
func ExampleGuard_chain() {
	g := guard.New(
		control.NewGate(control.NewChain(
			limit.NewFixed(limit.FixedConfig{Limit: 4, Queue: 1000}, 1),
			aqm.NewCoDel(aqm.DefaultCoDel()),
		), control.GateConfig{}),
		clock.NewReal(), nil,
	)
	defer g.Close()

	done, err := g.Acquire(context.Background(), control.Request{Class: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done(true) // counts only if we never get to the next call
	fmt.Println("in service:", g.Stats().InService)
	done(false)
	fmt.Println("in service:", g.Stats().InService)
	// Output:
	// in service: 1
	// in service: 0
}
