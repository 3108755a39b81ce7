//go:build linux

package harness

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"spillway/clock"
	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/internal/frames"
	"spillway/internal/graphdb"
	"spillway/internal/httptarget"
	"spillway/internal/load"
	"spillway/internal/target"
	"spillway/profiles"
	"spillway/workloads"
)

const (
	refserverMemory = 64 << 20 // of refserver memcached
	refserverItem   = 1 << 20
	refserverConns  = 1024
	// ownConns are the connections that we use beside those of the load: to fill the server, to ask for its counts, to watch it.
	ownConns = 16
	// maxPreload bounds the keys stored in a server whose memory we do not know. At the rate of a fast server it takes minutes.
	maxPreload = 100_000_000
)

// refuseSettings says what the server would refuse of its settings, with the place, before it is started.
func refuseSettings(p *profiles.Profile) error {
	for _, key := range slices.Sorted(maps.Keys(p.Server.Settings)) {
		err := checkSetting(key, p.Server.Settings[key])
		if p.Server.Kind == kindDataFrame && key == "reply" {
			err = checkFrameReply(p.Server.Settings[key])
		}
		if p.Server.Kind == kindMailbox && err == nil {
			boxes := workloads.DefaultMailboxes()
			_, err = describesMailboxes(&boxes, key, p.Server.Settings[key])
		}
		if p.Server.Kind == kindGraph && err == nil {
			shape := graphdb.DefaultShape()
			_, err = describesGraph(&shape, key, p.Server.Settings[key])
		}
		if p.Server.Kind == kindDataFrame && err == nil {
			source := frameSource{shape: frames.DefaultShape()}
			_, err = describesFrame(&source, key, p.Server.Settings[key])
		}
		if err != nil {
			return mistake(p, "server.settings."+key, "server.settings.%s: %w", key, err)
		}
	}
	if p.Server.Kind != "memcached" && p.Server.Kind != kindWeb || p.On == groundSim {
		return nil
	}
	memory, item := sizes(p)
	if item > memory/2 {
		return mistake(p, "server.settings.max_item", "server.settings: the largest item (max_item) is at most half of the memory, which is %s",
			profiles.Size(memory))
	}
	return nil
}

// checkSetting judges one value. Keys that are not known here are judged where they are used.
func checkSetting(key, text string) error {
	whole := func(least int) error {
		if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < int64(least) {
			return fmt.Errorf("%q is not a whole number from %d", text, least)
		}
		return nil
	}
	size := func(plain, least, most int64) error {
		n, err := dist.ParseMemcachedSize(text, plain)
		if err == nil && (n < least || n > most) {
			err = fmt.Errorf("%q is not between %s and %s", text, profiles.Size(least), profiles.Size(most))
		}
		return err
	}
	switch key {
	case "slots":
		return whole(-1)
	case "queue", "threads", "parallelism":
		return whole(0)
	case "max_conns":
		return whole(1)
	case "reply":
		if text != "full" && text != "header" {
			return fmt.Errorf("%q: it is full or header", text)
		}
	case "stream":
		if text != "store" && text != "load" {
			return fmt.Errorf("%q: it is store or load", text)
		}
	case "stream_buffer":
		if text != "auto" {
			return size(1, 16<<10, 1<<40)
		}
	case "memory":
		return size(1<<20, 1<<20, math.MaxInt64)
	case "hold":
		return size(1, 1, math.MaxInt64)
	case "max_item":
		return size(1, 1<<10, 1<<30)
	case "large":
		return size(1, 0, 1<<30)
	case "deadline", "slo":
		_, err := dist.ParseDuration(text)
		return err
	}
	return checkRocksDB(key, text)
}

// sizes returns the memory and the largest item of a memcached server that we start. Its settings have been checked.
func sizes(p *profiles.Profile) (memory, item int64) {
	memory, item = refserverMemory, refserverItem
	if text := p.Server.Settings["memory"]; text != "" {
		memory, _ = dist.ParseMemcachedSize(text, 1<<20)
	}
	if text := p.Server.Settings["max_item"]; text != "" {
		item, _ = dist.ParseMemcachedSize(text, 1)
	}
	return memory, item
}

// refusePreload says when there is more to be stored than the server can hold: most reads would miss, and storing it would take hours.
func refusePreload(p *profiles.Profile) error {
	if p.Workload.Kind == kindReplay {
		return refuseStored(p)
	}
	if p.Workload.Kind != "kv" {
		return nil
	}
	classes, err := p.Workload.KVClasses()
	if err != nil {
		return usage("%s: workload: %w", p.File(), err)
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		return usage("%s: workload: %w", p.File(), err)
	}
	items, bytes := kv.Footprint()
	memory, _ := sizes(p)
	switch {
	case items > maxPreload:
		return mistake(p, "workload.classes", "workload.classes: %d keys would be stored before each point, at most %d are possible", items, maxPreload)
	case (p.Server.Kind == "memcached" || p.Server.Kind == kindWeb) && bytes > memory:
		return mistake(p, "server.settings.memory",
			"the values of %d keys take %s and server.settings.memory is %s: give it more, or the classes fewer keys or smaller values",
			items, profiles.Size(bytes), profiles.Size(memory))
	}
	return nil
}

// roomier adds to the error of a server that evicted what was stored in it how to give it more memory. Values of fewer bytes than that can be too many:
// items of one size share pages, and have headers.
func roomier(p *profiles.Profile, err error) error {
	switch flags := memcachedFlags(p); {
	case !errors.Is(err, load.ErrEvicted):
		return err
	case p.Server.Kind != "external":
		memory, _ := sizes(p)
		_, bytes, _ := footprint(p)
		return fmt.Errorf("%w; its memory is %s, and the values alone take %s: give it more, such as --set server.settings.memory=%dMiB", err,
			profiles.Size(memory), profiles.Size(bytes), 2*(memory>>20))
	case overHTTP(p.Server.Settings["target"]):
		return fmt.Errorf("%w; raise its memory", err)
	case flags != "":
		return fmt.Errorf("%w; start it with %s", err, flags)
	default:
		return fmt.Errorf("%w; raise its memory, such as with -m 1024", err)
	}
}

// connections returns the flags that let a server of ours take every connection of the load.
func connections(p *profiles.Profile) ([]string, error) {
	need := max(p.Workload.Connections, p.Workload.MaxConnections) + ownConns
	text, given := p.Server.Settings["max_conns"]
	most, _ := strconv.Atoi(text)
	switch {
	case given && most < need:
		return nil, mistake(p, "server.settings.max_conns",
			"server.settings.max_conns: %d is too few for workload.connections and the %d of our own; leave it out, or make it %d", most, ownConns, need)
	case !given && need > refserverConns:
		return []string{"--max-conns", strconv.Itoa(need)}, nil
	}
	return nil, nil
}

// checkEnvironment returns what the settings of a controller are checked in: the numbers of cores and so on do not matter, only that they
// are known where they will be.
func checkEnvironment(p *profiles.Profile) catalog.Env {
	env := environment(p, 1, 0, 1)
	if p.On == groundSim {
		env.Oracle = func(clock.Instant) int { return 1 }
	}
	return env
}

// refuseController says what is wrong with the settings of a controller, and at which of them.
func refuseController(p *profiles.Profile, i int) error {
	c := &p.Controllers[i]
	// Only the check is wanted; the controller itself is made where it runs.
	check := func(settings map[string]string) error {
		_, err := build(&profiles.Controller{Name: c.Name, Settings: settings}, checkEnvironment(p))
		return err
	}
	for _, key := range []string{"bandit", "section_bandit"} {
		if c.Settings[key] == "oracle" && p.On != groundSim {
			return mistake(p, fmt.Sprintf("controllers.%d.settings.%s", i, key),
				"controllers: %s: the bandit oracle is told the best capacity by the model; on the ground %s the server is a process of its own, "+
					"which nobody tells: use --on sim, or another bandit", c.Label(), p.On)
		}
	}
	err := check(c.Settings)
	if err == nil {
		return nil
	}
	path := fmt.Sprintf("controllers.%d.name", i)
	// To blame is the setting without which there would be no such mistake.
	for _, key := range slices.Sorted(maps.Keys(c.Settings)) {
		rest := maps.Clone(c.Settings)
		delete(rest, key)
		if without := check(rest); without == nil || without.Error() != err.Error() {
			path = fmt.Sprintf("controllers.%d.settings.%s", i, key)
			break
		}
	}
	if c.Label() == c.Name { // which the error says
		return mistake(p, path, "%w", err)
	}
	return mistake(p, path, "controllers: %s: %w", c.Label(), err)
}

// refuseTarget says what is wrong with the address of a server that runs already.
func refuseTarget(addr string) error {
	if overHTTP(addr) {
		_, err := httptarget.ParseURL(addr)
		return err
	}
	rest, found := strings.CutPrefix(addr, "memcached://")
	if !found {
		return fmt.Errorf("target %q: write memcached://host:port, memcached:///path.sock or http://host:port/path", addr)
	}
	list := []string{rest}
	if !strings.HasPrefix(rest, "/") { // a path may hold commas
		list = strings.Split(rest, ",")
	}
	for _, one := range list {
		network, address, err := target.ParseAddr("memcached://" + one)
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(address)
		if n, perr := strconv.ParseUint(port, 10, 16); network == "tcp" && (err != nil || perr != nil || n == 0) {
			return fmt.Errorf("target %q: a port is 1 to 65535", "memcached://"+one)
		}
	}
	return nil
}

// mistake is a usage error with its place in the profile.
func mistake(p *profiles.Profile, path, format string, args ...any) error {
	return usageError{p.Mistake(path, "%v", fmt.Errorf(format, args...))}
}
