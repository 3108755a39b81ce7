//go:build linux

package rocksdb

import "time"

// Progress is how far a Load has come.
type Progress struct {
	Phase       string        // of Load's phases
	Done, Total int64         // bytes of values
	Left        time.Duration // of all phases, as far as can be told; negative while it cannot
}

// The phases of a Load.
const (
	PhaseStore   = "storing"
	PhaseCompact = "compacting"
	PhaseVerify  = "verifying"
)

// Loaded is what became of a Load.
type Loaded struct {
	Items, Bytes int64 // that the store has of the data; bytes of values
	Reused       bool  // it had all of it already
	Repaired     int64 // items that were missing, or were not what they had been
}
