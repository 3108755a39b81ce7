//go:build linux

package counters

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"spillway/counters/pressure"
)

// Instruments is all that this machine can be measured with.
type Instruments struct {
	Detection *Detection
	// Sources has the chosen one first. Beside it are, where there are any, a second one that counts, read once a second to hold the first against, and
	// the self-probe.
	Sources []Source
	Gauges  []pressure.Gauge
	Absent  []pressure.Absent
}

// Instrument detects a source and opens every gauge. Close closes all of it.
func Instrument(ctx context.Context, m *Machine, c Config) (*Instruments, error) {
	c.Check = true
	d, err := Detect(ctx, m, c)
	if err != nil {
		return nil, err
	}
	in := &Instruments{Detection: d, Sources: []Source{d.Source}}
	if d.Second != nil {
		slow := *d.Second.Capability()
		slow.MinPeriod = max(slow.MinPeriod, checkPeriod)
		in.Sources = append(in.Sources, &seldom{d.Second, slow})
	}
	if d.Source.Capability().Kind != Pressure {
		// Where this fails there is a series less, and everything else is as it was.
		if probe, err := (selfProbeProvider{}).Open(m); err == nil {
			in.Sources = append(in.Sources, probe)
		}
	}
	in.Gauges, in.Absent = pressure.Open(m.Root)
	return in, nil
}

// checkPeriod is how often the second source is read: it must cost next to nothing.
const checkPeriod = time.Second

// seldom is a source that says of itself that it wants to be read less often than it could be.
type seldom struct {
	Source
	capability Capability
}

// Capability implements Source.
func (s *seldom) Capability() *Capability { return &s.capability }

// Table describes what was found, for the header of a trace: what was opened, what could not be and why, the kernel and its settings.
func (in *Instruments) Table(m *Machine) *Table {
	return describe(m, in.Detection, in.Gauges, in.Absent)
}

// Close closes sources and gauges.
func (in *Instruments) Close() error {
	var errs []error
	for _, s := range in.Sources {
		errs = append(errs, s.Close())
	}
	for _, g := range in.Gauges {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// Table describes a machine's providers and gauges, for people and for files.
type Table struct {
	Processor   string          `json:"processor"`
	Hypervisor  bool            `json:"hypervisor"`
	Kernel      string          `json:"kernel"`
	Paranoid    string          `json:"perf_event_paranoid,omitempty"`
	NMIWatchdog string          `json:"nmi_watchdog,omitempty"`
	Chosen      string          `json:"chosen,omitempty"`
	Providers   []TableProvider `json:"providers"`
	Gauges      []TableGauge    `json:"pressure"`
}

// TableProvider is one provider of a table.
type TableProvider struct {
	Name       string   `json:"name"`
	Usable     bool     `json:"usable"`
	Measures   string   `json:"measures"`
	Reason     string   `json:"reason,omitempty"`
	Remedy     string   `json:"remedy,omitempty"`
	Kind       Kind     `json:"kind,omitempty"`
	Scope      Scope    `json:"scope,omitempty"`
	Directions string   `json:"directions,omitempty"`
	Resolution string   `json:"resolution,omitempty"`
	Ratio      *float64 `json:"counter_to_stream,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	Events     []Event  `json:"events,omitempty"`
}

// TableGauge is one column of pressure, or the reason why gauges are absent.
type TableGauge struct {
	Name       string `json:"name"`
	Usable     bool   `json:"usable"`
	Unit       string `json:"unit,omitempty"`
	Resolution string `json:"resolution,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Survey tries every provider and gauge of a machine, and closes them again.
func Survey(ctx context.Context, m *Machine, c Config) (*Table, error) {
	c.All = true
	d, err := Detect(ctx, m, c)
	if d == nil || ctx.Err() != nil {
		return nil, err
	}
	// A machine of which nothing is known has a table too, unless a provider was insisted on.
	if err != nil && c.Force != "" {
		return nil, err
	}
	chosen := d.Chosen
	d.close()
	d.Chosen = chosen
	gauges, absent := pressure.Open(m.Root)
	t := describe(m, d, gauges, absent)
	var errs []error
	for _, g := range gauges {
		errs = append(errs, g.Close())
	}
	return t, errors.Join(errs...)
}

func describe(m *Machine, d *Detection, gauges []pressure.Gauge, absent []pressure.Absent) *Table {
	cpu := m.Root.CPU()
	t := &Table{Processor: cpu.Name, Hypervisor: cpu.Hypervisor, Chosen: d.Chosen}
	t.Kernel, _ = m.Root.Text("/proc/sys/kernel/osrelease")
	t.Paranoid, _ = m.Root.Text("/proc/sys/kernel/perf_event_paranoid")
	t.NMIWatchdog, _ = m.Root.Text("/proc/sys/kernel/nmi_watchdog")
	for i := range d.Candidates {
		c := &d.Candidates[i]
		p := TableProvider{
			Name: c.Name, Usable: c.Usable, Measures: c.Measures, Reason: c.Reason, Remedy: c.Remedy, Kind: c.Kind, Scope: c.Scope,
			Directions: c.Directions, Notes: append(c.Hints, c.Notes...), Events: c.Events,
		}
		if c.MinPeriod >= time.Microsecond {
			p.Resolution = c.MinPeriod.String()
		}
		if !math.IsNaN(c.Ratio) && !math.IsInf(c.Ratio, 0) {
			p.Ratio = &c.Ratio
		}
		t.Providers = append(t.Providers, p)
	}
	for _, g := range gauges {
		for _, c := range g.Columns() {
			t.Gauges = append(t.Gauges, TableGauge{Name: c.Name, Usable: true, Unit: c.Unit, Resolution: g.MinPeriod().String()})
		}
	}
	for _, a := range absent {
		t.Gauges = append(t.Gauges, TableGauge{Name: a.Name, Reason: a.Reason.Error()})
	}
	return t
}

// JSON returns the table for programs.
func (t *Table) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(t, "", "  ")
	return append(b, '\n'), err
}
