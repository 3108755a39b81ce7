package arrival

import (
	"math"
	"strings"
	"testing"
	"time"

	"spillway/clock"
)

// TestPhases: each phase has as many arrivals as its rate says, the warm-up as many as the first's, and what comes after the last goes on.
func TestPhases(t *testing.T) {
	t.Parallel()
	const start, warmUp = clock.Instant(5), 500 * time.Millisecond
	phases := []Phase{{For: time.Second, Rate: 3000}, {For: 500 * time.Millisecond, Rate: 0}, {For: 2 * time.Second, Rate: 9000}, {For: time.Second, Rate: 1000}}
	for _, kind := range []string{KindConstant, KindPoisson, KindPoissonExact} {
		p := mustMake(t, Config{Arrivals: kind, Start: start, WarmUp: warmUp, Window: 4500 * time.Millisecond, Phases: phases})
		if even := Even(p); even != (kind == KindConstant) {
			t.Errorf("%s: even %v", kind, even)
		}
		all := instants(p, 1, start.Add(warmUp+4500*time.Millisecond))
		at, from := start, 0
		for i, phase := range append([]Phase{{For: warmUp, Rate: 3000}}, phases...) {
			at = at.Add(phase.For)
			n := from
			for n < len(all) && all[n] < at {
				n++
			}
			want := phase.Rate * phase.For.Seconds()
			off := 1.0                // by rounding
			if kind != KindConstant { // of poisson-exact only the warm-up and the window as a whole are
				off = 5 * math.Sqrt(want)
			}
			if got := float64(n - from); math.Abs(got-want) > off+1 {
				t.Errorf("%s: %g arrivals in phase %d, want %g ± %g", kind, got, i, want, off)
			}
			from = n
		}
		if from != len(all) || kind == KindPoissonExact && from != 1500+3000+18000+1000 {
			t.Errorf("%s: %d arrivals in all", kind, len(all))
		}
	}
}

func TestPhasesAreChecked(t *testing.T) {
	t.Parallel()
	one := Phase{For: time.Second, Rate: 1000}
	for want, c := range map[string]Config{
		"leave out the rate":          {Arrivals: KindPoisson, Rate: 5, Phases: []Phase{one}},
		"leave out the rate and":      {Arrivals: KindPoisson, Shape: "sine:0.5@1s", Phases: []Phase{one}},
		"longer than 0":               {Arrivals: KindPoisson, Phases: []Phase{one, {Rate: 1}}},
		"a rate between 0 and 1e+09":  {Arrivals: KindPoisson, Phases: []Phase{{For: 1, Rate: -1}}},
		"no phase has a rate above 0": {Arrivals: KindPoisson, Phases: []Phase{{For: 1}}},
		"needs a window":              {Arrivals: KindPoissonExact, Phases: []Phase{one}},
	} {
		if _, err := Make(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
