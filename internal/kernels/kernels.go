//go:build linux

// Package kernels has the inner loops that keep a core or the memory bus busy: a chain of operations, and ways of going over memory whose bytes across the
// bus are known. What is calibrated with them is what refserver synthetic does for its requests, since both run the same code.
package kernels

import "unsafe"

// The sizes that everything here is counted in.
const (
	LineBytes = 64 // of a cache line
	WordBytes = 8
	LineWords = LineBytes / WordBytes
)

// Traffic is how many bytes cross the memory bus for each byte that a program names, where no cache holds what it works on.
//
// An ordinary store that misses brings its line in first (write allocation) and sends it back later: two bytes for one. A store past the caches
// (non-temporal) sends whole lines only. Processors that notice whole lines being written save some of the reads by themselves, Intel's since Ice
// Lake and AMD's in their write-combining buffers, so with ordinary stores the factor is an upper bound; that is why peak bandwidth is measured
// with the others, where the bytes moved are known.
type Traffic struct {
	Read, Written float64
}

// Total returns the bytes that cross the bus for each byte of the program.
func (t Traffic) Total() float64 { return t.Read + t.Written }

// Kernel is one way of going over memory.
type Kernel struct {
	Name    string
	Traffic Traffic
	Exact   bool // Traffic is known; otherwise it is the most that it can be
	Copies  bool // it goes over other memory too, as much again
	run     func(at, other []uint64)
}

// Run goes over the words at once, whole lines of them that begin at a multiple of 16 bytes. Kernels that copy write them from other, which is as long.
func (k *Kernel) Run(at, other []uint64) {
	if len(at) > 0 {
		k.run(at, other)
	}
}

// The kernels. A read touches every line once: what the loads of the rest of a line cost is a core's affair and not that of the bus.
var (
	Read  = Kernel{Name: "read", Traffic: Traffic{Read: 1}, Exact: true, run: func(at, _ []uint64) { sink(readLines(at)) }}
	Write = Kernel{Name: "write", Traffic: storeTraffic(), Exact: nonTemporal, run: func(at, _ []uint64) {
		storeLines(&at[0], len(at)/LineWords, filler)
	}}
	Copy = Kernel{Name: "copy", Traffic: copyTraffic(), Exact: nonTemporal, Copies: true, run: func(at, other []uint64) {
		copyLines(&at[0], &other[0], len(at)/LineWords)
	}}
	// Store writes as programs usually do.
	Store = Kernel{Name: "store", Traffic: Traffic{Read: 1, Written: 1}, run: func(at, _ []uint64) { plainStore(&at[0], len(at)/LineWords, filler) }}
)

func storeTraffic() Traffic {
	if nonTemporal {
		return Traffic{Written: 1}
	}
	return Traffic{Read: 1, Written: 1}
}

func copyTraffic() Traffic {
	t := storeTraffic()
	t.Read++
	return t
}

// Touch writes to every word of at by ordinary stores: memory that never was written to is one and the same page of zeros, which stays in the cache.
func Touch(at []uint64) {
	if len(at) > 0 {
		plainStore(&at[0], len(at)/LineWords, filler)
	}
}

// filler is what is stored. It is not zero, which the compiler would turn into another instruction.
const filler = 0x0101010101010101

// readLines loads a word of every line.
//
//go:noinline
func readLines(w []uint64) (sum uint64) {
	for i := 0; i < len(w); i += LineWords {
		sum += w[i]
	}
	return sum
}

// plainStore and plainCopy are what storeLines and copyLines do, by ordinary stores. Streams of several goroutines may go over the same memory, whose
// contents mean nothing; the race detector, which does not see what assembly stores either, is told to look away.
//
//go:noinline
//go:norace
func plainStore(dst *uint64, lines int, value uint64) {
	w := unsafe.Slice(dst, lines*LineWords)
	for i := range w {
		w[i] = value
	}
}

//go:noinline
func plainCopy(dst, src *uint64, lines int) {
	d, s := unsafe.Slice(dst, lines*LineWords), unsafe.Slice(src, lines*LineWords)
	for i := range d {
		d[i] = s[i]
	}
}

// sink keeps a result from being optimised away together with what it was made from.
//
//go:noinline
func sink(uint64) {}

// Spin is a chain of operations of which each needs the one before (Marsaglia's xorshift), so that its time depends on nothing but the clock rate of the
// core.
//
//go:noinline
func Spin(turns uint64) uint64 {
	x := turns | 1
	for range turns {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
