package bouncer

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

// day runs b for a while: every step a request of class 0 arrives at an idle server and, if it is admitted, takes what took says. It returns how many
// were admitted.
func day(b *Bouncer, now clock.Instant, length, step time.Duration, took time.Duration) (end clock.Instant, admitted int) {
	for end = now.Add(length); now < end; now = now.Add(step) {
		if next := b.Tick(now, control.Signals{}); next <= now {
			panic("a tick in the past")
		}
		if admits(b, now, 0) {
			serve(b, now, 0, took)
			admitted++
		}
	}
	return end, admitted
}

// A spike in processing times that lasts a window locks its class out. With probes it comes back by itself after a hundred of them; without, it
// is gone for ever, because a rejected class has nothing to learn from.
func TestSpikeDoesNotLockOutForEver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		probe time.Duration
		back  bool
	}{{"probes", time.Second, true}, {"no probes", 0, false}} {
		c := Default()
		c.Probe, c.Parallelism = tt.probe, 1
		b := New(c, Env{Classes: four()})
		now, _ := day(b, 0, 10*time.Second, 10*ms, 2*ms)
		now, n := day(b, now, 5*time.Second, 10*ms, 60*ms)
		if n != 500 {
			t.Fatalf("%s: %d of 500 admitted while the spike lasted", tt.name, n)
		}
		now, n = day(b, now, 5*time.Second, 10*ms, 2*ms)
		if most := 6; n > most || !b.Unmeetable(0) {
			t.Fatalf("%s: %d admitted right after the spike, at most %d probes expected", tt.name, n, most)
		}
		now, _ = day(b, now, 110*time.Second, 10*ms, 2*ms)
		_, n = day(b, now, time.Second, 10*ms, 2*ms)
		if back := n == 100; back != tt.back {
			t.Errorf("%s: two minutes after the spike %d of 100 are admitted", tt.name, n)
		}
	}
}

// A locked-out class has one request a second admitted, not more.
func TestProbesAreOneASecond(t *testing.T) {
	t.Parallel()
	c := Default()
	b := newTaught(1, c)
	now := at(5 * time.Second)
	n := 0
	for range 10_000 {
		now = now.Add(ms)
		if admits(b, now, 3) {
			n++
			serve(b, now, 3, 6*ms)
		}
	}
	if n != 10 {
		t.Errorf("%d probes in 10 s, want 10", n)
	}
}

// Estimates that have become old are replaced by those of fewer samples, but not of fewer than ten.
func TestStaleEstimatesAreReplaced(t *testing.T) {
	t.Parallel()
	for samples, want := range map[int]time.Duration{9: 2 * ms, 10: 8 * ms} {
		b := newTaught(1, Default()) // at 5 s
		for range samples {
			serve(b, at(6*time.Second), 0, 8*ms)
		}
		for s := 10; s < 125; s += 5 {
			b.Tick(at(time.Duration(s)*time.Second), control.Signals{})
		}
		if got := time.Duration(b.classes[0].mean); got != 2*ms {
			t.Fatalf("%d samples ended the window before two minutes were over: %v", samples, got)
		}
		b.Tick(at(125*time.Second), control.Signals{})
		if got := time.Duration(b.classes[0].mean); got != want {
			t.Errorf("after two minutes with %d samples: mean %v, want %v", samples, got, want)
		}
	}
}

// A class that has had a window of its own never goes by that of all classes again, however long it gets no samples: a slow class that is
// starved would pass for an average one.
func TestNoFallBackToAllClasses(t *testing.T) {
	t.Parallel()
	b := newTaught(1, quiet())
	slow := b.classes[1].headroom
	now := at(5 * time.Second)
	for range 100 {
		for range 100 {
			serve(b, now, 0, 2*ms)
		}
		now = now.Add(5 * time.Second)
		b.Tick(now, control.Signals{})
	}
	if b.classes[1].headroom != slow {
		t.Errorf("headroom went from %v to %v without a sample", time.Duration(slow), time.Duration(b.classes[1].headroom))
	}
}
