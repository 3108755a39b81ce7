package graphdb

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Worker answers queries, one at a time. It holds what they need to remember: no answer allocates once the worker has seen its largest.
type Worker struct {
	g *Graph

	// Stop, if set and true, makes a query end early, with a result that is of no use.
	Stop *atomic.Bool

	seen  []uint32 // by vertex: the number of the search that has seen it
	round uint32   // of the current search; searches of two colours take two numbers
	queue []uint32
	other []uint32

	rank, rest []float64 // of PageRank, by vertex; 0 wherever no query is under way
	touched    []uint32
	top        []Ranked

	work int
}

// NewWorker returns a worker on g.
func NewWorker(g *Graph) *Worker { return &Worker{g: g, seen: make([]uint32, g.Vertices())} }

// Work returns how many edges the last query looked at: what its time is about proportional to.
func (w *Worker) Work() int { return w.work }

// stopEvery is how many edges are looked at between two looks at Stop.
const stopEvery = 1 << 14

// look counts n edges and reports whether the query should end.
func (w *Worker) look(n int) (stop bool) {
	before := w.work / stopEvery
	w.work += n
	return w.work/stopEvery != before && w.Stop != nil && w.Stop.Load()
}

// begin starts a search: no vertex has been seen. colours numbers are this search's.
func (w *Worker) begin(colours uint32) (first uint32) {
	if w.round > ^uint32(0)-colours {
		clear(w.seen)
		w.round = 0
	}
	first = w.round + 1
	w.round += colours
	w.queue, w.other = w.queue[:0], w.other[:0]
	return first
}

// AnyType asks for edges of every type.
const AnyType = -1

// Neighbours appends the vertices that an edge of the type connects with v, ascending, and returns how many there are. At most limit are
// appended.
func (w *Worker) Neighbours(v uint32, kind int, limit int, out []uint32) (_ []uint32, count int) {
	w.work = 0
	types := w.g.typesOf(v)
	for i, u := range w.g.neighbours(v) {
		if kind != AnyType && int(types[i]) != kind {
			continue
		}
		if count++; count <= limit {
			out = append(out, u)
		}
	}
	w.look(len(types))
	return out, count
}

// TwoHop returns how many vertices with the label are exactly two edges away from v.
func (w *Worker) TwoHop(v uint32, label uint8) (count int) {
	w.work = 0
	mine := w.begin(1)
	w.seen[v] = mine
	near := w.g.neighbours(v)
	for _, u := range near {
		w.seen[u] = mine
	}
	w.look(len(near))
	for _, u := range near {
		next := w.g.neighbours(u)
		for _, x := range next {
			if w.seen[x] == mine {
				continue
			}
			w.seen[x] = mine
			if w.g.labels[x] == label {
				count++
			}
		}
		if w.look(len(next)) {
			return count
		}
	}
	return count
}

// Path returns the number of edges of a shortest path from a to b, -1 if it has more than most or there is none. It searches from both
// ends, always on the side with fewer vertices at its rim.
func (w *Worker) Path(a, b uint32, most int) int {
	w.work = 0
	if a == b {
		return 0
	}
	sideA := w.begin(2)
	sideB := sideA + 1
	w.queue, w.other = append(w.queue, a), append(w.other, b)
	w.seen[a], w.seen[b] = sideA, sideB
	for length := 1; length <= most && len(w.queue) > 0 && len(w.other) > 0; length++ {
		if len(w.queue) > len(w.other) {
			w.queue, w.other, sideA, sideB = w.other, w.queue, sideB, sideA
		}
		met, stop := w.expand(sideA, sideB)
		if met {
			return length
		}
		if stop {
			return -1
		}
	}
	return -1
}

// expand replaces the rim in w.queue by the next one. met says that it touches the other side.
func (w *Worker) expand(mine, theirs uint32) (met, stop bool) {
	rim := len(w.queue)
	for i := range rim {
		next := w.g.neighbours(w.queue[i])
		for _, x := range next {
			switch w.seen[x] {
			case mine:
			case theirs:
				return true, false
			default:
				w.seen[x] = mine
				w.queue = append(w.queue, x)
			}
		}
		if w.look(len(next)) {
			return false, true
		}
	}
	w.queue = w.queue[:copy(w.queue, w.queue[rim:])]
	return false, false
}

// Triangles returns how many triangles v is a corner of: edges among its neighbours.
func (w *Worker) Triangles(v uint32) (count int) {
	w.work = 0
	mine := w.begin(1)
	near := w.g.neighbours(v)
	for _, u := range near {
		w.seen[u] = mine
	}
	w.look(len(near))
	for _, u := range near {
		next := w.g.neighbours(u)
		for _, x := range next {
			if x > u && w.seen[x] == mine { // each edge is met from both of its ends
				count++
			}
		}
		if w.look(len(next)) {
			return count
		}
	}
	return count
}

// Ranked is a vertex with its rank.
type Ranked struct {
	Vertex uint32
	Rank   float64
}

// PageRank returns the top vertices by their personalised PageRank seen from v, highest first: where a walk is that starts anew at v with
// probability restart before each step. It is the forward push of Andersen, Chung and Lang (FOCS 2006, section 3), without their lazy
// walk: vertices are pushed, first come first served, while their rest is at least accuracy times their degree. A rank is too low by at
// most accuracy times the degree of the vertex. The result is valid until the next query.
func (w *Worker) PageRank(v uint32, restart, accuracy float64, top int) []Ranked {
	w.work = 0
	if w.rank == nil {
		w.rank, w.rest = make([]float64, w.g.Vertices()), make([]float64, w.g.Vertices())
	}
	queued := w.begin(1)
	w.rest[v] = 1
	w.touched = append(w.touched[:0], v)
	w.queue, w.seen[v] = append(w.queue, v), queued
	for head := 0; head < len(w.queue); head++ {
		u := w.queue[head]
		w.seen[u] = 0
		next := w.g.neighbours(u)
		rest := w.rest[u]
		w.rest[u] = 0
		if len(next) == 0 { // a walk that cannot go on stays
			w.rank[u] += rest
			continue
		}
		w.rank[u] += restart * rest
		share := (1 - restart) * rest / float64(len(next))
		for _, x := range next {
			if w.rest[x] == 0 && w.rank[x] == 0 {
				w.touched = append(w.touched, x)
			}
			w.rest[x] += share
			if w.seen[x] != queued && w.rest[x] >= accuracy*float64(w.g.Degree(x)) {
				w.seen[x] = queued
				w.queue = append(w.queue, x)
			}
		}
		if w.look(len(next)) {
			break
		}
		if head > len(w.queue)/2 { // what has been served needs no room
			w.queue = w.queue[:copy(w.queue, w.queue[head+1:])]
			head = -1
		}
	}
	return w.best(top)
}

// best returns the vertices of the highest rank and forgets all ranks.
func (w *Worker) best(top int) []Ranked {
	w.top = w.top[:0]
	for _, u := range w.touched {
		if w.rank[u] > 0 {
			w.top = append(w.top, Ranked{u, w.rank[u]})
		}
		w.rank[u], w.rest[u] = 0, 0
	}
	slices.SortFunc(w.top, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Vertex, b.Vertex))
	})
	return w.top[:min(top, len(w.top))]
}
