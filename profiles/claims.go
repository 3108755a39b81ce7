package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Claim is a statement of a paper that the results are held against. It is written before the run: what is a reproduction is decided by
// who reads the paper, not by who reads the results.
type Claim struct {
	Text       string   `yaml:"text"`
	Metric     string   `yaml:"metric"`      // one of ClaimMetrics
	Class      string   `yaml:"class"`       // AllClasses by default
	Controller string   `yaml:"controller"`  // label
	Over       []string `yaml:"over"`        // labels of the baselines; with them the claim is about a ratio, better than one is better
	Take       string   `yaml:"take"`        // what becomes of several loads: max (the default), min, mean, first, last or most
	At         string   `yaml:"at"`          // only this rate, or factor of capacity, as load has it
	Variant    string   `yaml:"variant"`     // only this one, or AllVariants; each by default
	Paper      *float64 `yaml:"paper"`       // the paper's figure; nil when it has none
	HoldsAt    *float64 `yaml:"holds_at"`    // the claim holds from here upwards; or
	HoldsUnder *float64 `yaml:"holds_under"` // up to here
	Note       string   `yaml:"note"`        // what a reader must know of the threshold
}

// The metrics that are no column of points.csv.
const (
	MetricShare    = "optimum_share"  // goodput as a share of what the model says could be served
	MetricSettle   = "settle_us"      // how long the memory semaphore takes to settle after a switch of phase: the median switch
	MetricSlowest  = "settle_max_us"  // the slowest switch
	MetricSwitches = "switches_per_s" // how often its capacity changes
	MetricRegret   = "regret"         // the share of goodput that a bandit loses to one that is told the right capacity

	MetricServed = "served_share" // the share of what was asked for that was served in time
	MetricGain   = "served_gain"  // by how much that is above the share under another controller
	MetricLoss   = "served_loss"  // by how much it is below it

	// Of allocations, as shares of the budget.
	MetricUtilisation       = "utilisation"         // what was served
	MetricIdle              = "idle_share"          // what was not used though somebody wanted it, on average
	MetricOverCommit        = "over_commit"         // what was granted beyond it in the worst cycle
	MetricConservation      = "conservation_error"  // the difference between it and all grants in the worst cycle
	MetricCurrentIdle       = "current_idle"        // what would not have been used in the worst cycle, had its own demand been known
	MetricCurrentOverCommit = "current_over_commit" // what would have been granted beyond it then
	MetricClosedForm        = "closed_form_error"   // of real edges: the largest difference of a class's served share from the closed form
	MetricTakeover          = "takeover_us"         // of real edges: how long a dead edge's capacity was not granted to others
)

// AllVariants is the variant of a claim about all variants together, or all scenarios of an allocation but those of its surfaces.
const AllVariants = "*"

// isDifference reports whether a metric is the difference of that of two controllers.
func isDifference(metric string) bool { return metric == MetricGain || metric == MetricLoss }

// ClaimMetrics returns what a claim may be about: the columns of points.csv that hold a figure of the result, and what a report derives.
func ClaimMetrics() []string {
	return []string{
		"offered_rps", "sent_rps", "throughput_rps", "goodput_rps", "optimum_rps", "ceiling_rps",
		"ok", "late", "refused", "rejected", "dropped", "expired", "timed_out", "failed", "unsent", "shed_ratio", "drop_ratio",
		"latency_mean_us", "latency_p50_us", "latency_p90_us", "latency_p99_us", "latency_p999_us", "latency_max_us",
		"queue_mean_us", "queue_p99_us", "service_mean_us", "service_p99_us",
		"cpu_ratio", "membw_bytes_per_s", "credits_mean", "memsem_mean",
		MetricShare, MetricServed, MetricGain, MetricLoss, MetricRegret, MetricSettle, MetricSlowest, MetricSwitches,
		MetricUtilisation, MetricIdle, MetricOverCommit, MetricConservation, MetricCurrentIdle, MetricCurrentOverCommit,
		MetricClosedForm, MetricTakeover,
	}
}

var takeKinds = []string{"max", "min", "mean", "first", "last", "most"}

// claims checks what is claimed. What a claim refers to must be there, unless --set took it away: then the claim cannot be decided, which
// the report says, and the run is none the worse for it.
func (c *checker) claims(p *Profile) {
	c.length("claims", len(p.Claims))
	for i := range p.Claims {
		cl, path := &p.Claims[i], fmt.Sprintf("claims.%d", i)
		c.claim(cl, path)
		if n := c.d.at[path]; c.elsewhere == "" || n.touched(c.elsewhere) {
			c.claimed(p, cl, path)
		}
	}
}

// touched reports whether anything in n is of another origin than elsewhere.
func (n *node) touched(elsewhere string) bool {
	return n != nil && (n.origin != elsewhere || slices.ContainsFunc(n.values, func(v *node) bool { return v.touched(elsewhere) }))
}

// claim checks what a claim says by itself.
func (c *checker) claim(cl *Claim, path string) {
	if cl.Text == "" {
		c.fail(path+".text", "a claim has a text")
	}
	if strings.ContainsAny(cl.Text+cl.Note, "\n\r") {
		c.fail(path, "the text and the note of a claim are one line each")
	}
	c.oneOf(path+".metric", cl.Metric, ClaimMetrics())
	if cl.Take != "" {
		c.oneOf(path+".take", cl.Take, takeKinds)
	}
	if cl.Take != "" && cl.At != "" {
		c.fail(path+".at", "at leaves one load, so there is nothing to take; leave out one of the two")
	}
	if (cl.HoldsAt != nil) == (cl.HoldsUnder != nil) {
		c.fail(path, "a claim has exactly one of holds_at (at least) and holds_under (at most)")
	}
	if isDifference(cl.Metric) && len(cl.Over) == 0 {
		c.fail(path, "%s is over another controller; give over", cl.Metric)
	}
	if slices.Contains(cl.Over, cl.Controller) {
		c.fail(path+".over", "%s is held against itself", cl.Controller)
	}
}

// claimed checks that what a claim refers to is in the profile.
func (c *checker) claimed(p *Profile, cl *Claim, path string) {
	labels := p.labels()
	c.oneOf(path+".controller", cl.Controller, labels)
	for j, o := range cl.Over {
		at := fmt.Sprintf("%s.over.%d", path, j)
		c.oneOf(at, o, labels)
		if slices.Contains(cl.Over[:j], o) {
			c.fail(at, "%s stands here a second time", o)
		}
	}
	if cl.Class != "" {
		c.oneOf(path+".class", cl.Class, append(p.Workload.classNames(), AllClasses))
	}
	if cl.Variant != "" {
		names := p.variantNames()
		if len(names) == 0 {
			c.fail(path+".variant", "this profile has no variants")
		}
		if cl.Variant != AllVariants {
			c.oneOf(path+".variant", cl.Variant, names)
		}
	}
	if cl.At == "" {
		return
	}
	var known []string
	for _, loads := range p.loadsOf(cl) {
		if _, ok := loads.find(cl.At); ok {
			return
		}
		known = append(known, loads.written()...)
	}
	slices.Sort(known)
	c.fail(path+".at", "%q is no load of this profile; its loads are %s", cl.At, strings.Join(slices.Compact(known), ", "))
}

// loadsOf returns the loads that a claim may be about.
func (p *Profile) loadsOf(c *Claim) (list []*Sweep) {
	for _, v := range p.runs {
		if c.Variant == "" || c.Variant == AllVariants || v.variant == c.Variant {
			list = append(list, &v.Load)
		}
	}
	if list == nil {
		list = append(list, &p.Load)
	}
	return list
}

// At returns the load that text means, in the form that results name it by: a rate in plain digits, a factor with an x behind it. ok is
// false when text is neither.
func (l *Sweep) At(text string) (name string, ok bool) {
	if len(l.OfCapacity) > 0 {
		f, err := ParseFactor(strings.TrimSuffix(text, "x"))
		return string(f) + "x", err == nil
	}
	r, err := ParseRate(text)
	return strconv.FormatFloat(float64(r), 'f', -1, 64), err == nil
}

// find returns the load that text means if it is one of l.
func (l *Sweep) find(text string) (name string, ok bool) {
	name, ok = l.At(text)
	if !ok {
		return "", false
	}
	for _, f := range l.OfCapacity {
		if v, err := ParseFactor(strings.TrimSuffix(name, "x")); err == nil && v.Value() == f.Value() {
			return string(f) + "x", true
		}
	}
	for _, r := range l.Rates {
		if strconv.FormatFloat(float64(r), 'f', -1, 64) == name {
			return name, true
		}
	}
	return "", false
}

// written lists the loads as the profile has them.
func (l *Sweep) written() (list []string) {
	for _, r := range l.Rates {
		list = append(list, r.String())
	}
	for _, f := range l.OfCapacity {
		list = append(list, string(f))
	}
	if len(l.Phases) > 0 {
		list = append(list, "one of phases, for which at is left out")
	}
	if len(l.Speeds) > 0 {
		list = append(list, "speeds, for which at is left out")
	}
	return list
}

// LoadName returns the load that a claim is about, as results name it; empty when it is about all.
func (p *Profile) LoadName(c *Claim) string {
	if c.At == "" {
		return ""
	}
	list := p.loadsOf(c)
	for _, loads := range list {
		if name, ok := loads.find(c.At); ok {
			return name
		}
	}
	// --rates and --set may have taken it away. The claim keeps its load, of which no row will be found.
	name, _ := list[0].At(c.At)
	return name
}

func (p *Profile) labels() (list []string) {
	for i := range p.Controllers {
		list = append(list, p.Controllers[i].Label())
	}
	return list
}
