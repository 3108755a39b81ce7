//go:build linux

package harness

import (
	"errors"
	"strconv"

	"spillway/internal/dist"
	"spillway/internal/httptarget"
	"spillway/profiles"
)

// A server of the kind web is refserver web: net/http in front of a store, kv for the workload kv and synthetic for the workload synthetic. It is spoken to by
// package httptarget. Requests say their class in a header, so it need not be told by their keys.

// webConns are the connections that it allows where nobody says otherwise.
const webConns = 8192

// webFlags are its settings and the flags that they become.
var webFlags = map[string]string{
	"memory": "--memory", "max_item": "--max-item", "hold": "--hold", "stream_buffer": "--stream-buffer", "max_conns": "--max-conns",
	"slots": "--slots", "queue": "--queue", "deadline": "--deadline", "slo": "--slo",
}

// onlyOfStore are the settings of one of its stores, by the workload that the store answers.
var onlyOfStore = map[string]string{"memory": "kv", "max_item": "kv", "hold": "synthetic", "stream_buffer": "synthetic"}

// webURL returns where requests for a workload go.
func webURL(workload, addr string) string {
	if workload == "synthetic" {
		return "http://" + addr + "/work/{key}"
	}
	return "http://" + addr + "/kv/{key}"
}

// refuseWeb says what of a server of the kind web cannot be.
func refuseWeb(p *profiles.Profile) error {
	if p.Server.Kind != kindWeb {
		return nil
	}
	if p.Server.Replicas > 1 {
		return mistake(p, "server.replicas", "server.replicas: over HTTP there is one server, since its client does not spread requests; leave it out")
	}
	for key := range p.Server.Settings {
		if of := onlyOfStore[key]; of != "" && of != p.Workload.Kind {
			return mistake(p, "server.settings."+key, "server.settings: %s is of the store for the workload %s, and this one is %s; leave it out", key, of, p.Workload.Kind)
		}
	}
	_, err := webClasses(p)
	return err
}

// webClasses returns the flags that tell it of the classes.
func webClasses(p *profiles.Profile) (flags []string, err error) {
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		text := c.Name
		if c.SLO.Percentiles != nil {
			return nil, usage("%s: workload.classes: class %s: slo: refserver web takes one limit, of the 99th percentile", p.File(), c.Name)
		}
		if c.SLO.Limit > 0 {
			text += ",slo=" + dist.FormatDuration(c.SLO.Limit)
		}
		if c.Priority > 0 {
			text += ",priority=" + strconv.Itoa(int(c.Priority))
		}
		flags = append(flags, "--class", text)
	}
	return flags, nil
}

// webStore returns the flags for what it serves, and for whom.
func webStore(p *profiles.Profile) ([]string, error) {
	classes, err := webClasses(p)
	return append([]string{"--store", p.Workload.Kind}, classes...), err
}

// webConnections returns the flags that let it take every connection of the load. Over HTTP each request under way has one.
func webConnections(p *profiles.Profile) ([]string, error) {
	w := &p.Workload
	need := max(w.Connections, w.MaxConnections)
	if w.MaxConnections == 0 && !w.Closed() {
		need = max(need, httptarget.DefaultMaxConns)
	}
	need += ownConns
	text, given := p.Server.Settings["max_conns"]
	most, err := strconv.Atoi(text)
	switch {
	case given && (err != nil || most < need):
		return nil, mistake(p, "server.settings.max_conns",
			"server.settings.max_conns: %s is too few for the %d of the load and of our own; leave it out, or bound those by workload.max_connections", text, need)
	case !given && need > webConns:
		return []string{"--max-conns", strconv.Itoa(need)}, nil
	}
	return nil, nil
}

// errModelledWeb says why there is no model of it.
var errModelledWeb = errors.New("it is net/http on this computer's sockets, which nothing models; --on host")
