//go:build linux

package drive_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/target"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/servers"
	"spillway/servers/synthetic"
	"spillway/sim"
	"spillway/workloads"
)

// The whole of an overload control, with both its halves, on two grounds: simulated, and over real sockets on a modelled machine.

// overload is a small experiment: a machine with a bus, two classes of which one is bound by it, and half as much load again as there is room
// for.
type overload struct {
	controller string
	settings   map[string]any
	servers    int
	retry      bool
	rate       float64
	window     time.Duration
	scale      int
}

const (
	overloadSeed    = 3
	overloadClients = 20
	overloadSLO     = 3 * time.Millisecond
	overloadTimeout = 20 * time.Millisecond
)

var overloadMachine = machine.Spec{Cores: 4, Network: 20 * time.Microsecond, Bus: machine.Bus{Total: 4e9, PerCore: 2e9}}

func (o *overload) classes() []load.Class {
	return []load.Class{{Name: "cpu", SLO: overloadSLO}, {Name: "memory", SLO: overloadSLO, Priority: 1}}
}

func (o *overload) stack(t *testing.T) control.Stack {
	t.Helper()
	s, err := catalog.New(o.controller, o.settings, catalog.Env{Cores: overloadMachine.Cores, SLO: overloadSLO, Seed: overloadSeed})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (o *overload) generator(t *testing.T, start clock.Instant) *load.Generator {
	t.Helper()
	constant := func(kind machine.StepKind, v float64, unit dist.Unit) workloads.SyntheticStep {
		return workloads.SyntheticStep{Kind: kind, Amount: dist.Constant{Unit: unit, Value: v}}
	}
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{
		{Name: "cpu", Share: 0.5, Work: []workloads.SyntheticStep{constant(machine.Compute, 150e3, dist.Nanoseconds)}},
		{Name: "memory", Share: 0.5, Work: []workloads.SyntheticStep{
			{Kind: machine.Enter}, constant(machine.Stream, 300e3, dist.Bytes), {Kind: machine.Leave},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{
		Seed: overloadSeed, Clients: overloadClients, Workload: w, Arrivals: arrival.NewPoisson(o.rate, start), End: start.Add(o.window),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// outcome is what became of one request, with its instants counted from when it was due.
type outcome struct {
	Fate            reqlog.Fate
	Reason          uint8
	Attempts        uint8
	Sent, Done      time.Duration
	Held            time.Duration
	Queued, Service time.Duration
}

func outcomeOf(r *reqlog.Record) outcome {
	o := outcome{Fate: r.Fate, Reason: r.Reason, Attempts: r.Attempts, Done: r.Latency(), Queued: r.Queued, Service: r.Service}
	if r.Attempts > 0 {
		o.Sent, o.Held = r.Sent.Sub(r.Intended), r.Held
	}
	return o
}

// simulated runs the experiment in virtual time, with the load beginning at an instant of the servers' time.
func (o *overload) simulated(t *testing.T, start clock.Instant) map[uint64]outcome {
	t.Helper()
	list := map[uint64]outcome{}
	var stations []station.Config
	var client control.Stack
	for range o.servers {
		client = o.stack(t)
		stations = append(stations, station.Config{
			Controller: client.Controller, Machine: overloadMachine, Locks: 1,
			Sections: station.Sections(client, 2), LockQueues: station.LockQueues(client, 1),
		})
	}
	c := sim.Config{
		Station: stations[0], More: stations[1:], Costs: sim.OwnSteps{}, Generator: o.generator(t, start), NewClient: client.NewClient,
		Tally:   load.NewTally(o.classes(), start, start.Add(o.window)),
		Timeout: overloadTimeout, Budget: client.Budget, Drain: 2 * overloadTimeout, Seed: overloadSeed,
		Settled: func(r *reqlog.Record) { list[r.Seq] = outcomeOf(r) },
	}
	if o.retry {
		c.Retry = &load.Retry{Budget: 0.1}
	}
	if _, err := sim.Run(c); err != nil {
		t.Fatal(err)
	}
	return list
}

// witness notes the instant at which a server was first done with a request, on its own clock.
type witness struct {
	control.Controller
	done atomic.Int64
}

func (w *witness) Observe(now clock.Instant, e control.Event) {
	if e.Kind == control.Finished || e.Kind == control.Refused {
		w.done.CompareAndSwap(0, int64(now))
	}
	w.Controller.Observe(now, e)
}

// modelled runs it over sockets. start is the instant at which the load began on the first server's clock.
func (o *overload) modelled(t *testing.T) (list map[uint64]outcome, r drive.Result, start clock.Instant) {
	t.Helper()
	addr, seen := "memcached://", &witness{}
	var client control.Stack
	for i := range o.servers {
		stack := o.stack(t)
		client = stack
		if i == 0 {
			seen.Controller = stack.Controller
			stack.Controller = seen
			if issuer, ok := seen.Controller.(control.Issuer); ok {
				stack.Controller = struct {
					*witness
					control.Issuer
				}{seen, issuer}
			}
		}
		if i > 0 {
			addr += ","
		}
		addr += o.serve(t, stack)
	}
	stretched, err := clock.NewStretched(o.scale)
	if err != nil {
		t.Fatal(err)
	}
	list = map[uint64]outcome{}
	firstReply := clock.Never
	c := target.Config{
		Addr: addr, Conns: overloadClients, Timeout: overloadTimeout, Model: &target.Model{Network: overloadMachine.Network},
		SLOs: []time.Duration{overloadSLO, overloadSLO}, NewClient: client.NewClient, Seed: overloadSeed, Priorities: []uint8{0, 1},
	}
	if o.retry {
		c.Retry = &load.Retry{Budget: 0.1}
	}
	r, err = drive.Run(t.Context(), drive.Plan{
		Generator: o.generator(t, 0), Classes: o.classes(), Clock: stretched, Dial: 10 * time.Second,
		Window: o.window, Drain: 2 * overloadTimeout, Pace: drive.PaceSleep,
		Open: func(ctx context.Context, p drive.Opening) (load.Target, error) {
			own := c
			own.Clock, own.Spin = p.Clock, p.Spin
			own.Settle = func(rec *reqlog.Record) {
				list[rec.Seq] = outcomeOf(rec)
				if rec.Reason != 0 && rec.Attempts > 0 || rec.Fate.Completed() {
					firstReply = min(firstReply, rec.Done)
				}
				p.Settle(rec)
			}
			return target.Memcached(ctx, own)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// What it was first done with was read first, one network delay later.
	return list, r, clock.Instant(seen.done.Load()).Add(overloadMachine.Network - firstReply.Sub(r.Start))
}

// serve serves synthetic requests on a modelled machine.
func (o *overload) serve(t *testing.T, stack control.Stack) (addr string) {
	t.Helper()
	config := servers.Default()
	config.Listen = []string{"127.0.0.1:0"}
	config.Model = &servers.Model{Machine: overloadMachine, Scale: o.scale, Costs: synthetic.Costs{Bus: true}}
	s, err := servers.New(synthetic.New(), stack, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := s.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
	return s.Addrs()[0]
}

// TestControlOnTwoGrounds: what becomes of requests under an overload control, both halves of it, is the same over sockets as simulated, to
// the nanosecond. The modelled network takes 600 µs of the wall clock, and no computer keeps to that: clients and servers have to wait for each
// other.
func TestControlOnTwoGrounds(t *testing.T) {
	// With two servers it must be control that does not tick: they have not been started at one instant, as those of the simulator are.
	for _, o := range []overload{
		{controller: "seda", settings: map[string]any{"initial": 1000.0, "client_delay": "500us"}},
		{controller: "dagor"},
		{controller: "protego", settings: map[string]any{"client_delay": "500us", "rtt": "40us"}},
		{controller: "svalinn", settings: map[string]any{"client_delay": "500us", "rtt": "40us"}},
		{controller: "fixed", servers: 2, settings: map[string]any{"limit": 4, "queue": 8}},
		{controller: "seda", servers: 2, settings: map[string]any{"initial": 400.0, "client_delay": "500us"}},
	} {
		o.servers = max(o.servers, 1)
		o.retry = o.servers > 1
		o.rate, o.window, o.scale = 40_000*float64(o.servers), 10*time.Millisecond, 30
		t.Run(o.controller+strconv.Itoa(o.servers), func(t *testing.T) {
			real, r, start := o.modelled(t)
			if r.Counters.Disturbed > 0 || len(r.Invalid) > 0 {
				t.Errorf("not valid: %v, %+v", r.Invalid, r.Counters)
			}
			virtual := o.simulated(t, start)
			differ, shed, twice := 0, 0, 0
			for seq, want := range virtual {
				got := real[seq]
				if want.Fate == reqlog.Refused || want.Reason != 0 {
					shed++
				}
				if want.Attempts > 1 {
					twice++
				}
				if got == want {
					continue
				}
				if differ++; differ <= 3 {
					t.Logf("request %d: simulated %+v, over sockets %+v", seq, want, got)
				}
			}
			if len(real) != len(virtual) || shed == 0 || o.controller == "fixed" != (twice > 0) {
				t.Errorf("%d requests over sockets, %d simulated, of them %d shed and %d sent twice", len(real), len(virtual), shed, twice)
			}
			if differ > 0 {
				t.Errorf("%d of %d requests differ", differ, len(virtual))
			}
		})
	}
}
