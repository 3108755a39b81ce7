package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"spillway/report"
)

// side is the runs of one profile on one side.
type side struct {
	name string // "base" or "candidate"
	runs []*report.Run
}

// pair is a profile that both sides have.
type pair struct {
	profile         string
	base, candidate side
}

// sample is one repeat of a point, as one class saw it.
type sample struct {
	run *report.Run
	row *report.Row
}

// place is what a sample is of.
type place struct{ variant, controller, load, class string }

// index lists the samples of a side by their place, and the places in the order of their first appearance.
func (s *side) index() (at map[place][]sample, order []place) {
	at = map[place][]sample{}
	for _, run := range s.runs {
		classes := classesOf(run)
		for i := range run.Rows {
			row := &run.Rows[i]
			if !slices.Contains(classes, row.Class) {
				continue
			}
			p := place{row.Variant(), row.Controller, row.Load(), row.Class}
			if _, known := at[p]; !known {
				order = append(order, p)
			}
			at[p] = append(at[p], sample{run, row})
		}
	}
	return at, order
}

// classesOf returns the classes that are compared: every one of the workload, and not the row that pools them, in which the loss of one can hide
// behind the gain of another, and which would be one more comparison to correct for.
func classesOf(run *report.Run) (classes []string) {
	for i := range run.Rows {
		if c := run.Rows[i].Class; c != report.AllClasses && !slices.Contains(classes, c) {
			classes = append(classes, c)
		}
	}
	if len(classes) == 0 {
		return []string{report.AllClasses}
	}
	return classes
}

// match finds the profiles that both sides have and looks at their circumstances.
func (r *Result) match() ([]pair, error) {
	base, candidate := byProfile(r.Base), byProfile(r.Candidate)
	var pairs []pair
	var reasons []string
	if len(base) == 1 && len(candidate) == 1 && base[0].profile != candidate[0].profile {
		reasons = append(reasons, fmt.Sprintf("the base is of profile %s, the candidate of %s", base[0].profile, candidate[0].profile))
		if !r.Options.Anyway {
			return nil, &NotComparable{reasons} // what else differs says nothing more
		}
		pairs = append(pairs, pair{base[0].profile, side{"base", base[0].runs}, side{"candidate", candidate[0].runs}})
	} else {
		for _, b := range base {
			i := slices.IndexFunc(candidate, func(c profileRuns) bool { return c.profile == b.profile })
			if i < 0 {
				r.MissingCandidate = append(r.MissingCandidate, Place{Profile: b.profile})
				continue
			}
			pairs = append(pairs, pair{b.profile, side{"base", b.runs}, side{"candidate", candidate[i].runs}})
		}
		for _, c := range candidate {
			if !slices.ContainsFunc(base, func(b profileRuns) bool { return b.profile == c.profile }) {
				r.MissingBase = append(r.MissingBase, Place{Profile: c.profile})
			}
		}
	}
	if len(pairs) == 0 {
		return nil, &NotComparable{[]string{"the two sides have no profile in common"}}
	}
	for i := range pairs {
		more, err := r.circumstances(&pairs[i])
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, more...)
	}
	if len(reasons) > 0 && !r.Options.Anyway {
		return nil, &NotComparable{reasons}
	}
	for _, reason := range reasons {
		r.warn("compared anyway: " + reason)
	}
	return pairs, nil
}

type profileRuns struct {
	profile string
	runs    []*report.Run
}

func byProfile(runs []*report.Run) (list []profileRuns) {
	for _, run := range runs {
		i := slices.IndexFunc(list, func(p profileRuns) bool { return p.profile == run.Manifest.Name })
		if i < 0 {
			list = append(list, profileRuns{profile: run.Manifest.Name})
			i = len(list) - 1
		}
		list[i].runs = append(list[i].runs, run)
	}
	return list
}

// compare compares a profile that both sides have, in the order of the base.
func (r *Result) compare(p pair) {
	base, order := p.base.index()
	candidate, others := p.candidate.index()
	whole := func(at place, of []sample) Place {
		return Place{p.profile, at.variant, at.controller, at.load, at.class, of[0].row.OfferedTargetRPS}
	}
	for _, at := range order {
		if len(candidate[at]) == 0 {
			r.MissingCandidate = append(r.MissingCandidate, whole(at, base[at]))
			continue
		}
		for _, metric := range r.Options.Metrics {
			c := Comparison{
				Profile: p.profile, Variant: at.variant, Controller: at.controller, Load: at.load, Class: at.class, Metric: metric,
				Ground: base[at][0].row.Ground, Target: base[at][0].row.OfferedTargetRPS,
			}
			r.one(&c, base[at], candidate[at])
			r.Comparisons = append(r.Comparisons, c)
		}
	}
	for _, at := range others {
		if len(base[at]) == 0 {
			r.MissingBase = append(r.MissingBase, whole(at, candidate[at]))
		}
	}
}

// one compares one metric at one place, but for what depends on the other comparisons.
func (r *Result) one(c *Comparison, base, candidate []sample) {
	if why := r.differentLoad(base[0].row, candidate[0].row); why != "" {
		c.Outcome, c.Why = NotThere, why
		return
	}
	b, invalidBase := valid(base)
	o, invalidCandidate := valid(candidate)
	var remarks []string
	for _, s := range []struct {
		name           string
		invalid, valid []sample
	}{{"base", invalidBase, b}, {"candidate", invalidCandidate, o}} {
		if len(s.invalid) > 0 {
			remarks = append(remarks, fmt.Sprintf("%d of %d repeats of the %s are not valid (%s)", len(s.invalid), len(s.invalid)+len(s.valid), s.name, codes(s.invalid)))
		}
	}
	c.Why = strings.Join(remarks, "; ")
	if len(b) == 0 || len(o) == 0 {
		c.Outcome = NotThere
		return
	}
	if c.Ground == groundSim {
		if pb, po := sameSeeds(b, o); len(pb) > 0 {
			b, o, c.Paired = pb, po, true
		}
	}
	r.values(c, b, o)
}

const groundSim = "sim"

// differentLoad says why the offered loads are not the same though they go by the same name: shares of a capacity that was searched on each side.
func (r *Result) differentLoad(b, o *report.Row) string {
	x, knownX := b.OfferedTargetRPS.Get()
	y, knownY := o.OfferedTargetRPS.Get()
	if !knownX || !knownY || x == y || math.Abs(y-x) <= r.Options.Threshold*x {
		return ""
	}
	text := fmt.Sprintf("%s is %s requests per second in the base and %s in the candidate; measure both with the same --rates",
		b.Load(), report.LoadText(b.OfferedTargetRPS.String(), b.OfferedTargetRPS), report.LoadText(o.OfferedTargetRPS.String(), o.OfferedTargetRPS))
	if r.Options.Anyway {
		r.warn("compared anyway: " + text)
		return ""
	}
	return text
}

func valid(list []sample) (yes, no []sample) {
	for _, s := range list {
		if s.row.Valid {
			yes = append(yes, s)
		} else {
			no = append(no, s)
		}
	}
	return yes, no
}

// codes lists the warnings of samples, each once.
func codes(list []sample) string {
	var all []string
	for _, s := range list {
		for _, code := range s.row.Warnings {
			if !slices.Contains(all, code) {
				all = append(all, code)
			}
		}
	}
	if len(all) == 0 {
		return "without a reason"
	}
	return strings.Join(all, ", ")
}

// sameSeeds returns the samples of both sides that faced the same arrivals, in the same order.
func sameSeeds(base, candidate []sample) (b, c []sample) {
	used := make([]bool, len(candidate))
	for _, s := range base {
		i := slices.IndexFunc(candidate, func(o sample) bool { return o.row.Seed == s.row.Seed })
		if i >= 0 && !used[i] {
			used[i] = true
			b, c = append(b, s), append(c, candidate[i])
		}
	}
	return b, c
}
