package load

import (
	"fmt"
	"math"
	"time"

	"spillway/internal/reqlog"
)

// Check holds the counts against each other and against arrivals, the number of requests that the caller knows to have been due in
// the window. It returns an error that says which sum is wrong; a result that fails it must not be believed.
func (t *Tally) Check(arrivals int64) error {
	var total int64
	for i := range t.Classes {
		c := &t.Classes[i]
		total += c.Arrivals()
		if err := c.check(); err != nil {
			return fmt.Errorf("class %s: %w", c.Name, err)
		}
	}
	if total != arrivals {
		return fmt.Errorf("fates sum to %d, but %d requests were due in the window", total, arrivals)
	}
	return nil
}

func (c *ClassTally) check() error {
	if n := c.Fates[reqlog.Pending]; n != 0 {
		return fmt.Errorf("%d requests have no fate", n)
	}
	if got, want := c.Latency.Count(), c.Completed(); got != want {
		return fmt.Errorf("the latency histogram holds %d requests, %d were completed", got, want)
	}
	if got, want := c.Trip.Count(), c.Completed(); got != want {
		return fmt.Errorf("the histogram from send to reply holds %d requests, %d were completed", got, want)
	}
	if got, want := c.SendLag.Count(), c.Sent(); got != want {
		return fmt.Errorf("the send lag histogram holds %d requests, %d were sent", got, want)
	}
	var ok, shed int64
	for _, b := range c.Buckets {
		ok += b.OK
		shed += b.Shed
	}
	if ok != c.Fates[reqlog.OK] || shed != c.Shed() {
		return fmt.Errorf("the time series holds %d ok and %d shed, the counts are %d and %d", ok, shed, c.Fates[reqlog.OK], c.Shed())
	}
	return nil
}

// TightestSLO returns the smallest limit among the classes that have one; 0 when none has.
func (t *Tally) TightestSLO() (slo time.Duration) {
	for i := range t.Classes {
		if s := t.Classes[i].SLO; s > 0 && (slo == 0 || s < slo) {
			slo = s
		}
	}
	return slo
}

// Adjusted returns the p-th percentile of latency, 0 ≤ p ≤ 100, when every request that was not answered counts as infinitely slow:
// refused, shed, timed out, failed or never sent. finite is false when the percentile falls among those. A percentile over completed
// requests alone falls when a server sheds more, however many users wait in vain. With no arrivals there is no percentile: 0, true.
func (c *ClassTally) Adjusted(p float64) (d time.Duration, finite bool) {
	n, completed := c.Arrivals(), c.Completed()
	if n == 0 {
		return 0, true
	}
	rank := max(math.Ceil(p/100*float64(n)*(1-1e-12)), 1)
	if rank > float64(completed) {
		return 0, false
	}
	return c.Latency.Percentile(rank / float64(completed) * 100), true
}

// Series returns, for each whole bucket of the window, how many requests were completed and their mean latency in nanoseconds. Buckets
// without completed requests have no mean and are left out of latency.
func (c *ClassTally) Series(window time.Duration) (completed, latency []float64) {
	for _, b := range c.Buckets[:window/c.span] {
		completed = append(completed, float64(b.Completed))
		if b.Completed > 0 {
			latency = append(latency, float64(b.Latency)/float64(b.Completed))
		}
	}
	return completed, latency
}
