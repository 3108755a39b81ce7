//go:build linux

package counters

import (
	"errors"
	"time"

	"spillway/clock"
)

// Func is a provider whose bytes somebody else knows: the bus of a modelled machine.
type Func struct {
	Label string // its name, as in membw_source
	What  string // what it measures
	Of    Scope
	Bytes func() (total uint64, known bool) // since some beginning; called by whoever reads the source
}

// Name implements Provider.
func (f Func) Name() string { return f.Label }

// Measures implements Provider.
func (f Func) Measures() string { return f.What }

// Open implements Provider.
func (f Func) Open(m *Machine) (Source, error) {
	if f.Bytes == nil || f.Label == "" {
		return nil, errors.New("counters: a Func needs a label and a function")
	}
	s := &funcSource{machine: m, bytes: f.Bytes, capability: Capability{
		Name: f.Label, Kind: Counted, Scope: f.Of, Directions: "sum", MinPeriod: time.Nanosecond,
	}}
	s.total, s.known = f.Bytes()
	s.last = m.Clock.Now()
	return s, nil
}

type funcSource struct {
	machine    *Machine
	capability Capability
	bytes      func() (uint64, bool)
	total      uint64
	known      bool
	last       clock.Instant
}

// Capability implements Source.
func (s *funcSource) Capability() *Capability { return &s.capability }

// Close implements Source.
func (s *funcSource) Close() error { return nil }

// Read implements Source.
func (s *funcSource) Read(r *Reading) {
	r.begin(s.machine.Clock.Now(), s.last)
	s.last = r.At
	total, known := s.bytes()
	switch {
	case !known || !s.known:
		r.Flags |= Missing
	case total < s.total:
		r.Flags |= Missing | Reset
	default:
		r.Total = float64(total - s.total)
	}
	s.total, s.known = total, known
}
