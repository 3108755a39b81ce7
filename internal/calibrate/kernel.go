//go:build linux

package calibrate

import "unsafe"

// The sizes that everything here is counted in.
const (
	lineBytes  = 64
	wordBytes  = 8
	lineWords  = lineBytes / wordBytes
	chunkBytes = 256 << 10 // what a stream does between two looks at whether it shall stop
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
	Exact   bool                     // Traffic is known; otherwise it is the most that it can be
	run     func(at, other []uint64) // both of a chunk; other is for kernels that copy
	copies  bool
}

// The kernels. A read touches every line once, as servers/synthetic does: what the loads of the rest of a line cost is a core's affair and
// not that of the bus.
var (
	Read  = Kernel{Name: "read", Traffic: Traffic{Read: 1}, Exact: true, run: func(at, _ []uint64) { sink(readLines(at)) }}
	Write = Kernel{Name: "write", Traffic: storeTraffic(), Exact: nonTemporal, run: func(at, _ []uint64) {
		storeLines(&at[0], len(at)/lineWords, filler)
	}}
	Copy = Kernel{Name: "copy", Traffic: copyTraffic(), Exact: nonTemporal, copies: true, run: func(at, other []uint64) {
		copyLines(&at[0], &other[0], len(at)/lineWords)
	}}
	// Store writes as programs usually do.
	Store = Kernel{Name: "store", Traffic: Traffic{Read: 1, Written: 1}, run: func(at, _ []uint64) { plainStore(&at[0], len(at)/lineWords, filler) }}
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

// filler is what is stored. It is not zero, which the compiler would turn into another instruction.
const filler = 0x0101010101010101

// readLines loads a word of every line.
//
//go:noinline
func readLines(w []uint64) (sum uint64) {
	for i := 0; i < len(w); i += lineWords {
		sum += w[i]
	}
	return sum
}

// plainStore and plainCopy are what storeLines and copyLines do, by ordinary stores.
//
//go:noinline
func plainStore(dst *uint64, lines int, value uint64) {
	w := unsafe.Slice(dst, lines*lineWords)
	for i := range w {
		w[i] = value
	}
}

//go:noinline
func plainCopy(dst, src *uint64, lines int) {
	d, s := unsafe.Slice(dst, lines*lineWords), unsafe.Slice(src, lines*lineWords)
	for i := range d {
		d[i] = s[i]
	}
}

// sink keeps a result from being optimised away together with what it was made from.
//
//go:noinline
func sink(uint64) {}
