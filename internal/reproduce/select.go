// Package reproduce runs the shipped profiles of papers and puts what came out beside what the papers say.
//
// Which profiles belong to a paper is written in the profiles (`source: {paper: …}`), and so is what is claimed and why a claim does not hold: this
// package knows no paper and no profile by name. Profiles whose ground is `sim` are run; those that need real servers are named, with the
// command that runs them.
package reproduce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spillway/internal/harness"
	"spillway/profiles"
)

// All stands for every paper.
const All = "all"

// groundSim is the ground on which profiles are run here.
const groundSim = "sim"

// Papers returns the names of the papers that profiles are of, sorted.
func Papers(list []*profiles.Profile) (names []string) {
	for _, p := range list {
		if p.Source != nil && p.Source.Paper != "" {
			names = append(names, p.Source.Paper)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Shipped returns all shipped profiles.
func Shipped() (list []*profiles.Profile, err error) {
	for _, name := range profiles.Names() {
		p, err := profiles.Load(name)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// Choose returns which of the known papers are meant, sorted; all where nothing was asked for.
func Choose(asked, known []string) (chosen []string, err error) {
	if len(asked) == 0 || slices.Contains(asked, All) {
		chosen = slices.Clone(known)
	}
	for _, name := range asked {
		switch {
		case name == All:
		case slices.Contains(known, name):
			chosen = append(chosen, name)
		case slices.Contains(profiles.Names(), name):
			return nil, fmt.Errorf("%s is a profile, and this takes papers: loadgen run %s --quick", name, name)
		default:
			if near := profiles.Nearest(name, append(slices.Clone(known), All)); near != "" {
				return nil, fmt.Errorf("no paper %q; did you mean %q?", name, near)
			}
			return nil, fmt.Errorf("no paper %q; there are %s, and %s", name, strings.Join(known, ", "), All)
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

// part is a profile of a reproduction.
type part struct {
	profile  *profiles.Profile // in the size and with the seed that are asked for
	arrivals float64           // how many requests it simulates, 0 where they are a fluid
	points   int
	outcome  harness.Outcome
	err      error
}

// paper returns which paper p is of.
func (p *part) paper() string { return p.profile.Source.Paper }

// figure names the figure that p repeats: the paper's number, or the profile's name without that of the paper.
func (p *part) figure() string {
	return cmp.Or(p.profile.Source.Figure, strings.TrimPrefix(p.profile.Name, p.paper()+"-"))
}

// parts picks the profiles of the papers: those to be run here, the one with most to do first, so that no core is left alone with it at the end; and
// those that need another ground.
func (c *Config) parts() (here []*part, elsewhere []*profiles.Profile, err error) {
	for _, p := range c.Profiles {
		if p.Source == nil || !slices.Contains(c.Papers, p.Source.Paper) {
			continue
		}
		if p.On != groundSim {
			elsewhere = append(elsewhere, p)
			continue
		}
		sized, err := p.Sized(c.Size)
		if err != nil {
			return nil, nil, err
		}
		if c.Seed != nil {
			seed := fmt.Sprint(*c.Seed)
			if sized, err = sized.Set([]profiles.Assignment{{Key: "seed", Value: seed, Origin: "--seed " + seed}}); err != nil {
				return nil, nil, err
			}
		}
		one := &part{profile: sized}
		if one.arrivals, one.points, err = harness.Arrivals(sized); err != nil {
			return nil, nil, err
		}
		here = append(here, one)
	}
	slices.SortStableFunc(here, func(a, b *part) int { return cmp.Compare(b.arrivals, a.arrivals) })
	return here, elsewhere, nil
}
