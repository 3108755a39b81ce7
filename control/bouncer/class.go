package bouncer

import (
	"fmt"
	"math"
	"time"

	"spillway/clock"
)

// class is what is known of one class of requests.
type class struct {
	recorder
	objectives []Objective
	waiting    int
	running    int
	admitted   clock.Instant // when one was last

	// What decisions go by, from the class's own snapshot or, before it has one, that of all classes.
	mean     int64   // m_c, in nanoseconds; 0 while nothing is known
	residual float64 // what a running request has left on average, in nanoseconds
	headroom int64   // h_c, in nanoseconds; the largest number when the class has no objective or nothing is known
}

func newClass(known Class, config Config) class {
	c := class{recorder: newRecorder(), headroom: math.MaxInt64, objectives: known.SLO}
	if limit := known.Limit; len(c.objectives) == 0 {
		if limit == 0 {
			limit = config.DefaultSLO
		}
		if limit > 0 {
			c.objectives = []Objective{{Percentile: config.Percentile, Limit: limit}}
		}
	}
	for _, o := range c.objectives {
		if o.Percentile <= 0 || o.Percentile >= 1 || o.Limit <= 0 {
			panic(fmt.Sprintf("bouncer: class %s has the objective %v at percentile %v", known.Name, o.Limit, o.Percentile))
		}
	}
	return c
}

// estimate makes of s what decisions go by, with a margin less of every limit.
func (c *class) estimate(s *snapshot, margin time.Duration) {
	c.mean, c.residual = int64(s.mean), s.residual
	c.headroom = math.MaxInt64
	for _, o := range c.objectives {
		c.headroom = min(c.headroom, int64(o.Limit-margin-s.times.quantile(o.Percentile)))
	}
}

// recorder gathers processing times and keeps those of the last window that ended: of two histograms one is written to and one read.
type recorder struct {
	times *histogram // of this window
	snapshot
	taken clock.Instant // when the snapshot was; 0 for never
}

// snapshot is a window that has ended. It does not change until the next one replaces it.
type snapshot struct {
	times    *histogram
	mean     float64
	residual float64 // E[S²]/2E[S]: what a request that is found running has left on average, were it found at random
}

func newRecorder() recorder {
	return recorder{times: new(histogram), snapshot: snapshot{times: new(histogram)}}
}

func (r *recorder) record(d time.Duration) { r.times.record(d) }

// fewest is how many samples even a stale snapshot is replaced by.
const fewest = 10

// ripe reports whether the window may end.
func (r *recorder) ripe(now clock.Instant, c Config) bool {
	if r.times.n >= c.Samples {
		return true
	}
	stale := c.Stale > 0 && r.taken > 0 && now.Sub(r.taken) >= c.Stale
	return stale && r.times.n >= fewest
}

// take ends the window and begins another.
func (r *recorder) take(now clock.Instant) {
	r.times, r.snapshot.times = r.snapshot.times, r.times
	r.times.clear()
	r.mean, r.residual = r.snapshot.times.mean(), r.snapshot.times.residual()
	r.taken = now
}
