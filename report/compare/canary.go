package compare

import (
	"fmt"
	"math"

	"spillway/internal/stats"
	"spillway/report"
)

// Canary is one piece of fixed work that was timed before and after the points of the ground host.
type Canary struct {
	Name       string       `json:"name"`
	Base       report.Value `json:"base_us"` // median of the points
	Candidate  report.Value `json:"candidate_us"`
	BaseN      int          `json:"base_points"`
	CandidateN int          `json:"candidate_points"`
	Change     report.Value `json:"change"`
	P          report.Value `json:"p"` // of rank sums, corrected for the number of canaries
	Moved      bool         `json:"moved"`
}

const groundHost = "host"

// canaries are the pieces of fixed work.
var canaries = []struct {
	name string
	of   func(*report.CanaryTimes) float64
}{
	{"compute", func(t *report.CanaryTimes) float64 { return t.ComputeUS }},
	{"stream", func(t *report.CanaryTimes) float64 { return t.StreamUS }},
}

// canaries holds the fixed work of the two sides against each other. If it took longer on one side, by as much as would count as a difference and not by
// chance, then it is the computer that changed, and nothing can be said of what it measured.
func (r *Result) canaries() {
	if !r.on(groundHost) {
		return
	}
	var p []float64
	for _, k := range canaries {
		c := Canary{Name: k.name}
		base, candidate := times(r.Base, k.of), times(r.Candidate, k.of)
		c.BaseN, c.CandidateN = len(base), len(candidate)
		if c.BaseN == 0 || c.CandidateN == 0 {
			r.warn("nobody timed fixed work beside the points of both sides, so whether the computer itself became slower is not known")
			return
		}
		c.Base, c.Candidate = median(base), median(candidate)
		b, _ := c.Base.Get()
		o, _ := c.Candidate.Get()
		c.Change = report.Known(o/b - 1)
		p = append(p, stats.TwoSamples(base, candidate).Exact)
		if least := 2 / choices(c.BaseN+c.CandidateN, c.BaseN); least*float64(len(canaries)) > rankAlpha && c.Change != report.Known(0) {
			r.warn(fmt.Sprintf("fixed work was timed beside %d and %d points, too few to tell whether the computer itself became slower", c.BaseN, c.CandidateN))
		}
		r.Canaries = append(r.Canaries, c)
	}
	for i, adjusted := range stats.Holm(p) {
		c := &r.Canaries[i]
		c.P = report.Known(adjusted)
		change, _ := c.Change.Get()
		if c.Moved = adjusted <= rankAlpha && math.Abs(change) >= r.Options.Threshold; c.Moved {
			r.Void = append(r.Void, "the computer itself changed: "+c.text())
		}
	}
	if len(r.Void) > 0 {
		for i := range r.Comparisons {
			r.Comparisons[i].Outcome, r.Comparisons[i].More = Void, 0
		}
	}
}

// choices returns in how many ways k of n can be chosen. The smallest p of rank sums, of both tails, is two of them.
func choices(n, k int) float64 {
	ways := 1.0
	for i := range k {
		ways *= float64(n-i) / float64(i+1)
	}
	return ways
}

// text says how long a canary took.
func (c *Canary) text() string {
	p, _ := c.P.Get()
	change, _ := c.Change.Get()
	return fmt.Sprintf("fixed %s took %s beside the points of the base and %s beside those of the candidate (%+.1f %%, %d and %d points, p %s)",
		c.Name, report.MetricText("latency_p50_us", c.Base), report.MetricText("latency_p50_us", c.Candidate), 100*change, c.BaseN, c.CandidateN, probability(p))
}

// on reports whether any run of the base was on a ground. Those of the candidate were on the same, unless somebody insisted.
func (r *Result) on(ground string) bool {
	for _, run := range r.Base {
		if run.Manifest.Ground == ground {
			return true
		}
	}
	return false
}

// times returns what a canary took beside each point: the geometric mean of before and after.
func times(runs []*report.Run, of func(*report.CanaryTimes) float64) (list []float64) {
	for _, run := range runs {
		for i := range run.Manifest.Points {
			if c := run.Manifest.Points[i].Canary; c != nil && of(&c.Before) > 0 && of(&c.After) > 0 {
				list = append(list, math.Sqrt(of(&c.Before)*of(&c.After)))
			}
		}
	}
	return list
}
