//go:build linux

package harness

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/profiles"
	"spillway/workloads"
)

// A server of ours knows a request by its key, so that is what tells it the class: each class has a pattern that all its keys match (see
// workloads.Keyed and servers.ClassRule). Then the classes that a controller sees, and those that the server counts by, are the profile's.

// tellApart returns the flags by which a server of ours knows the classes of p, which are asked for by w, and their objectives. The error says which
// it cannot tell apart; it then knows none of them, and goes by what is done with a key.
func tellApart(p *profiles.Profile, w workloads.Workload) (flags []string, err error) {
	keyed, ok := w.(workloads.Keyed)
	if !ok {
		return nil, errors.New("the keys of this workload do not say of which class they are")
	}
	if s, ok := w.(*workloads.Synthetic); ok {
		if err := s.Mark(); err != nil {
			return nil, err
		}
	}
	patterns, err := keyed.Patterns()
	if err != nil {
		return nil, err
	}
	for i, pattern := range patterns {
		flags = append(flags, "--class", p.Workload.Classes[i].Name+"="+pattern)
	}
	for i := range p.Workload.Classes {
		if c := &p.Workload.Classes[i]; c.SLO.Limit > 0 {
			flags = append(flags, "--class-slo", c.Name+"="+sloText(&c.SLO))
		}
	}
	return flags, nil
}

// sloText writes an SLO as refserver takes it.
func sloText(s *profiles.SLO) string {
	if s.Percentiles == nil {
		return dist.FormatDuration(s.Limit)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Percentiles)) {
		parts = append(parts, name+":"+dist.FormatDuration(s.Percentiles[name]))
	}
	return strings.Join(parts, ",")
}

// refuseClasses says when a controller judges by classes that its server cannot tell apart.
func refuseClasses(p *profiles.Profile) error {
	if p.On == groundSim || p.Server.Kind == "external" || p.Server.Kind == kindWeb {
		return nil
	}
	for i := range p.Controllers {
		e, _ := catalog.Describe(p.Controllers[i].Name)
		if !e.JudgesByClass {
			continue
		}
		w, err := asked(p, graphSize{1, 1})
		if err != nil {
			return usage("%s: workload: %w", p.File(), err)
		}
		if _, err := tellApart(p, w); err != nil {
			return mistake(p, fmt.Sprintf("controllers.%d.name", i), "controllers: %s judges by class: %w; give them keys of their own, or leave it out",
				p.Controllers[i].Label(), err)
		}
	}
	return nil
}

// asked returns what the profile asks for. graph is of a graph server.
func asked(p *profiles.Profile, graph graphSize) (workloads.Workload, error) {
	switch p.Workload.Kind {
	case "synthetic":
		work, err := p.Workload.Synthetic()
		if err != nil {
			return nil, err
		}
		return workloads.NewSynthetic(work.Classes)
	case kindMailbox:
		return mailboxLoad(p)
	case kindReplay:
		return replayOf(p)
	case kindGraph:
		return graphLoad(p, graph)
	case kindDataFrame:
		return frameLoad(p, 0) // how many rows there are has been looked at
	}
	classes, err := p.Workload.KVClasses()
	if err != nil {
		return nil, err
	}
	return workloads.NewKV(classes)
}
