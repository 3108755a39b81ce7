//go:build linux

package harness

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/control"
	"spillway/internal/dist"
	"spillway/internal/graphdb"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/profiles"
	"spillway/report"
	"spillway/sim"
	"spillway/workloads"
)

// modelled is what the grounds sim and model have in common: a machine that is a description, and work whose costs are known. Capacity
// and optimum then follow by arithmetic.
type modelled struct {
	profile  *profiles.Profile
	spec     machine.Spec
	work     profiles.SyntheticWork    // of a synthetic workload
	table    map[string]workloads.Cost // of a key-value workload
	graph    *graphdb.Graph            // that queries are about
	frame    *workloads.FrameCosts     // of operations on a data frame
	demands  []machine.Demand          // by class, of one request; Offered is not set
	shares   []float64                 // of the arrivals, by class
	capacity report.Capacity
	settings serverSettings
}

// serverSettings are the keys of server.settings that say something to a modelled server.
type serverSettings struct {
	slots, queue  int // 0 for no limit
	deadline, slo time.Duration
	unused        []string // settings of the real server that the model has no counterpart of
}

func newModelled(p *profiles.Profile) (*modelled, error) {
	p, err := besideWork(p)
	if err != nil {
		return nil, err
	}
	m := &modelled{profile: p}
	if m.spec, err = modelledMachine(p); err != nil {
		return nil, err
	}
	if m.settings, err = modelledSettings(p); err != nil {
		return nil, err
	}
	if err := m.costs(); err != nil {
		return nil, err
	}
	m.capacity = m.findCapacity()
	if len(p.Load.OfCapacity) > 0 && math.IsInf(m.capacity.RPS, 1) {
		return nil, usage("%s: load.of_capacity: the classes ask for nothing that this machine could run out of; give rates", p.File())
	}
	return m, nil
}

func modelledMachine(p *profiles.Profile) (machine.Spec, error) {
	spec, ok := p.Machine.Spec()
	if !ok {
		return spec, usage("%s: machine: the ground %s needs a modelled machine: one of %s, or a file (machine: NAME in the profile, or --set machine=NAME)",
			p.File(), p.On, strings.Join(profiles.MachineNames(), ", "))
	}
	if err := spec.Check(); err != nil {
		return spec, usage("%s: machine: %w", p.File(), err)
	}
	return spec, nil
}

// modelledSettings reads server.settings. Keys of the real server that mean nothing to the model are listed rather than refused, so that one
// profile runs on every ground.
func modelledSettings(p *profiles.Profile) (s serverSettings, err error) {
	known := settingKeys(p.Server.Kind)
	for _, key := range slices.Sorted(maps.Keys(p.Server.Settings)) {
		text := p.Server.Settings[key]
		switch key {
		case "slots":
			s.slots, err = strconv.Atoi(text)
			if err == nil && s.slots < -1 {
				err = fmt.Errorf("is at least -1")
			}
			s.slots = max(s.slots, 0) // refserver's -1 is no limit too
		case "queue":
			s.queue, err = strconv.Atoi(text)
			if err == nil && s.queue < 0 {
				err = fmt.Errorf("must not be negative")
			}
		case "deadline":
			s.deadline, err = dist.ParseDuration(text)
		case "slo":
			s.slo, err = dist.ParseDuration(text)
		case settingCosts: // read where it is needed
			if p.Server.Kind == kindMailbox {
				return s, unknownSetting(p, key)
			}
		default:
			if !slices.Contains(known, key) {
				return s, unknownSetting(p, key)
			}
			var boxes workloads.MailboxConfig
			if ours, _ := describesMailboxes(&boxes, key, text); ours {
				continue // read where it is needed
			}
			var source frameSource
			if ours, _ := describesFrame(&source, key, text); ours {
				continue
			}
			var shape graphdb.Shape
			if ours, _ := describesGraph(&shape, key, text); ours {
				continue
			}
			// On model there is a real server too, to which they say what they always do.
			if p.On == groundSim || ofThisComputer(key) {
				s.unused = append(s.unused, key)
			}
		}
		if err != nil {
			return s, usage("%s: server.settings.%s: %q: %w", p.File(), key, text, err)
		}
	}
	return s, nil
}

// costs finds out what requests cost: by what the workload says itself, or by a cost table.
func (m *modelled) costs() (err error) {
	p := m.profile
	switch p.Workload.Kind {
	case "synthetic":
		if m.work, err = p.Workload.Synthetic(); err != nil {
			return usage("%s: workload: %w", p.File(), err)
		}
		w, err := workloads.NewSynthetic(m.work.Classes)
		if err != nil {
			return usage("%s: workload: %w", p.File(), err)
		}
		m.demands, m.shares = w.Mean(m.spec.Bus)
	case kindMailbox:
		w, err := mailboxLoad(p)
		if err != nil {
			return usage("%s: workload: %w", p.File(), err)
		}
		m.demands, m.shares = w.Mean(m.spec.Bus)
	case kindGraph:
		if p.Server.Settings[settingCosts] != "" {
			return unknownSetting(p, settingCosts)
		}
		if m.graph, err = graphOf(p); err != nil {
			return err
		}
		if m.demands, m.shares, err = meanCosts(m.graph, p, m.spec.Bus); err != nil {
			return usage("%s: workload: %w", p.File(), err)
		}
	case kindDataFrame:
		rows, err := frameRows(p)
		if err != nil {
			return err
		}
		if m.frame, err = frameCosts(p, rows); err != nil {
			return err
		}
		m.demands, m.shares = m.frame.Mean(m.spec.Bus)
	case "kv", kindReplay:
		t, err := p.CostsFor()
		if err != nil {
			return usage("%s: the ground %s must know what requests cost: %w", p.File(), p.On, err)
		}
		m.table = t.Table()
		if p.Workload.Kind == kindReplay {
			_, c, err := m.replayCosts()
			if err != nil {
				return err
			}
			m.demands, m.shares = c.Mean(m.spec.Bus)
			break
		}
		kv, err := m.keyValue()
		if err != nil {
			return err
		}
		c, err := workloads.NewCosts(kv, m.table)
		if err != nil {
			return usage("%s: server.settings.costs: %w", p.File(), err)
		}
		m.demands, m.shares = c.Mean(m.spec.Bus)
	}
	if m.spec.Bus.Total == 0 {
		for i := range m.demands {
			if m.demands[i].Bytes > 0 {
				return usage("%s: machine: class %s moves bytes over a memory bus, and this machine has none; give it one (machine.bus)",
					p.File(), p.Workload.Classes[i].Name)
			}
		}
	}
	return nil
}

// keyValue returns a key-value workload that does not produce values.
func (m *modelled) keyValue() (*workloads.KV, error) {
	classes, err := m.profile.Workload.KVClasses()
	if err != nil {
		return nil, err
	}
	return workloads.NewKV(classes)
}

// workload returns what is asked in a run whose window begins after warmUp, and what that costs. Workloads have state, so each point has
// its own.
func (m *modelled) workload(warmUp time.Duration) (workloads.Workload, sim.Coster, error) {
	w, costs, err := m.constant()
	if err != nil {
		return nil, nil, err
	}
	w, err = vary(w, m.profile, warmUp)
	return w, costs, err
}

// constant returns what is asked while shares do not change.
func (m *modelled) constant() (workloads.Workload, sim.Coster, error) {
	if m.profile.Workload.Kind == "synthetic" {
		w, err := workloads.NewSynthetic(m.work.Classes)
		return w, sim.OwnSteps{}, err
	}
	if m.profile.Workload.Kind == kindMailbox {
		w, err := mailboxLoad(m.profile)
		return w, sim.OwnSteps{}, err
	}
	if m.profile.Workload.Kind == kindGraph {
		w, err := graphLoad(m.profile, measure(m.graph))
		return w, newGraphCosts(m.graph), err
	}
	if m.profile.Workload.Kind == kindDataFrame {
		w, err := frameLoad(m.profile, 0)
		return w, m.frame, err
	}
	if m.profile.Workload.Kind == kindReplay {
		return m.replayCosts()
	}
	kv, err := m.keyValue()
	if err != nil {
		return nil, nil, err
	}
	kv.WithoutValues()
	costs, err := workloads.NewCosts(kv, m.table)
	return kv, costs, err
}

// station returns the modelled server under a controller.
func (m *modelled) station(s control.Stack) station.Config {
	return station.Config{
		Controller: s.Controller,
		Gate:       control.GateConfig{Slots: m.settings.slots, Queue: m.settings.queue},
		Machine:    m.spec, Locks: len(m.work.Locks),
		Sections: station.Sections(s, max(len(m.work.Sections), 1)), LockQueues: station.LockQueues(s, len(m.work.Locks)),
	}
}

// replicas returns how many servers there are.
func (m *modelled) replicas() int { return max(m.profile.Server.Replicas, 1) }

// machines returns the machines of all replicas as one, which the requests are spread over as well as can be.
func (m *modelled) machines() machine.Spec {
	spec, n := m.spec, m.replicas()
	spec.Cores *= n
	spec.Bus.Total *= float64(n)
	spec.RAM *= int64(n)
	return spec
}

// offered returns the demands of the classes at a rate of all, on all replicas.
func (m *modelled) offered(rate float64, shares []float64) []machine.Demand {
	demands := slices.Clone(m.demands)
	for i := range demands {
		demands[i].Offered = rate * shares[i]
		demands[i].Locks = slices.Clone(demands[i].Locks)
		for l := range demands[i].Locks {
			demands[i].Locks[l] /= float64(m.replicas()) // each has its own
		}
	}
	return demands
}

// findCapacity returns the rate at which the first resource is full with the classes' own shares, and which one that is.
func (m *modelled) findCapacity() report.Capacity {
	demands, all := m.offered(1, m.shares), m.machines()
	c := report.Capacity{Analytic: true, RPS: machine.Headroom(all, demands)}
	fullest := 0.0
	fill := func(name string, limit float64, use func(*machine.Demand) float64) {
		sum := 0.0
		for i := range demands {
			sum += use(&demands[i]) * demands[i].Offered
		}
		if limit > 0 && sum/limit > fullest {
			fullest, c.Bottleneck = sum/limit, name
		}
	}
	fill("cores", float64(all.Cores), func(d *machine.Demand) float64 { return d.Core.Seconds() })
	fill("bus", all.Bus.Total, func(d *machine.Demand) float64 { return d.Bytes })
	for l, name := range m.work.Locks {
		fill("lock "+name, 1, func(d *machine.Demand) float64 {
			if l < len(d.Locks) {
				return d.Locks[l]
			}
			return 0
		})
	}
	return c
}

// facts describes the modelled machine for the manifest.
func (m *modelled) facts() *report.ModelledMachine {
	d := m.profile.Machine
	f := &report.ModelledMachine{Name: d.Name, Figures: []report.Figure{{Name: "cores", Value: strconv.Itoa(d.Cores), Provenance: d.Origin("cores")}}}
	add := func(name, value string) {
		f.Figures = append(f.Figures, report.Figure{Name: name, Value: value, Provenance: d.Origin(name), Spread: known(d.Spread, name)})
	}
	if d.Bus != nil {
		add("bus.total", d.Bus.Total.String()+"/s")
		add("bus.per_core", d.Bus.PerCore.String()+"/s")
		if d.Bus.Decay > 0 {
			add("bus.decay", strconv.FormatFloat(d.Bus.Decay, 'g', -1, 64))
		}
	}
	add("network", dist.FormatDuration(d.Network))
	if d.RAM > 0 {
		add("ram", d.RAM.String())
	}
	return f
}
