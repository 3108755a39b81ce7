package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

const ms = time.Millisecond

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 0)) }

// learn shows a one observation and returns the limit that follows.
func learn(a *Adaptive, o observation) float64 {
	a.limit = min(max(a.law.sample(a.limit, o), a.min), a.max)
	return a.limit
}

// TestPaperAIMD checks additive increase while half of the limit is in use, none below, and the factor 0.9 for what fails or takes longer than
// five seconds, between 20 and 200. Reference: AIMDLimit.
func TestPaperAIMD(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from float64
		o    observation
		want float64
	}{
		{20, observation{rtt: ms, inFlight: 10}, 21},
		{20, observation{rtt: ms, inFlight: 9}, 20},
		{200, observation{rtt: ms, inFlight: 200}, 200},
		{100, observation{rtt: 5 * time.Second, inFlight: 50}, 101},
		{100, observation{rtt: 5*time.Second + 1, inFlight: 50}, 90},
		{99, observation{rtt: ms, inFlight: 1, dropped: true}, 89},
		{21, observation{rtt: ms, inFlight: 1, dropped: true}, 20},
	} {
		a := NewAIMD(DefaultAIMD())
		a.limit = tt.from
		if got := learn(a, tt.o); got != tt.want {
			t.Errorf("%+v at %v: limit %v, want %v", tt.o, tt.from, got, tt.want)
		}
	}
}

// TestPaperVegas checks every branch, at limits where the step is 1, 2 and 3. Reference: VegasLimit and Log10RootIntFunction.
func TestPaperVegas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from  float64
		queue float64 // that the time amounts to
		o     observation
		want  float64
	}{
		{20, 0, observation{inFlight: 20}, 26},
		{20, 1, observation{inFlight: 20}, 26},
		{20, 2, observation{inFlight: 20}, 21},
		{20, 3, observation{inFlight: 20}, 20},
		{20, 6, observation{inFlight: 20}, 20},
		{20, 7, observation{inFlight: 20}, 19},
		{20, 7, observation{inFlight: 10}, 19},
		{20, 7, observation{inFlight: 9}, 20},
		{20, 7, observation{inFlight: 9, dropped: true}, 19},
		{99, 1, observation{inFlight: 99}, 105},
		{100, 2, observation{inFlight: 100}, 112},
		{100, 3, observation{inFlight: 100}, 102},
		{100, 5, observation{inFlight: 100}, 102},
		{100, 6, observation{inFlight: 100}, 100},
		{100, 13, observation{inFlight: 100}, 98},
		{1000, 0, observation{inFlight: 1000}, 1000},
		{1000, 19, observation{inFlight: 1000}, 997},
		{1, 0, observation{inFlight: 1, dropped: true}, 1},
	} {
		a := NewVegas(DefaultVegas(), newRand())
		l := a.law.(*vegas)
		l.shortest = 100 * ms
		a.limit = tt.from
		// Half a request short of that queue, so that rounding does not decide.
		tt.o.rtt = max(time.Duration(float64(l.shortest)/(1-(tt.queue-0.5)/tt.from)), l.shortest)
		l.n = -1000 // no new measurement of the shortest time is due
		if got := learn(a, tt.o); got != tt.want {
			t.Errorf("queue %v, %+v at %v: limit %v, want %v", tt.queue, tt.o, tt.from, got, tt.want)
		}
	}
}

// TestPaperVegasProbe checks when the shortest time is taken anew, whatever it is: after 30 times the limit samples, times a share from half to
// one. Reference: VegasLimit, probeMultiplier and probeJitter.
func TestPaperVegasProbe(t *testing.T) {
	t.Parallel()
	a := NewVegas(DefaultVegas(), newRand())
	l := a.law.(*vegas)
	learn(a, observation{rtt: 10 * ms, inFlight: 1})
	seen := map[int]bool{}
	for range 20 {
		n := 0
		for l.shortest == 10*ms && n < 1000 {
			learn(a, observation{rtt: 20 * ms, inFlight: 1})
			n++
		}
		if n < 300-1 || n > 600 {
			t.Fatalf("measured anew after %d samples at a limit of 20, want 300 to 600", n)
		}
		seen[n] = true
		learn(a, observation{rtt: 10 * ms, inFlight: 1}) // shorter ones are always taken
	}
	if len(seen) < 10 {
		t.Errorf("only %d different distances", len(seen))
	}
}

// TestPaperGradient checks the law with numbers: a long average of 10 ms, tolerance 1.5, a smoothing of 0.2 and room for 4 more. Reference:
// Gradient2Limit.
func TestPaperGradient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		o    observation
		want float64
	}{
		{"at the average", observation{rtt: 10 * ms, inFlight: 100}, 100 + 0.2*4},
		{"within the tolerance", observation{rtt: 15 * ms, inFlight: 100}, 100 + 0.2*4},
		{"twice the average", observation{rtt: 20 * ms, inFlight: 100}, 0.8*100 + 0.2*(0.75*100+4)},
		{"ten times the average", observation{rtt: 100 * ms, inFlight: 100}, 0.8*100 + 0.2*(0.5*100+4)},
		{"less than half in use", observation{rtt: 100 * ms, inFlight: 49}, 100},
	} {
		a := NewGradient(DefaultGradient())
		l := a.law.(*gradient)
		a.limit, l.n, l.long = 100, warmUp, float64(10*ms)
		// The sample itself moves the average by 2/601 of its distance.
		if got := learn(a, tt.o); math.Abs(got-tt.want) > 0.3 {
			t.Errorf("%s: limit %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPaperGradientAverage checks the long average: a mean of the first ten samples, then 2/601 of each new one; more than twice the latest
// sample it is cut by a twentieth. Reference: ExpAvgMeasurement with a window of 600; Gradient2Limit.
func TestPaperGradientAverage(t *testing.T) {
	t.Parallel()
	a := NewGradient(DefaultGradient())
	l := a.law.(*gradient)
	for i := range 10 {
		learn(a, observation{rtt: time.Duration(i+1) * ms})
	}
	if want := 5.5 * float64(ms); math.Abs(l.long-want) > 1 {
		t.Errorf("after ten samples the average is %v, want %v", l.long, want)
	}
	learn(a, observation{rtt: 10 * ms})
	if want := (5.5 + 4.5*2/601) * float64(ms); math.Abs(l.long-want) > 1 {
		t.Errorf("after eleven the average is %v, want %v", l.long, want)
	}
	before := l.long
	learn(a, observation{rtt: 1 * ms})
	if want := (before + (float64(ms)-before)*2/601) * 0.95; math.Abs(l.long-want) > 1 {
		t.Errorf("after a sample of a fifth the average is %v, want %v", l.long, want)
	}
}

// TestPaperWindow checks windows: a second each, of at least ten samples, without those below 100 µs, and what they hand on. Reference:
// WindowedLimit.
func TestPaperWindow(t *testing.T) {
	t.Parallel()
	w := window{span: time.Second, least: 10, ignore: 100 * time.Microsecond}
	now := clock.Instant(ms)
	if _, ok := w.add(now, observation{rtt: ms}); ok {
		t.Error("a window of one sample was handed on")
	}
	ends := now.Add(time.Second)
	for i := range 9 {
		if _, ok := w.add(ends, observation{rtt: time.Duration(i) * ms, inFlight: 20 - i, dropped: i == 4}); ok {
			t.Fatal("a window was handed on at its end, not after it")
		}
		if _, ok := w.add(ends+1, observation{rtt: 99 * time.Microsecond}); ok {
			t.Fatal("a sample that is too short ended a window")
		}
	}
	// The sample of 0 ms was left out, so eight went in; the tenth is one more.
	if _, ok := w.add(ends, observation{rtt: 9 * ms}); ok {
		t.Fatal("a window was handed on too soon")
	}
	got, ok := w.add(ends+1, observation{rtt: 10 * ms})
	if want := (observation{rtt: 5500 * time.Microsecond, inFlight: 19, dropped: true}); !ok || got != want {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
}

// A request's time runs from when it was let go, through whatever it waited for then, and not from when it came.
func TestTimeRunsFromTheStart(t *testing.T) {
	t.Parallel()
	c := DefaultAIMD()
	c.Initial, c.Min, c.Timeout = 1, 1, 100*ms
	a := NewAIMD(c)
	g := control.NewGate(a, control.GateConfig{})
	actions := g.Arrive(0, control.Request{ID: 1}, nil)
	g.Arrive(0, control.Request{ID: 2}, nil)
	first := actions[0].Request
	actions = g.Finish(clock.Instant(90*ms), first, 10*ms, false, nil) // 80 ms of them for a core
	if a.limit != 2 {
		t.Errorf("limit %v after 90 ms, want 2", a.limit)
	}
	g.Finish(clock.Instant(180*ms), actions[0].Request, 10*ms, false, nil)
	if a.limit != 3 {
		t.Errorf("limit %v after another 90 ms in service, 180 since it came; want 3", a.limit)
	}
	actions = g.Arrive(clock.Instant(200*ms), control.Request{ID: 3}, nil)
	g.Finish(clock.Instant(301*ms), actions[0].Request, 10*ms, false, nil)
	if a.limit != 2 {
		t.Errorf("limit %v after 101 ms, want 2", a.limit)
	}
}

// Stamps come round after four and a half minutes; a time across that instant is measured right.
func TestStampsComeRound(t *testing.T) {
	t.Parallel()
	round := clock.Instant(stampUnit) << 32
	for _, from := range []clock.Instant{0, 1, round - 1000, round, 5*round - 64} {
		if got := sinceStamp(from.Add(ms), stamp(from)); got < ms-2*stampUnit || got > ms+stampUnit {
			t.Errorf("from %d: %v, want 1ms", from, got)
		}
	}
}
