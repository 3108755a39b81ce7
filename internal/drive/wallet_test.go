//go:build linux

package drive_test

import (
	"context"
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
	"spillway/servers"
	"spillway/servers/synthetic"
	"spillway/workloads"
)

// stackOf returns a controller of the catalog, for clients that wait as long as it takes.
func stackOf(t *testing.T, name string) control.Stack {
	t.Helper()
	s, err := catalog.New(name, map[string]any{"client_delay": "0s", "client_queue": 0}, catalog.Env{Cores: 2, SLO: 20 * time.Millisecond, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWalletsAtServersWithoutCredits: against memcached itself, and against a server whose controller hands out none, clients with wallets
// send all that is due, when it is due.
func TestWalletsAtServersWithoutCredits(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(*testing.T) string{
		"memcached": func(t *testing.T) string { addr, _ := startMemcached(t); return addr },
		"none":      func(t *testing.T) string { return startOurs(t) },
	} {
		for _, controller := range []string{"protego", "svalinn"} {
			t.Run(name+" "+controller, func(t *testing.T) {
				t.Parallel()
				addr := serve(t)
				p := plan(t, addr, 300*time.Millisecond)
				p.Open = func(ctx context.Context, o drive.Opening) (load.Target, error) {
					return target.Memcached(ctx, target.Config{
						Addr: addr, Conns: 4, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute, Timings: true,
						NewClient: stackOf(t, controller).NewClient, Priorities: []uint8{0, 1},
					})
				}
				r, err := drive.Run(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				all := r.Tally.All()
				if r.Arrivals != memcachedRate*3/10 || all.Fates[reqlog.OK] != r.Arrivals || all.Hits != r.Arrivals {
					t.Errorf("%d arrivals, %v, %d hits", r.Arrivals, all.Fates, all.Hits)
				}
				if r.Counters != (load.Counters{}) {
					t.Errorf("%+v", r.Counters)
				}
			})
		}
	}
}

// TestControlOnThisComputer: clients and a server of ours under control on a real machine, more loaded than it can be. Whatever is shed, all
// is accounted for.
func TestControlOnThisComputer(t *testing.T) {
	// The published waits at clients are shorter than a round trip over sockets.
	patient := map[string]any{"client_delay": "5ms"}
	for controller, settings := range map[string]map[string]any{
		"protego": patient, "svalinn": patient, "dagor": nil, "seda": {"client_delay": "5ms", "initial": 400.0},
	} {
		t.Run(controller, func(t *testing.T) {
			stack, err := catalog.New(controller, settings, catalog.Env{Cores: 2, SLO: 20 * time.Millisecond, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			h, err := synthetic.NewHost(synthetic.Config{Buffer: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			config := servers.Default()
			config.Listen, config.Loops = []string{"127.0.0.1:0"}, 2
			s, err := servers.New(h, stack, config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx) }()
			r := underControl(t, "memcached://"+s.Addrs()[0], stack)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			all := r.Tally.All()
			answered := all.Completed() + all.Shed() + all.Fates[reqlog.TimedOut]
			if err := r.Tally.Check(r.Arrivals); err != nil || answered != r.Arrivals || all.Completed() == 0 {
				t.Errorf("%v: of %d arrivals %v", err, r.Arrivals, all.Fates)
			}
			if r.Counters.Lost > 0 || r.Counters.OutOfStep > 0 || r.Counters.WindowFull > 0 {
				t.Errorf("%+v", r.Counters)
			}
			for _, code := range r.Invalid {
				if code == drive.WarnAccounting || code == drive.WarnLittle {
					t.Errorf("not valid: %v; %v in flight, %v", r.Invalid, r.InFlight, all.Fates)
				}
			}
		})
	}
}

func underControl(t *testing.T, addr string, stack control.Stack) drive.Result {
	t.Helper()
	amount := dist.Constant{Unit: dist.Nanoseconds, Value: 100e3}
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{
		{Name: "cpu", Share: 0.5, Work: []workloads.SyntheticStep{{Amount: amount}}},
		{Name: "inside", Share: 0.5, Work: []workloads.SyntheticStep{
			{Kind: machine.Enter}, {Amount: amount}, {Kind: machine.Leave},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const clients, window = 16, 300 * time.Millisecond
	g, err := load.NewGenerator(load.Config{
		Seed: 1, Clients: clients, Workload: w, Arrivals: arrival.NewPoisson(20_000, 0), End: clock.Instant(window),
	})
	if err != nil {
		t.Fatal(err)
	}
	classes := []load.Class{{Name: "cpu", SLO: 20 * time.Millisecond}, {Name: "inside", SLO: 20 * time.Millisecond, Priority: 1}}
	r, err := drive.Run(t.Context(), drive.Plan{
		Generator: g, Classes: classes, Clock: clock.NewReal(), Dial: 10 * time.Second, Window: window, Drain: time.Second, Pace: drive.PaceSleep,
		Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
			return target.Memcached(ctx, target.Config{
				Addr: addr, Conns: clients, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: 500 * time.Millisecond, Timings: true,
				NewClient: stack.NewClient, Seed: 1, Priorities: []uint8{0, 1}, SLOs: []time.Duration{20 * time.Millisecond, 20 * time.Millisecond},
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
