package compare

import (
	"math"
	"slices"

	"spillway/report"
)

// scale is in what a metric is compared.
type scale struct {
	kind   scaleKind
	middle float64 // of bounded: a value that is neither nothing nor infinite
}

type scaleKind uint8

const (
	// logarithm is for quantities, whose changes are ratios: the difference of logarithms is the logarithm of the ratio, as large for a halving as for a doubling.
	logarithm scaleKind = iota
	// points is for shares of a whole, which may be 0.
	points
	// bounded is for quantities of which some value is 0 or infinite, and so has no logarithm: 2(b−a)/(b+a), which is near the difference of
	// logarithms where that is small, and ±2 from or to nothing.
	bounded
)

func scaleOf(metric string, a, b []float64) scale {
	if report.IsShare(metric) {
		return scale{kind: points}
	}
	var ordinary []float64
	for _, list := range [][]float64{a, b} {
		for _, v := range list {
			if v > 0 && !math.IsInf(v, 1) {
				ordinary = append(ordinary, v)
			}
		}
	}
	if len(ordinary) == len(a)+len(b) {
		return scale{kind: logarithm}
	}
	s := scale{kind: bounded, middle: 1}
	if len(ordinary) > 0 {
		slices.Sort(ordinary)
		s.middle = ordinary[len(ordinary)/2]
	}
	return s
}

// difference returns the difference of a pair.
func (s scale) difference(a, b float64) float64 {
	switch s.kind {
	case points:
		return b - a
	case logarithm:
		return math.Log(b / a)
	}
	return relative(a, b)
}

// transformed returns values whose differences are on the scale.
func (s scale) transformed(values []float64) []float64 {
	list := make([]float64, len(values))
	for i, v := range values {
		switch s.kind {
		case points:
			list[i] = v
		case logarithm:
			list[i] = math.Log(v)
		default:
			list[i] = relative(s.middle, v)
		}
	}
	return list
}

// relative returns 2(b−a)/(b+a), also for what is 0 or infinite.
func relative(a, b float64) float64 {
	switch {
	case a == b:
		return 0
	case math.IsInf(a, 1):
		return -2
	case math.IsInf(b, 1):
		return 2
	}
	return 2 * (b - a) / (b + a)
}

// change returns a difference on the scale as a share of the base, for shares in points. On the bounded scale it is that of the medians, unknown where
// the base is nothing or either is infinite.
func (s scale) change(difference float64, c *Comparison) report.Value {
	switch s.kind {
	case points:
		return report.Known(difference)
	case logarithm:
		return report.Known(math.Expm1(difference))
	}
	b, ok := c.Base.Get()
	o, okOther := c.Candidate.Get()
	switch {
	case ok && okOther && b == o:
		return report.Known(0)
	case !ok || !okOther || b == 0:
		return report.Value{}
	}
	return report.Known(o/b - 1)
}

// least returns the least effect on the scale.
func (s scale) least(threshold float64) float64 {
	if s.kind == points {
		return threshold
	}
	return math.Log1p(threshold)
}
