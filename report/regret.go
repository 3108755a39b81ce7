package report

import (
	"bytes"
	"fmt"
	"math"
)

// regretSection sets the goodput under each controller that has a memory section against that under the one that is told the best
// capacity, and says how often the capacity changed for it.
func (run *Run) regretSection(b *bytes.Buffer) {
	oracles := run.oracles()
	if len(oracles) == 0 || len(run.capacity) == 0 {
		return
	}
	g := run.grid()
	variants := len(g.variants) > 1
	var lines bytes.Buffer
	for _, load := range g.loads {
		for _, variant := range g.variants {
			for _, controller := range g.controllers {
				run.regretLine(&lines, g, cell{variant, load, controller, AllClasses}, oracles[0], variants)
			}
		}
	}
	if lines.Len() == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Regret\n\nThe *regret* is the share of the goodput under %s, which is told the best capacity of the memory section at every instant, "+
		"that was missed; below zero, more was served. In parentheses stands the range of the repeats.\n\n| load |", escape(oracles[0]))
	rule := "|:--|"
	if variants {
		b.WriteString(" variant |")
		rule += ":--|"
	}
	b.WriteString(" controller |")
	rule += ":--|"
	for _, class := range g.shown() {
		fmt.Fprintf(b, " regret, %s |", escape(class))
		rule += "--:|"
	}
	b.WriteString(" mean capacity | changes/s |\n" + rule + "--:|--:|\n")
	b.Write(lines.Bytes())
}

func (run *Run) regretLine(b *bytes.Buffer, g *grid, at cell, oracle string, variants bool) {
	rows := g.rows[at]
	if len(rows) == 0 || len(run.capacity[traceKey(rows[0])].us) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s |", escape(loadText(at.load, rows[0].OfferedTargetRPS)))
	if variants {
		fmt.Fprintf(b, " %s |", escape(at.variant))
	}
	fmt.Fprintf(b, " %s |", escape(at.controller))
	for _, class := range g.shown() {
		metric, _ := metricNamed(metricRegret)
		e := evaluation{run: run, g: g, claim: &Claim{Controller: at.controller}, metric: metric, variant: at.variant, class: class}
		f := e.at(at.load, oracle)
		text := f.ours.with(Value.percent)
		if len(f.doubts) > 0 && f.ours.Value.known {
			text += ", in doubt"
		}
		fmt.Fprintf(b, " %s |", text)
	}
	var window series
	for _, r := range rows {
		window.values = append(window.values, run.capacity[traceKey(r)].between(0, math.Inf(1)).values...)
	}
	changed := run.switches(rows)
	text := plain(changed.value)
	if changed.atLeast && changed.value.known {
		text = "≥ " + text
	}
	fmt.Fprintf(b, " %s | %s |\n", plain(window.mean()), text)
}
