//go:build linux

package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spillway/profiles"
)

// kindsOn lists, for each ground, the kinds of servers that can be run there and the workloads that each of them answers.
var kindsOn = map[string]map[string][]string{
	groundHost:  {"memcached": {"kv"}, "synthetic": {"synthetic"}, "external": {"kv"}},
	groundModel: {"memcached": {"kv"}, "synthetic": {"synthetic"}},
	groundSim:   {"memcached": {"kv"}, "rocksdb": {"kv"}, "synthetic": {"synthetic"}},
}

// Grounds returns the grounds on which p can be run as it stands.
func Grounds(p *profiles.Profile) (list []string) {
	for _, on := range []string{groundSim, groundModel, groundHost} {
		moved := *p
		moved.On = on
		err := refuse(&moved)
		if err == nil && on != groundHost {
			_, err = newModelled(&moved)
		}
		if err == nil {
			list = append(list, on)
		}
	}
	return list
}

// refuse says what of p this version cannot run on the ground that it asks for. Nothing is passed over in silence.
func refuse(p *profiles.Profile) error {
	cannot := func(part, what string) error {
		return usage("%s: %s: this version cannot run %s", p.File(), part, what)
	}
	if err := refuseServer(p); err != nil {
		return err
	}
	if err := refuseSettings(p); err != nil {
		return err
	}
	if err := refuseLoad(p); err != nil {
		return err
	}
	switch {
	case p.Server.Replicas > 1:
		return cannot("server.replicas", "several servers yet")
	case p.Retry != nil:
		return cannot("retry", "retries yet")
	case len(p.Load.Phases) > 0:
		return cannot("load.phases", "phases yet; give rates or of_capacity")
	case len(p.Claims) > 0:
		return cannot("claims", "claims yet")
	}
	objective := false
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		if c.SLO.Percentiles != nil {
			return cannot(fmt.Sprintf("slo of class %s", c.Name), "an SLO of several percentiles yet; give one duration")
		}
		objective = objective || c.SLO.Limit > 0
	}
	if p.On == groundHost && len(p.Load.OfCapacity) > 0 && !objective {
		return usage("%s: load.of_capacity: capacity is the highest rate at which the SLO holds, but no class has an slo", p.File())
	}
	return refuseControllers(p)
}

// refuseServer says when server, workload and ground do not fit together.
func refuseServer(p *profiles.Profile) error {
	kinds := kindsOn[p.On]
	known := slices.Sorted(maps.Keys(kinds))
	answers, ok := kinds[p.Server.Kind]
	switch {
	case !ok && p.Server.Kind == "external":
		return usage("%s: server.kind: external: the ground %s models its server, so it cannot use one that runs already; --on host can", p.File(), p.On)
	case !ok:
		return usage("%s: server.kind: %s: this version cannot run this kind of server on the ground %s; there are %s",
			p.File(), p.Server.Kind, p.On, strings.Join(known, ", "))
	case slices.Contains(answers, p.Workload.Kind):
		return nil
	}
	for _, kind := range known {
		if slices.Contains(kinds[kind], p.Workload.Kind) {
			return usage("%s: workload.kind: %s: a server of the kind %s does not answer that; one of the kind %s does",
				p.File(), p.Workload.Kind, p.Server.Kind, kind)
		}
	}
	return usage("%s: workload.kind: %s: this version cannot run this kind of workload yet; there are kv and synthetic", p.File(), p.Workload.Kind)
}

func refuseControllers(p *profiles.Profile) error {
	if p.Server.Kind == "external" {
		if len(p.Controllers) != 1 || p.Controllers[0].Name != "none" || len(p.Controllers[0].Settings) > 0 {
			return usage("%s: controllers: a server that already runs has the controller it was started with; write [{name: none}]", p.File())
		}
		return nil
	}
	for i := range p.Controllers {
		if err := refuseController(p, i); err != nil {
			return err
		}
	}
	return nil
}

// settingFlags are the keys of server.settings by kind of server, and the flags of refserver that they become.
var settingFlags = map[string]map[string]string{
	"memcached": {
		"reply": "--reply", "memory": "--memory", "max_item": "--max-item", "max_conns": "--max-conns", "threads": "--threads",
		"slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
	},
	"synthetic": {
		"max_conns": "--max-conns", "threads": "--threads", "slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
	},
}

const (
	settingCosts   = "costs"   // the cost table; only a modelled server has one
	settingThreads = "threads" // only a real server has them
)

// settingKeys returns the keys of server.settings that a kind of server takes.
func settingKeys(kind string) []string {
	keys := slices.Sorted(maps.Keys(settingFlags[kind]))
	if kind != "synthetic" {
		keys = append(keys, settingCosts)
	}
	return keys
}

func unknownSetting(p *profiles.Profile, key string) error {
	known := settingKeys(p.Server.Kind)
	hint := "it takes " + strings.Join(known, ", ")
	if near := profiles.Nearest(key, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return mistake(p, "server.settings."+key, "server.settings: %s has no setting %q; %s", p.Server.Kind, key, hint)
}

// serverFlags turns server.settings into flags of refserver. A cost table says nothing to a server that really does its work, nor threads to
// one that a machine is modelled for.
func serverFlags(p *profiles.Profile) ([]string, error) {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(p.Server.Settings)) {
		flag, ok := settingFlags[p.Server.Kind][k]
		switch {
		case k == settingCosts && p.Server.Kind != "synthetic":
			if p.On == groundModel {
				list = append(list, "--costs", p.Server.Settings[k])
			}
		case !ok:
			return nil, unknownSetting(p, k)
		case k != settingThreads || p.On == groundHost:
			list = append(list, flag, p.Server.Settings[k])
		}
	}
	enough, err := connections(p)
	return append(list, enough...), err
}
