//go:build linux

package counters

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spillway/clock"
	"spillway/counters/perf"
	"spillway/counters/perf/perftest"
	"spillway/counters/sysfs"
)

const deviceDir = "/sys/bus/event_source/devices/"

// fixture is a machine made of files, a scripted kernel and a clock that only moves when it is told to.
type fixture struct {
	t      *testing.T
	dir    string
	kernel *perftest.Kernel
	now    clock.Instant
	waits  time.Duration
}

// Now implements clock.Clock.
func (f *fixture) Now() clock.Instant { return f.now }

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, dir: t.TempDir(), kernel: &perftest.Kernel{}}
	f.kernel.At = func(perf.Attr) perftest.Count {
		return perftest.Count{Value: uint64(f.now), Enabled: uint64(f.now), Running: uint64(f.now)}
	}
	return f
}

// machine returns what providers are given. Waiting moves the clock.
func (f *fixture) machine() *Machine {
	return &Machine{
		Root: sysfs.Root(f.dir), Perf: f.kernel, Clock: f,
		Mkdir: func(path string) error { return os.Mkdir(path, 0o755) }, Rmdir: os.RemoveAll,
		Wait: func(_ context.Context, d time.Duration) { f.now += clock.Instant(d); f.waits += d },
	}
}

func (f *fixture) file(path, text string) {
	f.t.Helper()
	p := filepath.Join(f.dir, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// cpu writes what kind of processor there is, how many of it, and on how many sockets.
func (f *fixture) cpu(vendor string, family, model, cpus, sockets int, flags string) {
	f.t.Helper()
	key := "vendor_id"
	if vendor == arm {
		key, vendor = "CPU implementer", "0x41"
	}
	f.file("/proc/cpuinfo", fmt.Sprintf("processor\t: 0\n%s\t: %s\ncpu family\t: %d\nmodel\t\t: %d\nmodel name\t: fixture\nflags\t\t: fpu %s\n", key, vendor, family, model, flags))
	f.file("/sys/devices/system/cpu/online", fmt.Sprintf("0-%d", cpus-1))
	for c := range cpus {
		f.file(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/physical_package_id", c), fmt.Sprint(c*sockets/cpus))
	}
}

// pmu writes one PMU. formats and events are "name=content" lists; a content may have a scale and unit behind a semicolon.
func (f *fixture) pmu(name string, typ int, cpumask string, formats, events []string) {
	f.t.Helper()
	dir := deviceDir + name
	f.file(dir+"/type", fmt.Sprint(typ))
	f.file(dir+"/perf_event_mux_interval_ms", "4")
	if cpumask != "" {
		f.file(dir+"/cpumask", cpumask)
	}
	for _, s := range formats {
		field, text, _ := strings.Cut(s, "=")
		f.file(dir+"/format/"+field, text)
	}
	for _, s := range events {
		event, text, _ := strings.Cut(s, "=")
		terms, scale, has := strings.Cut(text, ";")
		f.file(dir+"/events/"+event, terms)
		if has {
			scale, unit, _ := strings.Cut(scale, " ")
			f.file(dir+"/events/"+event+".scale", scale)
			f.file(dir+"/events/"+event+".unit", unit)
		}
	}
}

// The formats that PMUs of one family share.
var (
	formatIMC   = []string{"event=config:0-7", "umask=config:8-15", "edge=config:18", "inv=config:23", "thresh=config:24-31"}
	formatOldDF = []string{"event=" + formatDF1, "umask=config:8-15"}
	formatNewDF = []string{"event=" + formatDF2, "umask=config:8-15,24-27"}
	formatUMC   = []string{"event=config:0-7", "rdwrmask=config:8-9"}
)

const mib = ";6.103515625e-5 MiB"

// platform is one machine of the table, and what must be opened on it.
type platform struct {
	name     string
	provider string
	build    func(f *fixture)
	want     []tuples
	// read returns the sum of the bytes of one reading, when each event counts one; 0: not asked.
	bytes float64
}

// tuples are events with the same configurations on several PMUs and CPUs.
type tuples struct {
	types   []int
	cpus    []int
	configs []sysfs.Config
}

// configs are events that need only the first word.
func configs(words ...uint64) (list []sysfs.Config) {
	for _, w := range words {
		list = append(list, sysfs.Config{Config: w})
	}
	return list
}

// from counts n numbers from first on.
func from(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}

func imcs(f *fixture, n int, cpumask string, events ...string) {
	for i := range n {
		f.pmu(fmt.Sprintf("uncore_imc_%d", i), 20+i, cpumask, formatIMC, events)
	}
}

// platforms are those of the table of encodings.
var platforms = []platform{
	{
		name: "bdx-1s", provider: "intel-imc", bytes: 4 * 2 * 64,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x4f, 20, 1, "")
			imcs(f, 4, "0", "cas_count_read=event=0x04,umask=0x03"+mib, "cas_count_write=event=0x04,umask=0x0c"+mib)
		},
		want: []tuples{{from(20, 4), []int{0}, configs(0x0304, 0x0c04)}},
	},
	{
		name: "skx-2s", provider: "intel-imc", bytes: 2 * 6 * 2 * 64,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x55, 32, 2, "")
			imcs(f, 6, "0,16", "cas_count_read=event=0x04,umask=0x03"+mib, "cas_count_write=event=0x04,umask=0x0c"+mib)
		},
		want: []tuples{{from(20, 6), []int{0, 16}, configs(0x0304, 0x0c04)}},
	},
	{
		name: "skx-noalias", provider: "intel-imc",
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x55, 32, 2, "")
			imcs(f, 6, "0,16")
		},
		want: []tuples{{from(20, 6), []int{0, 16}, configs(0x0304, 0x0c04)}},
	},
	{
		name: "icx-2s-12pmu-8live", provider: "intel-imc",
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x6a, 64, 2, "")
			imcs(f, 12, "0,32", "cas_count_read=event=0x04,umask=0x0f"+mib, "cas_count_write=event=0x04,umask=0x30"+mib)
		},
		want: []tuples{{from(20, 12), []int{0, 32}, configs(0x0f04, 0x3004)}},
	},
	{
		name: "icx-noalias", provider: "intel-imc",
		build: func(f *fixture) { f.cpu(intel, 6, 0x6a, 64, 2, ""); imcs(f, 12, "0,32") },
		want:  []tuples{{from(20, 12), []int{0, 32}, configs(0x0f04, 0x3004)}},
	},
	{
		name: "spr-noalias", provider: "intel-imc", bytes: 8 * 2 * 64,
		build: func(f *fixture) { f.cpu(intel, 6, 0x8f, 56, 1, ""); imcs(f, 8, "0") },
		want:  []tuples{{from(20, 8), []int{0}, configs(0xcf05, 0xf005)}},
	},
	{
		name: "spr-hbm", provider: "intel-imc", bytes: 2*2*64 + 2*2*32,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x8f, 56, 1, "")
			imcs(f, 2, "0")
			f.pmu("uncore_hbm_0", 60, "0", formatIMC, nil)
			f.pmu("uncore_hbm_1", 61, "0", formatIMC, nil)
		},
		want: []tuples{{[]int{20, 21, 60, 61}, []int{0}, configs(0xcf05, 0xf005)}},
	},
	{
		name: "gnr-2s", provider: "intel-imc", bytes: 2 * 12 * 4 * 64,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0xad, 128, 2, "")
			imcs(f, 12, "0,64", "cas_count_read_sch0=event=0x05,umask=0xcf"+mib, "cas_count_read_sch1=event=0x06,umask=0xcf"+mib,
				"cas_count_write_sch0=event=0x05,umask=0xf0"+mib, "cas_count_write_sch1=event=0x06,umask=0xf0"+mib)
		},
		want: []tuples{{from(20, 12), []int{0, 64}, configs(0xcf05, 0xcf06, 0xf005, 0xf006)}},
	},
	{
		name: "srf-noalias", provider: "intel-imc",
		build: func(f *fixture) { f.cpu(intel, 6, 0xaf, 144, 1, ""); imcs(f, 8, "0") },
		want:  []tuples{{from(20, 8), []int{0}, configs(0xcf05, 0xcf06, 0xf005, 0xf006)}},
	},
	{
		name: "knl", provider: "intel-imc",
		build: func(f *fixture) { f.cpu(intel, 6, 0x57, 64, 1, ""); imcs(f, 6, "0") },
		want:  []tuples{{from(20, 6), []int{0}, configs(0x0103, 0x0203)}},
	},
	{
		name: "adl-client", provider: "intel-imc",
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x97, 16, 1, "")
			imcs(f, 2, "0")
			f.pmu("uncore_imc_free_running_0", 40, "0", formatIMC, nil)
		},
		want: []tuples{{from(20, 2), []int{0}, configs(0x22, 0x23)}},
	},
	{
		name: "skl-client", provider: "intel-imc-free", bytes: 2 * 64,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x5e, 8, 1, "")
			f.pmu("uncore_imc", 12, "0", []string{"event=config:0-7"},
				[]string{"data_reads=event=0x01" + mib, "data_writes=event=0x02" + mib, "gt_requests=event=0x03" + mib})
		},
		want: []tuples{{[]int{12}, []int{0}, configs(0x01, 0x02)}},
	},
	{
		name: "tgl-client", provider: "intel-imc-free", bytes: 2 * 2 * 64, // not data_total too
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x8c, 8, 1, "")
			for i := range 2 {
				f.pmu(fmt.Sprintf("uncore_imc_free_running_%d", i), 40+i, "0", formatIMC, []string{
					"data_read=event=0xff,umask=0x20" + mib, "data_write=event=0xff,umask=0x30" + mib, "data_total=event=0xff,umask=0x10" + mib,
				})
			}
		},
		want: []tuples{{[]int{40, 41}, []int{0}, configs(0x20ff, 0x30ff)}},
	},
	{
		name: "icx-free", provider: "intel-imc-free", bytes: 2 * 4 * 2 * 64,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x6a, 64, 2, "")
			for i := range 4 {
				f.pmu(fmt.Sprintf("uncore_imc_free_running_%d", i), 40+i, "0,32", formatIMC, []string{
					"read=event=0xff,umask=0x20" + mib, "write=event=0xff,umask=0x21" + mib, "ddrt_read=event=0xff,umask=0x30" + mib,
					"dclk=event=0xff,umask=0x10",
				})
			}
		},
		want: []tuples{{from(40, 4), []int{0, 32}, configs(0x20ff, 0x21ff)}},
	},
	{
		name: "zen2-1s", provider: "amd-df", bytes: 8 * 64,
		build: func(f *fixture) { f.cpu(amd, 0x17, 0x31, 16, 1, ""); f.pmu("amd_df", 8, "0", formatOldDF, nil) },
		want: []tuples{{[]int{8}, []int{0}, configs(0x3807, 0x3847, 0x3887, 0x38c7,
			0x100003807, 0x100003847, 0x100003887, 0x1000038c7)}},
	},
	{
		name: "zen3-2s-nps4", provider: "amd-df",
		build: func(f *fixture) { f.cpu(amd, 0x19, 0x01, 64, 2, ""); f.pmu("amd_df", 8, "0,32", formatOldDF, nil) },
		want: []tuples{{[]int{8}, []int{0, 32}, configs(0x3807, 0x3847, 0x3887, 0x38c7,
			0x100003807, 0x100003847, 0x100003887, 0x1000038c7)}},
	},
	{
		name: "hygon", provider: "amd-df",
		build: func(f *fixture) { f.cpu(hygon, 0x18, 0x01, 32, 1, ""); f.pmu("amd_df", 8, "0", formatOldDF, nil) },
		want: []tuples{{[]int{8}, []int{0}, configs(0x3807, 0x3847, 0x3887, 0x38c7,
			0x100003807, 0x100003847, 0x100003887, 0x1000038c7)}},
	},
	{
		name: "zen4-2s-24umc", provider: "amd-umc", bytes: 24 * 2 * 64,
		build: func(f *fixture) {
			f.cpu(amd, 0x19, 0x11, 192, 2, "perfmon_v2")
			for i := range 24 { // the index runs over both sockets, each unit has a processor of its own socket
				f.pmu(fmt.Sprintf("amd_umc_%d", i), 30+i, fmt.Sprint(i/12*96), formatUMC, nil)
			}
			f.pmu("amd_df", 8, "0,96", formatNewDF, nil)
		},
		want: []tuples{
			{from(30, 12), []int{0}, configs(0x10a, 0x20a, 0x14, 0x00)},
			{from(42, 12), []int{96}, configs(0x10a, 0x20a, 0x14, 0x00)},
		},
	},
	{
		name: "zen4-df", provider: "amd-df",
		build: func(f *fixture) {
			f.cpu(amd, 0x19, 0x11, 96, 1, "perfmon_v2")
			f.pmu("amd_df", 8, "0", formatNewDF, nil)
		},
		want: []tuples{{[]int{8}, []int{0}, configs(
			0x700fe1f, 0x700fe5f, 0x700fe9f, 0x700fedf, 0x10700fe1f, 0x10700fe5f, 0x10700fe9f, 0x10700fedf, 0x20700fe1f, 0x20700fe5f, 0x20700fe9f, 0x20700fedf,
			0x700ff1f, 0x700ff5f, 0x700ff9f, 0x700ffdf, 0x10700ff1f, 0x10700ff5f, 0x10700ff9f, 0x10700ffdf, 0x20700ff1f, 0x20700ff5f, 0x20700ff9f, 0x20700ffdf)}},
	},
	{
		name: "zen5-df", provider: "amd-df",
		build: func(f *fixture) {
			f.cpu(amd, 0x1a, 0x02, 96, 1, "perfmon_v2")
			f.pmu("amd_df", 8, "0", formatNewDF, nil)
		},
		want: []tuples{{[]int{8}, []int{0}, configs(
			0xf00fe1f, 0xf00fe5f, 0xf00fe9f, 0xf00fedf, 0x10f00fe1f, 0x10f00fe5f, 0x10f00fe9f, 0x10f00fedf, 0x20f00fe1f, 0x20f00fe5f, 0x20f00fe9f, 0x20f00fedf,
			0xf00ff1f, 0xf00ff5f, 0xf00ff9f, 0xf00ffdf, 0x10f00ff1f, 0x10f00ff5f, 0x10f00ff9f, 0x10f00ffdf, 0x20f00ff1f, 0x20f00ff5f, 0x20f00ff9f, 0x20f00ffdf)}},
	},
	{
		name: "cmn700", provider: "arm-cmn", bytes: 64,
		build: func(f *fixture) {
			f.cpu(arm, 0, 0, 64, 1, "")
			f.pmu("arm_cmn_0", 17, "0", []string{"type=config:0-15", "eventid=config:16-26", "nodeid=config:37-52"},
				[]string{"hnf_mc_reqs=type=0x5,eventid=0xd", "hnf_mc_retries=type=0x5,eventid=0xc"})
		},
		want: []tuples{{[]int{17}, []int{0}, configs(0xd0005, 0xc0005)}},
	},
	{
		name: "altra-dmc620", provider: "arm-dmc620", bytes: 2 * 64,
		build: func(f *fixture) {
			f.cpu(arm, 0, 0, 80, 1, "")
			for i := range 2 {
				f.pmu(fmt.Sprintf("arm_dmc620_1000%d", i), 50+i, "0", []string{
					"mask=config:0-44", "match=config1:0-44", "invert=config2:0", "incr=config2:1-2", "event=config2:3-8", "clkdiv2=config2:9",
				}, nil)
			}
		},
		want: []tuples{{[]int{50, 51}, []int{0}, []sysfs.Config{{Config2: 0x12<<3 | 1<<9}}}},
	},
	{
		name: "kunpeng", provider: "hisi-ddrc", bytes: 2 * 2 * 32,
		build: func(f *fixture) {
			f.cpu(arm, 0, 0, 48, 1, "")
			for i := range 2 {
				f.pmu(fmt.Sprintf("hisi_sccl1_ddrc%d", i), 70+i, "0", []string{"event=config:0-4"}, []string{"flux_wr=config=0x00", "flux_rd=config=0x01"})
			}
		},
		want: []tuples{{[]int{70, 71}, []int{0}, configs(0x01, 0x00)}},
	},
	{
		name: "grace", provider: "nvidia-scf", bytes: 32 + 1, // a beat and a byte
		build: func(f *fixture) {
			f.cpu(arm, 0, 0, 72, 1, "")
			f.pmu("nvidia_scf_pmu_0", 80, "0", []string{"event=config:0-63"}, []string{"cmem_rd_data=event=0x1a5", "cmem_wr_total_bytes=event=0x1db"})
		},
		want: []tuples{{[]int{80}, []int{0}, configs(0x1a5, 0x1db)}},
	},
	{
		name: "hybrid-llc", provider: "llc-miss", bytes: (2 + 2) * 64,
		build: func(f *fixture) {
			f.cpu(intel, 6, 0x97, 4, 1, "")
			f.pmu("cpu_core", 4, "", nil, nil)
			f.file(deviceDir+"cpu_core/cpus", "0-1")
			f.pmu("cpu_atom", 10, "", nil, nil)
			f.file(deviceDir+"cpu_atom/cpus", "2-3")
		},
		want: []tuples{
			{[]int{3}, []int{0, 1}, configs(4<<32 | 0x10002)},
			{[]int{3}, []int{2, 3}, configs(10<<32 | 0x10002)},
		},
	},
	{
		name: "skx-llc", provider: "llc-miss",
		build: func(f *fixture) { f.cpu(intel, 6, 0x55, 4, 1, ""); f.pmu("cpu", 4, "", nil, nil) },
		want:  []tuples{{[]int{3}, []int{0, 1, 2, 3}, configs(0x10002)}},
	},
	{
		name: "zen2-l3", provider: "llc-miss",
		build: func(f *fixture) {
			f.cpu(amd, 0x17, 0x31, 16, 1, "")
			f.pmu("amd_l3", 9, "0,4,8,12", []string{"event=config:0-7", "umask=config:8-15", "slicemask=config:48-51"}, nil)
			f.pmu("cpu", 4, "", nil, nil) // whose misses are those of the L2
		},
		want: []tuples{{[]int{9}, []int{0, 4, 8, 12}, configs(0x0104)}},
	},
}
