//go:build linux

package harness

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/profiles"
	"spillway/report"
)

// environment returns what a controller may know of the place where it runs, as far as the profile says it.
func environment(p *profiles.Profile, cores int, slo time.Duration, seed uint64) catalog.Env {
	env := catalog.Env{Cores: cores, SLO: cmp.Or(slo, tightest(p)), Seed: seed}
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		class := catalog.Class{Name: c.Name, Priority: uint8(c.Priority), Limit: c.SLO.Limit}
		for _, name := range slices.Sorted(maps.Keys(c.SLO.Percentiles)) {
			class.SLO = append(class.SLO, catalog.Objective{Percentile: percentileOf(name) / 100, Limit: c.SLO.Percentiles[name]})
		}
		env.Classes = append(env.Classes, class)
	}
	return env
}

// build makes the stack of a controller of a profile.
func build(c *profiles.Controller, env catalog.Env) (control.Stack, error) {
	settings, err := catalog.ParseSettings(settingList(c.Settings))
	if err != nil {
		return control.Stack{}, err
	}
	return catalog.New(c.Name, settings, env)
}

// settingBusiness is how many business priorities there are, which a controller that goes by them takes from the classes where it is not set.
const settingBusiness = "business"

// withBusiness returns the settings of a controller for a server that does not know the classes: what would follow from them is set.
func withBusiness(c *profiles.Controller, p *profiles.Profile) map[string]string {
	most := 0
	for i := range p.Workload.Classes {
		most = max(most, p.Workload.Classes[i].Priority)
	}
	e, _ := catalog.Describe(c.Name)
	takes := slices.ContainsFunc(e.Settings, func(s catalog.Setting) bool { return s.Name == settingBusiness })
	if _, given := c.Settings[settingBusiness]; given || !takes || most == 0 {
		return c.Settings
	}
	settings := maps.Clone(c.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings[settingBusiness] = strconv.Itoa(most + 1)
	return settings
}

// replicaSeed returns the seed of what a controller of a replica draws. The first has that of the point.
func replicaSeed(seed uint64, replica int) uint64 {
	if replica == 0 {
		return seed
	}
	return dist.Mix(dist.Mix(seed) ^ uint64(replica))
}

// halves keeps the clients' halves of a point, to look at what they have to plot. Senders make theirs in goroutines of their own.
type halves struct {
	mu struct {
		sync.Mutex
		list []*control.Outbox
	}
}

// collect returns a maker of clients' halves whose every one h keeps; nil for nil.
func (h *halves) collect(client func(*rand.Rand) *control.Outbox) func(*rand.Rand) *control.Outbox {
	if client == nil {
		return nil
	}
	return func(rng *rand.Rand) *control.Outbox {
		o := client(rng)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.list = append(h.mu.list, o)
		return o
	}
}

// converged returns the share of clients that have found their place; it is unknown where they do not say. It must not be called while
// they are at work.
func (h *halves) converged() report.Value {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum, n := 0.0, 0
	for _, o := range h.mu.list {
		m, ok := o.Throttle().(control.Meter)
		if !ok {
			break
		}
		for name, v := range m.Meters() {
			if name == meterConverged {
				sum += v
				n++
			}
		}
	}
	if n == 0 {
		return report.Value{}
	}
	return report.Known(sum / float64(n))
}

// meterConverged is the meter by which a client's half says whether it has found its place, 1 or 0.
//
// leastConverged is the share of clients for which that must hold; below it the result says more about the beginning than about the control.
// A law that climbs and falls by turns is never seen on its even part by all clients at once, so it is no more than half of them. Clients that
// are still climbing do not matter where they hold nothing back: mostRefused is the share of all requests that counts as nothing.
const (
	meterConverged = "converged"
	leastConverged = 0.5
	mostRefused    = 0.01
)

// convergedAtEnd returns the mean share of converged clients over the second half of the window.
func convergedAtEnd(samples []report.Sample, window time.Duration) report.Value {
	var late []report.Sample
	for i := range samples {
		if samples[i].TimeUS >= micros(window)/2 {
			late = append(late, samples[i])
		}
	}
	return meanOf(late, ofClients(meterConverged))
}

// ofClients returns what a trace calls a meter of the clients.
func ofClients(name string) string {
	if strings.HasPrefix(name, "client_") {
		return name
	}
	return "client_" + name
}

// limitsMemory reports whether a controller of a profile has a memory section. One that cannot be built has been refused.
func limitsMemory(c *profiles.Controller, env catalog.Env) bool {
	s, err := build(c, env)
	return err == nil && s.Memory != nil
}
