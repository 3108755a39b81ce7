//go:build linux

package pressure

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/counters/sysfs"
)

// tree is a machine made of files.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree { return tree{t, t.TempDir()} }

func (m tree) root() sysfs.Root { return sysfs.Root(m.dir) }

func (m tree) file(path, text string) {
	m.t.Helper()
	p := filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// gauge opens one that the machine must have.
func (m tree) gauge(open func(sysfs.Root) (Gauge, error)) func(seconds float64) []float64 {
	m.t.Helper()
	g, err := open(m.root())
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = g.Close() })
	now := clock.Instant(0)
	return func(seconds float64) []float64 {
		now = now.Add(time.Duration(seconds * 1e9))
		dst := make([]float64, len(g.Columns()))
		g.Sample(now, dst)
		return dst
	}
}

// same compares values of which some may be missing.
func same(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	equal := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) })
	if d := cmp.Diff(want, got, equal); d != "" {
		t.Errorf("%s (-want +got)\n%s", what, d)
	}
}

var nan = math.NaN()

func TestCPU(t *testing.T) {
	t.Parallel()
	m := newTree(t)
	stat := func(user, idle, iowait, steal int) {
		m.file("/proc/stat", fmt.Sprintf("cpu  %d 10 20 %d %d 5 5 %d 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n", user, idle, iowait, steal))
	}
	stat(100, 1000, 50, 10)
	sample := m.gauge(NewCPU)
	same(t, "the first sample knows nothing", sample(1), nan, nan)
	stat(140, 1040, 60, 20)
	same(t, "half of the time idle, a tenth stolen", sample(1), 0.4, 0.1)
	stat(190, 1100, 30, 20) // iowait may step back
	same(t, "iowait stepped back", sample(1), 50.0/110, 0)
	same(t, "no time has passed", sample(1), nan, nan)
	m.file("/proc/stat", "intr 1 2 3\n")
	same(t, "no such line", sample(1), nan, nan)
}

func TestProcess(t *testing.T) {
	t.Parallel()
	m := newTree(t)
	thread := func(id int, text string) { m.file(fmt.Sprintf("/proc/self/task/%d/schedstat", id), text) }
	thread(10, "1000000000 500000000 7\n")
	thread(11, "0 0 0\n")
	sample := m.gauge(NewProcess)
	sample(0.5)
	thread(10, "1250000000 600000000 9\n")
	thread(11, "250000000 150000000 2\n")
	same(t, "two threads", sample(0.5), 1, 0.5)
	// A thread that ends takes nothing back.
	if err := os.RemoveAll(filepath.Join(m.dir, "/proc/self/task/11")); err != nil {
		t.Fatal(err)
	}
	thread(11, "") // until the next listing its file is there and empty
	thread(10, "1500000000 600000000 9\n")
	same(t, "one of them has ended", sample(0.5), 0.5, 0)
	// New threads are found once a second, and everything that they did counts.
	if err := os.RemoveAll(filepath.Join(m.dir, "/proc/self/task/11")); err != nil {
		t.Fatal(err)
	}
	thread(12, "300000000 0 1\n")
	same(t, "a new one, not found yet", sample(0.5), 0, 0)
	same(t, "a new one", sample(0.5), 0.6, 0)
	thread(10, "1 1 1\n")
	same(t, "numbers that go back are another thread's", sample(0.5), 0, 0)
}

func TestRunQueues(t *testing.T) {
	t.Parallel()
	m := newTree(t)
	stat := func(a, b int) {
		m.file("/proc/schedstat", fmt.Sprintf("version 15\ntimestamp 4295\ncpu0 0 0 0 0 0 0 900 %d 7\ndomain0 3 1 1\ncpu1 0 0 0 0 0 0 900 %d 7\n", a, b))
	}
	stat(1000, 1000)
	sample := m.gauge(NewRunQueues)
	sample(1)
	stat(1_000_001_000, 500_001_000)
	same(t, "a thread and a half wait", sample(1), 1.5)
}

func TestStalls(t *testing.T) {
	t.Parallel()
	m := newTree(t)
	psi := func(name string, total int) {
		m.file("/proc/pressure/"+name, fmt.Sprintf("some avg10=1.00 avg60=0.50 avg300=0.10 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n", total))
	}
	psi("cpu", 0)
	psi("memory", 0)
	psi("io", 0)
	sample := m.gauge(NewStalls)
	sample(1)
	psi("cpu", 500_000)
	psi("io", 250_000)
	same(t, "half, none, a quarter", sample(1), 0.5, 0, 0.25)
	m.file("/proc/pressure/io", "full avg10=0.00 total=9\n")
	same(t, "a line is gone", sample(1), 0, 0, nan)
}

func TestThrottling(t *testing.T) {
	t.Parallel()
	const v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	const v2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
	tests := []struct {
		name, groups, mounts, file string
		text                       string // with %d for the throttled time
		second                     int    // of it, in its unit
	}{
		{
			"version 2", "0::/user/app\n", v2, "/sys/fs/cgroup/user/app/cpu.stat",
			"usage_usec 5\nnr_throttled 1\nthrottled_usec %d\n", 1e6,
		},
		{
			"version 1", "3:cpuset:/\n1:cpu:/app\n", v1, "/sys/fs/cgroup/cpu/app/cpu.stat",
			"nr_periods 1\nnr_throttled 0\nthrottled_time %d\n", 1e9,
		},
		{
			"both, and version 2 is the root, which counts none", "1:cpu:/\n0::/\n",
			v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/cpu/cpu.stat",
			"throttled_time %d\n", 1e9,
		},
		{
			"a container, which sees a mount of its own group", "0::/docker/abc\n", "41 31 0:38 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"/sys/fs/cgroup/cpu.stat", "throttled_usec %d\n", 1e6,
		},
		{
			"a mount of part of the tree", "0::/docker/abc/app\n", "41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"/sys/fs/cgroup/app/cpu.stat", "throttled_usec %d\n", 1e6,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newTree(t)
			m.file("/proc/self/cgroup", tt.groups)
			m.file("/proc/self/mountinfo", tt.mounts)
			m.file("/sys/fs/cgroup/unified/cpu.stat", "usage_usec 5\n")
			m.file(tt.file, fmt.Sprintf(tt.text, 7))
			sample := m.gauge(NewThrottling)
			sample(1)
			m.file(tt.file, fmt.Sprintf(tt.text, 7+tt.second/4))
			same(t, "a quarter of the time", sample(1), 0.25)
		})
	}
	m := newTree(t)
	m.file("/proc/self/cgroup", "0::/\n")
	m.file("/proc/self/mountinfo", v2)
	m.file("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n")
	if _, err := NewThrottling(m.root()); err == nil || !strings.Contains(err.Error(), "counts no throttling") {
		t.Errorf("the root group: %v", err)
	}
}

func TestPower(t *testing.T) {
	t.Parallel()
	m := newTree(t)
	zone := func(name, label string, uj, most int) {
		m.file(powercap+"/"+name+"/name", label+"\n")
		m.file(powercap+"/"+name+"/energy_uj", fmt.Sprintf("%d\n", uj))
		m.file(powercap+"/"+name+"/max_energy_range_uj", fmt.Sprintf("%d\n", most))
	}
	zone("intel-rapl:0", "package-0", 1000, 1_000_000_000)
	zone("intel-rapl:0:0", "core", 1000, 1_000_000_000)
	zone("intel-rapl:0:1", "dram", 1000, 1_000_000_000)
	zone("intel-rapl:1", "package-1", 999_000_000, 1_000_000_000)
	sample := m.gauge(NewPower)
	same(t, "the first sample knows nothing", sample(1), nan, nan)
	zone("intel-rapl:0", "package-0", 50_001_000, 1_000_000_000)
	zone("intel-rapl:0:0", "core", 40_001_000, 1_000_000_000)
	zone("intel-rapl:0:1", "dram", 10_001_000, 1_000_000_000)
	zone("intel-rapl:1", "package-1", 29_000_000, 1_000_000_000) // it wrapped
	same(t, "50 and 30 W, memory 10 W", sample(1), 80, 10)
	if _, err := NewPower(newTree(t).root()); err == nil || !strings.Contains(err.Error(), "no energy counters") {
		t.Errorf("%v", err)
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	sample := newTree(t).gauge(NewGo)
	first := sample(1)
	if !math.IsNaN(first[0]) || !math.IsNaN(first[3]) {
		t.Errorf("the first sample has windows: %v", first)
	}
	runtime.GC()
	second := sample(1)
	if !(second[3] >= 1) || !(second[2] >= 0) {
		t.Errorf("after a collection: %v", second)
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h histogram
	now := &metrics.Float64Histogram{Buckets: []float64{math.Inf(-1), 0, 1, 10, 100}, Counts: []uint64{0, 5, 5, 0}}
	if got := h.advance(now, 0.99); !math.IsNaN(got) {
		t.Errorf("the first is %v", got)
	}
	if got := h.advance(now, 0.99); !math.IsNaN(got) {
		t.Errorf("without new values it is %v", got)
	}
	now.Counts = []uint64{0, 104, 6, 1} // 99, one and one
	for _, tt := range []struct{ quantile, want float64 }{{0.5, 0}, {1, 10}} {
		h := histogram{counts: []uint64{0, 5, 5, 0}}
		if got := h.advance(now, tt.quantile); got != tt.want {
			t.Errorf("quantile %v is %v, want %v", tt.quantile, got, tt.want)
		}
	}
}

// What a machine has not is absent with a reason, and the rest works.
func TestOpen(t *testing.T) {
	t.Parallel()
	m := newTree(t)
	m.file("/proc/stat", "cpu 1 1 1 1 1 1 1 1\n")
	list, absent := Open(m.root())
	var names []string
	for _, g := range list {
		names = append(names, g.Columns()[0].Name)
		_ = g.Close()
	}
	if d := cmp.Diff([]string{"cpu_host", "go_sched_p99"}, names); d != "" {
		t.Error(d)
	}
	if len(absent) != 5 {
		t.Errorf("%d gauges are absent", len(absent))
	}
	for _, a := range absent {
		if a.Reason == nil || strings.Contains(a.Reason.Error(), m.dir) {
			t.Errorf("%s: %v", a.Name, a.Reason)
		}
	}
	if _, err := NewCPU(newTree(t).root()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// This machine's own files are read without allocating.
func TestSamplingAllocatesNothing(t *testing.T) {
	list, _ := Open("")
	for _, g := range list {
		dst := make([]float64, len(g.Columns()))
		for range 3 {
			g.Sample(1, dst)
		}
		// The instant stands still, so that no second goes by, after which threads are listed anew.
		if n := testing.AllocsPerRun(50, func() { g.Sample(1, dst) }); n != 0 {
			t.Errorf("%s: %v allocations", g.Columns()[0].Name, n)
		}
		_ = g.Close()
	}
}

// A process that works uses about as much of a processor as its own clock says. Only the order is asserted: working is more than idling.
func TestProcessOfOurOwn(t *testing.T) {
	g, err := NewProcess("")
	if err != nil {
		t.Skipf("this kernel does not say: %v", err)
	}
	defer g.Close()
	dst := make([]float64, 2)
	began := time.Now()
	g.Sample(1, dst)
	for time.Since(began) < 50*time.Millisecond {
		runtime.Gosched()
	}
	g.Sample(1+clock.Instant(time.Since(began)), dst)
	if !(dst[0] > 0.01) || !(dst[1] >= 0) {
		t.Errorf("a busy process uses %v processors, and %v of its threads wait", dst[0], dst[1])
	}
}

func FuzzParsers(f *testing.F) {
	for _, s := range []string{
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=6685\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=503\n",
		"nr_periods 0\nnr_throttled 0\nthrottled_time 0\nthrottled_usec 5\n", "971575 1780218 16\n", "cpu  1 2 3 4 5 6 7 8 9 10\n", "some total=\n", "", "\n\n", " \t",
		"cpu0 0 0 0 0 0 0 900 1000 7\n", "some total=99999999999999999999999\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := []byte(text)
		for _, v := range []float64{
			psiTotal(b, "some"), psiTotal(b, "full"), keyed(b, "throttled_usec"), keyed(b, "throttled_time"), schedstatWait(b), number(b), number(nth(b, 8)),
		} {
			if v < 0 || math.IsInf(v, 0) {
				t.Fatalf("%q has %v", text, v)
			}
		}
		schedstat(b)
		cgroupStats(text, text)
	})
}
