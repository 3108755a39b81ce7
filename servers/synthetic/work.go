//go:build linux

package synthetic

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"spillway/internal/kernels"
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
		runtime.KeepAlive(kernels.Spin(calibrationTurns))
		best = min(best, time.Since(began))
	}
	return spinner{perNS: calibrationTurns / float64(max(best, 1))}
}

func (s spinner) run(d time.Duration) {
	runtime.KeepAlive(kernels.Spin(uint64(float64(d) * s.perNS)))
}

// Streams says how the bytes of a stream cross the memory bus.
type Streams int

// Streams of either kind move as many bytes over the bus as a request names, whatever cache holds.
const (
	// Stored bytes are written past the caches (MOVNTDQ), as those of the published experiments are: each byte that the program writes is one byte on
	// the bus. Where there is no such path (any processor but amd64) stores are ordinary: a line is read before it is written, two bytes on the bus for
	// each of the program, at most; the program then writes half as many.
	Stored Streams = iota
	// Loaded bytes are read: one of each line is touched, and a line crosses the bus. This is what loadgen calibrate takes the bandwidth of a machine from.
	Loaded
)

// kernel returns what goes over memory.
func (s Streams) kernel() *kernels.Kernel {
	if s == Loaded {
		return &kernels.Read
	}
	return &kernels.Write
}

// stream moves bytes between memory and a core. All requests share one buffer and go through it one after the other, so a byte comes back only
// after the whole buffer, which no cache holds, has passed.
type stream struct {
	raw    []byte
	words  []uint64
	kernel *kernels.Kernel
	perBus float64 // bytes of the program for each that is to cross the bus
	cursor atomic.Uint64
}

// sliceBytes is what a stream moves before it is accounted for, and looks at the clock if its rate is limited.
const sliceBytes = 16 << 10

func newStream(size int64, how Streams) (*stream, error) {
	size = max(size/sliceBytes, 1) * sliceBytes
	raw, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	// In large pages where there are any, as loadgen calibrate has them: walks through page tables are not what a stream stands for.
	_ = syscall.Madvise(raw, syscall.MADV_HUGEPAGE)
	s := &stream{raw: raw, words: unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), size/kernels.WordBytes), kernel: how.kernel()}
	s.perBus = 1 / s.kernel.Traffic.Total()
	kernels.Touch(s.words)
	return s, nil
}

func (s *stream) close() error {
	raw := s.raw
	s.raw, s.words = nil, nil
	return syscall.Munmap(raw)
}

// move has n bytes cross the memory bus, at no more than rate bytes per second; 0 is as fast as it goes. They are added to account slice by slice:
// whoever looks at it every few microseconds must see a long stream while it moves, and not all of it at its end. The last slice goes over whole lines.
func (s *stream) move(n int64, rate float64, account *atomic.Uint64) {
	const sliceWords = sliceBytes / kernels.WordBytes
	began, moved := time.Time{}, int64(0)
	if rate > 0 {
		began = time.Now()
	}
	for moved < n {
		// Whole slices, so that every request begins at the start of a cache line.
		at := (s.cursor.Add(1) - 1) % uint64(len(s.words)/sliceWords)
		piece := min(int64(sliceBytes/s.perBus), n-moved) // on the bus
		lines := (int64(math.Ceil(float64(piece)*s.perBus)) + kernels.LineBytes - 1) / kernels.LineBytes
		s.kernel.Run(s.words[at*sliceWords:][:lines*kernels.LineWords], nil)
		moved += piece
		account.Add(uint64(piece))
		if rate > 0 {
			for due := time.Duration(float64(moved) / rate * 1e9); time.Since(began) < due; {
				runtime.KeepAlive(kernels.Spin(pauseTurns))
			}
		}
	}
}

// pauseTurns are what a stream whose rate is limited waits between two looks at the clock.
const pauseTurns = 64

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
