//go:build linux

package memcached

import "spillway/servers"

var _ servers.Accountant = (*Backend)(nil)

// inCaches is the size up to which a value is taken to be in a cache: what is asked for often is. The shipped cost table says the same of sim.
const inCaches = 4000

// What a byte of a value moves over the bus: read through or handed to the kernel once; stored with ordinary stores its line is read before and
// written back later.
const (
	movedByRead  = 1
	movedByStore = 2
)

// account adds a value to what has been moved. Small ones, which cause no traffic to speak of, cost nothing here either.
func (b *Backend) account(size, each int) {
	if size >= inCaches {
		b.moved.Add(uint64(size) * uint64(each))
	}
}

// accountPiece is account for a piece of a large value that has just been read.
func (b *Backend) accountPiece(piece []byte) { b.moved.Add(uint64(len(piece)) * movedByRead) }

// BytesMoved implements servers.Accountant: an estimate that knows nothing of caches but the size of a value. What the kernel copies into sockets
// is not in it.
func (b *Backend) BytesMoved() uint64 { return b.moved.Load() }
