package sysfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseCPUs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []int
		err  string
	}{
		{"", nil, ""},
		{"\n", nil, ""},
		{"0\n", []int{0}, ""},
		{"0,24", []int{0, 24}, ""},
		{"0-3,8", []int{0, 1, 2, 3, 8}, ""}, // not 0 and 3 alone
		{"0-2,1-3", []int{0, 1, 2, 3}, ""},
		{"65535", []int{65535}, ""},
		{"65536", nil, "above 65535"},
		{"3-1", nil, "runs backwards"},
		{"0,", nil, "not a number"},
		{"-1", nil, "not a number"},
		{"0-", nil, "not a number"},
		{"ff", nil, "not a number"},
	}
	for _, tt := range tests {
		got, err := ParseCPUs(tt.text)
		if !fails(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, %v; want %v, %q", tt.text, got, err, tt.want, tt.err)
		}
	}
}

// fails reports whether err is there and says text, or is not there and there is no text.
func fails(err error, text string) bool {
	if text == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), text)
}

func TestParseFormat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		format string
		value  uint64
		want   Config
		err    string
	}{
		{"config:0-7", 0x0a, Config{Config: 0x0a}, ""},
		{"config:8-15\n", 0x38, Config{Config: 0x3800}, ""},
		{"config:18", 1, Config{Config: 1 << 18}, ""},
		{"config1:0-44", 1, Config{Config1: 1}, ""},
		{"config2:3-8", 0x12, Config{Config2: 0x90}, ""},
		{"config", 5, Config{Config: 5}, ""},
		{"config:0-63", 1<<64 - 1, Config{Config: 1<<64 - 1}, ""},
		// AMD's data fabric: the low byte, then four bits at 32, then two at 59.
		{"config:0-7,32-35,59-60", 0x1c7, Config{Config: 0x1000000c7}, ""},
		{"config:0-7,32-35,59-60", 0x3fff, Config{Config: 3<<59 | 0xf<<32 | 0xff}, ""},
		{"config:0-7", 0x100, Config{}, "does not fit"},
		{"config:18", 2, Config{}, "does not fit"},
		{"config3:0-7", 1, Config{}, "none of config"},
		{"config:", 1, Config{}, "not a range"},
		{"config:7-0", 1, Config{}, "not a range"},
		{"config:0-64", 1, Config{}, "not a range"},
		{"config:0-7,4-9", 1, Config{}, "twice"},
	}
	for _, tt := range tests {
		f, err := ParseFormat(tt.format)
		var got Config
		if err == nil {
			err = f.set(&got, tt.value)
		}
		if !fails(err, tt.err) || tt.err == "" && got != tt.want {
			t.Errorf("%#x in %q: %#x, %v; want %#x, %q", tt.value, tt.format, got, err, tt.want, tt.err)
		}
	}
}

func TestParseTerms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []Term
		err  string
	}{
		{"event=0x04,umask=0x03\n", []Term{{"event", 4}, {"umask", 3}}, ""},
		{"event=10,edge", []Term{{"event", 10}, {"edge", 1}}, ""},
		{"config=0x00", []Term{{"config", 0}}, ""},
		{"", nil, "without terms"},
		{"event=?", nil, "not a number"},
		{"event=-1", nil, "not a number"},
		{"=5", nil, "without a name"},
		{"event=1,,umask=2", nil, "without a name"},
	}
	for _, tt := range tests {
		got, err := ParseTerms(tt.text)
		if !fails(err, tt.err) || cmp.Diff(tt.want, got) != "" {
			t.Errorf("%q: %v, %v; want %v, %q", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestParseScale(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"6.103515625e-5": 64.0 / (1 << 20), " 1e-05\n": 1e-5, "64": 64, "2.3283064365386962890625e-10": 1.0 / (1 << 32)} {
		if got, err := ParseScale(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "0", "NaN", "Inf", "1e19"} {
		if got, err := ParseScale(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestNatural(t *testing.T) {
	t.Parallel()
	want := []string{"a", "imc_0", "imc_1", "imc_2", "imc_10", "imc_free_running_0"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Natural)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNumbered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"uncore_imc_#", "uncore_imc_0", true},
		{"uncore_imc_#", "uncore_imc_11", true},
		{"uncore_imc_#", "uncore_imc", false},
		{"uncore_imc_#", "uncore_imc_free_running_0", false},
		{"uncore_imc", "uncore_imc", true},
		{"uncore_imc", "uncore_imc_0", false},
		{"hisi_sccl#_ddrc#", "hisi_sccl3_ddrc0", true},
		{"hisi_sccl#_ddrc#", "hisi_sccl3_ddrc0_1", false},
	} {
		if got := Numbered(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q as %q: %v", tt.name, tt.pattern, got)
		}
	}
}

// tree writes files below a new root.
func tree(t *testing.T, files map[string]string) Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Root(dir)
}

func TestPMU(t *testing.T) {
	t.Parallel()
	const dir = "/sys/bus/event_source/devices/"
	r := tree(t, map[string]string{
		dir + "imc_0/type": "14", dir + "imc_0/cpumask": "0,16", dir + "imc_0/perf_event_mux_interval_ms": "4",
		dir + "imc_0/format/event": "config:0-7", dir + "imc_0/format/umask": "config:8-15",
		dir + "imc_0/events/cas_count_read": "event=0x04,umask=0x03", dir + "imc_0/events/cas_count_read.scale": "6.103515625e-5",
		dir + "imc_0/events/cas_count_read.unit": "MiB",
		dir + "core/type":                        "4", dir + "core/cpus": "0-3",
		dir + "odd/type": "x",
		dir + "mad/type": "5", dir + "mad/format/event": "config:9-3",
	})
	p, err := r.PMU("imc_0")
	if err != nil {
		t.Fatal(err)
	}
	if p.Type != 14 || !slices.Equal(p.CPUs, []int{0, 16}) || p.MuxMS != 4 {
		t.Errorf("%+v", p)
	}
	terms, scale, unit, ok := p.Event("cas_count_read")
	bytes, known := UnitBytes(unit)
	if !ok || !known || scale*bytes != 64 {
		t.Errorf("%q: %v %s", terms, scale, unit)
	}
	if c, err := p.Encode(terms); err != nil || c != (Config{Config: 0x0304}) {
		t.Errorf("%#x, %v", c, err)
	}
	if _, _, _, ok := p.Event("cas_count_write"); ok {
		t.Error("an event that is not there")
	}
	if _, err := p.Encode("event=1,thresh=1"); !fails(err, `no field "thresh"`) {
		t.Error(err)
	}
	if p, err := r.PMU("core"); err != nil || len(p.CPUs) != 4 || p.MuxMS != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for name, want := range map[string]string{"odd": "not a number", "mad": "not a range", "none": "no such file"} {
		if _, err := r.PMU(name); !fails(err, want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if got := r.PMUs(); !slices.Equal(got, []string{"core", "imc_0", "mad", "odd"}) {
		t.Error(got)
	}
}

func TestMachine(t *testing.T) {
	t.Parallel()
	const cpu0 = "/sys/devices/system/cpu/cpu0/"
	r := tree(t, map[string]string{
		"/proc/cpuinfo":                                             "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nbogomips\t: 5192.24\nflags\t\t: fpu hypervisor perfmon_v2\n\nprocessor\t: 1\nmodel\t: 99",
		"/sys/devices/system/cpu/online":                            "0-1",
		cpu0 + "topology/physical_package_id":                       "3",
		cpu0 + "cache/index0/level":                                 "1",
		cpu0 + "cache/index0/type":                                  "Data",
		cpu0 + "cache/index0/size":                                  "32K",
		cpu0 + "cache/index1/level":                                 "1",
		cpu0 + "cache/index1/type":                                  "Instruction",
		cpu0 + "cache/index1/size":                                  "32K",
		cpu0 + "cache/index3/level":                                 "3",
		cpu0 + "cache/index3/type":                                  "Unified",
		cpu0 + "cache/index3/size":                                  "32768K",
		cpu0 + "cache/index3/shared_cpu_list":                       "0-1",
		cpu0 + "cache/uevent":                                       "",
		"/sys/devices/system/cpu/cpu1/topology/physical_package_id": "-1",
	})
	want := CPU{Vendor: "AuthenticAMD", Name: "AMD EPYC", Family: 25, Model: 17, Hypervisor: true, PerfMonV2: true}
	if got := r.CPU(); got != want {
		t.Errorf("%+v", got)
	}
	if c, ok := r.LLC(); !ok || c.Level != 3 || c.Bytes != 32<<20 || !slices.Equal(c.CPUs, []int{0, 1}) {
		t.Errorf("%+v", c)
	}
	if r.Package(0) != 3 || r.Package(1) != 0 || r.Package(7) != 0 || r.BogoMIPS() != 5192.24 {
		t.Errorf("packages %d %d, %v", r.Package(0), r.Package(1), r.BogoMIPS())
	}
	empty := Root(t.TempDir())
	if _, ok := empty.LLC(); ok || empty.CPU() != (CPU{}) || empty.CPUs() != nil || empty.PMUs() != nil || empty.BogoMIPS() != 0 {
		t.Error("an empty machine has something")
	}
	if got := tree(t, map[string]string{"/proc/cpuinfo": "processor : 0\nCPU implementer : 0x41\n"}).CPU(); got.Vendor != "arm" {
		t.Errorf("%+v", got)
	}
}

// What is put into a field can be read out of its bits again, and nothing else changes.
func TestFormatKeepsOtherBits(t *testing.T) {
	t.Parallel()
	f, err := ParseFormat("config:0-7,32-35,59-60")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.Uint64().Draw(t, "before")
		value := rapid.Uint64Max(1<<14-1).Draw(t, "value")
		c := Config{Config: before}
		if err := f.set(&c, value); err != nil {
			t.Fatal(err)
		}
		got := c.Config&0xff | c.Config>>32&0xf<<8 | c.Config>>59&3<<12
		const mine = 0xff | 0xf<<32 | 3<<59
		if got != value || c.Config&^uint64(mine) != before&^uint64(mine) {
			t.Fatalf("%#x into %#x: %#x", value, before, c.Config)
		}
	})
}
