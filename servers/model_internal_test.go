//go:build linux

package servers

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
	"spillway/machine"
)

type noCosts struct{}

func (noCosts) Steps(dst []machine.Step, _ *memproto.Command) ([]machine.Step, error) {
	return append(dst, machine.Step{Kind: machine.Compute, Duration: time.Microsecond}), nil
}

func testModel(t *testing.T) *model {
	t.Helper()
	c := &Model{Machine: machine.Spec{Cores: 1, Network: 10}, Scale: 1000, Costs: noCosts{}}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	m, err := newModel(c, control.Stack{Controller: control.None{}}, control.GateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// timed returns a call that says that it was sent at an instant of m's.
func (m *model) timedCall(sent clock.Instant, patience time.Duration) *call {
	return &call{cmd: memproto.Command{HasSent: true, Sent: int64(m.base + sent), Patience: int64(patience)}}
}

// TestArrivalsAreHeld: an arrival is due one network delay after it was sent, or at once if the machine has moved past that, or if it
// claims to be from the future.
func TestArrivalsAreHeld(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		now, sent, last clock.Instant
		due             clock.Instant
		late, strange   uint64
	}{
		{name: "early", now: 5000, sent: 4999, last: 4000, due: 5009},
		{name: "after its instant, with nothing in between", now: 5000, sent: 4500, last: 4510, due: 4510},
		{name: "late", now: 5000, sent: 4500, last: 4600, due: 4600, late: 1},
		{name: "before the server began", now: 5000, sent: -100, last: 0, due: 0, late: 1},
		{name: "a clock that is a little ahead", now: 5000, sent: 5500, last: 0, due: 5510},
		{name: "from the future", now: 5000, sent: 6001, last: 0, due: 5010, strange: 1},
	} {
		m := testModel(t)
		m.last = tc.last
		m.hold(tc.now, m.timedCall(tc.sent, 0))
		if got := clock.Instant(m.held.Key()); got != tc.due || m.late != tc.late || m.strange != tc.strange {
			t.Errorf("%s: due at %d, want %d; %d late, %d strange", tc.name, got, tc.due, m.late, m.strange)
		}
		if want := tc.due - (tc.sent + 10); tc.late > 0 && m.lateMax != time.Duration(want) {
			t.Errorf("%s: late by %v, want %v", tc.name, m.lateMax, want)
		}
	}
	m := testModel(t)
	m.hold(5000, &call{})
	if got := m.held.Key(); got != 5010 {
		t.Errorf("without an instant: due at %d", got)
	}
}

// TestPatience: the machine stays behind the clock as far as the clients of the last second allow, and never goes back.
func TestPatience(t *testing.T) {
	t.Parallel()
	m := testModel(t)
	if got := m.reach(5_000_000); got != 5_000_000 {
		t.Errorf("without patience up to %d", got)
	}
	m.upTo = 4_999_000
	m.hold(5_000_000, m.timedCall(5_000_000, 300))
	if got := m.reach(5_000_500); got != 5_000_200 {
		t.Errorf("with patience up to %d", got)
	}
	m.upTo = 5_000_300
	if got := m.reach(5_000_500); got != 5_000_300 {
		t.Errorf("the machine went back to %d", got)
	}
	// A second of the wall clock is a millisecond here.
	if got := m.reach(5_000_000 + 1_000_000 + 301); got != 6_000_301 {
		t.Errorf("with nobody left to be patient up to %d", got)
	}
	m.hold(7_000_000, m.timedCall(7_000_000, time.Hour))
	if got := m.reach(7_000_000 + 20_000_000); got != 27_000_000 {
		t.Errorf("after a long time up to %d", got)
	}
	if m.hold(8_000_000, m.timedCall(8_000_000, time.Hour)); m.behind != maxBehind/1000 {
		t.Errorf("it stays behind by %v", m.behind)
	}
	if m.hold(8_000_000, m.timedCall(8_000_000, 0)); m.behind != 0 {
		t.Errorf("it stays behind by %v", m.behind)
	}
}
