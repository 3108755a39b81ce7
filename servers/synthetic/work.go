//go:build linux

package synthetic

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// spinner computes for a given time without looking at a clock: a clock read in the loop would be a good part of short work, and a core
// that is lent to somebody else in between must not count as work done.
type spinner struct {
	perNS float64 // turns of the loop in a nanosecond
}

const (
	calibrations     = 20
	calibrationTurns = 50_000 // about a hundred microseconds
)

// calibrate measures the loop. The fastest of several times is the one that was disturbed least.
func calibrate() spinner {
	best := time.Duration(1<<63 - 1)
	for range calibrations {
		began := time.Now()
		runtime.KeepAlive(spin(calibrationTurns))
		best = min(best, time.Since(began))
	}
	return spinner{perNS: calibrationTurns / float64(max(best, 1))}
}

func (s spinner) run(d time.Duration) {
	runtime.KeepAlive(spin(uint64(float64(d) * s.perNS)))
}

// spin is a chain of operations of which each needs the one before (Marsaglia's xorshift), so that its time depends on nothing but
// the clock rate of the core.
//
//go:noinline
func spin(turns uint64) uint64 {
	x := turns | 1
	for range turns {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// stream moves bytes from memory to a core. All requests share one buffer and go through it one after the other, so a byte comes back only
// after the whole buffer, which no cache holds, has passed.
type stream struct {
	buffer []byte
	cursor atomic.Uint64
}

const (
	lineBytes = 64
	// sliceBytes is what a stream of a limited rate moves before it looks at the clock.
	sliceBytes = 16 << 10
)

func newStream(size int64) (*stream, error) {
	size = max(size/sliceBytes, 1) * sliceBytes
	buffer, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	// In large pages where there are any, as loadgen calibrate has them: walks through page tables are not what a stream stands for.
	_ = syscall.Madvise(buffer, syscall.MADV_HUGEPAGE)
	// Written to, since pages that never were are all one and the same page of zeros, which stays in the cache.
	for i := 0; i < len(buffer); i += lineBytes {
		buffer[i] = 1
	}
	return &stream{buffer: buffer}, nil
}

func (s *stream) close() error {
	buffer := s.buffer
	s.buffer = nil
	return syscall.Munmap(buffer)
}

// move reads n bytes at no more than rate bytes per second; 0 is as fast as it goes. They are added to account slice by slice: whoever
// looks at it every few microseconds must see a long stream while it moves, and not all of it at its end.
func (s *stream) move(n int64, rate float64, account *atomic.Uint64) {
	var sum uint64
	began, moved := time.Time{}, int64(0)
	if rate > 0 {
		began = time.Now()
	}
	for moved < n {
		// Whole slices, so that every request begins at the start of a cache line.
		at := s.cursor.Add(sliceBytes) - sliceBytes
		piece := s.buffer[at%uint64(len(s.buffer)):][:min(sliceBytes, n-moved)]
		sum += readThrough(piece)
		moved += int64(len(piece))
		account.Add(uint64(len(piece)))
		if rate > 0 {
			for due := time.Duration(float64(moved) / rate * 1e9); time.Since(began) < due; {
				runtime.KeepAlive(spin(lineBytes))
			}
		}
	}
	runtime.KeepAlive(sum)
}

// readThrough loads a byte of every cache line of v.
//
//go:noinline
func readThrough(v []byte) (sum uint64) {
	for i := 0; i < len(v); i += lineBytes {
		sum += uint64(v[i])
	}
	return sum
}

// fallbackCache stands for the largest cache where the system does not tell.
const fallbackCache = 64 << 20

// largestCache returns the size of the first core's largest cache.
func largestCache() int64 {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*/size")
	largest := int64(0)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		largest = max(largest, parseCache(strings.TrimSpace(string(text))))
	}
	if largest == 0 {
		return fallbackCache
	}
	return largest
}

// parseCache reads a size as sysfs has it, such as 32768K; 0 if it is none.
func parseCache(text string) int64 {
	unit := int64(1)
	for suffix, size := range map[string]int64{"K": 1 << 10, "M": 1 << 20} {
		if head, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = head, size
		}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}
