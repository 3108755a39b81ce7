//go:build linux

package counters

import (
	"math"
	"strings"
	"time"

	"spillway/clock"
)

// Provider is one way to learn of memory traffic.
type Provider interface {
	Name() string
	// Measures says in a few words what the source gives.
	Measures() string
	// Open starts it on a machine. An error that says what a user can do about it is an *Unusable.
	Open(m *Machine) (Source, error)
}

// Source is an opened provider. It is for one goroutine at a time.
type Source interface {
	Capability() *Capability
	// Read fills r with what happened since the last call. It allocates nothing.
	Read(r *Reading)
	Close() error
}

// Reading is what a source saw between two calls of Read. NaN is unknown: by this source, or for this window.
type Reading struct {
	At   clock.Instant
	Span time.Duration // since the reading before, or since the source was opened

	Read, Write, Total float64 // bytes in Span
	Pressure           float64 // how contended memory is, 0 to 1
	Saturated          bool    // the pressure is so high that more streams would only wait; with hysteresis
	// Sockets has Total by socket, as listed in Capability. It belongs to the source and is valid until the next reading.
	Sockets []float64
	Flags   Flags
}

// Rate returns the bytes per second of the window, NaN where they are not known.
func (r *Reading) Rate() float64 { return perSecond(r.Total, r.Span) }

// perSecond returns amount per second of span.
func perSecond(amount float64, span time.Duration) float64 {
	if span <= 0 {
		return math.NaN()
	}
	return amount / span.Seconds()
}

// begin makes r a reading at an instant, with nothing known, after one at last.
func (r *Reading) begin(at, last clock.Instant) {
	nan := math.NaN()
	*r = Reading{At: at, Span: at.Sub(last), Read: nan, Write: nan, Total: nan, Pressure: nan}
}

// Flags say how far a reading may be believed.
type Flags uint16

// The flags of a reading.
const (
	Missing      Flags = 1 << iota // there is no value
	Partial                        // some of the counters had no value: the real one is larger
	Multiplexed                    // events took turns on too few counters; values are scaled up
	Coarse                         // the window was too short for the turns to even out
	Reset                          // a count began again
	Wrapped                        // a count passed its largest value, which was made good
	Stuck                          // a count stands at its largest value and could go no further
	Estimated                      // not counted by hardware
	Uncalibrated                   // the ratio of counter to stream was not what it should be
	Overcount                      // more than the memory can move: what hit a cache was counted too
)

var flagNames = []string{
	"missing", "partial", "multiplexed", "coarse", "reset", "wrapped", "stuck", "estimated", "uncalibrated", "overcount",
}

// String lists the flags that are set, joined by +.
func (f Flags) String() string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// Kind says what the numbers of a source are.
type Kind string

// The kinds of source.
const (
	Counted  Kind = "counted"  // bytes, by hardware
	Estimate Kind = "estimate" // bytes, by reckoning
	Pressure Kind = "pressure" // no bytes, but how contended memory is
)

// Scope says whose traffic a source sees.
type Scope string

// The scopes of a source.
const (
	ScopeHost    Scope = "host"    // everything on the machine, neighbours of a virtual one included
	ScopeCores   Scope = "cores"   // what processors cause, not devices
	ScopeProcess Scope = "process" // this process
	ScopeModel   Scope = "model"   // a modelled machine
)

// Capability says what an opened source can do.
type Capability struct {
	Name       string
	Kind       Kind
	Scope      Scope
	Directions string        // "read, write", "sum" or ""
	MinPeriod  time.Duration // shorter windows say little or cost too much
	Sockets    []int         // what Reading.Sockets stands for; nil where the source cannot tell
	Events     []Event       // what was opened; for sources on perf
	Notes      []string      // what a reader of the numbers has to know
}

// Event is one counter that was opened.
type Event struct {
	PMU     string  `json:"pmu"`
	CPU     int     `json:"cpu"`
	Name    string  `json:"name"`
	Type    uint32  `json:"type"`
	Config  uint64  `json:"config"`
	Config1 uint64  `json:"config1"`
	Config2 uint64  `json:"config2"`
	Bytes   float64 `json:"bytes_per_count"` // 0: it counts no bytes
}
