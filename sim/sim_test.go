package sim

import (
	"encoding/binary"
	"hash/fnv"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/workloads"
)

// twoClasses is a small overloaded world with a bus, a network, timeouts and CoDel.
func twoClasses(t testing.TB, seed uint64, rate float64, window time.Duration) Config {
	t.Helper()
	return worldOf(t, seed, rate, window, 100)
}

func worldOf(t testing.TB, seed uint64, rate float64, window time.Duration, clients int) Config {
	t.Helper()
	amount := func(text string, u dist.Unit) dist.Dist {
		d, err := dist.Parse(text, u)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{
		{Name: "cpu", Share: 0.5, Work: []workloads.SyntheticStep{{Kind: machine.Compute, Amount: amount("exp:72us", dist.Nanoseconds)}}},
		{Name: "memory", Share: 0.5, Work: []workloads.SyntheticStep{{Kind: machine.Stream, Amount: amount("819200B", dist.Bytes)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	warmup := 10 * time.Millisecond
	end := clock.Instant(warmup + window)
	gen, err := load.NewGenerator(load.Config{Seed: seed, Clients: clients, Workload: w, Arrivals: arrival.NewPoisson(rate, 0), End: end})
	if err != nil {
		t.Fatal(err)
	}
	slo := 500 * time.Microsecond
	return Config{
		Station: station.Config{
			Controller: aqm.NewCoDel(aqm.DefaultCoDel()),
			Gate:       control.GateConfig{Slots: 18},
			Machine:    machine.Spec{Cores: 18, Bus: machine.Bus{Total: 36e9, PerCore: 6e9}, Network: 5 * time.Microsecond},
		},
		Costs: OwnSteps{}, Generator: gen,
		Tally:   load.NewTally([]load.Class{{Name: "cpu", SLO: slo}, {Name: "memory", SLO: slo}}, clock.Instant(warmup), end),
		Timeout: 80 * time.Millisecond, Drain: 50 * time.Millisecond,
	}
}

// digest runs c and hashes every record in the order of settling.
func digest(t *testing.T, c Config) uint64 {
	t.Helper()
	h := fnv.New64a()
	c.Settled = func(r *reqlog.Record) {
		if err := binary.Write(h, binary.LittleEndian, r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
	return h.Sum64()
}

func TestSameSeedSameRecords(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) uint64 { return digest(t, twoClasses(t, seed, 200e3, 100*time.Millisecond)) }
	first := run(1)
	if again := run(1); again != first {
		t.Errorf("seed 1 gave %x and then %x", first, again)
	}
	if other := run(2); other == first {
		t.Error("seeds 1 and 2 gave the same records")
	}
}

// TestFatesUnderOverload: at twice the capacity CoDel drops, some clients give up, and every request has one fate.
func TestFatesUnderOverload(t *testing.T) {
	t.Parallel()
	c := twoClasses(t, 1, 200e3, 400*time.Millisecond)
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	all := c.Tally.All()
	if err := c.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
	for _, f := range []reqlog.Fate{reqlog.Late, reqlog.Dropped, reqlog.TimedOut} {
		if all.Fates[f] == 0 {
			t.Errorf("nobody is %v at twice the capacity", f)
		}
	}
	if r.CPURatio < 0.99 || r.CPURatio > 1 {
		t.Errorf("cores are busy %.3f of the time at twice the capacity", r.CPURatio)
	}
	if most := 36e9 * c.Tally.Window().Seconds(); float64(r.Moved) > most*1.0001 || float64(r.Moved) < most*0.98 {
		t.Errorf("%d bytes moved; the bus passes %.0f in the window and is the bottleneck", r.Moved, most)
	}
	// Nobody waits longer than the timeout, and latency includes the network twice.
	if all.Latency.Max() > 80*time.Millisecond {
		t.Errorf("a request completed after %v, its client had stopped waiting", all.Latency.Max())
	}
	if low := all.Latency.Percentile(0); low < 10*time.Microsecond {
		t.Errorf("a latency of %v is below two network delays", low)
	}
}

// TestServerDies: once the RAM is used up, whatever is under way and whatever comes later fails.
func TestServerDies(t *testing.T) {
	t.Parallel()
	c := twoClasses(t, 1, 200e3, 100*time.Millisecond)
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{{Name: "cpu", Share: 1, Work: []workloads.SyntheticStep{
		{Kind: machine.Memory, Amount: dist.Constant{Unit: dist.Bytes, Value: 1 << 20}},
		{Kind: machine.Delay, Amount: dist.Constant{Unit: dist.Nanoseconds, Value: 1e6}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	end := c.Tally.To
	if c.Generator, err = load.NewGenerator(load.Config{Seed: 1, Clients: 1, Workload: w, Arrivals: arrival.NewConstant(10e3, 0), End: end}); err != nil {
		t.Fatal(err)
	}
	c.Station.Gate = control.GateConfig{}
	c.Station.Machine.RAM = 8 << 20 // ten are on the machine at a time
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	// Request k arrives at k·100 µs + 5 µs; the ninth (k = 8) does not fit.
	if want := clock.Instant(805 * time.Microsecond); r.Died != want {
		t.Errorf("died at %v, want %v", r.Died, want)
	}
	all := c.Tally.All()
	if all.Fates[reqlog.Failed] != r.Arrivals || r.Arrivals != 1000 {
		t.Errorf("%d of %d failed after the server's death, want all of 1000", all.Fates[reqlog.Failed], r.Arrivals)
	}
}

func TestStopCutsShort(t *testing.T) {
	t.Parallel()
	c := twoClasses(t, 1, 200e3, time.Second)
	asked := 0
	c.Stop = func() bool { asked++; return asked == 3 }
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.CutShort || r.End >= clock.Instant(time.Second) || c.Tally.To != r.End {
		t.Errorf("cut short %v at %v, tally ends at %v", r.CutShort, r.End, c.Tally.To)
	}
	if err := c.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
}

func TestSamples(t *testing.T) {
	t.Parallel()
	c := twoClasses(t, 1, 200e3, 100*time.Millisecond)
	var at []clock.Instant
	var worst time.Duration
	c.SamplePeriod = 10 * time.Millisecond
	c.Sample = func(s Sample) {
		at = append(at, s.Now.Add(-10*time.Millisecond))
		worst = max(worst, s.Station.QueueDelay(s.Now))
	}
	if _, err := Run(c); err != nil {
		t.Fatal(err)
	}
	if len(at) != 10 || at[0] != 0 || at[9] != clock.Instant(90*time.Millisecond) {
		t.Errorf("sampled at %v, want every 10 ms of the window", at)
	}
	if worst < time.Millisecond {
		t.Errorf("the worst queueing delay seen at twice the capacity is %v", worst)
	}
}

// TestMemoryBoundedByWhatIsInFlight: ten times as long a run under a control that bounds its queue allocates no more.
func TestMemoryBoundedByWhatIsInFlight(t *testing.T) {
	allocated := func(window time.Duration) float64 {
		return testing.AllocsPerRun(1, func() {
			c := twoClasses(t, 1, 200e3, window)
			c.Station.Controller = limit.NewFixed(limit.FixedConfig{Limit: 18, Queue: 100}, 18)
			if _, err := Run(c); err != nil {
				t.Fatal(err)
			}
		})
	}
	short, long := allocated(100*time.Millisecond), allocated(time.Second)
	if long > 1.2*short+100 {
		t.Errorf("%g allocations in 0.1 s, %g in 1 s", short, long)
	}
}

// BenchmarkRequests is the speed of one simulation on one core: simulated requests and events (instants at which something happens) a
// second, on the two-class workload of an 18-core machine.
//
// The names say what is varied: the load under a control that bounds the queue, the number of clients, and the length of the queue without
// such a control.
func BenchmarkRequests(b *testing.B) {
	bounded := func(c *Config) {
		c.Station.Controller = limit.NewFixed(limit.FixedConfig{Limit: 18, Queue: 100}, 18)
	}
	unbounded := func(c *Config) { c.Station.Controller, c.Timeout = control.None{}, 0 }
	for _, bench := range []struct {
		name    string
		rate    float64
		clients int
		setup   func(*Config)
	}{
		{"load=0.5", 44e3, 100, bounded},
		{"load=1.5", 132e3, 100, bounded},
		{"clients=10k", 132e3, 10_000, bounded},
		{"clients=100k", 132e3, 100_000, bounded},
		{"queue=20k", 132e3, 100, unbounded},
		{"queue=200k", 500e3, 100, unbounded},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var requests, events int64
			for b.Loop() {
				c := worldOf(b, 1, bench.rate, 500*time.Millisecond, bench.clients)
				bench.setup(&c)
				r, err := Run(c)
				if err != nil {
					b.Fatal(err)
				}
				requests += r.Arrivals
				events += r.Events
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
