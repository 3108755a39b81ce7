// Package catalog builds controllers from names and settings, as they stand in a profile or on a command line. It is the only package
// that knows every controller. A controller's settings are the fields of its config struct, and so is their documentation: the tags
// of a field say how the setting is called, what it means, and in what unit it is.
package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
)

// Env is what a controller may need to know of the place where it runs.
type Env struct {
	Cores int           // how many cores serve requests; stands in for limits that are set to 0
	SLO   time.Duration // the tightest objective of any class; delay budgets that are set to 0 are derived from it; 0 for none
	Seed  uint64        // of what a controller draws at random
}

// Entry describes a controller.
type Entry struct {
	Name     string
	Summary  string
	Source   string // the paper or text it comes from; "" when there is none
	Settings []Setting

	// JudgesAtDequeue says that it acts on requests only when they leave the Gate's queue. With unlimited slots nothing waits there, so it
	// never acts.
	JudgesAtDequeue bool
}

// Setting describes one setting of a controller. All is text, to be printed.
type Setting struct {
	Name    string
	Type    string // int, float, bool, duration or text
	Default string
	Unit    string // of a number; "" for durations, which carry theirs
	Doc     string
}

// row is one controller of the catalog.
type row struct {
	name, summary, source string
	judgesAtDequeue       bool

	config func() any // a pointer to the default settings
	build  func(config any, env Env) (control.Stack, error)
}

// settings is what every config struct can do: say which of its fields is out of range.
type settings interface{ Check() error }

// rows returns every controller, in the order in which Names gives them. To add one, add a row.
func rows() []row {
	return []row{
		define("none", "unbounded first-in-first-out queue; nothing is refused", "",
			func() noSettings { return noSettings{} },
			func(noSettings, Env) (control.Stack, error) { return only(control.None{}), nil }),
		define("fixed", "fixed concurrency limit with a bounded queue", "",
			limit.DefaultFixed,
			func(c limit.FixedConfig, env Env) (control.Stack, error) {
				if c.Limit == 0 && env.Cores < 1 {
					return control.Stack{}, errors.New("limit is 0, which stands for the number of cores, and that is not known here; set limit")
				}
				return only(limit.NewFixed(c, env.Cores)), nil
			}),
		atDequeue(define("codel", "drops at the head of the queue while the queueing delay stays above a target",
			"RFC 8289; Nichols and Jacobson, ACM Queue 10(5), 2012",
			aqm.DefaultCoDel,
			func(c aqm.CoDelConfig, _ Env) (control.Stack, error) { return only(aqm.NewCoDel(c)), nil })),
	}
}

type noSettings struct{}

func (noSettings) Check() error { return nil }

// only returns the stack of a controller that needs nothing but the Gate.
func only(c control.Controller) control.Stack { return control.Stack{Controller: c} }

// define makes a row of typed functions.
func define[C settings](name, summary, source string, config func() C, build func(C, Env) (control.Stack, error)) row {
	return row{
		name: name, summary: summary, source: source,
		config: func() any {
			c := config()
			return &c
		},
		build: func(config any, env Env) (control.Stack, error) {
			c := *config.(*C)
			if err := c.Check(); err != nil {
				return control.Stack{}, err
			}
			return build(c, env)
		},
	}
}

// atDequeue marks a row as one of those that Entry.JudgesAtDequeue is about.
func atDequeue(r row) row {
	r.judgesAtDequeue = true
	return r
}

// Names returns the names of all controllers, simplest first.
func Names() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

// Describe returns what there is to say about the controller called name; ok is false when there is none of that name.
func Describe(name string) (e Entry, ok bool) {
	r, ok := find(name)
	if !ok {
		return Entry{}, false
	}
	return Entry{Name: r.name, Summary: r.summary, Source: r.source, Settings: describe(r.config()), JudgesAtDequeue: r.judgesAtDequeue}, true
}

// New builds the controller called name, with all that belongs to it. Settings that are not given have their defaults. A value is an
// integer of any Go type, a float64, a bool or a string, as a YAML decoder or ParseSettings makes them; a duration is a string such as
// "5ms". Unknown names and settings, wrong types and values out of range are errors that say what would be right.
func New(name string, settings map[string]any, env Env) (control.Stack, error) {
	r, ok := find(name)
	if !ok {
		return control.Stack{}, fmt.Errorf("unknown controller %q%s", name, suggest(name, Names()))
	}
	config := r.config()
	// In a fixed order, so that of several mistakes the same one is reported each time.
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := assign(config, key, settings[key]); err != nil {
			return control.Stack{}, fmt.Errorf("controller %s: %w", name, err)
		}
	}
	s, err := r.build(config, env)
	if err != nil {
		return control.Stack{}, fmt.Errorf("controller %s: %w", name, err)
	}
	return s, nil
}

func find(name string) (row, bool) {
	for _, r := range rows() {
		if r.name == name {
			return r, true
		}
	}
	return row{}, false
}
