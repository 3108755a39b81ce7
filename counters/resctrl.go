//go:build linux

package counters

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/counters/sysfs"
)

// defaultMount is where resctrl is mounted by convention, for the remedy.
const defaultMount = "/sys/fs/resctrl"

// allTraffic is the default of mbm_total_bytes_config: reads, writes and write-backs, near and far.
const allTraffic = 0x7f

// resctrlProvider reads the kernel's monitoring of memory bandwidth (MBM), by the domains of the last-level cache.
type resctrlProvider struct{}

// Name implements Provider.
func (resctrlProvider) Name() string { return "resctrl" }

// Measures implements Provider.
func (resctrlProvider) Measures() string {
	return "traffic behind the last-level cache that processors cause, without devices (MBM of the kernel's resource control)"
}

// Open implements Provider.
func (resctrlProvider) Open(m *Machine) (Source, error) {
	mount, err := resctrlMount(m)
	if err != nil {
		return nil, err
	}
	s := &resctrlSource{machine: m, capability: Capability{
		Name: "resctrl", Kind: Counted, Scope: ScopeCores, Directions: "sum",
		MinPeriod: 100 * time.Millisecond, // each reading takes a lock of the whole machine and a call on another processor
		Notes:     resctrlNotes(m, mount),
	}}
	// Each control group counts for itself and the monitoring groups in it, so all of them together are the machine.
	for _, group := range append([]string{""}, m.Root.Names(mount)...) {
		if err := s.addDomains(path.Join(mount, group)); err != nil {
			return nil, err
		}
	}
	if len(s.domains) == 0 {
		return nil, &Unusable{Reason: mount + " has no domains that count memory traffic (mon_data/mon_L3_*)", Remedy: "a newer kernel may have them"}
	}
	s.prime()
	return s, nil
}

// resctrlMount finds where resctrl is mounted, and sees that it counts.
func resctrlMount(m *Machine) (string, error) {
	kinds, _ := m.Root.Text("/proc/filesystems")
	if !strings.Contains(" "+strings.Join(strings.Fields(kinds), " ")+" ", " resctrl ") {
		return "", &Unusable{Reason: "the kernel has no resctrl (CONFIG_X86_CPU_RESCTRL), or the processor cannot monitor", Remedy: "a bare-metal host with MBM has it"}
	}
	mount := ""
	mounts, _ := m.Root.Text("/proc/mounts")
	for _, line := range strings.Split(mounts, "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "resctrl" {
			mount = f[1]
			break
		}
	}
	if mount == "" {
		return "", &Unusable{Reason: "resctrl is not mounted", Remedy: "as root: `mount -t resctrl resctrl " + defaultMount + "`"}
	}
	features, err := m.Root.Text(mount + "/info/L3_MON/mon_features")
	switch {
	case errors.Is(err, os.ErrPermission):
		return "", &Unusable{Reason: mount + " cannot be read", Remedy: "run as root", Err: err}
	case err != nil || !strings.Contains("\n"+features+"\n", "\nmbm_total_bytes\n"):
		return "", &Unusable{Reason: "this processor monitors the occupancy of caches at most, not traffic (no mbm_total_bytes)", Err: err}
	}
	return mount, nil
}

// resctrlNotes says what somebody else has set that changes what the counts mean.
func resctrlNotes(m *Machine, mount string) (notes []string) {
	if text, err := m.Root.Text(mount + "/info/L3_MON/mbm_total_bytes_config"); err == nil {
		for _, domain := range strings.Split(text, ";") {
			_, value, _ := strings.Cut(domain, "=")
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 0, 32); err == nil && n != allTraffic {
				notes = append(notes, fmt.Sprintf("somebody changed what mbm_total_bytes counts: %s instead of %#x", text, allTraffic))
				break
			}
		}
	}
	if text, err := m.Root.Text(mount + "/info/L3_MON/mbm_assign_mode"); err == nil && strings.Contains(text, "[default]") {
		notes = append(notes, "counters are shared among groups (mbm_assign_mode default): counts may begin again, which is then a gap")
	}
	return notes
}

// addDomains opens the counts of one control group. What is not one has no mon_data.
func (s *resctrlSource) addDomains(group string) error {
	for _, name := range s.machine.Root.Names(group + "/mon_data") {
		if !sysfs.Numbered("mon_L3_#", name) { // the parts of a domain lie inside it, and are in its sum
			continue
		}
		file := path.Join(group, "mon_data", name, "mbm_total_bytes")
		f, err := os.Open(s.machine.Root.Path(file))
		if err != nil {
			_ = s.Close()
			return &Unusable{Reason: fmt.Sprintf("%s: %v", file, errors.Unwrap(err)), Remedy: "run as root", Err: err}
		}
		s.domains = append(s.domains, domain{file: f})
	}
	return nil
}

// domain is one count of one group.
type domain struct {
	file  *os.File
	bytes uint64
	known bool
}

type resctrlSource struct {
	machine    *Machine
	capability Capability
	domains    []domain
	last       clock.Instant
	buf        [64]byte
}

// Capability implements Source.
func (s *resctrlSource) Capability() *Capability { return &s.capability }

// Close implements Source.
func (s *resctrlSource) Close() error {
	for i := range s.domains {
		_ = s.domains[i].file.Close() // opened for reading, there is nothing to lose
	}
	return nil
}

func (s *resctrlSource) prime() {
	for i := range s.domains {
		d := &s.domains[i]
		d.bytes, d.known = s.count(d)
	}
	s.last = s.machine.Clock.Now()
}

// Read implements Source. A domain whose count is not a number, or went back, has no value in this window, and begins again.
func (s *resctrlSource) Read(r *Reading) {
	r.begin(s.machine.Clock.Now(), s.last)
	s.last = r.At
	total, known := 0.0, 0
	for i := range s.domains {
		d := &s.domains[i]
		bytes, ok := s.count(d)
		switch {
		case ok && d.known && bytes >= d.bytes:
			total += float64(bytes - d.bytes)
			known++
		case ok && d.known:
			r.Flags |= Reset
		}
		d.bytes, d.known = bytes, ok
	}
	switch {
	case known == 0:
		r.Flags |= Missing
		return
	case known < len(s.domains):
		r.Flags |= Partial
	}
	r.Total = total
}

// count reads one count; false when the kernel says Unavailable, Error or Unassigned.
func (s *resctrlSource) count(d *domain) (uint64, bool) {
	n, err := d.file.ReadAt(s.buf[:], 0)
	if n == 0 && err != nil || n == len(s.buf) {
		return 0, false
	}
	return parseCount(s.buf[:n])
}

// parseCount reads a decimal number and the line's end. It does not allocate.
func parseCount(b []byte) (v uint64, ok bool) {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || v > (1<<64-1-d)/10 {
			return 0, false
		}
		v = 10*v + d
	}
	return v, true
}

// ResctrlGroup counts the traffic of some threads alone, by a monitoring group that lasts until Close.
//
// New threads belong to the group of the one that made them, and Go makes threads from any other, so a process is put into its group before it has
// many. tids are thread ids, not process ids.
func ResctrlGroup(m *Machine, name string, tids []int) (Source, error) {
	mount, err := resctrlMount(m)
	if err != nil {
		return nil, err
	}
	dir := path.Join(mount, "mon_groups", name)
	if err := m.Mkdir(m.Root.Path(dir)); err != nil {
		u := &Unusable{Reason: fmt.Sprintf("%s: %v", dir, err), Err: err}
		if status, err := m.Root.Text(mount + "/info/last_cmd_status"); err == nil && status != "" && status != "ok" {
			u.Reason += " (" + status + ")"
		}
		switch {
		case errors.Is(err, unix.ENOSPC):
			u.Remedy = "every monitoring id is in use: remove groups below " + mount + "/mon_groups"
		case errors.Is(err, unix.EBUSY):
			u.Remedy = "monitoring ids that were freed are still in use by lines in caches: try again in a while"
		case errors.Is(err, os.ErrPermission):
			u.Remedy = "run as root"
		}
		return nil, u
	}
	s := &resctrlGroup{resctrlSource: resctrlSource{machine: m, capability: Capability{
		Name: "resctrl", Kind: Counted, Scope: ScopeProcess, Directions: "sum", MinPeriod: 100 * time.Millisecond, Notes: resctrlNotes(m, mount),
	}}, dir: m.Root.Path(dir)}
	if err := s.fill(dir, tids); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.prime()
	return s, nil
}

// resctrlGroup is a monitoring group of our own.
type resctrlGroup struct {
	resctrlSource
	dir string
}

func (s *resctrlGroup) fill(dir string, tids []int) error {
	for _, tid := range tids { // the kernel takes one at a time
		if err := os.WriteFile(path.Join(s.dir, "tasks"), []byte(strconv.Itoa(tid)), 0o644); err != nil {
			return fmt.Errorf("thread %d cannot be put into the group: %w", tid, err)
		}
	}
	return s.addDomains(dir)
}

// Close implements Source. It removes the group, and leaves the mount, which is not ours.
func (s *resctrlGroup) Close() error {
	_ = s.resctrlSource.Close()
	return s.machine.Rmdir(s.dir)
}
