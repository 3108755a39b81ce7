package sim

import (
	"iter"

	"spillway/clock"
	"spillway/control"
	"spillway/machine/station"
)

// Sample is what sensors show at one instant. It is only valid during the call that it is given to.
type Sample struct {
	Now     clock.Instant
	Station *station.Station // the first server

	world *world
}

// Stations yields all servers.
func (s *Sample) Stations() iter.Seq[*station.Station] {
	return func(yield func(*station.Station) bool) {
		for i := range s.world.servers {
			if !yield(s.world.servers[i].station) {
				return
			}
		}
	}
}

// Waiting returns how many requests wait at their clients.
func (s *Sample) Waiting() int { return int(s.world.held.n) }

// ClientMeters yields what clients show of their own control, such as the credits that they hold or the rate at which they may send: the mean
// over those that have sent so far. It looks at every client, so it takes a while with many of them.
func (s *Sample) ClientMeters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		var names []string
		var sums []float64
		n := 0
		for _, box := range s.world.boxes {
			if box == nil {
				continue
			}
			meter, ok := box.Throttle().(control.Meter)
			if !ok {
				return
			}
			k := 0
			for name, v := range meter.Meters() {
				if n == 0 {
					names, sums = append(names, name), append(sums, 0)
				}
				sums[k] += v
				k++
			}
			n++
		}
		for i, name := range names {
			if !yield(name, sums[i]/float64(n)) {
				return
			}
		}
	}
}
