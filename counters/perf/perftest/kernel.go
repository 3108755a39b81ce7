//go:build linux

// Package perftest has a kernel that counts what a test says, for tests of what reads counters.
package perftest

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"spillway/counters/perf"
)

// Count is what one event shows at one reading.
type Count struct{ Value, Enabled, Running uint64 }

// Kernel implements perf.Kernel by a script.
type Kernel struct {
	// Refuse returns why an event cannot be opened; nil: all can.
	Refuse func(a perf.Attr) error
	// At returns what an event shows now.
	At func(a perf.Attr) Count
	// Fail returns how a reading of the group of a fails; handled is false where it does not. nil: none does.
	Fail func(a perf.Attr, p []byte) (n int, err error, handled bool)

	mu     sync.Mutex
	events map[int]*event
	next   int
	// Opened are all events that were ever opened, in order.
	Opened []perf.Attr
}

type event struct {
	attr    perf.Attr
	members []int // of a leader, itself included
}

// Open implements perf.Kernel.
func (k *Kernel) Open(a *perf.Attr, leader int) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Refuse != nil {
		if err := k.Refuse(*a); err != nil {
			return -1, err
		}
	}
	if k.events == nil {
		k.events, k.next = map[int]*event{}, 100
	}
	fd := k.next
	k.next++
	k.events[fd] = &event{attr: *a}
	if leader < 0 {
		leader = fd
	}
	k.events[leader].members = append(k.events[leader].members, fd)
	k.Opened = append(k.Opened, *a)
	return fd, nil
}

// Read implements perf.Kernel.
func (k *Kernel) Read(fd int, p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.events[fd]
	if e == nil {
		return -1, unix.EBADF
	}
	if k.Fail != nil {
		if n, err, handled := k.Fail(e.attr, p); handled {
			return n, err
		}
	}
	need := 8 * (3 + len(e.members))
	if len(p) < need {
		return -1, unix.ENOSPC
	}
	put := func(i int, v uint64) { binary.NativeEndian.PutUint64(p[8*i:], v) }
	first := k.At(e.attr)
	put(0, uint64(len(e.members)))
	put(1, first.Enabled)
	put(2, first.Running)
	for i, fd := range e.members {
		put(3+i, k.At(k.events[fd].attr).Value)
	}
	return need, nil
}

// Close implements perf.Kernel.
func (k *Kernel) Close(fd int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.events[fd] == nil {
		return unix.EBADF
	}
	delete(k.events, fd)
	return nil
}

// Left returns how many events are open.
func (k *Kernel) Left() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.events)
}
