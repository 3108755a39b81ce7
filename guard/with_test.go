package guard_test

import (
	"runtime"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/capacity"
	"spillway/guard"
)

// TestControllerIsToldFromOutside: a grant comes between two requests, and what waits is seen.
func TestControllerIsToldFromOutside(t *testing.T) {
	t.Parallel()
	c := capacity.DefaultLimiter()
	c.Baseline = "0"
	limiter := capacity.NewLimiter(c)
	g, err := guard.NewFromStack(control.Stack{Controller: limiter}, guard.Config{Gate: control.GateConfig{Slots: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Acquire(t.Context(), control.Request{}); err == nil {
		t.Fatal("nothing is granted, and a request is let in")
	}
	g.With(func(now clock.Instant) {
		if err := limiter.Grant(now, []float64{1000}, now.Add(time.Hour)); err != nil {
			t.Error(err)
		}
	})
	var done func(bool)
	for done == nil { // until the bucket has something in it
		done, _ = g.Acquire(t.Context(), control.Request{})
	}
	if got := g.QueueDelay(); got != 0 {
		t.Errorf("nobody waits, and the queueing delay is %v", got)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		for {
			if again, err := g.Acquire(t.Context(), control.Request{}); err == nil {
				again(false)
				return
			}
		}
	}()
	for g.QueueDelay() == 0 {
		runtime.Gosched()
	}
	done(false)
	<-waited
}
