package machine

import "time"

// StepKind is what one step of a request's work occupies.
type StepKind uint8

// The kinds of step. All but Delay are done on a core.
const (
	Compute StepKind = iota // hold a core for Duration
	Stream                  // hold a core while Bytes cross the bus, no faster than Rate
	Lock                    // wait for lock number Index without a core, then hold it and a core for Duration
	Delay                   // hold nothing for Duration
	Memory                  // hold Bytes of RAM from here to the end of the request
	Enter                   // ask the driver to enter section number Index
	Leave                   // tell the driver that section number Index is left
)

// Step is one step of a request's work, with its amounts drawn.
type Step struct {
	Kind     StepKind
	Index    uint16        // of Lock, Enter, Leave: which one
	Duration time.Duration // of Compute, Lock, Delay
	Bytes    int64         // of Stream, Memory
	Rate     float64       // of Stream: bytes per second that this access pattern reaches alone; 0 for the bus's per-core rate
}
