package html

import (
	"fmt"
	"strings"

	"spillway/report"
)

// summarise says in words what a chart shows, for those who do not see it: what each controller came to at the highest load, its best over the
// loads, and how many points must not be believed.
func summarise(c *report.Chart) string {
	highest, loads := 0.0, map[float64]bool{}
	points, invalid := 0, 0
	for _, l := range c.Lines {
		if l.Reference {
			continue
		}
		for _, p := range l.Points {
			highest = max(highest, p.X)
			loads[p.X] = true
			points++
			if !p.Valid {
				invalid++
			}
		}
	}
	var ends []string
	for _, l := range c.Lines {
		for i := len(l.Points) - 1; i >= 0; i-- {
			if p := &l.Points[i]; p.X == highest {
				ends = append(ends, clean(l.Label)+" "+inUnit(p.Y.Value, c.Y.Unit))
				break
			}
		}
	}
	const most = 12 // names are read aloud
	if n := len(ends); n > most {
		ends = append(ends[:most], fmt.Sprintf("and %d more", n-most))
	}
	text := fmt.Sprintf("At %s requests/s", rate(report.Known(highest)))
	if len(loads) > 1 {
		text = fmt.Sprintf("At %s requests/s, the highest of %d loads", rate(report.Known(highest)), len(loads))
	}
	text += ": " + strings.Join(ends, ", ") + "."
	switch {
	case points > 0 && invalid == points:
		text += " No point is valid."
	case invalid > 0:
		text += fmt.Sprintf(" %d of %d points are not valid.", invalid, points)
	}
	return text
}
