//go:build linux

package servers

import "testing"

func TestBlocks(t *testing.T) {
	t.Parallel()
	for n := 1; n < 5<<20; n = n*5/4 + 1 {
		size := blockSize(n)
		if size < n || size > n+max(n/7, 256) || blockSize(size) != size {
			t.Errorf("%d bytes take %d", n, size)
		}
	}
	var b blocks
	first := b.get(10_000)
	b.put(first)
	if again := b.get(9_999); len(again) != 9_999 || &again[0] != &first[0] {
		t.Error("a buffer was not used again")
	}
	for range 10_000 {
		b.put(make([]byte, 0, blockSize(100_000)))
	}
	b.put(make([]byte, 0, blockSize(maxKeptBlock+1)))
	if b.kept > keptBlocks || len(b.free[blockSize(maxKeptBlock+1)]) > 0 {
		t.Errorf("%d bytes are kept", b.kept)
	}
	b.put(nil)
}
