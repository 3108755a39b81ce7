package compare

import (
	"fmt"
	"strconv"
	"strings"

	"spillway/report"
)

// unknown is how people are shown what is not known.
const unknown = "–"

// plain writes a number in as few digits as it has.
func plain(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// value writes one side of a comparison.
func (c *Comparison) value(v report.Value) string { return report.MetricText(c.Metric, v) }

// changeText writes a change: in percent, or in points for shares.
func (c *Comparison) changeText() string {
	if c.Identical {
		return "0"
	}
	return c.signed(c.Change)
}

func (c *Comparison) signed(v report.Value) string {
	n, ok := v.Get()
	if !ok {
		return unknown
	}
	return signed(100*n) + " " + c.unit()
}

// signed writes a number with its sign; what would be shown as a zero has none.
func signed(n float64) string {
	text := fmt.Sprintf("%+.2f", n)
	if text == "+0.00" || text == "-0.00" {
		return "0.00"
	}
	return text
}

func (c *Comparison) unit() string {
	if report.IsShare(c.Metric) {
		return "points"
	}
	return "%"
}

// intervalText writes the interval of the change.
func (c *Comparison) intervalText() string {
	low, ok := c.Low.Get()
	high, okHigh := c.High.Get()
	if !ok || !okHigh {
		return unknown
	}
	return signed(100*low) + " … " + signed(100*high)
}

// pText writes the corrected p.
func (c *Comparison) pText() string {
	p, ok := c.Adjusted.Get()
	if !ok {
		return unknown
	}
	return probability(p)
}

// probability writes a p.
func probability(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// moreText writes how many more repeats a side would decide.
func (c *Comparison) moreText() string {
	switch {
	case c.More == 0:
		return ""
	case min(c.BaseN, c.CandidateN)+c.More >= mostRepeats:
		return fmt.Sprintf(">%d", mostRepeats)
	}
	return fmt.Sprintf("+%d", c.More)
}

// repeatsText writes how many repeats were compared.
func (c *Comparison) repeatsText() string {
	if c.Paired && c.BaseN == c.CandidateN {
		return fmt.Sprintf("%d pairs", c.BaseN)
	}
	return fmt.Sprintf("%d+%d", c.BaseN, c.CandidateN)
}

// listed are the comparisons that people are shown: not those that are equal in every repeat, which a suite has hundreds of, unless there is something to
// be said of them.
func (r *Result) listed() (list []*Comparison) {
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; !c.Identical || c.Why != "" {
			list = append(list, c)
		}
	}
	return list
}

// several reports whether the comparisons differ in what of returns.
func several(list []*Comparison, of func(*Comparison) string) bool {
	for _, c := range list {
		if of(c) != of(list[0]) {
			return true
		}
	}
	return false
}

// summary says in a line what came out.
func (r *Result) summary() string {
	var parts []string
	for _, o := range []Outcome{Worse, Better, Same, Undecided, TooFew, NotThere, NotDefined, Void} {
		if n := r.Count(o); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	text := fmt.Sprintf("%d comparisons: %s", len(r.Comparisons), strings.Join(parts, ", "))
	if n := len(r.Comparisons) - len(r.listed()); n > 0 {
		text += fmt.Sprintf("; %d equal in every repeat, not listed", n)
	}
	return text
}

// verdict says in a word what a program should make of it.
func (r *Result) verdict() string {
	switch {
	case len(r.Void) > 0:
		return "void"
	case r.Regressed():
		return "regression"
	case !r.Comparable():
		return "not comparable"
	case r.Count(Better) > 0:
		return "better"
	case r.Count(Undecided) > 0:
		return "no regression found, not all is decided"
	}
	return "same"
}
