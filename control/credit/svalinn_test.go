package credit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

// svalinn returns a Svalinn of two cores and the default settings but for what change does.
func svalinn(t *testing.T, change func(*SvalinnConfig)) *Svalinn {
	t.Helper()
	c, err := DefaultSvalinn().For(slo)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&c)
	}
	s := NewSvalinn(c, 2, rand.New(rand.NewPCG(1, 2)), nil)
	crowd(&s.Pool, 10)
	return s
}

// arrive lets a request of a client arrive that holds no credits, and returns it.
func arrive(s *Svalinn, now clock.Instant) control.Request {
	r := control.Request{Client: 1000}
	r.Tag = s.Decide(now, control.AtArrival, &r).Tag
	return r
}

func finish(s *Svalinn, now clock.Instant, r control.Request) {
	s.Observe(now, control.Event{Kind: control.Finished, Request: r})
}

// cycle runs one whole cycle from start on: so many requests arrive in the two experiments and are served at once. It returns the sizes of the
// pool in both and after the decision, before the next cycle's first step.
func cycle(s *Svalinn, start clock.Instant, first, second int) (sizes [3]int) {
	for k, n := range []int{first, second} {
		begin := start + clock.Instant(k)*600*us
		s.Tick(begin, control.Signals{})
		s.Tick(begin+200*us, control.Signals{})
		sizes[k] = s.size
		for range n {
			finish(s, begin+201*us, arrive(s, begin+201*us))
		}
	}
	s.Tick(start+1200*us, control.Signals{})
	sizes[2] = s.base
	return sizes
}

// TestPaperSvalinnCycle: a cycle takes twice prepare and interval, with the pool a step up in one experiment and a step down in the other, in random
// order, and moves it by a step at most. Reference: Svalinn's published throughput controller (pcc_server.c), and the paper for the steps.
func TestPaperSvalinnCycle(t *testing.T) {
	t.Parallel()
	s := svalinn(t, func(c *SvalinnConfig) { c.Step = 3 })
	s.resize(100)
	for id := range uint32(10) {
		s.grant(s.clients[id], 63) // in use, whatever the size
	}
	orders := make(map[[2]int]int)
	for i, base := 0, 100; i < 50; i, base = i+1, base+3 {
		got := cycle(s, clock.Instant(i)*1200*us, 20, 10)
		orders[[2]int{got[0] - base, got[1] - base}]++
		if got[2] != base+3 {
			t.Fatalf("cycle %d: from %d to %d, though more load brought more", i, base, got[2])
		}
	}
	if len(orders) != 2 || orders[[2]int{3, -3}] < 10 || orders[[2]int{-3, 3}] < 10 {
		t.Errorf("steps of the two experiments: %v", orders)
	}
}

// TestSvalinnDecisions checks what the two experiments lead to, in each of the forms that settings offer.
func TestSvalinnDecisions(t *testing.T) {
	t.Parallel()
	const big = 63 // granted, so that the pool is in use
	for _, c := range []struct {
		name        string
		change      func(*SvalinnConfig)
		size, used  int
		in, out     [2]int // of the experiment with the step up, and of the other
		good, drops [2]int
		want        int
		delay       [2]time.Duration
		watts       [2]float64
	}{
		{name: "more brings more", size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, want: 51},
		{name: "more brings less", size: 50, used: big, in: [2]int{20, 10}, out: [2]int{8, 10}, want: 49},
		{name: "more brings little more", size: 50, used: big, in: [2]int{200, 100}, out: [2]int{104, 100}, want: 50},
		{name: "more brings just enough more", size: 50, used: big, in: [2]int{200, 100}, out: [2]int{105, 100}, want: 51},
		{name: "more brings little less", size: 50, used: big, in: [2]int{200, 100}, out: [2]int{96, 100}, want: 50},
		{name: "the labels are by load, not by intent", size: 50, used: big, in: [2]int{10, 20}, out: [2]int{10, 20}, want: 51},
		{name: "unless they are strict", change: strict, size: 50, used: big, in: [2]int{10, 20}, out: [2]int{10, 20}, want: 50},
		{name: "strict, and as intended", change: strict, size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, want: 51},
		{name: "strict and equal", change: strict, size: 50, used: big, in: [2]int{20, 20}, out: [2]int{20, 10}, want: 50},
		{name: "strict and not in use", change: strict, size: 50, used: 49, in: [2]int{10, 20}, out: [2]int{10, 20}, want: 50},
		{name: "equal load, whatever it brought", size: 50, used: big, in: [2]int{20, 20}, out: [2]int{20, 10}, want: 50},
		{name: "no arrival in one", size: 50, used: big, in: [2]int{0, 10}, out: [2]int{0, 10}, want: 51},
		{name: "no arrival at all", size: 50, used: big, want: 51},
		{name: "no arrival, strict", change: strict, size: 50, used: big, want: 51},
		{name: "not in use", size: 50, used: 49, in: [2]int{20, 10}, out: [2]int{20, 10}, want: 49},
		{name: "equal and not in use", size: 50, used: 49, in: [2]int{20, 20}, out: [2]int{20, 20}, want: 49},
		{name: "nothing completed with less", size: 50, used: big, in: [2]int{20, 10}, out: [2]int{1, 0}, want: 51},
		{name: "nothing completed at all", size: 50, used: big, in: [2]int{20, 10}, want: 50},
		{name: "nothing completed with more", size: 50, used: big, in: [2]int{20, 10}, out: [2]int{0, 1}, want: 49},
		{name: "simple: the least bit more", change: comparator(SimpleComparator), size: 50, used: big, in: [2]int{200, 100}, out: [2]int{101, 100}, want: 51},
		{name: "simple: the same is not more", change: comparator(SimpleComparator), size: 50, used: big, in: [2]int{200, 100}, out: [2]int{100, 100}, want: 49},
		{name: "slope: above a tenth", change: comparator(SlopeComparator), size: 50, used: big, in: [2]int{200, 100}, out: [2]int{111, 100}, good: [2]int{111, 100}, want: 51},
		{name: "slope: a tenth is not enough", change: comparator(SlopeComparator), size: 50, used: big, in: [2]int{200, 100}, out: [2]int{110, 100}, good: [2]int{110, 100}, want: 49},
		{name: "goodput", change: utility(GoodputUtility), size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, good: [2]int{5, 10}, want: 49},
		{name: "drop: within the bound", change: utility(DropUtility), size: 50, used: big, in: [2]int{120, 100}, out: [2]int{115, 100}, drops: [2]int{5, 0}, want: 51},
		{name: "drop: beyond the bound", change: utility(DropUtility), size: 50, used: big, in: [2]int{130, 100}, out: [2]int{115, 100}, drops: [2]int{15, 0}, want: 49},
		{name: "drop: both beyond it, the one with fewer is better", change: utility(DropUtility), size: 50, used: big, in: [2]int{150, 140}, out: [2]int{120, 105}, drops: [2]int{30, 35}, want: 51},
		{name: "delay: within the budget", change: utility(DelayUtility), size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, delay: [2]time.Duration{199, 100}, want: 51},
		{name: "delay: at the budget", change: utility(DelayUtility), size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, delay: [2]time.Duration{200, 100}, want: 49},
		{name: "power: below the cap", change: utility(PowerUtility), size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, watts: [2]float64{54, 50}, want: 51},
		{name: "power: at the cap", change: utility(PowerUtility), size: 50, used: big, in: [2]int{20, 10}, out: [2]int{20, 10}, watts: [2]float64{55, 50}, want: 49},
		{name: "a step larger than the pool", change: func(c *SvalinnConfig) { c.Step = 10 }, size: 2, used: 2, in: [2]int{20, 10}, out: [2]int{5, 10}, want: 2},
		{name: "a step beyond the bound", change: func(c *SvalinnConfig) { c.Step = 10 }, size: 635, used: 636, in: [2]int{20, 10}, out: [2]int{20, 10}, want: 640},
	} {
		for _, firstUp := range []bool{true, false} {
			s := svalinn(t, c.change)
			s.utility = s.config.utility()
			s.resize(c.size)
			s.used, s.inUse = c.used, c.used >= c.size
			s.moves = [2]direction{plus, minus}
			if !firstUp {
				s.moves = [2]direction{minus, plus}
			}
			for i := range s.trials {
				from := i
				if !firstUp {
					from = 1 - i
				}
				s.trials[i].Experiment = Experiment{
					Duration: 400 * time.Microsecond, In: c.in[from], Out: c.out[from], Good: c.good[from], Drops: c.drops[from],
					MaxDelay: c.delay[from] * time.Microsecond, Budget: 200 * time.Microsecond, Watts: c.watts[from],
				}
			}
			s.phase, s.next = deciding, 0
			d := s.judge()
			s.resize(s.size + s.config.Step*int(d))
			if s.size != c.want {
				t.Errorf("%s (up in the first: %v): from %d to %d, want %d", c.name, firstUp, c.size, s.size, c.want)
			}
		}
	}
}

func strict(c *SvalinnConfig) { c.Label = Strict }

func comparator(name string) func(*SvalinnConfig) {
	return func(c *SvalinnConfig) { c.Comparator = name }
}

func utility(name string) func(*SvalinnConfig) {
	return func(c *SvalinnConfig) { c.Utility = name }
}

// TestNegativeUtilities: with a negative utility as reference the deadband is as wide as with a positive one, and a ratio by zero decides nothing.
func TestNegativeUtilities(t *testing.T) {
	t.Parallel()
	c := DefaultSvalinn()
	for _, d := range []struct {
		more, less float64
		want       direction
	}{
		{-104, -100, stay}, {-96, -100, stay}, {-94, -100, plus}, {-106, -100, minus}, {1, 0, plus}, {-1, 0, minus}, {0, 0, stay}, {0, -100, plus}, {100, -100, plus},
	} {
		if got := c.compare(&Experiment{In: 2}, &Experiment{In: 1}, d.more, d.less); got != d.want {
			t.Errorf("%v after %v: %v", d.more, d.less, got)
		}
	}
	var none Experiment
	for _, u := range []Utility{Throughput{}, Goodput{}, Delay{}, Drop{0.1}, Power{55}} {
		if v := u.Of(&none); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%T of nothing is %v", u, v)
		}
	}
}

// TestLateCompletions: requests whose service takes longer than an experiment are seen when the decision waits for them, and not when they are
// lost, as in the published code.
func TestLateCompletions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		late     string
		out      [2]int
		duration time.Duration
	}{
		{Wait, [2]int{2, 1}, 400 * time.Microsecond},
		{Lose, [2]int{0, 0}, 0},
	} {
		s := svalinn(t, func(g *SvalinnConfig) { g.Late, g.Perturb = c.late, false })
		var under []control.Request
		for _, at := range []clock.Instant{0, 200 * us, 600 * us, 800 * us, 1200 * us} {
			s.Tick(at, control.Signals{})
			switch at {
			case 200 * us:
				under = append(under, arrive(s, at+us), arrive(s, at+2*us))
			case 800 * us:
				under = append(under, arrive(s, at+us))
			}
		}
		for _, r := range under {
			if c.late == Wait && s.decided.cycles != 0 {
				t.Fatal("decided while a request was under way")
			}
			finish(s, 2000*us, r)
		}
		got := [2]int{s.trials[0].Out, s.trials[1].Out}
		if s.decided.cycles != 1 || got != c.out || s.trials[0].Duration != c.duration {
			t.Errorf("%s: %d decisions on %v in %v", c.late, s.decided.cycles, got, s.trials[0].Duration)
		}
	}
}

// TestPatience: a decision does not wait for ever. What ends after it counts for nothing.
func TestPatience(t *testing.T) {
	t.Parallel()
	s := svalinn(t, nil)
	s.Tick(200*us, control.Signals{})
	r := arrive(s, 210*us)
	var next clock.Instant
	for now := 600 * us; s.decided.cycles == 0; now = next {
		if next = s.Tick(now, control.Signals{}); next <= now || next > now+400*us {
			t.Fatalf("at %v the next tick is at %v", now, next)
		}
		if now > 1200*us+16*400*us {
			t.Fatalf("undecided at %v", now)
		}
	}
	finish(s, next, r)
	if s.trials[0].Out > 1 || s.decided.cycles != 1 {
		t.Errorf("%d completions, %d decisions", s.trials[0].Out, s.decided.cycles)
	}
}

// TestPrepareCoversTheRoundTrip: a change needs a round trip to take effect, so nothing is measured before.
func TestPrepareCoversTheRoundTrip(t *testing.T) {
	t.Parallel()
	s := svalinn(t, func(c *SvalinnConfig) { c.Prepare, c.RTT = 0, 50*time.Microsecond })
	s.Tick(0, control.Signals{})
	if early, due := arrive(s, 49*us), arrive(s, 50*us); early.Tag>>1 != 0 || due.Tag>>1 != 1 {
		t.Errorf("tags %d and %d", early.Tag, due.Tag)
	}
}

// TestSensors: bytes and energy are rates between readings, and nothing where there was no reading in between.
func TestSensors(t *testing.T) {
	t.Parallel()
	var seen []Experiment
	c, err := DefaultSvalinn().For(slo)
	if err != nil {
		t.Fatal(err)
	}
	own := UtilityFunc(func(e *Experiment) float64 {
		seen = append(seen, *e)
		return float64(-e.In) // the fewer the better
	})
	s := NewSvalinn(c, 2, rand.New(rand.NewPCG(1, 2)), own)
	crowd(&s.Pool, 10)
	s.resize(50)
	s.grant(s.clients[0], 63)
	tick := func(at clock.Instant, bytes uint64, joules float64) {
		s.Tick(at, control.Signals{MemBytes: bytes, MemAt: at, Joules: joules, QueueDelay: 5})
	}
	tick(0, 0, 0)
	tick(200*us, 1000, 1)
	finish(s, 300*us, arrive(s, 300*us))
	tick(600*us, 9000, 1.02)
	tick(800*us, 10000, 1.1)
	for range 2 {
		s.Observe(850*us, control.Event{Kind: control.Refused, Request: arrive(s, 850*us)})
	}
	finish(s, 1200*us, arrive(s, 1100*us)) // before the tick that would have read the sensors
	slices.SortFunc(seen, func(a, b Experiment) int { return a.In - b.In })
	want := []Experiment{
		{Duration: 400 * time.Microsecond, In: 1, Out: 1, Good: 1, MaxDelay: 5, Budget: 200 * time.Microsecond, BytesPerSecond: 2e7, Watts: 50},
		{Duration: 400 * time.Microsecond, In: 3, Out: 1, Good: 1, Drops: 2, MaxDelay: 5, Budget: 200 * time.Microsecond},
	}
	if len(seen) != 2 || fmt.Sprintf("%.3f", seen[0].Watts) != "50.000" {
		t.Fatalf("seen: %+v", seen)
	}
	seen[0].Watts, seen[0].BytesPerSecond = 50, math.Round(seen[0].BytesPerSecond)
	if !slices.Equal(seen, want) {
		t.Errorf("seen %+v, want %+v", seen, want)
	}
	if s.decided.downs != 1 {
		t.Errorf("decided %+v with a utility that wants less", s.decided)
	}
}
