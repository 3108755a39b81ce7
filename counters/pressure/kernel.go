//go:build linux

package pressure

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"spillway/clock"
	"spillway/counters/sysfs"
)

// tick is how fine most of the kernel's figures are worth reading. /proc/stat counts in hundredths of a second, so a window of a tenth on two
// processors is good to 5 %.
const tick = 100 * time.Millisecond

// cpu reads /proc/stat.
type cpu struct {
	base
	file  *file
	times [8]counter
}

// NewCPU returns a gauge of the machine's processors: cpu, the share of their time that they worked, and steal, the share that a hypervisor gave to
// others although somebody here wanted it.
func NewCPU(root sysfs.Root) (Gauge, error) {
	f, err := open(root, "/proc/stat", 256)
	if err != nil {
		return nil, err
	}
	return &cpu{base: base{columns: []Column{{"cpu_host", "ratio"}, {"steal", "ratio"}}, period: tick}, file: f}, nil
}

// Sample implements Gauge.
func (g *cpu) Sample(now clock.Instant, dst []float64) {
	g.window(now, dst)
	first, _ := line(g.file.read())
	word, rest := field(first)
	if string(word) != "cpu" {
		return
	}
	// user nice system idle iowait irq softirq steal; what guests used is in user and nice already
	total, idle, steal := 0.0, 0.0, 0.0
	for i := range g.times {
		word, rest = field(rest)
		d := g.times[i].advance(number(word))
		if i == 3 || i == 4 { // these two may step back
			if math.IsNaN(d) && g.times[i].known && g.primed {
				d = 0
			}
			idle += d
		}
		if i == 7 {
			steal = d
		}
		total += d
	}
	if total > 0 { // not when one is NaN
		dst[0], dst[1] = max(total-idle-steal, 0)/total, steal/total
	}
}

// Close implements Gauge.
func (g *cpu) Close() error { return g.file.close() }

// runQueues reads /proc/schedstat.
type runQueues struct {
	base
	file *file
	wait counter
}

// NewRunQueues returns a gauge of how many threads of the whole machine wait for a processor: run_delay_host.
func NewRunQueues(root sysfs.Root) (Gauge, error) {
	f, err := open(root, "/proc/schedstat", 1<<20)
	if err != nil {
		return nil, fmt.Errorf("%w (CONFIG_SCHEDSTATS; the process's own run_delay needs less)", err)
	}
	return &runQueues{base: base{columns: []Column{{"run_delay_host", "threads"}}, period: tick}, file: f}, nil
}

// Sample implements Gauge.
func (g *runQueues) Sample(now clock.Instant, dst []float64) {
	seconds := g.window(now, dst)
	dst[0] = g.wait.advance(schedstatWait(g.file.read())) / 1e9 / seconds
}

// Close implements Gauge.
func (g *runQueues) Close() error { return g.file.close() }

// schedstatWait sums the ns that tasks waited, over the lines of processors in /proc/schedstat.
func schedstatWait(b []byte) float64 {
	sum, seen := 0.0, false
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		if len(l) > 3 && string(l[:3]) == "cpu" {
			sum += number(nth(l, 8))
			seen = true
		}
	}
	if !seen {
		return math.NaN()
	}
	return sum
}

// stalls reads /proc/pressure.
type stalls struct {
	base
	files  [3]*file
	totals [3]counter
}

// NewStalls returns a gauge of the share of time in which some task could not go on for want of processor, memory or disk (PSI). Memory means
// reclaim and refaults there, and has nothing to do with bandwidth.
func NewStalls(root sysfs.Root) (Gauge, error) {
	g := &stalls{base: base{period: tick}}
	for i, name := range [...]string{"cpu", "memory", "io"} {
		f, err := open(root, "/proc/pressure/"+name, 256)
		if err != nil {
			_ = g.Close()
			return nil, fmt.Errorf("%w (a kernel with CONFIG_PSI, booted with psi=1)", err)
		}
		g.files[i] = f
		g.columns = append(g.columns, Column{"psi_" + name, "ratio"})
	}
	return g, nil
}

// Sample implements Gauge.
func (g *stalls) Sample(now clock.Instant, dst []float64) {
	seconds := g.window(now, dst)
	for i, f := range g.files {
		dst[i] = g.totals[i].advance(psiTotal(f.read(), "some")) / 1e6 / seconds
	}
}

// Close implements Gauge.
func (g *stalls) Close() error {
	var errs []error
	for _, f := range g.files {
		if f != nil {
			errs = append(errs, f.close())
		}
	}
	return errors.Join(errs...)
}

// throttling reads cpu.stat of the process's control group.
type throttling struct {
	base
	file  *file
	key   string
	scale float64 // seconds of its unit
	total counter
}

// NewThrottling returns a gauge of how long the process's control group was kept off its processors by its quota: throttled, in seconds a second,
// summed over processors.
func NewThrottling(root sysfs.Root) (Gauge, error) {
	groups, err := root.Text("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("/proc/self/cgroup: %w", cause(err))
	}
	mounts, err := root.Text("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("/proc/self/mountinfo: %w", cause(err))
	}
	for _, c := range cgroupStats(groups, mounts) {
		f, err := open(root, c.path, 1024)
		if err != nil {
			continue
		}
		if b := f.read(); !math.IsNaN(keyed(b, c.key)) {
			g := &throttling{base: base{columns: []Column{{"throttled", "ratio"}}, period: tick}, file: f, key: c.key, scale: c.scale}
			return g, nil
		}
		_ = f.close()
	}
	return nil, errors.New("the process's control group counts no throttling (the root group does not, nor one without the cpu controller)")
}

// Sample implements Gauge.
func (g *throttling) Sample(now clock.Instant, dst []float64) {
	seconds := g.window(now, dst)
	dst[0] = g.total.advance(keyed(g.file.read(), g.key)) * g.scale / seconds
}

// Close implements Gauge.
func (g *throttling) Close() error { return g.file.close() }

// cgroupStat is where a control group might count its throttling.
type cgroupStat struct {
	path, key string
	scale     float64
}

// cgroupStats finds where the process's control groups are mounted, of both versions, by its lists of groups and of mounts.
func cgroupStats(groups, mounts string) (list []cgroupStat) {
	for _, line := range strings.Split(groups, "\n") {
		// hierarchy:controllers:path; version 2 has no controllers
		_, rest, ok := strings.Cut(line, ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 {
			continue
		}
		two := controllers == ""
		if !two && !hasWord(controllers, "cpu") {
			continue
		}
		for _, m := range strings.Split(mounts, "\n") {
			// id parent major:minor root mountpoint options… - type source options
			left, right, ok := strings.Cut(m, " - ")
			l, r := strings.Fields(left), strings.Fields(right)
			if !ok || len(l) < 5 || len(r) < 3 {
				continue
			}
			root, at := l[3], l[4]
			below, inside := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
			if !inside { // a container sees a mount of its own group, and a path from outside
				below = ""
			}
			file := strings.TrimSuffix(at+"/"+strings.Trim(below, "/"), "/") + "/cpu.stat"
			switch {
			case two && r[0] == "cgroup2":
				list = append(list, cgroupStat{file, "throttled_usec", 1e-6})
			case !two && r[0] == "cgroup" && hasWord(r[2], "cpu"):
				list = append(list, cgroupStat{file, "throttled_time", 1e-9})
			}
		}
	}
	return list
}

// hasWord reports whether a list with commas has a word.
func hasWord(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }
