package workloads

import (
	"fmt"
	"iter"
	"math"
	"time"

	"spillway/internal/dist"
	"spillway/machine"
)

// Cost is what one kind of operation costs a modelled server, by the size of the value that it is about.
type Cost struct {
	Compute        time.Duration // whatever the size
	ComputePerByte float64       // nanoseconds for each byte of the value, on top of that
	MovedPerByte   float64       // bytes across the memory bus for each byte of the value
	CachedBelow    int64         // a value of fewer bytes stays in a cache and moves nothing; 0 for none
	At             float64       // bytes per second that this access pattern reaches alone; 0 for the bus's per-core rate
	SectionFrom    int64         // a value of so many bytes and more is moved within the memory section; 0 for none
}

// Steps appends the work of an operation on a value of size bytes: first what is computed, then what is moved. Where that is done within the
// memory section, what is computed for each byte is too: who is not let in has done nothing about the value yet.
func (c *Cost) Steps(dst []machine.Step, size int64) []machine.Step {
	n := int64(math.Round(c.moved(size)))
	stream := machine.Step{Kind: machine.Stream, Bytes: n, Rate: c.At}
	if n > 0 && c.SectionFrom > 0 && size >= c.SectionFrom {
		dst = computing(dst, float64(c.Compute))
		dst = append(dst, machine.Step{Kind: machine.Enter, Index: memorySection})
		dst = computing(dst, c.compute(size)-float64(c.Compute))
		return append(dst, stream, machine.Step{Kind: machine.Leave, Index: memorySection})
	}
	if dst = computing(dst, c.compute(size)); n > 0 {
		dst = append(dst, stream)
	}
	return dst
}

// computing appends a step of so many nanoseconds, if there are any.
func computing(dst []machine.Step, ns float64) []machine.Step {
	if d := time.Duration(math.Round(ns)); d > 0 {
		dst = append(dst, machine.Step{Kind: machine.Compute, Duration: d})
	}
	return dst
}

// compute returns nanoseconds.
func (c *Cost) compute(size int64) float64 {
	return float64(c.Compute) + c.ComputePerByte*float64(size)
}

// moved returns bytes.
func (c *Cost) moved(size int64) float64 {
	if size < c.CachedBelow {
		return 0
	}
	return c.MovedPerByte * float64(size)
}

// Costs says what the operations of a key-value workload cost. Reads that miss, because somebody deleted their key, cost the same as
// those that hit. It is not safe for concurrent use.
type Costs struct {
	kv    *KV
	kinds [NumKinds]Cost
	sizes []int64
}

// NewCosts returns the costs of kv's operations from a table by name of operation. A read of several keys costs what one of each does. It is
// an error when the table lacks an operation that kv asks for.
func NewCosts(kv *KV, table map[string]Cost) (*Costs, error) {
	c := &Costs{kv: kv}
	for kind := range NumKinds {
		row := kind
		if kind == MultiGet {
			row = Get
		}
		cost, known := table[row.String()]
		c.kinds[kind] = cost
		for i := range kv.classes {
			if !known && kv.classes[i].Mix.share(kind) > 0 {
				return nil, fmt.Errorf("there is no cost of the operation %s, which class %s asks for", row, kv.classes[i].Name)
			}
		}
	}
	return c, nil
}

// Steps appends the work of op, which the workload has drawn, and returns the bytes of the values that it is about.
func (c *Costs) Steps(dst []machine.Step, op *Op) (_ []machine.Step, bytes int64) {
	c.sizes = c.kv.AppendSizes(c.sizes[:0], op)
	for _, size := range c.sizes {
		dst = c.kinds[op.Kind].Steps(dst, size)
		bytes += size
	}
	return dst, bytes
}

// meanDraws is how many keys stand for those of a class that is too large to be looked at whole, or not asked evenly. The error of a mean
// over them is a three-hundredth of the spread of a single one.
const meanDraws = 100_000

// Mean returns the mean work of each class, with its share, for the machine's optimum.
func (c *Costs) Mean(b machine.Bus) (demands []machine.Demand, shares []float64) {
	for i := range c.kv.classes {
		class := &c.kv.classes[i]
		var core, bytes, n float64
		for index := range class.meanKeys() {
			size := c.kv.sizeOf(class, index)
			for kind := range NumKinds {
				times := class.Mix.share(kind)
				if kind == MultiGet {
					times *= float64(class.Batch)
				}
				cost := &c.kinds[kind]
				core += times * cost.compute(size)
				if moved := times * cost.moved(size); moved > 0 {
					core += moved / cost.alone(b) * 1e9
					bytes += moved
				}
			}
			n++
		}
		d := machine.Demand{Core: time.Duration(core / n), Bytes: bytes / n}
		demands, shares = append(demands, d), append(shares, class.Share)
	}
	return demands, shares
}

// alone returns the bytes per second that the access pattern reaches while nothing else is on the bus.
func (c *Cost) alone(b machine.Bus) float64 {
	if c.At > 0 {
		return min(b.PerCore, c.At)
	}
	return b.PerCore
}

// meanKeys yields keys that stand for what the class asks for: all of them, or a sample that is always the same.
func (c *kvClass) meanKeys() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if (c.Popularity == "" || c.Popularity == "uniform") && c.Keys <= meanDraws {
			for index := range c.Keys {
				if !yield(index) {
					return
				}
			}
			return
		}
		rng := dist.Stream(0, "mean costs", 0)
		for range meanDraws {
			if !yield(c.ranks.Sample(rng)) {
				return
			}
		}
	}
}

// AppendSizes appends the bytes of the values that op, which k has drawn, reads, writes or deletes.
func (k *KV) AppendSizes(dst []int64, op *Op) []int64 {
	c := &k.classes[op.Class]
	dst = append(dst, k.sizeOf(c, c.number(op.Key)))
	for _, key := range op.More {
		dst = append(dst, k.sizeOf(c, c.number(key)))
	}
	return dst
}

// number returns the number in a key of the class.
func (c *kvClass) number(key []byte) (index uint64) {
	for _, digit := range key[len(c.KeyPrefix):] {
		index = index*10 + uint64(digit-'0')
	}
	return index
}
