//go:build linux

package harness

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/target"
	"spillway/report"
)

// watchInterval is how often a server is looked at while it is under load.
const watchInterval = 100 * time.Millisecond

// watch looks at a server from a goroutine of its own, over a connection of its own: processor time, queueing delay, the meters of
// the controller.
type watch struct {
	server *server
	clock  clock.Clock
	cancel context.CancelFunc
	wg     sync.WaitGroup
	seen   []observation
}

// observation is what was seen at one instant.
type observation struct {
	at    clock.Instant
	cpu   float64 // seconds of processor time since the server began; negative when unknown
	stats map[string]string
}

func startWatch(ctx context.Context, s *server, c clock.Clock) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{server: s, clock: c, cancel: cancel}
	w.wg.Go(func() { w.run(ctx) })
	return w
}

// stop ends the watch. What was seen may be read afterwards.
func (w *watch) stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	asks := true // until the server turns out not to know `stats spillway`, as plain memcached does not
	for {
		o := observation{at: w.clock.Now(), cpu: w.cpuSeconds()}
		if asks {
			var err error
			if o.stats, err = target.Stats(ctx, w.server.url, "spillway"); err != nil && len(w.seen) == 0 {
				asks = false
			}
		}
		w.seen = append(w.seen, o)
		select {
		case <-ctx.Done():
			// A last look, so that the window is covered to its end.
			w.seen = append(w.seen, observation{at: w.clock.Now(), cpu: w.cpuSeconds()})
			return
		case <-ticker.C:
		}
	}
}

// cpuSeconds returns the processor time of a server that we started, negative when it cannot be read.
func (w *watch) cpuSeconds() float64 {
	if w.server.process == nil {
		return -1
	}
	proc, err := procfs.NewProc(w.server.process.cmd.Process.Pid)
	if err != nil {
		return -1
	}
	stat, err := proc.Stat()
	if err != nil {
		return -1
	}
	return stat.CPUTime()
}

// within returns the share of procs cores that the server used from from to to, and the samples of that time.
func (w *watch) within(from, to clock.Instant, procs int) (cpu report.Value, samples []report.Sample) {
	first, ok1 := w.cpuAt(from)
	last, ok2 := w.cpuAt(to)
	if seconds := to.Sub(from).Seconds(); ok1 && ok2 && seconds > 0 && procs > 0 {
		cpu = report.Known(max(last-first, 0) / (seconds * float64(procs)))
	}
	for i, o := range w.seen {
		if o.at < from || o.at >= to {
			continue
		}
		at := micros(o.at.Sub(from))
		if i > 0 && o.cpu >= 0 && w.seen[i-1].cpu >= 0 && o.at > w.seen[i-1].at {
			used := (o.cpu - w.seen[i-1].cpu) / (o.at.Sub(w.seen[i-1].at).Seconds() * float64(max(procs, 1)))
			samples = append(samples, report.Sample{TimeUS: at, Name: "cpu", Unit: "ratio", Value: report.Known(used)})
		}
		samples = append(samples, o.samples(at)...)
	}
	return cpu, samples
}

// samples returns what the server said of its queue and its controller.
func (o *observation) samples(at float64) (list []report.Sample) {
	for _, name := range slices.Sorted(maps.Keys(o.stats)) {
		v, err := strconv.ParseFloat(o.stats[name], 64)
		if err != nil {
			continue
		}
		s := report.Sample{TimeUS: at, Value: report.Known(v)}
		switch meter, isMeter := strings.CutPrefix(name, "meter_"); {
		case name == "queue_delay_us":
			s.Name, s.Unit = "queue_delay", "us"
		case name == "queued" || name == "in_service":
			s.Name, s.Unit = name, "requests"
		case isMeter:
			s.Name, s.Unit = meter, unitOf(meter)
		default:
			continue
		}
		list = append(list, s)
	}
	return list
}

// unitOf returns the unit that the name of a meter ends with, as our names do.
func unitOf(name string) string {
	for _, unit := range []string{"us", "ms", "ratio", "bytes", "rps"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return ""
}

// cpuAt returns the processor time at an instant, interpolated between the observations around it.
func (w *watch) cpuAt(at clock.Instant) (seconds float64, ok bool) {
	for i := 1; i < len(w.seen); i++ {
		a, b := &w.seen[i-1], &w.seen[i]
		if at < a.at || at > b.at || a.cpu < 0 || b.cpu < 0 || a.at == b.at {
			continue
		}
		share := float64(at.Sub(a.at)) / float64(b.at.Sub(a.at))
		return a.cpu + share*(b.cpu-a.cpu), true
	}
	return 0, false
}

// tallySamples turns the buckets of a tally into time series: goodput and shed requests per second, of each class.
func tallySamples(t *load.Tally) (list []report.Sample) {
	for i := range t.Classes {
		c := &t.Classes[i]
		for j, b := range c.Buckets {
			start := time.Duration(j) * load.BucketSpan
			span := min(load.BucketSpan, t.Window()-start).Seconds()
			if span <= 0 {
				continue
			}
			at := micros(start)
			list = append(list,
				report.Sample{Class: c.Name, TimeUS: at, Name: "goodput", Unit: "rps", Value: report.Known(float64(b.OK) / span)},
				report.Sample{Class: c.Name, TimeUS: at, Name: "shed", Unit: "rps", Value: report.Known(float64(b.Shed) / span)})
		}
	}
	return list
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
