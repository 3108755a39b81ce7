package evq

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestOrder: values come out by key, and in the order of their going in where keys are equal, whatever is popped in between.
func TestOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type entry struct{ key, id uint64 }
		var q Queue[entry]
		var model []entry
		for id := range uint64(rapid.IntRange(1, 300).Draw(t, "operations")) {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0 {
				if q.Key() != model[0].key || q.Peek() != model[0] {
					t.Fatalf("peeked %v, want %v", q.Peek(), model[0])
				}
				if got := q.Pop(); got != model[0] {
					t.Fatalf("popped %v, want %v", got, model[0])
				}
				model = model[1:]
			} else {
				e := entry{key: rapid.Uint64Range(0, 8).Draw(t, "key"), id: id}
				q.Push(e.key, e)
				model = append(model, e)
				slices.SortStableFunc(model, func(a, b entry) int { return int(a.key) - int(b.key) })
			}
			if q.Len() != len(model) {
				t.Fatalf("length %d, want %d", q.Len(), len(model))
			}
		}
	})
}

func TestPushPopAllocatesNothing(t *testing.T) {
	var q Queue[int]
	for i := range 100 {
		q.Push(uint64(i*7919%100), i)
	}
	if n := testing.AllocsPerRun(1000, func() { q.Push(q.Key()+50, q.Pop()) }); n != 0 {
		t.Errorf("%g allocations a push and pop", n)
	}
}

func BenchmarkPushPop(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(map[int]string{100: "100", 10_000: "10k", 1_000_000: "1M"}[n], func(b *testing.B) {
			var q Queue[int]
			x := uint64(1)
			next := func() uint64 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return x >> 40 }
			for i := range n {
				q.Push(next(), i)
			}
			for b.Loop() {
				v := q.Pop()
				q.Push(q.Key()+next(), v)
			}
		})
	}
}
