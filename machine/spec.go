package machine

import (
	"errors"
	"fmt"
	"time"
)

// DefaultNetwork is the one-way delay between a client and the server where a machine file gives none: about what a rack's switch and
// two network cards cost.
const DefaultNetwork = 5 * time.Microsecond

// Spec describes a machine: DESIGN §2's file, as numbers.
type Spec struct {
	Cores   int           // at least 1
	Bus     Bus           // the zero value is a machine without a memory bus: stream steps are refused
	Network time.Duration // one-way delay between client and server
	RAM     int64         // bytes; beyond it the server dies; 0 for no limit
}

// Bus is a memory bus shared by the cores.
type Bus struct {
	Total   float64 // bytes per second that all streams together can move
	PerCore float64 // bytes per second that one stream can move
	Decay   float64 // share of Total lost per stream above saturation (Total/PerCore streams), 0 to 1
}

// Saturation returns how many streams fill the bus, at full rate each.
func (b Bus) Saturation() float64 { return b.Total / b.PerCore }

// Effective returns the bytes per second that n streams together can move at most. With a Decay it falls with every stream above
// saturation, but never below what one stream alone would get, since a bus that stands still would be no model of anything.
func (b Bus) Effective(n int) float64 {
	excess := float64(n) - b.Saturation()
	if b.Decay == 0 || excess <= 0 {
		return b.Total
	}
	return max(b.Total*(1-b.Decay*excess), min(b.PerCore, b.Total))
}

// Check returns what is wrong with s, nil when nothing is.
func (s Spec) Check() error {
	var errs []error
	if s.Cores < 1 {
		errs = append(errs, fmt.Errorf("cores must be at least 1, not %d", s.Cores))
	}
	if s.Network < 0 {
		errs = append(errs, fmt.Errorf("network must not be negative: %v", s.Network))
	}
	if s.RAM < 0 {
		errs = append(errs, fmt.Errorf("ram must not be negative: %d", s.RAM))
	}
	b := s.Bus
	switch {
	case b == Bus{}:
	case !(b.Total > 0) || !(b.PerCore > 0):
		errs = append(errs, fmt.Errorf("a bus needs total and per_core above 0, not %g and %g", b.Total, b.PerCore))
	case b.Decay < 0 || b.Decay > 1:
		errs = append(errs, fmt.Errorf("bus decay is a share from 0 to 1, not %g", b.Decay))
	}
	return errors.Join(errs...)
}
