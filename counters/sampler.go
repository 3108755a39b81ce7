//go:build linux

package counters

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/clock"
	"spillway/counters/pressure"
	"spillway/internal/poll"
)

// Periods of a Sampler.
const (
	DefaultPeriod = 10 * time.Millisecond
	MinPeriod     = time.Millisecond
)

// defaultPoints bounds a series where nobody says otherwise: about 20 min of a dozen values at ten a second and two at a hundred, in 48 MB.
const defaultPoints = 1 << 20

// Point is one value of a series. There are no points for what was not known.
type Point struct {
	At     clock.Instant
	Value  float64
	Column uint16 // index into Columns
	Flags  Flags
}

// Column names the values of a series.
type Column = pressure.Column

// SamplerConfig says what to sample.
type SamplerConfig struct {
	Machine *Machine
	Period  time.Duration // 0: DefaultPeriod; at least MinPeriod
	Points  int           // the most that are kept; 0: a million
	Sources []Source      // memory traffic; the columns of the first are membw…, those of others begin with their name
	Gauges  []pressure.Gauge
}

// Sampler reads sources and gauges on one thread of its own and keeps what they give as series of points. Those that say little in short windows, or
// cost much, are read less often than the rest.
type Sampler struct {
	config  SamplerConfig
	columns []Column
	tracks  []track
	poller  *poll.Poller
	done    chan struct{}
	stopped atomic.Bool

	// mu guards what the sampling thread writes and others read.
	mu struct {
		sync.Mutex
		points []Point
		cost   Cost
	}
}

// Cost is what sampling itself took.
type Cost struct {
	Samples uint64        // times that the sampler was awake
	Missed  uint64        // periods that it slept through
	Dropped uint64        // points beyond the bound
	CPU     time.Duration // processor time of its thread
	Longest time.Duration // of one sample
	Elapsed time.Duration
}

// Share returns the part of one core that sampling took.
func (c Cost) Share() float64 {
	if c.Elapsed <= 0 {
		return 0
	}
	return c.CPU.Seconds() / c.Elapsed.Seconds()
}

// PerSample returns the processor time of one sample.
func (c Cost) PerSample() time.Duration {
	if c.Samples == 0 {
		return 0
	}
	return c.CPU / time.Duration(c.Samples)
}

// track is one source or gauge, and when it is due.
type track struct {
	source  Source
	gauge   pressure.Gauge
	period  time.Duration
	due     clock.Instant
	column  uint16 // the first of its columns
	values  []float64
	reading Reading
}

// The values of a source, in the order of its columns.
var sourceColumns = [...]Column{
	{Name: "membw", Unit: "bytes_per_s"},
	{Name: "membw_read", Unit: "bytes_per_s"},
	{Name: "membw_write", Unit: "bytes_per_s"},
	{Name: "mem_pressure", Unit: "ratio"},
	{Name: "mem_saturated", Unit: "bool"},
}

// NewSampler returns a sampler that has not begun. The sources and gauges stay the caller's, who closes them after Stop.
func NewSampler(c SamplerConfig) (*Sampler, error) {
	if c.Period == 0 {
		c.Period = DefaultPeriod
	}
	if c.Points == 0 {
		c.Points = defaultPoints
	}
	switch {
	case c.Period < MinPeriod:
		return nil, fmt.Errorf("a period of %v; the shortest is %v", c.Period, MinPeriod)
	case c.Points < 0:
		return nil, fmt.Errorf("a bound of %d points", c.Points)
	case c.Machine == nil:
		return nil, errors.New("counters: a sampler needs a machine")
	}
	s := &Sampler{config: c, done: make(chan struct{})}
	for i, src := range c.Sources {
		prefix := ""
		if i > 0 {
			prefix = strings.ReplaceAll(src.Capability().Name, "-", "_") + "_"
		}
		t := track{source: src, period: src.Capability().MinPeriod, column: uint16(len(s.columns))}
		for _, col := range sourceColumns {
			s.columns = append(s.columns, Column{Name: prefix + col.Name, Unit: col.Unit})
		}
		// Memory saturates by the socket, so on several the total is not the whole story.
		if sockets := src.Capability().Sockets; len(sockets) > 1 {
			for _, id := range sockets {
				s.columns = append(s.columns, Column{Name: prefix + "membw_socket" + strconv.Itoa(id), Unit: "bytes_per_s"})
			}
		}
		t.values = make([]float64, len(s.columns)-int(t.column))
		s.tracks = append(s.tracks, t)
	}
	for _, g := range c.Gauges {
		s.tracks = append(s.tracks, track{gauge: g, period: g.MinPeriod(), column: uint16(len(s.columns)), values: make([]float64, len(g.Columns()))})
		s.columns = append(s.columns, g.Columns()...)
	}
	for i := range s.tracks {
		t := &s.tracks[i]
		// A whole number of the sampler's periods, so that everything is read on one beat.
		t.period = (max(t.period, c.Period) + c.Period - 1) / c.Period * c.Period
	}
	s.mu.points = make([]Point, 0, min(c.Points, 1<<16))
	return s, nil
}

// Columns returns the names and units of the series.
func (s *Sampler) Columns() []Column { return s.columns }

// Start begins to sample. The first windows end one period later.
func (s *Sampler) Start() error {
	p, err := poll.New()
	if err != nil {
		return err
	}
	s.poller = p
	go s.run()
	return nil
}

// Stop ends a sampler that was started, after one more sample, so that the window is covered to its end.
func (s *Sampler) Stop() error {
	s.stopped.Store(true)
	err := s.poller.Wake()
	<-s.done
	return errors.Join(err, s.poller.Close())
}

// run is the sampling thread.
func (s *Sampler) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	clk := s.config.Machine.Clock
	began, cpu := clk.Now(), threadCPU()
	s.prime(began)
	for next := began; ; {
		now := clk.Now()
		next = next.Add(s.config.Period)
		if late := now.Sub(next); late > 0 { // keep the beat and leave out what was slept through
			missed := (late + s.config.Period - 1) / s.config.Period
			next = next.Add(missed * s.config.Period)
			s.miss(uint64(missed))
		}
		// A Wait that a signal or the kernel's rounding ends early is begun again.
		for rest := next.Sub(now); rest > 0 && !s.stopped.Load(); rest = next.Sub(clk.Now()) {
			if _, _, err := s.poller.Wait(nil, rest); err != nil {
				return
			}
		}
		// Once it has been stopped, everything is read for the last time, whatever is due.
		last := s.stopped.Load()
		now = clk.Now()
		s.sample(now, next, last)
		s.account(clk.Now().Sub(now), threadCPU()-cpu, clk.Now().Sub(began))
		if last {
			return
		}
	}
}

func (s *Sampler) miss(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.cost.Missed += n
}

func (s *Sampler) account(took, cpu, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.mu.cost
	c.Samples++
	c.CPU, c.Elapsed, c.Longest = cpu, elapsed, max(c.Longest, took)
}

// prime begins all windows at an instant.
func (s *Sampler) prime(now clock.Instant) {
	for i := range s.tracks {
		t := &s.tracks[i]
		t.due = now.Add(t.period)
		if t.source != nil {
			t.source.Read(&t.reading)
		} else {
			t.gauge.Sample(now, t.values)
		}
	}
}

// sample reads what is due on a beat, or all of it. It allocates nothing until the series outgrow their memory.
func (s *Sampler) sample(now, beat clock.Instant, all bool) {
	for i := range s.tracks {
		t := &s.tracks[i]
		if beat < t.due && !all {
			continue
		}
		t.due = beat.Add(t.period)
		flags, at := Flags(0), now
		if t.source != nil {
			t.source.Read(&t.reading)
			flags, at = t.reading.Flags, t.reading.At
			t.fill()
		} else {
			t.gauge.Sample(now, t.values)
		}
		s.keep(t, at, flags)
	}
}

// fill turns a reading into values.
func (t *track) fill() {
	r := &t.reading
	v := t.values
	v[0], v[1], v[2], v[3], v[4] = r.Rate(), perSecond(r.Read, r.Span), perSecond(r.Write, r.Span), r.Pressure, math.NaN()
	if !math.IsNaN(r.Pressure) && t.source.Capability().Kind == Pressure {
		v[4] = 0
		if r.Saturated {
			v[4] = 1
		}
	}
	for i := range v[len(sourceColumns):] {
		v[len(sourceColumns)+i] = math.NaN()
		if i < len(r.Sockets) {
			v[len(sourceColumns)+i] = perSecond(r.Sockets[i], r.Span)
		}
	}
}

// keep appends what is known.
func (s *Sampler) keep(t *track, at clock.Instant, flags Flags) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, v := range t.values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if len(s.mu.points) == s.config.Points {
			s.mu.cost.Dropped++
			continue
		}
		s.mu.points = append(s.mu.points, Point{At: at, Value: v, Column: t.column + uint16(i), Flags: flags})
	}
}

// Points returns a copy of the points from the n-th on. It may be called while the sampler runs; who goes on from there asks for n + len.
func (s *Sampler) Points(n int) []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(max(n, 0), len(s.mu.points))
	return append([]Point(nil), s.mu.points[n:]...)
}

// Take returns the points so far and forgets them, for one who watches without end.
func (s *Sampler) Take() []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := append([]Point(nil), s.mu.points...)
	s.mu.points = s.mu.points[:0]
	return taken
}

// Cost returns what sampling has taken so far.
func (s *Sampler) Cost() Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.cost
}
