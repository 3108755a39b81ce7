//go:build linux

package servers

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/machine/station"
)

// TestPlainLock: one owner at a time, first come first served, and who leaves the queue is passed over.
func TestPlainLock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s sections
		s.init(control.Stack{})
		section, _ := s.at(numLocks + 3)
		lock := section.(*plainLock)
		var owner, next uint64
		var queue []uint64
		var now clock.Instant
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				next++
				now++
				d := lock.Enter(now, &control.Request{ID: next}, control.Try) // which way does not matter
				if (d.Verdict == control.Admit) != (owner == 0) || d.Verdict == control.Reject {
					t.Fatalf("verdict %v with owner %d", d.Verdict, owner)
				}
				if owner == 0 {
					owner = next
				} else {
					queue = append(queue, next)
				}
			},
			"leave": func(t *rapid.T) {
				if owner == 0 {
					t.Skip()
				}
				now++
				out := lock.Leave(now, &control.Request{ID: owner}, nil)
				if owner = 0; len(queue) > 0 {
					owner, queue = queue[0], queue[1:]
				}
				if len(out) != 0 != (owner > 0) || owner > 0 && (out[0].Kind != control.Resume || out[0].Request.ID != owner) {
					t.Fatalf("%+v, want %d to be resumed", out, owner)
				}
			},
			"withdraw": func(t *rapid.T) {
				if removed, _ := lock.Withdraw(now, owner, nil); removed {
					t.Fatal("the owner is not in the queue")
				}
				if len(queue) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(queue)-1).Draw(t, "who")
				for _, want := range []bool{true, false} {
					if removed, out := lock.Withdraw(now, queue[i], nil); removed != want || len(out) > 0 {
						t.Fatal("a waiter goes exactly once, and nobody's turn comes of it")
					}
				}
				queue = slices.Delete(queue, i, i+1)
			},
		})
	})
}

// TestPlaces: sections and locks do not share numbers, and where everybody may be, nothing is kept.
func TestPlaces(t *testing.T) {
	t.Parallel()
	var p places
	for place := range 2 * numLocks {
		if p.has(place) {
			t.Fatalf("%d shares a bit", place)
		}
		p.add(place)
	}
	for place := range 2 * numLocks {
		p.remove(place)
	}
	if p != (places{}) {
		t.Errorf("%x is left", p)
	}
	var all, some sections
	all.init(control.Stack{})
	some.init(control.Stack{Memory: &plainLock{waiting: control.NewParked()}, Mode: control.WaitMode})
	for place := range 2 * numLocks {
		if all.open(place) != (place < numLocks) || some.open(place) != (place < numLocks && place != station.Memory) {
			t.Errorf("%d is open: %v, %v", place, all.open(place), some.open(place))
		}
	}
	made := 0
	some.newLock = func() control.Section { made++; return &plainLock{waiting: control.NewParked()} }
	a, mode := some.at(numLocks)
	b, _ := some.at(numLocks)
	c, _ := some.at(numLocks + 1)
	if a != b || a == c || made != 2 || mode != control.WaitWithinBudget {
		t.Errorf("%d queues were made for two locks, entered in mode %v", made, mode)
	}
}
