package bouncer_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/bouncer"
)

const ms = time.Millisecond

// kind is a class of the simulation: log-normal processing times of one shape, as they are recalled from the paper. The set hangs together, and
// that is all we know of it; it is our configuration, not the paper's.
type kind struct {
	name        string
	share, mean float64 // of arrivals; in milliseconds
}

const sigma = 0.97

var kinds = []kind{{"fast", 0.4, 1.16}, {"medium-fast", 0.2, 2.53}, {"medium-slow", 0.3, 12.13}, {"slow", 0.1, 20.05}}

var objectives = []bouncer.Objective{{Percentile: 0.5, Limit: 18 * ms}, {Percentile: 0.9, Limit: 50 * ms}}

// quantile returns the quantile of class k whose standard normal deviate is z, in milliseconds.
func (k kind) quantile(z float64) float64 { return k.mean * math.Exp(-sigma*sigma/2+sigma*z) }

// headroom returns the longest wait at which the class meets both objectives, in milliseconds.
func (k kind) headroom() float64 {
	return min(18-k.quantile(0), 50-k.quantile(1.2815516))
}

func meanTime() (m float64) {
	for _, k := range kinds {
		m += k.share * k.mean
	}
	return m
}

// fluid returns what share of each class is admitted in the limit of many processes, and the wait in milliseconds, with a share of each admitted
// whatever happens. Work beyond what is there is taken from the class with the least headroom first. Reference: notes, section 1.8, derived.
func fluid(load, allowance float64) (admit []float64, wait float64) {
	admit = []float64{1, 1, 1, 1}
	order := []int{0, 1, 2, 3}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(kinds[a].headroom(), kinds[b].headroom()) })
	over := load - 1
	for _, i := range order {
		if over <= 0 {
			break
		}
		work := load * kinds[i].share * kinds[i].mean / meanTime()
		cut := min(over, work*(1-allowance))
		admit[i] -= cut / work
		over -= cut
		wait = kinds[i].headroom()
	}
	return admit, wait
}

// outcome is what a simulation has measured.
type outcome struct {
	arrived, admitted [4]int
	response          [4][]time.Duration // of those admitted
	busy              float64            // share of the processes
	waits             time.Duration      // sum over those admitted
}

func (o *outcome) share(i int) float64 { return float64(o.admitted[i]) / float64(o.arrived[i]) }

func (o *outcome) rejected() float64 {
	arrived, admitted := 0, 0
	for i := range kinds {
		arrived += o.arrived[i]
		admitted += o.admitted[i]
	}
	return 1 - float64(admitted)/float64(arrived)
}

func (o *outcome) percentile(i int, p float64) time.Duration {
	slices.Sort(o.response[i])
	return o.response[i][int(p*float64(len(o.response[i])))]
}

type running struct {
	ends    clock.Instant
	request control.Request
	took    time.Duration
}

type runHeap []running

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(running)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// simulate lets requests arrive as a Poisson process at a multiple of what p processes can do, and measures from warmUp to end.
func simulate(c control.Controller, p int, load float64, seed uint64, warmUp, end time.Duration) *outcome {
	o := &outcome{}
	r := rand.New(rand.NewPCG(seed, 1))
	gate := control.NewGate(c, control.GateConfig{})
	var inService runHeap
	var actions []control.Action
	var tick clock.Instant
	times := map[uint64]time.Duration{} // of those that wait, drawn when they came
	gap := meanTime() / (load * float64(p)) * float64(ms)
	from, to := clock.Instant(warmUp), clock.Instant(end)
	var arrives clock.Instant
	for id := uint64(1); ; {
		now := min(arrives, tick)
		if len(inService) > 0 {
			now = min(now, inService[0].ends)
		}
		if now >= to {
			o.busy /= float64(to-from) * float64(p)
			return o
		}
		switch {
		case len(inService) > 0 && inService[0].ends == now:
			done := heap.Pop(&inService).(running)
			if began := done.ends.Add(-done.took); done.ends > from {
				o.busy += float64(done.ends.Sub(max(began, from)))
			}
			if done.request.Arrived >= from {
				i := done.request.Class
				o.response[i] = append(o.response[i], now.Sub(done.request.Arrived))
				o.waits += done.request.Waited
			}
			actions = gate.Finish(now, done.request, done.took, false, actions[:0])
		case tick == now:
			actions, tick = gate.Tick(now, control.Signals{}, actions[:0])
		default:
			class := pick(r.Float64())
			times[id] = time.Duration(kinds[class].quantile(r.NormFloat64()) * float64(ms))
			actions = gate.Arrive(now, control.Request{ID: id, Class: class}, actions[:0])
			if now >= from {
				o.arrived[class]++
				if actions[len(actions)-1].Kind != control.Refuse {
					o.admitted[class]++
				}
			}
			id++
			arrives = arrives.Add(time.Duration(r.ExpFloat64() * gap))
		}
		for i := range actions {
			switch a := &actions[i]; a.Kind {
			case control.Start:
				took := times[a.Request.ID]
				delete(times, a.Request.ID)
				heap.Push(&inService, running{ends: now.Add(took), request: a.Request, took: took})
			case control.Refuse:
				delete(times, a.Request.ID)
			}
		}
	}
}

// pick returns the class that a uniform draw stands for.
func pick(u float64) uint16 {
	for i, k := range kinds {
		if u -= k.share; u < 0 {
			return uint16(i)
		}
	}
	return uint16(len(kinds) - 1)
}

func newBouncer(c bouncer.Config, p int, seed uint64) control.Controller {
	c.Parallelism = p
	e := bouncer.Env{Rand: rand.New(rand.NewPCG(seed, 2))}
	for _, k := range kinds {
		e.Classes = append(e.Classes, bouncer.Class{Name: k.name, SLO: objectives})
	}
	return bouncer.New(c, e)
}

// TestPaperFluidLimit checks Bouncer on 100 processes against the limit of many: the share of each class that is admitted, all rejections within
// a percentage point, and the percentiles of what was admitted at most 5 % over their objectives, but for a class that is starved, of which
// only probes are admitted. Reference: notes, section 1.8.
func TestPaperFluidLimit(t *testing.T) {
	t.Parallel()
	for _, run := range []struct {
		load  float64
		seeds uint64
	}{{0.9, 1}, {1.1, 1}, {1.2, 3}, {1.3, 1}, {1.4, 1}, {1.5, 3}} {
		if testing.Short() {
			if run.load != 1.2 {
				continue
			}
			run.seeds = 1
		}
		for seed := range run.seeds {
			t.Run(fmt.Sprintf("%v/%d", run.load, seed), func(t *testing.T) {
				t.Parallel()
				checkFluid(t, run100(newBouncer(bouncer.Default(), 100, seed), run.load, seed), run.load)
			})
		}
	}
}

// run100 measures ten seconds of a policy on 100 processes, after ten of warm-up: two windows of Bouncer.
func run100(c control.Controller, load float64, seed uint64) *outcome {
	return simulate(c, 100, load, seed, 10*time.Second, 20*time.Second)
}

func checkFluid(t *testing.T, o *outcome, load float64) {
	admit, wait := fluid(load, 0)
	// At 1.4 times the capacity what is left without the slow class is 97.6 % of it. That alone makes a queue that swings about the headroom of
	// that class, so some of it are admitted in the troughs, and some of the next class rejected at the crests.
	near := 0.03
	if load == 1.4 {
		near = 0.05
	}
	rejected, served := 0.0, 0
	for i, k := range kinds {
		rejected += k.share * (1 - admit[i])
		served += len(o.response[i])
		if got := o.share(i); math.Abs(got-admit[i]) > near {
			t.Errorf("%s: %.3f admitted, want %.3f", k.name, got, admit[i])
		}
		if admit[i] == 0 {
			continue
		}
		for _, want := range objectives {
			if got := o.percentile(i, want.Percentile); got > want.Limit+want.Limit/20 {
				t.Errorf("%s: p%v is %v, objective %v", k.name, 100*want.Percentile, got, want.Limit)
			}
		}
	}
	if got := o.rejected(); math.Abs(got-rejected) > 0.01 {
		t.Errorf("%.3f rejected, want %.3f", got, rejected)
	}
	mean := float64(o.waits) / float64(served) / float64(ms)
	if math.Abs(mean-wait) > 3 { // it swings below the headroom more than above, where arrivals are rejected
		t.Errorf("mean wait %.2f ms, want %.2f", mean, wait)
	}
	if load > 1 && o.busy < 0.98 {
		t.Errorf("the processes were busy %.3f of the time", o.busy)
	}
	t.Logf("admitted %.3f %.3f %.3f %.3f, rejected %.4f (%.4f), wait %.2f (%.2f) ms, busy %.3f",
		o.share(0), o.share(1), o.share(2), o.share(3), o.rejected(), rejected, mean, wait, o.busy)
}
