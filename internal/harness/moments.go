//go:build linux

package harness

import (
	"math"
	"time"

	"spillway/clock"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/profiles"
	"spillway/workloads"
)

// shares returns how the shares of the classes change over a run whose window begins after warmUp; nil when they do not.
func shares(p *profiles.Profile, warmUp time.Duration) (*workloads.Shares, error) {
	w := &p.Workload
	if d := p.Load.Drift; d != nil {
		return workloads.SharesDrifting(warmUp, d.Period, w.Shares(), w.SharesOf(d.Shares))
	}
	var spans []workloads.Span
	for i := range p.Load.Phases {
		ph := &p.Load.Phases[i]
		spans = append(spans, workloads.Span{For: ph.For, Shares: w.SharesOf(ph.Shares)})
	}
	if spans == nil {
		return nil, nil
	}
	return workloads.SharesInSteps(warmUp, spans)
}

// vary has a workload ask for the shares of p as they change. What is asked when does not depend on the ground.
func vary(w workloads.Workload, p *profiles.Profile, warmUp time.Duration) (workloads.Workload, error) {
	s, err := shares(p, warmUp)
	if err != nil || s == nil {
		return w, err
	}
	v, ok := w.(interface{ Vary(*workloads.Shares) error })
	if !ok {
		return nil, usage("%s: load: the workload kind %s cannot change its shares with time; leave out phases and drift", p.File(), p.Workload.Kind)
	}
	return w, v.Vary(s)
}

// moment is a stretch of the window in which the load is taken for constant.
type moment struct {
	weight float64 // its share of the window
	rate   float64 // of all classes
	shares []float64
}

// driftMoments is into how many moments a drifting window is cut. What is worked out for each is averaged, and bends only where one bottleneck
// takes over from another.
const driftMoments = 200

// moments cuts the window into stretches of constant load.
func (m *modelled) moments(point *Point) []moment {
	p := m.profile
	l, rate := &p.Load, point.Rate
	switch {
	case p.Workload.Kind == kindReplay:
		return m.replayMoments(point)
	case l.Drift != nil:
		s, err := shares(p, 0)
		if err != nil {
			panic("harness: a drift that was checked: " + err.Error())
		}
		list := make([]moment, driftMoments)
		for i := range list {
			from, to := p.Window*time.Duration(i)/driftMoments, p.Window*time.Duration(i+1)/driftMoments
			list[i] = moment{1.0 / driftMoments, rate, s.Mean(from, to, nil)}
		}
		return list
	case len(l.Phases) > 0:
		var list []moment
		for i := range l.Phases {
			ph := &l.Phases[i]
			list = append(list, moment{ph.For.Seconds() / p.Window.Seconds(), float64(ph.Rate), p.Workload.SharesOf(ph.Shares)})
		}
		return list
	default:
		return []moment{{1, rate, m.shares}}
	}
}

// best fills in what the model says could be served at best at this point's load, on the mean of the window.
func (m *modelled) best(r *Result, p *Point) {
	r.Optimum, r.Ceiling = make([]float64, len(m.demands)), make([]float64, len(m.demands))
	for _, now := range m.moments(p) {
		demands := m.offered(now.rate, now.shares)
		for i, rps := range machine.Optimum(m.machines(), demands) {
			r.Optimum[i] += now.weight * rps
		}
		for i, rps := range machine.Ceiling(m.machines(), demands) {
			r.Ceiling[i] += now.weight * rps
		}
	}
}

// streaming is what the requests of one class do in the memory section, on average.
type streaming struct {
	bytes   float64
	seconds float64 // in the section while nothing contends for the bus
}

// streams returns, by class, what is done in the memory section.
func (m *modelled) streams() []streaming {
	if m.frame != nil {
		return frameStreams(m.frame, len(m.profile.Workload.Classes), m.spec.Bus)
	}
	list := make([]streaming, len(m.work.Classes))
	for i := range m.work.Classes {
		within := false
		for _, step := range m.work.Classes[i].Work {
			switch step.Kind {
			case machine.Enter, machine.Leave:
				if step.Index == station.Memory {
					within = step.Kind == machine.Enter
				}
			case machine.Stream:
				alone := m.spec.Bus.PerCore
				if step.Rate > 0 {
					alone = min(alone, step.Rate)
				}
				if within {
					list[i].bytes += step.Amount.Mean()
					list[i].seconds += step.Amount.Mean() / alone
				}
			case machine.Compute, machine.Delay, machine.Lock:
				if within {
					list[i].seconds += step.Amount.Mean() / float64(time.Second)
				}
			}
		}
	}
	return list
}

// oracle returns the best capacity of the memory section over a run whose window begins after warmUp: the smallest number of requests in it
// that fill the bus, with the mix of that instant. It is nil where nothing is done in that section.
//
// A request in the section moves, over its time there, bytes/seconds on average; over a mix of classes that is the mean of the bytes over
// the mean of the seconds, since slow ones are in it for longer.
func (m *modelled) oracle(warmUp time.Duration) func(clock.Instant) int {
	list := m.streams()
	any := false
	for _, s := range list {
		any = any || s.bytes > 0
	}
	if !any {
		return nil
	}
	changing, err := shares(m.profile, warmUp)
	if err != nil {
		panic("harness: shares that were checked: " + err.Error())
	}
	var now []float64
	return func(at clock.Instant) int {
		mix := m.shares
		if changing != nil {
			now = changing.At(time.Duration(at), now[:0])
			mix = now
		}
		return saturation(list, mix, m.spec)
	}
}

// saturation returns how many requests in the memory section fill the bus, at most one a core.
func saturation(list []streaming, mix []float64, spec machine.Spec) int {
	bytes, seconds := 0.0, 0.0
	for i := range list {
		bytes += mix[i] * list[i].bytes
		seconds += mix[i] * list[i].seconds
	}
	if bytes == 0 {
		return spec.Cores // nobody comes, so nobody needs to be kept out
	}
	n := spec.Bus.Total / (bytes / seconds)
	return min(max(int(math.Ceil(n-1e-9)), 1), spec.Cores)
}
