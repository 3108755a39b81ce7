//go:build linux && cgo && !norocksdb

package rocksdb

import "sync"

// largeIndex knows which values are large before they are read: a request that is going to move a megabyte has to be told from others at the
// door. Small ones, which are most, are not in it.
type largeIndex struct {
	mu struct {
		sync.RWMutex
		sizes map[string]int64
	}
}

func (x *largeIndex) init() { x.mu.sizes = map[string]int64{} }

// size returns the size of a large value, 0 of any other.
func (x *largeIndex) size(key []byte) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.mu.sizes[string(key)]
}

// set notes the size of a value, 0 for one that is not large or is gone.
func (x *largeIndex) set(key []byte, size int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if size == 0 {
		delete(x.mu.sizes, string(key))
		return
	}
	x.mu.sizes[string(key)] = size
}

func (x *largeIndex) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.mu.sizes)
}
