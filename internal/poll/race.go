//go:build linux && race

package poll

import (
	"runtime"
	"unsafe"
)

// raceEnabled says whether the race detector is compiled in. Its calls make some buffers escape to the heap.
const raceEnabled = true

// The race detector sees no access to memory that the kernel makes. These two tell it, as unix.Read and unix.Write do.

func raceWillRead(b []byte) {
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(&b[0]), len(b))
	}
}

func raceDidWrite(b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(&b[0]), len(b))
	}
}
