//go:build linux

package cache

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PageBytes is the unit in which shards take memory. It is small, so that a cache of 64 MiB has enough pages for every shard and
// size class, and large against the chunks it is cut into.
const PageBytes = 64 << 10

// ref is the position of a chunk in the arena; 0 is none, which is why the first page of the arena is never used.
type ref uint64

// arena is memory outside the Go heap, and the pool of its pages that belong to nobody.
type arena struct {
	mem   []byte
	pages []page

	mu struct {
		sync.Mutex
		free  []uint32 // pages given back
		fresh uint32   // pages from here on were never used, so their memory is not there yet
	}
}

// page is what is known of one page. It belongs to the shard that took it, and is guarded by that shard's lock.
type page struct {
	prev, next uint32 // list of the shard's pages of this class that have room; 0 is none
	live       uint16 // chunks in use
	cut        uint16 // chunks handed out at least once; the rest of the page is untouched
	class      uint8
	roomy      bool // it is in that list
	free       ref  // chunks given back
}

// reserve returns n bytes of zeroes outside the Go heap. The memory is there once it is touched.
func reserve(n int64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("cache: reserving %d bytes: %w (is there a limit on virtual memory? see ulimit -v)", n, err)
	}
	return mem, nil
}

func newArena(bytes int64) (*arena, error) {
	n := bytes/PageBytes + 1
	mem, err := reserve(n * PageBytes)
	if err != nil {
		return nil, err
	}
	a := &arena{mem: mem, pages: make([]page, n)}
	a.mu.fresh = 1
	return a, nil
}

func (a *arena) close() error { return unix.Munmap(a.mem) }

// take returns a page from the pool.
func (a *arena) take() (uint32, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.mu.free); n > 0 {
		p := a.mu.free[n-1]
		a.mu.free = a.mu.free[:n-1]
		return p, true
	}
	if int(a.mu.fresh) == len(a.pages) {
		return 0, false
	}
	a.mu.fresh++
	return a.mu.fresh - 1, true
}

// give puts a page back into the pool.
func (a *arena) give(p uint32) {
	a.mu.Lock()
	a.mu.free = append(a.mu.free, p)
	a.mu.Unlock()
}

// used returns how many pages belong to shards, and how many there are that do not.
func (a *arena) used() (taken, pool int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken = int64(a.mu.fresh) - 1 - int64(len(a.mu.free))
	return taken, int64(len(a.pages)) - 1 - taken
}

// classes are the sizes of chunks, each about a quarter larger than the one before, the last a whole page. They are multiples of 16 so
// that headers are aligned.
var classes = func() (sizes []uint32) {
	for size := 96.0; size < PageBytes/2; size *= 1.25 {
		rounded := (uint32(size) + 15) &^ 15
		// What a page has left over after whole chunks is shared out among them.
		fit := PageBytes / rounded
		sizes = append(sizes, PageBytes/fit&^15)
	}
	return append(sizes, PageBytes/2, PageBytes)
}()

// classOf returns the smallest class whose chunks hold n bytes; the last if none does.
func classOf(n int) uint8 {
	low, high := 0, len(classes)-1
	for low < high {
		if mid := (low + high) / 2; int(classes[mid]) >= n {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return uint8(low)
}

// Every chunk in use begins with the ref of its item's first chunk, so that whoever must empty a page finds the items in it. A chunk
// given back begins with 0 and the next such chunk of its page.

// header is the beginning of an item's first chunk; key and value follow. It holds no Go pointer: the collector does not look here.
//
// owner, more, size, keyLen, shard and what follows the header do not change while the item is pinned; everything else is guarded by
// the lock of the shard.
type header struct {
	owner      ref // this chunk
	more       ref // the chunk where the value goes on
	next       ref // in the bucket of the index
	prev, succ ref // in the LRU list: towards the more and the less recently used
	cas        uint64
	hash       uint32
	expires    uint32 // seconds; 0 for never
	used       uint32 // second at which it was last moved to the front of the LRU list
	size       uint32
	flags      uint32
	pins       uint32
	shard      uint16
	keyLen     uint8
	marks      marks
}

// marks are what is noted of an item with one bit.
type marks uint8

const (
	isLinked  marks = 1 << iota // in index and LRU list
	isFetched                   // asked for since it was stored
	isStale
	isWon    // somebody has been told to recache it
	isBinary // its key came in base64
)

// tail is the beginning of a later chunk.
type tail struct {
	owner ref
	more  ref
}

const (
	headerBytes = int(unsafe.Sizeof(header{}))
	tailBytes   = int(unsafe.Sizeof(tail{}))
)

func (a *arena) at(r ref) unsafe.Pointer { return unsafe.Pointer(&a.mem[r]) }

func (a *arena) header(r ref) *header { return (*header)(a.at(r)) }

func (a *arena) tail(r ref) *tail { return (*tail)(a.at(r)) }

func (a *arena) key(r ref) []byte {
	start := int(r) + headerBytes
	return a.mem[start : start+int(a.header(r).keyLen)]
}

func pageOf(r ref) uint32 { return uint32(r / PageBytes) }
