package report

import (
	"fmt"
	"io"
	"strings"
)

// Terminal writes what a run has to say to whoever started it: the comparison, where the requests went, and what must not be believed.
func Terminal(w io.Writer, run *Run) error {
	if err := Table(w, run); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n"+run.accounting()+run.doubts())
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

// doubts explains why points are not valid, one line a reason.
func (run *Run) doubts() string {
	invalid, points := 0, 0
	why := map[string]int{}
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Class != AllClasses {
			continue
		}
		points++
		if r.Valid {
			continue
		}
		invalid++
		for _, code := range r.Warnings {
			if _, verdict := Explain(code); verdict != Harmless {
				why[code]++
			}
		}
	}
	if invalid == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d points are not valid:\n", invalid, points)
	for _, w := range warnings {
		if n := why[w.code]; n > 0 {
			fmt.Fprintf(&b, "  %s (%d): %s\n", w.code, n, w.sentence)
		}
	}
	return b.String()
}
