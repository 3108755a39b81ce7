package report

import (
	"bytes"
	"fmt"
	"strings"
)

// What is to be said of a capacity that was searched, where it is not what loads may be shares of.

// bold writes the capacity for a report; one of which a lower end is known stands out as such.
func (c *Capacity) bold() string {
	if c.AtLeast {
		return "**at least " + Known(c.RPS).rate() + "**"
	}
	return Known(c.RPS).rate()
}

// capacityDoubts writes what a reader must know of the capacity before any figure.
func (run *Run) capacityDoubts(b *bytes.Buffer) {
	if c := run.Manifest.Capacity; c != nil && c.AtLeast {
		fmt.Fprintf(b, "\n**The capacity is at least %s requests per second, and not known:** what failed above it was the generator, or nothing did. "+
			"Loads that are given as shares of it may be smaller ones.\n", Known(c.RPS).rate())
	}
	if text := run.tooLow(); text != "" {
		fmt.Fprintf(b, "\n**The capacity found is too low:** %s.\n", escape(text))
	}
}

// tooLowLine is tooLow for the terminal.
func (run *Run) tooLowLine() string {
	text := run.tooLow()
	if text == "" {
		return ""
	}
	return "the capacity found is too low: " + printable(text) + "\n"
}

// inTime is the share of requests that an overloaded server without a control does not answer in time: the search itself takes a rate to hold when
// the p99 of latency does.
const inTime = 0.99

// tooLow says that a load above the capacity that was searched was no overload, since a server without a control had everything in time. It is empty where
// nothing says so.
func (run *Run) tooLow() string {
	c := run.Manifest.Capacity
	if c == nil || c.Analytic {
		return ""
	}
	type load struct{ controller, factor string }
	var order []load
	sums := map[load]Fates{}
	for i := range run.Rows {
		r := &run.Rows[i]
		rate, ok := r.OfferedTargetRPS.Get()
		if r.Class != AllClasses || r.LoadFactor == "" || !ok || rate <= max(c.RPS, c.High) || !run.Manifest.uncontrolled(r.Controller) {
			continue
		}
		l := load{r.Controller, r.LoadFactor}
		sum, seen := sums[l]
		if !seen {
			order = append(order, l)
		}
		sums[l] = sum.Add(r.Fates)
	}
	var found []string
	for _, l := range order {
		sum := sums[l]
		if n := sum.Arrivals(); n > 0 && float64(sum.OK) >= inTime*float64(n) {
			found = append(found, fmt.Sprintf("%s answered %.4g %% in time at %sx", l.controller, 100*float64(sum.OK)/float64(n), l.factor))
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, so that was no overload. Factors of load mean nothing here; give rates (load.rates)",
		strings.Join(found, ", "))
}

// uncontrolled reports whether the controller of a label lets everything queue.
func (m *Manifest) uncontrolled(label string) bool {
	for i := range m.Controllers {
		if m.Controllers[i].Label == label {
			return m.Controllers[i].Name == "none"
		}
	}
	return label == "none"
}
