//go:build linux

package calibrate

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"spillway/counters"
	"spillway/internal/kernels"
)

// region is memory outside the Go heap, for one stream.
type region struct {
	raw   []byte
	words []uint64
}

// newRegion maps memory and writes all of it on the calling thread, so that it lies at the node that the thread runs on and is not the page of
// zeros. Large pages are asked for: walks through page tables are not what is to be measured.
func newRegion(size int64) (*region, error) {
	size = max(size/chunkBytes, 1) * chunkBytes
	raw, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory for a stream: %w", size, err)
	}
	_ = unix.Madvise(raw, unix.MADV_HUGEPAGE) // where there are none, small ones do
	r := &region{raw: raw, words: unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), size/kernels.WordBytes)}
	kernels.Touch(r.words)
	return r, nil
}

func (r *region) close() error {
	raw := r.raw
	r.raw, r.words = nil, nil
	return unix.Munmap(raw)
}

// chunks returns how many there are.
func (r *region) chunks() int { return len(r.raw) / chunkBytes }

// chunk returns the i-th.
func (r *region) chunk(i int) []uint64 {
	const words = chunkBytes / kernels.WordBytes
	return r.words[i*words:][:words]
}

// regionBytes returns how much memory each of so many streams goes over: four times the last-level cache, but all together no more than a quarter of
// what is free. small says that this is less than two of the caches, so that some of the reads may hit.
func regionBytes(m *counters.Machine, streams int) (size int64, small bool) {
	size = counters.StreamSize(m)
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		free := int64((uint64(info.Freeram) + uint64(info.Bufferram)) * uint64(info.Unit))
		size = min(size, max(free/4/int64(max(streams, 1)), 4*chunkBytes))
	}
	llc, known := m.Root.LLC()
	return size, known && size*int64(streams) < 2*llc.Bytes
}

// allowed returns the processors that this process may run on.
func allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("which processors this process may use: %w", err)
	}
	var list []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// pin ties the calling goroutine to a thread and the thread to a processor, for as long as the goroutine lives: the thread ends with it.
func pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("a thread on processor %d: %w", cpu, err)
	}
	return nil
}
