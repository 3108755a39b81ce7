//go:build linux

package calibrate

import (
	"math"
	"strings"
	"testing"
	"time"
)

// scripted is a machine whose clocks and processors do what a test says: one step each time that it is looked at.
type scripted struct {
	steps  int
	steady time.Duration // ns of the one clock for each second of the other
	used   Processors    // a step
	turns  []time.Duration
	looks  int
}

func (s *scripted) around() Surroundings {
	return Surroundings{
		Raw:    func() time.Duration { return time.Duration(s.steps) * time.Second },
		Steady: func() time.Duration { return time.Duration(s.steps) * (time.Second + s.steady) },
		Processors: func() Processors {
			n := float64(s.steps)
			return Processors{All: n * s.used.All, Busy: n * s.used.Busy, Stolen: n * s.used.Stolen, Own: n * s.used.Own}
		},
		Turns: func() time.Duration {
			d := s.turns[min(s.looks, len(s.turns)-1)]
			s.looks++
			return d
		},
	}
}

func TestNoiseIsFound(t *testing.T) {
	t.Parallel()
	quiet := Processors{All: 2, Busy: 1, Own: 1}
	steadily := []time.Duration{time.Millisecond}
	for _, tc := range []struct {
		name   string
		drift  time.Duration
		used   Processors
		turns  []time.Duration
		spread float64
		want   string // in the only finding; empty for a quiet machine
	}{
		{name: "quiet", used: quiet, turns: steadily, spread: 0.02},
		{name: "corrected a little", drift: 100 * time.Microsecond, used: quiet, turns: steadily},
		{name: "steal", used: Processors{All: 2, Busy: 1, Own: 1, Stolen: 0.1}, turns: steadily, want: "gave 5.0 % of the processors' time to others"},
		{name: "others", used: Processors{All: 2, Busy: 1.5, Own: 1}, turns: steadily, want: "other processes used 25 %"},
		{name: "clock", drift: 2 * time.Millisecond, used: quiet, turns: steadily, want: "+2000 millionths"},
		{name: "clock behind", drift: -2 * time.Millisecond, used: quiet, turns: steadily, want: "-2000 millionths"},
		{name: "speed", used: quiet, turns: []time.Duration{time.Millisecond, 800 * time.Microsecond, time.Millisecond}, want: "20 % slower"},
		{name: "spread", used: quiet, turns: steadily, spread: 0.3, want: "differ by 30 %"},
		{name: "nothing known", used: Processors{All: math.NaN()}, turns: steadily},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{steady: tc.drift, used: tc.used, turns: tc.turns}
			w := newWatchman(s.around())
			for range 3 {
				s.steps++
				w.look()
			}
			n := w.noise(tc.spread)
			if n.Quiet != (tc.want == "") || len(n.Findings) > 1 {
				t.Fatalf("%+v", n)
			}
			if tc.want != "" && !strings.Contains(n.Findings[0], tc.want) {
				t.Errorf("%q does not say %q", n.Findings[0], tc.want)
			}
		})
	}
}

func TestParseProcessors(t *testing.T) {
	t.Parallel()
	p := parseProcessors([]byte("cpu  100 200 300 1000 50 10 20 70 5 6\ncpu0 1 2 3\n"))
	want := Processors{All: 17.5, Busy: 6.3, Stolen: 0.7}
	if math.Abs(p.All-want.All)+math.Abs(p.Busy-want.Busy)+math.Abs(p.Stolen-want.Stolen) > 1e-9 {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8"} {
		if p := parseProcessors([]byte(text)); !math.IsNaN(p.All) {
			t.Errorf("%q: %+v", text, p)
		}
	}
	if p := processors(); !(p.All > 0) || !(p.Own > 0) {
		t.Errorf("of this machine: %+v", p)
	}
}
