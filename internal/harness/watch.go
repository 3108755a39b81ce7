//go:build linux

package harness

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/report"
)

// watchInterval is how often a server is looked at while it is under load.
const watchInterval = 100 * time.Millisecond

// watch looks at a server from a goroutine of its own, over a connection of its own: processor time, queueing delay, the meters of
// the controller.
type watch struct {
	server *server
	cores  cores
	clock  clock.Clock
	cancel context.CancelFunc
	wg     sync.WaitGroup
	seen   []observation
}

// cores says which cores a server's core-time is measured on.
type cores struct {
	n        int  // of all replicas
	modelled bool // by the server's own account; otherwise by the kernel's
	replicas int  // over which the figures of the server are added up
}

// observation is what was seen at one instant.
type observation struct {
	at    clock.Instant
	cpu   float64 // seconds of core-time since the server began; negative when unknown
	moved float64 // bytes over the modelled memory bus; negative when unknown
	stats map[string]string
}

func startWatch(ctx context.Context, s *server, c clock.Clock, on cores) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{server: s, cores: on, clock: c, cancel: cancel}
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
		o := w.look(ctx, &asks)
		w.seen = append(w.seen, o)
		select {
		case <-ctx.Done():
			w.lastLook(context.WithoutCancel(ctx), &asks)
			return
		case <-ticker.C:
		}
	}
}

// lastLooks bounds how often a server is asked for figures that cover the window.
const lastLooks = 5

// lastLook observes the server once more, so that the window is covered to its end. A modelled server's figures are of the instant up to
// which its machine has moved, which may be a little earlier than that at which it is asked; asking moves it on.
func (w *watch) lastLook(ctx context.Context, asks *bool) {
	end := w.clock.Now()
	for range lastLooks {
		o := w.look(ctx, asks)
		w.seen = append(w.seen, o)
		if o.at >= end {
			return
		}
	}
}

// look observes the server once.
func (w *watch) look(ctx context.Context, asks *bool) observation {
	o := observation{at: w.clock.Now(), cpu: -1, moved: -1}
	if !w.cores.modelled {
		o.cpu = w.cpuSeconds()
	}
	if *asks {
		ctx, cancel := context.WithTimeout(ctx, statsDeadline)
		defer cancel()
		var err error
		if o.stats, err = serverStats(ctx, w.server.url, "spillway"); err != nil && len(w.seen) == 0 {
			*asks = false
		}
	}
	if w.cores.modelled {
		o.cpu, o.moved = o.number(statBusy)/1e9, o.number(statMoved)
		// The server's figures are of the instant at which it answered, which it says.
		if at := o.number(statNow); at >= 0 {
			o.at = clock.Instant(at / float64(max(w.cores.replicas, 1)))
		}
	}
	return o
}

// number returns a statistic that is a number, negative when it is not known.
func (o *observation) number(name string) float64 {
	v, err := strconv.ParseFloat(o.stats[name], 64)
	if err != nil {
		return math.MinInt32
	}
	return v
}

// cpuSeconds returns the processor time of the servers that we started, negative when it cannot be read.
func (w *watch) cpuSeconds() (sum float64) {
	if len(w.server.processes) == 0 {
		return -1
	}
	for _, p := range w.server.processes {
		proc, err := procfs.NewProc(p.cmd.Process.Pid)
		if err != nil {
			return -1
		}
		stat, err := proc.Stat()
		if err != nil {
			return -1
		}
		sum += stat.CPUTime()
	}
	return sum
}

// within returns the share of its cores that the server used from from to to, and the samples of that time.
func (w *watch) within(from, to clock.Instant) (cpu report.Value, samples []report.Sample) {
	seconds := func(o *observation) float64 { return o.cpu }
	first, ok1 := w.valueAt(from, seconds)
	last, ok2 := w.valueAt(to, seconds)
	if span := to.Sub(from).Seconds(); ok1 && ok2 && span > 0 && w.cores.n > 0 {
		cpu = report.Known(max(last-first, 0) / (span * float64(w.cores.n)))
	}
	for i, o := range w.seen {
		if o.at < from || o.at >= to {
			continue
		}
		at := micros(o.at.Sub(from))
		if i > 0 && o.at > w.seen[i-1].at {
			before := &w.seen[i-1]
			span := o.at.Sub(before.at).Seconds()
			if o.cpu >= 0 && before.cpu >= 0 {
				used := (o.cpu - before.cpu) / (span * float64(max(w.cores.n, 1)))
				samples = append(samples, report.Sample{TimeUS: at, Name: "cpu", Unit: "ratio", Value: report.Known(used)})
			}
			if o.moved >= 0 && before.moved >= 0 {
				rate := (o.moved - before.moved) / span
				samples = append(samples, report.Sample{TimeUS: at, Name: "membw", Unit: "bytes_per_s", Value: report.Known(rate)})
			}
		}
		samples = append(samples, o.samples(at, w.cores.replicas)...)
	}
	return cpu, samples
}

// samples returns what the server said of its queue and its controller. Of several replicas see sharedBy.
func (o *observation) samples(at float64, replicas int) (list []report.Sample) {
	for _, name := range slices.Sorted(maps.Keys(o.stats)) {
		v, err := strconv.ParseFloat(o.stats[name], 64)
		if err != nil {
			continue
		}
		s := report.Sample{TimeUS: at, Value: report.Known(v)}
		switch meter, isMeter := strings.CutPrefix(name, "meter_"); {
		case name == "queue_delay_us":
			s.Name, s.Unit, s.Value = "queue_delay", "us", report.Known(v/float64(max(replicas, 1)))
		case name == "queued" || name == "in_service":
			s.Name, s.Unit = name, "requests"
		case isMeter:
			s.Name, s.Unit, s.Value = meter, unitOf(meter), report.Known(v/sharedBy(meter, replicas))
		default:
			continue
		}
		list = append(list, s)
	}
	return list
}

// sharedBy returns by what the sum of a meter over several replicas is to be divided: numbers of things are added up, and of times and shares
// the mean is taken.
func sharedBy(name string, replicas int) float64 {
	switch unitOf(name) {
	case "us", "ms", "ratio":
		return float64(max(replicas, 1))
	}
	return 1
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

// valueAt returns a value that grows at an instant, interpolated between the observations around it; a negative one is unknown.
func (w *watch) valueAt(at clock.Instant, of func(*observation) float64) (value float64, ok bool) {
	for i := 1; i < len(w.seen); i++ {
		a, b := &w.seen[i-1], &w.seen[i]
		if at < a.at || at > b.at || of(a) < 0 || of(b) < 0 || a.at == b.at {
			continue
		}
		share := float64(at.Sub(a.at)) / float64(b.at.Sub(a.at))
		return of(a) + share*(of(b)-of(a)), true
	}
	return 0, false
}

// tallySamples turns the buckets of a tally into time series: goodput and shed requests per second, of each class.
func tallySamples(t *load.Tally) (list []report.Sample) {
	for i := range t.Classes {
		c := &t.Classes[i]
		for j, b := range c.Buckets {
			start := time.Duration(j) * t.Span
			span := min(t.Span, t.Window()-start).Seconds()
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
