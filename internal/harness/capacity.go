//go:build linux

package harness

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"spillway/internal/dist"
	"spillway/internal/drive"
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
	gentleConfirms = 6
	giveWay        = 0.95 // what a rate that did not hold for longer is multiplied by, the first times
	giveMore       = 0.8  // and after gentleConfirms
	probesPerRate  = 2    // a probe that fails by the generator's own fault gets a second chance, while the bracket is sought any
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
	prober, ok := e.runner.(Prober)
	if !ok {
		return nil, fmt.Errorf("the capacity of the ground %s is neither known nor can it be searched", e.config.Profile.On)
	}
	defer prober.EndSearch()
	s := &searcher{experiment: e, prober: prober, found: &report.Capacity{}, began: e.now(), attempts: probesPerRate}
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
	if s.ours {
		s.remark("the rate that did not hold failed by the generator's own fault, so the server may be capable of more")
	}
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
	prober         Prober
	found          *report.Capacity
	began          time.Time
	warmUp, window time.Duration
	attempts       int       // at a rate that fails by the generator's own fault
	patient        bool      // whoever's fault it is: one failed probe far below the capacity would decide everything
	held           []float64 // rates that held, in probes of any length
	ours           bool      // High failed by the generator's own fault
}

// remark tells something about the search, now and in the results.
func (s *searcher) remark(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.found.Remarks = append(s.found.Remarks, text)
	s.note("capacity search: %s", text)
}

// atBound reports whether the search has taken its number of probes or its time.
func (s *searcher) atBound() bool {
	return len(s.found.Probes) >= maxProbes || s.now().Sub(s.began) > maxSearch
}

// bracket doubles (or halves) the rate until one holds and one does not.
func (s *searcher) bracket(ctx context.Context) error {
	s.patient = true
	defer func() { s.patient = false }()
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
		if s.atBound() {
			s.remark("it ended at its bound of %d probes and %s, so its bracket is wide", maxProbes, maxSearch)
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

// confirm probes the answer once more, for as long as a point of the profile takes, and gives way until a rate holds. A rate that was not
// probed is never the answer: at the bound it is the highest that held in a short probe and in no longer one failed, and is not certain.
func (s *searcher) confirm(ctx context.Context) error {
	short := s.window
	s.attempts = 1 // a rate that is a little lower serves as well as a second attempt
	s.warmUp, s.window = max(s.warmUp, s.config.Profile.WarmUp), min(max(s.window, s.config.Profile.Window), longestConfirm)
	rate := s.found.Low
	for n := 1; n == 1 || !s.atBound() && rate >= leastRate; n++ {
		holds, err := s.probe(ctx, rate)
		if err != nil || s.out.CutShort {
			return err
		}
		if holds {
			s.found.Low = rate
			return nil
		}
		s.found.High = rate
		if n < gentleConfirms {
			rate *= giveWay
		} else {
			rate *= giveMore
		}
	}
	s.found.Low = 0
	for _, rate := range s.held {
		if rate < s.found.High {
			s.found.Low = max(s.found.Low, rate)
		}
	}
	if s.found.Low == 0 {
		return fmt.Errorf("capacity search: no rate was found that holds for %s, down to %.0f requests per second (%s); "+
			"load.rates gives rates without a search", s.window, s.found.High, s.lastWhy())
	}
	s.found.Uncertain = true
	s.remark("not certain: nothing was seen to hold for %s within %d probes and %s; %.0f requests per second held for %s",
		s.window, maxProbes, maxSearch, s.found.Low, short)
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
		told := Event{What: "capacity search", Phase: fmt.Sprintf("probe at %.0f/s", rate), Done: len(s.found.Probes)}
		s.config.Observe(told)
		p := Point{
			// Other arrivals than those of the points: a capacity found for one sequence would be too good for it.
			Controller: profiles.Controller{Name: "none"}, Rate: rate, Repeat: 1, Seed: dist.Mix(s.config.Profile.Seed + uint64(len(s.found.Probes))),
			observe: func(string) {},
			live: func(rps float64) {
				told.Kind, told.Goodput = Live, report.Known(rps)
				s.config.Observe(told)
			},
		}
		r, err := s.prober.Probe(ctx, p, s.warmUp, s.window)
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
		if r.Died {
			s.remark("the server died at %.0f requests per second: %s", rate, r.death())
		}
		if probe.Holds {
			s.held = append(s.held, rate)
			return true, nil
		}
		if !ours && !s.patient || attempt >= s.attempts {
			s.ours = ours
			return false, nil
		}
	}
}

// fails says why a rate does not hold, empty when it does. ours is true when the generator is to blame rather than the server: what it did
// to the load shows in the latencies too, so its own faults come first.
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
		return "the probe is not valid: " + strings.Join(r.Load.Invalid, ", "), true
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
			return fmt.Sprintf("p99 of class %s is %s, above its SLO of %s", c.Name, p99.Round(time.Microsecond), c.SLO), false
		}
	}
	if first, second, grows := growth(&all, t.TightestSLO()); grows {
		return fmt.Sprintf("latency grows: %s on average in the first half of the window, %s in the second",
			first.Round(time.Microsecond), second.Round(time.Microsecond)), false
	}
	return "", false
}

// backlogged reports whether requests were not sent because the server had left so many unanswered that its connections were full, and
// nothing else is the generator's fault.
func backlogged(r *Result) bool {
	return len(r.Load.Invalid) == 1 && r.Load.Invalid[0] == drive.WarnUnsent && r.Load.Counters.WindowFull > 0
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
