//go:build linux

package harness

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/profiles"
	"spillway/workloads"
)

// AdHoc is a load on a server that runs already, without a profile: what `loadgen drive` does.
type AdHoc struct {
	Target      string
	Rate        string // with k or M
	Duration    time.Duration
	Arrivals    string
	Shape       string // of the rate; empty for constant
	Classes     string // the name of a preset, or a list of classes as a profile has it; empty for the default
	Connections int
	SLO         time.Duration // of every class; 0 leaves those of Classes
	Timeout     time.Duration
	Seed        uint64

	MaxConnections int    // 0 for no more than Connections
	InFlight       int    // on one connection; 0 for the client's own bound
	Senders        int    // threads; 0 for 1
	CatchUp        string // send, or skip:DURATION; empty for send
	Client         string // pipelined or gomemcache; empty for pipelined
	FindCapacity   bool   // search the highest rate that keeps SLO, then measure it for Duration; Rate is empty
}

// driveDrain is how long the replies to a load without a profile are waited for, beyond which the timeout applies.
const driveDrain = 2 * time.Second

// defaultClasses are keys of our own, so that a server that is in use keeps its data: ten thousand values of 100 B, read with mg.
const defaultClasses = "[{name: get, share: 1, key: spillway-, keys: 10000, value: 100B, op: get}]"

// Profile returns the profile that the load amounts to. It is made of text, so that it passes the same checks as any other and the
// manifest shows what was run.
func (a *AdHoc) Profile() (*profiles.Profile, error) {
	if err := refuseTarget(a.Target); err != nil {
		return nil, usageError{err}
	}
	offered := "of_capacity: [1]"
	switch {
	case a.FindCapacity && a.Rate != "":
		return nil, usage("--find-capacity searches the rate; leave --rate out")
	case a.FindCapacity && a.SLO == 0:
		return nil, usage("--find-capacity needs --slo: it searches the highest rate that keeps it")
	case !a.FindCapacity && a.Rate == "":
		return nil, usage("say how much to ask: --rate 20k, or --find-capacity --slo 1ms")
	case !a.FindCapacity:
		if _, err := profiles.ParseRate(a.Rate); err != nil {
			return nil, usage("--rate: %w", err)
		}
		offered = "rates: [" + a.Rate + "]"
	}
	text := fmt.Sprintf("name: drive\ntitle: %q\non: host\n"+
		"server: {kind: external, settings: {target: %q}}\ncontrollers: [{name: none}]\n"+
		"workload: {kind: kv, connections: %d, arrivals: %q%s%s}\nload: {%s}\n"+
		"timeout: %s\ndrain: %s\nwarmup: 0s\nwindow: %s\nrepeats: 1\nseed: %d\n",
		"Load on "+a.Target+" without a profile", a.Target, a.Connections, a.Arrivals, a.sending(), a.classes(), offered,
		dist.FormatDuration(a.Timeout), dist.FormatDuration(min(driveDrain, a.Timeout)), dist.FormatDuration(a.Duration), a.Seed)
	if err := a.flags(); err != nil {
		return nil, usageError{err}
	}
	p, err := profiles.Parse("drive", []byte(text))
	if err != nil {
		return nil, usageError{err}
	}
	if a.SLO == 0 {
		return p, nil
	}
	var set []profiles.Assignment
	for i := range p.Workload.Classes {
		set = append(set, profiles.Assignment{
			Key: fmt.Sprintf("workload.classes.%d.slo", i), Value: dist.FormatDuration(a.SLO), Origin: "--slo",
		})
	}
	if p, err = p.Set(set); err != nil {
		return nil, usageError{err}
	}
	return p, nil
}

// flags judges the flags one by one: the text that they amount to is in no file, so a mistake in it must be said of a flag.
func (a *AdHoc) flags() error {
	p, err := profiles.Parse("drive", []byte("name: drive\nserver: {kind: external}\ncontrollers: [{name: none}]\n"+
		"workload: {kind: kv, classes: "+defaultClasses+"}\nload: {rates: [1]}\n"))
	if err != nil {
		return err
	}
	type flag struct{ name, key, value string }
	list := []flag{
		{"--conns", "workload.connections", strconv.Itoa(a.Connections)},
		{"--duration", "window", dist.FormatDuration(a.Duration)}, {"--timeout", "timeout", dist.FormatDuration(a.Timeout)},
		{"--arrivals", "workload.arrivals", strconv.Quote(a.Arrivals)},
	}
	if key, value, _ := strings.Cut(strings.TrimPrefix(a.classes(), ", "), ": "); a.Classes != "" {
		list = append(list, flag{"--classes", "workload." + key, value})
	}
	for _, f := range list {
		if f.key == "workload.preset" { // it brings its own classes
			if p, err = p.Set([]profiles.Assignment{{Key: "workload.classes", Value: "null"}, {Key: f.key, Value: f.value, Origin: f.name}}); err != nil {
				return err
			}
			continue
		}
		if _, err := p.Set([]profiles.Assignment{{Key: f.key, Value: f.value, Origin: f.name + " " + strings.Trim(f.value, `"`)}}); err != nil {
			return err
		}
	}
	return nil
}

// sending returns the part of the profile that says how requests are sent, as far as it was said.
func (a *AdHoc) sending() (text string) {
	for _, t := range []struct{ key, value string }{{"shape", a.Shape}, {"catch_up", a.CatchUp}, {"client", a.Client}} {
		if t.value != "" {
			text += fmt.Sprintf(", %s: %q", t.key, t.value)
		}
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"max_connections", a.MaxConnections}, {"in_flight", a.InFlight}, {"senders", a.Senders}} {
		if n.value != 0 {
			text += fmt.Sprintf(", %s: %d", n.key, n.value)
		}
	}
	return text
}

// classes returns the part of the profile that says what is asked.
func (a *AdHoc) classes() string {
	switch {
	case a.Classes == "" && overHTTP(a.Target):
		return ", classes: " + httpClasses(a.Target)
	case a.Classes == "":
		return ", classes: " + defaultClasses
	case strings.HasPrefix(strings.TrimSpace(a.Classes), "["):
		return ", classes: " + a.Classes
	default:
		return fmt.Sprintf(", preset: %q", a.Classes)
	}
}

// ClassForms says what --classes takes.
func ClassForms() string {
	return "a preset (" + strings.Join(workloads.Presets(), ", ") + ") or a list as in a profile, " +
		"such as '[{name: a, share: 1, keys: 1000, value: 100B}]'"
}

// ArrivalForms says what --arrivals takes.
func ArrivalForms() string {
	return arrival.Forms + ", or " + profiles.ArrivalsClosed + " (for comparison)"
}

// ShapeForms says what --shape takes.
func ShapeForms() string { return arrival.ShapeForms }
