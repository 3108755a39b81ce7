// Package evq is the priority queue of everything that happens in virtual time: a four-ary heap ordered by (key, sequence number), so
// that events of one instant come out in the order in which they went in. That order is what makes a simulation repeatable.
package evq

// Queue holds values by key. The zero value is an empty queue. Pushing allocates only while the queue grows beyond its peak.
type Queue[T any] struct {
	items []item[T]
	seq   uint64
}

type item[T any] struct {
	key   uint64
	seq   uint64
	value T
}

func (a *item[T]) before(b *item[T]) bool {
	return a.key < b.key || (a.key == b.key && a.seq < b.seq)
}

// arity is four because a four-ary heap is half as deep as a binary one and its four children share one or two cache lines.
const arity = 4

// Len returns how many values are queued.
func (q *Queue[T]) Len() int { return len(q.items) }

// Key returns the smallest key. The queue must not be empty.
func (q *Queue[T]) Key() uint64 { return q.items[0].key }

// Peek returns the value of the smallest key, the oldest of them. The queue must not be empty.
func (q *Queue[T]) Peek() T { return q.items[0].value }

// Push adds a value.
func (q *Queue[T]) Push(key uint64, value T) {
	it := item[T]{key: key, seq: q.seq, value: value}
	q.seq++
	q.items = append(q.items, it)
	items := q.items
	i := len(items) - 1
	for i > 0 {
		parent := (i - 1) / arity
		if !it.before(&items[parent]) {
			break
		}
		items[i] = items[parent]
		i = parent
	}
	items[i] = it
}

// Pop removes and returns the value that Peek shows.
func (q *Queue[T]) Pop() T {
	items := q.items
	top := items[0].value
	last := len(items) - 1
	it := items[last]
	items[last] = item[T]{} // a popped pointer must not keep its object alive
	items = items[:last]
	q.items = items
	if last == 0 {
		return top
	}
	i := 0
	for {
		first := i*arity + 1
		if first >= last {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, last); c++ {
			if items[c].before(&items[least]) {
				least = c
			}
		}
		if !items[least].before(&it) {
			break
		}
		items[i] = items[least]
		i = least
	}
	items[i] = it
	return top
}

// Reset empties the queue and keeps its memory. Sequence numbers start over.
func (q *Queue[T]) Reset() {
	clear(q.items)
	q.items = q.items[:0]
	q.seq = 0
}
