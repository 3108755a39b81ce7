//go:build linux

package harness

import (
	"fmt"

	"spillway/control"
	"spillway/internal/load"
	"spillway/report"
)

// describe fills in what a manifest says of a point beside its rows.
func describe(f *report.PointFacts, r *Result, all *load.ClassTally) {
	l := &r.Load
	f.Senders, f.ClosedLoop = l.Senders, l.Closed
	if l.Sequence.Requests > 0 {
		f.Sequence = fmt.Sprintf("%d:%016x", l.Sequence.Requests, l.Sequence.Hash)
	}
	c := &l.Counters
	f.TimedOutDial, f.TimedOutWrite, f.TimedOutReply, f.ConnectionsAdded = c.TimedOutDial, c.TimedOutWrite, c.TimedOutReply, c.Grown
	for i := range l.Tally.Classes {
		f.Responses = append(f.Responses, responses(&l.Tally.Classes[i]))
	}
	f.Responses = append(f.Responses, responses(all))
	f.Shed = shedByReason(l.Tally.Classes, all)
}

// shedByReason returns why the requests of each class were shed, and those of all together; nil where none was.
func shedByReason(classes []load.ClassTally, all *load.ClassTally) map[string]map[string]int64 {
	var by map[string]map[string]int64
	add := func(class string, c *load.ClassTally) {
		for reason, n := range c.Reasons {
			if n == 0 {
				continue
			}
			name := control.Reason(reason).String()
			if control.Reason(reason) == control.NoReason {
				name = "refused" // by its own client: a server has a reason
			}
			if by == nil {
				by = map[string]map[string]int64{}
			}
			if by[class] == nil {
				by[class] = map[string]int64{}
			}
			by[class][name] += n
		}
	}
	for i := range classes {
		add(classes[i].Name, &classes[i])
	}
	add(report.AllClasses, all)
	return by
}

// responses returns the percentiles that points.csv has no columns for.
func responses(c *load.ClassTally) report.Responses {
	r := report.Responses{Class: c.Name}
	if n := c.Arrivals(); n > 0 {
		r.AnsweredRatio = float64(c.Completed()) / float64(n)
	}
	for _, p := range []struct {
		p  float64
		to *float64
	}{{50, &r.P50US}, {90, &r.P90US}, {99, &r.P99US}, {99.9, &r.P999US}} {
		if d, finite := c.Adjusted(p.p); finite {
			*p.to = micros(d)
		}
	}
	if c.Trip.Count() > 0 {
		r.FromSendP50US, r.FromSendP99US = micros(c.Trip.Percentile(50)), micros(c.Trip.Percentile(99))
	}
	return r
}
