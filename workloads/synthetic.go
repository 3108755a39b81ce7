package workloads

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/internal/dist"
	"spillway/machine"
)

// SyntheticStep is one step of a class's work with its amounts still to be drawn: of Kind's Duration or Bytes, whichever it has.
type SyntheticStep struct {
	Kind   machine.StepKind
	Index  uint16    // of Lock, Enter, Leave
	Amount dist.Dist // nanoseconds of Compute, Lock, Delay; bytes of Stream, Memory; nil for Enter and Leave
	Rate   float64   // of Stream: bytes per second that this access pattern reaches alone; 0 for the bus's per-core rate
}

// SyntheticClass is one kind of synthetic request.
type SyntheticClass struct {
	Name  string
	Share float64       // of all requests; the shares of all classes sum to 1
	SLO   time.Duration // latency limit, 0 for none; it has no influence on what is asked
	Work  []SyntheticStep
}

// Synthetic is a workload whose operations say themselves what work they are: in Op.Steps, and spelled out in Op.Key for a server at
// the other end of a wire (see machine.AppendSteps). It is not safe for concurrent use.
type Synthetic struct {
	upTo
	classes []SyntheticClass
	steps   []machine.Step
	key     []byte
	marks   []string // by class; nil unless keys have them
}

var (
	_ Workload = (*Synthetic)(nil)
	_ Varying  = (*Synthetic)(nil)
)

// NewSynthetic returns the workload over classes, or an error that names the class and what is wrong with it.
func NewSynthetic(classes []SyntheticClass) (*Synthetic, error) {
	if len(classes) == 0 {
		return nil, fmt.Errorf("a synthetic workload needs at least one class")
	}
	s := &Synthetic{classes: classes}
	sum, shares := 0.0, make([]float64, len(classes))
	for i, c := range classes {
		if !(c.Share >= 0) {
			return nil, fmt.Errorf("class %q: share must not be negative", c.Name)
		}
		for _, w := range c.Work {
			if (w.Amount == nil) != (w.Kind == machine.Enter || w.Kind == machine.Leave) {
				return nil, fmt.Errorf("class %q: a step without an amount, or a section with one", c.Name)
			}
		}
		// The longest key that the class can ask for decides whether every key fits: no draw spells longer than these digits.
		if n := longestKey(c.Work); n > maxKey {
			return nil, fmt.Errorf("class %q: its %d steps may take %d bytes to spell, a key holds %d: use fewer steps", c.Name, len(c.Work), n, maxKey)
		}
		sum += c.Share
		shares[i] = c.Share
	}
	if sum < 0.999999 || sum > 1.000001 {
		return nil, fmt.Errorf("the shares of the classes sum to %g, not 1", sum)
	}
	s.set(shares)
	return s, nil
}

// Vary has the shares of the classes change with time.
func (s *Synthetic) Vary(shares *Shares) error { return s.vary(shares) }

func longestKey(work []SyntheticStep) int {
	longest := make([]machine.Step, len(work))
	for i, w := range work {
		longest[i] = machine.Step{Kind: w.Kind, Index: w.Index, Rate: w.Rate, Duration: maxAmount - 1, Bytes: maxAmount - 1}
	}
	return len(machine.AppendSteps(nil, longest))
}

// maxAmount bounds a drawn amount: 1000 s, or a TB. A heavy tail must not stop the world.
const maxAmount = 1_000_000_000_000

// Next draws a class and the amounts of its steps.
func (s *Synthetic) Next(rng *rand.Rand, op *Op) {
	class := s.pick(rng.Float64())
	s.steps = s.steps[:0]
	for _, w := range s.classes[class].Work {
		step := machine.Step{Kind: w.Kind, Index: w.Index, Rate: w.Rate}
		if w.Amount != nil {
			amount := min(w.Amount.Sample(rng), maxAmount)
			switch w.Kind {
			case machine.Stream, machine.Memory:
				step.Bytes = int64(amount)
			default:
				step.Duration = time.Duration(amount)
			}
		}
		s.steps = append(s.steps, step)
	}
	s.key = machine.AppendSteps(s.key[:0], s.steps)
	if s.marks != nil {
		s.key = append(s.key, s.marks[class]...)
	}
	*op = Op{Kind: Get, Class: uint16(class), Key: s.key, Steps: s.steps}
}

// Mean returns the mean work of each class, with its share, for the machine's optimum.
func (s *Synthetic) Mean(b machine.Bus) (demands []machine.Demand, shares []float64) {
	for _, c := range s.classes {
		var d machine.Demand
		for _, w := range c.Work {
			step := machine.Step{Kind: w.Kind, Index: w.Index, Rate: w.Rate}
			if w.Amount != nil {
				step.Duration, step.Bytes = time.Duration(w.Amount.Mean()), int64(w.Amount.Mean())
			}
			d.Mean(step, b)
		}
		demands, shares = append(demands, d), append(shares, c.Share)
	}
	return demands, shares
}
