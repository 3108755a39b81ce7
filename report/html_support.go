package report

import (
	"bytes"
	"slices"
	"strings"
)

// What a document with charts needs of a run beside its Charts.

// Section is a part of the report of a run in words and tables: what report.md has, in the same Markdown.
type Section struct {
	Name     string // summary, claims, validation, allocation, objectives, attribution, settling, regret, warnings, variants, capacity, responses or circumstances
	Markdown string // its text, without the heading of the run
}

// Sections returns the parts of the report of a run that have something to say, in the order of report.md. The tables of its classes are not among
// them: they are the data of Charts.
func (run *Run) Sections() (list []Section) {
	for _, s := range []struct {
		name  string
		write func(*bytes.Buffer)
	}{
		{"summary", run.summary}, {"claims", run.claimsSection}, {"validation", run.validationSection}, {"allocation", func(b *bytes.Buffer) {
			if run.Manifest.Allocation != nil {
				run.allocationSection(b)
			}
		}},
		{"objectives", run.objectivesSection}, {"attribution", run.attributionSection}, {"settling", run.settlingSection}, {"regret", run.regretSection},
		{"warnings", run.warningsSection}, {"variants", run.variantsSection}, {"capacity", run.capacitySection}, {"responses", run.responses},
		{"circumstances", run.circumstances},
	} {
		var b bytes.Buffer
		s.write(&b)
		if text := strings.TrimSpace(b.String()); text != "" {
			list = append(list, Section{s.name, text})
		}
	}
	return list
}

// HowToRead returns what a reader of the report of runs must know of its columns, as Markdown.
func HowToRead(runs []*Run) string {
	var text string
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Manifest.Allocation == nil }) {
		text += howToRead
	}
	if slices.ContainsFunc(runs, func(r *Run) bool { return r.Manifest.isModelled() }) {
		text += howToReadModelled
	}
	return strings.TrimSpace(text)
}

// CellOutcome is what became of the requests of one controller at one load under one variant, as one class saw it, its repeats put together.
type CellOutcome struct {
	Variant, Load, Controller, Class string
	Target                           Value // the load in requests per second
	Valid                            bool  // every repeat that it was pooled from may be believed
	Fates                            Fates
	Shed                             map[string]int64 // by reason; nil where the results do not say
	Percentiles                      []Value          // of the latency in microseconds, as asked for; nil where nothing was answered
}

// CellOutcomes returns the outcomes of a run in the order of Pool, each with the given percentiles of latency, 0 to 100, which must rise.
func (run *Run) CellOutcomes(percentiles []float64) (list []CellOutcome) {
	g := run.grid()
	for _, variant := range g.variants {
		for _, load := range g.loads {
			for _, controller := range g.controllers {
				for _, class := range g.shown() {
					if rows := g.rows[cell{variant, load, controller, class}]; len(rows) > 0 {
						list = append(list, run.cellOutcome(believed(rows), percentiles))
					}
				}
			}
		}
	}
	return list
}

func (run *Run) cellOutcome(rows []*Row, percentiles []float64) CellOutcome {
	first := rows[0]
	o := CellOutcome{
		Variant: first.Variant(), Load: first.Load(), Controller: first.Controller, Class: first.Class, Target: first.OfferedTargetRPS, Valid: true,
	}
	for _, r := range rows {
		o.Valid = o.Valid && r.Valid
		o.Fates = o.Fates.Add(r.Fates)
		f := run.factsOf(r)
		if f == nil || f.Shed[r.Class] == nil {
			continue
		}
		if o.Shed == nil {
			o.Shed = map[string]int64{}
		}
		for reason, n := range f.Shed[r.Class] {
			o.Shed[reason] += n
		}
	}
	if len(percentiles) == 0 {
		return o
	}
	if merged, highest := run.merged(rows); merged != nil {
		for _, d := range merged.Percentiles(percentiles) {
			o.Percentiles = append(o.Percentiles, Known(min(float64(d)/1e3, highest)))
		}
	}
	return o
}

// AllocationShare is what an allocator did for a class in a scenario: the share that it was served of what it asked for; of AllClasses, the share of
// the budget that was used.
type AllocationShare struct {
	Scenario, Controller, Class string
	Valid                       bool
	Share                       Range
}

// AllocationShares returns the shares of an allocation by scenario, class and allocator, in the order of the profile; nil of anything else.
func (run *Run) AllocationShares() (list []AllocationShare) {
	if run.Manifest.Allocation == nil {
		return nil
	}
	a := run.allocationGrid()
	var classes []string
	for _, c := range run.Manifest.Classes {
		classes = append(classes, c.Name)
	}
	classes = append(classes, AllClasses)
	for _, scenario := range a.scenarios {
		for _, class := range classes {
			metric := metricServed
			if class == AllClasses {
				metric = "utilisation"
			}
			for _, controller := range a.controllers {
				rows := a.rows(scenario, controller, class)
				if len(rows) == 0 {
					continue
				}
				s := AllocationShare{Scenario: scenario, Controller: controller, Class: class, Share: a.figure(metric, scenario, controller, class)}
				s.Valid = !slices.ContainsFunc(rows, func(r *Row) bool { return !r.Valid })
				list = append(list, s)
			}
		}
	}
	return list
}

// PhasesOf returns the phases of the window of a variant, in time; none where the load is the same all along.
func (run *Run) PhasesOf(variant string) []Phase { return run.Manifest.phasesOf(variant) }
