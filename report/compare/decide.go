package compare

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"spillway/internal/stats"
	"spillway/report"
)

// values takes the metric of the repeats and tests their difference.
func (r *Result) values(c *Comparison, base, candidate []sample) {
	b, o := valuesOf(c.Metric, base), valuesOf(c.Metric, candidate)
	if c.Paired {
		b, o = bothKnown(b, o)
	} else {
		b, o = known(b), known(o)
	}
	c.BaseN, c.CandidateN = len(b), len(o)
	c.Base, c.Candidate = median(b), median(o)
	switch {
	case len(b) == 0 && len(o) == 0:
		c.Outcome = NotDefined
		return
	case len(b) == 0 || len(o) == 0:
		which := "base"
		if len(o) == 0 {
			which = "candidate"
		}
		c.Outcome, c.Why = NotThere, join(c.Why, c.Metric+" is not known in the "+which)
		return
	}
	if equal(b, o, c.Paired) {
		c.Outcome, c.Identical = Same, c.Paired
		c.Change = report.Known(0)
		return
	}
	s := scaleOf(c.Metric, b, o)
	var l stats.Location
	if c.Paired {
		d := make([]float64, len(b))
		for i := range b {
			d[i] = s.difference(b[i], o[i])
		}
		l = stats.OneSample(d)
	} else {
		l = stats.TwoSamples(s.transformed(b), s.transformed(o))
	}
	c.Change = s.change(l.Mean, c)
	if low, high, ok := l.Interval(confidence); ok && s.kind != bounded {
		c.Low, c.High = s.change(low, c), s.change(high, c)
	}
	c.location, c.scale = l, s
	if min(len(b), len(o)) < Fewest {
		c.Outcome = TooFew
		return
	}
	c.Student, c.Rank = report.Known(l.Student), report.Known(l.Exact)
}

// correct corrects for all comparisons that were tested, and decides them. Those whose values are equal in every repeat are not counted: they cannot
// raise an alarm, so there is nothing to correct for.
func (r *Result) correct() {
	var p []float64
	var tested []*Comparison
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if s, ok := c.Student.Get(); ok {
			p, tested = append(p, s), append(tested, c)
		}
	}
	for i, adjusted := range stats.Holm(p) {
		tested[i].Adjusted = report.Known(adjusted)
		tested[i].decide(adjusted, r.Options.Threshold, len(tested))
	}
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Outcome == TooFew {
			c.More = max(c.enough(r.Options.Threshold, max(len(tested), 1)), Fewest) - min(c.BaseN, c.CandidateN)
		}
	}
}

// decide says what a tested comparison came to.
func (c *Comparison) decide(adjusted, threshold float64, family int) {
	significant := adjusted <= alpha && c.location.Exact <= rankAlpha
	large := c.large(threshold)
	switch {
	case significant && large:
		c.Outcome = Worse
		if (c.location.Mean > 0) == (report.Direction(c.Metric) > 0) {
			c.Outcome = Better
		}
	case significant:
		c.Outcome = Same
	case c.within(threshold):
		c.Outcome = Same
	default:
		c.Outcome = Undecided
		c.More = max(c.enough(threshold, family)-min(c.BaseN, c.CandidateN), 1)
	}
}

// large reports whether the change is at least the least effect.
func (c *Comparison) large(threshold float64) bool {
	change, ok := c.Change.Get()
	return !ok || math.Abs(change) >= threshold // from nothing to something there is no share, and it is large
}

// within reports whether the whole interval is below the least effect.
func (c *Comparison) within(threshold float64) bool {
	low, ok := c.Low.Get()
	high, okHigh := c.High.Get()
	return ok && okHigh && -threshold < low && high < threshold
}

// mostRepeats is beyond which the number of repeats that would decide is not told: nobody makes so many.
const mostRepeats = 1000

// enough returns how many repeats a side would decide if further ones were spread as those that there are: so many that a change as large as this one
// would be significant, first of all the comparisons, or that the interval would end below the least effect. It returns mostRepeats when it takes as many or more.
func (c *Comparison) enough(threshold float64, family int) int {
	n := min(c.BaseN, c.CandidateN)
	if n < 2 {
		return Fewest
	}
	spread := c.location.StdErr * math.Sqrt(float64(n)) // of one pair, or of one value of each side
	distance, level := c.scale.least(threshold)-math.Abs(c.location.Mean), confidence
	if c.large(threshold) {
		distance, level = math.Abs(c.location.Mean), 1-alpha/float64(family)
	}
	if distance <= 0 {
		return mostRepeats
	}
	// The interval only narrows with further repeats.
	return Fewest + sort.Search(mostRepeats-Fewest, func(i int) bool {
		repeats := float64(Fewest + i)
		df := repeats - 1
		if !c.Paired {
			df *= 2
		}
		return stats.StudentQuantile((1+level)/2, df)*spread/math.Sqrt(repeats) <= distance
	})
}

// valuesOf returns a metric of the repeats; NaN where it is not known. The latency of a point that answered nothing is infinite.
func valuesOf(metric string, list []sample) []float64 {
	values := make([]float64, len(list))
	for i, s := range list {
		v, ok := s.run.Of(metric, s.row).Get()
		switch {
		case ok:
			values[i] = v
		case strings.HasPrefix(metric, "latency_") && s.row.Fates.Arrivals() > 0 && s.row.Fates.Completed() == 0:
			values[i] = math.Inf(1)
		default:
			values[i] = math.NaN()
		}
	}
	return values
}

func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// bothKnown keeps the pairs of which both values are known; where there is none, what each side has.
func bothKnown(a, b []float64) (x, y []float64) {
	for i := range a {
		if !math.IsNaN(a[i]) && !math.IsNaN(b[i]) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	if len(x) == 0 {
		return known(a), known(b)
	}
	return x, y
}

// equal reports whether the values are the same: in every pair, or all of them.
func equal(a, b []float64, paired bool) bool {
	if paired {
		return slices.Equal(a, b)
	}
	same := func(v float64) bool { return v == a[0] }
	return !slices.ContainsFunc(a, func(v float64) bool { return !same(v) }) && !slices.ContainsFunc(b, func(v float64) bool { return !same(v) })
}

// median returns the median of values; unknown where there is none or it is infinite.
func median(values []float64) report.Value {
	if len(values) == 0 {
		return report.Value{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return report.Known((sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return fmt.Sprintf("%s; %s", a, b)
}
