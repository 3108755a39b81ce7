package workloads

import (
	"fmt"
	"math"
	"time"

	"spillway/internal/frames"
	"spillway/machine"
)

// FrameCost is what one operation on a data frame costs a modelled server.
type FrameCost struct {
	Compute        time.Duration // whatever the rows: the front end, and what is written as the reply
	ComputePerStep float64       // nanoseconds for each step of the operation (frames.Query.Steps), on top of that
	MovedPerRow    float64       // bytes across the memory bus for each row, with the parameters of frames.Standard; with others in proportion to frames.Query.Moved
	CachedBelow    int64         // an operation over fewer bytes (frames.Query.Bytes) finds them in a cache, and moves nothing; 0 for none
	At             float64       // bytes per second that this access pattern reaches alone; 0 for the bus's per-core rate
}

// Steps appends the work of q over so many rows: first what is computed, then what is moved. Operations that are bound by memory do it in the memory
// section, all but what they take whatever the rows: who is not let in has computed nothing yet.
func (c *FrameCost) Steps(dst []machine.Step, q *frames.Query, rows int) []machine.Step {
	own, section := float64(c.Compute), q.Kind.MemoryBound()
	if section {
		dst = computing(dst, own)
		dst = append(dst, machine.Step{Kind: machine.Enter, Index: memorySection})
		own = 0
	}
	dst = computing(dst, own+c.ComputePerStep*float64(q.Steps(rows)))
	if n := int64(math.Round(c.moved(q, rows))); n > 0 {
		dst = append(dst, machine.Step{Kind: machine.Stream, Bytes: n, Rate: c.At})
	}
	if section {
		dst = append(dst, machine.Step{Kind: machine.Leave, Index: memorySection})
	}
	return dst
}

// memorySection is the number of the memory section.
const memorySection = 0

// moved returns bytes.
func (c *FrameCost) moved(q *frames.Query, rows int) float64 {
	if q.Bytes(rows) < c.CachedBelow {
		return 0
	}
	usual := frames.Standard(q.Kind)
	return c.MovedPerRow * float64(rows) * float64(q.Moved(rows)) / float64(usual.Moved(rows))
}

// FrameCosts says what the operations of a DataFrame cost.
type FrameCosts struct {
	load  *DataFrame
	steps [][]machine.Step // by class
}

// NewFrameCosts returns the costs of d's operations over a frame of so many rows, from a table by name of operation. It is an error when the table lacks an
// operation that d asks for.
func NewFrameCosts(d *DataFrame, rows int, table map[string]FrameCost) (*FrameCosts, error) {
	c := &FrameCosts{load: d}
	for i := range d.queries {
		q := &d.queries[i]
		cost, known := table[q.Kind.String()]
		if !known {
			return nil, fmt.Errorf("there is no cost of the operation %s, which class %s asks for", q.Kind, d.classes[i].Name)
		}
		c.steps = append(c.steps, cost.Steps(nil, q, rows))
	}
	return c, nil
}

// Steps appends the work of op, which the workload has drawn, and returns the bytes that it moves.
func (c *FrameCosts) Steps(dst []machine.Step, op *Op) (_ []machine.Step, bytes int64) {
	for _, s := range c.steps[op.Class] {
		if s.Kind == machine.Stream {
			bytes += s.Bytes
		}
	}
	return append(dst, c.steps[op.Class]...), bytes
}

// Mean returns the work of each class, with its share, for the machine's optimum.
func (c *FrameCosts) Mean(b machine.Bus) (demands []machine.Demand, shares []float64) {
	for i, steps := range c.steps {
		var d machine.Demand
		for _, s := range steps {
			d.Mean(s, b)
		}
		demands, shares = append(demands, d), append(shares, c.load.classes[i].Share)
	}
	return demands, shares
}
