//go:build linux

package synthetic

import (
	"time"

	"spillway/internal/memproto"
	"spillway/machine"
)

// Site is where a goroutine does the work of a request, and what it has to wait for there.
type Site interface {
	// Core waits for a core and calls f on it.
	Core(f func()) error
	// Wait lets time pass without a core.
	Wait(d time.Duration) error
	// Enter and Lock wait for a place in section n, or for lock n. What they return gives it back.
	Enter(n int) (leave func(), err error)
	Lock(n int) (unlock func(), err error)
}

// Run does the work that key spells on the goroutine that calls it, one step after the other, for servers that have a goroutine for each request.
// The first error of the site ends it; what it holds of the Host's memory is given back in any case. A key that spells no work that this
// computer does is a *Malformed.
func (h *Host) Run(key []byte, site Site) error {
	steps, err := h.parse(nil, &memproto.Command{Verb: memproto.MetaGet, Key: key})
	if err != nil {
		h.wrong.Add(1)
		return &Malformed{err}
	}
	j := h.jobs.Get().(*job)
	defer h.end(j)
	var inside [machine.MaxIndex + 1]func() // what leaves the sections that it is in
	defer func() {
		for _, leave := range inside {
			if leave != nil {
				leave()
			}
		}
	}()
	for i := range steps {
		if err := h.run(j, &steps[i], &inside, site); err != nil {
			return err
		}
	}
	h.gets.Add(1)
	return nil
}

// run does one step.
func (h *Host) run(j *job, s *machine.Step, inside *[machine.MaxIndex + 1]func(), site Site) error {
	n := int(s.Index)
	switch s.Kind {
	case machine.Compute:
		return site.Core(func() { h.spin.run(s.Duration) })
	case machine.Stream:
		return site.Core(func() { h.stream.move(s.Bytes, s.Rate, &h.moved) })
	case machine.Lock:
		unlock, err := site.Lock(n)
		if err != nil {
			return err
		}
		defer unlock()
		return site.Core(func() { h.spin.run(s.Duration) })
	case machine.Delay:
		return site.Wait(s.Duration)
	case machine.Memory:
		return h.hold(j, s.Bytes)
	case machine.Enter:
		if inside[n] != nil {
			return nil
		}
		leave, err := site.Enter(n)
		inside[n] = leave
		return err
	case machine.Leave:
		if inside[n] != nil {
			inside[n]()
			inside[n] = nil
		}
	}
	return nil
}

// Malformed is the error of a key that spells no work, or work that this computer does not do.
type Malformed struct{ err error }

func (e *Malformed) Error() string { return e.err.Error() }

// Unwrap returns what is wrong with it.
func (e *Malformed) Unwrap() error { return e.err }
