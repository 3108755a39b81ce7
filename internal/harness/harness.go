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
	"sync"
	"time"

	"spillway/profiles"
	"spillway/report"
	"spillway/report/document"
)

// Config says what to carry out and where the results go.
type Config struct {
	Profile   *profiles.Profile
	Out       string // the result directory; made if missing, refused if not empty
	Pace      string // auto, sleep or spin; see package drive
	Record    bool   // write requests.bin, with a record of every request
	NoPreload bool   // the keys are there already, or shall be missed
	AdHoc     bool   // the profile was made of flags, so messages name those instead of its keys
	Jobs      int    // points simulated at the same time; 0 for one a core. Beyond 1 on sim only
	TimeScale int    // wall-clock time that a unit of modelled time takes on model; 0 for the default

	TracePeriod time.Duration // between samples of this computer on host; 0 for the default
	Counter     string        // the source of memory traffic to be used, or none; empty for the best that works

	Resume bool // go on with the run in Out, which must be the same but for its end: what is finished is not measured again

	// Several runs on sim may share a Pool, and begin one after another as HandedOut says that a run has no more points for idle workers. It may
	// be called more than once. Both may be nil.
	Pool      Pool
	HandedOut func()

	Refserver string // the executable of the server; empty for the one beside this or in PATH

	Argv    []string    // for the manifest
	Version string      // of loadgen, for the manifest
	Observe func(Event) // is told where the run stands, from one goroutine at a time, never the measuring one; may be nil

	recording *recording      // nil unless Record
	pacing    []report.Pacing // of this computer
	tracing   *tracing        // nil unless this computer is measured

	// Measuring measures this computer for a profile that validates a model of it; nil where no profile does.
	Measuring  Measuring
	validation *validation // nil unless the profile asks for one

	stated    string // the controller that a server which runs already says it has; empty where it does not say
	unreached bool   // nothing answered when it was asked

	found *report.Capacity // that was searched for this run before it began; nil of any other
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
	defer c.handedOut()
	if err := c.check(); err != nil {
		return Outcome{}, err
	}
	if err := c.nameControl(ctx); err != nil {
		return Outcome{}, err
	}
	if err := c.validate(ctx); err != nil {
		return Outcome{}, err
	}
	if err := c.instrument(ctx); err != nil {
		return Outcome{}, err
	}
	defer c.tracing.close()
	e := experimentOf(c)
	if err := e.prepare(); err != nil {
		return Outcome{}, err
	}
	return e.run(ctx)
}

func experimentOf(c Config) *experiment { return &experiment{config: c, now: time.Now} }

// check fills in what is left open, and refuses what cannot be carried out.
func (c *Config) check() error {
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	for _, run := range c.Profile.Runs() {
		if err := refuse(run); err != nil {
			return err
		}
	}
	if err := c.ground(); err != nil {
		return err
	}
	return c.checkResume()
}

// instrument finds out how well this computer keeps time, and what it can be sampled with.
func (c *Config) instrument(ctx context.Context) (err error) {
	if c.Profile.On != groundSim && !isAllocation(c.Profile) {
		span := selfTestSpan
		if c.Profile.On == groundHost && len(c.Profile.Load.OfCapacity) > 0 {
			span = searchTestSpan
		}
		if c.pacing, err = pacing(ctx, span); err != nil {
			return err
		}
	}
	if c.Profile.On == groundHost {
		c.tracing, err = openTracing(ctx, c)
	}
	return err
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
	if c.Record && isAllocation(c.Profile) {
		return usage("--record: an allocation does not record its requests")
	}
	if err := c.checkTracing(); err != nil {
		return err
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
	config Config
	runner Runner
	models []*modelled // by variant; none on host
	now    func() time.Time

	writer    *report.Writer
	before    *report.Interrupted // what is gone on with; nil of a run from the beginning
	done      int
	total     int
	work      float64       // of all points, in whatever takes the time on this ground; see cost
	worked    float64       // of those that are done
	spent     time.Duration // on those
	simulated int64         // requests, those of the warm-up included
	point     *Point        // is being measured; nil before the first
	what      string        // how it is called
	stage     string        // its phase
	goodput   report.Value  // of the point that was finished last
	valid     bool          // likewise
	telling   sync.Mutex    // of phases and live figures, which come from different goroutines
	out       Outcome
}

func (e *experiment) run(ctx context.Context) (Outcome, error) {
	e.out.Dir = e.config.Out
	err := e.openWriter()
	if err != nil || e.writer == nil { // all of it was there already
		return e.out, errors.Join(err, e.runner.Close(), e.documents())
	}
	if e.config.Record {
		if e.config.recording, err = newRecording(e.config.Out); err != nil {
			return e.out, errors.Join(err, e.runner.Close())
		}
	}
	e.remarks()
	began := e.now()
	err = errors.Join(e.measure(ctx), e.runner.Close())
	if e.simulated > 0 {
		e.note("%d requests were simulated in %s, those of the warm-up included", e.simulated, e.now().Sub(began).Round(100*time.Millisecond))
	}
	if here, server, sampled := e.writer.Manifest.SamplingCost(); sampled {
		e.note("sampling took up to %.2f %% of a core here, and %.2f %% in the server", 100*here, 100*server)
	}
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
	err = errors.Join(err, e.writer.Close(e.now(), state, err))
	return e.out, errors.Join(err, report.Further(err, document.Write(e.out.Dir)))
}

// measure searches the capacity where the profile asks, then measures every point.
func (e *experiment) measure(ctx context.Context) error {
	points, err := e.points(ctx)
	if err != nil || e.out.CutShort {
		return err
	}
	e.total = len(points)
	if e.config.Profile.On != groundSim {
		shuffle(points, e.config.Profile.Seed)
		measuredFirst(points)
	}
	points = e.unfinished(points)
	for i := range points {
		e.work += e.cost(&points[i])
	}
	if e.config.Profile.On == groundSim {
		return e.sideBySide(ctx, points)
	}
	return e.oneByOne(ctx, points)
}

// remarks tells what of the profile has no effect on this ground.
func (e *experiment) remarks() {
	p := e.config.Profile
	if m := p.Machine; p.On == groundHost && e.config.validation == nil && m != nil && m.Ref != profiles.HostMachine {
		e.note("the profile's machine is not used on the ground host, which measures this one")
	}
	if p.Server.Kind == "external" && !e.config.NoPreload {
		if flags := memcachedFlags(p); flags != "" {
			e.note("a memcached that holds what this workload stores is started with %s", flags)
		}
	}
	if len(e.models) > 0 {
		if unused := e.models[0].settings.unused; len(unused) > 0 {
			e.note("server.settings %s: not used on the ground %s, whose server is modelled", strings.Join(unused, ", "), p.On)
		}
	}
	e.controlRemark()
	e.replayRemarks(p.Runs()[0])
	e.open(p)
}

// open says which sections let everybody pass: none but the memory section has a limit, and that only under a controller that has one.
func (e *experiment) open(p *profiles.Profile) {
	work, err := p.Workload.Synthetic()
	if err != nil || len(work.Sections) == 0 {
		return
	}
	if others := work.Sections[1:]; len(others) > 0 {
		e.note("sections %s let everybody pass: the section that a controller limits is called %s", strings.Join(others, ", "), profiles.MemorySection)
	}
	var off []string
	for i := range p.Controllers {
		if c := &p.Controllers[i]; !limitsMemory(c, checkEnvironment(p)) {
			off = append(off, c.Label())
		}
	}
	if len(off) > 0 && work.EntersMemory() {
		e.note("the section memory lets everybody pass under %s, which have `section: off`", strings.Join(off, ", "))
	}
}

// points returns what is to be measured, in the order of the profile.
func (e *experiment) points(ctx context.Context) ([]Point, error) {
	p := e.config.Profile
	if e.config.validation != nil {
		return e.compared()
	}
	if len(e.models) > 0 {
		return e.analytic()
	}
	if len(p.Variants) > 0 || len(p.Load.OfCapacity) == 0 {
		var list []Point
		for i, run := range p.Runs() {
			list = append(list, points(run, i, 0)...)
		}
		return list, nil
	}
	capacity, err := e.capacity(ctx)
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
	e.note("%s", capacityNote(capacity))
	list := points(p, 0, capacity.RPS)
	for i := range list {
		list[i].ofFloor = capacity.AtLeast
	}
	return list, nil
}

// analytic returns the points of a ground on which the capacity follows from the model.
func (e *experiment) analytic() ([]Point, error) {
	var list []Point
	for i, m := range e.models {
		c := m.capacity
		if c.Bottleneck == "" { // nothing is ever full
			list = append(list, points(m.profile, i, 0)...)
			continue
		}
		if len(e.models) == 1 {
			e.writer.Manifest.Capacity = &c
			e.note("capacity %.0f requests per second, bottleneck: %s", c.RPS, c.Bottleneck)
		} else {
			e.note("variant %s: capacity %.0f requests per second, bottleneck: %s", m.profile.Variant(), c.RPS, c.Bottleneck)
		}
		list = append(list, points(m.profile, i, c.RPS)...)
	}
	return list, e.writer.Update()
}

// cost returns what a point takes, to compare it with others: simulations by their requests, since each is some work, all else by its
// nanoseconds of the wall clock.
func (e *experiment) cost(p *Point) float64 {
	t := p.spans(p.of(e.config.Profile))
	length := t.warmUp + t.window
	if e.config.validation != nil && p.of(e.config.Profile).On == groundSim {
		return float64(setUpGuess) // which is long for one, and no measure of requests that could be mixed with that of time
	}
	if e.config.Profile.On == groundSim {
		return 1 + p.Rate*length.Seconds()
	}
	return float64(length*time.Duration(max(e.config.TimeScale, 1)) + setUpGuess)
}

// setUpGuess is what starting and filling a server may take.
const setUpGuess = 2 * time.Second

func (e *experiment) note(format string, args ...any) {
	e.config.Observe(Event{Kind: Noted, Note: fmt.Sprintf(format, args...)})
}

// DefaultOut returns where the results of a run called name go when the user did not say.
func DefaultOut(name string, at time.Time) string {
	return "results" + string(os.PathSeparator) + at.UTC().Format("20060102T150405Z") + "-" + name
}
