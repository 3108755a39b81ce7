package controltest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/control"
)

// sections are the memory section and the lock of the controllers under test, and who is in them.
type sections struct {
	memory  *section // nil when there is none
	lock    *section
	budget  time.Duration // of requests that have none of their own
	bus     bus
	sampled control.Signals // of the bus: the sensor's last reading
}

type section struct {
	control.Section
	mode   control.Mode
	parked map[uint64]bool
	inside map[uint64]bool
}

func newSection(s control.Section, m control.Mode) *section {
	return &section{Section: s, mode: m, parked: make(map[uint64]bool), inside: make(map[uint64]bool)}
}

// adopt takes over the sections of s, and its budget.
func (s *sections) adopt(stack *control.Stack) {
	if stack.Memory != nil {
		s.memory = newSection(stack.Memory, stack.Mode)
	}
	if stack.NewLock != nil {
		s.lock = newSection(stack.NewLock(), control.WaitWithinBudget)
	}
	s.budget = max(s.budget, stack.Budget)
}

// section carries out an event at a section; ours is false when verb is none.
func (w *world) section(verb string, id uint64, args []string) (ours bool, err error) {
	s := w.sections.memory
	if verb == "lock" || verb == "unlock" {
		s = w.sections.lock
	}
	switch verb {
	case "enter", "lock", "leave", "unlock":
	case "withdraw":
		for _, s := range []*section{w.sections.memory, w.sections.lock} {
			if s != nil && s.parked[id] {
				return true, w.withdrawParked(s, id)
			}
		}
		return false, nil
	default:
		return false, nil
	}
	what := fmt.Sprintf("%s %d", verb, id)
	served, ok := w.inService[id]
	switch {
	case s == nil:
		return true, errors.New("the controllers have no such section")
	case !ok:
		return true, errors.New("it is not in service")
	case verb == "enter" || verb == "lock":
		return true, w.enter(s, what, served.request, args)
	case !s.inside[id]:
		return true, errors.New("it is not in the section")
	case len(args) > 0:
		return true, fmt.Errorf("unknown %q", args)
	}
	delete(s.inside, id)
	w.print(what, w.resumed(s, s.Leave(w.now, &served.request, nil)))
	return true, nil
}

// enter lets a request ask for its place.
func (w *world) enter(s *section, what string, r control.Request, args []string) error {
	mode := s.mode
	for _, arg := range args {
		switch arg {
		case "try":
			mode = control.Try
		case "wait-if-uncongested":
			mode = control.WaitWithinBudget
		case "wait":
			mode = control.WaitMode
		default:
			return fmt.Errorf("unknown %q", arg)
		}
	}
	if s.inside[r.ID] || s.parked[r.ID] {
		return errors.New("it is in the section, or waits for it")
	}
	switch d := s.Enter(w.now, &r, mode); d.Verdict {
	case control.Admit:
		s.inside[r.ID] = true
		fmt.Fprintf(&w.log, "%v %s: in\n", w.now, what)
	case control.Wait:
		s.parked[r.ID] = true
		fmt.Fprintf(&w.log, "%v %s: wait\n", w.now, what)
	case control.Reject:
		w.print(what, []control.Action{{Kind: control.Refuse, Reason: d.Reason, Request: r}})
	}
	return nil
}

func (w *world) withdrawParked(s *section, id uint64) error {
	from, ok := s.Section.(control.Withdrawer)
	if !ok {
		return errors.New("nobody can be withdrawn from this section")
	}
	delete(s.parked, id)
	removed, actions := from.Withdraw(w.now, id, nil)
	if !removed {
		return errors.New("the section does not know that it waits")
	}
	w.print(fmt.Sprintf("withdraw %d", id), w.resumed(s, actions))
	return nil
}

// resumed keeps account of those who go on in s and returns actions.
func (w *world) resumed(s *section, actions []control.Action) []control.Action {
	for _, a := range actions {
		id := a.Request.ID
		delete(s.parked, id)
		s.inside[id] = true
		served := w.inService[id]
		served.request.Waited = a.Request.Waited
		w.inService[id] = served
	}
	return actions
}

// bus is what the memory sensor looks at: so many bytes a second, in total or for each request in the memory section up to a total.
type bus struct {
	known      bool          // there is a sensor at all
	per, total float64       // bytes a second
	every      time.Duration // between readings of the sensor; 0 when it is read at each tick
	at         clock.Instant // up to when moved counts
	moved      float64
}

// setBus carries out the event that says what moves over the bus.
func (w *world) setBus(args []string) (err error) {
	w.settleBus()
	b := bus{known: true, at: w.now, moved: w.sections.bus.moved}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "per":
			b.per, err = strconv.ParseFloat(value, 64)
		case "total":
			b.total, err = strconv.ParseFloat(value, 64)
		case "every":
			b.every, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown %q", arg)
		}
		if err != nil {
			return err
		}
	}
	w.sections.bus = b
	return nil
}

// settleBus counts what has moved up to now. It is called before anything changes.
func (w *world) settleBus() {
	b := &w.sections.bus
	rate := b.total
	if b.per > 0 {
		n := 0
		if w.sections.memory != nil {
			n = len(w.sections.memory.inside)
		}
		rate = min(rate, b.per*float64(n))
	}
	if b.every > 0 {
		// The sensor took its last reading on the way, while the rate was what it is now.
		if t := clock.Instant(int64(w.now) / int64(b.every) * int64(b.every)); t > b.at {
			w.sections.sampled = control.Signals{MemAt: t, MemBytes: uint64(b.moved + rate*t.Sub(b.at).Seconds())}
		}
	}
	b.moved += rate * w.now.Sub(b.at).Seconds()
	b.at = w.now
	if b.every == 0 && b.known {
		w.sections.sampled = control.Signals{MemAt: w.now, MemBytes: uint64(b.moved)}
	}
}

// sensed returns s with what the memory sensor shows, unless s says so itself.
func (w *world) sensed(s control.Signals) control.Signals {
	w.settleBus()
	switch {
	case s.MemBytes == 0:
		s.MemBytes, s.MemAt = w.sections.sampled.MemBytes, w.sections.sampled.MemAt
	case s.MemAt == 0:
		s.MemAt = w.now
	}
	return s
}
