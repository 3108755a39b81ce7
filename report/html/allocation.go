package html

import (
	"fmt"

	"spillway/report"
)

// placesData is who asked for what, was granted and served what, and where.
type placesData struct {
	Scenarios []string `json:"v"`
	Locations []string `json:"x"`
	Classes   []string `json:"c"`
	Rows      [][]any  `json:"r"` // scenario, label, class, location, demand, granted, served
}

// allocation adds what takes the place of charts over the load where a budget is shared: who was served which share of what it asked for.
func (d *runData) allocation(run *report.Run) {
	if run.Manifest.Allocation == nil {
		return
	}
	byClass := map[string]*barsData{}
	panels := map[string]int{}
	for _, s := range run.AllocationShares() {
		b := byClass[s.Class]
		if b == nil {
			b = &barsData{
				ID: d.Prefix + "served-" + number(len(byClass)), ByLabel: true, Segments: []string{"served"},
				Title:   "Served of class " + clean(s.Class) + ", as a share of what it asked for",
				Summary: "By scenario and allocator, the mean of the window.",
			}
			if s.Class == report.AllClasses {
				b.Title = "Used of the budget"
			}
			byClass[s.Class] = b
			d.Shares = append(d.Shares, b)
		}
		key := s.Class + "\x00" + s.Scenario
		at, ok := panels[key]
		if !ok {
			at = len(b.Panels)
			panels[key] = at
			b.Panels = append(b.Panels, panelData{Title: clean(s.Scenario)})
		}
		record := []any{d.label(s.Controller, report.Look{}, false), flag(s.Valid), 1, s.Share.Value}
		if low, ok := s.Share.Low.Get(); ok {
			if high, _ := s.Share.High.Get(); high != low {
				record = append(record, fmt.Sprintf("%s to %s", percent(s.Share.Low), percent(s.Share.High)))
			}
		}
		b.Panels[at].Rows = append(b.Panels[at].Rows, record)
	}
	d.places(run)
}

func (d *runData) places(run *report.Run) {
	if len(run.Cells) == 0 {
		return
	}
	out := &placesData{}
	index := map[string]int{}
	place := func(kind string, names *[]string, name string) int {
		i, ok := index[kind+name]
		if !ok {
			i = len(*names)
			index[kind+name] = i
			*names = append(*names, clean(name))
		}
		return i
	}
	surface := map[string]bool{}
	for _, s := range run.Manifest.Allocation.Scenarios {
		surface[s.Name] = s.Surface > 0
	}
	for i := range run.Cells {
		c := &run.Cells[i]
		if surface[c.Scenario] {
			continue
		}
		out.Rows = append(out.Rows, []any{
			place("v", &out.Scenarios, c.Scenario), d.label(c.Controller, report.Look{}, false), place("c", &out.Classes, c.Class),
			place("x", &out.Locations, c.Location), tenth(c.Demand), tenth(c.Granted), tenth(c.Served),
		})
	}
	d.Places = out
}

// tenth keeps a tenth of a request per second.
func tenth(v report.Value) any {
	n, ok := v.Get()
	if !ok {
		return nil
	}
	return float64(int64(n*10+0.5)) / 10
}
