package html

import (
	"strconv"
	"strings"

	"spillway/report"
)

// The table of claims of a page says what that of report.md says in fewer columns, so that it fits a screen: what the lines of one claim have in common
// stands once, and why a line came to its outcome stands beside it rather than below the table.

// claimView is a claim under one variant.
type claimView struct {
	Text, Facts      string // the latter are metric, class and variant
	Note             string
	Threshold, Paper string
	Lines            []claimLine
}

// claimLine is what became of it over one baseline.
type claimLine struct {
	Number                  int // of report.md and of the terminal
	Of, At, Ours, Interval  string
	Limit, Optimum, Ceiling string // the last two are what the limit is the ratio of
	Outcome                 span
	Why                     string
}

func claimViews(run *report.Run) (list []claimView) {
	results := run.Claims()
	for i := range results {
		r := &results[i]
		l := r.Line()
		if i == 0 || results[i-1].Claim != r.Claim || results[i-1].Variant != r.Variant {
			v := claimView{Text: clean(l.Text), Facts: clean(l.Metric + ", class " + l.Class), Threshold: clean(l.Threshold), Paper: clean(l.Paper), Note: clean(r.Claim.Note)}
			switch l.Variant {
			case "":
			case "*":
				v.Facts += ", all variants"
			default:
				v.Facts += ", " + clean(l.Variant)
			}
			list = append(list, v)
		}
		ours, interval, ranged := strings.Cut(clean(l.Ours), " (")
		if ranged {
			interval = "(" + interval
		}
		line := claimLine{
			Number: i + 1, Of: clean(l.Of), At: clean(l.At), Ours: ours, Interval: interval, Limit: clean(l.Limit), Outcome: span{Text: string(l.Outcome), Strong: true},
			Why: strings.TrimSuffix(strings.TrimSuffix(clean(l.Why), clean(r.Claim.Note)), "; "), // the note stands with the claim
		}
		if l.Limit != unknown {
			line.Optimum, line.Ceiling = l.Optimum, l.Ceiling
		}
		last := &list[len(list)-1]
		last.Lines = append(last.Lines, line)
	}
	return list
}

// Short reports whether whose figure is held against whose fits on one line.
func (l claimLine) Short() bool { return len(l.Of) <= 26 }

// withClaims puts the table of claims in the place of the one of report.md, whose remarks have gone into it.
func withClaims(text []block, claims []claimView) (list []block) {
	for _, b := range text {
		switch {
		case len(b.Head) > 0:
			list = append(list, block{Claims: claims})
		case len(b.List) > 0:
		default:
			list = append(list, b)
		}
	}
	return list
}

// claimsSaid says how many claims hold; empty where there is none.
func claimsSaid(run *report.Run) string {
	counts := map[report.Outcome]int{}
	results := run.Claims()
	for i := range results {
		counts[results[i].Outcome]++
	}
	if len(results) == 0 {
		return ""
	}
	n := strconv.Itoa
	return "Of " + n(len(results)) + " claims " + n(counts[report.Holds]) + " hold, " + n(counts[report.DoesNotHold]) + " do not, " + n(counts[report.Undecided]) + " are undecided"
}
