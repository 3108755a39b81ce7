package frames

import "math/bits"

// Steps returns how much there is to be computed for q over so many rows, in steps of its kind: for most, one for each row. The steps of different
// kinds take different times; of one kind, times are in proportion to steps, whatever the parameters. So what one step of each kind takes says what
// every query takes.
func (q *Query) Steps(rows int) int64 {
	n := int64(rows)
	switch q.Kind {
	case Quantile: // comparisons of sorting
		return n * int64(bits.Len(uint(rows)))
	case KMeans: // distances
		return n * int64(q.K) * int64(q.Rounds+1)
	case Decompose: // multiplications of the fits
		return (n/int64(q.Delta) + 1) * int64(q.span(rows))
	}
	return n
}

// span returns how many rows each fit of Decompose is made from: a share of all, the next odd number, and three at least.
func (q *Query) span(rows int) int {
	n := int(q.Fraction*float64(rows) + 0.5)
	return min(max(n|1, 3), (rows-1)|1)
}

// Columns returns how many columns of input q reads.
func (q *Query) Columns() int64 {
	switch q.Kind {
	case Correlation, VWAP, Mid:
		return 2
	case AD:
		return 5
	}
	return 1
}

// vectors returns how many vectors q writes, as long as a column.
func (q *Query) vectors() int64 {
	switch q.Kind {
	case Quantile, Mid, Decay, AD:
		return 1
	case Decompose: // the trend; season and remainder follow from it
		return 1
	case PPO:
		return 2
	}
	return 0
}

// Bytes returns the bytes of columns and vectors that q goes over, of so many rows: what a cache must have room for, or else they are moved.
func (q *Query) Bytes(rows int) int64 { return (q.Columns() + q.vectors()) * valueBytes * int64(rows) }

// writeMoves is how many bytes cross the memory bus for each that is stored: before a line is written to, it is read, and then it is written back.
const writeMoves = 2

// Moved returns how many bytes q moves between memory and processor, of so many rows, where no cache holds the columns: each column is read once, and of
// what is written each byte moves twice. Vectors are written while their rows are in the processor, and what is gone over again later, such as the
// windows of fits, is in a cache.
func (q *Query) Moved(rows int) int64 {
	again := int64(0)
	switch q.Kind {
	case KMeans: // the column is read in each round, and at the end
		again = int64(q.Rounds)
	case Decompose: // input and trend are read again for the seasons, and for what remains
		again = 4
	}
	return (q.Columns() + again + writeMoves*q.vectors()) * valueBytes * int64(rows)
}
