package evq

import "math"

// Alarms holds at most one key for each of many numbered sleepers, and knows which is due first: by key, then by number. Setting an alarm
// again moves it. A number costs twelve bytes whether it has an alarm or not; the zero value has room for none.
type Alarms struct {
	heap  []alarm
	place []int32 // by number: where in the heap its alarm is, plus one; 0 for nowhere
}

type alarm struct {
	key    uint64
	number uint32
}

func (a alarm) before(b alarm) bool { return a.key < b.key || (a.key == b.key && a.number < b.number) }

// Never is the key of what is not to be woken: setting it takes an alarm away.
const Never = math.MaxInt64

// Grow makes room for the numbers below n.
func (a *Alarms) Grow(n int) {
	for len(a.place) < n {
		a.place = append(a.place, 0)
	}
}

// Next returns the smallest key, Never when there is none.
func (a *Alarms) Next() uint64 {
	if len(a.heap) == 0 {
		return Never
	}
	return a.heap[0].key
}

// First returns who is due first. There must be somebody.
func (a *Alarms) First() uint32 { return a.heap[0].number }

// Set wakes number at key, and no longer when it was to be woken before.
func (a *Alarms) Set(number uint32, key uint64) {
	i := int(a.place[number]) - 1
	switch {
	case i < 0 && key == Never:
	case i < 0:
		a.heap = append(a.heap, alarm{})
		a.up(len(a.heap)-1, alarm{key, number})
	case key == Never:
		a.remove(i)
	case key < a.heap[i].key:
		a.up(i, alarm{key, number})
	case key > a.heap[i].key:
		a.down(i, alarm{key, number})
	}
}

func (a *Alarms) remove(i int) {
	a.place[a.heap[i].number] = 0
	last := len(a.heap) - 1
	it := a.heap[last]
	a.heap = a.heap[:last]
	if i == last {
		return
	}
	if i > 0 && it.before(a.heap[(i-1)/arity]) {
		a.up(i, it)
		return
	}
	a.down(i, it)
}

// put writes it down at i.
func (a *Alarms) put(i int, it alarm) {
	a.heap[i] = it
	a.place[it.number] = int32(i) + 1
}

// up finds a place for it at i or nearer to the root.
func (a *Alarms) up(i int, it alarm) {
	for i > 0 {
		parent := (i - 1) / arity
		if !it.before(a.heap[parent]) {
			break
		}
		a.put(i, a.heap[parent])
		i = parent
	}
	a.put(i, it)
}

// down finds a place for it at i or further from the root.
func (a *Alarms) down(i int, it alarm) {
	for {
		first := i*arity + 1
		if first >= len(a.heap) {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, len(a.heap)); c++ {
			if a.heap[c].before(a.heap[least]) {
				least = c
			}
		}
		if !a.heap[least].before(it) {
			break
		}
		a.put(i, a.heap[least])
		i = least
	}
	a.put(i, it)
}
