//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spillway/clock"
	metering "spillway/counters"
	"spillway/report"
)

// tracing is what this computer is sampled with while a server of it is measured. It is opened once for a run, since finding out what there is
// takes a moment, and every point has a sampler of its own.
type tracing struct {
	machine     *metering.Machine
	instruments *metering.Instruments
	period      time.Duration
	procs       int // GOMAXPROCS before
	canary      *canary
}

// checkTracing says what of the sampling is not possible.
func (c *Config) checkTracing() error {
	switch {
	case c.Profile.On != groundHost && (c.TracePeriod != 0 || c.Counter != ""):
		return usage("--trace-period and --provider are about this computer, and on the ground %s the machine is modelled: its own figures are in trace.csv", c.Profile.On)
	case c.TracePeriod != 0 && (c.TracePeriod < metering.MinPeriod || c.TracePeriod > longestTracePeriod):
		return usage("--trace-period %v: is between %v and %v", c.TracePeriod, metering.MinPeriod, longestTracePeriod)
	case c.Counter != "" && !slices.Contains(metering.Names(), c.Counter):
		return usage("--provider %q: `loadgen counters` lists the sources; there are %s", c.Counter, strings.Join(metering.Names(), ", "))
	}
	return nil
}

// longestTracePeriod keeps some values in any window that says something.
const longestTracePeriod = time.Second

// openTracing finds out what memory traffic and pressure can be told from here. A forced provider that does not work is an error. Where nothing
// works there is still the server's own account.
func openTracing(ctx context.Context, c *Config) (*tracing, error) {
	t := &tracing{machine: metering.Here(), period: c.TracePeriod}
	if t.period == 0 {
		t.period = metering.DefaultPeriod
	}
	// While the sampler is blocked in the kernel, the runtime takes its place among those that may run Go code for occupied, for up to 10 ms. Without one
	// place more a sender that wakes up would wait for it.
	t.procs = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(t.procs + 1)
	var err error
	t.instruments, err = metering.Instrument(ctx, t.machine, metering.Config{Force: c.Counter})
	switch {
	case err != nil && (c.Counter != "" || ctx.Err() != nil):
		runtime.GOMAXPROCS(t.procs)
		return nil, err
	case err != nil:
		t.instruments = nil
	}
	if t.canary, err = newCanary(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tracing) close() error {
	if t == nil {
		return nil
	}
	runtime.GOMAXPROCS(t.procs)
	err := t.canary.close()
	if t.instruments == nil {
		return err
	}
	return errors.Join(err, t.instruments.Close())
}

// counts reports whether bytes are counted from here, so that nobody has to account for them.
func (t *tracing) counts() bool {
	return t.instruments != nil && t.instruments.Sources[0].Capability().Kind != metering.Pressure
}

// facts describes the instruments for the manifest.
func (t *tracing) facts() *report.Sampling {
	f := &report.Sampling{PeriodUS: micros(t.period)}
	if t.instruments == nil {
		return f
	}
	for _, s := range t.instruments.Sources {
		c := s.Capability()
		source := report.SamplingSource{Name: c.Name, Kind: string(c.Kind), Scope: string(c.Scope), Notes: c.Notes}
		for _, e := range c.Events {
			source.Events = append(source.Events, fmt.Sprintf("%s cpu %d %s type %d config %#x,%#x,%#x", e.PMU, e.CPU, e.Name, e.Type, e.Config, e.Config1, e.Config2))
		}
		f.Sources = append(f.Sources, source)
	}
	for i := range t.instruments.Detection.Candidates {
		c := &t.instruments.Detection.Candidates[i]
		if !c.Usable {
			f.Rejected = append(f.Rejected, report.SamplingRejected{Name: c.Name, Reason: c.Reason, Remedy: c.Remedy})
			continue
		}
		if f.Sources[0].Name == c.Name && !math.IsNaN(c.Ratio) {
			f.Sources[0].Ratio = report.Known(c.Ratio)
		}
	}
	for _, a := range t.instruments.Absent {
		f.Rejected = append(f.Rejected, report.SamplingRejected{Name: a.Name, Reason: a.Reason.Error()})
	}
	return f
}

// trail is the sampling of one point: from here, and what the servers sample of themselves. Both stand on CLOCK_MONOTONIC, and so on one clock.
type trail struct {
	tracing *tracing
	offset  time.Duration // from that clock to the point's
	sampler *metering.Sampler
	servers []*serverTrail
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// serverTrail is what one server samples of itself.
type serverTrail struct {
	addr    string
	prefix  string
	columns []metering.Column
	points  []metering.Point
	next    int
	cost    float64 // share of a core
	gone    bool    // it does not sample
}

// begin starts to sample, for a point whose instants are those of c.
func (t *tracing) begin(ctx context.Context, s *server, c clock.Clock) (*trail, error) {
	tr := &trail{tracing: t, offset: c.Now().Sub(t.machine.Clock.Now())}
	config := metering.SamplerConfig{Machine: t.machine, Period: t.period}
	if t.instruments != nil {
		config.Sources, config.Gauges = t.instruments.Sources, t.instruments.Gauges
	}
	var err error
	if tr.sampler, err = metering.NewSampler(config); err != nil {
		return nil, err
	}
	if err := tr.sampler.Start(); err != nil {
		return nil, err
	}
	for i, p := range s.processes {
		st := &serverTrail{addr: traceURL(s.url, p.addr), prefix: "server_"}
		if len(s.processes) > 1 {
			st.prefix = fmt.Sprintf("server%d_", i+1)
		}
		tr.servers = append(tr.servers, st)
	}
	ctx, tr.cancel = context.WithCancel(ctx)
	tr.wg.Go(func() { tr.follow(ctx) })
	return tr, nil
}

// traceURL returns where one process of a server answers; those over HTTP have no `stats trace`.
func traceURL(of, addr string) string {
	if u, err := url.Parse(of); err != nil || u.Scheme != "memcached" {
		return ""
	}
	return "memcached://" + addr
}

// follow fetches what the servers have sampled, as they go, so that nothing is lost with one that dies.
func (t *trail) follow(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			t.fetch(ctx)
		}
	}
}

func (t *trail) fetch(ctx context.Context) {
	for _, s := range t.servers {
		if !s.gone && s.addr != "" {
			s.fetch(ctx)
		}
	}
}

// fetch asks one server for what is new. A server that knows no such thing is not asked again.
func (s *serverTrail) fetch(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, statsDeadline)
	defer cancel()
	rows, err := serverStats(within, s.addr, "trace "+strconv.Itoa(s.next))
	if err != nil {
		s.gone = s.columns == nil && ctx.Err() == nil
		return
	}
	s.take(rows)
}

// take reads an answer to `stats trace`: see refserver's trace.
func (s *serverTrail) take(rows map[string]string) {
	if s.columns == nil {
		for i := 0; ; i++ {
			text, ok := rows["column_"+strconv.Itoa(i)]
			if !ok {
				break
			}
			name, unit, _ := strings.Cut(text, " ")
			s.columns = append(s.columns, metering.Column{Name: name, Unit: unit})
		}
	}
	for i := 0; ; i++ {
		text, ok := rows["points_"+strconv.Itoa(i)]
		if !ok {
			break
		}
		for _, one := range strings.Split(text, ";") {
			var p metering.Point
			if _, err := fmt.Sscan(one, &p.At, &p.Column, &p.Value); err == nil && int(p.Column) < len(s.columns) {
				s.points = append(s.points, p)
			}
		}
	}
	if next, err := strconv.Atoi(rows["next"]); err == nil && next > s.next {
		s.next = next
	}
	var samples, cpu, elapsed, missed int64
	if _, err := fmt.Sscan(rows["cost"], &samples, &cpu, &elapsed, &missed); err == nil && elapsed > 0 {
		s.cost = float64(cpu) / float64(elapsed)
	}
}

// stop ends the sampling, and fetches the rest.
func (t *trail) stop(ctx context.Context) error {
	err := t.sampler.Stop()
	t.cancel()
	t.wg.Wait()
	t.fetch(ctx)
	return err
}

// memAccounted is the membw_source of bytes that the server accounts for itself.
const memAccounted = "accounted"

// columnMemBW is what samplers call bytes per second.
const columnMemBW = "membw"

// series is what a sampler has to show.
type series struct {
	columns []metering.Column
	points  []metering.Point
	cost    metering.Cost
}

// fill puts what was seen between two instants of the point into r.
func (t *trail) fill(r *Result, from, to clock.Instant) {
	t.put(series{t.sampler.Columns(), t.sampler.Points(0), t.sampler.Cost()}, r, from, to)
}

func (t *trail) put(s series, r *Result, from, to clock.Instant) {
	columns, points, c := s.columns, s.points, s.cost
	own := ownColumns
	name := func(c metering.Column) string {
		if slices.Contains(own, c.Name) {
			return "loadgen_" + c.Name
		}
		return c.Name
	}
	r.Samples = append(r.Samples, t.samples(columns, points, name, from, to)...)
	facts := &report.SamplerFacts{Samples: int64(c.Samples), Missed: int64(c.Missed), Dropped: int64(c.Dropped), CPURatio: c.Share(), LongestUS: micros(c.Longest)}
	total, known := 0.0, t.tracing.counts()
	if known {
		r.MemBWSource = t.tracing.instruments.Sources[0].Capability().Name
		total, known = t.mean(columns, points, from, to)
		facts.Flags = flagsOf(columns, points, columnMemBW)
	}
	accounted, every := 0.0, len(t.servers) > 0
	for _, s := range t.servers {
		canonical := !t.tracing.counts() && len(t.servers) == 1
		r.Samples = append(r.Samples, t.samples(s.columns, s.points, func(c metering.Column) string {
			if c.Name == columnMemBW && canonical {
				return c.Name
			}
			return s.prefix + c.Name
		}, from, to)...)
		facts.ServerCPURatio = max(facts.ServerCPURatio, s.cost)
		mean, ok := t.mean(s.columns, s.points, from, to)
		accounted += mean
		every = every && ok
	}
	if !known && every {
		total, known, r.MemBWSource = accounted, true, memAccounted
		facts.Flags = metering.Estimated.String()
	}
	if known {
		r.MemBW = report.Known(total)
	} else {
		r.MemBWSource = ""
	}
	facts.OthersRatio, facts.StealRatio = t.others(r.Samples)
	r.Sampler = facts
}

// others returns what of all processors' time neither we nor the servers used, though somebody did, and what a hypervisor took.
func (t *trail) others(samples []report.Sample) (used, stolen report.Value) {
	all, ok := meanOf(samples, "cpu_host").Get()
	ours, ok2 := meanOf(samples, "loadgen_cpu_process").Get()
	if len(t.servers) == 0 {
		return report.Value{}, meanOf(samples, "steal") // of a server that somebody else runs it is not known what it uses
	}
	for _, s := range t.servers {
		one, known := meanOf(samples, s.prefix+"cpu_process").Get()
		ours, ok2 = ours+one, ok2 && known
	}
	if !ok || !ok2 {
		return report.Value{}, meanOf(samples, "steal")
	}
	return report.Known(max(all-ours/float64(runtime.NumCPU()), 0)), meanOf(samples, "steal")
}

// ownColumns are those of gauges that are about the process they run in: of ours it says little, and must not be taken for the server's.
var ownColumns = []string{"cpu_process", "run_delay", "go_sched_p99", "go_gc_pause", "go_runnable", "go_gc_cycles"}

func (t *trail) samples(columns []metering.Column, points []metering.Point, name func(metering.Column) string, from, to clock.Instant) (list []report.Sample) {
	for _, p := range points {
		at := p.At.Add(t.offset)
		if at < from || at >= to {
			continue
		}
		c := columns[p.Column]
		list = append(list, report.Sample{TimeUS: micros(at.Sub(from)), Name: name(c), Unit: c.Unit, Value: report.Known(p.Value)})
	}
	return list
}

// mean returns the mean of the bytes per second over a stretch of time. Each value is that of the time since the one before.
func (t *trail) mean(columns []metering.Column, points []metering.Point, from, to clock.Instant) (mean float64, known bool) {
	sum, weight := 0.0, 0.0
	last := clock.Never // of nothing is it known since when
	for _, p := range points {
		if columns[p.Column].Name != columnMemBW {
			continue
		}
		at := p.At.Add(t.offset)
		if begin := max(last, from); at > begin && begin < to {
			span := min(at, to).Sub(begin).Seconds()
			sum, weight = sum+p.Value*span, weight+span
		}
		last = at
	}
	if weight == 0 {
		return 0, false
	}
	return sum / weight, true
}

// flagsOf returns all flags that any point of a column has.
func flagsOf(columns []metering.Column, points []metering.Point, name string) string {
	all := metering.Flags(0)
	for _, p := range points {
		if columns[p.Column].Name == name {
			all |= p.Flags
		}
	}
	return all.String()
}
