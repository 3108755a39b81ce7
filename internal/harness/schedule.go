//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"spillway/profiles"
)

// oneByOne measures the points in the order given, each alone: two on one computer would measure each other.
func (e *experiment) oneByOne(ctx context.Context, points []Point) error {
	for _, p := range points {
		if ctx.Err() != nil {
			e.out.CutShort = true
			return nil
		}
		began := e.now()
		e.begin(&p)
		p.observe, p.live = e.phase, e.live
		r, err := e.runner.Run(ctx, p)
		if err := e.record(ctx, &p, &r, err); err != nil || e.out.CutShort {
			return err
		}
		e.spent += e.now().Sub(began)
		e.worked += e.cost(&p)
		e.done++
		e.finished()
	}
	return nil
}

// simulated is what became of one point.
type simulated struct {
	result Result
	err    error
}

// ahead is how many points a worker may be ahead of the one that is to be written next: enough to keep all busy behind a long one,
// little enough that results do not pile up.
const ahead = 16

// sideBySide measures several points at once and writes them in the order given, so that the files do not depend on who was first.
func (e *experiment) sideBySide(ctx context.Context, points []Point) error {
	within, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel() // nobody computes for an experiment that has ended
		wg.Wait()
	}()
	room := make(chan struct{}, e.config.Jobs*ahead)
	next := make(chan int)
	results := make([]chan simulated, len(points))
	for i := range results {
		results[i] = make(chan simulated, 1)
	}
	var workers sync.WaitGroup
	for range e.config.Jobs {
		workers.Go(func() {
			for i := range next {
				p := points[i]
				p.observe = func(string) {}
				if !e.config.Pool.enter(within) {
					continue
				}
				r, err := e.runner.Run(within, p)
				e.config.Pool.leave()
				results[i] <- simulated{r, err}
			}
		})
	}
	wg.Go(func() {
		defer close(next)
		defer e.config.handedOut()
		for i := range points {
			select {
			case room <- struct{}{}:
			case <-within.Done():
				return
			}
			select {
			case next <- i:
			case <-within.Done():
				return
			}
		}
	})
	idle := make(chan struct{})
	wg.Go(func() {
		workers.Wait()
		close(idle)
	})
	return e.collect(ctx, points, results, room, idle)
}

// collect writes results in order as they come. idle is closed once no worker is left.
func (e *experiment) collect(ctx context.Context, points []Point, results []chan simulated, room <-chan struct{}, idle <-chan struct{}) error {
	began := e.now()
	var told time.Time
	for i := range points {
		if e.begin(&points[i]); e.now().Sub(told) >= tellEvery {
			told = e.now()
			e.phase("simulation")
		}
		var s simulated
		select {
		case s = <-results[i]:
		case <-idle:
			select {
			case s = <-results[i]:
			default: // it was never begun
				e.out.CutShort = true
				return nil
			}
		}
		<-room
		if err := e.record(ctx, &points[i], &s.result, s.err); err != nil || e.out.CutShort {
			return err
		}
		e.done++
		e.worked += e.cost(&points[i])
		e.spent = e.now().Sub(began)
		e.finished()
	}
	return nil
}

// tellEvery is how often a run of simulations says where it stands: most of them take less time than reading a line.
const tellEvery = 500 * time.Millisecond

// absent reports whether err says that nobody listens where a server of somebody else's is to be.
func absent(p *profiles.Profile, err error) bool {
	return p.Server.Kind == "external" && errors.Is(err, syscall.ECONNREFUSED)
}

// record judges what was measured at one point and writes it.
func (e *experiment) record(ctx context.Context, p *Point, r *Result, err error) error {
	if err != nil && ctx.Err() != nil && r.Load.Tally == nil && r.Ready == nil {
		// Interrupted before there was anything to measure: of this point nothing is left to write.
		e.out.CutShort = true
		return nil
	}
	if r.Load.Tally == nil && r.Ready == nil {
		if absent(e.config.Profile, err) {
			return fmt.Errorf("%w; is the server running?", err) // whatever the point
		}
		return fmt.Errorf("%s: %w", p, err)
	}
	if e.config.Profile.On == groundSim {
		for _, n := range r.Totals[0] {
			r.simulated += n
		}
		e.simulated += r.simulated
	}
	if e.config.validation != nil && r.Profile.On == groundSim {
		r.Began = e.now() // beside measurements a simulation stands where it was computed, not at the beginning of its own time
	}
	judged := r.Ready
	if judged == nil {
		judged = judge(p, r)
	}
	judged.Facts.Requests, judged.Unfinished = r.simulated, err != nil || r.Load.CutShort
	e.out.Points++
	if !judged.Rows[0].Valid {
		e.out.Invalid++
	}
	e.out.CutShort = r.Load.CutShort
	e.measured(judged)
	if e.writer.Manifest.Server.Version == "" {
		e.writer.Manifest.Server = r.Server
	}
	if werr := e.writer.Add(judged); werr != nil {
		return errors.Join(err, werr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}
