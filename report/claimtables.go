package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/olekukonko/tablewriter/tw"
)

// claimsHeader names the columns of claims.csv. Figures and thresholds of a claim with baselines are ratios, the others in the unit of
// their metric.
var claimsHeader = []string{
	"profile", "ground", "text", "metric", "class", "controller", "over", "take", "at", "offered_target_rps", "load", "paper", "holds_at", "holds_under",
	"ours", "low", "high", "interval", "repeats", "lower_bound", "optimum_rps", "ceiling_rps", "limit", "outcome", "reasons", "remarks", "note",
}

// WriteClaims writes claims.csv: every claim as it was held against the results.
func WriteClaims(w io.Writer, run *Run) error {
	var records [][]string
	for _, r := range run.Claims() {
		c := r.Claim
		records = append(records, []string{
			textCell(run.profile(r.Variant)), textCell(run.Manifest.Ground), textCell(c.Text), textCell(c.Metric), textCell(r.class()), textCell(c.Controller),
			textCell(r.Over), textCell(c.Take), textCell(c.At), r.Target.String(), textCell(r.Load), c.Paper.String(), c.HoldsAt.String(), c.HoldsUnder.String(),
			r.Ours.Value.String(), r.Ours.Low.String(), r.Ours.High.String(), r.Interval, strconv.Itoa(r.Repeats), strconv.FormatBool(r.AtLeast),
			r.Optimum.String(), r.Ceiling.String(), r.Limit.String(), string(r.Outcome), textCell(strings.Join(r.Reasons, "; ")),
			textCell(strings.Join(r.Remarks, "; ")), textCell(c.Note),
		})
	}
	return writeTable(w, claimsHeader, records)
}

// profile returns what column profile has for a variant.
func (run *Run) profile(variant string) string {
	if variant == "" {
		return run.Manifest.Name
	}
	return run.Manifest.Name + "/" + variant
}

func (r *ClaimResult) class() string {
	if r.Claim.Class == "" {
		return AllClasses
	}
	return r.Claim.Class
}

// subject says what is held against what.
func (r *ClaimResult) subject() string {
	if r.Over == "" {
		return r.Claim.Controller
	}
	if metric, _ := metricNamed(r.Claim.Metric); metric.regret {
		return r.Claim.Controller + " against " + r.Over
	}
	return r.Claim.Controller + " over " + r.Over
}

// loadText writes the load of a figure as tables of loads do.
func loadText(load string, target Value) string {
	switch {
	case load == "" || load == "-":
		return unknown
	case !target.known:
		return load
	case strings.HasSuffix(load, "x"):
		return load + " = " + target.rate()
	default:
		return target.rate()
	}
}

// taken says which load the figure is of.
func (r *ClaimResult) taken() string {
	if r.Load == "" && r.Claim.Take == takeMean && r.Ours.Value.known {
		return "mean of all"
	}
	return loadText(r.Load, r.Target)
}

func (r *ClaimResult) threshold() string {
	var parts []string
	if r.Claim.HoldsAt.known {
		parts = append(parts, "≥ "+r.claimUnit(r.Claim.HoldsAt))
	}
	if r.Claim.HoldsUnder.known {
		parts = append(parts, "≤ "+r.claimUnit(r.Claim.HoldsUnder))
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, ", ")
}

func (r *ClaimResult) ours() string {
	s := r.Ours.with(r.figureUnit)
	if r.AtLeast {
		return "at least " + s
	}
	return s
}

// tally counts the outcomes.
func tally(results []ClaimResult) string {
	counts := map[Outcome]int{}
	for _, r := range results {
		counts[r.Outcome]++
	}
	return fmt.Sprintf("%d held, %d not held, %d undecided", counts[Holds], counts[DoesNotHold], counts[Undecided])
}

func (run *Run) claimsSection(b *bytes.Buffer) {
	results := run.Claims()
	if len(results) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Claims\n\n%s.", tally(results))
	if p := run.Manifest.Paper; p != nil {
		fmt.Fprintf(b, " The paper is %s", escape(p.Name))
		if p.Figure != "" {
			fmt.Fprintf(b, ", figure %s", escape(p.Figure))
		}
		b.WriteString(".")
	}
	variants := len(run.grid().variants) > 1
	// The outcome stands beside the claim: at the end of so wide a table it would be out of sight.
	b.WriteString("\n\n| # | claim | outcome | metric | class |")
	if variants {
		b.WriteString(" variant |")
	}
	b.WriteString(" of | at | paper | threshold | ours | optimum/s | ceiling/s | limit |\n|--:|:--|:--|:--|:--|")
	if variants {
		b.WriteString(":--|")
	}
	b.WriteString(":--|:--|--:|--:|--:|--:|--:|--:|\n")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(b, "| %d | %s | **%s** | %s | %s |", i+1, escape(r.Claim.Text), r.Outcome, escape(r.Claim.Metric), escape(r.class()))
		if variants {
			fmt.Fprintf(b, " %s |", escape(r.Variant))
		}
		fmt.Fprintf(b, " %s | %s | %s | %s | %s | %s | %s | %s |\n", escape(r.subject()), escape(r.taken()), r.claimUnit(r.Claim.Paper),
			r.threshold(), r.ours(), r.Optimum.rate(), r.Ceiling.rate(), r.limit())
	}
	for i := range results {
		if text := results[i].explanation(); text != "" {
			if i == 0 || !explained(results[:i]) {
				b.WriteString("\n")
			}
			fmt.Fprintf(b, "- %d: %s\n", i+1, escape(text))
		}
	}
	b.WriteString(claimsDefinition)
}

// explained reports whether there is something to say about one of the results.
func explained(results []ClaimResult) bool {
	for i := range results {
		if results[i].explanation() != "" {
			return true
		}
	}
	return false
}

// explanation says why a claim is undecided, and what else is to be known of its figure.
func (r *ClaimResult) explanation() string {
	parts := append([]string{}, r.Remarks...)
	if len(r.Reasons) > 0 {
		parts = append([]string{"undecided: " + strings.Join(r.Reasons, "; ")}, parts...)
	}
	if r.Claim.Note != "" {
		parts = append(parts, r.Claim.Note)
	}
	return strings.Join(parts, "; ")
}

const claimsDefinition = `
*ours* is of the repeats together, in parentheses the range of the single repeats (from six repeats on: an interval that has the median with 95 %
confidence). A claim over baselines is a ratio turned so that more is better for the controller: controller over baseline where more of the
metric is better, baseline over controller where less is. *at* is the load at which it was taken. *optimum* and *ceiling* are goodputs of the class
at that load; *limit* is their ratio, the most that anybody can gain in goodput over an ideal single queue. What a ratio has beyond it is the
baseline's fault, and no limit is shown then. A point that is not valid, that is missing, or at which a controller had not converged decides nothing: a claim that hangs on one is
undecided.
`

// longestText bounds the text of a claim in a terminal's table, in characters.
const longestText = 48

// terminalClaims writes the claims for a terminal.
func (run *Run) terminalClaims(w io.Writer) error {
	results := run.Claims()
	if len(results) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nclaims: %s\n", tally(results)); err != nil {
		return err
	}
	left, right := tw.AlignLeft, tw.AlignRight
	table := newTable(w, []string{"#", "claim", "of", "at", "paper", "threshold", "ours", "limit", "outcome"},
		[]tw.Align{right, left, left, left, right, right, right, right, left})
	for i := range results {
		r := &results[i]
		of := r.subject()
		if r.Variant != "" {
			of += " (" + r.Variant + ")"
		}
		err := table.Append([]string{
			strconv.Itoa(i + 1), shortened(printable(r.Claim.Text)), printable(of), printable(r.taken()), r.claimUnit(r.Claim.Paper), r.threshold(), r.ours(),
			r.limit(), string(r.Outcome),
		})
		if err != nil {
			return err
		}
	}
	if err := table.Render(); err != nil {
		return err
	}
	for i := range results {
		if r := &results[i]; len(r.Reasons)+len(r.Remarks) > 0 {
			if _, err := fmt.Fprintf(w, "  %d: %s\n", i+1, printable(strings.Join(append(append([]string{}, r.Reasons...), r.Remarks...), "; "))); err != nil {
				return err
			}
		}
	}
	return nil
}

func shortened(s string) string {
	if r := []rune(s); len(r) > longestText {
		return string(r[:longestText-1]) + "…"
	}
	return s
}
