//go:build linux

package counters

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const mount = "/sys/fs/resctrl"

// resctrl is a machine with so many domains, and two control groups with a count each.
func resctrl(t *testing.T, domains int) *fixture {
	f := newFixture(t)
	f.file("/proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n\text4")
	f.file("/proc/mounts", "sysfs /sys sysfs rw 0 0\nresctrl "+mount+" resctrl rw,relatime 0 0")
	f.file(mount+"/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes")
	f.file(mount+"/info/L3_MON/mbm_total_bytes_config", "0=0x7f;1=0x7f")
	for d := range domains {
		f.bytes("", d, "0")
		f.bytes("/batch", d, "0")
		// Parts of a domain, where the processor is divided: their sum is in the domain already.
		f.file(fmt.Sprintf("%s/mon_data/mon_L3_%02d/mon_sub_L3_00/mbm_total_bytes", mount, d), "77")
	}
	return f
}

func (f *fixture) bytes(group string, domain int, text string) {
	f.t.Helper()
	f.file(fmt.Sprintf("%s%s/mon_data/mon_L3_%02d/mbm_total_bytes", mount, group, domain), text)
}

func TestResctrl(t *testing.T) {
	t.Parallel()
	f := resctrl(t, 16) // as AMD has: one for each complex of cores
	s := opened(t, f, "resctrl")
	if c := s.Capability(); c.Scope != ScopeCores || c.MinPeriod != 100*time.Millisecond || len(c.Notes) != 0 {
		t.Errorf("%+v", c)
	}
	f.bytes("", 0, "1000")
	f.bytes("", 15, "500")
	f.bytes("/batch", 3, "25")
	if r := pass(f, s, time.Second); r.Total != 1525 || r.Flags != 0 || !math.IsNaN(r.Read) {
		t.Errorf("%+v", r)
	}
	// What is not a number has no value now, and none in the window in which it comes back.
	for _, text := range []string{"Unavailable", "Error", "Unassigned", "", "123456789012345678901234567890", "-5"} {
		f.bytes("", 0, text)
		f.bytes("", 1, "0")
		if r := pass(f, s, time.Second); r.Flags != Partial || r.Total != 0 {
			t.Errorf("%q: %v, %v", text, r.Total, r.Flags)
		}
		f.bytes("", 0, "9000000")
		if r := pass(f, s, time.Second); r.Flags != Partial || r.Total != 0 {
			t.Errorf("after %q: %v, %v", text, r.Total, r.Flags)
		}
	}
	f.bytes("", 0, "9000100")
	if r := pass(f, s, time.Second); r.Flags != 0 || r.Total != 100 {
		t.Errorf("%+v", r)
	}
	// A count that goes back began again: hardware that is shared among groups does that. It is no wrap.
	f.bytes("", 0, "10")
	if r := pass(f, s, time.Second); r.Flags != Partial|Reset || r.Total != 0 {
		t.Errorf("%+v", r)
	}
	for d := range 16 {
		f.bytes("", d, "Unavailable")
		f.bytes("/batch", d, "Unavailable")
	}
	if r := pass(f, s, time.Second); r.Flags != Missing || !math.IsNaN(r.Total) {
		t.Errorf("%+v", r)
	}
}

func TestResctrlNotes(t *testing.T) {
	t.Parallel()
	f := resctrl(t, 1)
	f.file(mount+"/info/L3_MON/mbm_total_bytes_config", "0=0x33;1=0x7f")
	f.file(mount+"/info/L3_MON/mbm_assign_mode", "mbm_event\n[default]")
	notes := strings.Join(opened(t, f, "resctrl").Capability().Notes, "\n")
	if !strings.Contains(notes, "0=0x33;1=0x7f instead of 0x7f") || !strings.Contains(notes, "shared among groups") {
		t.Error(notes)
	}
}

func TestNoResctrl(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		build          func(f *fixture)
		reason, remedy string
	}{
		{"not in the kernel", func(f *fixture) { f.file("/proc/filesystems", "nodev\tsysfs") }, "the kernel has no resctrl", "bare-metal"},
		{"not mounted", func(f *fixture) { f.file("/proc/mounts", "sysfs /sys sysfs rw 0 0") }, "not mounted", "mount -t resctrl resctrl /sys/fs/resctrl"},
		{"caches only", func(f *fixture) { f.file(mount+"/info/L3_MON/mon_features", "llc_occupancy") }, "no mbm_total_bytes", ""},
		{"no domains", func(f *fixture) {
			if err := os.RemoveAll(f.dir + mount + "/mon_data"); err != nil {
				f.t.Fatal(err)
			}
			if err := os.RemoveAll(f.dir + mount + "/batch"); err != nil {
				f.t.Fatal(err)
			}
		}, "has no domains", "newer kernel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := resctrl(t, 1)
			tt.build(f)
			_, err := provider(t, "resctrl").Open(f.machine())
			var u *Unusable
			if !errors.As(err, &u) || !strings.Contains(u.Reason, tt.reason) || !strings.Contains(u.Remedy, tt.remedy) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestResctrlGroup(t *testing.T) {
	t.Parallel()
	f := resctrl(t, 2)
	group := "/mon_groups/ours"
	m := f.machine()
	m.Mkdir = func(path string) error { // the kernel fills a new group
		if path != f.dir+mount+group {
			t.Errorf("made %s", path)
		}
		f.bytes(group, 0, "0")
		f.bytes(group, 1, "0")
		return nil
	}
	s, err := ResctrlGroup(m, "ours", []int{11, 12})
	if err != nil {
		t.Fatal(err)
	}
	if tasks, err := os.ReadFile(f.dir + mount + group + "/tasks"); err != nil || string(tasks) != "12" { // the kernel would have taken both
		t.Errorf("%q, %v", tasks, err)
	}
	f.bytes(group, 0, "300")
	f.bytes("", 0, "100000") // not ours
	if r := pass(f, s, time.Second); r.Total != 300 || s.Capability().Scope != ScopeProcess {
		t.Errorf("%+v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.dir + mount + group); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is left behind: %v", err)
	}
}

func TestResctrlGroupThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for errno, remedy := range map[unix.Errno]string{unix.ENOSPC: "remove groups", unix.EBUSY: "try again", unix.EACCES: "root"} {
		f := resctrl(t, 1)
		f.file(mount+"/info/last_cmd_status", "Out of RMIDs")
		m := f.machine()
		m.Mkdir = func(string) error { return &os.PathError{Op: "mkdir", Path: "x", Err: errno} }
		_, err := ResctrlGroup(m, "ours", nil)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "Out of RMIDs") {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

func FuzzParseCount(f *testing.F) {
	for _, s := range []string{"0\n", "18446744073709551615", "18446744073709551616", "Unavailable\n", "", " ", "1 2", "-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := parseCount(b)
		if ok && strings.TrimLeft(strings.TrimRight(string(b), "\n "), "0") != strings.TrimLeft(fmt.Sprint(v), "0") {
			t.Fatalf("%q is %d", b, v)
		}
	})
}
