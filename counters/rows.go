//go:build linux

package counters

import (
	"fmt"
	"slices"
	"strings"

	"spillway/counters/perf"
	"spillway/counters/sysfs"
)

func hexTerms(event int, umask string) string { return fmt.Sprintf("event=%#x,umask=%s", event, umask) }

// planned is what one PMU is to count on one CPU: attr and event of each want, those of the pressure last.
type planned struct {
	row    *row
	pmu    *sysfs.PMU
	cpu    int
	wants  []want
	attrs  []perf.Attr
	events []Event
}

// fits reports whether r is how p counts on this processor.
func (r *row) fits(p *sysfs.PMU, cpu sysfs.CPU) bool {
	switch {
	case r.vendor != "" && r.vendor != cpu.Vendor,
		r.family != nil && !slices.Contains(r.family, cpu.Family),
		r.models != nil && !slices.Contains(r.models, cpu.Model),
		r.models != nil && cpu.Vendor == intel && cpu.Family != 6,
		r.format != "" && !p.HasFormat("event", r.format):
		return false
	}
	if r.alias != "" {
		_, _, _, ok := p.Event(r.alias)
		return ok
	}
	return true
}

// plan finds the PMUs of a provider and encodes what to count on them. It opens nothing.
func (p *perfProvider) plan(m *Machine) ([]planned, error) {
	cpu := m.Root.CPU()
	if p.vendors != nil && cpu.Vendor != "" && !slices.Contains(p.vendors, cpu.Vendor) {
		return nil, &Unusable{Reason: fmt.Sprintf("made for %s, and this processor is %s", strings.Join(p.vendors, ", "), cpu.Vendor)}
	}
	var plans []planned
	unknown := ""
	for _, name := range m.Root.PMUs() {
		if !slices.ContainsFunc(p.rows, func(r row) bool { return sysfs.Numbered(r.pmu, name) }) {
			continue
		}
		pmu, err := m.Root.PMU(name)
		if err != nil {
			return nil, &Unusable{Reason: fmt.Sprintf("%s: %v", name, err), Remedy: "send in what `loadgen counters selftest` writes", Err: err}
		}
		at := slices.IndexFunc(p.rows, func(r row) bool { return sysfs.Numbered(r.pmu, name) && r.fits(pmu, cpu) })
		if at < 0 {
			unknown = name
			continue
		}
		list, err := planPMU(m, &p.rows[at], pmu)
		if err != nil {
			return nil, &Unusable{Reason: err.Error(), Remedy: "send in what `loadgen counters selftest` writes", Err: err}
		}
		plans = append(plans, list...)
	}
	switch {
	case len(plans) > 0:
		return plans, nil
	case unknown != "":
		return nil, &Unusable{
			Reason: fmt.Sprintf("there is %s, but no events of it are known for this processor (%s, family %d, model %#x)", unknown, cpu.Vendor, cpu.Family, cpu.Model),
			Remedy: "send in what `loadgen counters selftest` writes",
		}
	}
	return nil, p.nowhere(cpu)
}

// nowhere says that no PMU of the provider is there.
func (p *perfProvider) nowhere(cpu sysfs.CPU) *Unusable {
	u := &Unusable{Reason: "no PMU " + p.rows[0].pmu, Remedy: p.absent}
	if cpu.Hypervisor {
		u.Remedy = remedyVM
	}
	return u
}

// planPMU encodes the wants of a row for each CPU that the PMU counts on.
func planPMU(m *Machine, r *row, pmu *sysfs.PMU) ([]planned, error) {
	cpus := pmu.CPUs
	if r.hwCache && cpus == nil {
		cpus = m.Root.CPUs()
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("%s: the kernel does not say on which CPU to count", pmu.Name)
	}
	var wants []want
	var attrs []perf.Attr
	var events []Event
	for i, w := range slices.Concat(r.wants, r.pressure) {
		attr, bytes, err := encode(r, pmu, w)
		if err != nil {
			if i >= len(r.wants) {
				continue // bytes without a pressure are welcome too
			}
			return nil, err
		}
		wants, attrs = append(wants, w), append(attrs, attr)
		name := w.name
		if name == "" {
			name = w.terms
		}
		events = append(events, Event{
			PMU: pmu.Name, Name: name, Type: attr.Type, Config: attr.Config, Config1: attr.Config1, Config2: attr.Config2, Bytes: bytes,
		})
	}
	var plans []planned
	for _, cpu := range cpus {
		p := planned{row: r, pmu: pmu, cpu: cpu, wants: wants, attrs: slices.Clone(attrs), events: slices.Clone(events)}
		for i := range p.attrs {
			p.attrs[i].CPU, p.events[i].CPU = cpu, cpu
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// encode returns the event that w is on a PMU, and the bytes of one count.
func encode(r *row, pmu *sysfs.PMU, w want) (perf.Attr, float64, error) {
	terms, bytes := w.terms, w.bytes
	if w.name != "" {
		if t, scale, unit, ok := pmu.Event(w.name); ok {
			terms = t
			if b, known := sysfs.UnitBytes(unit); known && w.bytes > 0 {
				bytes = scale * b
			}
		}
	}
	if terms == "" {
		return perf.Attr{}, 0, fmt.Errorf("%s: sysfs has no event %s", pmu.Name, w.name)
	}
	c, err := pmu.Encode(terms)
	if err != nil {
		return perf.Attr{}, 0, err
	}
	a := perf.Attr{Type: pmu.Type, Config: c.Config, Config1: c.Config1, Config2: c.Config2}
	if r.hwCache {
		a.Type = perf.TypeHWCache
		// On a hybrid processor the upper half says which kind of core is meant.
		if pmu.Name == "cpu_core" || pmu.Name == "cpu_atom" {
			a.Config |= uint64(pmu.Type) << 32
		}
	}
	return a, bytes, nil
}
