//go:build linux

// Package harness carries out a profile: it makes points of it, has a Runner measure them in an order shuffled by the seed, judges
// the numbers and writes them to a result directory as they come.
//
// On the ground `host` the runner starts a fresh refserver for every point, so that no point inherits what another left in its
// server: memory, queues, the state of a controller.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"spillway/profiles"
	"spillway/report"
)

// Config says what to carry out and where the results go.
type Config struct {
	Profile   *profiles.Profile
	Out       string // the result directory; made if missing, refused if not empty
	Pace      string // auto, sleep or spin; see package drive
	NoPreload bool   // the keys are there already, or shall be missed

	Argv    []string    // for the manifest
	Version string      // of loadgen, for the manifest
	Observe func(Event) // is told where the run stands, from one goroutine at a time, never the measuring one; may be nil
}

// Event says where a run stands.
type Event struct {
	Note  string        // something to be told once; the other fields are then empty
	What  string        // what is being measured, such as "codel at 1.5x, repeat 2"
	Phase string        // server, preload, warm-up, window, drain
	Done  int           // points or probes finished
	Total int           // of how many; 0 when unknown, as in a search
	Left  time.Duration // estimate for all that is still to be done; 0 when unknown
}

// Outcome is how a run ended, when it did not end with an error.
type Outcome struct {
	Dir      string
	Points   int // measured
	Invalid  int // of them not valid
	CutShort bool
}

// ErrUsage marks errors that the user's request is to blame for: exit code 2.
var ErrUsage = errors.New("wrong usage")

// usageError is an error that is ErrUsage, without saying so in its text.
type usageError struct{ error }

// Is makes errors.Is(err, ErrUsage) true.
func (usageError) Is(target error) bool { return target == ErrUsage }

// Unwrap returns the error as it was before it was marked.
func (u usageError) Unwrap() error { return u.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Runner measures. There is one for each ground.
type Runner interface {
	// Run measures one point on a server of its own. When ctx ends it returns what was measured, marked as cut short.
	Run(ctx context.Context, p Point) (Result, error)
	// Probe measures one rate without control, on a server that all probes share.
	Probe(ctx context.Context, p Point, warmUp, window time.Duration) (Result, error)
	// Close frees what Probe started.
	Close() error
}

// Run carries out c.Profile on this machine.
func Run(ctx context.Context, c Config) (Outcome, error) {
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	if err := refuse(c.Profile); err != nil {
		return Outcome{}, err
	}
	h, err := newHost(&c)
	if err != nil {
		return Outcome{}, err
	}
	e := experiment{config: c, runner: h, now: time.Now}
	return e.run(ctx)
}

// experiment is a run in progress.
type experiment struct {
	config Config
	runner Runner
	now    func() time.Time
	writer *report.Writer
	done   int
	total  int
	spent  time.Duration // on the points that are done
	what   string        // is being measured
	out    Outcome
}

func (e *experiment) run(ctx context.Context) (Outcome, error) {
	var err error
	e.writer, err = report.NewWriter(e.config.Out, e.manifest(), labels(e.config.Profile))
	if errors.Is(err, report.ErrNotEmpty) {
		return e.out, usageError{err}
	}
	if err != nil {
		return e.out, err
	}
	e.out.Dir = e.config.Out
	if m := e.config.Profile.Machine; m != nil && m.Ref != "host" {
		e.note("the profile's machine is not used on the ground host, which measures this one")
	}
	err = e.measure(ctx)
	// The results are written whatever happened: what was measured must not be lost.
	state := report.StateComplete
	switch {
	case err != nil:
		state = report.StateFailed
	case e.out.CutShort:
		state = report.StateCutShort
	}
	return e.out, errors.Join(err, e.writer.Close(e.now(), state, err))
}

// measure searches the capacity where the profile asks, then measures every point.
func (e *experiment) measure(ctx context.Context) error {
	points, err := e.points(ctx)
	cerr := e.runner.Close()
	if err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if e.out.CutShort {
		return nil
	}
	shuffle(points, e.config.Profile.Seed)
	e.total = len(points)
	for _, p := range points {
		if ctx.Err() != nil {
			e.out.CutShort = true
			return nil
		}
		began := e.now()
		if err := e.point(ctx, p); err != nil || e.out.CutShort {
			return err
		}
		e.spent += e.now().Sub(began)
		e.done++
	}
	return nil
}

// points returns what is to be measured, in the order of the profile.
func (e *experiment) points(ctx context.Context) ([]Point, error) {
	p := e.config.Profile
	if len(p.Load.OfCapacity) == 0 {
		return points(p, 0), nil
	}
	capacity, err := e.search(ctx)
	if capacity != nil {
		e.writer.Manifest.Capacity = capacity
		err = errors.Join(err, e.writer.Update())
	}
	if err != nil {
		return nil, err
	}
	if e.out.CutShort {
		return nil, nil
	}
	e.note("capacity %.0f requests per second (between %.0f, which held, and %.0f, which did not)", capacity.RPS, capacity.Low, capacity.High)
	return points(p, capacity.RPS), nil
}

// point measures one point and writes it.
func (e *experiment) point(ctx context.Context, p Point) error {
	e.what = p.String()
	p.observe = e.phase
	r, err := e.runner.Run(ctx, p)
	if err != nil && ctx.Err() != nil && r.Load.Tally == nil {
		// Interrupted before there was anything to measure: of this point nothing is left to write.
		e.out.CutShort = true
		return nil
	}
	if r.Load.Tally == nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	judged := judge(&p, &r)
	e.out.Points++
	if !judged.Rows[0].Valid {
		e.out.Invalid++
	}
	e.out.CutShort = r.Load.CutShort
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

func (e *experiment) phase(phase string) {
	ev := Event{What: e.what, Phase: phase, Done: e.done, Total: e.total}
	if e.total > 0 {
		p := e.config.Profile
		each := p.WarmUp + p.Window + setUpGuess
		if e.done > 0 {
			each = e.spent / time.Duration(e.done)
		}
		ev.Left = each * time.Duration(e.total-e.done)
	}
	e.config.Observe(ev)
}

// setUpGuess is what starting and filling a server may take, until the first point tells.
const setUpGuess = 2 * time.Second

func (e *experiment) note(format string, args ...any) {
	e.config.Observe(Event{Note: fmt.Sprintf(format, args...)})
}

// manifest returns the circumstances of the run as far as they are known at its start.
func (e *experiment) manifest() report.Manifest {
	p := e.config.Profile
	m := report.Manifest{
		Name: p.Name, Title: p.Title, Ground: p.On, State: report.StateRunning, Started: e.now().UTC(),
		Argv: e.config.Argv, Seed: p.Seed, Pacing: e.config.Pace,
		Versions: report.Versions{Module: e.config.Version, Go: goVersion(), Kernel: kernelVersion()},
		Machine:  machineFacts(),
		Server:   report.Server{Kind: p.Server.Kind, Target: p.Server.Settings["target"]},
		Planned:  len(labels(p)), ProfileText: p.Text(), ResolvedProfile: string(p.Resolved()),
	}
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		m.Classes = append(m.Classes, report.Class{Name: c.Name, SLOUS: micros(c.SLO.Limit)})
	}
	return m
}

// DefaultOut returns where the results of a run called name go when the user did not say.
func DefaultOut(name string, at time.Time) string {
	return "results" + string(os.PathSeparator) + at.UTC().Format("20060102T150405Z") + "-" + name
}
