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

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/limit"
)

// Env is what a controller may need to know of the place where it runs.
type Env struct {
	Cores int           // how many cores serve requests; stands in for limits that are set to 0
	SLO   time.Duration // the tightest objective of any class; delay budgets that are set to 0 are derived from it; 0 for none
	Seed  uint64        // of what a controller draws at random

	// Classes are the classes of requests, by Request.Class; nil where they are not known.
	Classes []Class

	// Energy says that ticks bring the energy used (control.Signals.Joules), without which nothing can be decided by power.
	Energy bool

	// Oracle returns the best capacity of the memory section at an instant. Only a model of the machine knows it; nil elsewhere, where
	// the bandit oracle cannot be used.
	Oracle func(clock.Instant) int
}

// Entry describes a controller.
type Entry struct {
	Name     string
	Summary  string
	Source   string // the paper or text it comes from; "" when there is none
	Settings []Setting

	// Common is where in Settings those of the memory section begin, which every controller has.
	Common int

	// JudgesAtDequeue says that it acts on requests only when they leave the Gate's queue. With unlimited slots nothing waits there, so it
	// never acts.
	JudgesAtDequeue bool

	// JudgesByClass says that what becomes of a request depends on its class, so that it needs a server which can tell classes apart.
	JudgesByClass bool
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
	judgesByClass         bool
	section               string // the default of the setting of that name; "" for off

	config func() any // a pointer to the default settings
	build  func(config any, env Env) (control.Stack, error)
}

// settings is what every config struct can do: say which of its fields is out of range.
type settings interface{ Check() error }

// rows returns every controller, in the order in which Names gives them. To add one, add a row. One that has a memory section unless it is
// told otherwise is wrapped in withSection.
func rows() []row {
	list := []row{
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
	return slices.Concat(list, limits(), clients(), credits(), judges(), []row{stagingRow()}, byClass(capacityRow()))
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

// byClass marks rows as those that Entry.JudgesByClass is about.
func byClass(list ...row) []row {
	for i := range list {
		list[i].judgesByClass = true
	}
	return list
}

// withSection marks a row as one of a controller that has a memory section unless it is told otherwise, and says how it is entered.
func withSection(mode string, r row) row {
	r.section = mode
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
	config := r.config()
	list := describe(config)
	section := sectionOf(r, config)
	return Entry{
		Name: r.name, Summary: r.summary, Source: r.source, Settings: append(list, section.describe()...), Common: len(list),
		JudgesAtDequeue: r.judgesAtDequeue, JudgesByClass: r.judgesByClass,
	}, true
}

// New builds the controller called name, with all that belongs to it. Settings that are not given have their defaults. A value is an
// integer of any Go type, a float64, a bool or a string, as a YAML decoder or ParseSettings makes them; a duration is a string such as
// "5ms". Unknown names and settings, wrong types and values out of range are errors that say what would be right.
//
// Every controller also has the settings of the memory section (package memsem). Where it has one of the same name itself, the section's
// is called section_NAME.
func New(name string, settings map[string]any, env Env) (control.Stack, error) {
	r, ok := find(name)
	if !ok {
		return control.Stack{}, fmt.Errorf("unknown controller %q%s", name, suggest(name, Names()))
	}
	config := r.config()
	section := sectionOf(r, config)
	// In a fixed order, so that of several mistakes the same one is reported each time.
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := assign(config, section, key, settings[key]); err != nil {
			return control.Stack{}, fmt.Errorf("controller %s: %w", name, err)
		}
	}
	s, err := r.build(config, env)
	if err == nil {
		s, err = section.add(s, env)
	}
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
