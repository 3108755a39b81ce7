package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
	"spillway/control/credit"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/workloads"
)

// synthetic is Svalinn's two-class experiment on its 18-core machine, under a controller of the catalog.
func synthetic(t testing.TB, controller string, seed uint64, rate float64, clients int, warmup, window time.Duration) Config {
	t.Helper()
	const slo = 500 * time.Microsecond
	spec := machine.Spec{Cores: 18, Bus: machine.Bus{Total: 36e9, PerCore: 6e9}, Network: 5 * us}
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{
		{Name: "cpu", Share: 0.5, Work: []workloads.SyntheticStep{{Kind: machine.Compute, Amount: dist.Constant{Unit: dist.Nanoseconds, Value: 72e3}}}},
		{Name: "memory", Share: 0.5, Work: []workloads.SyntheticStep{
			{Kind: machine.Enter}, {Kind: machine.Stream, Amount: dist.Constant{Unit: dist.Bytes, Value: 819200}}, {Kind: machine.Leave},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	from, end := clock.Instant(warmup), clock.Instant(warmup+window)
	g, err := load.NewGenerator(load.Config{Seed: seed, Clients: clients, Workload: w, Arrivals: arrival.NewPoisson(rate, 0), End: end})
	if err != nil {
		t.Fatal(err)
	}
	stack, err := catalog.New(controller, nil, catalog.Env{
		Cores: spec.Cores, SLO: slo, Seed: seed, Classes: []catalog.Class{{Name: "cpu", Limit: slo}, {Name: "memory", Priority: 1, Limit: slo}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Station: station.Config{Controller: stack.Controller, Machine: spec, Sections: station.Sections(stack, 1)},
		Costs:   OwnSteps{}, Generator: g, Budget: stack.Budget, NewClient: stack.NewClient, Seed: seed,
		Tally:   load.NewTally([]load.Class{{Name: "cpu", SLO: slo}, {Name: "memory", SLO: slo, Priority: 1}}, from, end),
		Timeout: 10 * time.Second, Drain: time.Second,
	}
}

// underControl are the controllers with a half at the client.
var underControl = []string{"svalinn", "protego", "breakwater", "seda", "dagor"}

// digestOf hashes everything that a run tells: all records in the order of settling, all samples, and the result.
func digestOf(t *testing.T, c Config) (uint64, Result) {
	t.Helper()
	h := fnv.New64a()
	write := func(v any) {
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	c.Settled = func(r *reqlog.Record) { write(r) }
	c.SamplePeriod = time.Millisecond
	c.Sample = func(s Sample) {
		write(int64(s.Waiting()))
		for _, v := range s.ClientMeters() {
			write(v)
		}
		if m, ok := c.Station.Controller.(control.Meter); ok {
			for _, v := range m.Meters() {
				write(v)
			}
		}
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
	fmt.Fprintf(h, "%+v", r)
	return h.Sum64(), r
}

// TestControllersRepeat: under every controller with a half at the client, one seed gives the same bytes, another seed others, and at four
// times the capacity more is served in time than without control.
func TestControllersRepeat(t *testing.T) {
	t.Parallel()
	goodput := func(c *Config) int64 { all := c.Tally.All(); return all.Fates[reqlog.OK] }
	none := synthetic(t, "none", 1, 400e3, 100, 20*time.Millisecond, 50*time.Millisecond)
	none.Drain = 10 * time.Millisecond
	if _, err := Run(none); err != nil {
		t.Fatal(err)
	}
	for _, name := range underControl {
		warmup := 20 * time.Millisecond
		if name == "seda" { // clients begin with three requests a second
			warmup = 700 * time.Millisecond
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := func(seed uint64) Config {
				return synthetic(t, name, seed, 400e3, 100, warmup, 50*time.Millisecond)
			}
			c := build(1)
			first, r := digestOf(t, c)
			if again, _ := digestOf(t, build(1)); again != first {
				t.Errorf("seed 1 gave %x and then %x", first, again)
			}
			if other, _ := digestOf(t, build(2)); other == first {
				t.Error("seeds 1 and 2 gave the same bytes")
			}
			if got, without := goodput(&c), goodput(&none); got <= without {
				t.Errorf("%d served in time, %d without control", got, without)
			}
			all := c.Tally.All()
			t.Logf("%d of %d in time, %d refused, %d shed by the server, p99 %v, %d questions, %.2f under way, %.2f waiting",
				goodput(&c), r.Arrivals, all.Fates[reqlog.Refused], all.ServerShed(), all.Latency.Percentile(99), r.Questions, r.InFlight, r.Waiting)
		})
	}
}

// meterOf returns what a controller shows under a name.
func meterOf(t *testing.T, c control.Controller, name string) int {
	t.Helper()
	for n, v := range c.(control.Meter).Meters() {
		if n == name {
			return int(v)
		}
	}
	t.Fatalf("there is no meter %s", name)
	return 0
}

// TestCreditsAreConservedInALossyRun: clients give requests up and the server drops others, some of them halfway, and when all is over,
// both sides agree on every credit: what clients hold is what the pool has granted.
func TestCreditsAreConservedInALossyRun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"svalinn", "protego", "breakwater"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := synthetic(t, name, 3, 300e3, 50, 0, 100*time.Millisecond)
			c.Timeout = 150 * us // about what half of them take
			w := newWorld(c)
			w.run()
			settle(w)
			all := c.Tally.All()
			for _, f := range []reqlog.Fate{reqlog.OK, reqlog.TimedOut, reqlog.Refused} {
				if all.Fates[f] == 0 {
					t.Errorf("nobody is %v: %v", f, all.Fates)
				}
			}
			held, used := 0, 0
			for _, box := range w.boxes {
				if box != nil {
					wallet := box.Throttle().(*credit.Wallet)
					held, used = held+wallet.Credits(), used+wallet.Used()
				}
			}
			granted, size := meterOf(t, c.Station.Controller, "credits_used"), meterOf(t, c.Station.Controller, "credits")
			if held != granted || used != 0 {
				t.Errorf("clients hold %d credits, the pool has granted %d of %d; %d requests under way", held, granted, size, used)
			}
			if n := meterOf(t, c.Station.Controller, "clients"); n != 50 || granted == 0 {
				t.Errorf("%d clients hold %d credits", n, granted)
			}
		})
	}
}

// TestMemoryBoundedUnderCredits: what a run allocates is for its clients and for what is under way at a time, not for each request.
func TestMemoryBoundedUnderCredits(t *testing.T) {
	for _, name := range underControl {
		allocated := func(window time.Duration) float64 {
			return testing.AllocsPerRun(1, func() {
				if _, err := Run(synthetic(t, name, 1, 200e3, 100, 0, window)); err != nil {
					t.Fatal(err)
				}
			})
		}
		short, long := allocated(50*time.Millisecond), allocated(500*time.Millisecond)
		if requests := 0.45 * 200e3; long-short > 0.01*requests {
			t.Errorf("%s: %g allocations in 0.05 s, %g in 0.5 s with %g requests more", name, short, long, requests)
		}
	}
}

// BenchmarkControllers is the speed of one simulation on one core with both halves of a control, at 1 M requests a second, by the number
// of clients.
func BenchmarkControllers(b *testing.B) {
	for _, name := range append([]string{"codel"}, underControl...) {
		for _, clients := range []int{100, 100_000} {
			text := "clients=100"
			if clients == 100_000 {
				text = "clients=100k"
			}
			b.Run(name+"/"+text, func(b *testing.B) {
				var requests, events int64
				for b.Loop() {
					r, err := Run(synthetic(b, name, 1, 1e6, clients, 0, time.Second))
					if err != nil {
						b.Fatal(err)
					}
					requests += r.Arrivals
					events += r.Events
				}
				b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
				b.ReportMetric(float64(events)/float64(requests), "events/request")
			})
		}
	}
}
