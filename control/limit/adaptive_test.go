package limit_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
)

func adaptive(name string) *limit.Adaptive {
	switch name {
	case "aimd":
		return limit.NewAIMD(limit.DefaultAIMD())
	case "gradient":
		c := limit.DefaultGradient()
		c.Window = 0
		return limit.NewGradient(c)
	default:
		return limit.NewVegas(limit.DefaultVegas(), rand.New(rand.NewPCG(1, 0)))
	}
}

var laws = []string{"aimd", "gradient", "vegas"}

// Whatever times requests take, never more are in service than the limit said when the last one started, somebody is as long as somebody
// waits, and the limit stays within its bounds.
func TestAdaptiveProperty(t *testing.T) {
	t.Parallel()
	bounds := map[string][2]int{"aimd": {20, 200}, "gradient": {20, 200}, "vegas": {1, 1000}}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(laws).Draw(t, "law")
		a := adaptive(name)
		g := control.NewGate(a, control.GateConfig{})
		limitNow := func() (now int) {
			for _, v := range a.Meters() {
				now = int(v)
			}
			return now
		}
		var now clock.Instant
		var running []control.Request
		take := func(actions []control.Action, most int) {
			for _, action := range actions {
				if action.Kind == control.Start {
					running = append(running, action.Request)
				}
			}
			if s := g.Stats(); s.Queued > 128 || s.InService == 0 && s.Queued > 0 || len(actions) > 0 && s.InService > max(most, limitNow()) {
				t.Fatalf("%+v with a limit of %d", s, limitNow())
			}
		}
		for id := range uint64(400) {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "pause")) * time.Microsecond)
			most := max(limitNow(), len(running)) // a limit that has shrunk takes nobody out of service
			if rapid.IntRange(0, 2).Draw(t, "what") < 2 || len(running) == 0 {
				take(g.Arrive(now, control.Request{ID: id}, nil), most)
			} else {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				r := running[i]
				running = append(running[:i], running[i+1:]...)
				take(g.Finish(now, r, time.Millisecond, rapid.Bool().Draw(t, "failed"), nil), most)
			}
			if l := limitNow(); l < bounds[name][0] || l > bounds[name][1] {
				t.Fatalf("limit %d is outside %v", l, bounds[name])
			}
		}
	})
}

func TestAdaptiveChecks(t *testing.T) {
	t.Parallel()
	aimd, gradient, vegas := limit.DefaultAIMD, limit.DefaultGradient, limit.DefaultVegas
	for _, tt := range []struct {
		want string
		err  func() error
	}{
		{"min is 0", func() error { c := aimd(); c.Min = 0; return c.Check() }},
		{"max is 19", func() error { c := aimd(); c.Max = 19; return c.Check() }},
		{"initial is 19", func() error { c := aimd(); c.Initial = 19; return c.Check() }},
		{"initial is 201", func() error { c := aimd(); c.Initial = 201; return c.Check() }},
		{"queue is -1", func() error { c := aimd(); c.Queue = -1; return c.Check() }},
		{"backoff is 1", func() error { c := aimd(); c.Backoff = 1; return c.Check() }},
		{"timeout is 0s", func() error { c := aimd(); c.Timeout = 0; return c.Check() }},
		{"smoothing is 0", func() error { c := gradient(); c.Smoothing = 0; return c.Check() }},
		{"queue_size is -1", func() error { c := gradient(); c.Headroom = -1; return c.Check() }},
		{"tolerance is 0.9", func() error { c := gradient(); c.Tolerance = 0.9; return c.Check() }},
		{"long_window is 0", func() error { c := gradient(); c.Long = 0; return c.Check() }},
		{"window is -1ns", func() error { c := gradient(); c.Window = -1; return c.Check() }},
		{"window_samples is 0", func() error { c := gradient(); c.Samples = 0; return c.Check() }},
		{"ignore is -1ns", func() error { c := gradient(); c.Ignore = -1; return c.Check() }},
		{"smoothing is 1.1", func() error { c := vegas(); c.Smoothing = 1.1; return c.Check() }},
		{"probe is 0", func() error { c := vegas(); c.Probe = 0; return c.Check() }},
		{"window is -1ns", func() error { c := vegas(); c.Window = -1; return c.Check() }},
	} {
		if err := tt.err(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %q…", err, tt.want)
		}
	}
}

// pass takes one request through a Gate.
func pass(g *control.Gate, now clock.Instant, out []control.Action) []control.Action {
	out = g.Arrive(now, control.Request{ID: 1}, out[:0])
	return g.Finish(now.Add(time.Millisecond), out[0].Request, time.Millisecond, false, out[:0])
}

func TestAdaptiveDoesNotAllocate(t *testing.T) {
	for _, name := range laws {
		g := control.NewGate(adaptive(name), control.GateConfig{})
		var now clock.Instant
		out := pass(g, now, nil)
		if n := testing.AllocsPerRun(1000, func() { now += 2e6; out = pass(g, now, out) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkAdaptive measures what a request costs, Gate included.
func BenchmarkAdaptive(b *testing.B) {
	for _, name := range laws {
		b.Run(name, func(b *testing.B) {
			g := control.NewGate(adaptive(name), control.GateConfig{})
			var now clock.Instant
			var out []control.Action
			b.ReportAllocs()
			for b.Loop() {
				now += 2e6
				out = pass(g, now, out)
			}
		})
	}
}
