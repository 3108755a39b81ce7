package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spillway/clock"
	"spillway/control"
	"spillway/counters"
	"spillway/counters/pressure"
	"spillway/servers"
)

// sensorFlags say what the memory section learns of memory traffic from, and whether this process keeps a trace of itself.
type sensorFlags struct {
	sensor        string
	period, trace duration
}

const (
	sensorAuto      = "auto"
	sensorAccounted = "accounted"
	// A thread that never sleeps can refresh every few tens of µs; where none can be spared, a wake-up costs more than fresher values are worth.
	shortPeriod, longPeriod = 50 * time.Microsecond, time.Millisecond
	spareCores              = 4
)

func (f *sensorFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.sensor, "sensor", sensorAuto, "what the memory section learns of memory traffic from: auto (hardware counters if there are any, else accounted), "+
		"accounted (bytes that the server accounts for), or one of "+strings.Join(counters.Names(), ", "))
	flags.Var(&f.period, "sensor-period", "how often a thread refreshes it; 0 for what suits the machine and the source")
	flags.Var(&f.trace, "trace-period", "sample bytes and pressure of this process so often, for `stats trace`; 0 for never")
}

// sensingOf returns the flags as they were given to c.
func sensingOf(c *cobra.Command) *sensorFlags {
	f := &sensorFlags{sensor: c.Flags().Lookup("sensor").Value.String()}
	f.period = *c.Flags().Lookup("sensor-period").Value.(*duration)
	f.trace = *c.Flags().Lookup("trace-period").Value.(*duration)
	return f
}

// check says what is wrong with the flags. modelled says that the server's machine is.
func (f *sensorFlags) check(changed func(string) bool, modelled bool) error {
	switch {
	case modelled && (changed("sensor") || changed("sensor-period") || changed("trace-period")):
		return errors.New("--sensor, --sensor-period and --trace-period are for a real machine: of a modelled one the bus is read")
	case f.sensor != sensorAuto && f.sensor != sensorAccounted && !known(f.sensor):
		return fmt.Errorf("--sensor %q: it is auto, accounted, or one of %s", f.sensor, strings.Join(counters.Names(), ", "))
	case f.trace != 0 && time.Duration(f.trace) < counters.MinPeriod:
		return fmt.Errorf("--trace-period %v: the shortest is %v", time.Duration(f.trace), counters.MinPeriod)
	}
	return nil
}

func known(name string) bool {
	for _, n := range counters.Names() {
		if n == name {
			return true
		}
	}
	return false
}

// instruments is what a server measures with, to be closed when it has ended.
type instruments struct{ closers []func() error }

// Close ends all of it, the last first.
func (in *instruments) Close() error {
	var errs []error
	for i := len(in.closers) - 1; i >= 0; i-- {
		errs = append(errs, in.closers[i]())
	}
	in.closers = nil
	return errors.Join(errs...)
}

// thread makes room for a thread that samples: while one is blocked in the kernel it keeps its place among those that may run Go code for up to 10 ms,
// until the runtime notices, and with as many places as event loops a loop would wait for it. Measured with one loop and a sample every 10 ms, that
// was half of the server's capacity.
func (in *instruments) thread() {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	in.closing(func() error {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - 1)
		return nil
	})
}

func (in *instruments) closing(f func() error) { in.closers = append(in.closers, f) }

// open sees to it that a server has what the flags ask for, which is put into c. A sensor is opened where there is a memory section to use it, or
// where one was asked for by name.
func (f *sensorFlags) open(ctx context.Context, cmd *cobra.Command, backend servers.Backend, stack control.Stack, c *servers.Config) (*instruments, error) {
	in := &instruments{}
	if err := f.check(cmd.Flags().Changed, c.Model != nil); err != nil {
		return in, usageError{err}
	}
	if c.Model != nil {
		return in, nil
	}
	accountant, _ := backend.(servers.Accountant)
	m := counters.Here()
	if stack.Memory != nil || cmd.Flags().Changed("sensor") {
		sensor, err := f.openSensor(ctx, m, accountant, in)
		if err != nil {
			return in, err
		}
		if sensor != nil {
			c.Sensor = sensor
		}
	}
	if f.trace > 0 {
		t, err := startTrace(m, accountant, time.Duration(f.trace), in)
		if err != nil {
			return in, err
		}
		c.Trace = t.rows
	}
	return in, nil
}

// accounting is the provider of what a server accounts for itself.
func accounting(a servers.Accountant) counters.Func {
	return counters.Func{
		Label: sensorAccounted, What: "bytes that the server accounts for", Of: counters.ScopeProcess,
		Bytes: func() (uint64, bool) { return a.BytesMoved(), true },
	}
}

// openSensor returns the sensor, nil when the server's own account, which the dispatcher reads itself, is the best that there is.
func (f *sensorFlags) openSensor(ctx context.Context, m *counters.Machine, a servers.Accountant, in *instruments) (servers.Sensor, error) {
	source, err := f.source(ctx, m, a)
	if source == nil || err != nil {
		return nil, err
	}
	in.closing(source.Close)
	period := time.Duration(f.period)
	if period == 0 {
		if period = longPeriod; runtime.GOMAXPROCS(0) >= spareCores {
			period = shortPeriod
		}
	}
	cached, err := counters.NewCached(counters.CachedConfig{Source: source, Clock: m.Clock, Period: period})
	if err != nil {
		return nil, usageError{fmt.Errorf("--sensor-period: %w", err)}
	}
	in.closing(cached.Close)
	in.thread()
	return &cachedSensor{cached: cached, clock: m.Clock}, nil
}

// source opens what the sensor reads. It is nil where that is the server's own account and nobody asked for a thread: reading it takes neither a
// lock nor a file, so it needs none.
func (f *sensorFlags) source(ctx context.Context, m *counters.Machine, a servers.Accountant) (counters.Source, error) {
	name := f.sensor
	if name == sensorAuto {
		// With an account the probes, which count no bytes, are not come to.
		d, err := counters.Detect(ctx, m, counters.Config{Account: counters.NewAccount(0)})
		if err != nil {
			return nil, err
		}
		if d.Chosen != sensorAccounted {
			return d.Source, nil
		}
		if err := d.Source.Close(); err != nil {
			return nil, err
		}
		name = sensorAccounted
		if a == nil {
			return nil, nil
		}
	}
	if name == sensorAccounted {
		switch {
		case a == nil:
			return nil, usageError{errors.New("--sensor accounted: this kind of server does not account for the bytes that it moves")}
		case f.period == 0:
			return nil, nil
		}
		return accounting(a).Open(m)
	}
	d, err := counters.Detect(ctx, m, counters.Config{Force: name})
	if err != nil {
		return nil, fmt.Errorf("--sensor: %w", err)
	}
	if d.Source.Capability().Kind == counters.Pressure {
		return nil, errors.Join(usageError{fmt.Errorf("--sensor %s: it tells how contended memory is and not how many bytes move, which is what a memory section learns from", name)},
			d.Source.Close())
	}
	return d.Source, nil
}

// cachedSensor gives what a thread of its own keeps fresh, on the server's clock.
type cachedSensor struct {
	cached *counters.Cached
	clock  clock.Clock
	offset atomic.Int64 // from that clock to the server's
	begun  atomic.Bool
}

// MemBytes implements servers.Sensor.
func (s *cachedSensor) MemBytes(now clock.Instant) (total uint64, at clock.Instant) {
	// Found out once: two looks at two clocks are never the same time apart, and one reading must not look like two.
	if !s.begun.Load() {
		s.offset.Store(int64(now.Sub(s.clock.Now())))
		s.begun.Store(true)
	}
	total, at, _, ok := s.cached.Load()
	if !ok {
		return 0, 0
	}
	return total, at.Add(time.Duration(s.offset.Load()))
}

// trace is what a process samples of itself.
type trace struct{ sampler *counters.Sampler }

func startTrace(m *counters.Machine, a servers.Accountant, period time.Duration, in *instruments) (*trace, error) {
	config := counters.SamplerConfig{Machine: m, Period: period, Points: tracePoints}
	if a != nil {
		source, err := accounting(a).Open(m)
		if err != nil {
			return nil, err
		}
		in.closing(source.Close)
		config.Sources = append(config.Sources, source)
	}
	// Of the machine itself the client knows as much; a gauge that is not to be had is a series less.
	for _, open := range []func() (pressure.Gauge, error){
		func() (pressure.Gauge, error) { return pressure.NewProcess(m.Root) },
		func() (pressure.Gauge, error) { return pressure.NewGo(m.Root) },
	} {
		if g, err := open(); err == nil {
			in.closing(g.Close)
			config.Gauges = append(config.Gauges, g)
		}
	}
	s, err := counters.NewSampler(config)
	if err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	in.closing(s.Stop)
	in.thread()
	return &trace{s}, nil
}

const (
	tracePoints = 1 << 20
	rowPoints   = 16   // in one line of `stats trace`
	mostRows    = 1024 // of one answer; who wants more asks again
)

// rows yields the columns, the points from one on, the number of the point after them, and what sampling has cost: `column_0 NAME UNIT`,
// `points_0 AT_NS COLUMN VALUE;…`, `next N`, `cost SAMPLES CPU_NS ELAPSED_NS MISSED`. Instants are those of CLOCK_MONOTONIC.
func (t *trace) rows(from int) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i, c := range t.sampler.Columns() {
			if !yield("column_"+strconv.Itoa(i), c.Name+" "+c.Unit) {
				return
			}
		}
		points := t.sampler.Points(from)
		points = points[:min(len(points), rowPoints*mostRows)]
		next := from + len(points)
		var line []byte
		for i := 0; len(points) > 0; i++ {
			line = line[:0]
			n := min(len(points), rowPoints)
			for _, p := range points[:n] {
				line = strconv.AppendInt(line, int64(p.At), 10)
				line = append(line, ' ')
				line = strconv.AppendUint(line, uint64(p.Column), 10)
				line = append(line, ' ')
				line = strconv.AppendFloat(line, p.Value, 'g', 8, 64)
				line = append(line, ';')
			}
			points = points[n:]
			if !yield("points_"+strconv.Itoa(i), string(line)) {
				return
			}
		}
		c := t.sampler.Cost()
		_ = yield("next", strconv.Itoa(next)) &&
			yield("cost", fmt.Sprintf("%d %d %d %d", c.Samples, c.CPU.Nanoseconds(), c.Elapsed.Nanoseconds(), c.Missed))
	}
}
