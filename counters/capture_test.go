//go:build linux

package counters

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"spillway/counters/sysfs"
)

// Names, serial numbers and identities stay at home; what describes the counters goes.
func TestRedact(t *testing.T) {
	t.Parallel()
	tests := []struct{ path, text, want string }{
		{
			"/proc/cpuinfo", "processor\t: 0\nmodel\t: 17\nSerial\t: 00000000a1b2c3d4\nflags : fpu\n\nprocessor\t: 1\nmodel\t: 17",
			"processor\t: 0\nmodel\t: 17\nflags : fpu",
		},
		{"/proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/73f697f7926221fd\n0::/user.slice/user-1000.slice", "9:name=systemd:/\n4:memory:/redacted\n0::/redacted"},
		{
			"/proc/mounts", "/dev/sda1 /srv/data ext4 rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nresctrl /sys/fs/resctrl resctrl rw 0 0",
			"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nresctrl /sys/fs/resctrl resctrl rw 0 0",
		},
		{"/proc/sys/kernel/osrelease", "6.1.0-lab7-custom", "6.1.0-host-custom"},
		{"/any", "a lab7 b lab70 c", "a host b lab70 c"},
		{"/any", "id 123e4567-e89b-12d3-a456-426614174000 end", "id redacted end"},
		{"/any", "id 73f697f7926221fd232c3b3d66f73891 end", "id redacted end"},
		{"/sys/bus/event_source/devices/amd_df/events/x", "event=0x1c7,umask=0x38", "event=0x1c7,umask=0x38"},
	}
	for _, tt := range tests {
		if got := redact(tt.path, tt.text, "lab7"); got != tt.want {
			t.Errorf("%s: %q\nwant %q", tt.path, got, tt.want)
		}
	}
	if got := redact("/any", strings.Repeat("x", maxCapturedBytes+1), ""); len(got) != maxCapturedBytes {
		t.Errorf("%d bytes of a file", len(got))
	}
}

// A copy of a machine stands in for it: the same providers open the same events.
func TestCopyStandsIn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"icx-2s-12pmu-8live", "zen2-1s", "grace"} {
		p := platformNamed(t, name)
		f := newFixture(t)
		p.build(f)
		f.file("/sys/devices/system/node/online", "0")
		f.file("/etc/hostname", "secret")
		dir := t.TempDir()
		n, err := Capture(f.machine().Root, dir)
		if err != nil || n == 0 {
			t.Fatalf("%s: %d files, %v", name, n, err)
		}
		if _, err := os.Stat(dir + "/etc"); err == nil {
			t.Errorf("%s: more was copied than describes the counters", name)
		}
		again := newFixture(t)
		again.dir = dir
		for _, g := range []*fixture{f, again} {
			if _, err := provider(t, p.provider).Open(g.machine()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if d := diff.Diff(f.kernel.Opened, again.kernel.Opened); d != "" {
			t.Errorf("%s: events (-machine +copy)\n%s", name, d)
		}
	}
}

func platformNamed(t *testing.T, name string) platform {
	t.Helper()
	for _, p := range platforms {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no platform %s", name)
	return platform{}
}

// firecracker is a virtual machine that was copied by `loadgen counters selftest`: two processors of an EPYC, and nothing that counts memory.
const firecracker = "testdata/firecracker-epyc"

// On such a machine, the table has a reason for each source that cannot be used, and a remedy where there is one.
func TestTableOfVirtualMachine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.dir = firecracker
	m := f.machine()
	m.Clock = Boot() // the probes measure this machine
	table, err := Survey(context.Background(), m, Config{Account: NewAccount(mb)})
	if err != nil {
		t.Fatal(err)
	}
	if !table.Hypervisor || table.Processor != "AMD EPYC" || table.Chosen != "accounted" || table.Paranoid != "2" {
		t.Errorf("%+v", table)
	}
	usable := map[string]bool{}
	for _, p := range table.Providers {
		usable[p.Name] = p.Usable
		switch {
		case p.Usable && (p.Kind == "" || p.Scope == "" || p.Resolution == ""):
			t.Errorf("%+v", p)
		case !p.Usable && p.Reason == "":
			t.Errorf("%s has no reason", p.Name)
		case p.Name == "amd-umc" && !strings.Contains(p.Remedy, "virtual machine"):
			t.Errorf("%s: %s", p.Name, p.Remedy)
		}
	}
	for name, want := range map[string]bool{"intel-imc": false, "amd-umc": false, "amd-df": false, "resctrl": false, "llc-miss": false, "accounted": true} {
		if got, ok := usable[name]; !ok || got != want {
			t.Errorf("%s usable: %v", name, got)
		}
	}
	gauges := map[string]bool{}
	for _, g := range table.Gauges {
		gauges[g.Name] = g.Usable
		if g.Usable == (g.Reason != "") {
			t.Errorf("%+v", g)
		}
	}
	for name, want := range map[string]bool{"cpu_host": true, "steal": true, "run_delay": true, "psi_memory": true, "power": false, "run queues": false} {
		if got, ok := gauges[name]; !ok || got != want {
			t.Errorf("gauge %s: %v, known %v", name, got, ok)
		}
	}
	text, err := table.JSON()
	var back Table
	if err != nil || json.Unmarshal(text, &back) != nil || len(back.Providers) != len(table.Providers) {
		t.Errorf("%v\n%s", err, text)
	}
}

// On a machine without counters the trace comes from what is accounted and from the probe, is labelled so, and follows a stream at four duties. What is
// asserted are orders and ratios, and a machine that is busy gets another try.
func TestTraceFollowsDuty(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	for try := 1; ; try++ {
		dir := filepath.Join(t.TempDir(), "selftest")
		st, err := RunSelfTest(context.Background(), Here(), dir, 2*time.Second, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		checkSelfTest(t, dir, st)
		why := followsDuty(st)
		for _, s := range st.Steps {
			t.Logf("duty %.0f %%: %.2f GB/s read, %.2f GB/s seen, pressure %.2f", 100*s.Duty, s.Read/1e9, s.Seen/1e9, s.Pressure)
		}
		t.Logf("sampling: %v a sample, %.2f %% of a core", st.Cost.PerSample(), 100*st.Cost.Share())
		if why == "" {
			return
		}
		if try == tries {
			t.Fatal(why)
		}
		t.Log(why)
	}
}

// followsDuty returns why a self-test does not show the duties of its stream.
func followsDuty(st *SelfTest) string {
	full := st.Steps[len(st.Steps)-1]
	for i, s := range st.Steps {
		if i > 0 && s.Seen <= st.Steps[i-1].Seen {
			return "more duty was seen as less traffic"
		}
		if share := s.Seen / full.Seen; share < s.Duty-0.25 || share > s.Duty+0.25 {
			return "traffic is not in proportion to the duty"
		}
		if st.Table.Chosen == accountedName && (s.Seen < 0.8*s.Read || s.Seen > 1.25*s.Read) {
			return "what is accounted is not what was read"
		}
	}
	return ""
}

// checkSelfTest looks at what a self-test has written.
func checkSelfTest(t *testing.T, dir string, st *SelfTest) {
	t.Helper()
	trace, err := os.ReadFile(dir + "/trace.csv")
	if err != nil {
		t.Fatal(err)
	}
	if st.Table.Chosen == accountedName && (!strings.Contains(string(trace), ",membw,bytes_per_s,") || !strings.Contains(string(trace), ",estimated\n")) {
		t.Errorf("an estimate is not labelled:\n%.300s", trace)
	}
	if !strings.Contains(string(trace), "mem_pressure,ratio,") || !strings.Contains(string(trace), ",cpu_host,ratio,") {
		t.Errorf("series are missing:\n%.300s", trace)
	}
	var table Table
	if text, err := os.ReadFile(dir + "/table.json"); err != nil || json.Unmarshal(text, &table) != nil || table.Chosen != st.Table.Chosen {
		t.Errorf("table.json: %v", err)
	}
	tree := sysfs.Root(dir + "/tree")
	if got, want := tree.PMUs(), sysfs.Root("").PMUs(); diff.Diff(want, got) != "" || tree.CPU() != sysfs.Root("").CPU() {
		t.Errorf("the copy has PMUs %v, this machine %v", got, want)
	}
}
