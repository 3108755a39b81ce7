package reproduce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"spillway/internal/harness"
	"spillway/profiles"
	"spillway/report"
)

// Config says what to reproduce and where the results go.
type Config struct {
	Profiles []*profiles.Profile // of which those of Papers are taken
	Papers   []string            // sorted
	Size     string              // profiles.SizeQuick, profiles.SizeFull or empty
	Seed     *uint64             // nil for those of the profiles
	Out      string              // made if missing; empty for results/<UTC>-reproduce, or the last of these if the same was interrupted there
	Jobs     int                 // points simulated at the same time; 0 for one a core

	Argv    []string
	Version string // of loadgen
	Watch   Watcher
	Now     func() time.Time
}

// Watcher is told where a reproduction stands, by several goroutines at once.
type Watcher interface {
	// Begins is told that a profile is begun, with how many points and arrivals.
	Begins(profile, dir string, number, of, points int, arrivals float64)
	// Event passes on an event of its run.
	Event(profile string, e harness.Event)
	// Ends is told how it ended.
	Ends(profile string, out harness.Outcome, err error)
	// Note is told something about the whole.
	Note(text string)
}

// Result is how a reproduction ended.
type Result struct {
	Dir         string
	Counts      Counts
	Papers      []PaperResult
	Invalid     int  // points that are not valid
	Interrupted bool // the same command goes on
}

// PaperResult is what became of the claims of one paper.
type PaperResult struct {
	Paper    string
	Profiles int
	Counts   Counts
}

// Counts are numbers of claims, by outcome.
type Counts struct{ Holds, DoesNotHold, Undecided int }

func (c *Counts) add(o Counts) {
	c.Holds, c.DoesNotHold, c.Undecided = c.Holds+o.Holds, c.DoesNotHold+o.DoesNotHold, c.Undecided+o.Undecided
}

// All returns how many claims there are.
func (c Counts) All() int { return c.Holds + c.DoesNotHold + c.Undecided }

// Run carries out c. What was measured is kept and written about, whatever happens; an error says what could not be.
func Run(ctx context.Context, c Config) (*Result, error) {
	parts, elsewhere, err := c.parts()
	if err != nil {
		return nil, err
	}
	if c.Jobs == 0 {
		c.Jobs = runtime.GOMAXPROCS(0)
	}
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	c.measure(ctx, s.dir, parts)
	r := &Result{Dir: s.dir}
	var errs []error
	for _, p := range parts {
		r.Interrupted = r.Interrupted || p.outcome.CutShort || p.outcome.Dir == "" && p.err == nil
		r.Invalid += p.outcome.Invalid
		if p.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.profile.Name, p.err))
		}
	}
	d := &document{config: &c, dir: s.dir, elsewhere: elsewhere, interrupted: r.Interrupted, now: c.Now()}
	errs = append(errs, d.write(parts))
	r.Counts, r.Papers = d.counts, d.papers
	state := report.StateComplete
	switch {
	case errors.Join(errs...) != nil:
		state = report.StateFailed
	case r.Interrupted:
		state = report.StateCutShort
	}
	return r, errors.Join(append(errs, s.end(state))...)
}

// measure runs the profiles, each as soon as the one before has handed out its last point, so that workers are idle at the very end only.
func (c *Config) measure(ctx context.Context, dir string, parts []*part) {
	pool := harness.NewPool(c.Jobs)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, p := range parts {
		if ctx.Err() != nil {
			return
		}
		name, out := p.profile.Name, filepath.Join(dir, p.profile.Name)
		c.Watch.Begins(name, out, i+1, len(parts), p.points, p.arrivals)
		handed := make(chan struct{})
		once := sync.OnceFunc(func() { close(handed) })
		wg.Go(func() {
			defer once()
			p.outcome, p.err = harness.Run(ctx, harness.Config{
				Profile: p.profile, Out: out, Pace: "auto", Jobs: c.Jobs, Resume: begun(out), Pool: pool, HandedOut: once,
				Argv: c.Argv, Version: c.Version, Observe: func(e harness.Event) { c.Watch.Event(name, e) },
			})
			c.Watch.Ends(name, p.outcome, p.err)
		})
		<-handed
	}
}

// begun reports whether a run has written to dir.
func begun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "manifest.json"))
	return err == nil
}
