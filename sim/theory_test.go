package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/workloads"
)

// The tests in this file hold the simulator against closed forms of queueing theory. Seeds are fixed, so they pass always or never;
// the window of each is chosen so that the standard error of the mean is about half of the 2 % that is allowed.

// tolerance is the greatest relative difference allowed between a simulated mean and the closed form.
const tolerance = 0.02

const mean = 50 * time.Microsecond // of the service time, in all of them

// system is a single class of work on a machine without a network.
type system struct {
	cores    int
	work     []workloads.SyntheticStep
	rho      float64 // offered load over capacity
	capacity float64 // requests per second
	window   time.Duration
	bus      machine.Bus
	config   func(*station.Config)
}

type outcome struct {
	Result
	class load.ClassTally
}

func (s system) run(t *testing.T, seed uint64) outcome {
	t.Helper()
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{{Name: "only", Share: 1, Work: s.work}})
	if err != nil {
		t.Fatal(err)
	}
	warmup := s.window / 10
	gen, err := load.NewGenerator(load.Config{
		Seed: seed, Clients: 1, Workload: w,
		Arrivals: arrival.NewPoisson(s.rho*s.capacity, 0), End: clock.Instant(warmup + s.window),
	})
	if err != nil {
		t.Fatal(err)
	}
	tally := load.NewTally([]load.Class{{Name: "only"}}, clock.Instant(warmup), clock.Instant(warmup+s.window))
	c := Config{
		Station:   station.Config{Controller: control.None{}, Machine: machine.Spec{Cores: s.cores, Bus: s.bus}},
		Costs:     OwnSteps{},
		Generator: gen, Tally: tally, Drain: time.Minute,
	}
	if s.config != nil {
		s.config(&c.Station)
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := tally.Check(r.Arrivals); err != nil {
		t.Fatal(err)
	}
	return outcome{r, tally.All()}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: %.4g, theory says %.4g (%+.2f %%)", what, got, want, 100*(got/want-1))
	}
}

// loads returns the offered loads to test at. The higher ones take most of the time, so they are left out of short runs.
func loads() []float64 {
	all := []float64{0.3, 0.6, 0.8, 0.9}
	if testing.Short() {
		return all[:1]
	}
	return all
}

func step(k machine.StepKind, d dist.Dist) []workloads.SyntheticStep {
	return []workloads.SyntheticStep{{Kind: k, Amount: d}}
}

func parse(t *testing.T, text string, u dist.Unit) dist.Dist {
	t.Helper()
	d, err := dist.Parse(text, u)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMMc: mean sojourn of M/M/c is S + C(c, a)·S/(c − a), with Erlang's C. M/M/1 is the case of one core.
func TestMMc(t *testing.T) {
	t.Parallel()
	for _, cores := range []int{1, 4, 18} {
		for _, rho := range loads() {
			t.Run(fmt.Sprintf("c=%d rho=%.1f", cores, rho), func(t *testing.T) {
				t.Parallel()
				s := system{cores: cores, work: step(machine.Compute, parse(t, "exp:50us", dist.Nanoseconds)), rho: rho,
					capacity: float64(cores) / mean.Seconds(), window: windowFor(rho, cores, 1)}
				o := s.run(t, 1)
				a := rho * float64(cores)
				want := mean.Seconds() * (1 + erlangC(cores, a)/(float64(cores)-a))
				near(t, "mean sojourn", o.class.Latency.Mean().Seconds(), want)
				near(t, "utilisation", o.CPURatio, rho)
			})
		}
	}
}

// TestMG1: Pollaczek–Khinchine, W = ρ·S·(1 + CV²)/(2(1 − ρ)), for a constant (M/D/1), a uniform and a bimodal service time.
func TestMG1(t *testing.T) {
	t.Parallel()
	for text, cv2 := range map[string]float64{
		"50us":                           0,
		"uniform:0us..100us":             1.0 / 3,
		"bimodal:0.8@12500ns,0.2@200us":  (0.8*0.0625 + 0.2*16) - 1,
		"lognormal:p50=35355ns,p90=85us": math.NaN(), // CV² from the fitted σ, below
	} {
		for _, rho := range loads() {
			t.Run(fmt.Sprintf("%s rho=%.1f", text, rho), func(t *testing.T) {
				t.Parallel()
				d := parse(t, text, dist.Nanoseconds)
				cv2, s0 := cv2, d.Mean()/1e9
				if math.IsNaN(cv2) {
					sigma := math.Log(85/35.355) / 1.2815515655446004
					cv2 = math.Exp(sigma*sigma) - 1
				}
				s := system{cores: 1, work: step(machine.Compute, d), rho: rho, capacity: 1 / s0, window: windowFor(rho, 1, cv2)}
				want := s0 + rho*s0*(1+cv2)/(2*(1-rho))
				near(t, "mean sojourn", s.run(t, 1).class.Latency.Mean().Seconds(), want)
			})
		}
	}
}

// TestMM1K: with room for K in the system, a share (1 − ρ)ρ^K/(1 − ρ^(K+1)) is lost.
func TestMM1K(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 4, 10} {
		for _, rho := range []float64{0.5, 0.9, 1.5} {
			if testing.Short() && (k != 4 || rho != 0.9) {
				continue
			}
			t.Run(fmt.Sprintf("K=%d rho=%.1f", k, rho), func(t *testing.T) {
				t.Parallel()
				s := system{cores: 1, work: step(machine.Compute, parse(t, "exp:50us", dist.Nanoseconds)), rho: rho, capacity: 20000, window: windowFor(0.8, 1, 1),
					config: func(c *station.Config) { c.Gate = control.GateConfig{Slots: 1, Queue: k - 1} }}
				if k == 1 {
					s.config = func(c *station.Config) { c.Controller = limitedTo(1, 0); c.Gate = control.GateConfig{Slots: 1} }
				}
				o := s.run(t, 1)
				lost := float64(o.class.Fates[reqlog.Rejected]) / float64(o.Arrivals)
				want := (1 - rho) * math.Pow(rho, float64(k)) / (1 - math.Pow(rho, float64(k+1)))
				if math.Abs(lost-want) > tolerance*want+0.0005 {
					t.Errorf("lost %.5f, theory says %.5f", lost, want)
				}
			})
		}
	}
}

// TestProcessorSharing: streams on a bus that one of them can fill share it equally, so the mean sojourn is S/(1 − ρ) whatever the
// distribution of sizes: M/M/1-PS and M/G/1-PS. There are cores enough for every stream.
func TestProcessorSharing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"exp:50kB", "50kB", "bimodal:0.8@12500B,0.2@200kB"} {
		for _, rho := range loads() {
			t.Run(fmt.Sprintf("%s rho=%.1f", text, rho), func(t *testing.T) {
				t.Parallel()
				s := system{cores: 4000, bus: machine.Bus{Total: 1e9, PerCore: 1e9}, work: step(machine.Stream, parse(t, text, dist.Bytes)), rho: rho,
					capacity: 20000, window: windowFor(rho, 1, 1)}
				near(t, "mean sojourn", s.run(t, 1).class.Latency.Mean().Seconds(), mean.Seconds()/(1-rho))
			})
		}
	}
}

// TestErlangB: a section of fixed capacity that refuses when full loses the share that Erlang's B says, whatever the distribution.
func TestErlangB(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"exp:50us", "50us"} {
		for _, a := range []float64{2, 6, 12} {
			if testing.Short() && a != 6 {
				continue
			}
			t.Run(fmt.Sprintf("%s a=%g", text, a), func(t *testing.T) {
				t.Parallel()
				const places = 6
				work := []workloads.SyntheticStep{
					{Kind: machine.Enter}, {Kind: machine.Compute, Amount: parse(t, text, dist.Nanoseconds)}, {Kind: machine.Leave},
				}
				s := system{cores: 1000, work: work, rho: a / places, capacity: places / mean.Seconds(), window: time.Duration(40 / a * float64(time.Second)), // fewer are lost at a low load
					config: func(c *station.Config) {
						c.Sections = []station.Section{{Section: limit.NewSection(places, control.Memory), Mode: control.Try}}
					}}
				o := s.run(t, 1)
				near(t, "loss", float64(o.class.Fates[reqlog.Dropped])/float64(o.Arrivals), erlangB(places, a))
			})
		}
	}
}

// TestLittle: the mean number in flight, counted as it changes, equals arrival rate times mean latency of the same requests, to 0.1 %.
func TestLittle(t *testing.T) {
	t.Parallel()
	s := system{cores: 4, work: step(machine.Compute, parse(t, "exp:50us", dist.Nanoseconds)), rho: 0.8, capacity: 80000, window: 10 * time.Second}
	o := s.run(t, 1)
	want := float64(o.Arrivals) / s.window.Seconds() * o.class.Latency.Mean().Seconds()
	if math.Abs(o.InFlight-want) > 0.001*want {
		t.Errorf("in flight %.4f, arrival rate times latency %.4f", o.InFlight, want)
	}
}

// windowFor returns a window in which the standard error of the mean sojourn is about 1 %. Near capacity, sojourns are correlated over
// busy periods, so that takes requests in proportion to 1/(1−ρ)²: 4/(1−ρ)² of them are worth one independent sample in M/M/1.
func windowFor(rho float64, cores int, cv2 float64) time.Duration {
	requests := max(40_000*(1+cv2)/2/((1-rho)*(1-rho)), 100_000)
	return time.Duration(requests * float64(mean) / float64(cores) / rho)
}

func limitedTo(inService, queue int) control.Controller {
	return limit.NewFixed(limit.FixedConfig{Limit: inService, Queue: queue}, 1)
}

// erlangB returns the share lost by n places offered a erlangs.
func erlangB(n int, a float64) float64 {
	b := 1.0
	for k := 1; k <= n; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// erlangC returns the share that has to wait at n servers offered a erlangs.
func erlangC(n int, a float64) float64 {
	b, rho := erlangB(n, a), a/float64(n)
	return b / (1 - rho*(1-b))
}
