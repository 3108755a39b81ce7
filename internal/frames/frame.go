// Package frames keeps minute bars of a market in columns, reads them from a user's CSV or makes them up, and computes the operations that
// traders and statisticians ask of such a data frame: from a maximum, which reads one column once, to decompositions that move several columns
// through memory.
//
// It has no clock, no goroutine and no lock. A Frame does not change once it is made, so any number of Workers may compute over it at once.
package frames

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Column is one of the columns of a Frame.
type Column uint8

// The columns.
const (
	Open Column = iota
	High
	Low
	Close
	Volume
	Return // ln(Close of this row / Close of the row before); 0 in the first row, which has none before it

	NumColumns // how many there are
)

// columnNames are the names of columns in queries.
var columnNames = [NumColumns]string{"open", "high", "low", "close", "volume", "return"}

// String returns the name of c in queries.
func (c Column) String() string { return columnNames[c] }

// parseColumn reads the name of a column.
func parseColumn(text []byte) (Column, error) {
	for c, name := range columnNames {
		if bytes.Equal(text, []byte(name)) {
			return Column(c), nil
		}
	}
	return 0, fmt.Errorf("column %q: there are open, high, low, close, volume and return", text)
}

// MaxRows is how many rows a Frame may have: some 380 years of minutes on which a market is open.
const MaxRows = 1 << 27

// valueBytes is the size of one value of a column.
const valueBytes = 8

// Frame is a table of bars, a row for each minute in order of time.
type Frame struct {
	times   []int64 // unix seconds at which bars begin, increasing
	columns [NumColumns][]float64
}

// bar is one row as it is read or made up.
type bar struct {
	at                             int64
	open, high, low, close, volume float64
}

// Prices and volumes are within these: what is beyond them no market has, and one of them would make the sums and returns of all rows infinite.
const (
	leastPrice = 1e-30
	mostValue  = 1e30
)

// check says what is wrong with a bar by itself, "" if nothing is.
func (b *bar) check() string {
	for _, price := range [...]float64{b.open, b.high, b.low, b.close} {
		switch {
		case !(price > 0):
			return "a price is not above 0"
		case price < leastPrice || price > mostValue:
			return fmt.Sprintf("a price is not from %g to %g", leastPrice, mostValue)
		}
	}
	switch {
	case b.high < b.low:
		return "high is below low"
	case b.high < max(b.open, b.close):
		return "high is below open or close"
	case b.low > min(b.open, b.close):
		return "low is above open or close"
	case !(b.volume >= 0):
		return "volume is negative"
	case b.volume > mostValue:
		return fmt.Sprintf("volume is above %g", mostValue)
	}
	return ""
}

// newFrame returns a Frame with room for n rows.
func newFrame(n int) *Frame {
	f := &Frame{times: make([]int64, 0, n)}
	for c := range f.columns {
		f.columns[c] = make([]float64, 0, n)
	}
	return f
}

// add appends a bar, which is of a later minute than the last.
func (f *Frame) add(b *bar) {
	r := 0.0
	if n := len(f.times); n > 0 {
		r = math.Log(b.close / f.columns[Close][n-1])
	}
	f.times = append(f.times, b.at)
	for c, v := range [NumColumns]float64{b.open, b.high, b.low, b.close, b.volume, r} {
		f.columns[c] = append(f.columns[c], v)
	}
}

// Rows returns how many rows there are.
func (f *Frame) Rows() int { return len(f.times) }

// Column returns a column, which must not be changed.
func (f *Frame) Column(c Column) []float64 { return f.columns[c] }

// Times returns the unix seconds at which the bars begin. They must not be changed.
func (f *Frame) Times() []int64 { return f.times }

// Bytes returns how many bytes the columns take.
func (f *Frame) Bytes() int64 { return int64(len(f.times)) * (int64(NumColumns) + 1) * valueBytes }

// fromBars makes a Frame of bars in any order of time. Of several of one minute the first in the list is taken; for each other one repeated is
// called with its index.
func fromBars(bars []bar, repeated func(i int)) *Frame {
	order := make([]int, len(bars))
	sorted := true
	for i := range bars {
		order[i] = i
		sorted = sorted && (i == 0 || bars[i].at > bars[i-1].at)
	}
	if !sorted {
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case bars[a].at < bars[b].at:
				return -1
			case bars[a].at > bars[b].at:
				return 1
			}
			return a - b
		})
	}
	f := newFrame(len(bars))
	for _, i := range order {
		if n := len(f.times); n > 0 && f.times[n-1] == bars[i].at {
			repeated(i)
			continue
		}
		f.add(&bars[i])
	}
	return f
}
