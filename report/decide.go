package report

import (
	"cmp"
	"fmt"
	"slices"
)

// The ways to take one figure of several loads.
const (
	takeMax   = "max"
	takeMin   = "min"
	takeMean  = "mean"
	takeFirst = "first"
	takeLast  = "last"
	takeMost  = "most"
)

// longestReasons bounds the reasons that are given for one outcome.
const longestReasons = 3

// result decides a claim by its figures at the loads.
func (e *evaluation) result(baseline string, places []place, at func(*place) figure) ClaimResult {
	r := ClaimResult{Claim: e.claim, Variant: e.variant, Over: baseline, figureUnit: e.unit(), claimUnit: e.unit()}
	var figures []figure
	for i := range places {
		figures = append(figures, places[i].figure(e, at))
	}
	if missing := e.run.unmeasured(); missing != "" && e.claim.At == "" {
		// What is not there may be the load that decides. It stands where the way of taking one looks for that.
		place := len(figures)
		if e.claim.Take == takeFirst {
			place = 0
		}
		figures = slices.Insert(figures, place, figure{doubts: []string{missing}})
	}
	take := e.claim.Take
	switch take {
	case "":
		take = takeMax
	case takeMax, takeMin, takeMean, takeFirst, takeLast, takeMost:
	default:
		return e.undecided("there is no way to take " + take + " of several loads")
	}
	counted := relevant(figures, take)
	r.show(e, counted, take)
	if !e.claim.HoldsAt.known && !e.claim.HoldsUnder.known {
		r.Outcome, r.Reasons = Undecided, []string{"the claim has no threshold"}
		return r
	}
	outcomes := []Outcome{}
	if bound := e.claim.HoldsAt; bound.known {
		outcomes = append(outcomes, decide(counted, take, takeMax, func(f figure) Outcome { return f.reaches(bound) }))
	}
	if bound := e.claim.HoldsUnder; bound.known {
		outcomes = append(outcomes, decide(counted, take, takeMin, func(f figure) Outcome { return f.staysUnder(bound) }))
	}
	r.Outcome = allOf(outcomes)
	if r.Outcome == Undecided {
		r.Reasons = doubtsOf(counted, true)
	} else if left := doubtsOf(counted, false); len(left) > 0 {
		r.Remarks = append(r.Remarks, "not counted, and without influence on the outcome: "+left[0])
	}
	r.outOfReach(counted, take)
	return r
}

// unmeasured says that points of the plan are missing; empty when none is.
func (run *Run) unmeasured() string {
	if n := len(run.Manifest.Points); n < run.Manifest.Planned {
		return fmt.Sprintf("only %d of %d points were measured", n, run.Manifest.Planned)
	}
	return ""
}

// relevant returns the figures that the way of taking one looks at. A mean is one figure.
func relevant(figures []figure, take string) []figure {
	switch {
	case take == takeFirst:
		return figures[:1]
	case take == takeLast:
		return figures[len(figures)-1:]
	case take == takeMean && len(figures) > 1:
		return []figure{meanOf(figures)}
	}
	return figures
}

// meanOf is the mean of figures; its interval is that of the means of the repeats.
func meanOf(figures []figure) (out figure) {
	sum := 0.0
	repeats := len(figures[0].each)
	for i := range figures {
		f := &figures[i]
		out.doubts = append(out.doubts, f.doubts...)
		out.remarks = append(out.remarks, f.remarks...)
		out.atLeast = out.atLeast || f.atLeast
		sum += f.ours.Value.number
		repeats = min(repeats, len(f.each))
		if !f.ours.Value.known {
			return out
		}
	}
	out.ours.Value = Known(sum / float64(len(figures)))
	for i := range repeats {
		each := 0.0
		for j := range figures {
			each += figures[j].each[i]
		}
		out.each = append(out.each, each/float64(len(figures)))
	}
	out.spread()
	return out
}

// reaches says whether the figure is at least bound.
func (f *figure) reaches(bound Value) Outcome {
	switch {
	case len(f.doubts) > 0 || !f.ours.Value.known:
		return Undecided
	case f.ours.Value.number >= bound.number:
		return Holds
	case f.atLeast:
		return Undecided
	default:
		return DoesNotHold
	}
}

// staysUnder says whether the figure is at most bound.
func (f *figure) staysUnder(bound Value) Outcome {
	switch {
	case len(f.doubts) > 0 || !f.ours.Value.known:
		return Undecided
	case f.ours.Value.number > bound.number:
		return DoesNotHold
	case f.atLeast:
		return Undecided
	default:
		return Holds
	}
}

// decide puts what the loads say together. Where one load that holds is enough (the largest figure reaches a bound, the least stays under
// it), a doubtful one does no harm beside it; otherwise all have to.
func decide(figures []figure, take, oneIsEnough string, of func(figure) Outcome) Outcome {
	var outcomes []Outcome
	for _, f := range figures {
		outcomes = append(outcomes, of(f))
	}
	switch take {
	case oneIsEnough:
		return oneOf(outcomes)
	case takeMost:
		return mostOf(outcomes)
	}
	return allOf(outcomes)
}

// mostOf says whether more than half hold. Doubtful ones could go either way.
func mostOf(outcomes []Outcome) Outcome {
	counts := map[Outcome]int{}
	for _, o := range outcomes {
		counts[o]++
	}
	switch half := len(outcomes) / 2; {
	case counts[Holds] > half:
		return Holds
	case counts[Holds]+counts[Undecided] > half:
		return Undecided
	default:
		return DoesNotHold
	}
}

func oneOf(outcomes []Outcome) Outcome {
	switch {
	case slices.Contains(outcomes, Holds):
		return Holds
	case slices.Contains(outcomes, Undecided):
		return Undecided
	default:
		return DoesNotHold
	}
}

func allOf(outcomes []Outcome) Outcome {
	switch {
	case slices.Contains(outcomes, DoesNotHold):
		return DoesNotHold
	case slices.Contains(outcomes, Undecided):
		return Undecided
	default:
		return Holds
	}
}

// doubtsOf returns the doubts of all figures, each once, as many as a reader wants to see; and which are only bounds, if asked for.
func doubtsOf(figures []figure, bounds bool) (list []string) {
	for _, f := range figures {
		for _, d := range f.doubts {
			if !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
		if bounds && f.atLeast && len(f.doubts) == 0 {
			list = append(list, "the figure at "+f.load+" is only a lower bound")
		}
	}
	if n := len(list); n > longestReasons {
		list = append(list[:longestReasons], fmt.Sprintf("and %d more", n-longestReasons))
	}
	return list
}

// show picks the figure that a reader sees: the extreme of those that are not in doubt or, where all are, of those.
func (r *ClaimResult) show(e *evaluation, figures []figure, take string) {
	var chosen *figure
	better := func(f *figure) bool {
		if chosen == nil || (len(chosen.doubts) > 0) != (len(f.doubts) > 0) {
			return chosen == nil || len(f.doubts) == 0
		}
		if take == takeMin {
			return f.ours.Value.number < chosen.ours.Value.number
		}
		return f.ours.Value.number > chosen.ours.Value.number
	}
	for i := range figures {
		if f := &figures[i]; f.ours.Value.known && better(f) {
			chosen = f
		}
	}
	if chosen == nil {
		return
	}
	if take == takeMost {
		chosen = r.decisive(figures)
	}
	r.Load, r.Target, r.Ours, r.Interval, r.Repeats = chosen.load, chosen.target, chosen.ours, chosen.interval, len(chosen.each)
	r.AtLeast = chosen.atLeast
	if e.metric.ofTrace == nil {
		r.Optimum, r.Ceiling = chosen.optimum, chosen.ceiling
	}
	r.Remarks = append(r.Remarks, chosen.remarks...)
	if len(e.claim.Over) > 0 && e.metric.name == metricGoodput {
		r.Limit = over(r.Optimum, r.Ceiling)
	}
	if r.faulty = chosen.faulty; r.beyondLimit() {
		r.Remarks = append(r.Remarks, "above the limit of "+times(r.Limit)+" for that reason")
	}
	r.straddles(chosen)
}

// decisive returns the figure on which hangs whether most hold: with it more than half are at least as good.
func (r *ClaimResult) decisive(figures []figure) *figure {
	var known []*figure
	held := 0
	for i := range figures {
		f := &figures[i]
		if !f.ours.Value.known {
			continue
		}
		known = append(known, f)
		if v := f.ours.Value.number; (!r.Claim.HoldsAt.known || v >= r.Claim.HoldsAt.number) && (!r.Claim.HoldsUnder.known || v <= r.Claim.HoldsUnder.number) {
			held++
		}
	}
	slices.SortStableFunc(known, func(a, b *figure) int {
		if r.Claim.HoldsUnder.known {
			return cmp.Compare(a.ours.Value.number, b.ours.Value.number)
		}
		return cmp.Compare(b.ours.Value.number, a.ours.Value.number)
	})
	r.Remarks = append(r.Remarks, fmt.Sprintf("it holds in %d of %d", held, len(figures)))
	return known[len(known)/2]
}

// straddles remarks that repeats lie on both sides of a threshold.
func (r *ClaimResult) straddles(f *figure) {
	for _, bound := range []Value{r.Claim.HoldsAt, r.Claim.HoldsUnder} {
		below := 0
		for _, v := range f.each {
			if v < bound.number {
				below++
			}
		}
		if bound.known && below > 0 && below < len(f.each) {
			r.Remarks = append(r.Remarks, fmt.Sprintf("%d of %d repeats are below the threshold", below, len(f.each)))
		}
	}
}
