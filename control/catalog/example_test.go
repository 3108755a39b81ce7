package catalog_test

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
)

// A control from its name and settings, as they stand in a profile. What is wrong is said with a remedy.
func ExampleNew() {
	env := catalog.Env{Cores: 8, SLO: 10 * time.Millisecond}
	if _, err := catalog.New("fixed", map[string]any{"limt": 4}, env); err != nil {
		fmt.Println(err)
	}
	stack, err := catalog.New("fixed", map[string]any{"limit": 4, "queue": 16}, env)
	if err != nil {
		fmt.Println(err)
		return
	}
	gate := control.NewGate(stack.Controller, control.GateConfig{})
	for id := range uint64(21) {
		gate.Arrive(clock.Instant(id), control.Request{ID: id + 1}, nil)
	}
	s := gate.Stats()
	fmt.Println(s.InService, "in service,", s.Queued, "wait,", s.Shed[control.QueueFull]+s.Shed[control.Limit], "turned away")
	// Output:
	// controller fixed: unknown setting "limt"; did you mean "limit"?
	// 4 in service, 16 wait, 1 turned away
}

// What there is to say of a controller: this is what `loadgen controllers NAME` prints.
func ExampleDescribe() {
	e, _ := catalog.Describe("codel")
	fmt.Println(e.Source)
	for _, s := range e.Settings[:e.Common] {
		fmt.Printf("%s: %s, by default %s\n", s.Name, s.Type, s.Default)
	}
	// Output:
	// RFC 8289; Nichols and Jacobson, ACM Queue 10(5), 2012
	// target: duration, by default 5ms
	// interval: duration, by default 100ms
}
