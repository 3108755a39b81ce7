//go:build linux

package servers

import "math/bits"

const (
	// blockStart is how much memory a data block gets before any of it has come. It grows as it comes in, so that announcing a large
	// value costs the server nothing.
	blockStart = 4 << 10
	// blockGrowth is by how much: a value is moved about a third of its size altogether.
	blockGrowth = 4
	// keptBlocks bounds the memory that a loop keeps for blocks to come.
	keptBlocks = 8 << 20
	// maxKeptBlock is the largest one kept.
	maxKeptBlock = 2 << 20
)

// blocks are buffers for values, kept for further use: what a loop has to give to the collector for each value is time that it does not
// serve.
type blocks struct {
	free map[int][][]byte // by capacity
	kept int              // bytes
}

// blockSize returns the capacity of a buffer for n bytes: a multiple of an eighth of the power of two below, so that few sizes serve all.
func blockSize(n int) int {
	step := 1 << max(bits.Len(uint(n-1))-4, 8)
	return (n + step - 1) / step * step
}

// get returns a buffer of n bytes, which may have anything in them.
func (b *blocks) get(n int) []byte {
	size := blockSize(n)
	list := b.free[size]
	if len(list) == 0 {
		return make([]byte, n, size)
	}
	last := len(list) - 1
	buf := list[last]
	list[last] = nil
	b.free[size] = list[:last]
	b.kept -= size
	return buf[:n]
}

// put takes back a buffer of get.
func (b *blocks) put(buf []byte) {
	size := cap(buf)
	if size == 0 || size > maxKeptBlock || b.kept+size > keptBlocks {
		return
	}
	if b.free == nil {
		b.free = map[int][][]byte{}
	}
	b.free[size] = append(b.free[size], buf)
	b.kept += size
}
