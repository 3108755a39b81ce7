//go:build linux

package harness

import (
	"context"
	"fmt"
	"math"
	"time"

	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/profiles"
	"spillway/report"
)

// Capacity is the highest offered rate at which, without any control, every class's p99 latency is within its SLO, nothing is shed,
// fails or stays unanswered, and latency does not grow from the first half of the window to the second. The last condition is for the
// shortness of the probes: a server that is offered a little more than it can do builds its queue slowly, and a second of that can
// still look good.
//
//	rate  ▲            × does not hold
//	      │        ×
//	      │      ●   × ●        doubling until one fails, then halving the bracket
//	      │    ●       ● ●      by its geometric middle until it is narrow
//	      │  ●
//	      └─────────────────▶ probes
const (
	firstRate      = 1000.0 // requests per second; low enough for anything worth loading, four doublings below a fast server
	narrowEnough   = 1.08   // high over low: what repeats of one rate differ by anyway
	maxProbes      = 24
	maxSearch      = 90 * time.Second
	leastRate      = 1.0 // below it there is no point in looking
	longestConfirm = 5 * time.Second
	maxConfirms    = 4
	giveWay        = 0.95 // what a rate that did not hold for longer is multiplied by
	probesPerRate  = 2    // a probe that fails by the generator's own fault gets a second chance
	growthFactor   = 3.0  // mean latency of the second half over that of the first
	growthShare    = 0.2  // of the SLO; growth below it is noise
)

// probeWindow returns how long a probe takes: long against the SLO, so that a growing queue has time to show.
func probeWindow(slo time.Duration) (warmUp, window time.Duration) {
	window = min(max(20*slo, time.Second), 4*time.Second)
	return window / 5, window
}

// search finds the capacity. It returns what it found so far together with an error.
func (e *experiment) search(ctx context.Context) (*report.Capacity, error) {
	s := &searcher{experiment: e, found: &report.Capacity{}, began: e.now()}
	s.warmUp, s.window = probeWindow(loosestSLO(e.config.Profile))
	e.what = "capacity search"
	err := s.bracket(ctx)
	if err == nil && !e.out.CutShort {
		err = s.narrow(ctx)
	}
	if err == nil && !e.out.CutShort {
		err = s.confirm(ctx)
	}
	s.found.RPS = s.found.Low
	return s.found, err
}

// loosestSLO returns the longest limit: a queue may grow up to it before any class shows that it does.
func loosestSLO(p *profiles.Profile) (slo time.Duration) {
	for i := range p.Workload.Classes {
		slo = max(slo, p.Workload.Classes[i].SLO.Limit)
	}
	return slo
}

type searcher struct {
	*experiment
	found          *report.Capacity
	began          time.Time
	warmUp, window time.Duration
}

// bracket doubles (or halves) the rate until one holds and one does not.
func (s *searcher) bracket(ctx context.Context) error {
	for rate := firstRate; s.found.Low == 0 || s.found.High == 0; {
		if rate < leastRate {
			return fmt.Errorf("capacity search: not even %g requests per second keep the SLO (%s); is it too tight for this machine? "+
				"load.rates gives rates without a search", rate*2, s.lastWhy())
		}
		holds, err := s.probe(ctx, rate)
		if err != nil || s.out.CutShort {
			return err
		}
		if holds {
			s.found.Low = rate
			rate *= 2
		} else {
			s.found.High = rate
			rate /= 2
		}
	}
	return nil
}

// narrow halves the bracket until it is narrow. Running out of probes or time only makes the answer coarser.
func (s *searcher) narrow(ctx context.Context) error {
	for s.found.High/s.found.Low > narrowEnough {
		if len(s.found.Probes) >= maxProbes || s.now().Sub(s.began) > maxSearch {
			s.note("the capacity search ended at its bound of %d probes and %s; its bracket is wide", maxProbes, maxSearch)
			return nil
		}
		rate := math.Sqrt(s.found.High * s.found.Low)
		holds, err := s.probe(ctx, rate)
		if err != nil || s.out.CutShort {
			return err
		}
		if holds {
			s.found.Low = rate
		} else {
			s.found.High = rate
		}
	}
	return nil
}

// confirm probes the answer once more, for as long as a point of the profile takes, and gives way while it does not hold.
func (s *searcher) confirm(ctx context.Context) error {
	s.warmUp, s.window = max(s.warmUp, s.config.Profile.WarmUp), min(max(s.window, s.config.Profile.Window), longestConfirm)
	for range maxConfirms {
		if s.now().Sub(s.began) > maxSearch {
			break
		}
		holds, err := s.probe(ctx, s.found.Low)
		if err != nil || s.out.CutShort || holds {
			return err
		}
		s.found.High = s.found.Low
		s.found.Low *= giveWay
	}
	s.note("the capacity is not certain: what held for %s at first did not hold for longer", s.window)
	return nil
}

func (s *searcher) lastWhy() string {
	if n := len(s.found.Probes); n > 0 {
		return s.found.Probes[n-1].Why
	}
	return "nothing was probed"
}

// probe measures one rate and records it.
func (s *searcher) probe(ctx context.Context, rate float64) (holds bool, err error) {
	for attempt := 1; ; attempt++ {
		if len(s.found.Probes) >= 2*maxProbes || s.now().Sub(s.began) > 2*maxSearch {
			return false, fmt.Errorf("capacity search: no answer within %d probes and %s; the last one said: %s",
				len(s.found.Probes), s.now().Sub(s.began).Round(time.Second), s.lastWhy())
		}
		s.config.Observe(Event{
			What: "capacity search", Phase: fmt.Sprintf("probe at %.0f/s", rate), Done: len(s.found.Probes),
		})
		p := Point{
			// Other arrivals than those of the points: a capacity found for one sequence would be too good for it.
			Controller: profiles.Controller{Name: "none"}, Rate: rate, Repeat: 1, Seed: dist.Mix(s.config.Profile.Seed + uint64(len(s.found.Probes))),
			observe: func(string) {},
		}
		r, err := s.runner.Probe(ctx, p, s.warmUp, s.window)
		if ctx.Err() != nil {
			s.out.CutShort = true
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("capacity search at %.0f requests per second: %w", rate, err)
		}
		why, ours := fails(&r)
		all := r.Load.Tally.All()
		probe := report.Probe{RPS: rate, Holds: why == "", Why: why, P99US: micros(all.Latency.Percentile(99))}
		if seconds := r.Load.Tally.Window().Seconds(); seconds > 0 {
			probe.GoodputRPS = float64(all.Fates[reqlog.OK]) / seconds
		}
		s.found.Probes = append(s.found.Probes, probe)
		if !ours || attempt >= probesPerRate {
			return probe.Holds, nil
		}
	}
}

// fails says why a rate does not hold, empty when it does. ours is true when the generator is to blame rather than the server.
func fails(r *Result) (why string, ours bool) {
	t := r.Load.Tally
	all := t.All()
	n := all.Arrivals()
	switch {
	case r.Died:
		return "the server died: " + r.LastWord, false
	case n == 0:
		return "no request was due in the window", true
	case all.Shed() > 0:
		return fmt.Sprintf("%d of %d requests were shed", all.Shed(), n), false
	case all.Completed()+all.Fates[reqlog.Unsent] < n:
		return fmt.Sprintf("%d of %d requests were not answered", n-all.Completed(), n), false
	}
	for i := range t.Classes {
		c := &t.Classes[i]
		if p99 := c.Latency.Percentile(99); c.SLO > 0 && p99 > c.SLO {
			return fmt.Sprintf("p99 of class %s is %s, above its SLO of %s", c.Name, p99.Round(time.Microsecond), c.SLO), false
		}
	}
	if first, second, grows := growth(&all, t.TightestSLO()); grows {
		return fmt.Sprintf("latency grows: %s on average in the first half of the window, %s in the second",
			first.Round(time.Microsecond), second.Round(time.Microsecond)), false
	}
	for _, code := range r.Load.Invalid {
		return "the probe is not valid: " + code, true
	}
	return "", false
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
