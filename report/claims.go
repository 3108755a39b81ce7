package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spillway/internal/stats"
)

// Outcome is what became of a claim.
type Outcome string

// The outcomes of a claim.
const (
	Holds       Outcome = "holds"
	DoesNotHold Outcome = "does not hold"
	Undecided   Outcome = "undecided"
)

// ClaimResult is a claim held against the results of one variant and one baseline.
type ClaimResult struct {
	Claim      *Claim
	Variant    string
	Over       string // the baseline; empty where the figure is no ratio
	Best       bool   // of several baselines the best at each load, which Over then lists
	Load       string // at which the figure was taken; empty for a mean over several
	Target     Value  // that load, requests per second
	Ours       Range  // with what Interval says
	Interval   string // what Low and High are: IntervalRange or IntervalMedian
	Repeats    int
	AtLeast    bool  // the figure is only a lower bound
	Optimum    Value // what the model says could be served of the class at that load
	Ceiling    Value // by a single queue
	Limit      Value // of a ratio of goodput over an ideal single queue: Optimum/Ceiling
	Outcome    Outcome
	Reasons    []string // it is undecided
	Remarks    []string
	faulty     bool // the baseline served less than a single queue has to
	figureUnit unit // of Ours
	claimUnit  unit // of the thresholds, the same
}

// What the interval beside a figure is.
const (
	IntervalRange  = "range"     // from the least of the repeats to the largest
	IntervalMedian = "median 95" // the median lies in it with a confidence of 95 %
)

// enoughForMedian is how many repeats an interval of the median needs.
var enoughForMedian = stats.RepeatsFor(confidence)

const confidence = 0.95

// allVariants is the variant of a claim about all of them together.
const allVariants = "*"

// warnUnconverged is the code of a controller that had not converged when the window began.
const warnUnconverged = "unconverged"

// belowCeiling is the share of the single-queue ceiling below which a baseline has done worse than it had to. Chance and a finite
// window account for what lies between.
const belowCeiling = 0.95

// figure is what a claim is about, at one load.
type figure struct {
	load     string
	target   Value
	ours     Range
	interval string
	each     []float64 // of the repeats
	atLeast  bool
	optimum  Value
	ceiling  Value
	faulty   bool     // the baseline served less than a single queue has to
	doubts   []string // why it decides nothing
	remarks  []string
}

// Claims holds every claim of the profile against the results: a line for each variant and baseline, and where there are several
// baselines one for the best of them.
func (run *Run) Claims() (list []ClaimResult) {
	if len(run.Manifest.Claims) == 0 {
		return nil
	}
	g := run.grid()
	for i := range run.Manifest.Claims {
		c := &run.Manifest.Claims[i]
		for _, variant := range run.variantsOf(g, c) {
			e := evaluation{run: run, g: g, claim: c, variant: variant, class: cmp.Or(c.Class, AllClasses)}
			list = append(list, e.results()...)
		}
	}
	return list
}

// variantsOf returns the variants that a claim is held against.
func (run *Run) variantsOf(g *grid, c *Claim) []string {
	switch {
	case c.Variant != "":
		return []string{c.Variant}
	case len(g.variants) > 0:
		return g.variants
	default:
		return []string{""}
	}
}

// evaluation is a claim under one variant.
type evaluation struct {
	run            *Run
	g              *grid
	claim          *Claim
	metric         metric
	variant, class string
}

func (e *evaluation) results() []ClaimResult {
	var known bool
	if e.metric, known = metricNamed(e.claim.Metric); !known {
		return []ClaimResult{e.undecided("there is no metric " + e.claim.Metric)}
	}
	baselines := e.claim.Over
	switch {
	case len(baselines) > 0:
	case e.metric.regret:
		if baselines = e.oracles(); len(baselines) == 0 {
			return []ClaimResult{e.undecided("no controller of the run is told the best capacity, so there is nothing to regret")}
		}
	case e.metric.above != 0:
		return []ClaimResult{e.undecided(e.metric.name + " is the difference to another controller, which the claim does not name")}
	default:
		baselines = []string{""}
	}
	places := e.places()
	if len(places) == 0 {
		return []ClaimResult{e.undecided("nothing was measured " + e.where())}
	}
	var list []ClaimResult
	for _, baseline := range baselines {
		list = append(list, e.result(baseline, places, func(p *place) figure { return p.of.at(p.load, baseline) }))
	}
	if len(baselines) > 1 && !e.metric.regret {
		best := e.result("best of "+strings.Join(baselines, ", "), places, func(p *place) figure { return p.of.atBest(p.load, baselines) })
		best.Best = true
		list = append(list, best)
	}
	return list
}

// place is a load of a variant at which a figure is taken.
type place struct {
	of   *evaluation
	load string
}

// places returns where the claim is looked at: at the loads of its variant, or at those of all variants.
func (e *evaluation) places() (list []place) {
	if e.variant != allVariants {
		for _, load := range e.loads() {
			list = append(list, place{e, load})
		}
		return list
	}
	for _, variant := range e.g.variants {
		if e.run.Manifest.onSurface(variant) {
			continue
		}
		one := *e
		one.variant = variant
		list = append(list, one.places()...)
	}
	return list
}

// figure is what stands at the place. Of several variants each goes by its name.
func (p *place) figure(e *evaluation, at func(*place) figure) figure {
	f := at(p)
	if p.of != e {
		f.load, f.target = p.of.variant, Value{}
		if len(p.of.loads()) > 1 {
			f.load += " at " + p.load
		}
	}
	return f
}

// where names what a claim is confined to.
func (e *evaluation) where() string {
	var parts []string
	if e.claim.At != "" {
		parts = append(parts, "at "+e.claim.At)
	}
	if e.variant != "" && e.variant != allVariants {
		parts = append(parts, "of variant "+e.variant)
	}
	return strings.Join(append(parts, "so far"), " ")
}

func (e *evaluation) undecided(reason string) ClaimResult {
	r := ClaimResult{
		Claim: e.claim, Variant: e.variant, Over: strings.Join(e.claim.Over, ", "), Outcome: Undecided, Reasons: []string{reason},
		claimUnit: plain, figureUnit: plain,
	}
	if e.metric.unit != nil {
		r.claimUnit = e.unit()
		r.figureUnit = r.claimUnit
	}
	return r
}

// unit is how the figure is written.
func (e *evaluation) unit() unit {
	if len(e.claim.Over) > 0 && !e.metric.regret && e.metric.above == 0 {
		return times
	}
	return e.metric.unit
}

// loads returns the loads that the claim is about.
func (e *evaluation) loads() []string {
	loads := e.g.loadsOf(e.variant)
	if e.claim.At == "" {
		return loads
	}
	return slices.DeleteFunc(loads, func(load string) bool { return !sameLoad(load, e.claim.At) })
}

// sameLoad compares loads by what they are rather than by how they are written: 2x is 2.0x.
func sameLoad(a, b string) bool {
	if a == b {
		return true
	}
	numberA, factorA := strings.CutSuffix(a, "x")
	numberB, factorB := strings.CutSuffix(b, "x")
	x, errA := parseValue(numberA)
	y, errB := parseValue(numberB)
	return factorA == factorB && errA == nil && errB == nil && x.known && x == y
}

// oracles returns the controllers whose memory section is told its best capacity, other than the one that the claim is about.
func (e *evaluation) oracles() []string {
	return slices.DeleteFunc(e.run.oracles(), func(label string) bool { return label == e.claim.Controller })
}

// oracles returns the controllers whose memory section is told its best capacity.
func (run *Run) oracles() (labels []string) {
	for _, c := range run.Manifest.Controllers {
		if c.Settings["bandit"] == "oracle" {
			labels = append(labels, c.Label)
		}
	}
	return labels
}

func (e *evaluation) rows(load, controller string) []*Row {
	return e.g.rows[cell{e.variant, load, controller, e.class}]
}

// at returns the figure at a load, over a baseline unless that is empty.
func (e *evaluation) at(load, baseline string) figure {
	ours := e.rows(load, e.claim.Controller)
	f := figure{load: load}
	f.doubts = e.doubts(e.claim.Controller, load)
	if len(ours) > 0 {
		f.target, f.optimum, f.ceiling = ours[0].OfferedTargetRPS, ours[0].OptimumRPS, ours[0].CeilingRPS
	}
	ours = believed(ours)
	base := believed(e.rows(load, baseline))
	if baseline != "" {
		ours, base = paired(ours, base)
	}
	a := e.metric.pooled(e.run, ours)
	if !a.value.known && len(ours) > 0 {
		f.doubts = append(f.doubts, cmp.Or(a.why, fmt.Sprintf("%s has no %s at %s", e.claim.Controller, e.metric.name, load)))
	}
	if baseline == "" {
		f.ours, f.atLeast = Range{Value: a.value}, a.atLeast
		for _, r := range ours {
			f.repeat(e.metric.pooled(e.run, []*Row{r}).value)
		}
		f.spread()
		return f
	}
	f.doubts = append(f.doubts, e.doubts(baseline, load)...)
	b := e.metric.pooled(e.run, base)
	switch {
	case !b.value.known && len(base) > 0:
		f.doubts = append(f.doubts, cmp.Or(b.why, fmt.Sprintf("%s has no %s at %s", baseline, e.metric.name, load)))
	case a.atLeast, b.atLeast:
		f.doubts = append(f.doubts, "there is only a bound of "+e.metric.name+" at "+load)
	}
	f.ours.Value = e.against(a.value, b.value)
	if a.value.known && b.value.known && !f.ours.Value.known {
		zero := baseline
		if e.metric.less && !e.metric.regret {
			zero = e.claim.Controller
		}
		f.doubts = append(f.doubts, fmt.Sprintf("%s of %s is 0 at %s, so there is no ratio", e.goodputName(), zero, load))
	}
	for _, r := range ours {
		if o := byRepeat(base, r.Repeat); o != nil {
			f.repeat(e.against(e.metric.pooled(e.run, []*Row{r}).value, e.metric.pooled(e.run, []*Row{o}).value))
		}
	}
	f.spread()
	e.fault(&f, baseline, base)
	return f
}

// goodputName is the metric by the name of what is divided.
func (e *evaluation) goodputName() string {
	if e.metric.regret {
		return metricGoodput
	}
	return e.metric.name
}

// against sets the metric of the controller against that of a baseline, so that more is better for the controller; a regret is the share
// of the reference's goodput that was missed.
func (e *evaluation) against(ours, base Value) Value {
	switch {
	case e.metric.above != 0:
		if !ours.known || !base.known {
			return Value{}
		}
		return Known(float64(e.metric.above) * (ours.number - base.number))
	case e.metric.regret:
		share := over(ours, base)
		if !share.known {
			return Value{}
		}
		return Known(1 - share.number)
	case e.metric.less:
		return over(base, ours)
	default:
		return over(ours, base)
	}
}

// atBest returns the figure over the baseline that did best at a load. As long as one of the others is in doubt, so is which that was.
func (e *evaluation) atBest(load string, baselines []string) figure {
	best, bestValue := "", Value{}
	var doubts []string
	for _, b := range baselines {
		for _, d := range e.at(load, b).doubts {
			if !slices.Contains(doubts, d) {
				doubts = append(doubts, d)
			}
		}
		v := e.metric.pooled(e.run, believed(e.rows(load, b))).value
		if v.known && (!bestValue.known || e.metric.less && v.number < bestValue.number || !e.metric.less && v.number > bestValue.number) {
			best, bestValue = b, v
		}
	}
	if best == "" {
		return figure{load: load, doubts: doubts}
	}
	f := e.at(load, best)
	f.doubts = doubts
	f.remarks = append([]string{"the best at " + load + " was " + best}, f.remarks...)
	return f
}

// doubts returns why the points of a controller at a load decide nothing.
func (e *evaluation) doubts(controller, load string) (list []string) {
	rows := e.rows(load, controller)
	if len(rows) == 0 {
		return []string{fmt.Sprintf("%s has no row of class %s at %s", controller, e.class, load)}
	}
	unconverged := 0
	for _, r := range rows {
		if !r.Valid {
			list = append(list, fmt.Sprintf("%s at %s, repeat %d, is not valid (%s)", controller, load, r.Repeat, strings.Join(r.Warnings, ", ")))
		}
		if slices.Contains(r.Warnings, warnUnconverged) {
			unconverged++
		}
	}
	if unconverged > 0 && e.metric.ofTrace == nil {
		list = append(list, fmt.Sprintf("%s had not converged at %s in %d of %d repeats", controller, load, unconverged, len(rows)))
	}
	return list
}

// fault says of a baseline that served less than a single queue has to. Not every ratio over it is then the controller's merit.
func (e *evaluation) fault(f *figure, baseline string, base []*Row) {
	if e.metric.name != metricGoodput && e.metric.name != metricOptimumShare && e.metric.name != "throughput_rps" {
		return
	}
	goodput, _ := metricNamed(metricGoodput)
	served := goodput.pooled(e.run, base).value
	share := over(served, f.ceiling)
	if share.known && share.number < belowCeiling {
		f.faulty = true
		f.remarks = append(f.remarks, fmt.Sprintf("%s served %s of class %s at %s, %s of the single-queue ceiling: less than it had to, by its own fault",
			baseline, served.rate(), e.class, f.load, share.percent()))
	}
}

func (f *figure) repeat(v Value) {
	if v.known {
		f.each = append(f.each, v.number)
	}
}

// spread sets the interval of the repeats.
func (f *figure) spread() {
	if !f.ours.Value.known || len(f.each) == 0 {
		return
	}
	if len(f.each) < enoughForMedian {
		f.interval = IntervalRange
		f.ours.Low, f.ours.High = Known(slices.Min(f.each)), Known(slices.Max(f.each))
		return
	}
	iv := stats.MedianInterval(f.each, confidence)
	f.interval = IntervalMedian
	f.ours.Low, f.ours.High = Known(iv.Low), Known(iv.High)
}
