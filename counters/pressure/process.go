//go:build linux

package pressure

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"spillway/clock"
	"spillway/counters/sysfs"
)

// listThreads is how often the process is asked which threads it has.
const listThreads = clock.Instant(time.Second)

// maxThreads bounds the files that are kept open for them.
const maxThreads = 1024

// process sums the schedstat of the process's threads: the process's own file has the main thread alone.
type process struct {
	base
	root    sysfs.Root
	dir     string
	threads []thread
	listed  clock.Instant
	began   bool
}

type thread struct {
	id           int
	file         *file
	cpuNS, waitN float64
}

// NewProcess returns a gauge of this process: cpu_process, the processors that it keeps busy, and run_delay, how many of its threads wait for one.
func NewProcess(root sysfs.Root) (Gauge, error) {
	g := &process{root: root, dir: "/proc/self/task", base: base{
		columns: []Column{{"cpu_process", "cores"}, {"run_delay", "threads"}}, period: tick,
	}}
	g.list()
	g.began = true
	if len(g.threads) == 0 {
		return nil, fmt.Errorf("%s/*/schedstat: none can be read (a kernel with CONFIG_SCHED_INFO)", g.dir)
	}
	return g, nil
}

// list opens the threads that are new and closes those that have ended. What one did after its last sample is lost.
func (g *process) list() {
	var ids []int
	for _, name := range g.root.Names(g.dir) {
		if id, err := strconv.Atoi(name); err == nil {
			ids = append(ids, id)
		}
	}
	g.threads = slices.DeleteFunc(g.threads, func(t thread) bool {
		if slices.Contains(ids, t.id) {
			return false
		}
		_ = t.file.close()
		return true
	})
	for _, id := range ids[:min(len(ids), maxThreads)] {
		if slices.ContainsFunc(g.threads, func(t thread) bool { return t.id == id }) {
			continue
		}
		f, err := open(g.root, fmt.Sprintf("%s/%d/schedstat", g.dir, id), 128)
		if err != nil {
			continue // ended meanwhile
		}
		t := thread{id: id, file: f}
		if !g.began {
			t.cpuNS, t.waitN = schedstat(f.read())
		}
		g.threads = append(g.threads, t)
	}
}

// schedstat reads the ns that a thread ran and waited.
func schedstat(b []byte) (ran, waited float64) {
	return number(nth(b, 0)), number(nth(b, 1))
}

// Sample implements Gauge. Once a second it looks for new threads, which does allocate.
func (g *process) Sample(now clock.Instant, dst []float64) {
	seconds := g.window(now, dst)
	if g.listed == 0 {
		g.listed = now
	}
	if now-g.listed >= listThreads {
		g.list()
		g.listed = now
	}
	cpu, wait := 0.0, 0.0
	for i := range g.threads {
		t := &g.threads[i]
		ran, waited := schedstat(t.file.read())
		// A thread that has ended gives nothing; one whose numbers go back is another with the same id.
		if ran >= t.cpuNS && waited >= t.waitN {
			cpu += ran - t.cpuNS
			wait += waited - t.waitN
			t.cpuNS, t.waitN = ran, waited
		}
	}
	dst[0], dst[1] = cpu/1e9/seconds, wait/1e9/seconds
}

// Close implements Gauge.
func (g *process) Close() error {
	for _, t := range g.threads {
		_ = t.file.close()
	}
	g.threads = nil
	return nil
}
