package frames

import (
	"errors"
	"math"
	"strconv"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"
)

// blockRows is how many rows operations that write vectors go on at a time: a block of all their columns stays in a cache of 256 KiB, so what is done
// with it next is done without memory.
const blockRows = 4096

// ErrStopped says that an operation was ended halfway.
var ErrStopped = errors.New("the server is shutting down")

// Worker computes over one Frame. It keeps the memory of its results from one query to the next, so it is for one goroutine.
type Worker struct {
	Full  bool              // Answer gives results whole, not in summary
	Stop  *atomic.Bool      // ends long operations when it becomes true; nil for never
	Moved func(bytes int64) // is told what MemoryBound operations move, while they do; nil for nobody

	f       *Frame
	vectors [2][]float64 // results, as long as a column
	small   []float64    // weights of fits, seasons, centres, ends of pieces
	block   []float64    // of what is summarised and not kept

	outcome
}

// outcome is the result of one operation.
type outcome struct {
	scalar float64
	parts  [3]part
	n      int // of parts; 0 for a scalar
}

// part is one vector of a result.
type part struct {
	name          string
	vector        []float64
	minus, season []float64 // what is still to be taken away from vector; nil for nothing
	whole         bool      // it is short, and given whole
	summary
}

func (p *part) value(i int) float64 {
	if p.minus == nil {
		return p.vector[i]
	}
	return p.vector[i] - p.minus[i] - p.season[i%len(p.season)]
}

// summary of the numbers of a vector.
type summary struct {
	n           int
	first, last float64
	min, max    float64
	sum         float64
}

// add takes in the next block of a vector. Rows that have no value yet, which are NaN, do not count.
func (s *summary) add(block []float64) {
	for len(block) > 0 && math.IsNaN(block[0]) { // they stand in front
		block = block[1:]
	}
	if len(block) == 0 {
		return
	}
	if s.n == 0 {
		s.first, s.min, s.max = block[0], block[0], block[0]
	}
	s.n += len(block)
	s.last = block[len(block)-1]
	s.sum += floats.Sum(block)
	// Two of each, so that a comparison need not wait for the one before it.
	low, high, low2, high2 := s.min, s.max, s.min, s.max
	for ; len(block) >= 2; block = block[2:] {
		x, y := block[0], block[1]
		if x < low {
			low = x
		}
		if x > high {
			high = x
		}
		if y < low2 {
			low2 = y
		}
		if y > high2 {
			high2 = y
		}
	}
	if len(block) > 0 {
		low2, high2 = min(low2, block[0]), max(high2, block[0])
	}
	s.min, s.max = min(low, low2), max(high, high2)
}

// NewWorker returns a Worker over f.
func NewWorker(f *Frame) *Worker { return &Worker{f: f} }

// vector returns memory for a result as long as a column.
func (w *Worker) vector(i int) []float64 {
	if w.vectors[i] == nil {
		w.vectors[i] = make([]float64, w.f.Rows())
	}
	return w.vectors[i]
}

// scratch returns n numbers that are 0.
func (w *Worker) scratch(n int) []float64 {
	if cap(w.small) < n {
		w.small = make([]float64, n)
	}
	w.small = w.small[:n]
	clear(w.small)
	return w.small
}

func (w *Worker) stopped() bool { return w.Stop != nil && w.Stop.Load() }

func (w *Worker) move(rows, bytesPerRow int) {
	if w.Moved != nil {
		w.Moved(int64(rows) * int64(bytesPerRow))
	}
}

// blocks calls do with one range of rows after the other, until the Worker is stopped.
func (w *Worker) blocks(do func(from, to int)) error {
	for from, n := 0, w.f.Rows(); from < n; from += blockRows {
		if w.stopped() {
			return ErrStopped
		}
		do(from, min(from+blockRows, n))
	}
	return nil
}

// add makes a vector a part of the result and summarises it.
func (w *Worker) add(name string, v []float64, s summary) {
	w.parts[w.n] = part{name: name, vector: v, summary: s}
	w.n++
}

// Answer computes q, appends the result to out as text, and returns it. The error says what is wrong with the query, or is ErrStopped.
//
// The text of a number is the number. That of vectors has a line for each, its name and, unless Full is set, a summary of those of its values that are
// numbers: n=COUNT first=X last=X min=X mean=X max=X. With Full they are all there, one after the other. The shortest digits that name a number
// exactly are written.
func (w *Worker) Answer(q *Query, out []byte) ([]byte, error) {
	w.outcome = outcome{}
	if err := q.Check(w.f.Rows()); err != nil {
		return out, err
	}
	if err := w.compute(q); err != nil {
		return out, err
	}
	if w.n == 0 {
		return appendNumber(out, w.scalar), nil
	}
	for i := range w.parts[:w.n] {
		if i > 0 {
			out = append(out, '\n')
		}
		out = w.parts[i].appendText(out, w.Full)
	}
	return out, nil
}

func (w *Worker) compute(q *Query) (err error) {
	switch q.Kind {
	case Max:
		w.scalar = w.Max(q.A)
	case Mean:
		w.scalar = w.Mean(q.A)
	case Quantile:
		w.scalar = w.Quantile(q.P, q.A)
	case Correlation:
		w.scalar, err = w.Correlation(q.A, q.B)
	case VWAP:
		w.scalar, err = w.VWAP()
	case Mid:
		err = w.Mid(q.Window)
	case KMeans:
		err = w.KMeans(q.K, q.Rounds)
	case PPO:
		err = w.PPO(q.Fast, q.Slow, q.Signal)
	case Decompose:
		err = w.Decompose(q)
	case Decay:
		err = w.Decay(q.Window)
	case AD:
		err = w.AD()
	}
	return err
}

func (p *part) appendText(out []byte, full bool) []byte {
	out = append(out, p.name...)
	if full || p.whole {
		for i := range p.vector {
			out = appendNumber(append(out, ' '), p.value(i))
		}
		return out
	}
	out = strconv.AppendInt(append(out, " n="...), int64(p.n), 10)
	if p.n == 0 {
		return out
	}
	for _, f := range [...]struct {
		name  string
		value float64
	}{{" first=", p.first}, {" last=", p.last}, {" min=", p.min}, {" mean=", p.sum / float64(p.n)}, {" max=", p.max}} {
		out = appendNumber(append(out, f.name...), f.value)
	}
	return out
}

func appendNumber(out []byte, x float64) []byte { return strconv.AppendFloat(out, x, 'g', -1, 64) }
