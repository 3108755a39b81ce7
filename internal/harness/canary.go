//go:build linux

package harness

import (
	"runtime"
	"slices"
	"time"

	metering "spillway/counters"
	"spillway/internal/kernels"
	"spillway/report"
)

// A canary is work that never changes, done on this computer before and after every point while no server runs. If it takes longer than it did when
// another result was obtained, then the computer is slower (a neighbour, heat, another frequency), and the difference of the two results is not one of servers.
const (
	canarySlices = 5               // of which the median counts: one that was interrupted says nothing
	canarySpins  = 1_500_000       // of a slice: some 2 ms
	canarySlice  = 32 << 20        // bytes of a slice: one or two ms where memory is fast
	canaryMemory = 3 * canarySlice // more than most caches hold, so that a slice has left them by its next turn
)

// canary is the memory that its stream reads. It is made once for a run.
type canary struct {
	memory *metering.Memory
	stream *metering.Stream
	spun   uint64 // keeps the compiler from leaving the work out
}

func newCanary() (*canary, error) {
	m, err := metering.NewMemory(canaryMemory)
	if err != nil {
		return nil, err
	}
	return &canary{memory: m, stream: metering.NewStream(m)}, nil
}

func (c *canary) close() error {
	if c == nil {
		return nil
	}
	return c.memory.Close()
}

// sing times the fixed work on this computer; nil where a modelled one is measured.
func (h *host) sing() *report.CanaryTimes {
	if !h.samples() {
		return nil
	}
	return h.config.tracing.canary.sing()
}

// sing does the work and returns how long it took; nil without a canary.
func (c *canary) sing() *report.CanaryTimes {
	if c == nil {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return &report.CanaryTimes{
		ComputeUS: micros(medianOf(func() { c.spun += kernels.Spin(canarySpins) })),
		StreamUS:  micros(medianOf(func() { c.stream.Read(canarySlice) })),
	}
}

// medianOf returns how long the middle one of several turns of work takes.
func medianOf(work func()) time.Duration {
	var took [canarySlices]time.Duration
	for i := range took {
		began := time.Now()
		work()
		took[i] = time.Since(began)
	}
	slices.Sort(took[:])
	return took[len(took)/2]
}
