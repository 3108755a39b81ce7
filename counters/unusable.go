//go:build linux

package counters

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"spillway/counters/perf"
)

// Unusable says why a provider cannot be used, and what would help.
type Unusable struct {
	Reason string
	Remedy string // empty when there is none
	Err    error  // of the kernel, may be nil
}

// Error implements error.
func (u *Unusable) Error() string {
	if u.Remedy == "" {
		return u.Reason
	}
	return u.Reason + "; " + u.Remedy
}

// Unwrap returns the error of the kernel.
func (u *Unusable) Unwrap() error { return u.Err }

// Remedies that several reasons have.
const (
	remedyVM     = "a virtual machine hides the memory controller: use a bare-metal host, or the sources accounted and self-probe"
	remedyRights = "run as root, or `sysctl kernel.perf_event_paranoid=0`, or `setcap cap_perfmon=ep` on the program; " +
		"in a container also `--cap-add PERFMON`, which older runtimes honour only with SYS_ADMIN"
)

// explain says why an event could not be opened: the error's name, what it means here, and the settings that decide it.
func explain(m *Machine, what string, err error) *Unusable {
	u := &Unusable{Err: err}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		u.Reason = fmt.Sprintf("%s: %v", what, err)
		if errors.Is(err, perf.ErrNotCounting) {
			u.Remedy = "another program holds the counters: stop it (PCM, likwid, a monitoring agent)"
		}
		return u
	}
	name := unix.ErrnoName(errno)
	meaning := ""
	switch errno {
	case unix.ENOENT:
		meaning = "the kernel has no such event"
		u.Remedy = "a newer kernel may have it"
		if m.Root.CPU().Hypervisor {
			u.Remedy = remedyVM
		}
	case unix.EACCES, unix.EPERM:
		meaning = "not permitted"
		if paranoid, err := m.Root.Text("/proc/sys/kernel/perf_event_paranoid"); err == nil {
			meaning += ", kernel.perf_event_paranoid is " + paranoid
		}
		u.Remedy = remedyRights
	case unix.EINVAL:
		meaning = "the kernel refuses the event as it is encoded"
		u.Remedy = "send in what `loadgen counters selftest` writes"
	case unix.ENODEV:
		meaning = "the processor to count on is offline, or the unit is gone"
		u.Remedy = "bring the processor online, then try again"
	case unix.EMFILE, unix.ENFILE:
		meaning = "too many open files"
		u.Remedy = "`ulimit -n 4096`, or more"
	case unix.EBUSY, unix.EAGAIN:
		meaning = "the counters are taken"
		u.Remedy = "stop whatever else counts on this machine (PCM, likwid, a monitoring agent)"
	case unix.ENOSYS:
		meaning = "the kernel or a seccomp filter has no perf_event_open"
		u.Remedy = "in a container use a seccomp profile that allows perf_event_open"
	case unix.EOPNOTSUPP:
		meaning = "the unit does not count in this way"
	case unix.E2BIG:
		meaning = "the kernel is too old for how the event is described"
		u.Remedy = "use a newer kernel"
	default:
		meaning = err.Error()
	}
	u.Reason = fmt.Sprintf("%s: %s (%s)", what, meaning, name)
	return u
}
