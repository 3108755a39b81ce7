//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"spillway/profiles"
	"spillway/report"
)

// Against is what a run is measured in turns with: the same profile with another server, or with other settings.
type Against struct {
	Profile   *profiles.Profile // of the base
	Refserver string            // the executable of its server; empty for that of the candidate
	Out       string            // its result directory
}

// RunAgainst carries out c.Profile, the candidate, in turns with a base: each point of one right beside the same point of the other, A B, then B A, so
// that whatever drifts on this computer falls on both alike. In a simulation nothing drifts, and they run one after the other. Where the capacity has to be
// searched it is searched once, with the base, so that both face the same loads.
func RunAgainst(ctx context.Context, c Config, a Against) (base, candidate Outcome, err error) {
	first := c
	first.Profile, first.Out, first.Refserver = a.Profile, a.Out, a.Refserver
	if err := first.against(&c); err != nil {
		return base, candidate, err
	}
	if c.Observe != nil {
		told := &both{observe: c.Observe}
		first.Observe, c.Observe = told.side(0, "base"), told.side(1, "candidate")
	}
	if c.Profile.On == groundSim {
		if base, err = Run(ctx, first); err != nil || base.CutShort {
			return base, candidate, err
		}
		candidate, err = Run(ctx, c)
		return base, candidate, err
	}
	return inTurns(ctx, first, c)
}

// against refuses what cannot be measured in turns.
func (c *Config) against(candidate *Config) error {
	p := candidate.Profile
	switch {
	case p.Validate != nil:
		return usage("%s: validate: it is measured against a simulation already", p.File())
	case isAllocation(p) && p.On != groundSim:
		return usage("%s: an allocation of real edges is not measured in turns; run it twice and compare the results", p.File())
	case candidate.Resume:
		return usage("what is measured in turns cannot be gone on with; begin anew with another --out")
	case c.Refserver != "" && p.On == groundSim:
		return usage("on sim no server is started, so there is no other to run against; give settings")
	case c.Refserver != "" && p.Server.Kind == "external":
		return usage("%s: its server is one that runs already, so there is no other to start; give settings, such as another server.settings.target", p.File())
	case !slices.Equal(labels(c.Profile), labels(p)):
		return usage("the base has other points than the candidate; settings to compare leave controllers, loads and repeats as they are")
	}
	for _, out := range []string{c.Out, candidate.Out} {
		if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
			return usageError{fmt.Errorf("results folder %s: %w", out, report.ErrNotEmpty)}
		}
	}
	return nil
}

// inTurns measures two runs on one computer, point by point.
func inTurns(ctx context.Context, first, second Config) (base, candidate Outcome, err error) {
	for _, c := range []*Config{&first, &second} {
		if err := c.check(); err != nil {
			return base, candidate, err
		}
	}
	if err := first.instrument(ctx); err != nil {
		return base, candidate, err
	}
	defer first.tracing.close()
	second.pacing, second.tracing = first.pacing, first.tracing
	a, b := experimentOf(first), experimentOf(second)
	if err := a.prepare(); err != nil {
		return base, candidate, err
	}
	if err := b.prepare(); err != nil {
		return base, candidate, errors.Join(err, a.runner.Close())
	}
	if err := a.searchFor(ctx, b); err != nil || a.out.CutShort {
		return a.out, b.out, errors.Join(err, a.runner.Close(), b.runner.Close())
	}
	return together(ctx, a, b)
}

// together carries out two runs that have the same points, in turns.
func together(ctx context.Context, a, b *experiment) (base, candidate Outcome, err error) {
	t := newTurns()
	a.runner, b.runner = &taking{Runner: a.runner, turns: t, side: 0}, &taking{Runner: b.runner, turns: t, side: 1}
	// Whichever run ends before its time ends the other, which would wait for its turn for ever.
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var errBase, errCandidate error
	var wg sync.WaitGroup
	wg.Go(func() {
		if base, errBase = a.run(within); errBase != nil || base.CutShort {
			cancel()
		}
	})
	if candidate, errCandidate = b.run(within); errCandidate != nil || candidate.CutShort {
		cancel()
	}
	wg.Wait()
	return base, candidate, errors.Join(errBase, errCandidate)
}

// searchFor searches the capacity for both runs where their loads are shares of one that is not known.
func (e *experiment) searchFor(ctx context.Context, other *experiment) error {
	p := e.config.Profile
	if len(e.models) > 0 || len(p.Variants) > 0 || len(p.Load.OfCapacity) == 0 {
		return nil
	}
	found, err := e.search(ctx)
	e.config.found, other.config.found = found, found
	return err
}

// turns hands the computer to one of two runs at a time.
type turns struct {
	mu    sync.Mutex
	moved *sync.Cond
	next  int
}

func newTurns() *turns {
	t := &turns{}
	t.moved = sync.NewCond(&t.mu)
	return t
}

// await returns once a turn has come, or ctx has ended.
func (t *turns) await(ctx context.Context, turn int) error {
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.moved.Broadcast()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.next != turn && ctx.Err() == nil {
		t.moved.Wait()
	}
	return ctx.Err()
}

// pass ends a turn.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.moved.Broadcast()
}

// taking is a runner that measures when it is its turn. Both sides have the same points in the same order; who is first in a pair alternates, so that
// neither always finds the computer as the other left it.
type taking struct {
	Runner
	turns *turns
	side  int // 0 or 1
	done  int
	holds bool // it is its turn
}

// Run implements Runner. A turn lasts until the next point is asked for, so that the other side does not measure while this one writes to the disk.
func (t *taking) Run(ctx context.Context, p Point) (Result, error) {
	t.pass()
	turn := 2*t.done + (t.side+t.done)%2
	t.done++
	if err := t.turns.await(ctx, turn); err != nil {
		return Result{}, err
	}
	r, err := t.Runner.Run(ctx, p)
	t.holds = err == nil // what failed ends both runs, so nobody has a turn after it
	return r, err
}

// Close implements Runner.
func (t *taking) Close() error {
	t.pass()
	return t.Runner.Close()
}

func (t *taking) pass() {
	if t.holds {
		t.holds = false
		t.turns.pass()
	}
}

// both makes one stream of events of two runs.
type both struct {
	mu      sync.Mutex
	observe func(Event)
	last    [2]Event
	noted   []string
}

// side returns what takes the events of a run.
func (b *both) side(i int, name string) func(Event) {
	return func(e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if e.Kind == Noted {
			if !slices.Contains(b.noted, e.Note) { // what is said of both is said once
				b.noted = append(b.noted, e.Note)
				b.observe(e)
			}
			return
		}
		b.last[i] = e
		other := &b.last[1-i]
		if e.Total > 0 {
			e.What = name + ", " + e.What
			e.Done += other.Done
			// Until the other run has begun, it has as many points and takes as long.
			if other.Total == 0 {
				other.Total, other.Left = e.Total, e.Left
			}
			e.Total, e.Left = e.Total+other.Total, e.Left+other.Left
		}
		b.observe(e)
	}
}
