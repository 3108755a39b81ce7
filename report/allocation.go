package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Allocation says what a budget was that was shared over classes and locations, and in which scenarios.
type Allocation struct {
	BudgetRPS float64              `json:"budget_rps"`
	Locations int                  `json:"locations"`
	CycleUS   float64              `json:"cycle_us"`
	Cycles    int                  `json:"cycles"`            // of the window
	Lag       int                  `json:"lag_cycles"`        // how old the demand was that allocators knew
	Noise     float64              `json:"noise,omitempty"`   // standard deviation of a cell's demand, as a share of it
	Reserved  map[string]float64   `json:"reserved"`          // share of the budget, by class
	Scenarios []AllocationScenario `json:"scenarios"`         // in the order of the profile, those of surfaces last
	Surfaces  []AllocationSurface  `json:"surfaces,omitzero"` // by number
}

// AllocationScenario is one course of demand. Its rows have NAME/SCENARIO in column profile.
type AllocationScenario struct {
	Name     string             `json:"name"`
	Title    string             `json:"title,omitempty"`
	Demand   string             `json:"demand"` // in words
	Basis    string             `json:"basis,omitempty"`
	Reserved map[string]float64 `json:"reserved,omitempty"` // where it differs
	Surface  int                `json:"surface,omitempty"`  // number of the surface that it is a cell of, from 1; 0 for none
	Row      float64            `json:"row,omitempty"`
	Column   float64            `json:"column,omitempty"`
}

// AllocationSurface is one figure over two parameters.
type AllocationSurface struct {
	Name       string  `json:"name"`
	Title      string  `json:"title,omitempty"`
	Rows       string  `json:"rows"` // parameters
	Columns    string  `json:"columns"`
	Metric     string  `json:"metric"`
	Class      string  `json:"class"`
	Controller string  `json:"controller"`
	Over       string  `json:"over,omitempty"`
	Paper      float64 `json:"paper,omitempty"` // marked where it is met within Within
	Within     float64 `json:"within,omitempty"`
}

// AllocationFacts are figures of one point of an allocation that no column of points.csv has. But for the last two, they are shares of the budget.
type AllocationFacts struct {
	Utilisation       Value `json:"utilisation,omitzero"`         // what was served, mean
	Idle              Value `json:"idle_share,omitzero"`          // what was not used though somebody wanted it, mean
	OverCommit        Value `json:"over_commit,omitzero"`         // what was granted beyond it, worst cycle
	Conservation      Value `json:"conservation_error,omitzero"`  // difference between it and all grants, worst cycle
	CurrentIdle       Value `json:"current_idle,omitzero"`        // with the demand of the very cycle known, worst cycle
	CurrentOverCommit Value `json:"current_over_commit,omitzero"` // likewise
	ClosedFormError   Value `json:"closed_form_error,omitzero"`   // of real edges: the largest difference of a class's served share from the closed form
	TakeoverUS        Value `json:"takeover_us,omitzero"`         // of real edges: how long a dead edge's capacity was not granted to others

	Spans []AllocationSpan `json:"spans,omitempty"` // of real edges: who got what over time
}

// AllocationSpan is a stretch of the window between two changes.
type AllocationSpan struct {
	FromUS float64          `json:"from_us"`
	ToUS   float64          `json:"to_us"`
	State  string           `json:"state"`
	Cells  []AllocationCell `json:"cells"`

	// Classes are held against the closed form, but for the first cycles after a change; absent where none holds.
	Classes []AllocationSpanClass `json:"classes,omitempty"`
}

// AllocationSpanClass is what a class was served in a span, and what it should have been by the closed form, as shares of what it asked for.
type AllocationSpanClass struct {
	Class      string  `json:"class"`
	Served     float64 `json:"served_share"`
	ClosedForm float64 `json:"closed_form_share"`
}

// AllocationCell is what a class asked for, was granted and was served at a location, in requests per second: means.
type AllocationCell struct {
	Scenario   string `json:"-"`
	Controller string `json:"-"` // its label
	Class      string `json:"class"`
	Location   string `json:"location"`
	Demand     Value  `json:"demand"`
	Granted    Value  `json:"granted"`
	Served     Value  `json:"served"`
}

// allocationHeader names the columns of allocation.csv.
var allocationHeader = []string{"scenario", "allocator", "class", "location", "demand", "granted", "served"}

// onSurface reports whether a variant is a cell of a surface rather than a scenario of its own.
func (m *Manifest) onSurface(variant string) bool {
	s := m.scenario(variant)
	return s != nil && s.Surface > 0
}

func (m *Manifest) scenario(name string) *AllocationScenario {
	if m.Allocation == nil {
		return nil
	}
	i := slices.IndexFunc(m.Allocation.Scenarios, func(s AllocationScenario) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Allocation.Scenarios[i]
}

// allocationMetrics are the metrics of allocations.
func allocationMetrics() (list []metric) {
	add := func(name string, worst bool, u unit, of func(*AllocationFacts) Value) {
		list = append(list, metric{name: name, less: name != "utilisation", unit: u, ofTrace: func(run *Run, rows []*Row) traced {
			return run.allocationFigure(rows, worst, of)
		}})
	}
	add("utilisation", false, Value.percent, func(f *AllocationFacts) Value { return f.Utilisation })
	add("idle_share", false, Value.percent, func(f *AllocationFacts) Value { return f.Idle })
	add("over_commit", true, small, func(f *AllocationFacts) Value { return f.OverCommit })
	add("conservation_error", true, small, func(f *AllocationFacts) Value { return f.Conservation })
	add("current_idle", true, small, func(f *AllocationFacts) Value { return f.CurrentIdle })
	add("current_over_commit", true, small, func(f *AllocationFacts) Value { return f.CurrentOverCommit })
	add("closed_form_error", true, points, func(f *AllocationFacts) Value { return f.ClosedFormError })
	add("takeover_us", true, Value.micros, func(f *AllocationFacts) Value { return f.TakeoverUS })
	return list
}

// allocationFigure returns the mean of a figure over repeats, or the largest.
func (run *Run) allocationFigure(rows []*Row, worst bool, of func(*AllocationFacts) Value) traced {
	sum, most := 0.0, 0.0
	for _, r := range rows {
		f := run.factsOf(r)
		if f == nil || f.Allocation == nil {
			return traced{why: "it is a figure of allocations"}
		}
		v := of(f.Allocation)
		if !v.known {
			return traced{}
		}
		sum, most = sum+v.number, max(most, v.number)
	}
	if worst {
		return traced{value: Known(most)}
	}
	return traced{value: Known(sum / float64(len(rows)))}
}

// small writes a share that is rounding, or a number to look at.
func small(v Value) string {
	if v.known && v.number > 0 && v.number < 1e-5 {
		return strconv.FormatFloat(v.number, 'e', 0, 64)
	}
	return v.percent()
}

// allocationSums collects the cells of all points.
type allocationSums struct {
	order []allocationKey
	means map[allocationKey]*allocationMean
}

type allocationKey struct{ scenario, controller, class, location string }

type allocationMean struct {
	demand, granted, served float64
	repeats                 int
	place                   string // of the point, by which rows are put in order
}

func (s *allocationSums) add(p *Point) {
	if len(p.Cells) == 0 || len(p.Rows) == 0 {
		return
	}
	if s.means == nil {
		s.means = map[allocationKey]*allocationMean{}
	}
	row := &p.Rows[0]
	for _, c := range p.Cells {
		key := allocationKey{row.Variant(), row.Controller, c.Class, c.Location}
		m := s.means[key]
		if m == nil {
			m = &allocationMean{place: row.Point()}
			s.means[key] = m
			s.order = append(s.order, key)
		}
		m.demand, m.granted, m.served, m.repeats = m.demand+c.Demand.number, m.granted+c.Granted.number, m.served+c.Served.number, m.repeats+1
	}
}

// writeAllocation writes allocation.csv, where there is something to be written.
func (w *Writer) writeAllocation() error {
	if len(w.cells.order) == 0 {
		return nil
	}
	slices.SortStableFunc(w.cells.order, func(a, b allocationKey) int {
		return w.order[w.cells.means[a].place] - w.order[w.cells.means[b].place]
	})
	var records [][]string
	for _, key := range w.cells.order {
		m := w.cells.means[key]
		n := float64(m.repeats)
		records = append(records, []string{
			textCell(key.scenario), textCell(key.controller), textCell(key.class), textCell(key.location),
			Known(m.demand / n).String(), Known(m.granted / n).String(), Known(m.served / n).String(),
		})
	}
	return WriteFile(filepath.Join(w.dir, allocationFile), func(out io.Writer) error { return writeTable(out, allocationHeader, records) })
}

// readAllocation reads allocation.csv; a run that is no allocation has none.
func readAllocation(path string) ([]AllocationCell, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.FieldsPerRecord = len(allocationHeader)
	records, err := in.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) == 0 || !slices.Equal(records[0], allocationHeader) {
		return nil, fmt.Errorf("%s: the columns should be %s; the file is not of this version's format", path, strings.Join(allocationHeader, ","))
	}
	var cells []AllocationCell
	for i, r := range records[1:] {
		c := AllocationCell{Scenario: r[0], Controller: r[1], Class: r[2], Location: r[3]}
		for j, v := range []*Value{&c.Demand, &c.Granted, &c.Served} {
			if *v, err = parseValue(r[4+j]); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", path, i+2, allocationHeader[4+j], err)
			}
		}
		cells = append(cells, c)
	}
	return cells, nil
}
