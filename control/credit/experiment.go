package credit

import (
	"time"

	"spillway/clock"
	"spillway/control"
)

// Experiment is what was seen of the requests that arrived in one small experiment.
type Experiment struct {
	Duration time.Duration // what rates refer to
	In       int           // arrivals, those that were rejected included
	Out      int           // completions
	Good     int           // completions of requests that waited less than the budget
	Drops    int           // requests that were turned away, at arrival or later
	MaxDelay time.Duration // the longest queueing delay
	Budget   time.Duration // the delay budget, for comparison

	// What sensors measured meanwhile; 0 where there are none, or where they were not read in the experiment.
	BytesPerSecond float64 // over the memory bus
	Watts          float64
}

// Rate returns n of the experiment's requests as a rate, per second.
func (e *Experiment) Rate(n int) float64 {
	if e.Duration <= 0 {
		return 0
	}
	return float64(n) / e.Duration.Seconds()
}

// reading is what sensors said last.
type reading struct {
	delay    time.Duration
	bytes    uint64
	bytesAt  clock.Instant
	joules   float64
	joulesAt clock.Instant
}

// trial is an experiment under way, or one whose requests are still waited for.
type trial struct {
	Experiment
	number uint32 // in the tags of the requests that arrived in it; 0 for a trial that has not begun
	ended  int    // its requests that are finished or refused
	began  clock.Instant
	last   clock.Instant // the last event that counted
	before reading
}

// open reports whether a request of it is still under way.
func (t *trial) open() bool { return t.ended < t.In }

// begin starts the trial of that number.
func (t *trial) begin(now clock.Instant, number uint32, r reading, budget time.Duration) {
	*t = trial{
		Experiment: Experiment{MaxDelay: r.delay, Budget: budget},
		number:     number, began: now, last: now, before: r,
	}
}

// count takes a completion or a refusal into account.
func (t *trial) count(now clock.Instant, e *control.Event) {
	t.last = now
	switch {
	case e.Kind == control.Refused || e.Failed:
		t.Drops++
	default:
		t.Out++
		if e.Request.Waited < t.Budget {
			t.Good++
		}
	}
}

// sense works out what the sensors saw between the readings before and r.
func (t *trial) sense(r reading) {
	b := &t.before
	if d := r.bytesAt.Sub(b.bytesAt).Seconds(); d > 0 && r.bytes >= b.bytes {
		t.BytesPerSecond = float64(r.bytes-b.bytes) / d
	}
	if d := r.joulesAt.Sub(b.joulesAt).Seconds(); d > 0 && r.joules >= b.joules {
		t.Watts = (r.joules - b.joules) / d
	}
}
