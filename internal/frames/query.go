package frames

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Kind is an operation.
type Kind uint8

// The operations. Worker has a method for each, which says what it computes.
const (
	Max         Kind = iota // max[/COLUMN]
	Mean                    // mean[/COLUMN]
	Quantile                // quantile/P[/COLUMN]
	Correlation             // corr[/COLUMN/COLUMN]
	VWAP                    // vwap
	Mid                     // mid[/WINDOW]
	KMeans                  // kmeans[/K/ITERATIONS]
	PPO                     // ppo[/FAST/SLOW/SIGNAL]
	Decompose               // decompose[/PERIOD/FRACTION/DELTA]
	Decay                   // decay[/PERIOD]
	AD                      // ad

	NumKinds // how many there are
)

var kindNames = [NumKinds]string{"max", "mean", "quantile", "corr", "vwap", "mid", "kmeans", "ppo", "decompose", "decay", "ad"}

// String returns the name of k, with which its queries begin.
func (k Kind) String() string { return kindNames[k] }

// MemoryBound reports whether k is one of the operations that are bound by memory bandwidth, as the experiment with data frames of the Svalinn artifact
// has them: decompose, decay and ad.
func (k Kind) MemoryBound() bool { return k == Decompose || k == Decay || k == AD }

// Query is one operation with its parameters.
type Query struct {
	Kind Kind
	A, B Column // of Max, Mean and Quantile: A; of Correlation: both

	Window     int     // rows: of Mid, and the period of Decompose and Decay
	K, Rounds  int     // of KMeans
	Fast, Slow int     // rows: of PPO
	Signal     int     // rows: of PPO
	P          float64 // of Quantile
	Fraction   float64 // of Decompose: of all rows, that one fit is made from
	Delta      int     // of Decompose: rows between two fits
}

// Bounds on parameters.
const (
	maxWindow   = 1_000_000
	maxClusters = 64
	maxRounds   = 1000
)

// Standard returns an operation with the parameters that it has unless others are given: those of the experiment with data frames of the Svalinn artifact
// where it has the operation.
func Standard(k Kind) Query {
	q := Query{Kind: k, A: Close}
	switch k {
	case Quantile:
		q.P = 0.5
	case Correlation:
		q.B = Volume
	case Mid:
		q.Window = 15
	case KMeans:
		q.A, q.K, q.Rounds = Return, 4, 10
	case PPO:
		q.Fast, q.Slow, q.Signal = 5, 9, 4
	case Decompose:
		q.A, q.Window, q.Fraction, q.Delta = Return, 170, 0.01, 1
	case Decay:
		q.Window = 5
	}
	return q
}

// KindOf returns the operation that key names, if it names one, by what stands before its first slash.
func KindOf(key []byte) (Kind, bool) {
	name, _, _ := bytes.Cut(key, []byte("/"))
	name, _, _ = bytes.Cut(name, []byte("#"))
	for k, known := range kindNames {
		if string(name) == known {
			return Kind(k), true
		}
	}
	return 0, false
}

// errQuery says what queries look like.
var errQuery = errors.New("no operation: want max[/COLUMN], mean[/COLUMN], quantile/P[/COLUMN], corr[/COLUMN/COLUMN], vwap, mid[/WINDOW], " +
	"kmeans[/K/ITERATIONS], ppo[/FAST/SLOW/SIGNAL], decompose[/PERIOD/FRACTION/DELTA], decay[/PERIOD] or ad; a # begins a comment")

// maxWords is how many parameters a query has at most.
const maxWords = 3

// ParseQuery reads the operation that key spells. A # ends it: what follows makes keys differ that ask the same. What a parameter may be depends on
// the number of rows too, see Check.
func ParseQuery(key []byte) (q Query, err error) {
	kind, known := KindOf(key)
	if !known {
		return q, errQuery
	}
	q = Standard(kind)
	key, _, _ = bytes.Cut(key, []byte("#"))
	p := parameters{kind: kind}
	for _, rest, more := bytes.Cut(key, []byte("/")); more; p.n++ {
		if p.n == maxWords {
			return q, errQuery
		}
		p.words[p.n], rest, more = bytes.Cut(rest, []byte("/"))
	}
	p.read(&q)
	return q, p.err
}

// parameters are the words of a query behind its name.
type parameters struct {
	kind  Kind
	words [maxWords][]byte
	n     int
	err   error
}

// read sets those parameters of q that there are. Of several either all are given or none.
func (p *parameters) read(q *Query) {
	allowed := map[Kind][]int{
		Max: {0, 1}, Mean: {0, 1}, Quantile: {1, 2}, Correlation: {0, 2}, VWAP: {0}, Mid: {0, 1}, KMeans: {0, 2}, PPO: {0, 3}, Decompose: {0, 3}, Decay: {0, 1}, AD: {0},
	}[p.kind]
	fits := false
	for _, n := range allowed {
		fits = fits || p.n == n
	}
	if !fits {
		p.err = errQuery
		return
	}
	switch p.kind {
	case Max, Mean:
		p.column(0, &q.A)
	case Quantile:
		p.real(0, "quantile", 0, 1, &q.P)
		p.column(1, &q.A)
	case Correlation:
		p.column(0, &q.A)
		p.column(1, &q.B)
	case Mid, Decay:
		p.whole(0, "window", 1, maxWindow, &q.Window)
	case KMeans:
		p.whole(0, "number of clusters", 1, maxClusters, &q.K)
		p.whole(1, "number of iterations", 1, maxRounds, &q.Rounds)
	case PPO:
		p.whole(0, "fast period", 1, maxWindow, &q.Fast)
		p.whole(1, "slow period", 1, maxWindow, &q.Slow)
		p.whole(2, "signal period", 1, maxWindow, &q.Signal)
		if p.err == nil && q.Fast >= q.Slow {
			p.err = fmt.Errorf("the fast period, %d, must be below the slow one, %d", q.Fast, q.Slow)
		}
	case Decompose:
		p.whole(0, "period", 2, maxWindow, &q.Window)
		p.real(1, "fraction", 1e-6, 1, &q.Fraction)
		p.whole(2, "delta", 1, maxWindow, &q.Delta)
	}
}

func (p *parameters) column(i int, to *Column) {
	if i < p.n && p.err == nil {
		*to, p.err = parseColumn(p.words[i])
	}
}

func (p *parameters) whole(i int, what string, least, most int, to *int) {
	if i >= p.n || p.err != nil {
		return
	}
	n, err := strconv.ParseUint(string(p.words[i]), 10, 32)
	if err != nil || n < uint64(least) || n > uint64(most) {
		p.err = fmt.Errorf("%s %q: want a whole number from %d to %d", what, p.words[i], least, most)
		return
	}
	*to = int(n)
}

func (p *parameters) real(i int, what string, least, most float64, to *float64) {
	if i >= p.n || p.err != nil {
		return
	}
	v, err := strconv.ParseFloat(string(p.words[i]), 64)
	if err != nil || !(v >= least && v <= most) {
		p.err = fmt.Errorf("%s %q: want a number from %g to %g", what, p.words[i], least, most)
		return
	}
	*to = v
}

// maxSteps bounds the work of one query. It takes a processor some seconds.
const maxSteps = 4 << 30

// Check says what is wrong with q for a Frame of so many rows: parameters that it has no room for, or more work than anybody waits for.
func (q *Query) Check(rows int) error {
	switch {
	case q.Kind == Mid && q.Window > rows:
		return fmt.Errorf("window %d: there are %d rows", q.Window, rows)
	case q.Kind == Decompose && q.Window > rows/2:
		return fmt.Errorf("period %d: there must be two of it, and there are %d rows", q.Window, rows)
	case q.Kind == KMeans && q.K > rows:
		return fmt.Errorf("%d clusters: there are %d rows", q.K, rows)
	}
	if n := q.Steps(rows); n > maxSteps {
		return fmt.Errorf("this takes %d steps over %d rows, and at most %d are done for one query: ask for fewer iterations, a smaller fraction or a larger delta", n, rows, int64(maxSteps))
	}
	return nil
}
