package limit

import (
	"iter"

	"spillway/clock"
	"spillway/control"
)

// Section lets a fixed number of requests be inside at once. It is a control.Section without any cleverness: what a memory semaphore
// of fixed size, or a lock with a number of holders, amounts to.
type Section struct {
	places int
	why    control.Reason
	inside int
	parked *control.Parked
}

var (
	_ control.Withdrawer = (*Section)(nil)
	_ control.Section    = (*Section)(nil)
	_ control.Meter      = (*Section)(nil)
)

// NewSection returns an empty section with room for places requests, which refuses for the reason why. It panics when places is less
// than one.
func NewSection(places int, why control.Reason) *Section {
	if places < 1 {
		panic("limit: a section without places")
	}
	return &Section{places: places, why: why, parked: control.NewParked()}
}

// Enter lets r in while there is room. Otherwise Try refuses it and WaitMode parks it; WaitWithinBudget parks it only while the waiting
// that r has borne is within its budget, since how long its turn will take is not known here.
func (s *Section) Enter(now clock.Instant, r *control.Request, m control.Mode) control.Decision {
	switch {
	case s.inside < s.places:
		s.inside++
		return control.Decision{Verdict: control.Admit}
	case m == control.Try, m == control.WaitWithinBudget && r.Budget > 0 && r.Waited >= r.Budget:
		return control.Decision{Verdict: control.Reject, Reason: s.why}
	default:
		s.parked.Push(now, r)
		return control.Decision{Verdict: control.Wait}
	}
}

// Leave gives a place back, and to the oldest waiter if there is one.
func (s *Section) Leave(now clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	if s.inside == 0 {
		panic("limit: a section is left that nobody is in")
	}
	if s.parked.Len() == 0 {
		s.inside--
		return out
	}
	return append(out, control.Action{Kind: control.Resume, Request: s.parked.Pop(now)})
}

// Withdraw takes a waiter out. Nobody's turn comes by that.
func (s *Section) Withdraw(_ clock.Instant, id uint64, out []control.Action) (removed bool, _ []control.Action) {
	return s.parked.Withdraw(id), out
}

// Meters yields the places and who is inside and waiting.
func (s *Section) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("places", float64(s.places)) && yield("inside", float64(s.inside)) && yield("waiting", float64(s.parked.Len()))
	}
}
