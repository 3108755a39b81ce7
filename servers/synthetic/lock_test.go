//go:build linux

package synthetic

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLock: one owner at a time, first come first served, and who leaves the queue is passed over.
func TestLock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l lock
		var owner *job
		var queue []*job
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				j := new(job)
				if got := l.acquire(j); got != (owner == nil) {
					t.Fatalf("acquired: %v", got)
				}
				if owner == nil {
					owner = j
				} else {
					queue = append(queue, j)
				}
			},
			"acquire again": func(t *rapid.T) { // as a waiter does that has been resumed
				if owner != nil && !l.acquire(owner) {
					t.Fatal("the owner did not get its own lock")
				}
			},
			"release": func(t *rapid.T) {
				if owner == nil {
					t.Skip()
				}
				var want *job
				if len(queue) > 0 {
					want, queue = queue[0], queue[1:]
				}
				if got := l.release(owner); got != want {
					t.Fatal("the lock went to the wrong one")
				}
				owner = want
			},
			"release of another": func(t *rapid.T) {
				if l.release(new(job)) != nil {
					t.Fatal("released by one who did not own it")
				}
			},
			"leave": func(t *rapid.T) {
				if owner != nil && l.leave(owner) {
					t.Fatal("the owner is not in the queue")
				}
				if len(queue) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(queue)-1).Draw(t, "who")
				if !l.leave(queue[i]) || l.leave(queue[i]) {
					t.Fatal("a waiter leaves exactly once")
				}
				queue = slices.Delete(queue, i, i+1)
			},
		})
	})
}

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
	for _, n := range []int64{0, 1, sliceBytes, 10*sliceBytes + 1} {
		s.move(n, 0)
	}
	if got := s.cursor.Load(); got != 13*sliceBytes {
		t.Errorf("the cursor has moved by %d slices and %d bytes, want 13 slices", got/sliceBytes, got%sliceBytes)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
