package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// attributionHeader names the columns of attribution.csv. The shares of one class, load and variant sum to to_rps − from_rps.
var attributionHeader = []string{
	"profile", "ground", "offered_target_rps", "load", "class", "form", "from", "to", "from_rps", "to_rps", "part", "share_rps", "share_low_rps",
	"share_high_rps", "share_of_gain", "repeats", "doubts",
}

// WriteAttribution writes attribution.csv: what each part of a controller contributes to its goodput.
func WriteAttribution(w io.Writer, run *Run) error {
	var records [][]string
	for _, a := range run.Attributions() {
		for _, s := range a.Shares {
			records = append(records, []string{
				textCell(run.profile(a.Variant)), textCell(run.Manifest.Ground), a.Target.String(), textCell(a.Load), textCell(a.Class), a.Form, textCell(a.From),
				textCell(a.To), a.FromRPS.String(), a.ToRPS.String(), textCell(s.Part), s.RPS.Value.String(), s.RPS.Low.String(), s.RPS.High.String(),
				s.OfGain.String(), strconv.Itoa(a.Repeats), textCell(strings.Join(a.Doubts, "; ")),
			})
		}
	}
	return writeTable(w, attributionHeader, records)
}

// formText says what a form of attribution is.
var formText = map[string]string{
	FormShapley: "Every combination of the parts was measured. A share is the part's Shapley value: what it adds to the goodput, as the mean over all orders " +
		"in which the parts can be added.",
	FormOrders: "Not every combination of the parts was measured. A share is what the part adds to the goodput, as the mean over all orders of adding the " +
		"parts of which every step was measured.",
	FormChain: "The parts were added in one order only. A share is what the step adds to the goodput; in another order it might be another one.",
}

func (run *Run) attributionSection(b *bytes.Buffer) {
	p, ok := run.attributionPlan()
	if !ok {
		return
	}
	b.WriteString("\n## What each part contributes\n\n")
	if p.why != "" {
		fmt.Fprintf(b, "The controllers' parts allow no attribution: %s.\n", p.why)
		return
	}
	list := run.Attributions()
	if len(list) == 0 {
		b.WriteString("No point of them was measured.\n")
		return
	}
	from, to := list[0].From, list[0].To
	fmt.Fprintf(b, "%s", formText[p.form])
	if p.form == FormOrders {
		fmt.Fprintf(b, " These are %.0f.", p.orders())
	}
	fmt.Fprintf(b, " The shares sum to the whole gain, from %s to %s. In parentheses stands the range of the repeats.", escape(from), escape(to))
	if len(p.left) > 0 {
		fmt.Fprintf(b, " Without a place in it: %s.", escape(strings.Join(p.left, ", ")))
	}
	_, names := p.groups()
	variants := len(run.grid().variants) > 1
	b.WriteString("\n\n| class | load |")
	rule := "|:--|:--|"
	if variants {
		b.WriteString(" variant |")
		rule += ":--|"
	}
	fmt.Fprintf(b, " without/s | with/s | gain/s |")
	rule += "--:|--:|--:|"
	for _, name := range names {
		fmt.Fprintf(b, " %s |", escape(name))
		rule += "--:|"
	}
	b.WriteString("\n" + rule + "\n")
	var doubts []string
	for i := range list {
		a := &list[i]
		a.line(b, variants)
		for _, d := range a.Doubts {
			if variants {
				d += ", variant " + a.Variant
			}
			if !slices.Contains(doubts, d) {
				doubts = append(doubts, d)
			}
		}
	}
	if n := len(doubts); n > longestList {
		doubts = append(doubts[:longestList], fmt.Sprintf("and %d more", n-longestList))
	}
	if len(doubts) > 0 {
		b.WriteString("\nIn doubt:\n\n")
		for _, d := range doubts {
			fmt.Fprintf(b, "- %s\n", escape(d))
		}
	}
}

// line writes a line of the table.
func (a *Attribution) line(b *bytes.Buffer, variants bool) {
	gain := Value{}
	if a.FromRPS.known && a.ToRPS.known {
		gain = Known(a.ToRPS.number - a.FromRPS.number)
	}
	fmt.Fprintf(b, "| %s | %s |", escape(a.Class), escape(loadText(a.Load, a.Target)))
	if variants {
		fmt.Fprintf(b, " %s |", escape(a.Variant))
	}
	fmt.Fprintf(b, " %s | %s | %s |", a.FromRPS.rate(), a.ToRPS.rate(), gain.rate())
	for _, s := range a.Shares {
		text := s.RPS.with(Value.rate)
		if s.OfGain.known {
			text += " = " + s.OfGain.percent()
		}
		b.WriteString(" " + text + " |")
	}
	b.WriteString("\n")
}

// settlingHeader names the columns of settling.csv.
var settlingHeader = []string{
	"profile", "ground", "controller", "offered_target_rps", "load", "repeat", "phase", "at_us", "for_us", "rate_rps", "samples", "level", "steady", "settle_us", "reach_us", "switches",
	"switches_per_s", "switches_lower_bound", "remark",
}

// WriteSettling writes settling.csv: how the capacity of the memory section took to each phase.
func WriteSettling(w io.Writer, run *Run) error {
	var records [][]string
	for _, s := range run.Settlings() {
		r := s.row
		records = append(records, []string{
			textCell(r.Profile), textCell(r.Ground), textCell(r.Controller), r.OfferedTargetRPS.String(), textCell(r.Load()), strconv.Itoa(r.Repeat), strconv.Itoa(s.Number),
			Known(s.Phase.AtUS).String(), Known(s.Phase.ForUS).String(), Known(s.Phase.Rate).String(), strconv.Itoa(s.Samples), s.Level.String(), s.Steady.String(),
			s.SettleUS.String(), s.ReachUS.String(), Known(s.Changes.count).String(), s.Changes.perS().String(), strconv.FormatBool(s.Changes.atLeast), textCell(s.Remark),
		})
	}
	return writeTable(w, settlingHeader, records)
}

const settlingDefinition = `After a switch the capacity of the memory section has *settled* from the first sample on that lies, and from which 80 % of the rest of the
phase lies, within one of the mean of the phase's last half (its *level*). What does not within the first half of its phase has not settled; *steady* is
the share of the last half that is near the level, which says whether it came to rest at all. It has *reached* the level at the first sample that lies
within one of it, whatever comes after: a bandit that goes on exploring can reach a level and not settle. Times are as fine as the trace, whose
samples stand *every* so long. Where the capacity can change more often than that and the controller does not count its changes, *changes* are
at least those that the samples show.

`

func (run *Run) settlingSection(b *bytes.Buffer) {
	list := run.Settlings()
	if len(list) == 0 {
		return
	}
	b.WriteString("\n## Settling\n\n" + settlingDefinition)
	variants := len(run.grid().variants) > 1
	b.WriteString("| controller | load |")
	rule := "|:--|:--|"
	if variants {
		b.WriteString(" variant |")
		rule += ":--|"
	}
	b.WriteString(" repeat | phase | begins | lasts | every | level | steady | settled after | reached after | changes/s | remark |\n" + rule + "--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|:--|\n")
	for i := range list {
		s := &list[i]
		fmt.Fprintf(b, "| %s | %s |", escape(s.row.Controller), escape(loadText(s.row.Load(), s.row.OfferedTargetRPS)))
		if variants {
			fmt.Fprintf(b, " %s |", escape(s.row.Variant()))
		}
		fmt.Fprintf(b, " %d | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.row.Repeat, s.Number, Known(s.Phase.AtUS).micros(), Known(s.Phase.ForUS).micros(),
			over(Known(s.Phase.ForUS), Known(float64(s.Samples))).micros(), plain(s.Level), s.Steady.percent(), s.SettleUS.micros(), s.ReachUS.micros(), s.Changes.text(), escape(s.Remark))
	}
}
