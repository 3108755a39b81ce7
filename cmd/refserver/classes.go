package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/servers"
)

// classFlags say how the classes of requests are told apart, and what each of them was promised.
type classFlags struct {
	rules, slos []string

	own []string // classes that this kind of server knows itself; nil for none, so that they are the verbs
}

func (f *classFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.rules, "class", nil,
		"class of the requests whose keys match a pattern, NAME=PREFIX*SUFFIX; may be repeated, the longest pattern counts. "+
			"Without any the server's own classes")
	flags.StringArrayVar(&f.slos, "class-slo", nil,
		"latency objective of a class, NAME=10ms or NAME=p50:18ms,p90:50ms; may be repeated. Without any --slo is that of all")
}

// parse returns the rules.
func (f *classFlags) parse() (rules []servers.ClassRule, err error) {
	for _, text := range f.rules {
		name, pattern, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("--class %q: write NAME=PREFIX*SUFFIX", text)
		}
		rules = append(rules, servers.ClassRule{Class: name, Pattern: pattern})
	}
	return rules, nil
}

// classes returns what controllers may know of the classes, by number; nil where there is nothing to know. slo is the objective of all where no
// class has one of its own.
func (f *classFlags) classes(rules []servers.ClassRule, slo time.Duration) ([]catalog.Class, error) {
	if len(f.rules) == 0 && len(f.slos) == 0 && f.own == nil {
		return nil, nil
	}
	names := servers.ClassNames(rules, f.own)
	list := make([]catalog.Class, len(names))
	for i, name := range names {
		list[i].Name = name
		if len(f.slos) == 0 {
			list[i].Limit = slo
		}
	}
	for _, text := range f.slos {
		name, objective, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("--class-slo %q: write NAME=10ms or NAME=p50:18ms,p90:50ms", text)
		}
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("--class-slo %q: there is no class %s; there are %s", text, name, strings.Join(names, ", "))
		}
		if list[i].Limit > 0 {
			return nil, fmt.Errorf("--class-slo %q: class %s has an objective already", text, name)
		}
		if err := parseObjective(&list[i], objective); err != nil {
			return nil, fmt.Errorf("--class-slo %q: %w", text, err)
		}
	}
	return list, nil
}

// parseObjective reads a limit, or a limit for each of several percentiles, the largest of which is then that of a single request.
func parseObjective(c *catalog.Class, text string) (err error) {
	if !strings.HasPrefix(text, "p") {
		if c.Limit, err = dist.ParseDuration(text); err == nil && c.Limit <= 0 {
			err = fmt.Errorf("an objective is above 0")
		}
		return err
	}
	for part := range strings.SplitSeq(text, ",") {
		name, limit, _ := strings.Cut(part, ":")
		percent, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if err != nil || !strings.HasPrefix(name, "p") || !(percent > 0 && percent < 100) {
			return fmt.Errorf("%q is not a percentile; write p50, p99 or p99.9", name)
		}
		d, err := dist.ParseDuration(limit)
		if err == nil && d <= 0 {
			err = fmt.Errorf("an objective is above 0")
		}
		if err != nil {
			return err
		}
		c.SLO = append(c.SLO, catalog.Objective{Percentile: percent / 100, Limit: d})
		c.Limit = max(c.Limit, d)
	}
	return nil
}

// tightest returns the smallest objective of any class, 0 if there is none.
func tightest(list []catalog.Class) (least time.Duration) {
	for i := range list {
		if limit := list[i].Limit; limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}
