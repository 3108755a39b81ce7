//go:build linux

package calibrate

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"spillway/profiles"
)

// sureShare is by how much a cold value must be dearer than a cached one to be believed to be.
const sureShare = 0.10

// Fit turns points into a cost table: what a request costs however small its value, what each byte costs of a value that a cache holds, and how
// fast the bytes of one come that no cache does.
func Fit(ops []costOp, points []CostPoint) *profiles.Costs {
	t := &profiles.Costs{Operations: map[string]profiles.OperationCost{}, Provenance: map[string]string{}}
	for i := range ops {
		op := &ops[i]
		var hot, cold []CostPoint
		for _, p := range points {
			switch {
			case p.Operation != op.name:
			case p.Cold:
				cold = append(cold, p)
			default:
				hot = append(hot, p)
			}
		}
		if len(hot) == 0 {
			continue
		}
		o := profiles.OperationCost{Compute: rounding(hot[0].Best)}
		t.Provenance[op.name+".compute"] = profiles.Measured
		if op.sizes {
			base := float64(hot[0].Best)
			perByte := slope(hot, base)
			o.Compute = rounding(time.Duration(max(base-perByte*float64(hot[0].Size), 0)))
			o.ComputePerKB = rounding(time.Duration(math.Round(perByte * 1000)))
			t.Provenance[op.name+".compute_per_kb"] = profiles.Measured
			o.MovedPerByte = op.moved
			t.Provenance[op.name+".moved_per_byte"] = "derived"
			o.CachedBelow = cachedBelow(hot, cold)
			t.Provenance[op.name+".cached_below"] = profiles.Measured
			if extra := slope(cold, base) - perByte; extra > 0 && op.moved > 0 {
				o.At = profiles.Size(rounded(op.moved / extra * 1e9))
				t.Provenance[op.name+".at"] = profiles.Measured
			}
		}
		t.Operations[op.name] = o
	}
	return t
}

// rounding keeps what is worth keeping of a time.
func rounding(d time.Duration) time.Duration { return time.Duration(rounded(float64(d))) }

// slope returns the ns that each byte adds, by least squares through the cost of the smallest value. Relative errors are what is squared, since
// the largest value would otherwise decide alone.
func slope(points []CostPoint, base float64) float64 {
	num, den := 0.0, 0.0
	for _, p := range points {
		if p.Size <= smallValue {
			continue
		}
		x, y := float64(p.Size-smallValue), float64(p.Best)-base
		w := 1 / math.Pow(float64(p.Best), 2)
		num, den = num+w*x*y, den+w*x*x
	}
	if den == 0 {
		return 0
	}
	return max(num/den, 0)
}

// cachedBelow returns the smallest size from which on a value that is in no cache is clearly dearer than one that is.
func cachedBelow(hot, cold []CostPoint) profiles.Size {
	least := profiles.Size(0)
	for _, c := range slices.Backward(cold) {
		i := slices.IndexFunc(hot, func(h CostPoint) bool { return h.Size == c.Size })
		if i < 0 || float64(c.Best) < (1+sureShare)*float64(hot[i].Best) {
			break
		}
		least = profiles.Size(c.Size)
	}
	return least
}

// Text says what was measured, for people.
func (t *CostTable) Text() string {
	var b strings.Builder
	head := frameHead
	for _, k := range costKinds {
		if k.kind == t.Kind {
			head = k.head
		}
	}
	fmt.Fprintln(&b, head)
	fmt.Fprintf(&b, "Measured by loadgen calibrate --costs %s: time of one core of a server on one core, sixteen connections, one request each.\n", t.Kind)
	for _, f := range t.Noise.Findings {
		fmt.Fprintf(&b, "This machine was disturbed: %s.\n", f)
	}
	if t.Kind == kindFrame {
		frameText(&b, t.Points)
		return b.String()
	}
	b.WriteString("\noperation    value  cached   best    median  spread  requests\n")
	for _, p := range t.Points {
		cached := "yes"
		switch {
		case p.Size == 0:
			cached = "-"
		case p.Cold:
			cached = "no"
		}
		fmt.Fprintf(&b, "%-9s %8d  %-6s %8s %8s  %4.0f%%  %8d\n", p.Operation, p.Size, cached, short(p.Best), short(p.Median), 100*p.Spread, p.Requests)
	}
	return b.String()
}

// File returns the table as a file that profiles.LoadCosts reads.
func (t *CostTable) File() ([]byte, error) {
	var b bytes.Buffer
	for line := range strings.Lines(t.Text()) {
		b.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
	}
	b.Write(t.Table.Text())
	return b.Bytes(), nil
}
