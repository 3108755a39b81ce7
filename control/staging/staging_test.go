package staging_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/staging"
)

const ms = clock.Instant(time.Millisecond)

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := staging.Default().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*staging.Config){
		"no queue":             func(c *staging.Config) { c.Queue = 0 },
		"negative age":         func(c *staging.Config) { c.MaxAge = -1 },
		"no such order":        func(c *staging.Config) { c.Order = "random" },
		"negative patience":    func(c *staging.Config) { c.LIFOAfter = -1 },
		"negative workers":     func(c *staging.Config) { c.Workers = -1 },
		"negative burst":       func(c *staging.Config) { c.Burst = -1 },
		"negative calm":        func(c *staging.Config) { c.NormalAfter = -1 },
		"negative pause":       func(c *staging.Config) { c.ResumeAfter = -1 },
		"no interval":          func(c *staging.Config) { c.Interval = 0 },
		"endless ticking":      func(c *staging.Config) { c.Interval = control.ShortestInterval - 1 },
		"no distance to slow":  func(c *staging.Config) { c.Normal = c.Slow },
		"no distance to stop":  func(c *staging.Config) { c.Resume = c.Stop },
		"stop before slow":     func(c *staging.Config) { c.Slow = c.Stop },
		"resume below normal":  func(c *staging.Config) { c.Resume = c.Normal },
		"normal at nothing":    func(c *staging.Config) { c.Normal = 0 },
		"not a number":         func(c *staging.Config) { c.Stop = math.NaN() },
		"per cent for a share": func(c *staging.Config) { c.Stop = 85 },
	} {
		c := staging.Default()
		spoil(&c)
		if c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// hall is a Gate under a Staging, and what a test does with it.
type hall struct {
	gate    *control.Gate
	staging *staging.Staging
	serving []control.Request
	lastID  uint64
}

func newHall(c staging.Config, exempt ...uint16) *hall {
	s := staging.New(c, exempt...)
	return &hall{gate: control.NewGate(s, control.GateConfig{}), staging: s}
}

func (h *hall) apply(out []control.Action) (started int) {
	for _, a := range out {
		if a.Kind == control.Start {
			h.serving = append(h.serving, a.Request)
			started++
		}
	}
	return started
}

func (h *hall) arrive(now clock.Instant, class uint16) int {
	h.lastID++
	return h.apply(h.gate.Arrive(now, control.Request{ID: h.lastID, Class: class}, nil))
}

func (h *hall) finish(now clock.Instant, i int) int {
	r := h.serving[i]
	h.serving = append(h.serving[:i], h.serving[i+1:]...)
	return h.apply(h.gate.Finish(now, r, time.Millisecond, false, nil))
}

func (h *hall) tick(now clock.Instant, levels ...control.Level) int {
	out, _ := h.gate.Tick(now, control.Signals{Levels: levels}, nil)
	return h.apply(out)
}

func memory(used float64) control.Level { return control.Level{Name: "memory", Used: used} }

// TestProperties: whatever happens, the exempt are never held back; among the others one is always in service when one waits, none starts
// beside another while the queue is stopped, and the queue keeps its bound.
func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := staging.Default()
		c.Queue = rapid.IntRange(1, 20).Draw(t, "queue")
		c.Workers = rapid.IntRange(0, 5).Draw(t, "workers")
		c.Burst = rapid.IntRange(0, 3).Draw(t, "burst")
		c.Order = rapid.SampledFrom([]string{staging.FIFO, staging.LIFO, staging.Adaptive}).Draw(t, "order")
		c.MaxAge = time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Second
		h := newHall(c, 7)
		now := clock.Instant(0)
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			now += clock.Instant(rapid.IntRange(0, 300).Draw(t, "pause")) * ms
			before := 0
			for _, r := range h.serving {
				if r.Class != 7 {
					before++
				}
			}
			started := 0
			switch rapid.SampledFrom([]string{"arrive", "arrive", "exempt", "finish", "tick"}).Draw(t, "event") {
			case "arrive":
				started = h.arrive(now, 0)
			case "exempt":
				if h.arrive(now, 7) == 0 {
					t.Fatal("an exempt request was held back")
				}
				started = 0
			case "finish":
				if len(h.serving) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(h.serving)-1).Draw(t, "which")
				if h.serving[i].Class != 7 {
					before--
				}
				started = h.finish(now, i)
			case "tick":
				started = h.tick(now, memory(rapid.Float64Range(0, 1.2).Draw(t, "memory")),
					control.Level{Name: "pool", Used: rapid.SampledFrom([]float64{0, 0, 0.8, 1, math.NaN()}).Draw(t, "pool")})
			}
			ordinary := 0
			for _, r := range h.serving {
				if r.Class != 7 {
					ordinary++
				}
			}
			s := h.gate.Stats()
			switch {
			case s.Queued > c.Queue:
				t.Fatalf("%d queued, bound %d", s.Queued, c.Queue)
			case s.Queued > 0 && ordinary == 0:
				t.Fatalf("%d wait and nothing is in service", s.Queued)
			case h.staging.State() == staging.Stopped && started > 0 && before > 0:
				t.Fatalf("%d started beside %d in service while stopped", started, before)
			case c.Workers > 0 && ordinary > c.Workers:
				t.Fatalf("%d in service, %d workers", ordinary, c.Workers)
			}
		}
	})
}

// TestWorstLevelDecides: several resources are watched, each with a state of its own.
func TestWorstLevelDecides(t *testing.T) {
	t.Parallel()
	h := newHall(staging.Default())
	for _, step := range []struct {
		at           clock.Instant
		memory, pool float64
		want         staging.State
	}{
		{0, 0.1, 0.1, staging.Normal},
		{100, 0.75, 0.1, staging.Slowed},
		{200, 0.75, 0.9, staging.Stopped},
		{300, 0.1, 0.8, staging.Stopped}, // the pool is above resume
		{400, 0.1, 0.1, staging.Stopped}, // and then below it, for the first time
		{2300, 0.1, 0.1, staging.Stopped},
		{2400, 0.1, 0.1, staging.Slowed}, // for 2 s
		{2500, 0.1, 0.1, staging.Slowed},
		{10_400, 0.1, 0.1, staging.Slowed}, // memory is normal, the pool has been below it for less than 10 s since it was stopped
		{12_400, 0.1, 0.1, staging.Slowed},
		{12_500, 0.1, 0.1, staging.Normal},
	} {
		h.tick(step.at*ms, memory(step.memory), control.Level{Name: "pool", Used: step.pool})
		if got := h.staging.State(); got != step.want {
			t.Fatalf("at %d ms: state %d, want %d", step.at, got, step.want)
		}
	}
}

// TestMissingLevelKeepsItsState: a sensor that fails does not open the queue.
func TestMissingLevelKeepsItsState(t *testing.T) {
	t.Parallel()
	h := newHall(staging.Default())
	h.tick(0, memory(1))
	for now := clock.Instant(0); now < 60_000*ms; now += 100 * ms {
		if h.tick(now, memory(math.NaN())); h.staging.State() != staging.Stopped {
			t.Fatal("the queue was opened by a reading that is none")
		}
		h.tick(now)
	}
	if h.staging.State() != staging.Stopped {
		t.Error("the queue was opened by the want of a reading")
	}
}

// TestNoiseDoesNotFlip: a level that rests near a threshold, with a sensor that strays and a heap that goes up and down with its collections,
// changes the state less than twice a minute.
func TestNoiseDoesNotFlip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	sawtooth := func(now clock.Instant, period, height float64) float64 {
		return height * (math.Mod(float64(now)/1e9, period)/period - 0.5)
	}
	for name, noise := range map[string]func(clock.Instant) float64{
		"white, 2 % of the limit":   func(clock.Instant) float64 { return 0.02 * rng.NormFloat64() },
		"white, 5 % of the limit":   func(clock.Instant) float64 { return 0.05 * rng.NormFloat64() },
		"a sawtooth of 8 % in 4 s":  func(now clock.Instant) float64 { return sawtooth(now, 4, 0.08) },
		"a sawtooth of 20 % in 2 s": func(now clock.Instant) float64 { return sawtooth(now, 2, 0.20) },
		"both":                      func(now clock.Instant) float64 { return sawtooth(now, 3, 0.06) + 0.02*rng.NormFloat64() },
	} {
		for mean := 0.40; mean < 1; mean += 0.01 {
			h := newHall(staging.Default())
			flips, state := 0, staging.Normal
			const minutes = 5
			for now := clock.Instant(0); now < minutes*60_000*ms; now += 100 * ms {
				h.tick(now, memory(mean+noise(now)))
				if s := h.staging.State(); s != state && now > 1000*ms { // it has to find its state first
					flips++
					state = s
				} else {
					state = s
				}
			}
			if flips >= 2*minutes {
				t.Errorf("%s around %.2f: %d changes of state in %d minutes", name, mean, flips, minutes)
			}
		}
	}
}

// TestDecisionsAllocateNothing, nor do looks at levels that have been seen before.
func TestDecisionsAllocateNothing(t *testing.T) {
	c := staging.Default()
	c.Order = staging.Adaptive
	s := staging.New(c, 3)
	gate := control.NewGate(s, control.GateConfig{})
	out := make([]control.Action, 0, 1000)
	levels := []control.Level{memory(0.1), {Name: "pool", Used: 0.2}}
	now := clock.Instant(0)
	pass := func() {
		for id := range uint64(100) {
			now += ms
			levels[0].Used = float64(id%10) / 10
			out, _ = gate.Tick(now, control.Signals{Levels: levels}, out)
			out = gate.Arrive(now, control.Request{ID: id, Class: uint16(id % 4)}, out)
		}
		for i := 0; i < len(out); i++ {
			if out[i].Kind == control.Start {
				now += ms
				out = gate.Finish(now, out[i].Request, 1, false, out)
			}
		}
		out = out[:0]
	}
	pass()
	if allocs := testing.AllocsPerRun(20, pass); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if s := gate.Stats(); s.Queued != 0 || s.InService != 0 {
		t.Errorf("left behind: %+v", s)
	}
}
