//go:build linux

package harness

import (
	"fmt"
	"strings"
	"time"

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
	Classes     string // the name of a preset, or a list of classes as a profile has it; empty for the default
	Connections int
	SLO         time.Duration // of every class; 0 leaves those of Classes
	Timeout     time.Duration
	Seed        uint64
}

// driveDrain is how long the replies to a load without a profile are waited for, beyond which the timeout applies.
const driveDrain = 2 * time.Second

// defaultClasses are keys of our own, so that a server that is in use keeps its data: ten thousand values of 100 B, read with mg.
const defaultClasses = "[{name: get, share: 1, key: spillway-, keys: 10000, value: 100B, op: get}]"

// Profile returns the profile that the load amounts to. It is made of text, so that it passes the same checks as any other and the
// manifest shows what was run.
func (a *AdHoc) Profile() (*profiles.Profile, error) {
	if strings.HasPrefix(a.Target, "http://") || strings.HasPrefix(a.Target, "https://") {
		return nil, usage("target %s: this version cannot drive HTTP servers yet; write memcached://host:port or memcached:///path.sock", a.Target)
	}
	if !strings.HasPrefix(a.Target, "memcached://") {
		return nil, usage("target %q: write memcached://host:port or memcached:///path.sock", a.Target)
	}
	if _, err := profiles.ParseRate(a.Rate); err != nil {
		return nil, usage("--rate: %w", err)
	}
	text := fmt.Sprintf("name: drive\ntitle: %q\non: host\n"+
		"server: {kind: external, settings: {target: %q}}\ncontrollers: [{name: none}]\n"+
		"workload: {kind: kv, connections: %d, arrivals: %q%s}\nload: {rates: [%s]}\n"+
		"timeout: %s\ndrain: %s\nwarmup: 0s\nwindow: %s\nrepeats: 1\nseed: %d\n",
		"Load on "+a.Target+" without a profile", a.Target, a.Connections, a.Arrivals, a.classes(), a.Rate,
		dist.FormatDuration(a.Timeout), dist.FormatDuration(min(driveDrain, a.Timeout)), dist.FormatDuration(a.Duration), a.Seed)
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

// classes returns the part of the profile that says what is asked.
func (a *AdHoc) classes() string {
	switch {
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
