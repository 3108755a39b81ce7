package allocation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"spillway/control/capacity"
)

// Allocator turns the demand of each cell into its grant. Some remember earlier cycles.
type Allocator interface {
	Allocate(demand, grants []float64)
}

// Description says what an allocator is.
type Description struct {
	Name, Summary, Source string
	Settings              []Setting
	build                 func(s *settings, p capacity.Policy) Allocator
}

// Setting is a setting of an allocator.
type Setting struct{ Name, Default, Doc string }

// The settings that several have.
var (
	lendSetting = Setting{"lend", "1", "the share of its surplus that a class lends, from 0 to 1; of each class, joined by commas, or one for all"}
	// A programme gives nobody more than was asked for. Held against demand that has changed since, it would then be short of capacity that it
	// had, which is no fault of its objective.
	restSetting = Setting{"rest", "spread", "what becomes of budget that nobody asked for: spread, in proportion to demand, or none gets it"}
)

var descriptions = []Description{
	{
		Name: "two-level", Summary: "deficits and surpluses inside a class, then lending between classes", Source: "after arXiv 2608.07747; formulas ours",
		Settings: []Setting{
			lendSetting,
			{"sharing", "deficit", "how a class that lacks capacity shares it over its locations: by deficit or by demand"},
			{"order", "importance", "who borrows first: importance (class by class) or alike"},
			{"floor", "0", "the share of its baseline that a location keeps however little it asks for, from 0 to 1"},
			{"cap", "0", "the most that a location is granted, in its baselines, at least 1; 0 for no cap"},
			{"whole", "false", "grants in whole requests per second, by largest remainder"},
		},
		build: buildTwoLevel,
	},
	{Name: "static", Summary: "everybody has its baseline, always", build: func(_ *settings, p capacity.Policy) Allocator {
		return stateless(func(_, grants []float64) { capacity.Static(&p, grants) })
	}},
	{
		Name: "single-class", Summary: "the optimum of the linear programme that knows the first class only", Source: "ours",
		Settings: []Setting{{"budget", "all", "what it may give to the first class: all, or its reservation"}, restSetting},
		build: func(s *settings, p capacity.Policy) Allocator {
			budget := p.Budget()
			if s.word("budget", "all", "reservation") == "reservation" {
				budget = sum(capacity.Row(p.Grid, p.Baseline, 0))
			}
			spread := s.word("rest", "spread", "none") == "spread"
			return stateless(func(demand, grants []float64) {
				capacity.SingleClass(p.Grid, budget, demand, grants)
				spreadRest(spread, budget, grants)
			})
		},
	},
	{
		Name: "two-class", Summary: "an optimum of the linear programme that maximises throughput over all classes", Source: "ours",
		Settings: []Setting{
			{"tie", "pro-rata", "which of the optima: pro-rata to demand, volume-first (the largest class), first-first (the first class)"},
			restSetting,
		},
		build: func(s *settings, p capacity.Policy) Allocator {
			ties := map[string]capacity.Tie{"pro-rata": capacity.ProRata, "volume-first": capacity.VolumeFirst, "first-first": capacity.FirstFirst}
			tie, budget := ties[s.word("tie", "pro-rata", "volume-first", "first-first")], p.Budget()
			spread := s.word("rest", "spread", "none") == "spread"
			return stateless(func(demand, grants []float64) {
				capacity.TwoClass(p.Grid, budget, demand, grants, tie)
				spreadRest(spread, budget, grants)
			})
		},
	},
	{
		Name: "borrowing", Summary: "Kubernetes' borrowing between priority levels, each cell a level", Source: "k8s.io/apiserver, pkg/util/flowcontrol",
		Settings: []Setting{
			{"lend", "0.5", "the share of its baseline that a cell may lend, from 0 to 1; by class, joined by commas, or one for all"},
			{"borrow", "-1", "the most that a cell borrows, in its baselines; negative for no limit"},
			{"period", "10", "cycles between two decisions"},
		},
		build: buildBorrowing,
	},
	{Name: "proportional-share", Summary: "Doorman's: equal shares, what is left of them to those who want more; it knows no classes", Source: "github.com/youtube/doorman, Algorithms",
		build: func(_ *settings, p capacity.Policy) Allocator {
			budget := p.Budget()
			return stateless(func(demand, grants []float64) { capacity.ProportionalShare(budget, demand, grants) })
		}},
}

// Names returns the names of the allocators.
func Names() (list []string) {
	for _, d := range descriptions {
		list = append(list, d.Name)
	}
	return list
}

// Describe returns the description of an allocator; ok is false when there is none of that name.
func Describe(name string) (d Description, ok bool) {
	i := slices.IndexFunc(descriptions, func(d Description) bool { return d.Name == name })
	if i < 0 {
		return Description{}, false
	}
	return descriptions[i], true
}

// SettingError is a mistake in the settings of an allocator.
type SettingError struct {
	Setting string
	Message string
}

// Error says what is wrong.
func (e *SettingError) Error() string { return e.Setting + ": " + e.Message }

// New returns an allocator for the grid and the baselines of p. An error about a setting is a *SettingError.
func New(name string, given map[string]string, p capacity.Policy) (Allocator, error) {
	d, ok := Describe(name)
	if !ok {
		return nil, fmt.Errorf("there is no allocator %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	s := &settings{values: map[string]string{}}
	var known []string
	for _, one := range d.Settings {
		s.values[one.Name] = one.Default
		known = append(known, one.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if _, ok := s.values[key]; !ok {
			hint := "it has none"
			if len(known) > 0 {
				hint = "it takes " + strings.Join(known, ", ")
			}
			return nil, &SettingError{key, fmt.Sprintf("%s has no such setting; %s", name, hint)}
		}
		s.values[key] = given[key]
	}
	a := d.build(s, p)
	return a, s.err
}

// stateless is an allocator that remembers nothing.
type stateless func(demand, grants []float64)

// Allocate implements Allocator.
func (f stateless) Allocate(demand, grants []float64) { f(demand, grants) }

// spreadRest gives out what is left of a budget in proportion to what was granted.
func spreadRest(spread bool, budget float64, grants []float64) {
	granted := sum(grants)
	if !spread || granted <= 0 || granted >= budget {
		return
	}
	for c := range grants {
		grants[c] = grants[c] / granted * budget // in this order: budget/granted is infinite when next to nothing was asked for
	}
}

func buildTwoLevel(s *settings, p capacity.Policy) Allocator {
	p.Lend = s.shares("lend", p.Classes)
	p.Floor = s.number("floor", 0, 1)
	if s.word("sharing", "deficit", "demand") == "demand" {
		p.Sharing = capacity.ByDemand
		if p.Floor > 0 {
			s.fail("floor", "needs sharing by deficit")
		}
	}
	if s.word("order", "importance", "alike") == "alike" {
		p.Order = capacity.Alike
	}
	if most := s.number("cap", 0, math.Inf(1)); most > 0 {
		if most < 1 {
			s.fail("cap", "is at least 1, since a location must be able to fall back to its baseline; 0 is for no cap")
		}
		p.Caps = make([]float64, p.Locations)
		for c, b := range p.Baseline {
			p.Caps[c%p.Locations] += most * b
		}
	}
	if s.word("whole", "false", "true") == "false" {
		return stateless(p.Allocate)
	}
	whole, order := make([]int64, p.Cells()), make([]int32, p.Cells())
	budget := int64(math.Floor(p.Budget() + 0.5))
	return stateless(func(demand, grants []float64) {
		p.Allocate(demand, grants)
		total := budget
		if p.Caps != nil { // what the caps leave ungranted stays so
			total = min(total, int64(math.Floor(sum(grants)+tolerance*p.Budget())))
		}
		capacity.Whole(total, grants, whole, order)
		for c, n := range whole {
			grants[c] = float64(n)
		}
	})
}

// borrowing runs Kubernetes' algorithm, which looks back over a period and then decides for the next.
type borrowing struct {
	policy                capacity.Policy
	levels                []capacity.Borrower
	period, seen          int
	sum, squares, highest []float64 // of the demand in this period, by cell
	high, decided         []float64
}

func buildBorrowing(s *settings, p capacity.Policy) Allocator {
	cells := p.Cells()
	b := &borrowing{policy: p, period: int(s.number("period", 1, 1e6)), levels: make([]capacity.Borrower, cells)}
	lend, borrow := s.shares("lend", p.Classes), s.signed("borrow")
	for c := range b.levels {
		b.levels[c] = capacity.Borrower{Nominal: p.Baseline[c], Lend: lend[c/p.Locations], Borrow: -1}
		if borrow >= 0 {
			b.levels[c].Borrow = borrow * p.Baseline[c]
		}
	}
	for _, list := range []*[]float64{&b.sum, &b.squares, &b.highest, &b.high} {
		*list = make([]float64, cells)
	}
	b.decided = slices.Clone(p.Baseline)
	return b
}

// Allocate implements Allocator.
func (b *borrowing) Allocate(demand, grants []float64) {
	for c, d := range demand {
		b.sum[c] += d
		b.squares[c] += d * d
		b.highest[c] = max(b.highest[c], d)
	}
	if b.seen++; b.seen == b.period {
		n := float64(b.period)
		for c := range b.levels {
			mean := b.sum[c] / n
			b.levels[c].Observe(mean, math.Sqrt(max(0, b.squares[c]/n-mean*mean)))
		}
		copy(b.high, b.highest)
		capacity.Borrowing(b.policy.Budget(), b.levels, b.high, b.decided)
		b.seen = 0
		clear(b.sum)
		clear(b.squares)
		clear(b.highest)
	}
	copy(grants, b.decided)
}

// settings reads what was written; the first mistake is kept.
type settings struct {
	values map[string]string
	err    error
}

func (s *settings) fail(name, format string, args ...any) {
	if s.err == nil {
		s.err = &SettingError{name, fmt.Sprintf(format, args...)}
	}
}

func (s *settings) word(name string, known ...string) string {
	text := s.values[name]
	if !slices.Contains(known, text) {
		s.fail(name, "%q: it is %s", text, strings.Join(known, " or "))
	}
	return text
}

func (s *settings) signed(name string) float64 {
	v, err := strconv.ParseFloat(s.values[name], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		s.fail(name, "%q is not a number", s.values[name])
		return 0
	}
	return v
}

func (s *settings) number(name string, least, most float64) float64 {
	v := s.signed(name)
	if v < least || v > most {
		s.fail(name, "%g is out of range", v)
	}
	return min(max(v, least), most)
}

// shares reads one share for each class, or one for all.
func (s *settings) shares(name string, classes int) []float64 {
	parts := strings.Split(s.values[name], ",")
	list := make([]float64, classes)
	if len(parts) != 1 && len(parts) != classes {
		s.fail(name, "%q: one share, or one for each of %d classes, joined by commas", s.values[name], classes)
		return list
	}
	for k := range list {
		text := strings.TrimSpace(parts[k%len(parts)])
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0 && v <= 1) {
			s.fail(name, "%q: a share is a number from 0 to 1", text)
			return list
		}
		list[k] = v
	}
	return list
}
