package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spillway/guard/levels"
	"spillway/internal/dist"
	"spillway/servers"
)

// levelEvery is how often resources are read: as often as a controller that watches them looks.
const levelEvery = 100 * time.Millisecond

// maker makes a level of the text of its limit, "" when none was given.
type maker func(limit string) (levels.Level, error)

// levelFlags say which resources of this computer are watched.
type levelFlags struct {
	list []string
	own  map[string]maker // of this kind of server, beside those of every process
}

func (f *levelFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.list, "level", nil,
		"resource to watch, NAME=LIMIT; may be repeated, or joined by commas. rss=200MB, heap=100MB, cgroup=200MB (no limit: the group's), "+
			"address=1GB, psi=0.1 (share of time that processes wait for memory), files=500 (no limit: ulimit -n), cpu=0.9")
}

// processLevels are those that any process has.
func processLevels() map[string]maker {
	bytes := func(level func(int64) levels.Level) maker {
		return func(text string) (levels.Level, error) {
			n, err := sizeOf(text)
			return level(n), err
		}
	}
	maybeBytes := func(level func(int64) (levels.Level, error)) maker {
		return func(text string) (levels.Level, error) {
			n := int64(0) // stands for the system's own limit
			if text != "" {
				var err error
				if n, err = sizeOf(text); err != nil {
					return levels.Level{}, err
				}
			}
			return level(n)
		}
	}
	return map[string]maker{
		"rss": bytes(levels.RSS), "heap": bytes(levels.Heap), "cgroup": maybeBytes(levels.Cgroup), "address": maybeBytes(levels.Address),
		"psi": func(text string) (levels.Level, error) {
			share, err := shareOf(text)
			if err != nil {
				return levels.Level{}, err
			}
			return levels.Pressure(share)
		},
		"files": func(text string) (levels.Level, error) {
			n := 0
			if text != "" {
				var err error
				if n, err = strconv.Atoi(text); err != nil || n < 1 {
					return levels.Level{}, fmt.Errorf("%q is not a number of files from 1", text)
				}
			}
			return levels.Files(n)
		},
		"cpu": func(text string) (levels.Level, error) {
			share, err := shareOf(text)
			return levels.CPU(share), err
		},
	}
}

func sizeOf(text string) (int64, error) {
	if text == "" {
		return 0, errors.New("it needs a limit, such as 200MB")
	}
	n, err := dist.ParseSize(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("size %q: must be above 0", text)
	}
	return n, err
}

func shareOf(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= 1) {
		return 0, fmt.Errorf("%q is not a share above 0 and up to 1", text)
	}
	return v, nil
}

// watch has the controller of a server told of the resources. Whoever says staging and nothing to watch has a queue that is always open,
// which cannot be meant.
func (f *levelFlags) watch(c *servers.Config, controller string) error {
	switch {
	case c.Model != nil && len(f.list) > 0:
		return errors.New("--level is for a real machine: of a modelled one its ram is watched")
	case c.Model != nil && c.Model.Machine.RAM == 0 && controller == "staging":
		return errors.New("--control staging: the modelled machine has no ram that could run out; give it one")
	case c.Model != nil:
		return nil
	case len(f.list) == 0 && controller == "staging":
		return errors.New("--control staging: there is nothing to watch; add --level, such as --level rss=200MB")
	case len(f.list) == 0:
		return nil
	}
	known := processLevels()
	maps.Copy(known, f.own)
	var list []levels.Level
	for _, some := range f.list {
		for one := range strings.SplitSeq(some, ",") {
			name, limit, _ := strings.Cut(strings.TrimSpace(one), "=")
			make, ok := known[name]
			if !ok {
				return fmt.Errorf("--level %s: unknown; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			}
			l, err := make(limit)
			if err != nil {
				return fmt.Errorf("--level %s: %w", name, err)
			}
			list = append(list, l)
		}
	}
	// It reads until the process ends: the levels are of the process.
	r, err := levels.New(levelEvery, list...)
	if err != nil {
		return err
	}
	c.Levels = r.Levels
	return nil
}
