package bouncer

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/control"
)

// offer brings n requests of classes 0 to 3 in turn, one each millisecond, and returns how many of each were admitted. The server is idle: class
// 3 is rejected for what it takes, the others are admitted.
func offer(b *Bouncer, n int) (admitted [4]int) {
	now := at(5 * time.Second)
	for i := range n {
		now = now.Add(ms)
		class := uint16(i % 4)
		if admits(b, now, class) {
			b.Observe(now, control.Event{Kind: control.Queued, Request: control.Request{Class: class}})
			b.Observe(now, control.Event{Kind: control.Started, Request: control.Request{Class: class}})
			b.Observe(now, control.Event{Kind: control.Finished, Failed: true, Request: control.Request{Class: class}})
			admitted[class]++
		}
	}
	return admitted
}

// TestPaperAllowance checks that every class has at least the share A of its requests admitted, and hardly more when the estimates reject all of
// it; as a chance for each request the share is A on average. Reference: notes, section 1.4; the floor is our reading.
func TestPaperAllowance(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.05, 0.1, 0.5} {
		c := quiet()
		c.Allowance = share
		got := float64(offer(newTaught(1, c), 40_000)[3]) / 10_000
		if got < share || got > share+0.01 {
			t.Errorf("A = %v: %v admitted", share, got)
		}
		c.Bernoulli = true
		got = float64(offer(newTaught(1, c), 40_000)[3]) / 10_000
		if math.Abs(got-share) > 0.015 { // three standard deviations of 10 000 draws at one half
			t.Errorf("A = %v as a chance: %v admitted", share, got)
		}
	}
}

// TestPaperUnderserved checks the equilibrium of a class that the estimates always reject, among four of which the others are always admitted: its
// share x solves x = α·(AAR − x)/AAR with AAR = (3 + x)/4. Reference: notes, section 1.5, with the average over classes.
func TestPaperUnderserved(t *testing.T) {
	t.Parallel()
	for _, pooled := range []bool{false, true} {
		for _, alpha := range []float64{0.1, 0.5, 1} {
			c := quiet()
			c.Underserved, c.Pooled = alpha, pooled
			got := float64(offer(newTaught(1, c), 40_000)[3]) / 10_000
			x := 0.5
			for range 100 {
				average := (3 + x) / 4 // the classes come equally often, so both averages are the same
				x = (x + alpha*(average-x)/average) / 2
			}
			if math.Abs(got-x) > 0.05 {
				t.Errorf("α = %v, pooled %v: %v admitted, want %v", alpha, pooled, got, x)
			}
		}
	}
}

// Guards and probes never reject what plain Bouncer admits.
func TestGuardsOnlyAdmitProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		guarded := quiet()
		guarded.Allowance = rapid.Float64Range(0, 1).Draw(t, "allowance")
		guarded.Bernoulli = rapid.Bool().Draw(t, "bernoulli")
		guarded.Underserved = rapid.Float64Range(0, 1).Draw(t, "underserved")
		guarded.Pooled = rapid.Bool().Draw(t, "pooled")
		guarded.Probe = time.Duration(rapid.IntRange(0, 3).Draw(t, "probe")) * 10 * ms
		a, b := newTaught(2, quiet()), newTaught(2, guarded)
		now := at(5 * time.Second)
		for range 300 {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pause")) * ms)
			class := uint16(rapid.IntRange(0, 5).Draw(t, "class"))
			switch {
			case rapid.Bool().Draw(t, "arrives"):
				plain, other := admits(a, now, class), admits(b, now, class)
				if plain && !other {
					t.Fatalf("class %d is rejected with guards only", class)
				}
				if plain { // both go on with the same queue
					enqueue(a, now, class, 1)
					enqueue(b, now, class, 1)
				}
			case a.running == 2:
				for _, c := range []*Bouncer{a, b} {
					i := 0
					for c.classes[i].running == 0 {
						i++
					}
					c.Observe(now, control.Event{Kind: control.Finished, Service: ms, Request: control.Request{Class: uint16(i)}})
				}
			case a.queued > 0:
				for _, c := range []*Bouncer{a, b} {
					i := 0
					for c.classes[i].waiting == 0 {
						i++
					}
					c.Observe(now, control.Event{Kind: control.Started, Request: control.Request{Class: uint16(i)}})
				}
			}
		}
	})
}

// Shares are those of the last second only, whatever pauses there are: the counts of the ring always add up to the totals.
func TestSharesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newShares(3, 100*ms, 10*ms)
		type arrival struct {
			step     int64
			class    int
			accepted bool
		}
		var all []arrival
		now := at(0)
		for range 200 {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "pause")) * ms)
			a := arrival{int64(now) / int64(10*ms), rapid.IntRange(0, 2).Draw(t, "class"), rapid.Bool().Draw(t, "accepted")}
			s.receive(now, a.class)
			if a.accepted {
				s.accept(a.class)
			}
			all = append(all, a)
			var want [3]tally
			for _, b := range all {
				if b.step > a.step-10 {
					want[b.class].received++
					if b.accepted {
						want[b.class].accepted++
					}
				}
			}
			if [3]tally(s.totals) != want {
				t.Fatalf("at %v: %v, want %v", now, s.totals, want)
			}
		}
	})
}

// A Bouncer that has seen everything there is: sixteen classes, a queue, both guards.
func busy(c Config) *Bouncer {
	c.Parallelism = 8
	var classes []Class
	for range 16 {
		classes = append(classes, Class{Name: "c", SLO: []Objective{{0.5, 18 * ms}, {0.9, 50 * ms}}})
	}
	b := New(c, Env{Classes: classes, Rand: rand.New(rand.NewPCG(1, 0))})
	b.Tick(0, control.Signals{})
	for range 100 {
		for class := range uint16(16) {
			serve(b, 0, class, time.Duration(class)*ms)
		}
	}
	b.Tick(at(c.Window), control.Signals{})
	start(b, at(c.Window), 0, 8)
	for class := range uint16(16) {
		enqueue(b, at(c.Window), class, 2)
	}
	return b
}

func guarded() Config {
	c := Default()
	c.Allowance, c.Underserved, c.Residual = 0.05, 1, true
	return c
}

func TestBouncerDoesNotAllocate(t *testing.T) {
	for _, c := range []Config{Default(), guarded()} {
		b := busy(c)
		now := at(c.Window)
		class := uint16(0)
		if n := testing.AllocsPerRun(10_000, func() {
			now += at(ms)
			class = (class + 1) % 17
			b.Tick(now, control.Signals{})
			arrive(b, now, class)
			serve(b, now, class, ms)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// BenchmarkDecide measures a decision with sixteen classes, and BenchmarkServe what else a request costs: the events of its life and the record of
// its time.
func BenchmarkDecide(b *testing.B) {
	for name, c := range map[string]Config{"plain": Default(), "guarded": guarded()} {
		b.Run(name, func(b *testing.B) {
			bouncer := busy(c)
			now := at(c.Window)
			r := control.Request{}
			b.ReportAllocs()
			for b.Loop() {
				now += 66_000 // 15 000 a second
				r.Class = (r.Class + 1) % 16
				bouncer.Decide(now, control.AtArrival, &r)
			}
		})
	}
}

// BenchmarkServe: see BenchmarkDecide.
func BenchmarkServe(b *testing.B) {
	bouncer := busy(Default())
	now := at(Default().Window)
	class := uint16(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 66_000
		class = (class + 1) % 16
		serve(bouncer, now, class, time.Duration(now%at(50*ms)))
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*Config){
		"parallelism is -1": func(c *Config) { c.Parallelism = -1 },
		"window is 0s":      func(c *Config) { c.Window = 0 },
		"window is 999ns":   func(c *Config) { c.Window = control.ShortestInterval - 1 },
		"samples is 0":      func(c *Config) { c.Samples = 0 },
		"probe is -1ns":     func(c *Config) { c.Probe = -1 },
		"stale is -1ns":     func(c *Config) { c.Stale = -1 },
		"percentile is 1":   func(c *Config) { c.Percentile = 1 },
		"default_slo is -":  func(c *Config) { c.DefaultSLO = -1 },
		"margin is -1ns":    func(c *Config) { c.Margin = -1 },
		"allowance is 1.1":  func(c *Config) { c.Allowance = 1.1 },
		"underserved is -1": func(c *Config) { c.Underserved = -1 },
		"history is 5ms":    func(c *Config) { c.History = 5 * ms },
		"history is 1s":     func(c *Config) { c.Step = 1 },
	} {
		c := Default()
		spoil(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q…", err, want)
		}
	}
	for _, err := range []error{
		Default().Check(), DefaultAllowance().Check(), DefaultUnderserved().Check(),
		DefaultMaxQL().Check(), DefaultMaxQWT().Check(), DefaultFraction().Check(), DefaultRate().Check(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	greedy := DefaultRate()
	greedy.Samples = 1<<16 + 1
	waits, fraction := DefaultMaxQWT(), DefaultFraction()
	waits.Window, fraction.Interval = control.ShortestInterval-1, control.ShortestInterval-1
	for want, err := range map[string]error{
		"samples is 65537": greedy.Check(), "window is 999ns": waits.Check(), "interval is 999ns": fraction.Check(),
		"limit is 0":       MaxQLConfig{}.Check(),
		"limit is 0s":      MaxQWTConfig{}.Check(),
		"utilisation is 0": FractionConfig{}.Check(),
		"percentile is 0":  RateConfig{}.Check(),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q…", err, want)
		}
	}
}
