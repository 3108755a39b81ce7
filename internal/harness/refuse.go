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
	groundHost:  {"memcached": {"kv", kindReplay}, "rocksdb": {"kv", kindReplay}, "synthetic": {"synthetic"}, "mailbox": {"mailbox"}, "graph": {"graph"}, "dataframe": {"dataframe"}, kindWeb: {"kv", "synthetic"}, "external": {"kv", kindReplay}},
	groundModel: {"memcached": {"kv", kindReplay}, "rocksdb": {"kv", kindReplay}, "synthetic": {"synthetic"}, "mailbox": {"mailbox"}, "graph": {"graph"}, "dataframe": {"dataframe"}},
	groundSim:   {"memcached": {"kv", kindReplay}, "rocksdb": {"kv", kindReplay}, "synthetic": {"synthetic"}, "mailbox": {"mailbox"}, "graph": {"graph"}, "dataframe": {"dataframe"}},
}

// Grounds returns the grounds on which p can be run as it stands.
func Grounds(p *profiles.Profile) (list []string) {
	for _, on := range []string{groundSim, groundModel, groundHost} {
		able := true
		for _, run := range p.Runs() {
			moved := *run
			moved.On = on
			err := refuse(&moved)
			if err == nil && on != groundHost && !isAllocation(p) {
				_, err = newModelled(&moved)
			}
			able = able && err == nil
		}
		if able {
			list = append(list, on)
		}
	}
	return list
}

// refuse says what of p, a profile or a variant of one, this version cannot run on the ground that it asks for. Nothing is passed over in
// silence.
func refuse(p *profiles.Profile) error {
	if isAllocation(p) {
		return refuseAllocation(p)
	}
	for _, judge := range []func(*profiles.Profile) error{
		refuseServer, refuseReplay, refuseWeb, refuseSettings, refuseLoad, refuseReplicas, refuseCapacity, refuseControllers, refuseClients, refuseClasses, refuseHTTP, refuseFrame,
	} {
		if err := judge(p); err != nil {
			return err
		}
	}
	return nil
}

// refuseCapacity says when the loads are shares of a capacity that cannot be searched.
func refuseCapacity(p *profiles.Profile) error {
	if p.On != groundHost || len(p.Load.OfCapacity) == 0 {
		return nil
	}
	if p.Variant() != "" {
		return mistake(p, "load.of_capacity", "load.of_capacity: on the ground host the capacity is searched, and of several variants each has its own; "+
			"give rates, or run one at a time (--set variants=null)")
	}
	for i := range p.Workload.Classes {
		if p.Workload.Classes[i].SLO.Limit > 0 {
			return nil
		}
	}
	return usage("%s: load.of_capacity: capacity is the highest rate at which the SLO holds, but no class has an slo", p.File())
}

// refuseReplicas says what of several servers cannot be.
func refuseReplicas(p *profiles.Profile) error {
	switch {
	case p.Server.Replicas > 1 && p.Server.Kind == "external":
		return mistake(p, "server.replicas", "server.replicas: servers that run already are started by nobody; give all their addresses in server.settings.target")
	case p.Retry != nil && p.Workload.Client == profiles.ClientGomemcache:
		return mistake(p, "retry", "retry: gomemcache chooses the server of a request itself; use the client pipelined")
	}
	return nil
}

// refuseClients says what clients cannot do that have a half of the control.
func refuseClients(p *profiles.Profile) error {
	if p.Server.Kind == "external" || p.On == groundSim {
		return nil
	}
	for i := range p.Controllers {
		c := &p.Controllers[i]
		s, err := build(c, checkEnvironment(p))
		switch {
		case err != nil || s.NewClient == nil:
		case p.Server.Kind == kindWeb:
			return mistake(p, fmt.Sprintf("controllers.%d.name", i), "controllers: %s: one half of it is at clients (credits, rates or priorities), and clients of a server of the kind web have none; "+
				"use a server of the kind memcached or rocksdb, or a controller that is whole at the server", c.Label())
		case p.Workload.Client == profiles.ClientGomemcache:
			return mistake(p, "workload.client", "workload.client: gomemcache has no half of the control, which %s needs; use the client pipelined", c.Label())
		case p.Workload.MaxConnections > p.Workload.Connections:
			return mistake(p, "workload.max_connections", "workload.max_connections: under %s a server knows a client by its connection, so none can be added; leave it out",
				c.Label())
		}
	}
	return nil
}

// refuseServer says when server, workload and ground do not fit together.
func refuseServer(p *profiles.Profile) error {
	kinds := kindsOn[p.On]
	known := slices.Sorted(maps.Keys(kinds))
	answers, ok := kinds[p.Server.Kind]
	switch {
	case !ok && p.Server.Kind == "external":
		return usage("%s: server.kind: external: the ground %s models its server, so it cannot use one that runs already; --on host can", p.File(), p.On)
	case !ok && p.Server.Kind == kindWeb:
		return mistake(p, "server.kind", "server.kind: web: not on the ground %s: %w", p.On, errModelledWeb)
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
	return usage("%s: workload.kind: %s: this version cannot run this kind of workload yet; there are kv, replay, synthetic, graph, dataframe and mailbox", p.File(), p.Workload.Kind)
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
		"reply": "--reply", "memory": "--memory", "max_item": "--max-item", "large": "--large", "max_conns": "--max-conns", "threads": "--threads",
		"slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
	},
	"synthetic": {
		"stream": "--stream", "stream_buffer": "--stream-buffer", "max_conns": "--max-conns", "threads": "--threads", "slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
	},
	kindMailbox:   mailboxFlags,
	kindRocksDB:   rocksdbFlags,
	kindGraph:     graphFlags,
	kindDataFrame: frameFlags,
	kindWeb:       webFlags,
}

const (
	settingCosts   = "costs"   // the cost table; only a modelled server has one
	settingThreads = "threads" // only a real server has them
)

// settingKeys returns the keys of server.settings that a kind of server takes.
func settingKeys(kind string) []string {
	keys := slices.Sorted(maps.Keys(settingFlags[kind]))
	if hasCosts(kind) {
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

// serverFlags turns server.settings into flags of refserver. A cost table says nothing to a server that really does its work, nor the limits
// of this computer to one that a machine is modelled for.
func serverFlags(p *profiles.Profile) ([]string, error) {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(p.Server.Settings)) {
		flag, ok := settingFlags[p.Server.Kind][k]
		switch {
		case k == settingCosts && hasCosts(p.Server.Kind):
			if p.On == groundModel {
				list = append(list, "--costs", p.Server.Settings[k])
			}
		case !ok:
			return nil, unknownSetting(p, k)
		case k == settingDir && p.Server.Kind == kindRocksDB: // each replica has its own
		case !ofThisComputer(k) || p.On == groundHost:
			list = append(list, settingArgs(flag, p.Server.Settings[k])...)
		}
	}
	if p.Server.Kind == kindWeb {
		enough, err := webConnections(p)
		return append(list, enough...), err
	}
	enough, err := connections(p)
	return append(list, enough...), err
}
