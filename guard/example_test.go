package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
	"spillway/guard"
)

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
