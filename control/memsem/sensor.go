package memsem

import (
	"math"
	"slices"
	"time"

	"spillway/clock"
)

const (
	readings = 15 // how many of the last ones tell how fast the sensor is
	perStep  = 10 // a period has at least so many of the sensor's
	agesKnow = 3  // readings that must be known before a sensor is believed to be fast
	gapsKnow = 3  // distances of samples that must be known before the pace of a slow one is believed
)

// sensor finds out how often the memory sensor takes a sample. What it sees is when the last sample was taken, at each tick.
//
// A sensor that is read when asked has samples that are new at every tick. One that runs at a pace of its own shows by the age of its
// samples: at ticks that know nothing of its pace, they are anything up to as old as its period. So as long as no sample is older than a
// tenth of the semaphore's period, the sensor is fast enough, and its pace does not matter. Otherwise the pace is the median distance of
// consecutive samples, for which ticks must come more often than samples: twice as often as the pace that is known so far, which finds
// a faster one by and by.
//
// Ticks must not keep time with the sensor, or samples would always look new. So some of them come at odd moments.
type sensor struct {
	period time.Duration // the semaphore's, as set
	last   clock.Instant // when the last sample was taken
	ages   ring          // of the samples at the last ticks
	gaps   ring          // between samples
	odd    float64       // where the next odd moment lies, from 0 to 1
	probe  bool          // the period that begins next has an odd tick
}

// read takes note of a tick; fresh is true when there is a new sample.
func (s *sensor) read(now, at clock.Instant) (fresh bool) {
	s.ages.add(now.Sub(at))
	gap := at.Sub(s.last)
	s.last = at
	if gap > 0 {
		s.gaps.add(gap)
	}
	return gap > 0
}

// fast reports whether samples are as good as new whenever there is a tick.
func (s *sensor) fast() bool { return s.ages.max()*perStep <= s.period }

// stretched returns the period to be used; known is false while the sensor's pace is not known.
func (s *sensor) stretched() (period time.Duration, known bool) {
	if s.fast() {
		return s.period, s.ages.n >= agesKnow
	}
	return max(s.period, perStep*s.gaps.median()), s.gaps.n >= gapsKnow
}

// pause returns how long to wait until the next tick. began is when the sample that bandwidth is counted from was taken.
func (s *sensor) pause(now, began clock.Instant) time.Duration {
	switch {
	case s.fast():
		left := began.Add(s.period).Sub(now)
		if left <= 0 {
			return s.period / perStep // it is time, only the last sample was taken a little too early
		}
		if left*perStep < s.period*(perStep-1) {
			return left // there has been a tick since the period began
		}
		if s.probe = !s.probe; s.probe {
			return max(1, time.Duration(s.moment()*float64(left)))
		}
		return left
	case s.gaps.n == 0:
		return s.period // perhaps there is no sensor at all
	default:
		return time.Duration((0.75 + s.moment()/2) * float64(max(s.period/perStep, s.gaps.median()/2)))
	}
}

// moment returns a number between 0 and 1: multiples of the golden ratio are spread evenly, and in step with nothing.
func (s *sensor) moment() float64 {
	_, s.odd = math.Modf(s.odd + math.Phi)
	return s.odd
}

// ring has the last few durations.
type ring struct {
	values [readings]time.Duration
	n, at  int
}

func (r *ring) add(d time.Duration) {
	r.values[r.at] = d
	r.at = (r.at + 1) % readings
	r.n = min(r.n+1, readings)
}

func (r *ring) max() time.Duration {
	most := time.Duration(0)
	for _, d := range r.values[:r.n] {
		most = max(most, d)
	}
	return most
}

// median returns the middle value, 0 when there is none.
func (r *ring) median() time.Duration {
	if r.n == 0 {
		return 0
	}
	sorted := r.values
	slices.Sort(sorted[:r.n])
	return sorted[r.n/2]
}
