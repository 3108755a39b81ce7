//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/target"
	"spillway/profiles"
	"spillway/report"
	"spillway/workloads"
)

const (
	dialDeadline    = 10 * time.Second // for all connections of a point
	preloadDeadline = 2 * time.Minute
	statsDeadline   = 5 * time.Second
	fewCores        = 4 // below it the generator is given a core of its own by leaving one to it
)

// Result is what a Runner measured at one point.
type Result struct {
	Load     drive.Result
	Began    time.Time // of the window
	Totals   Totals    // warm-up and drain included
	Before   Counts    // the server's own, before the warm-up
	After    Counts    // and after the drain
	Stored   int64     // items preloaded
	CPU      report.Value
	MemBW    report.Value // bytes per second over the window
	Samples  []report.Sample
	Server   report.Server
	Died     bool   // the server ended during the point
	Ended    string // how, when it died
	LastWord string // what it last wrote to its standard error, when it died

	MemBWSource string
	Converged   report.Value  // share of clients whose half of the control had found its place; unknown where they do not say
	Optimum     []float64     // requests per second by class that could be served at best; nil when that is not known
	Ceiling     []float64     // likewise by a controller that must admit all classes alike
	Wall        time.Duration // what a modelled point took on the wall clock
	Events      int64         // of a simulation

	Profile  *profiles.Profile
	Modelled bool // the machine is: what a server counts and when it began say nothing of this computer
	NoReads  bool // misses are to be expected: nothing was preloaded
	Sampler  *report.SamplerFacts
	Canary   *report.CanaryFacts
	Ready    *report.Point // what is to be written, where it does not come from a tally; else nil

	simulated int64 // requests, those of the warm-up included
}

// Totals counts every request of a run by kind and fate.
type Totals [workloads.NumKinds][reqlog.NumFates]int64

// host measures on this machine.
type host struct {
	profile *profiles.Profile
	config  *Config
	binary  string   // of refserver; empty for an external server
	flags   []string // for refserver, from server.settings
	procs   int      // GOMAXPROCS of refserver
	probed  *server  // of Probe
	classed bool     // refserver knows the classes, by the keys of the workload
	graph   graphSize
	url     string // of an external server, its names resolved; empty until it was asked

	modelled *modelled // nil unless the server's machine is modelled
	scale    int       // of time then; 0 otherwise
}

func newHost(c *Config, p *profiles.Profile) (*host, error) {
	h := &host{profile: p, config: c}
	if !c.NoPreload {
		if err := refusePreload(p); err != nil {
			return nil, err
		}
	}
	if p.Server.Kind == "external" {
		for k := range p.Server.Settings {
			if k != "target" {
				return nil, mistake(p, "server.settings."+k, "server.settings: external has no setting %q; it takes target", k)
			}
		}
		if err := refuseTarget(p.Server.Settings["target"]); err != nil {
			return nil, mistake(p, "server.settings.target", "server.settings: %w", err)
		}
		return h, nil
	}
	var err error
	if h.flags, err = serverFlags(p); err != nil {
		return nil, err
	}
	if limit := tightest(p); limit > 0 && p.Server.Settings["slo"] == "" {
		h.flags = append(h.flags, "--slo", limit.String())
	}
	if err := h.know(); err != nil {
		return nil, err
	}
	h.procs = serverCores()
	if h.binary = c.Refserver; h.binary == "" {
		h.binary, err = findServer()
	}
	return h, err
}

// know sees to it that the server knows the classes of the workload, and that we know its graph.
func (h *host) know() (err error) {
	if h.profile.Workload.Kind == kindGraph {
		if h.graph, err = sizeOfGraph(h.profile); err != nil {
			return err
		}
	}
	if h.profile.Server.Kind == kindWeb { // requests say their class
		flags, err := webStore(h.profile)
		h.flags = append(h.flags, flags...)
		return err
	}
	w, err := h.workload()
	if err != nil {
		return err
	}
	if flags, err := tellApart(h.profile, w); err == nil { // a controller that needed it has been refused
		h.flags, h.classed = append(h.flags, flags...), true
	}
	return nil
}

// serverCores returns how many cores a server that we start may use. On a small machine one is left to the generator: sharing the last
// one, the two would measure each other.
func serverCores() int {
	n := runtime.NumCPU()
	if n < fewCores {
		return max(n-1, 1)
	}
	if asked, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err == nil && asked > 0 {
		return asked
	}
	return n
}

// server is what is under measurement: one server, or several replicas.
type server struct {
	url       string     // of all of them
	processes []*process // of the replicas; none when somebody else runs it
	extra     [][]string // arguments of each replica of its own; nil for none
	folders   []string   // to be removed in the end
	loaded    bool       // they have what the workload reads from the start
	facts     report.Server
	stored    int64
}

func (s *server) stop() {
	for _, p := range s.processes {
		p.stop()
	}
	for _, folder := range s.folders {
		_ = os.RemoveAll(folder) // it is a temporary one
	}
}

// dead returns a replica that has ended although nobody stopped it, nil when all live.
func (s *server) dead() *process {
	for _, p := range s.processes {
		if p.died() {
			return p
		}
	}
	return nil
}

// Run implements Runner.
func (h *host) Run(ctx context.Context, p Point) (Result, error) {
	// The canary sings while no server runs, whose own affairs would be heard in it.
	before := h.sing()
	s, err := h.start(ctx, &p.Controller, p.Seed, p.observe)
	if err != nil {
		return Result{}, err
	}
	r, err := h.measure(ctx, s, &p, p.spans(h.profile))
	s.stop()
	if after := h.sing(); before != nil && after != nil {
		r.Canary = &report.CanaryFacts{Before: *before, After: *after}
	}
	return r, err
}

// Probe implements Prober. The server is started and filled by the first probe, and anew if it died.
func (h *host) Probe(ctx context.Context, p Point, warmUp, window time.Duration) (Result, error) {
	if h.probed == nil || h.probed.dead() != nil {
		s, err := h.start(ctx, &profiles.Controller{Name: "none"}, p.Seed, p.observe)
		if err != nil {
			return Result{}, err
		}
		h.probed = s
	}
	p.steady = true
	// What one probe left in the server's queue would slow the next, so it is waited for, which takes no longer than it takes.
	return h.measure(ctx, h.probed, &p, spans{warmUp, window, max(h.profile.Drain, 2*(warmUp+window))})
}

// EndSearch implements Prober.
func (h *host) EndSearch() {
	if h.probed != nil {
		h.probed.stop()
		h.probed = nil
	}
}

// Close implements Runner. Each point has stopped its own server.
func (h *host) Close() error { return nil }

// start brings up a server that holds what the workload reads.
func (h *host) start(ctx context.Context, c *profiles.Controller, seed uint64, observe func(string)) (*server, error) {
	s := &server{facts: report.Server{Kind: h.profile.Server.Kind}}
	if h.binary != "" {
		if err := h.prepareStores(ctx, s, observe); err != nil {
			s.stop()
			return nil, err
		}
		observe("server")
		if err := h.launch(ctx, s, c, seed); err != nil {
			s.stop()
			return nil, err
		}
	} else {
		if overHTTP(h.profile.Server.Settings["target"]) {
			h.url = h.profile.Server.Settings["target"]
		}
		if h.url == "" {
			within, cancel := context.WithTimeout(ctx, dialDeadline)
			defer cancel()
			var err error
			if h.url, err = target.Resolve(within, h.profile.Server.Settings["target"]); err != nil {
				return nil, err
			}
		}
		s.url = h.url
	}
	s.facts.Target = h.profile.Server.Settings["target"]
	fill := h.fill
	if overHTTP(s.url) {
		fill = h.fillHTTP
	}
	if err := fill(ctx, s, observe); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// launch starts the replicas of a server.
func (h *host) launch(ctx context.Context, s *server, c *profiles.Controller, seed uint64) error {
	common := append([]string{h.profile.Server.Kind, "--listen", "127.0.0.1:0"}, h.flags...)
	s.facts.Argv = append([]string{serverName}, withoutFolders(common)...)
	s.facts.GOMAXPROCS = h.procs
	if h.samples() && h.profile.Server.Kind != kindWeb { // which does not sample itself
		common = append(common, "--trace-period", h.config.tracing.period.String())
	}
	env := append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(h.procs))
	var addresses []string
	for i := range h.replicas() {
		args := append(slices.Clone(common), "--control", c.Name, "--seed", strconv.FormatUint(replicaSeed(seed, i), 10))
		for _, setting := range settingList(withBusiness(c, h.profile)) {
			args = append(args, "--control-set", setting)
		}
		if s.extra != nil {
			args = append(args, s.extra[i]...)
		}
		p, err := startProcess(ctx, h.binary, args, env)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, p)
		addresses = append(addresses, p.addr)
	}
	if s.url = "memcached://" + strings.Join(addresses, ","); h.profile.Server.Kind == kindWeb {
		s.url = webURL(h.profile.Workload.Kind, addresses[0])
	}
	return nil
}

// replicas returns how many servers are measured together.
func (h *host) replicas() int { return max(h.profile.Server.Replicas, 1) }

// samples reports whether this computer is sampled, and the server samples itself: a modelled machine shows what it does by itself.
func (h *host) samples() bool { return h.config.tracing != nil && h.modelled == nil }

// sensedCores returns how many cores the server's core-time is a share of: those that it may use, or those of its modelled machine.
func (h *host) sensedCores() cores {
	if h.modelled != nil {
		return cores{n: h.modelled.spec.Cores * h.replicas(), modelled: true, replicas: h.replicas()}
	}
	return cores{n: h.procs * h.replicas(), replicas: h.replicas()}
}

// withoutFolders returns arguments as a manifest has them: results are passed on to others, to whom our folders mean nothing.
func withoutFolders(args []string) []string {
	list := slices.Clone(args)
	for i := range list {
		if filepath.IsAbs(list[i]) {
			list[i] = filepath.Base(list[i])
		}
	}
	return list
}

// fill proves that a memcached server answers and stores what the workload reads.
func (h *host) fill(ctx context.Context, s *server, observe func(string)) error {
	probe, cancel := context.WithTimeout(ctx, statsDeadline)
	defer cancel()
	var err error
	if s.facts.Version, err = target.Probe(probe, s.url); err != nil {
		return h.explain(s, err)
	}
	asked, err := h.workload()
	if err != nil {
		return err
	}
	reads, ok := asked.(workloads.Preloader)
	if !ok || h.config.NoPreload || s.loaded {
		return nil
	}
	observe("preload")
	within, cancel := context.WithTimeout(ctx, preloadDeadline)
	defer cancel()
	stored, err := target.Preload(within, s.url, reads, nil)
	if err != nil {
		return h.explain(s, fmt.Errorf("preload: %w", roomier(h.profile, err)))
	}
	s.stored = stored.Items
	return nil
}

// explain adds what a dead server last said to an error that its death may have caused.
func (h *host) explain(s *server, err error) error {
	if p := s.dead(); p != nil {
		return fmt.Errorf("%w; the server has ended (%w)%s", err, p.ended(), p.words())
	}
	return err
}

func (h *host) workload() (workloads.Workload, error) {
	w, err := asked(h.profile, h.graph)
	if s, ok := w.(*workloads.Synthetic); ok && err == nil && h.classed {
		err = s.Mark()
	}
	return w, err
}

// spans are the lengths of the phases of one load.
type spans struct{ warmUp, window, drain time.Duration }

// measure puts one load on a server that runs.
func (h *host) measure(ctx context.Context, s *server, p *Point, t spans) (Result, error) {
	r := Result{Profile: h.profile, Server: s.facts, Stored: s.stored, NoReads: h.config.NoPreload}
	timing, err := newTiming(h.scale)
	if err != nil {
		return r, err
	}
	clients := &halves{}
	plan, err := h.plan(s, p, t, timing.Clock, clients)
	if err != nil {
		return r, err
	}
	end := func(*drive.Result, report.PointOfRequests) {}
	if h.config.recording != nil && !p.steady {
		plan.Record, end = h.config.recording.begin(1 + len(plan.More))
	}
	// Counting and watching must outlive an interruption: it is then that we want to know what happened.
	lasting := context.WithoutCancel(ctx)
	r.Before = serverCounts(lasting, s.url)
	watch := startWatch(lasting, s, plan.Clock, h.sensedCores())
	var sampled *trail
	if h.samples() && !p.steady {
		if sampled, err = h.config.tracing.begin(lasting, s, plan.Clock); err != nil {
			watch.stop()
			return r, err
		}
	}
	r.Load, err = drive.Run(ctx, plan)
	end(&r.Load, p.ofRequests(h.profile))
	r.Totals = Totals(r.Load.Totals.Keys)
	r.Converged = clients.converged()
	watch.stop()
	if sampled != nil {
		err = errors.Join(err, sampled.stop(lasting))
	}
	if r.Load.Tally == nil {
		return r, h.explain(s, err)
	}
	if dead := s.dead(); dead != nil {
		r.Died, r.Ended, r.LastWord = true, dead.ended().Error(), strings.TrimPrefix(dead.words(), ": ")
		err = nil // closing connections to a dead server fails, which is no news
	} else {
		r.After = serverCounts(lasting, s.url)
	}
	r.Began = timing.calendar(r.Load.Tally.From)
	r.CPU, r.Samples = watch.within(r.Load.Tally.From, r.Load.Tally.To)
	if h.modelled != nil {
		r.MemBW, r.MemBWSource = watch.bandwidth(r.Load.Tally.From, r.Load.Tally.To)
	}
	r.Samples = append(tallySamples(r.Load.Tally), r.Samples...)
	if sampled != nil {
		sampled.fill(&r, r.Load.Tally.From, r.Load.Tally.To)
	}
	return r, err
}

func (h *host) plan(s *server, p *Point, t spans, now clock.Clock, clients *halves) (drive.Plan, error) {
	w := &h.profile.Workload
	sources, err := h.sources(p, t)
	if err != nil {
		return drive.Plan{}, err
	}
	skip, err := w.SkipLate()
	if err != nil {
		return drive.Plan{}, err
	}
	open, err := h.opener(s.url, p, clients)
	if err != nil {
		return drive.Plan{}, err
	}
	span := load.BucketSpan
	if h.modelled != nil {
		span = period(t.window, spansPerWindow)
	}
	return drive.Plan{
		Generator: sources[0], More: sources[1:], Classes: loadClasses(h.profile), Open: open, Clock: now, Dial: dialDeadline,
		WarmUp: t.warmUp, Window: t.window, Drain: t.drain, Span: span, Pace: drive.Pace(h.config.Pace), SkipLate: skip, Progress: p.progress(now),
	}, nil
}
