//go:build linux

// Package perf counts events with perf_event_open(2), without cgo: events of one PMU on one CPU in a group, windows between readings instead
// of totals, and no number where the kernel has none.
//
// What makes a figure of perf wrong by a factor is kept in sight. Events that took turns on too few counters are scaled within each window, and
// flagged; a window in which an event never ran has no value. A count that jumps back is a reset and not a gain.
package perf

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Types of PMU that every kernel has.
const (
	TypeHardware = unix.PERF_TYPE_HARDWARE
	TypeSoftware = unix.PERF_TYPE_SOFTWARE
	TypeHWCache  = unix.PERF_TYPE_HW_CACHE
)

// Attr is one event on one CPU, counted for all that runs there.
type Attr struct {
	Type                     uint32
	Config, Config1, Config2 uint64
	CPU                      int
	// Pinned events fail loudly (ErrNotCounting) instead of taking turns with others.
	Pinned bool
}

// Kernel is the system calls that counting takes. Read fills p with what the format GROUP | TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING says.
type Kernel interface {
	// Open opens an event in the group of leader, or as the leader of a new one when that is -1.
	Open(a *Attr, leader int) (fd int, err error)
	Read(fd int, p []byte) (n int, err error)
	Close(fd int) error
}

// readFormat is that of every event: one reading of a group is one system call and one instant.
const readFormat = unix.PERF_FORMAT_GROUP | unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING

// Host is the kernel of this machine.
type Host struct{}

// Open implements Kernel. No exclude bit is ever set: PMUs of an uncore cannot tell who caused their traffic and refuse with EINVAL.
func (Host) Open(a *Attr, leader int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: a.Type, Config: a.Config, Ext1: a.Config1, Ext2: a.Config2,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Read_format: readFormat,
	}
	if a.Pinned && leader < 0 { // the members of a group are where their leader is
		attr.Bits |= unix.PerfBitPinned
	}
	const everyone = -1
	return unix.PerfEventOpen(&attr, everyone, a.CPU, leader, unix.PERF_FLAG_FD_CLOEXEC)
}

// Read implements Kernel.
func (Host) Read(fd int, p []byte) (int, error) { return unix.Read(fd, p) }

// Close implements Kernel.
func (Host) Close(fd int) error { return unix.Close(fd) }

// maxEvents bounds the events of one group; PMUs have 4 to 8 counters.
const maxEvents = 8

// Errors of Group.Read.
var (
	// ErrNotCounting says that a pinned event found no free counter.
	ErrNotCounting = errors.New("perf: no counter is free for a pinned event")
	// ErrShort says that the kernel gave fewer bytes than it should have.
	ErrShort = errors.New("perf: short read")
)

// Group is events that are counted together and read at once. It is for one goroutine at a time.
type Group struct {
	kernel  Kernel
	fds     []int // the first is the leader
	buf     []byte
	width   int // bits of the counts
	stuck   uint64
	primed  bool
	enabled uint64
	running uint64
	values  [maxEvents]uint64
}

// Open opens events as one group on one CPU. width is the number of bits after which the counts wrap; what the kernel counts itself has 64.
func Open(k Kernel, attrs []Attr, width int) (*Group, error) {
	if len(attrs) == 0 || len(attrs) > maxEvents || width < 1 || width > 64 {
		return nil, fmt.Errorf("perf: a group of %d events of %d bits", len(attrs), width)
	}
	g := &Group{kernel: k, width: width, buf: make([]byte, 8*(3+len(attrs)))}
	for i := range attrs {
		leader := -1
		if i > 0 {
			leader = g.fds[0]
		}
		fd, err := k.Open(&attrs[i], leader)
		if err != nil {
			_ = g.Close()
			return nil, err
		}
		g.fds = append(g.fds, fd)
	}
	return g, nil
}

// SaturateAt says that the hardware stops at its largest value of so many bits instead of wrapping, and that the kernel does not help it out. A
// count that stands exactly there has no value.
func (g *Group) SaturateAt(bits int) { g.stuck = 1<<bits - 1 }

// Close stops counting.
func (g *Group) Close() error {
	var first error
	for i := len(g.fds) - 1; i >= 0; i-- { // the leader last, else the others become leaders of their own
		if err := g.kernel.Close(g.fds[i]); err != nil && first == nil {
			first = err
		}
	}
	g.fds = nil
	return first
}

// Window is what a group counted between two readings.
type Window struct {
	Enabled uint64 // ns that it was meant to count
	Running uint64 // ns that it counted
	Flags   Flags
}

// Flags say how far a window may be believed.
type Flags uint8

// The flags of a window.
const (
	None        Flags = 1 << iota // there is no value: first reading, nothing ran, or times went backwards
	Multiplexed                   // the events took turns with others, and values are scaled up
	Reset                         // a count went back and began again
	Wrapped                       // a count passed its largest value
	Saturated                     // a count stands at its largest value, as if it could go no further
)

// Read fills dst, which has a place for each event, with how much each counted since the last reading, scaled up to the whole window. What has no
// value is NaN. It does not allocate.
func (g *Group) Read(dst []float64) (Window, error) {
	for i := range dst {
		dst[i] = nan
	}
	if len(g.fds) == 0 {
		return Window{Flags: None}, unix.EBADF
	}
	n, err := g.kernel.Read(g.fds[0], g.buf)
	for err == unix.EINTR {
		n, err = g.kernel.Read(g.fds[0], g.buf)
	}
	switch {
	case err != nil:
		g.primed = false
		return Window{Flags: None}, err
	case n == 0:
		g.primed = false
		return Window{Flags: None}, ErrNotCounting
	case n != len(g.buf) || word(g.buf, 0) != uint64(len(g.fds)):
		g.primed = false
		return Window{Flags: None}, ErrShort
	}
	return g.advance(dst), nil
}

// advance moves on to the reading in buf and returns what lies between it and the one before.
func (g *Group) advance(dst []float64) (w Window) {
	enabled, running := word(g.buf, 1), word(g.buf, 2)
	backwards := enabled < g.enabled || running < g.running
	w.Enabled, w.Running = enabled-g.enabled, running-g.running
	counts := g.primed && !backwards && w.Running > 0
	if !counts {
		w.Flags |= None
		if g.primed && backwards {
			w.Flags |= Reset
			w.Enabled, w.Running = 0, 0
		}
	}
	scale := 1.0
	// Some kernels update the two times a few nanoseconds apart.
	if counts && float64(w.Running) < 0.999*float64(w.Enabled) {
		w.Flags |= Multiplexed
		scale = float64(w.Enabled) / float64(w.Running)
	}
	for i := range g.fds {
		value := word(g.buf, 3+i)
		if counts {
			d, change := Delta(g.values[i], value, g.width)
			if g.stuck != 0 && value == g.stuck && d == 0 {
				change = Saturated
			}
			w.Flags |= change
			if change&(Reset|Saturated) == 0 && i < len(dst) {
				dst[i] = float64(d) * scale
			}
		}
		g.values[i] = value
	}
	g.enabled, g.running, g.primed = enabled, running, true
	return w
}

// word returns the i-th word of a reading.
func word(p []byte, i int) uint64 { return *(*uint64)(unsafe.Pointer(&p[8*i])) }
