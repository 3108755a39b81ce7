//go:build linux

package counters

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of the memory that our own streams go over: several times the cache, so that nothing is read twice while the cache still has it.
const (
	streamMin    = 64 << 20
	streamMax    = 512 << 20
	cachesDeep   = 4
	unknownCache = 16 << 20 // where the kernel does not describe it
	chunk        = 256 << 10
)

// StreamSize returns how much memory a stream on this machine has to go over so that no cache holds it, bounded by an eighth of what is free.
func StreamSize(m *Machine) int64 {
	size := int64(unknownCache)
	if c, ok := m.Root.LLC(); ok {
		size = c.Bytes
	}
	size = min(max(cachesDeep*size, streamMin), streamMax)
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		free := (uint64(info.Freeram) + uint64(info.Bufferram)) * uint64(info.Unit)
		size = min(size, max(int64(free/8), chunk*4))
	}
	return size &^ (chunk - 1)
}

// Memory is a stretch of memory outside the Go heap that has been written, so that reading it reads memory and not the page of zeros.
type Memory struct {
	raw   []byte
	words []uint64
}

// NewMemory maps and touches memory; size is rounded up to whole pages.
func NewMemory(size int64) (*Memory, error) {
	m, err := mapped(size)
	if err != nil {
		return nil, err
	}
	m.touch()
	return m, nil
}

// touch writes all of it.
func (m *Memory) touch() {
	for i := range m.words {
		m.words[i] = uint64(i)
	}
}

// mapped maps memory, which nobody has written yet.
func mapped(size int64) (*Memory, error) {
	page := int64(unix.Getpagesize())
	size = (max(size, page) + page - 1) / page * page
	raw, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("counters: %d bytes of memory: %w", size, err)
	}
	// Large pages spare the walks through page tables, which would be measured too. Where there are none, small ones do.
	_ = unix.Madvise(raw, unix.MADV_HUGEPAGE)
	return &Memory{raw: raw, words: unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), size/8)}, nil
}

// Bytes returns how much there is.
func (m *Memory) Bytes() int64 { return int64(len(m.raw)) }

// Close gives the memory back.
func (m *Memory) Close() error {
	if m.raw == nil {
		return nil
	}
	raw := m.raw
	m.raw, m.words = nil, nil
	return unix.Munmap(raw)
}

// Stream reads memory from its beginning to its end and again.
type Stream struct {
	memory *Memory
	next   int // word
	sum    uint64
}

// NewStream returns a stream over memory that has been written.
func NewStream(m *Memory) *Stream { return &Stream{memory: m} }

// Read reads so many bytes onwards, in words of eight.
func (s *Stream) Read(bytes int64) {
	for words := int(bytes / 8); words > 0; {
		n := min(words, len(s.memory.words)-s.next)
		s.sum += sum(s.memory.words[s.next : s.next+n])
		words -= n
		if s.next += n; s.next == len(s.memory.words) {
			s.next = 0
		}
	}
}

// sum adds words up on four independent chains, so that the loads and not the additions are what takes time.
func sum(w []uint64) uint64 {
	var a, b, c, d uint64
	for len(w) >= 8 {
		a += w[0] + w[4]
		b += w[1] + w[5]
		c += w[2] + w[6]
		d += w[3] + w[7]
		w = w[8:]
	}
	for _, v := range w {
		a += v
	}
	return a + b + c + d
}

// Load is a stream that runs while something else is being observed.
type Load struct {
	Stream  *Stream
	Lane    *Lane   // credits what is read; nil: nobody does
	Region  *Region // of the stream's memory; with Lane
	Duty    float64 // share of each Period in which it reads: 1 is always
	Period  time.Duration
	Machine *Machine
}

// Run reads for d, or until ctx is done, and returns how many bytes it read.
func (l *Load) Run(ctx context.Context, d time.Duration) (bytes int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	clock := l.Machine.Clock
	for end := clock.Now().Add(d); clock.Now() < end && ctx.Err() == nil; {
		from := clock.Now()
		until := from.Add(time.Duration(l.Duty * float64(l.Period)))
		for now := from; now < until && now < end && ctx.Err() == nil; now = clock.Now() {
			bytes += l.scan()
		}
		if rest := from.Add(l.Period).Sub(clock.Now()); l.Duty < 1 && rest > 0 {
			l.Machine.Wait(ctx, rest)
		}
	}
	return bytes
}

// scanChunks is how many chunks are one scan. Asking for the processor time of a thread twice takes about as long as reading a tenth of a chunk.
const scanChunks = 4

// scan reads some chunks, and credits each.
func (l *Load) scan() int64 {
	if l.Lane != nil {
		l.Lane.Begin()
		defer l.Lane.End()
	}
	for range scanChunks {
		l.Stream.Read(chunk)
		if l.Lane != nil {
			l.Lane.Credit(l.Region, UseRead, chunk, chunk)
		}
	}
	return scanChunks * chunk
}
