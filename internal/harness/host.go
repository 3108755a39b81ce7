//go:build linux

package harness

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
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
	Samples  []report.Sample
	Server   report.Server
	Died     bool   // the server ended during the point
	LastWord string // what it last wrote to its standard error, when it died

	Profile *profiles.Profile
	NoReads bool // misses are to be expected: nothing was preloaded
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
}

func newHost(c *Config) (*host, error) {
	h := &host{profile: c.Profile, config: c}
	if c.Profile.Server.Kind == "external" {
		for k := range c.Profile.Server.Settings {
			if k != "target" {
				return nil, usage("%s: server.settings: external has no setting %q; it takes target", c.Profile.File(), k)
			}
		}
		if addr := c.Profile.Server.Settings["target"]; !strings.HasPrefix(addr, "memcached://") {
			return nil, usage("%s: server.settings.target is %q; write memcached://host:port or memcached:///path.sock", c.Profile.File(), addr)
		}
		return h, nil
	}
	var err error
	if h.flags, err = serverFlags(c.Profile); err != nil {
		return nil, err
	}
	h.procs = serverCores()
	h.binary, err = findServer()
	return h, err
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

// server is one server under measurement.
type server struct {
	url     string
	process *process // nil when somebody else runs it
	facts   report.Server
	stored  int64
}

func (s *server) stop() {
	if s.process != nil {
		s.process.stop()
	}
}

// Run implements Runner.
func (h *host) Run(ctx context.Context, p Point) (Result, error) {
	s, err := h.start(ctx, &p.Controller, p.observe)
	if err != nil {
		return Result{}, err
	}
	defer s.stop()
	return h.measure(ctx, s, &p, spans{h.profile.WarmUp, h.profile.Window, h.profile.Drain})
}

// Probe implements Runner. The server is started and filled by the first probe, and anew if it died.
func (h *host) Probe(ctx context.Context, p Point, warmUp, window time.Duration) (Result, error) {
	if h.probed == nil || h.probed.process != nil && h.probed.process.died() {
		s, err := h.start(ctx, &profiles.Controller{Name: "none"}, p.observe)
		if err != nil {
			return Result{}, err
		}
		h.probed = s
	}
	// What one probe left in the server's queue would slow the next, so it is waited for, which takes no longer than it takes.
	return h.measure(ctx, h.probed, &p, spans{warmUp, window, max(h.profile.Drain, 2*(warmUp+window))})
}

// Close implements Runner.
func (h *host) Close() error {
	if h.probed != nil {
		h.probed.stop()
		h.probed = nil
	}
	return nil
}

// start brings up a server that holds what the workload reads.
func (h *host) start(ctx context.Context, c *profiles.Controller, observe func(string)) (*server, error) {
	s := &server{url: h.profile.Server.Settings["target"], facts: report.Server{Kind: h.profile.Server.Kind}}
	if h.binary != "" {
		observe("server")
		args := append([]string{h.profile.Server.Kind, "--listen", "127.0.0.1:0"}, h.flags...)
		s.facts.Argv = append([]string{serverName}, args...)
		s.facts.GOMAXPROCS = h.procs
		args = append(args, "--control", c.Name)
		for _, setting := range settingList(c.Settings) {
			args = append(args, "--control-set", setting)
		}
		env := append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(h.procs))
		var err error
		if s.process, err = startProcess(ctx, h.binary, args, env); err != nil {
			return nil, err
		}
		s.url = "memcached://" + s.process.addr
	}
	s.facts.Target = h.profile.Server.Settings["target"]
	if err := h.fill(ctx, s, observe); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// fill proves that a memcached server answers and stores what the workload reads.
func (h *host) fill(ctx context.Context, s *server, observe func(string)) error {
	probe, cancel := context.WithTimeout(ctx, statsDeadline)
	defer cancel()
	var err error
	if s.facts.Version, err = target.Probe(probe, s.url); err != nil {
		return h.explain(s, err)
	}
	if h.config.NoPreload {
		return nil
	}
	observe("preload")
	kv, err := h.workload()
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, preloadDeadline)
	defer cancel()
	stored, err := target.Preload(within, s.url, kv, nil)
	if err != nil {
		return h.explain(s, fmt.Errorf("preload: %w", err))
	}
	s.stored = stored.Items
	return nil
}

// explain adds what a dead server last said to an error that its death may have caused.
func (h *host) explain(s *server, err error) error {
	if s.process != nil && s.process.died() {
		return fmt.Errorf("%w; the server has ended (%w)%s", err, s.process.ended(), s.process.words())
	}
	return err
}

func (h *host) workload() (*workloads.KV, error) {
	classes, err := h.profile.Workload.KVClasses()
	if err != nil {
		return nil, err
	}
	return workloads.NewKV(classes)
}

// spans are the lengths of the phases of one load.
type spans struct{ warmUp, window, drain time.Duration }

// measure puts one load on a server that runs.
func (h *host) measure(ctx context.Context, s *server, p *Point, t spans) (Result, error) {
	r := Result{Profile: h.profile, Server: s.facts, Stored: s.stored, NoReads: h.config.NoPreload}
	plan, err := h.plan(s, p, t, &r.Totals)
	if err != nil {
		return r, err
	}
	// Counting and watching must outlive an interruption: it is then that we want to know what happened.
	lasting := context.WithoutCancel(ctx)
	r.Before = serverCounts(lasting, s.url)
	watch := startWatch(lasting, s, plan.Clock)
	r.Load, err = drive.Run(ctx, plan)
	watch.stop()
	if r.Load.Tally == nil {
		return r, h.explain(s, err)
	}
	r.Died = s.process != nil && s.process.died()
	if r.Died {
		r.LastWord = strings.TrimSpace(s.process.words())
		err = nil // closing connections to a dead server fails, which is no news
	} else {
		r.After = serverCounts(lasting, s.url)
	}
	r.Began = plan.Clock.(*clock.Real).Began().Add(time.Duration(r.Load.Tally.From))
	r.CPU, r.Samples = watch.within(r.Load.Tally.From, r.Load.Tally.To, h.procs)
	r.Samples = append(tallySamples(r.Load.Tally), r.Samples...)
	return r, err
}

func (h *host) plan(s *server, p *Point, t spans, totals *Totals) (drive.Plan, error) {
	w := &h.profile.Workload
	kv, err := h.workload()
	if err != nil {
		return drive.Plan{}, err
	}
	arrivals, err := arrival.New(w.Arrivals, p.Rate, 0)
	if err != nil {
		return drive.Plan{}, err
	}
	generator, err := load.NewGenerator(load.Config{
		Seed: p.Seed, Clients: w.Connections, Workload: kv, Arrivals: arrivals, End: clock.Instant(t.warmUp + t.window),
	})
	if err != nil {
		return drive.Plan{}, err
	}
	var classes []load.Class
	var slos []time.Duration
	for i := range w.Classes {
		classes = append(classes, load.Class{Name: w.Classes[i].Name, SLO: w.Classes[i].SLO.Limit})
		slos = append(slos, w.Classes[i].SLO.Limit)
	}
	open := func(ctx context.Context, o drive.Opening) (load.Target, error) {
		conns, err := target.Memcached(ctx, target.Config{
			Addr: s.url, Conns: w.Connections, Clock: o.Clock, Timeout: h.profile.Timeout, SLOs: slos, Spin: o.Spin, Timings: true,
			Settle: func(r *reqlog.Record) {
				totals[r.Kind][r.Fate]++
				o.Settle(r)
			},
		})
		if err != nil {
			return nil, err // not conns: a nil *MemcachedTarget in an interface is no nil
		}
		return conns, nil
	}
	return drive.Plan{
		Generator: generator, Classes: classes, Open: open, Clock: clock.NewReal(), Dial: dialDeadline,
		WarmUp: t.warmUp, Window: t.window, Drain: t.drain, Pace: drive.Pace(h.config.Pace), Progress: phases(p.observe),
	}, nil
}

// phases turns the driver's snapshots, several a second, into one call for each phase.
func phases(observe func(string)) func(drive.Snapshot) {
	last := drive.Dialling
	names := map[drive.Phase]string{drive.WarmingUp: "warm-up", drive.Measuring: "window", drive.Draining: "drain"}
	return func(s drive.Snapshot) {
		if s.Phase != last {
			last = s.Phase
			observe(names[s.Phase])
		}
	}
}
