//go:build linux

// Package pressure says how hard a machine and a process are pressed, from what the kernel and the Go runtime count anyway: processors and
// what a hypervisor takes of them, waiting for a processor, throttling, stalls, goroutines, garbage collection, power.
//
// A gauge gives the values of the window since it was last read. What it does not know is NaN. Reading one allocates nothing and opens no file.
package pressure

import (
	"fmt"
	"math"
	"os"
	"time"

	"spillway/clock"
	"spillway/counters/sysfs"
)

// Column is one value of a gauge.
type Column struct{ Name, Unit string }

// Gauge is one source of values. It is for one goroutine at a time.
type Gauge interface {
	Columns() []Column
	// MinPeriod is the shortest window that says something, or that is worth its cost.
	MinPeriod() time.Duration
	// Sample fills dst, which has a place for each column, with the values of the window that ends now.
	Sample(now clock.Instant, dst []float64)
	Close() error
}

// Absent is a gauge that this machine does not have.
type Absent struct {
	Name   string
	Reason error
}

// Open opens every gauge that the machine has, and says why for those that it has not.
func Open(root sysfs.Root) (list []Gauge, absent []Absent) {
	for _, g := range []struct {
		name string
		open func(sysfs.Root) (Gauge, error)
	}{
		{"cpu", NewCPU},
		{"process", NewProcess},
		{"run queues", NewRunQueues},
		{"throttling", NewThrottling},
		{"stalls", NewStalls},
		{"go", NewGo},
		{"power", NewPower},
	} {
		gauge, err := g.open(root)
		if err != nil {
			absent = append(absent, Absent{g.name, err})
			continue
		}
		list = append(list, gauge)
	}
	return list, absent
}

// base is what gauges have in common.
type base struct {
	columns []Column
	period  time.Duration
	last    clock.Instant
	primed  bool
}

// Columns implements Gauge.
func (b *base) Columns() []Column { return b.columns }

// MinPeriod implements Gauge.
func (b *base) MinPeriod() time.Duration { return b.period }

// window returns the seconds since the last sample, NaN at the first one, and makes all of dst unknown.
func (b *base) window(now clock.Instant, dst []float64) float64 {
	for i := range dst {
		dst[i] = math.NaN()
	}
	seconds := now.Sub(b.last).Seconds()
	if !b.primed || seconds <= 0 {
		seconds = math.NaN()
	}
	b.last, b.primed = now, true
	return seconds
}

// counter is a number that only grows. Its first value, and one that is smaller than that before, begin it again.
type counter struct {
	value float64
	known bool
}

// advance returns by how much the counter has grown, NaN when it began again or is not known now.
func (c *counter) advance(value float64) float64 {
	d := value - c.value
	if !c.known || !(d >= 0) {
		d = math.NaN()
	}
	c.value, c.known = value, !math.IsNaN(value)
	return d
}

// file is kept open and read from its beginning each time.
type file struct {
	f   *os.File
	buf []byte
}

// open opens a file that is read for its first size bytes.
func open(root sysfs.Root, path string, size int) (*file, error) {
	f, err := os.Open(root.Path(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	return &file{f: f, buf: make([]byte, size)}, nil
}

// cause returns the error without the path, which on a fixture is not that of the file meant.
func cause(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// read returns the content, nil if there is none to be had.
func (f *file) read() []byte {
	n, err := f.f.ReadAt(f.buf, 0)
	if n == 0 && err != nil {
		return nil
	}
	return f.buf[:n]
}

func (f *file) close() error { return f.f.Close() }
