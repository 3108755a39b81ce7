package sim_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
	"spillway/guard"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/sim"
	"spillway/workloads"
)

// transcript writes down everything that a controller is asked and told, and by whom and when.
type transcript struct {
	control.Controller
	lines []string
}

func (t *transcript) Decide(now clock.Instant, s control.Stage, r *control.Request) control.Decision {
	d := t.Controller.Decide(now, s, r)
	t.lines = append(t.lines, fmt.Sprintf("%d client %d: decide at stage %d: %d %v", now, r.Client, s, d.Verdict, d.Reason))
	return d
}

func (t *transcript) Observe(now clock.Instant, e control.Event) {
	t.lines = append(t.lines, fmt.Sprintf("%d client %d: event %d, %v, served %d, waited %d", now, e.Request.Client, e.Kind, e.Reason, e.Service, e.Request.Waited))
	t.Controller.Observe(now, e)
}

const (
	sameRequests = 5000
	sameCores    = 2
)

// sameGenerator draws the arrivals and the work that both drivers get: 1.5 times what two cores can do, each request from a client of
// its own as far as a transcript can tell.
func sameGenerator(t *testing.T) *load.Generator {
	t.Helper()
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{{Name: "only", Share: 1, Work: []workloads.SyntheticStep{
		{Kind: machine.Compute, Amount: dist.Exponential{Unit: dist.Nanoseconds, Expect: 1e6}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	const rate = 1.5 * sameCores * 1000
	end := clock.Instant(sameRequests * int64(time.Second) / rate)
	g, err := load.NewGenerator(load.Config{Seed: 7, Clients: 1 << 20, Workload: w, Arrivals: arrival.NewPoisson(rate, 0), End: end})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSameDecisionsInRealAndVirtualTime drives one controller with goroutines that block in guard.Acquire, and with the simulator, and
// finds the same transcript: every question, answer and event, at the same nanosecond.
func TestSameDecisionsInRealAndVirtualTime(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func() control.Controller{
		"none":  func() control.Controller { return control.None{} },
		"codel": func() control.Controller { return aqm.NewCoDel(aqm.DefaultCoDel()) },
		"fixed": func() control.Controller {
			return limit.NewFixed(limit.FixedConfig{Limit: sameCores, Queue: 20}, sameCores)
		},
		"chain": func() control.Controller {
			return control.NewChain(limit.NewFixed(limit.FixedConfig{Limit: 1, Queue: 200}, sameCores), aqm.NewCoDel(aqm.DefaultCoDel()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual := &transcript{Controller: build()}
			simulate(t, virtual)
			real := &transcript{Controller: build()}
			synctest.Test(t, func(t *testing.T) { serveWithGoroutines(t, real) })
			if len(virtual.lines) < 2*sameRequests {
				t.Errorf("only %d lines for about %d requests", len(virtual.lines), sameRequests)
			}
			if diff := cmp.Diff(virtual.lines, real.lines); diff != "" {
				t.Errorf("the simulator (-) and the goroutines (+) decide differently:\n%s", firstLines(diff, 40))
			}
		})
	}
}

func simulate(t *testing.T, c control.Controller) {
	t.Helper()
	g := sameGenerator(t)
	tally := load.NewTally([]load.Class{{Name: "only"}}, 0, clock.Instant(time.Hour))
	_, err := sim.Run(sim.Config{
		Station: station.Config{
			Controller: c, Gate: control.GateConfig{Slots: sameCores}, Machine: machine.Spec{Cores: sameCores},
		},
		Costs: sim.OwnSteps{}, Generator: g, Tally: tally, Drain: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// serveWithGoroutines runs in a bubble, whose timers are exact.
func serveWithGoroutines(t *testing.T, c control.Controller) {
	g := sameGenerator(t)
	clk := clock.NewReal()
	gate := guard.New(control.NewGate(c, control.GateConfig{Slots: sameCores}), clk, nil)
	var served sync.WaitGroup
	for g.Due() != clock.Never {
		rec, client, op := g.Fire()
		service := op.Steps[0].Duration
		served.Go(func() {
			<-time.After(rec.Intended.Sub(clk.Now()))
			done, err := gate.Acquire(context.Background(), control.Request{Client: client})
			if err != nil {
				return
			}
			<-time.After(service)
			done(false)
		})
	}
	served.Wait()
	gate.Close()
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
