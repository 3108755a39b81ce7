//go:build linux

package synthetic

import (
	"sync/atomic"
	"testing"
)

func TestParseCache(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"32768K": 32 << 20, "2M": 2 << 20, "512": 512, "": 0, "K": 0, "-3K": 0, "lots": 0} {
		if got := parseCache(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := largestCache(); got < 1<<10 {
		t.Errorf("the largest cache has %d bytes", got)
	}
}

// TestStreamsTakeTurns: requests go through the buffer one after the other and around.
func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	s, err := newStream(3 * sliceBytes)
	if err != nil {
		t.Fatal(err)
	}
	var account atomic.Uint64
	for _, n := range []int64{0, 1, sliceBytes, 10*sliceBytes + 1} {
		s.move(n, 0, &account)
	}
	if got := account.Load(); got != 11*sliceBytes+2 {
		t.Errorf("%d bytes are accounted for, want %d", got, 11*sliceBytes+2)
	}
	if got := s.cursor.Load(); got != 13*sliceBytes {
		t.Errorf("the cursor has moved by %d slices and %d bytes, want 13 slices", got/sliceBytes, got%sliceBytes)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
