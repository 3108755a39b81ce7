//go:build linux

package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"spillway/guard/levels"
)

// The ways to limit the memory of a process.
const (
	ByCgroup = "cgroup" // a control group of its own
	ByRlimit = "rlimit" // the growth of its address space, RLIMIT_AS
)

// Limit is a hard limit on the memory of this process: who goes beyond it dies. The Go runtime's GOMEMLIMIT is none, since it only makes
// the collector work harder.
type Limit struct {
	Bytes int64
	By    string // ByCgroup or ByRlimit

	group  levels.Group // of ByCgroup: the group that was made
	from   string       // and where the process was before
	before float64      // of ByRlimit: the address space in use when it was set
}

// SetLimit limits the memory that this process takes from now on. What it has already is not counted: a control group counts from when a
// process is moved there, and the address space of a Go program is large before it does anything.
func SetLimit(bytes int64, by string) (*Limit, error) {
	if bytes < 1 {
		return nil, errors.New("a memory limit is at least a byte")
	}
	switch by {
	case ByCgroup:
		return limitGroup(bytes)
	case ByRlimit:
		return limitAddresses(bytes)
	}
	return nil, fmt.Errorf("limit by %q: must be %s or %s", by, ByCgroup, ByRlimit)
}

// String says what limits.
func (l *Limit) String() string {
	switch {
	case l.By == ByRlimit:
		return "RLIMIT_AS: its address space may grow by so much"
	case l.group.Unified:
		return "a control group of version 2"
	default:
		return "a control group of version 1"
	}
}

// Used returns how many bytes of the limit are in use.
func (l *Limit) Used() (float64, error) {
	if l.By == ByCgroup {
		n, err := l.group.Used()
		return float64(n), err
	}
	now, err := addresses()
	return max(now-l.before, 0), err
}

// Level is the memory in use as a level of the limit.
func (l *Limit) Level() levels.Level {
	return levels.Level{Name: "memory", Limit: float64(l.Bytes), Read: l.Used}
}

// groupPrefix begins the names of the control groups that are made here. One whose server died is removed by the next.
const groupPrefix = "spillway-mailbox-"

func limitGroup(bytes int64) (*Limit, error) {
	own, err := levels.OwnGroup("/proc", "/sys/fs/cgroup")
	if err != nil {
		return nil, err
	}
	var errs []error
	// A group of version 2 that has processes cannot give limits to groups within it; then a sibling may do.
	for _, parent := range []string{own.Path, filepath.Dir(own.Path)} {
		l, err := limitBelow(parent, own, bytes)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
		if !own.Unified {
			break
		}
	}
	return nil, fmt.Errorf("no control group could be made: %w", errors.Join(errs...))
}

func limitBelow(parent string, own levels.Group, bytes int64) (_ *Limit, err error) {
	if old, err := filepath.Glob(filepath.Join(parent, groupPrefix+"*")); err == nil {
		for _, path := range old {
			_ = os.Remove(path) // refused while a process is in it
		}
	}
	path := filepath.Join(parent, groupPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, named(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	limit, swap := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	swapLimit := bytes // of both together
	if own.Unified {
		limit, swap, swapLimit = "memory.max", "memory.swap.max", 0
	}
	if err := write(path, limit, strconv.FormatInt(bytes, 10)); err != nil {
		return nil, err
	}
	_ = write(path, swap, strconv.FormatInt(swapLimit, 10)) // there is none where there is no swap
	if err := write(path, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return nil, err
	}
	return &Limit{Bytes: bytes, By: ByCgroup, group: levels.Group{Path: path, Unified: own.Unified}, from: own.Path}, nil
}

func write(folder, file, text string) error {
	return named(os.WriteFile(filepath.Join(folder, file), []byte(text), 0))
}

// named shortens an error about a file to its name.
func named(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", filepath.Base(pe.Path), pe.Err)
	}
	return err
}

// Close leaves the control group and removes it. It is for a server that ends in peace; the group of one that was killed is removed by the
// next that is started.
func (l *Limit) Close() error {
	if l.By != ByCgroup {
		return nil
	}
	return errors.Join(write(l.from, "cgroup.procs", strconv.Itoa(os.Getpid())), named(os.Remove(l.group.Path)))
}

// addresses returns the address space in use.
func addresses() (float64, error) {
	l, err := levels.Address(1)
	if err != nil {
		return 0, err
	}
	return l.Read()
}

func limitAddresses(bytes int64) (*Limit, error) {
	before, err := addresses()
	if err != nil {
		return nil, fmt.Errorf("RLIMIT_AS: %w", err)
	}
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &r); err != nil {
		return nil, fmt.Errorf("RLIMIT_AS: %w", err)
	}
	want := uint64(before) + uint64(bytes)
	if want > r.Cur {
		return nil, fmt.Errorf("RLIMIT_AS: this process may have %d bytes of addresses already, fewer than %d; raise ulimit -v, or ask for less", r.Cur, want)
	}
	r.Cur = want
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &r); err != nil {
		return nil, fmt.Errorf("RLIMIT_AS: %w", err)
	}
	return &Limit{Bytes: bytes, By: ByRlimit, before: before}, nil
}
