package report

// ClaimLine is a claim held against the results, as text for the tables of other documents. What is not known is a dash.
type ClaimLine struct {
	Text, Metric, Class, Variant string
	Controller, Of               string // its label; and over which baseline, as one text
	At                           string // the load at which the figure was taken
	Paper, Threshold, Ours       string // Ours has its interval in parentheses
	Optimum, Ceiling, Limit      string
	Outcome                      Outcome
	Why                          string // why it cannot hold or is undecided, what else is to be known of the figure, and the profile's note
	Take                         string // which load counts: the claim's own word, or that load
}

// Line returns r as text.
func (r *ClaimResult) Line() ClaimLine {
	take := r.Claim.Take
	if r.Claim.At != "" {
		take = "at " + r.Claim.At
	}
	return ClaimLine{
		Text: r.Claim.Text, Metric: r.Claim.Metric, Class: r.class(), Variant: r.Variant, Controller: r.Claim.Controller, Of: r.subject(), At: r.taken(),
		Paper: r.claimUnit(r.Claim.Paper), Threshold: r.threshold(), Ours: r.ours(),
		Optimum: r.Optimum.rate(), Ceiling: r.Ceiling.rate(), Limit: r.limit(), Outcome: r.Outcome, Why: r.explanation(), Take: take,
	}
}

// MarkdownCell makes text safe for a cell of a Markdown table, whoever wrote it: one line, and nothing in it is markup.
func MarkdownCell(s string) string { return escape(s) }
