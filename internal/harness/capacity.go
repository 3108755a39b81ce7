//go:build linux

package harness

import (
	"context"
	"fmt"
	"math"
	"time"

	"spillway/internal/dist"
	"spillway/internal/drive"
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
//
// A probe that failed by the generator's own fault says nothing of the server: its lag comes from stalls that most often have nothing to do with the
// rate, so a search that went down on it would go down for as long as the computer stutters. Nothing is known of such a rate, and it bounds nothing.
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
	patience       = 2    // how often the server must fail a rate while the bracket is sought: one disturbance far below the capacity would decide everything
	ownFaults      = 3    // how often a rate is probed whose probes fail by the generator's own fault, before nothing is known of it
	mostUnknown    = 2    // rates in a row of which nothing is known end that part of the search: more of them would say the same
	wellBracketed  = 1.25 // a failure of the server that far above leaves factors of load their meaning, whatever is not known between
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
	s := &searcher{experiment: e, prober: prober, found: &report.Capacity{}, began: e.now()}
	s.warmUp, s.window = probeWindow(loosestSLO(e.config.Profile))
	e.what = "capacity search"
	s.foresee()
	err := s.bracket(ctx)
	if err == nil && !e.out.CutShort && s.found.High > 0 {
		err = s.narrow(ctx)
	}
	if err == nil && !e.out.CutShort {
		err = s.confirm(ctx)
	}
	if err == nil && !e.out.CutShort {
		s.found.RPS = s.found.Low
		s.judge()
	}
	return s.found, err
}

// foresee says before the search when it will not see much: when requests leave later on this computer than the SLO allows.
func (s *searcher) foresee() {
	slo := tightest(s.config.Profile)
	if slo == 0 {
		return
	}
	var own, spin *report.Pacing
	for i := range s.config.pacing {
		switch p := &s.config.pacing[i]; drive.Pace(p.Pace) {
		case drive.PaceSpin:
			spin = p
		default:
			own = p
		}
	}
	if drive.Pace(s.config.Pace) == drive.PaceSpin {
		own, spin = spin, nil
	}
	if own == nil || own.LagP99US <= micros(slo/lagParts) {
		return
	}
	lag := fromMicros(own.LagP99US)
	text := fmt.Sprintf("in the pacing self-test requests left %s late (p99, pace %s), and an SLO of %s allows %s: probes will fail by the generator's own fault. Remedy: ",
		short(lag), own.Pace, slo, slo/lagParts)
	if spin != nil {
		text += fmt.Sprintf("--pace spin (there p99 was %s), or ", short(fromMicros(spin.LagP99US)))
	} else {
		text += "a quieter computer, or "
	}
	s.remark("%san SLO of %s or more", text, (lagParts * lag).Round(time.Millisecond))
}

// judge says what the search has shown: the capacity, or only that it is no less than something.
func (s *searcher) judge() {
	c := s.found
	gaps := map[float64]bool{} // a rate may have been tried more than once
	for _, rate := range s.unknown {
		if rate > c.Low && (c.High == 0 || rate < c.High) {
			gaps[rate] = true
		}
	}
	c.AtLeast = c.High == 0 || len(gaps) > 0 && c.High > wellBracketed*c.Low
	switch {
	case !c.AtLeast && len(gaps) > 0 && c.High > narrowEnough*c.Low:
		s.remark("its bracket is wide, since probes within it failed by the generator's own fault")
	case !c.AtLeast:
	case len(gaps) == 0:
		s.remark("no rate failed by the server's own fault, so it may be capable of more than %.0f requests per second", c.Low)
	default:
		s.remark("what the server does at %s above %.0f requests per second is not known, since every probe there failed by the generator's own fault; "+
			"--pace spin and a longer SLO help, and so does another computer to send from", rates(len(gaps)), c.Low)
	}
}

func rates(n int) string {
	if n == 1 {
		return "1 rate"
	}
	return fmt.Sprintf("%d rates", n)
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
	patient        bool      // the server must fail a rate more than once
	held           []float64 // rates that held, in probes of any length
	unknown        []float64 // rates of which nothing is known
}

// outcome is what the probes of a rate have shown.
type outcome int

// The outcomes.
const (
	unknown outcome = iota // they failed by the generator's own fault
	held
	broke // by the server's own fault
)

// remedy says what to do instead of a search that found nothing.
func (s *searcher) remedy() string {
	if s.config.AdHoc {
		return "--rate offers a rate without a search"
	}
	return "load.rates gives rates without a search"
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

// bracket doubles (or halves) the rate until one holds and the server fails one. It leaves High open where no failure of the server was seen.
func (s *searcher) bracket(ctx context.Context) error {
	s.patient = true
	defer func() { s.patient = false }()
	inRow := 0 // rates of which nothing is known
	for rate := firstRate; s.found.Low == 0 || s.found.High == 0; {
		switch {
		case rate < leastRate:
			return fmt.Errorf("capacity search: not even %g requests per second keep the SLO (%s); is it too tight for this machine? %s", rate*2, s.lastWhy(), s.remedy())
		case inRow == mostUnknown && s.found.Low == 0:
			return fmt.Errorf("capacity search: nothing is known of the server: every probe at the last %d rates failed by the generator's own fault (%s). "+
				"--pace spin and a longer SLO help; %s", inRow, s.lastWhy(), s.remedy())
		case inRow == mostUnknown, s.found.Low > 0 && s.atBound():
			return nil
		}
		is, err := s.probe(ctx, rate)
		if err != nil || s.out.CutShort {
			return err
		}
		inRow++
		switch is {
		case held:
			s.found.Low, inRow = rate, 0
		case broke:
			s.found.High, inRow = rate, 0
		}
		if s.found.High > 0 {
			rate /= 2
		} else {
			rate *= 2
		}
	}
	return nil
}

// narrow halves the bracket until it is narrow. Running out of probes or time only makes the answer coarser, and so do rates of which nothing is known: then
// it tries above them, never below.
func (s *searcher) narrow(ctx context.Context) error {
	from, inRow := s.found.Low, 0
	for s.found.High/s.found.Low > narrowEnough {
		if s.atBound() {
			s.remark("it ended at its bound of %d probes and %s, so its bracket is wide", maxProbes, maxSearch)
			return nil
		}
		if inRow == mostUnknown || s.found.High/from <= narrowEnough {
			return nil
		}
		rate := math.Sqrt(s.found.High * from)
		is, err := s.probe(ctx, rate)
		if err != nil || s.out.CutShort {
			return err
		}
		switch is {
		case held:
			s.found.Low, from, inRow = rate, rate, 0
		case broke:
			s.found.High, inRow = rate, 0
		case unknown:
			from = rate
			inRow++
		}
	}
	return nil
}

// confirm probes the answer once more, for as long as a point of the profile takes, and gives way until a rate holds. A rate that was not
// probed is never the answer: at the bound it is the highest that held in a short probe and that the server failed in no longer one, and is not certain. So it
// is where nothing is known of the longer probe.
func (s *searcher) confirm(ctx context.Context) error {
	short := s.window
	s.warmUp, s.window = max(s.warmUp, s.config.Profile.WarmUp), min(max(s.window, s.config.Profile.Window), longestConfirm)
	rate := s.found.Low
	is := held
	for n := 1; n == 1 || !s.atBound() && rate >= leastRate; n++ {
		var err error
		is, err = s.probe(ctx, rate)
		if err != nil || s.out.CutShort {
			return err
		}
		if is == held {
			s.found.Low = rate
			return nil
		}
		if is == unknown {
			break
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
		if s.found.High == 0 || rate < s.found.High {
			s.found.Low = max(s.found.Low, rate)
		}
	}
	if s.found.Low == 0 {
		return fmt.Errorf("capacity search: no rate was found that holds for %s, down to %.0f requests per second (%s); %s",
			s.window, s.found.High, s.lastWhy(), s.remedy())
	}
	s.found.Uncertain = true
	if is == unknown {
		s.remark("not certain: probes of %s at %.0f requests per second failed by the generator's own fault; %.0f requests per second held for %s",
			s.window, rate, s.found.Low, short)
		return nil
	}
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

// probe measures one rate, as often as it takes to know something of it, and records it.
func (s *searcher) probe(ctx context.Context, rate float64) (is outcome, err error) {
	needed := 1
	if s.patient {
		needed = patience
	}
	failed := 0 // by the server's own fault
	for ours := 0; ours < ownFaults && failed < needed; {
		if len(s.found.Probes) >= 2*maxProbes || s.now().Sub(s.began) > 2*maxSearch {
			return unknown, fmt.Errorf("capacity search: no answer within %d probes and %s; the last one said: %s; %s",
				len(s.found.Probes), s.now().Sub(s.began).Round(time.Second), s.lastWhy(), s.remedy())
		}
		probe, err := s.once(ctx, rate)
		switch {
		case err != nil || s.out.CutShort:
			return unknown, err
		case probe.Holds:
			s.held = append(s.held, rate)
			return held, nil
		case probe.Unknown:
			ours++
		default:
			failed++
		}
	}
	// A rate that never held, and that the server failed at least once, is not one of which nothing is known.
	if failed > 0 {
		return broke, nil
	}
	s.unknown = append(s.unknown, rate)
	return unknown, nil
}

// once measures one rate once, records it and says how it ended.
func (s *searcher) once(ctx context.Context, rate float64) (probe report.Probe, err error) {
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
		return probe, nil
	}
	if absent(s.config.Profile, err) {
		return probe, fmt.Errorf("%w; is the server running?", err)
	}
	if err != nil {
		return probe, fmt.Errorf("capacity search at %.0f requests per second: %w", rate, err)
	}
	why, ours := fails(&r)
	all := r.Load.Tally.All()
	probe = report.Probe{RPS: rate, Holds: why == "", Unknown: ours, Why: why, P99US: micros(all.Latency.Percentile(99))}
	if seconds := r.Load.Tally.Window().Seconds(); seconds > 0 {
		probe.GoodputRPS = float64(all.Fates[reqlog.OK]) / seconds
	}
	s.found.Probes = append(s.found.Probes, probe)
	if r.Died {
		s.remark("the server died at %.0f requests per second: %s", rate, r.death())
	}
	switch {
	case probe.Holds:
		s.note("capacity search: %.0f/s holds, p99 %s", rate, short(all.Latency.Percentile(99)))
	case ours:
		s.note("capacity search: %.0f/s is not known: %s", rate, why)
	default:
		s.note("capacity search: %.0f/s does not hold: %s", rate, why)
	}
	return probe, nil
}
