//go:build linux

package counters

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
)

// Names of the sources that need no hardware.
const (
	selfProbeName = "self-probe"
	latencyName   = "loaded-latency"
)

// What the probes read. A burst of the stream is a MiB in four parts, at ten a second 10 MB/s; one of the chase is 512 lines in four parts.
const (
	bursts        = 4
	burstBytes    = 1 << 20
	burstLoads    = 512
	calibrations  = 15
	probePeriod   = 100 * time.Millisecond
	lineWords     = 8
	saturatedAt   = 2.0 // the loaded latency at full pressure, as a multiple of the quiet one, where nobody has measured it
	minBurstValid = 2
)

// Hysteresis decides between two states by a pressure: on from Enter, off again below Leave.
type Hysteresis struct {
	Enter, Leave float64
	on           bool
}

// Update returns the state after one more pressure. An unknown one, NaN, changes nothing.
func (h *Hysteresis) Update(pressure float64) bool {
	switch {
	case pressure >= h.Enter:
		h.on = true
	case pressure < h.Leave:
		h.on = false
	}
	return h.on
}

// burst measures work in parts on the calling thread, by its processor time, which counts stalls and not being preempted. It returns the median of
// the parts that ran undisturbed; false when too few did.
func burst(work func()) (median time.Duration, ok bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took [bursts]time.Duration
	n := 0
	for range bursts {
		before, began := switches(), threadCPU()
		work()
		cpu := threadCPU() - began
		if switches() == before && cpu > 0 {
			took[n] = cpu
			n++
		}
	}
	if n < minBurstValid {
		return 0, false
	}
	slices.Sort(took[:n])
	return took[n/2], true
}

// switches returns how often the calling thread was taken off its processor.
func switches() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return u.Nvcsw + u.Nivcsw
}

// SelfProbe is a small stream of our own over memory that no cache holds. How many bytes it gets through in a second of processor time, against what
// it got when it was alone, says how contended memory is.
type SelfProbe struct {
	memory *Memory
	stream *Stream
	work   func()
}

// NewSelfProbe returns a probe over so much memory.
func NewSelfProbe(size int64) (*SelfProbe, error) {
	m, err := NewMemory(size)
	if err != nil {
		return nil, err
	}
	p := &SelfProbe{memory: m, stream: NewStream(m)}
	p.work = func() { p.stream.Read(burstBytes / bursts) }
	return p, nil
}

// Burst reads a MiB that is in no cache and returns the bytes per second of processor time; false when it was disturbed.
func (p *SelfProbe) Burst() (bytesPerCPUSecond float64, ok bool) {
	took, ok := burst(p.work)
	if !ok {
		return math.NaN(), false
	}
	return perSecond(burstBytes/bursts, took), true
}

// Close gives the memory back.
func (p *SelfProbe) Close() error { return p.memory.Close() }

// Chase follows a chain of lines in random order, each load waiting for the one before: its time for a load is the latency of memory under
// whatever load there is.
type Chase struct {
	memory *Memory
	at     uint64
	work   func()
}

// NewChase returns a chase through so much memory. The order is random and the same each time.
func NewChase(size int64) (*Chase, error) {
	m, err := NewMemory(size)
	if err != nil {
		return nil, err
	}
	lines := m.Bytes() / (8 * lineWords)
	order := make([]uint32, lines)
	for i := range order {
		order[i] = uint32(i)
	}
	// Sattolo's shuffle leaves one cycle through all lines.
	r := rand.New(rand.NewPCG(1, 2))
	for i := len(order) - 1; i > 0; i-- {
		j := r.IntN(i)
		order[i], order[j] = order[j], order[i]
	}
	for i, next := range order {
		m.words[i*lineWords] = uint64(next) * lineWords
	}
	c := &Chase{memory: m}
	c.work = func() { c.follow(burstLoads / bursts) }
	return c, nil
}

func (c *Chase) follow(loads int) {
	at := c.at
	for range loads {
		at = c.memory.words[at]
	}
	c.at = at
}

// Burst follows the chain where it stopped and returns the ns of processor time for a load; false when it was disturbed.
func (c *Chase) Burst() (nsPerLoad float64, ok bool) {
	took, ok := burst(c.work)
	if !ok {
		return math.NaN(), false
	}
	return float64(took) / (burstLoads / bursts), true
}

// Close gives the memory back.
func (c *Chase) Close() error { return c.memory.Close() }

// probe is the part that both probing sources share.
type probe struct {
	machine    *Machine
	capability Capability
	last       clock.Instant
	quiet      float64 // what a burst gives on a quiet machine, the best that has been seen
	burst      func() (float64, bool)
	pressure   func(now, quiet float64) float64
	better     func(a, b float64) float64
	saturation Hysteresis
	close      func() error
}

// calibrate takes the best of some bursts for that of a quiet machine.
func (p *probe) calibrate() error {
	seen := 0
	for range calibrations {
		if v, ok := p.burst(); ok {
			if seen++; seen == 1 {
				p.quiet = v
			}
			p.quiet = p.better(p.quiet, v)
		}
	}
	p.last = p.machine.Clock.Now()
	if seen == 0 {
		return &Unusable{
			Reason: fmt.Sprintf("each of %d bursts was disturbed", calibrations),
			Remedy: "give the machine a moment without other work, or one more processor",
		}
	}
	return nil
}

// Capability implements Source.
func (p *probe) Capability() *Capability { return &p.capability }

// Close implements Source.
func (p *probe) Close() error { return p.close() }

// Read implements Source.
func (p *probe) Read(r *Reading) {
	r.begin(p.machine.Clock.Now(), p.last)
	p.last = r.At
	r.Flags |= Estimated
	v, ok := p.burst()
	if !ok {
		r.Flags |= Missing
		r.Saturated = p.saturation.on
		return
	}
	p.quiet = p.better(p.quiet, v)
	r.Pressure = min(max(p.pressure(v, p.quiet), 0), 1)
	r.Saturated = p.saturation.Update(r.Pressure)
}

// selfProbeProvider opens a SelfProbe.
type selfProbeProvider struct{}

// Name implements Provider.
func (selfProbeProvider) Name() string { return selfProbeName }

// Measures implements Provider.
func (selfProbeProvider) Measures() string {
	return "how much slower a small stream of our own is than alone: contention, neighbours' included"
}

// Open implements Provider.
func (selfProbeProvider) Open(m *Machine) (Source, error) {
	s, err := NewSelfProbe(StreamSize(m))
	if err != nil {
		return nil, err
	}
	p := selfProbe(m)
	p.burst, p.close = s.Burst, s.Close
	return p.opened()
}

// selfProbe returns the source without what it measures.
func selfProbe(m *Machine) *probe {
	return &probe{
		machine: m, better: func(a, b float64) float64 { return max(a, b) },
		pressure:   func(now, solo float64) float64 { return 1 - now/solo },
		saturation: Hysteresis{Enter: 0.4, Leave: 0.25},
		capability: Capability{
			Name: selfProbeName, Kind: Pressure, Scope: ScopeHost, MinPeriod: probePeriod,
			Notes: []string{"its own processor's frequency shows in it as well", "moves a MiB a reading"},
		},
	}
}

// latencyProvider opens a Chase.
type latencyProvider struct{}

// Name implements Provider.
func (latencyProvider) Name() string { return latencyName }

// Measures implements Provider.
func (latencyProvider) Measures() string {
	return "latency of dependent loads against that of a quiet machine: contention near and beyond saturation"
}

// Open implements Provider.
func (latencyProvider) Open(m *Machine) (Source, error) {
	c, err := NewChase(StreamSize(m))
	if err != nil {
		return nil, err
	}
	p := latencyProbe(m)
	p.burst, p.close = c.Burst, c.Close
	return p.opened()
}

// latencyProbe returns the source without what it measures.
func latencyProbe(m *Machine) *probe {
	return &probe{
		machine: m, better: func(a, b float64) float64 { return min(a, b) },
		pressure:   func(now, quiet float64) float64 { return (now - quiet) / ((saturatedAt - 1) * quiet) },
		saturation: Hysteresis{Enter: 0.5, Leave: 0.25}, // 1.5 and 1.25 times the quiet latency
		capability: Capability{
			Name: latencyName, Kind: Pressure, Scope: ScopeHost, MinPeriod: probePeriod,
			Notes: []string{"pressure 1 is assumed at twice the quiet latency", "bandwidth below the knee hardly shows"},
		},
	}
}

// opened calibrates a probe, and closes it where that fails.
func (p *probe) opened() (Source, error) {
	if err := p.calibrate(); err != nil {
		_ = p.close()
		return nil, err
	}
	return p, nil
}
