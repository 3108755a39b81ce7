//go:build linux

package synthetic

import (
	"sync/atomic"
	"testing"

	"spillway/internal/kernels"
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

// TestStreamsTakeTurns: requests go through the buffer one after the other and around, and account for what they were asked to move.
func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, how := range []Streams{Stored, Loaded} {
		s, err := newStream(3*sliceBytes, how)
		if err != nil {
			t.Fatal(err)
		}
		slices := int64(1 / s.perBus) // of the bus in one of the program
		var account atomic.Uint64
		for _, n := range []int64{0, 1, sliceBytes * slices, 10*sliceBytes*slices + 1} {
			s.move(n, 0, &account)
		}
		if got, want := account.Load(), uint64(11*sliceBytes*slices+2); got != want {
			t.Errorf("%d: %d bytes are accounted for, want %d", how, got, want)
		}
		if got := s.cursor.Load(); got != 13 {
			t.Errorf("%d: the cursor has moved by %d slices, want 13", how, got)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStreamsGoOverWholeLines: a stream of the kind Stored writes as many bytes as its factor says, in whole lines, and one of the kind Loaded none.
func TestStreamsGoOverWholeLines(t *testing.T) {
	t.Parallel()
	const mark = 0xfeed
	for _, n := range []int64{1, 64, 65, 1000, 4096} {
		for _, how := range []Streams{Stored, Loaded} {
			s, err := newStream(sliceBytes, how)
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.words {
				s.words[i] = mark
			}
			var account atomic.Uint64
			s.move(n, 0, &account)
			written := int64(0)
			for _, w := range s.words {
				if w != mark {
					written += kernels.WordBytes
				}
			}
			want := int64(0)
			if how == Stored {
				program := (n + s.kernelFactor() - 1) / s.kernelFactor()
				want = (program + kernels.LineBytes - 1) / kernels.LineBytes * kernels.LineBytes
			}
			if written != want || account.Load() != uint64(n) {
				t.Errorf("%d, %d bytes: %d were written, want %d; %d accounted for", how, n, written, want, account.Load())
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// kernelFactor returns the bytes on the bus for each of the program.
func (s *stream) kernelFactor() int64 { return int64(s.kernel.Traffic.Total()) }
