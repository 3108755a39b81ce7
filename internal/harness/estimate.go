//go:build linux

package harness

import (
	"errors"

	"spillway/profiles"
)

// Arrivals returns how many requests a run of p on sim simulates, those of the warm-up included, and in how many points; no requests for an
// allocation, in which they are a fluid.
func Arrivals(p *profiles.Profile) (requests float64, count int, err error) {
	for _, run := range p.Runs() {
		if err := refuse(run); err != nil {
			return 0, 0, err
		}
	}
	count = len(labels(p))
	if isAllocation(p) {
		return 0, count, nil
	}
	e := experiment{config: Config{Profile: p}}
	if err := e.prepare(); err != nil {
		return 0, 0, err
	}
	for i, m := range e.models {
		for _, pt := range points(m.profile, i, m.capacity.RPS) {
			t := pt.spans(m.profile)
			requests += pt.Rate * (t.warmUp + t.window).Seconds()
		}
	}
	return requests, count, errors.Join(e.runner.Close())
}
