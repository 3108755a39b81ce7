package evq

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAlarmsAgreeWithASearch: whatever is set, moved and taken away, First and Next are what looking at all of them finds.
func TestAlarmsAgreeWithASearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "sleepers")
		var a Alarms
		a.Grow(n)
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = Never
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			number := rapid.IntRange(0, n-1).Draw(t, "number")
			key := uint64(Never)
			if rapid.IntRange(0, 3).Draw(t, "takes away") > 0 {
				key = rapid.Uint64Range(0, 30).Draw(t, "key")
			}
			a.Set(uint32(number), key)
			keys[number] = key
			first := 0
			for i, k := range keys {
				if k < keys[first] {
					first = i
				}
			}
			if got := a.Next(); got != keys[first] {
				t.Fatalf("next is %d, want %d", got, keys[first])
			}
			if keys[first] != Never && a.First() != uint32(first) {
				t.Fatalf("first is %d, want %d of %v", a.First(), first, keys)
			}
		}
	})
}

func TestAlarmsAllocateNothing(t *testing.T) {
	var a Alarms
	a.Grow(100)
	round := func() {
		for i := range uint32(100) {
			a.Set(i, uint64(i*7919%101))
		}
		for a.Next() != Never {
			a.Set(a.First(), Never)
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
