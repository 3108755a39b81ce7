//go:build linux

package levels

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RSS is the memory of this process that is in RAM, in bytes.
func RSS(limit int64) Level {
	return Level{Name: "rss", Limit: float64(limit), Read: func() (float64, error) { return statusBytes("VmRSS") }}
}

// Heap is what the last collection found alive on the Go heap, in bytes. What is in use between two collections goes up and down with
// them, which a controller should not follow.
func Heap(limit int64) Level {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	return Level{Name: "heap", Limit: float64(limit), Read: func() (float64, error) {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			return 0, errors.New("this Go runtime does not say what is alive on its heap")
		}
		return float64(sample[0].Value.Uint64()), nil
	}}
}

// Address is the address space of this process, in bytes; a limit of 0 stands for its RLIMIT_AS. A Go program reserves much more than it
// uses.
func Address(limit int64) (Level, error) {
	l := Level{Name: "address", Limit: float64(limit), Read: func() (float64, error) { return statusBytes("VmSize") }}
	if limit == 0 {
		var r syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_AS, &r); err != nil {
			return l, fmt.Errorf("level address: %w", err)
		}
		if r.Cur > math.MaxInt64 {
			return l, errors.New("level address: the address space of this process is not limited; give a limit, or set one with ulimit -v")
		}
		l.Limit = float64(r.Cur)
	}
	return l, nil
}

// Cgroup is the memory that the control group of this process uses, all its processes together, but for files that were read and can be
// forgotten; in bytes. A limit of 0 stands for that of the group.
func Cgroup(limit int64) (Level, error) {
	g, err := OwnGroup("/proc", "/sys/fs/cgroup")
	if err == nil && limit == 0 {
		limit, err = g.Limit()
	}
	if err != nil {
		return Level{}, fmt.Errorf("level cgroup: %w", err)
	}
	return Level{Name: "cgroup", Limit: float64(limit), Read: func() (float64, error) {
		n, err := g.Used()
		return float64(n), err
	}}, nil
}

// Pressure is the share of the last ten seconds in which some process had to wait for memory (PSI), 0 to 1: of the control group where it
// says so, otherwise of the whole system.
func Pressure(limit float64) (Level, error) {
	paths := []string{"/proc/pressure/memory"}
	if g, err := OwnGroup("/proc", "/sys/fs/cgroup"); err == nil && g.Unified {
		paths = []string{g.Path + "/memory.pressure", paths[0]}
	}
	var err error
	for _, path := range paths {
		if _, err = readPressure(path); err == nil {
			return Level{Name: "psi", Limit: limit, Read: func() (float64, error) { return readPressure(path) }}, nil
		}
	}
	return Level{}, fmt.Errorf("level psi: this kernel does not tell how processes wait for memory (CONFIG_PSI, or psi=1 at boot): %w", err)
}

// Files is the number of files that this process has open. A limit of 0 stands for how many it may have open (ulimit -n).
func Files(limit int) (Level, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return Level{}, fmt.Errorf("level files: %w", err)
	}
	if limit == 0 {
		limit = int(min(r.Cur, math.MaxInt32))
	}
	return Level{Name: "files", Limit: float64(limit), Read: openFiles}, nil
}

// openFiles counts the entries of /proc/self/fd, less the one that is open for counting.
func openFiles() (float64, error) {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	return float64(len(names) - 1), err
}

// CPU is the share of the processor time that this process may use and does use, 0 to 1: of its cores, or of the quota of its control
// group where that is less.
func CPU(limit float64) Level {
	cores := float64(runtime.NumCPU())
	if g, err := OwnGroup("/proc", "/sys/fs/cgroup"); err == nil {
		if quota, err := g.CPUs(); err == nil {
			cores = min(cores, quota)
		}
	}
	return Level{Name: "cpu", Limit: limit, Read: Rate(func() (float64, error) {
		var u syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds() / cores, err
	})}
}

// Pool is a pool of which read says how much is in use and how large it is: workers, connections to a database. The size may change.
func Pool(name string, read func() (used, size int)) Level {
	return Level{Name: name, Limit: 1, Read: func() (float64, error) {
		used, size := read()
		if size <= 0 {
			return 0, errors.New("the pool has no size")
		}
		return float64(used) / float64(size), nil
	}}
}

// Rate turns a counter that only grows into a Gauge of its growth a second, for processor time or bytes that a memory bus has moved. Its first
// reading is 0.
func Rate(counter Gauge) Gauge {
	var last, rate float64
	var at time.Time
	return func() (float64, error) {
		n, err := counter()
		now := time.Now()
		if err != nil {
			return 0, err
		}
		if span := now.Sub(at).Seconds(); !at.IsZero() && span > 0 {
			rate = max(n-last, 0) / span
		}
		last, at = n, now
		return rate, nil
	}
}

// statusBytes returns a figure of /proc/self/status that is in kB, as bytes.
func statusBytes(key string) (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	return parseStatus(text, key)
}

func parseStatus(text []byte, key string) (float64, error) {
	fields, err := lineOf(text, key+":")
	if err != nil {
		return 0, err
	}
	if len(fields) != 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("%s is %q, not a number of kB", key, fields)
	}
	n, err := strconv.ParseUint(fields[0], 10, 53)
	return float64(n) * 1024, err
}

func readPressure(path string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return parsePressure(text)
}

// parsePressure returns the share of the last ten seconds in which some process stalled.
func parsePressure(text []byte) (float64, error) {
	fields, err := lineOf(text, "some")
	if err != nil {
		return 0, err
	}
	for _, f := range fields {
		if percent, ok := strings.CutPrefix(f, "avg10="); ok {
			v, err := strconv.ParseFloat(percent, 64)
			return v / 100, err
		}
	}
	return 0, errors.New("there is no avg10 in the line of some")
}
