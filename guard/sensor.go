package guard

import (
	"sync/atomic"

	"spillway/clock"
)

// Sensor tells how many bytes have crossed the memory bus. The size of a memory section is judged by it. What it counts has to be of one kind:
// hardware counters see all traffic of the machine, Accounted what handlers say of themselves.
type Sensor interface {
	// MemBytes returns how many bytes have moved since the sensor began, and when that was so: now if it was found out for this call, earlier
	// if the sensor takes readings at a pace of its own. It must be safe for concurrent use.
	MemBytes(now clock.Instant) (total uint64, at clock.Instant)
}

// Accounted is the Sensor of services without hardware counters: handlers add the bytes that they read and write, as far as those do not
// fit the caches. Work that takes longer than the section's period adds them in portions, or the bandwidth would seem to come in bursts. The zero
// value is ready for use.
type Accounted struct{ total atomic.Uint64 }

// Add says that bytes have just been moved.
func (a *Accounted) Add(bytes uint64) { a.total.Add(bytes) }

// MemBytes implements Sensor.
func (a *Accounted) MemBytes(now clock.Instant) (total uint64, at clock.Instant) {
	return a.total.Load(), now
}
