package report

import (
	"fmt"
	"io"
	"strings"
)

// Terminal writes what a run has to say to whoever started it: the comparison, where the requests went, and what must not be believed.
func Terminal(w io.Writer, run *Run) error {
	table := Table
	if run.Manifest.Allocation != nil {
		table = allocationTable
	}
	if err := table(w, run); err != nil {
		return err
	}
	if err := run.terminalClaims(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n"+run.validationLines()+run.accounting()+run.capacityLine()+run.tooLowLine()+run.unanswered()+run.loop()+run.doubts())
	return err
}

// accounting says in one line what became of every request that was due in the windows.
func (run *Run) accounting() string {
	var sum Fates
	for i := range run.Rows {
		if run.Rows[i].Class == AllClasses {
			sum = sum.Add(run.Rows[i].Fates)
		}
	}
	var parts []string
	for _, f := range []struct {
		name  string
		count int64
	}{
		{"ok", sum.OK}, {"late", sum.Late}, {"refused", sum.Refused}, {"rejected", sum.Rejected}, {"dropped", sum.Dropped},
		{"expired", sum.Expired}, {"timed out", sum.TimedOut}, {"failed", sum.Failed}, {"unsent", sum.Unsent},
	} {
		if f.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", f.count, f.name))
		}
	}
	if len(parts) == 0 {
		return "no request was due in a window\n"
	}
	line := fmt.Sprintf("%d requests were due: %s", sum.Arrivals(), strings.Join(parts, " + "))
	if n := run.preloaded(); n > 0 {
		line += fmt.Sprintf("; %d keys were stored and verified before each point, counted apart", n)
	}
	return line + "\n"
}

// preloaded returns how many keys were stored before a point.
func (run *Run) preloaded() (keys int64) {
	for i := range run.Manifest.Points {
		keys = max(keys, run.Manifest.Points[i].Preloaded)
	}
	return keys
}

// doubts explains why points are not valid or say nothing, and what else a reader must know of the server, one line a reason.
func (run *Run) doubts() string {
	invalid, points := 0, 0
	why := map[string][]*Row{}
	empty := map[string][]*Row{}
	found := map[string][]*Row{}
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Class != AllClasses {
			continue
		}
		points++
		for _, code := range r.Warnings {
			switch _, verdict := Explain(code); {
			case verdict == Empty:
				empty[code] = append(empty[code], r)
			case verdict == Finding, verdict == Early, verdict == Graded && r.Valid:
				found[code] = append(found[code], r)
			case verdict != Harmless && !r.Valid:
				why[code] = append(why[code], r)
			}
		}
		if !r.Valid {
			invalid++
		}
	}
	var b strings.Builder
	if invalid > 0 {
		fmt.Fprintf(&b, "%d of %d points are not valid:\n", invalid, points)
		run.reasons(&b, why)
	}
	if len(empty) > 0 {
		b.WriteString("some points say nothing about their controller:\n")
		run.reasons(&b, empty)
	}
	if len(found) > 0 {
		b.WriteString("found on the way:\n")
		run.reasons(&b, found)
	}
	return b.String()
}

// reasons explains each code, with the numbers behind it at the first of its points.
func (run *Run) reasons(b *strings.Builder, points map[string][]*Row) {
	for _, w := range warnings {
		rows := points[w.code]
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "  %s (%d): %s\n", w.code, len(rows), w.sentence)
		if note := run.note(rows[0], w.code); note != "" {
			fmt.Fprintf(b, "    %s: %s\n", printable(rows[0].at()), printable(note))
		}
	}
}

// capacityLine says what a capacity search that was the purpose of the run has found.
func (run *Run) capacityLine() string {
	c := run.Manifest.Capacity
	if c == nil || c.Analytic || len(run.Manifest.Points) > 1 {
		return ""
	}
	held := "held"
	if c.Uncertain {
		held = "is not certain to hold"
	}
	least, failed := "", "did not hold at "+Known(c.High).rate()
	if c.AtLeast {
		least = "at least "
	}
	if c.High == 0 {
		failed = "was not seen to fail by the server's own fault"
	}
	line := fmt.Sprintf("capacity %s%s requests per second: the SLO %s at %s and %s, after %d probes\n",
		least, Known(c.RPS).rate(), held, Known(c.Low).rate(), failed, len(c.Probes))
	for _, remark := range c.Remarks {
		line += "  " + remark + "\n"
	}
	return line
}

// unanswered sets the p99 of what was answered against that of all requests that were due, where the two differ.
func (run *Run) unanswered() string {
	if len(run.Manifest.Points) != 1 {
		return ""
	}
	for _, r := range run.Manifest.Points[0].Responses {
		if r.Class == AllClasses && r.AnsweredRatio < 1 {
			if r.P99US == 0 {
				return "p99 over all that were due: none, since fewer than 99 % were answered\n"
			}
			return fmt.Sprintf("p99 over all that were due, the unanswered as infinitely slow: %s\n", Known(r.P99US).micros())
		}
	}
	return ""
}

// loop says so where the load was a closed loop.
func (run *Run) loop() string {
	for i := range run.Manifest.Points {
		if run.Manifest.Points[i].ClosedLoop {
			return "closed loop: the load waited for the server, so what was offered and how late it was says nothing of users who do not wait\n"
		}
	}
	return ""
}
