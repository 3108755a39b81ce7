// Package compare holds the results of a candidate against those of a base: what got better, what got worse, and of what that cannot be said.
//
// A point is compared with the same point of the other side: profile, variant, controller, load and class. The repeats of a point are the sample,
// and the value of each is its own: its goodput, its p99. No percentile is averaged, nor are histograms merged, because how much one repeat differs from
// the next is what a difference is judged by.
//
// A difference is called one when it is unlikely to be chance, all comparisons taken together, and large enough to matter. See docs/method.md and
// docs/adr/0028.
package compare

import (
	"slices"

	"spillway/internal/stats"
	"spillway/report"
)

// Outcome is what became of a comparison.
type Outcome string

// The outcomes. Only Better and Worse say that something changed.
const (
	Better     Outcome = "better"
	Worse      Outcome = "worse"
	Same       Outcome = "same"           // equal, or not different by the least effect, be it chance or a small difference
	Undecided  Outcome = "undecided"      // it may differ by the least effect, and may not: more repeats would tell
	TooFew     Outcome = "too few"        // repeats to decide anything
	NotThere   Outcome = "not comparable" // a side has no valid repeat, or no value where the other has one
	NotDefined Outcome = "no value"       // neither side has a value of the metric
	Void       Outcome = "void"           // the machine itself changed
)

// Defaults of Options, and what is not an option.
const (
	DefaultThreshold = 0.02
	confidence       = 0.95 // of the interval that is shown beside a change

	// stated is the probability of any false alarm among all comparisons of a Result that is promised. The tests are held to half of it: Student's test
	// of six values keeps its level about, not always.
	stated    = 0.05
	alpha     = stated / 2
	rankAlpha = 0.05 // of the test by ranks, which is not corrected

	// Fewest is how many repeats a side can decide: that five pairs all point the same way is chance once in 16 times.
	Fewest = 6
)

// DefaultMetrics are what is compared unless something else is asked for.
func DefaultMetrics() []string { return []string{"goodput_rps", "latency_p99_us"} }

// Options say what is compared and what counts.
type Options struct {
	Metrics   []string // those of report.Directed; nil for DefaultMetrics
	Threshold float64  // the least change that counts, as a share; of metrics that are shares themselves, in points. 0 for any
	Anyway    bool     // compare what was measured under different circumstances too, and warn
}

// Comparison is one metric of one class at one point.
type Comparison struct {
	Profile    string `json:"profile"`
	Ground     string `json:"ground"`
	Variant    string `json:"variant,omitempty"`
	Controller string `json:"controller"` // its label
	Load       string `json:"load"`       // as report.Row.Load has it
	Class      string `json:"class"`
	Metric     string `json:"metric"`

	Target     report.Value `json:"offered_target_rps"`  // of the base
	Base       report.Value `json:"base"`                // median of the repeats
	Candidate  report.Value `json:"candidate"`           // likewise
	BaseN      int          `json:"base_repeats"`        // that have a value
	CandidateN int          `json:"candidate_repeats"`   // likewise
	Paired     bool         `json:"paired"`              // repeats of the same seed were held against each other
	Identical  bool         `json:"identical,omitempty"` // in every pair
	Change     report.Value `json:"change"`              // as a share of the base; of metrics that are shares, the difference
	Low        report.Value `json:"change_low"`          // of its interval, not corrected for other comparisons
	High       report.Value `json:"change_high"`
	Student    report.Value `json:"p_student"`  // of the test that assumes something of the spread
	Rank       report.Value `json:"p_ranks"`    // and of the one that does not; both unknown where nothing was tested
	Adjusted   report.Value `json:"p_adjusted"` // Student, corrected for all comparisons of the result
	Outcome    Outcome      `json:"outcome"`
	Why        string       `json:"why,omitempty"`          // the outcome is what it is, where that does not follow from the figures
	More       int          `json:"more_repeats,omitempty"` // a side that it would take besides; 0 where they would not help

	location stats.Location
	scale    scale
}

// Place is a point and class that only one side has; of a profile that only one side has, its name alone.
type Place struct {
	Profile    string       `json:"profile"`
	Variant    string       `json:"variant,omitempty"`
	Controller string       `json:"controller,omitempty"`
	Load       string       `json:"load,omitempty"`
	Class      string       `json:"class,omitempty"`
	Target     report.Value `json:"offered_target_rps,omitzero"`
}

// Setting is a key of the profile that differs on purpose.
type Setting struct {
	Profile   string `json:"profile"`
	Key       string `json:"key"`
	Base      string `json:"base"`
	Candidate string `json:"candidate"`
}

// Result is a comparison of two sides.
type Result struct {
	Base, Candidate  []*report.Run
	Options          Options
	Comparisons      []Comparison
	MissingCandidate []Place   // the base has them
	MissingBase      []Place   // the candidate has them
	Settings         []Setting // that differ, and may
	Warnings         []string
	Void             []string // why nothing can be said at all; empty otherwise
	Canaries         []Canary // of the ground host
}

// NotComparable is the error of results that were obtained in such different ways that their difference says nothing.
type NotComparable struct{ Reasons []string }

// Error implements error.
func (e *NotComparable) Error() string {
	text := "not comparable"
	for _, r := range e.Reasons {
		text += "\n  " + r
	}
	return text
}

// Runs compares the runs of two sides. Runs of the same profile on one side are taken together. The error is a *NotComparable when the
// circumstances forbid a comparison.
func Runs(base, candidate []*report.Run, o Options) (*Result, error) {
	if len(o.Metrics) == 0 {
		o.Metrics = DefaultMetrics()
	}
	r := &Result{Base: base, Candidate: candidate, Options: o}
	pairs, err := r.match()
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		r.compare(p)
	}
	r.correct()
	r.canaries()
	return r, nil
}

// Regressed reports whether anything became worse.
func (r *Result) Regressed() bool { return r.Count(Worse) > 0 }

// Comparable reports whether the result may be relied upon when it says that nothing became worse: nothing that the base has is missing or not valid in
// the candidate, something has a value, there were repeats enough, and the machine was the same. With Options.Anyway missing points do not matter.
func (r *Result) Comparable() bool {
	return len(r.Void) == 0 && len(r.Comparisons) > r.Count(NotDefined) && r.Count(TooFew) == 0 && r.Count(NotThere) == 0 && (len(r.MissingCandidate) == 0 || r.Options.Anyway)
}

// Count returns how many comparisons have an outcome.
func (r *Result) Count(o Outcome) (n int) {
	for i := range r.Comparisons {
		if r.Comparisons[i].Outcome == o {
			n++
		}
	}
	return n
}

// warn adds a warning once.
func (r *Result) warn(text string) {
	if !slices.Contains(r.Warnings, text) {
		r.Warnings = append(r.Warnings, text)
	}
}
