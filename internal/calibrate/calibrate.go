//go:build linux

package calibrate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spillway/counters"
	"spillway/internal/drive"
	"spillway/internal/kernels"
	"spillway/internal/load"
	"spillway/internal/target"
)

// Config says how thoroughly to measure.
type Config struct {
	// Quick takes a few seconds instead of half a minute, with fewer windows.
	Quick bool
	// Streams are the numbers of streams to try; nil for 1, 2, 4 and so on up to the number of processors, that included.
	Streams []int
	// Progress is told what is being measured, from the goroutine of Run; may be nil.
	Progress func(what string)
	// Machine and Around are what is looked at; nil for this machine.
	Machine *counters.Machine
	Around  *Surroundings

	region int64 // of a stream; 0 for what the machine's caches ask for. For tests
}

// Result is what was measured. What was not has a nil, or no entry.
type Result struct {
	Host       Host      `json:"host"`
	Took       float64   `json:"took_s"`
	Rates      []Rate    `json:"memory"`
	Knee       *Knee     `json:"knee,omitempty"`
	Latencies  []Latency `json:"loaded_latency,omitempty"`
	Compute    *Compute  `json:"compute,omitempty"`
	Line       *Duration `json:"cache_line_hand_over,omitempty"`
	Lock       *Duration `json:"lock_hand_over,omitempty"`
	Loopback   *Duration `json:"loopback_round_trip,omitempty"`
	Pacing     []Pacing  `json:"pacing,omitempty"`
	Noise      Noise     `json:"noise"`
	Notes      []string  `json:"notes,omitempty"`
	Unfinished bool      `json:"unfinished,omitempty"` // it was interrupted
}

// Host is the machine, without its name.
type Host struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"` // that this process may use
	RAM        int64  `json:"ram_bytes"`
	LLC        int64  `json:"last_level_cache_bytes,omitempty"`
	Hypervisor bool   `json:"hypervisor"`
	Region     int64  `json:"stream_bytes"` // that each stream goes over
}

// Pacing is how late requests leave.
type Pacing struct {
	Pace string        `json:"pace"`
	Rate float64       `json:"rate_per_s"`
	P50  time.Duration `json:"lag_p50_ns"`
	P99  time.Duration `json:"lag_p99_ns"`
	Max  time.Duration `json:"lag_max_ns"`
}

// stage is one measurement.
type stage struct {
	what string
	run  func(ctx context.Context, r *Result) error
}

// Run measures everything. When ctx ends, what was measured until then is returned, marked as unfinished, with the error of ctx.
func Run(ctx context.Context, c Config) (*Result, error) {
	if c.Machine == nil {
		c.Machine = counters.Here()
	}
	if c.Around == nil {
		here := Here()
		c.Around = &here
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	cpus, err := allowed()
	if err != nil {
		return nil, err
	}
	if err := c.check(len(cpus)); err != nil {
		return nil, err
	}
	b := newBench(&c, cpus)
	r := &Result{Host: describe(c.Machine, cpus)}
	r.Host.Region = b.size
	began := c.Machine.Clock.Now()
	watch := newWatchman(*c.Around)
	stages := c.stages(b)
	for i, s := range stages {
		c.Progress(fmt.Sprintf("%d of %d: %s", i+1, len(stages), s.what))
		if err = s.run(ctx, r); err != nil {
			r.Unfinished = ctx.Err() != nil
			break
		}
		watch.look()
	}
	r.Took = c.Machine.Clock.Now().Sub(began).Seconds()
	r.conclude(b, watch)
	return r, err
}

// ErrStreams says that so many streams cannot be tried here.
var ErrStreams = errors.New("streams are not possible")

func (c *Config) check(cpus int) error {
	for _, n := range c.Streams {
		if n < 1 || n > cpus {
			return fmt.Errorf("%d %w: this process may use %d processors, and each stream needs one", n, ErrStreams, cpus)
		}
	}
	return nil
}

// conclude says what follows from the measurements.
func (r *Result) conclude(b *bench, watch *watchman) {
	spread := 0.0
	var reads []Rate
	for _, rate := range r.Rates {
		spread = max(spread, rate.Spread)
		if rate.Kernel == kernels.Read.Name {
			reads = append(reads, rate)
		}
	}
	r.Noise = watch.noise(spread)
	if k := FindKnee(reads); k.PerStream > 0 {
		r.Knee = &k
	}
	if _, small := regionBytes(b.machine, len(b.cpus)); small {
		r.Notes = append(r.Notes, "there was too little free memory to go over more than caches hold: rates may be too high")
	}
	if procs := runtime.GOMAXPROCS(0); procs < len(b.cpus) {
		r.Notes = append(r.Notes, fmt.Sprintf("this process is limited to %d processors at a time, of the %d that it may run on", procs, len(b.cpus)))
	}
}

func newBench(c *Config, cpus []int) *bench {
	b := &bench{machine: c.Machine, cpus: cpus, settle: 20 * time.Millisecond, window: 40 * time.Millisecond, windows: 15}
	if c.Quick {
		b.window, b.windows = 20*time.Millisecond, 5
	}
	if b.size = c.region; b.size == 0 {
		b.size, _ = regionBytes(c.Machine, len(cpus))
	}
	return b
}

// stages lists what is measured, what a machine file needs most first.
func (c *Config) stages(b *bench) []stage {
	span := time.Second
	if c.Quick {
		span = 150 * time.Millisecond
	}
	clk := c.Machine.Clock
	var list []stage
	numbers := c.numbers(len(b.cpus))
	for _, n := range numbers {
		list = append(list, b.stageOf(&kernels.Read, n))
	}
	for _, k := range []*kernels.Kernel{&kernels.Write, &kernels.Copy, &kernels.Store} {
		for _, n := range slices.Compact([]int{1, numbers[len(numbers)-1]}) {
			list = append(list, b.stageOf(k, n))
		}
	}
	return append(list,
		stage{"latency of memory under load", func(ctx context.Context, r *Result) (err error) {
			r.Latencies, err = b.latencies(ctx, span/2)
			return err
		}},
		stage{"computing", func(_ context.Context, r *Result) error {
			c := compute(clk)
			r.Compute = &c
			return nil
		}},
		stage{"handing over a cache line and a lock", func(ctx context.Context, r *Result) (err error) {
			if r.Line, err = lineHandOver(ctx, clk, b.cpus, span/4); err != nil {
				return err
			}
			r.Lock, err = lockHandOver(ctx, clk, span/4)
			return err
		}},
		stage{"a round trip over the loopback device", func(ctx context.Context, r *Result) (err error) {
			r.Loopback, err = loopback(ctx, clk, b.cpus, span/2)
			return err
		}},
		stage{"pacing", func(ctx context.Context, r *Result) (err error) {
			r.Pacing, err = pacing(ctx, span/2)
			return err
		}},
	)
}

func (b *bench) stageOf(k *kernels.Kernel, n int) stage {
	what := fmt.Sprintf("%s, %d streams", k.Name, n)
	if n == 1 {
		what = k.Name + ", one stream"
	}
	return stage{what, func(ctx context.Context, r *Result) error {
		rate, err := b.run(ctx, k, n)
		if err == nil {
			r.Rates = append(r.Rates, rate)
		}
		return err
	}}
}

// numbers returns how many streams to try, in ascending order. One is always among them: without it there is no knee to be seen.
func (c *Config) numbers(cpus int) []int {
	list := slices.Clone(c.Streams)
	if len(list) == 0 {
		for n := 1; n < cpus; n *= 2 {
			list = append(list, n)
			if n >= 4 && n+n/2 < cpus { // the knee is somewhere here, so look more closely
				list = append(list, n+n/2)
			}
		}
		list = append(list, cpus)
	}
	list = append(list, 1)
	slices.Sort(list)
	return slices.Compact(list)
}

func describe(m *counters.Machine, cpus []int) Host {
	cpu := m.Root.CPU()
	h := Host{CPU: cpu.Name, Cores: len(cpus), Hypervisor: cpu.Hypervisor}
	if llc, ok := m.Root.LLC(); ok {
		h.LLC = llc.Bytes
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		h.RAM = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	return h
}

// pacingRate is fast enough to keep a sender busy, and slow enough to let it sleep.
const pacingRate = 5000

func pacing(ctx context.Context, span time.Duration) (list []Pacing, err error) {
	for _, pace := range []drive.Pace{drive.PaceSleep, drive.PaceSpin} {
		p, err := drive.SelfTest(ctx, pace, pacingRate, span, func(_ context.Context, o drive.Opening) (load.Target, error) {
			return target.NewSink(o.Clock, o.Settle, o.Spin)
		})
		if err != nil {
			return list, err
		}
		list = append(list, Pacing{Pace: string(p.Pace), Rate: p.Rate, P50: p.P50, P99: p.P99, Max: p.Max})
	}
	return list, ctx.Err()
}
