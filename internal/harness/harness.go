//go:build linux

// Package harness carries out a profile: it makes points of it, has a Runner measure them in an order shuffled by the seed, judges
// the numbers and writes them to a result directory as they come.
//
// On the grounds `host` and `model` the runner starts a fresh refserver for every point, so that no point inherits what another left in
// its server: memory, queues, the state of a controller. On `sim` a point is a computation, and several are under way at once.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"spillway/profiles"
	"spillway/report"
)

// Config says what to carry out and where the results go.
type Config struct {
	Profile   *profiles.Profile
	Out       string // the result directory; made if missing, refused if not empty
	Pace      string // auto, sleep or spin; see package drive
	Record    bool   // write requests.bin, with a record of every request
	NoPreload bool   // the keys are there already, or shall be missed
	Jobs      int    // points simulated at the same time; 0 for one a core. Beyond 1 on sim only
	TimeScale int    // wall-clock time that a unit of modelled time takes on model; 0 for the default

	Argv    []string    // for the manifest
	Version string      // of loadgen, for the manifest
	Observe func(Event) // is told where the run stands, from one goroutine at a time, never the measuring one; may be nil

	recording *recording      // nil unless Record
	pacing    []report.Pacing // of this computer
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

// Runner measures points. There is one for each ground.
type Runner interface {
	// Run measures one point on a server of its own. When ctx ends it returns what was measured, marked as cut short.
	Run(ctx context.Context, p Point) (Result, error)
	// Close frees what the runner holds. It is called once, at the end.
	Close() error
}

// Prober is a Runner on whose ground the capacity is not known and has to be searched.
type Prober interface {
	// Probe measures one rate without control, on a server that all probes share.
	Probe(ctx context.Context, p Point, warmUp, window time.Duration) (Result, error)
	// EndSearch stops that server, before points are measured.
	EndSearch()
}

// Run carries out c.Profile on its ground.
func Run(ctx context.Context, c Config) (Outcome, error) {
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	if err := refuse(c.Profile); err != nil {
		return Outcome{}, err
	}
	if err := c.ground(); err != nil {
		return Outcome{}, err
	}
	if c.Profile.On != groundSim {
		var err error
		if c.pacing, err = pacing(ctx); err != nil {
			return Outcome{}, err
		}
	}
	e := experiment{config: c, now: time.Now}
	var err error
	switch c.Profile.On {
	case groundSim, groundModel:
		if e.modelled, err = newModelled(c.Profile); err != nil {
			return Outcome{}, err
		}
		if c.Profile.On == groundSim {
			e.runner = &simulation{e.modelled}
			break
		}
		e.runner, err = newModel(&e.config, e.modelled)
	default:
		e.runner, err = newHost(&e.config)
	}
	if err != nil {
		return Outcome{}, err
	}
	return e.run(ctx)
}

// The grounds.
const (
	groundSim   = "sim"
	groundModel = "model"
	groundHost  = "host"
)

// ground fills in what is left open about the ground, and refuses what it has no use for.
func (c *Config) ground() error {
	on := c.Profile.On
	switch {
	case c.Jobs < 0:
		return usage("--jobs %d: must not be negative", c.Jobs)
	case c.Jobs == 0 && on == groundSim:
		c.Jobs = runtime.GOMAXPROCS(0)
	case c.Jobs == 0:
		c.Jobs = 1
	case c.Jobs > 1 && on != groundSim:
		return usage("--jobs %d: on %s one point is measured at a time, since two would measure each other; more belong to --on sim", c.Jobs, on)
	}
	if c.Record && on == groundSim {
		return usage("--record: a simulation does not record its requests; --on host and --on model do")
	}
	switch {
	case c.TimeScale != 0 && on != groundModel:
		return usage("--time-scale %d: time is stretched on the ground model only, this is %s", c.TimeScale, on)
	case c.TimeScale < 0 || c.TimeScale > maxTimeScale:
		return usage("--time-scale %d: is between 1 and %d", c.TimeScale, maxTimeScale)
	case c.TimeScale == 0 && on == groundModel:
		c.TimeScale = defaultTimeScale
	}
	return nil
}

// experiment is a run in progress.
type experiment struct {
	config   Config
	runner   Runner
	modelled *modelled // nil on host
	now      func() time.Time

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
		err = usageError{err}
	}
	if err != nil {
		return e.out, errors.Join(err, e.runner.Close())
	}
	e.out.Dir = e.config.Out
	if e.config.Record {
		if e.config.recording, err = newRecording(e.config.Out); err != nil {
			return e.out, errors.Join(err, e.runner.Close())
		}
	}
	e.remarks()
	err = errors.Join(e.measure(ctx), e.runner.Close())
	if e.config.recording != nil {
		err = errors.Join(err, e.config.recording.close())
	}
	if c := e.writer.Manifest.Capacity; err != nil && e.out.Points == 0 && (c == nil || len(c.Probes) == 0) {
		// Nothing was measured, so nothing is left behind: the same command shall work once its error is put right.
		e.writer.Discard()
		return e.out, err
	}
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
	if err != nil || e.out.CutShort {
		return err
	}
	e.total = len(points)
	if e.config.Profile.On == groundSim {
		return e.sideBySide(ctx, points)
	}
	shuffle(points, e.config.Profile.Seed)
	return e.oneByOne(ctx, points)
}

// remarks tells what of the profile has no effect on this ground.
func (e *experiment) remarks() {
	p := e.config.Profile
	if m := p.Machine; p.On == groundHost && m != nil && m.Ref != profiles.HostMachine {
		e.note("the profile's machine is not used on the ground host, which measures this one")
	}
	if p.Server.Kind == "external" && !e.config.NoPreload {
		if flags := memcachedFlags(p); flags != "" {
			e.note("a memcached that holds what this workload stores is started with %s", flags)
		}
	}
	if e.modelled == nil {
		return
	}
	if unused := e.modelled.settings.unused; len(unused) > 0 {
		e.note("server.settings %s: not used on the ground %s, whose server is modelled", strings.Join(unused, ", "), p.On)
	}
	if len(e.modelled.work.Sections) > 0 {
		e.note("sections (%s) let everybody pass: no controller of this version limits them", strings.Join(e.modelled.work.Sections, ", "))
	}
}

// points returns what is to be measured, in the order of the profile.
func (e *experiment) points(ctx context.Context) ([]Point, error) {
	p := e.config.Profile
	if e.modelled != nil {
		return e.analytic()
	}
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
	held := "which held"
	if capacity.Uncertain {
		held = "which is not certain to hold"
	}
	e.note("capacity %.0f requests per second (between %.0f, %s, and %.0f, which did not)", capacity.RPS, capacity.Low, held, capacity.High)
	return points(p, capacity.RPS), nil
}

// analytic returns the points of a ground on which the capacity follows from the model.
func (e *experiment) analytic() ([]Point, error) {
	c := e.modelled.capacity
	if c.Bottleneck == "" { // nothing is ever full
		return points(e.config.Profile, 0), nil
	}
	e.writer.Manifest.Capacity = &c
	e.note("capacity %.0f requests per second, bottleneck: %s", c.RPS, c.Bottleneck)
	return points(e.config.Profile, c.RPS), e.writer.Update()
}

func (e *experiment) phase(phase string) {
	ev := Event{What: e.what, Phase: phase, Done: e.done, Total: e.total}
	if e.total > 0 {
		p := e.config.Profile
		each := time.Duration(0) // what a simulation takes shows once one is done
		switch {
		case e.done > 0:
			each = e.spent / time.Duration(e.done)
		case p.On != groundSim:
			each = (p.WarmUp+p.Window)*time.Duration(max(e.config.TimeScale, 1)) + setUpGuess
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
		Argv: e.config.Argv, Seed: p.Seed, Pacing: e.config.Pace, PacingTest: e.config.pacing,
		Versions: report.Versions{Module: e.config.Version, Go: goVersion(), Kernel: kernelVersion()},
		Machine:  machineFacts(),
		Server:   report.Server{Kind: p.Server.Kind, Target: p.Server.Settings["target"]},
		Planned:  len(labels(p)), ProfileText: p.Text(), ResolvedProfile: string(p.Resolved()),
	}
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		m.Classes = append(m.Classes, report.Class{Name: c.Name, SLOUS: micros(c.SLO.Limit)})
	}
	if e.modelled != nil {
		m.ModelledMachine, m.TimeScale, m.Jobs = e.modelled.facts(), e.config.TimeScale, e.config.Jobs
	}
	return m
}

// DefaultOut returns where the results of a run called name go when the user did not say.
func DefaultOut(name string, at time.Time) string {
	return "results" + string(os.PathSeparator) + at.UTC().Format("20060102T150405Z") + "-" + name
}
