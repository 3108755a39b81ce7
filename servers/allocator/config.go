package allocator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"spillway/control/capacity"
)

// Config says what is shared, and how.
type Config struct {
	Budget    float64    // requests per second that all locations together may pass on
	Classes   []Class    // the most important one first
	Locations []Location // in any order

	Cycle  time.Duration // how often it is decided anew
	Lease  time.Duration // how long a grant holds without a word from the allocator
	Keep   int           // cycles for which the last demand of a location stands in for one that is missing
	Absorb int           // cycles without a report after which the baseline of a location is used elsewhere; 0 for never
	Floor  float64       // share of its baseline that a cell keeps however little it asks for
	Alike  bool          // all classes borrow in proportion to what they lack; otherwise the more important ones first
}

// Class is one class of requests.
type Class struct {
	Name  string
	Share float64 // of the budget, which is reserved for it
	Lend  float64 // share of what it does not use that other classes may borrow
}

// Location is one place at which requests arrive.
type Location struct {
	Name   string
	Weight float64 // its part of every class's reservation, in proportion to those of the others
}

// Default returns one cycle a second, and times that go with each other.
func Default() Config {
	return Config{Cycle: time.Second, Lease: 8 * time.Second, Keep: 2, Absorb: 10}
}

// Check says what is wrong with c, nil if nothing is.
func (c *Config) Check() error {
	switch {
	case !(c.Budget > 0) || math.IsInf(c.Budget, 0):
		return fmt.Errorf("a budget of %g requests per second: it must be above 0", c.Budget)
	case len(c.Classes) == 0 || len(c.Locations) == 0:
		return errors.New("at least one class and one location are needed")
	case c.Cycle < shortestCycle || c.Cycle > longestCycle:
		return fmt.Errorf("a cycle of %v: it must be at least %v and at most %v", c.Cycle, shortestCycle, longestCycle)
	case c.Keep < 0 || c.Absorb < 0 || c.Absorb > mostCycles:
		return fmt.Errorf("cycles must not be negative, nor more than %d", mostCycles)
	case !(c.Floor >= 0 && c.Floor <= 1):
		return fmt.Errorf("a floor of %g: it is a share of the baseline, from 0 to 1", c.Floor)
	case c.Lease < leastLease*c.Cycle:
		return fmt.Errorf("a lease of %v: with a cycle of %v it must be at least %v", c.Lease, c.Cycle, leastLease*c.Cycle)
	case c.Absorb > 0 && time.Duration(c.Absorb)*c.Cycle <= c.Lease || c.Absorb > 0 && c.Absorb <= c.Keep:
		return fmt.Errorf("a location counts as gone after %d cycles of %v: that must be later than the end of its lease of %v", c.Absorb, c.Cycle, c.Lease)
	}
	shares, names := 0.0, map[string]bool{}
	for _, k := range c.Classes {
		if k.Name == "" || names[k.Name] || !(k.Share >= 0) || !(k.Lend >= 0 && k.Lend <= 1) {
			return fmt.Errorf("class %q: names are different from each other, shares not negative, and it lends from 0 to 1 of its surplus", k.Name)
		}
		names[k.Name] = true
		shares += k.Share
	}
	if math.Abs(shares-1) > 1e-6 {
		return fmt.Errorf("the classes' shares of the budget sum to %g, they must sum to 1", shares)
	}
	weights, places := 0.0, map[string]bool{}
	for _, l := range c.Locations {
		if l.Name == "" || places[l.Name] || !(l.Weight >= 0) || math.IsInf(l.Weight, 0) {
			return fmt.Errorf("location %q: names are different from each other, and weights not negative", l.Name)
		}
		places[l.Name] = true
		weights += l.Weight
	}
	if !(weights > 0) {
		return errors.New("no location has a weight above 0")
	}
	if math.IsInf(weights, 0) {
		return errors.New("the locations' weights are too large to be added; what counts is only their proportion")
	}
	return nil
}

const (
	// longestCycle and mostCycles keep what is computed of them, such as the end of a lease, within what a duration can hold.
	longestCycle = 24 * time.Hour
	mostCycles   = 100_000
	// early is how many cycles before the end of the lease what a location has above its baseline ends. Those whom it was borrowed from confirm
	// with every second word from them at the latest that they cannot take it back before; one to spare lets a report be lost at no cost.
	early = 3
	// leastLease leaves as many cycles in which what was borrowed holds.
	leastLease = 2 * early
)

// borrowed returns how long what a location has above its baseline holds.
func (c *Config) borrowed() time.Duration { return c.Lease - early*c.Cycle }

// Policy returns how the budget is shared, cell by cell.
func (c *Config) Policy() capacity.Policy {
	p := capacity.Policy{Grid: capacity.Grid{Classes: len(c.Classes), Locations: len(c.Locations)}, Floor: c.Floor}
	if c.Alike {
		p.Order = capacity.Alike
	}
	weights := 0.0
	for _, l := range c.Locations {
		weights += l.Weight
	}
	for _, k := range c.Classes {
		p.Lend = append(p.Lend, k.Lend)
		for _, l := range c.Locations {
			p.Baseline = append(p.Baseline, c.Budget*k.Share*l.Weight/weights)
		}
	}
	return p
}

// file is a Config as it stands in a file. What is left out has its default.
type file struct {
	Budget  float64 `json:"budget"`
	Classes []struct {
		Name  string   `json:"name"`
		Share float64  `json:"share"`
		Lend  *float64 `json:"lend"`
	} `json:"classes"`
	Locations []struct {
		Name   string   `json:"name"`
		Weight *float64 `json:"weight"`
	} `json:"locations"`
	Cycle  string  `json:"cycle"`
	Lease  string  `json:"lease"`
	Keep   *int    `json:"keep"`
	Absorb *int    `json:"absorb"`
	Floor  float64 `json:"floor"`
	Alike  bool    `json:"alike"`
}

// ReadConfig reads a Config in JSON, such as
//
//	{"budget": 1000, "classes": [{"name": "high", "share": 0.7}, {"name": "low", "share": 0.3, "lend": 0.5}],
//	 "locations": [{"name": "a", "weight": 2}, {"name": "b"}], "cycle": "1s", "lease": "8s", "keep": 2, "absorb": 10}
func ReadConfig(text []byte) (Config, error) {
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Config{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Config{}, errors.New("something follows the configuration")
	}
	c := Default()
	c.Budget, c.Floor, c.Alike = f.Budget, f.Floor, f.Alike
	for _, k := range f.Classes {
		c.Classes = append(c.Classes, Class{Name: k.Name, Share: k.Share, Lend: or(k.Lend, 1)})
	}
	for _, l := range f.Locations {
		c.Locations = append(c.Locations, Location{Name: l.Name, Weight: or(l.Weight, 1)})
	}
	for _, t := range []struct {
		text string
		to   *time.Duration
	}{{f.Cycle, &c.Cycle}, {f.Lease, &c.Lease}} {
		if t.text == "" {
			continue
		}
		var err error
		if *t.to, err = time.ParseDuration(t.text); err != nil {
			return Config{}, err
		}
	}
	c.Keep, c.Absorb = or(f.Keep, c.Keep), or(f.Absorb, c.Absorb)
	return c, c.Check()
}

func or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}
