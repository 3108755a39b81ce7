//go:build linux

package harness

import (
	"fmt"
	"strings"
	"time"

	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/report"
)

const (
	// lagParts is the part of the tightest SLO that the p99 send lag of a valid measurement may take: a tenth.
	lagParts = 10
	// stallParts bounds what a stall of the generator of some length can do to a latency: requests that were due leave so much later, the server needs no
	// longer than that again for all of them at once if it keeps up with the rate, and replies are read so much later.
	stallParts = 3
)

// fails says why a rate does not hold, empty when it does. ours is true when the generator is to blame rather than the server: what it did
// to the load shows in the latencies too, so its own faults come first. Only latencies that no lag of it explains are the server's all the same.
func fails(r *Result) (why string, ours bool) {
	t := r.Load.Tally
	all := t.All()
	n := all.Arrivals()
	switch {
	case r.Died:
		return "the server died: " + r.death(), false
	case n == 0:
		return "no request was due in the window", true
	case len(r.Load.Invalid) > 0 && !backlogged(r):
		if c := lateAllTheSame(r); c != nil {
			return fmt.Sprintf("p99 %s of class %s is late, beyond its SLO of %s and beyond what our sender's lag explains, %s at most",
				short(c.Latency.Percentile(99)), c.Name, c.SLO, short(all.SendLag.Max())), false
		}
		return notValid(r, &all), true
	case all.Shed() > 0:
		return fmt.Sprintf("%d of %d requests were shed", all.Shed(), n), false
	case len(r.Load.Invalid) > 0:
		return fmt.Sprintf("%d of %d requests found their connections full of unanswered ones", all.Fates[reqlog.Unsent], n), false
	case all.Completed()+all.Fates[reqlog.Unsent] < n:
		return fmt.Sprintf("%d of %d requests were not answered", n-all.Completed(), n), false
	}
	for i := range t.Classes {
		c := &t.Classes[i]
		if p99 := c.Latency.Percentile(99); c.SLO > 0 && p99 > c.SLO {
			return fmt.Sprintf("p99 %s of class %s is late, its SLO is %s", short(p99), c.Name, c.SLO), false
		}
	}
	if first, second, grows := growth(&all, t.TightestSLO()); grows {
		return fmt.Sprintf("latency grows: %s on average in the first half of the window, %s in the second",
			short(first), short(second)), false
	}
	return "", false
}

// notValid says what the generator did wrong.
func notValid(r *Result, all *load.ClassTally) string {
	text := "the probe is not valid"
	var others []string
	for _, code := range r.Load.Invalid {
		switch slo := r.Load.Tally.TightestSLO(); {
		case code == drive.WarnSendLag && slo > 0:
			text = fmt.Sprintf("our sender lagged %s (p99), %s is allowed", short(all.SendLag.Percentile(99)), short(slo/lagParts))
		case code == drive.WarnSendLag:
			text = fmt.Sprintf("our sender lagged %s (p99)", short(all.SendLag.Percentile(99)))
		default:
			others = append(others, code)
		}
	}
	if len(others) > 0 {
		text += ": " + strings.Join(others, ", ")
	}
	return text
}

// lateAllTheSame returns a class that was late though our sender's own lag, which is all that was wrong with the probe, cannot have made it so. It is nil
// where there is none.
func lateAllTheSame(r *Result) *load.ClassTally {
	if len(r.Load.Invalid) != 1 || r.Load.Invalid[0] != drive.WarnSendLag {
		return nil
	}
	t := r.Load.Tally
	all := t.All()
	for i := range t.Classes {
		if c := &t.Classes[i]; c.SLO > 0 && c.Latency.Percentile(99) > c.SLO+stallParts*all.SendLag.Max() {
			return c
		}
	}
	return nil
}

// short rounds a duration to what is worth reading of it: three digits.
func short(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

func fromMicros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }

// backlogged reports whether requests were not sent because the server had left so many unanswered that its connections were full, and
// nothing else is the generator's fault.
func backlogged(r *Result) bool {
	return len(r.Load.Invalid) == 1 && r.Load.Invalid[0] == drive.WarnUnsent && r.Load.WindowFull > 0
}

// growth compares the mean latency of the halves of the window.
func growth(all *load.ClassTally, slo time.Duration) (first, second time.Duration, grows bool) {
	half := len(all.Buckets) / 2
	mean := func(buckets []load.Bucket) time.Duration {
		var sum time.Duration
		var n int64
		for _, b := range buckets {
			sum += b.Latency
			n += b.Completed
		}
		if n == 0 {
			return 0
		}
		return sum / time.Duration(n)
	}
	first, second = mean(all.Buckets[:half]), mean(all.Buckets[half:])
	grows = float64(second) > growthFactor*float64(first) && float64(second) > growthShare*float64(slo)
	return first, second, grows
}

// capacityNote says what a search has found.
func capacityNote(c *report.Capacity) string {
	held := "which held"
	if c.Uncertain {
		held = "which is not certain to hold"
	}
	switch {
	case c.High == 0:
		return fmt.Sprintf("capacity at least %.0f requests per second, %s; no rate failed by the server's own fault", c.RPS, held)
	case c.AtLeast:
		return fmt.Sprintf("capacity at least %.0f requests per second, %s, and less than %.0f, which did not", c.RPS, held, c.High)
	default:
		return fmt.Sprintf("capacity %.0f requests per second (between %.0f, %s, and %.0f, which did not)", c.RPS, c.Low, held, c.High)
	}
}
