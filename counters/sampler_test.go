//go:build linux

package counters

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/counters/pressure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// steady is a source that moves bytes at a rate of 1 GB/s on a fixture's clock, and knows nothing in windows that end when asked not to.
type steady struct {
	f          *fixture
	capability Capability
	last       clock.Instant
	missing    bool
	reads      int
}

func (s *steady) Capability() *Capability { return &s.capability }
func (s *steady) Close() error            { return nil }
func (s *steady) Read(r *Reading) {
	r.begin(s.f.now, s.last)
	s.reads++
	s.last = r.At
	if s.missing {
		r.Flags = Missing
		return
	}
	r.Total = float64(r.Span)
}

// ticking is a gauge that gives how often it was sampled.
type ticking struct {
	period time.Duration
	n      float64
}

func (g *ticking) Columns() []pressure.Column {
	return []Column{{Name: "ticks", Unit: "1"}, {Name: "nothing", Unit: "1"}}
}
func (g *ticking) MinPeriod() time.Duration { return g.period }
func (g *ticking) Close() error             { return nil }
func (g *ticking) Sample(_ clock.Instant, dst []float64) {
	g.n++
	dst[0], dst[1] = g.n, math.NaN()
}

// sampler returns one that is driven by hand, a period at a time.
func sampler(t *testing.T, c SamplerConfig) (*Sampler, func(n int)) {
	t.Helper()
	s, err := NewSampler(c)
	if err != nil {
		t.Fatal(err)
	}
	f := c.Machine.Clock.(*fixture)
	s.prime(f.now)
	return s, func(n int) {
		for range n {
			f.now = f.now.Add(s.config.Period)
			s.sample(f.now, f.now, false)
		}
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fast := &steady{f: f, capability: Capability{Name: "fast", Kind: Counted, MinPeriod: time.Millisecond}}
	slow := &steady{f: f, capability: Capability{Name: "self-probe", Kind: Pressure, MinPeriod: 95 * time.Millisecond}}
	gauge := &ticking{period: 50 * time.Millisecond}
	s, run := sampler(t, SamplerConfig{Machine: f.machine(), Sources: []Source{fast, slow}, Gauges: []pressure.Gauge{gauge}})
	run(100) // a second

	names := map[string]int{}
	for _, p := range s.Points(0) {
		names[s.Columns()[p.Column].Name]++
		if c := s.Columns()[p.Column]; c.Name == "membw" && (math.Abs(p.Value-1e9) > 1 || c.Unit != "bytes_per_s") {
			t.Errorf("%v %s at %v", p.Value, c.Unit, p.At)
		}
	}
	// A tenth and a twentieth of the readings, since these say little in shorter windows; and nothing where nothing is known.
	want := map[string]int{"membw": 100, "self_probe_membw": 10, "ticks": 20}
	for name, n := range want {
		if names[name] != n {
			t.Errorf("%d points of %s, want %d", names[name], name, n)
		}
	}
	if len(names) != len(want) {
		t.Errorf("series %v", names)
	}
	fast.missing = true
	before := len(s.Points(0))
	run(5)
	for _, p := range s.Points(before) {
		if s.Columns()[p.Column].Name == "membw" {
			t.Errorf("a missing value is %v", p.Value)
		}
	}
	// After a gap the window is as long as the gap.
	fast.missing = false
	run(1)
	last := s.Points(0)
	if p := last[len(last)-1]; s.Columns()[p.Column].Name != "membw" && p.Value != 1e9 {
		t.Errorf("%+v", p)
	}
}

func TestBoundOfPoints(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{9, 10, 11} {
		f := newFixture(t)
		src := &steady{f: f, capability: Capability{Name: "fast", Kind: Counted}}
		s, run := sampler(t, SamplerConfig{Machine: f.machine(), Sources: []Source{src}, Points: bound})
		run(10)
		if got, dropped := len(s.Points(0)), s.Cost().Dropped; got != min(bound, 10) || int(dropped) != max(10-bound, 0) {
			t.Errorf("bound %d: %d points, %d dropped", bound, got, dropped)
		}
		if taken := s.Take(); len(taken) != min(bound, 10) || len(s.Points(0)) != 0 {
			t.Errorf("bound %d: %d taken", bound, len(taken))
		}
		run(1)
		if got := len(s.Points(0)); got != 1 {
			t.Errorf("bound %d: %d points after they were taken", bound, got)
		}
		if s.Points(7) != nil || len(s.Points(-1)) != 1 {
			t.Error("from beyond the end, or before the beginning")
		}
	}
}

func TestSamplerConfig(t *testing.T) {
	t.Parallel()
	m := newFixture(t).machine()
	for want, c := range map[string]SamplerConfig{
		"shortest is 1ms": {Machine: m, Period: 999 * time.Microsecond},
		"needs a machine": {},
		"bound of -1":     {Machine: m, Points: -1},
	} {
		if _, err := NewSampler(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if s, err := NewSampler(SamplerConfig{Machine: m}); err != nil || s.config.Period != DefaultPeriod {
		t.Errorf("%v", err)
	}
}

// Sampling allocates nothing: it happens beside what is measured.
func TestSamplingAllocatesNothing(t *testing.T) {
	m := Here()
	a := NewAccount(1 << 20)
	src, err := (Accounted{Account: a}).Open(m)
	if err != nil {
		t.Fatal(err)
	}
	gauges, _ := pressure.Open(m.Root)
	defer func() {
		for _, g := range gauges {
			_ = g.Close()
		}
	}()
	// The process gauge looks for new threads once a second, so its clock is held.
	f := newFixture(t)
	f.now = 1
	machine := f.machine()
	s, err := NewSampler(SamplerConfig{Machine: machine, Sources: []Source{src}, Gauges: gauges})
	if err != nil {
		t.Fatal(err)
	}
	s.prime(1)
	beat := clock.Instant(0)
	sample := func() { beat = beat.Add(time.Second); s.sample(1, beat, false) }
	for range 10 {
		sample()
	}
	if n := testing.AllocsPerRun(100, sample); n != 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

// A sampler that runs keeps its beat, says what it cost, and covers the window to its end.
func TestSamplerRuns(t *testing.T) {
	t.Parallel()
	m := Here()
	a := NewAccount(0)
	src, err := (Accounted{Account: a}).Open(m)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSampler(SamplerConfig{Machine: m, Period: 2 * time.Millisecond, Sources: []Source{src}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	l, r := a.Lane(), touched(a, mb)
	for len(s.Points(0)) < 10 {
		l.Credit(r, UseRead, 1000, 1000)
		m.Wait(context.Background(), time.Millisecond)
	}
	l.Credit(r, UseRead, 1000, 1000)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	points, cost := s.Points(0), s.Cost()
	moved := 0.0
	last := points[0].At
	for _, p := range points[1:] {
		if p.At <= last {
			t.Errorf("%v after %v", p.At, last)
		}
		moved += p.Value * p.At.Sub(last).Seconds()
		last = p.At
	}
	if int(cost.Samples) < len(points) || cost.CPU <= 0 || cost.PerSample() <= 0 || !(cost.Share() > 0 && cost.Share() < 1) || cost.Longest <= 0 {
		t.Errorf("%+v for %d points", cost, len(points))
	}
	if total := float64(a.Totals().Best); moved > total*1.001 || moved < total/2 {
		t.Errorf("the series has %.0f bytes of %.0f", moved, total)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	m := Here()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	moved := uint64(0)
	src, err := (Func{Label: "model", Of: ScopeModel, Bytes: func() (uint64, bool) { moved += 1000; return moved, true }}).Open(m)
	if err != nil {
		t.Fatal(err)
	}
	var names []Column
	shown := 0
	cost, err := Watch(ctx, m, &Instruments{Sources: []Source{src}}, 20*time.Millisecond, func(c []Column) { names = c }, func(r Row) error {
		if len(r.Values) != len(names) {
			t.Errorf("%d values of %d columns", len(r.Values), len(names))
		}
		if r.Values[0] > 0 {
			if shown++; shown == 3 {
				cancel()
			}
		}
		return nil
	})
	if err != nil || cost.Samples < 3 {
		t.Errorf("%v after %d samples", err, cost.Samples)
	}
	broken := errors.New("the pipe is closed")
	if _, err := Watch(context.Background(), m, &Instruments{Sources: []Source{src}}, 5*time.Millisecond, func([]Column) {}, func(Row) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := WriteTrace(&b, []Column{{Name: "membw", Unit: "bytes_per_s"}, {Name: "steal", Unit: "ratio"}}, []Point{
		{At: 1_500_000, Value: 12e9, Flags: Estimated}, {At: 2_000_500, Column: 1, Value: 0.25},
	}, 1_000_000)
	want := "time_us,name,unit,value,flags\n500.0,membw,bytes_per_s,1.2e+10,estimated\n1000.5,steal,ratio,0.25,\n"
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestFlagsInWords(t *testing.T) {
	t.Parallel()
	if got := (Missing | Multiplexed | Overcount).String(); got != "missing+multiplexed+overcount" {
		t.Error(got)
	}
	if Flags(0).String() != "" || len(flagNames) != 10 {
		t.Error("no flags, or too many names")
	}
}
