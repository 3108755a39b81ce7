package graphdb

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Kind is what a Query asks.
type Kind uint8

// The kinds of query, cheapest first.
const (
	Neighbours Kind = iota // n/V or n/V/TYPE
	Triangles              // t/V
	TwoHop                 // 2/V/LABEL
	Path                   // p/A/B/MOST
	PageRank               // r/V or r/V/ACCURACY

	NumKinds // how many there are
)

// String returns the name of k, as classes of a profile call it.
func (k Kind) String() string {
	return [...]string{"neighbours", "triangles", "two-hop", "path", "pagerank"}[k]
}

// Query is one question about a graph.
type Query struct {
	Kind     Kind
	A, B     uint32  // vertices; B of Path alone
	Type     int     // of Neighbours: AnyType for all
	Label    uint8   // of TwoHop
	Most     int     // edges, of Path
	Accuracy float64 // of PageRank
}

// What queries may ask for, and get when they do not say.
const (
	maxHops         = 64
	defaultAccuracy = 1e-5
	minAccuracy     = 1e-8
	restart         = 0.15 // as in the PageRank of the literature
	topRanked       = 10
	maxListed       = 1000
)

// KindOf returns the kind of the query that key spells, if it spells one, by its first letter.
func KindOf(key []byte) Kind {
	if len(key) > 0 {
		switch key[0] {
		case 't':
			return Triangles
		case '2':
			return TwoHop
		case 'p':
			return Path
		case 'r':
			return PageRank
		}
	}
	return Neighbours
}

// errQuery says what queries look like.
var errQuery = errors.New("no query: want n/VERTEX[/TYPE], 2/VERTEX/LABEL, p/VERTEX/VERTEX/HOPS, t/VERTEX or r/VERTEX[/ACCURACY]; a # begins a comment")

// ParseQuery reads the query that key spells. A # ends it: what follows makes keys differ that ask the same.
func ParseQuery(key []byte) (q Query, err error) {
	key, _, _ = bytes.Cut(key, []byte("#"))
	if len(key) < 3 || key[1] != '/' {
		return q, errQuery
	}
	var words [3][]byte
	n := 0
	for rest, more := key[2:], true; more; n++ {
		if n == len(words) {
			return q, errQuery
		}
		words[n], rest, more = bytes.Cut(rest, []byte("/"))
	}
	if q.A, err = number[uint32](words[0], 0, MaxVertices-1, "vertex"); err != nil {
		return q, err
	}
	want := func(least, most int) bool { return n >= least && n <= most }
	switch {
	case key[0] == 'n' && want(1, 2):
		q.Kind, q.Type = Neighbours, AnyType
		if n == 2 {
			q.Type, err = number[int](words[1], 0, 255, "type")
		}
	case key[0] == 't' && want(1, 1):
		q.Kind = Triangles
	case key[0] == '2' && want(2, 2):
		q.Kind = TwoHop
		q.Label, err = number[uint8](words[1], 0, 255, "label")
	case key[0] == 'p' && want(3, 3):
		q.Kind = Path
		if q.B, err = number[uint32](words[1], 0, MaxVertices-1, "vertex"); err == nil {
			q.Most, err = number[int](words[2], 1, maxHops, "number of hops")
		}
	case key[0] == 'r' && want(1, 2):
		q.Kind, q.Accuracy = PageRank, defaultAccuracy
		if n == 2 {
			q.Accuracy, err = strconv.ParseFloat(string(words[1]), 64)
			if err != nil || !(q.Accuracy >= minAccuracy && q.Accuracy < 1) {
				err = fmt.Errorf("accuracy %q: want a number from %g to 1", words[1], minAccuracy)
			}
		}
	default:
		return q, errQuery
	}
	return q, err
}

// number reads a whole number from least to most.
func number[T uint32 | uint8 | int](text []byte, least, most uint64, what string) (T, error) {
	n, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil || n < least || n > most || n > math.MaxUint32 {
		return 0, fmt.Errorf("%s %q: want a whole number from %d to %d", what, text, least, most)
	}
	return T(n), nil
}

// Answer has w answer q, appends the answer to out as text, and returns it. Vertices that the graph does not have are an error.
//
// The text is, of Neighbours: how many, then up to 1000 of them; of TwoHop and Triangles: how many; of Path: the number of edges, or -1;
// of PageRank: the ten highest as VERTEX=RANK.
func (w *Worker) Answer(q *Query, out []byte) ([]byte, error) {
	if n := w.g.Vertices(); int(q.A) >= n || q.Kind == Path && int(q.B) >= n {
		return out, fmt.Errorf("there is no vertex %d: they are 0 to %d", max(q.A, q.B), n-1)
	}
	switch q.Kind {
	case Neighbours:
		var count int
		w.queue, count = w.Neighbours(q.A, q.Type, maxListed, w.queue[:0])
		out = strconv.AppendInt(out, int64(count), 10)
		for _, v := range w.queue {
			out = strconv.AppendUint(append(out, ' '), uint64(v), 10)
		}
	case TwoHop:
		out = strconv.AppendInt(out, int64(w.TwoHop(q.A, q.Label)), 10)
	case Path:
		out = strconv.AppendInt(out, int64(w.Path(q.A, q.B, q.Most)), 10)
	case Triangles:
		out = strconv.AppendInt(out, int64(w.Triangles(q.A)), 10)
	case PageRank:
		for i, r := range w.PageRank(q.A, restart, q.Accuracy, topRanked) {
			if i > 0 {
				out = append(out, ' ')
			}
			out = append(strconv.AppendUint(out, uint64(r.Vertex), 10), '=')
			out = strconv.AppendFloat(out, r.Rank, 'g', 6, 64)
		}
	}
	return out, nil
}
