//go:build linux

package harness

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/report"
)

// TestWatchInterpolates: what grows is read between the observations around an instant, and unknown where one of them is missing.
func TestWatchInterpolates(t *testing.T) {
	t.Parallel()
	at := func(ms int) clock.Instant { return clock.Instant(time.Duration(ms) * time.Millisecond) }
	w := &watch{cores: cores{n: 4, modelled: true}, seen: []observation{
		{at: at(0), cpu: 0, moved: 0}, {at: at(10), cpu: 0.020, moved: 1e6}, {at: at(20), cpu: 0.060, moved: 3e6}, {at: at(30), cpu: -1, moved: -1},
	}}
	cpu, samples := w.within(at(5), at(15))
	// 10 ms at two cores until 10 ms, at four thereafter: 30 ms of core-time in 10 ms of four cores.
	if got := value(t, cpu); got < 0.7499 || got > 0.7501 {
		t.Errorf("cpu %v, want 0.75", got)
	}
	bw, source := w.bandwidth(at(5), at(15))
	if got := value(t, bw); got < 149.9e6 || got > 150.1e6 || source != "model" {
		t.Errorf("%v bytes per second (%s), want 150 MB/s", got, source)
	}
	if len(samples) != 2 || samples[0].Name != "cpu" || samples[1].Name != "membw" || value(t, samples[1].Value) != 1e8 || samples[0].TimeUS != 5000 {
		t.Errorf("samples %+v", samples)
	}
	if cpu, _ := w.within(at(5), at(25)); cpu != (report.Value{}) {
		t.Errorf("cpu %v up to an observation that failed, want unknown", cpu)
	}
	if bw, source := w.bandwidth(at(5), at(40)); source != "" || bw != (report.Value{}) {
		t.Errorf("%v bytes per second beyond what was seen, want unknown", bw)
	}
}

// TestTimingOfAStretchedClock: an instant lies as much later on the calendar as time is stretched.
func TestTimingOfAStretchedClock(t *testing.T) {
	t.Parallel()
	for scale, want := range map[int]time.Duration{0: time.Millisecond, 1: time.Millisecond, 250: 250 * time.Millisecond} {
		timing, err := newTiming(scale)
		if err != nil {
			t.Fatal(err)
		}
		if got := timing.calendar(timing.at.Add(time.Millisecond)).Sub(timing.wall); got != want {
			t.Errorf("scale %d: a millisecond of the clock is %v of the calendar, want %v", scale, got, want)
		}
	}
	if _, err := newTiming(clock.MaxScale + 1); err == nil {
		t.Error("a scale beyond the largest was taken")
	}
}
