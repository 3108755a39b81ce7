package report

import "slices"

// cell is a place in the grid of a run: all repeats of one controller at one load under one variant, as one class saw them.
type cell struct{ variant, load, controller, class string }

// grid is the rows of a run by what they are of. Its lists are in the order of first appearance, which is that of the profile.
type grid struct {
	rows                                  map[cell][]*Row
	variants, loads, controllers, classes []string
}

func (run *Run) grid() *grid {
	g := &grid{rows: map[cell][]*Row{}}
	seen := map[string]bool{}
	note := func(list *[]string, kind, s string) {
		if !seen[kind+s] {
			seen[kind+s] = true
			*list = append(*list, s)
		}
	}
	for i := range run.Rows {
		r := &run.Rows[i]
		c := cell{r.Variant(), r.Load(), r.Controller, r.Class}
		g.rows[c] = append(g.rows[c], r)
		note(&g.variants, "v", c.variant)
		note(&g.loads, "l", c.load)
		note(&g.controllers, "k", c.controller)
		note(&g.classes, "c", c.class)
	}
	return g
}

// shown returns the classes that tables have. Of a single class the row that pools the classes says the same again.
func (g *grid) shown() []string {
	if len(g.classes) == 2 && slices.Contains(g.classes, AllClasses) {
		return slices.DeleteFunc(slices.Clone(g.classes), func(c string) bool { return c == AllClasses })
	}
	return g.classes
}

// loadsOf returns the loads at which a variant was measured under any controller.
func (g *grid) loadsOf(variant string) (list []string) {
	for _, load := range g.loads {
		for _, controller := range g.controllers {
			if len(g.rows[cell{variant, load, controller, AllClasses}]) > 0 {
				list = append(list, load)
				break
			}
		}
	}
	return list
}

// byRepeat returns the row of a repeat; nil when there is none.
func byRepeat(rows []*Row, repeat int) *Row {
	for _, r := range rows {
		if r.Repeat == repeat {
			return r
		}
	}
	return nil
}

// believed returns the valid rows; all when none is.
func believed(rows []*Row) []*Row {
	var valid []*Row
	for _, r := range rows {
		if r.Valid {
			valid = append(valid, r)
		}
	}
	if len(valid) == 0 {
		return rows
	}
	return valid
}

// paired keeps the repeats that both have, which have the same arrivals; where they have none in common, all.
func paired(a, b []*Row) (ofA, ofB []*Row) {
	for _, r := range a {
		if o := byRepeat(b, r.Repeat); o != nil {
			ofA, ofB = append(ofA, r), append(ofB, o)
		}
	}
	if len(ofA) == 0 {
		return a, b
	}
	return ofA, ofB
}
