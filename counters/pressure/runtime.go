//go:build linux

package pressure

import (
	"math"
	"runtime/metrics"

	"spillway/clock"
	"spillway/counters/sysfs"
)

// The metrics of the Go runtime that are read, in this order.
var goMetrics = [...]string{"/sched/latencies:seconds", "/sched/pauses/total/gc:seconds", "/sched/goroutines/runnable:goroutines", "/gc/cycles/total:gc-cycles"}

// goruntime reads runtime/metrics.
type goruntime struct {
	base
	samples [len(goMetrics)]metrics.Sample
	latency histogram
	pauses  histogram
	cycles  counter
}

// NewGo returns a gauge of this process's Go runtime: go_sched_p99, how long one in a hundred goroutines waited to run at least (the runtime
// samples one in eight, and the kernel's run queue is not in it), go_gc_pause, the longest pause, go_runnable, goroutines that could run now, and
// go_gc_cycles. It reads no file.
func NewGo(sysfs.Root) (Gauge, error) {
	g := &goruntime{base: base{period: tick, columns: []Column{
		{"go_sched_p99", "us"}, {"go_gc_pause", "us"}, {"go_runnable", "goroutines"}, {"go_gc_cycles", "per_s"},
	}}}
	for i, name := range goMetrics {
		g.samples[i].Name = name
	}
	metrics.Read(g.samples[:])
	return g, nil
}

// Sample implements Gauge.
func (g *goruntime) Sample(now clock.Instant, dst []float64) {
	seconds := g.window(now, dst)
	metrics.Read(g.samples[:])
	if s := &g.samples[0].Value; s.Kind() == metrics.KindFloat64Histogram {
		dst[0] = 1e6 * g.latency.advance(s.Float64Histogram(), 0.99)
	}
	if s := &g.samples[1].Value; s.Kind() == metrics.KindFloat64Histogram {
		dst[1] = 1e6 * g.pauses.advance(s.Float64Histogram(), 1)
	}
	if s := &g.samples[2].Value; s.Kind() == metrics.KindUint64 {
		dst[2] = float64(s.Uint64())
	}
	if s := &g.samples[3].Value; s.Kind() == metrics.KindUint64 {
		dst[3] = g.cycles.advance(float64(s.Uint64())) / seconds
	}
}

// Close implements Gauge.
func (g *goruntime) Close() error { return nil }

// histogram keeps the counts of the sample before.
type histogram struct{ counts []uint64 }

// advance returns the lower bound of the bucket that a quantile of the new values is in, NaN if there are none.
func (h *histogram) advance(now *metrics.Float64Histogram, quantile float64) float64 {
	if len(h.counts) != len(now.Counts) {
		h.counts = append([]uint64(nil), now.Counts...)
		return math.NaN()
	}
	total := uint64(0)
	for i, c := range now.Counts {
		total += c - h.counts[i]
	}
	value, seen := math.NaN(), uint64(0)
	rank := uint64(math.Ceil(quantile * float64(total)))
	for i, c := range now.Counts {
		d := c - h.counts[i]
		h.counts[i] = c
		if d > 0 && seen < rank {
			value = max(now.Buckets[i], 0) // the first bucket begins at -Inf
		}
		seen += d
	}
	return value
}
