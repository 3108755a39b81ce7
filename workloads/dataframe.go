package workloads

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/internal/frames"
)

// FrameClass is one operation on a data frame.
type FrameClass struct {
	Name  string
	Share float64       // of all requests; the shares of all classes sum to 1
	SLO   time.Duration // latency limit, 0 for none; it has no influence on what is asked
	Op    string        // the operation with its parameters, as the key of a request spells it: see package frames
}

// DataFrame is a workload of operations on a data frame. Each class asks for one, with the same parameters every time. It is not safe for concurrent use.
type DataFrame struct {
	upTo
	classes []FrameClass
	queries []frames.Query
	keys    [][]byte
}

var (
	_ Workload = (*DataFrame)(nil)
	_ Varying  = (*DataFrame)(nil)
	_ Keyed    = (*DataFrame)(nil)
)

// NewDataFrame returns the workload over classes, about a frame of so many rows, 0 where that is not known yet. The error names the class and what is wrong
// with it.
func NewDataFrame(classes []FrameClass, rows int) (*DataFrame, error) {
	if len(classes) == 0 {
		return nil, fmt.Errorf("a workload of operations on a data frame needs at least one class")
	}
	d := &DataFrame{classes: classes}
	sum, shares := 0.0, make([]float64, len(classes))
	for i := range classes {
		c := &classes[i]
		if !(c.Share >= 0) {
			return nil, fmt.Errorf("class %q: share must not be negative", c.Name)
		}
		if len(c.Op) > maxKey {
			return nil, fmt.Errorf("class %q: its operation has %d bytes, a key holds %d", c.Name, len(c.Op), maxKey)
		}
		q, err := frames.ParseQuery([]byte(c.Op))
		if err == nil && rows > 0 {
			err = q.Check(rows)
		}
		if err != nil {
			return nil, fmt.Errorf("class %q: op %q: %w", c.Name, c.Op, err)
		}
		d.queries, d.keys = append(d.queries, q), append(d.keys, []byte(c.Op))
		sum += c.Share
		shares[i] = c.Share
	}
	if sum < 0.999999 || sum > 1.000001 {
		return nil, fmt.Errorf("the shares of the classes sum to %g, not 1", sum)
	}
	d.set(shares)
	return d, nil
}

// Vary has the shares of the classes change with time.
func (d *DataFrame) Vary(shares *Shares) error { return d.vary(shares) }

// Next draws a class.
func (d *DataFrame) Next(rng *rand.Rand, op *Op) {
	class := d.pick(rng.Float64())
	*op = Op{Kind: Get, Class: uint16(class), Key: d.keys[class]}
}

// Patterns returns the keys of the classes, which are always the same.
func (d *DataFrame) Patterns() ([]string, error) {
	list := make([]string, len(d.classes))
	for i := range d.classes {
		list[i] = d.classes[i].Op + "*"
	}
	return distinct(list, func(i int) string { return d.classes[i].Name })
}
