package control_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
)

// witness is a controller that answers at random, and fails the test when the Gate or a Chain breaks what they promise to controllers:
// the order of questions and events. It also sets something aside at each admission, as real ones may, and expects to be told when it
// can have it back.
type witness struct {
	t        *rapid.T
	name     string
	verdict  func(s control.Stage) control.Verdict
	expected string            // what must come next about request pending; "" when anything may
	pending  uint64            //
	state    map[uint64]string // of each request that it was told of: queued, started, gone
	setAside int
}

func newWitness(t *rapid.T, name string, verdict func(control.Stage) control.Verdict) *witness {
	return &witness{t: t, name: name, verdict: verdict, state: map[uint64]string{}}
}

func (w *witness) Decide(_ clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if w.expected != "" {
		w.t.Fatalf("%s: asked about %d while %d still has to be %s", w.name, r.ID, w.pending, w.expected)
	}
	if s == control.AtArrival {
		if w.state[r.ID] != "" {
			w.t.Fatalf("%s: %d arrives, but is %s", w.name, r.ID, w.state[r.ID])
		}
		w.setAside++ // before it knows how the others decide
		w.expected, w.pending = "queued or refused", r.ID
	} else if w.state[r.ID] != "queued" {
		w.t.Fatalf("%s: asked at dequeue about %d, which is %q", w.name, r.ID, w.state[r.ID])
	}
	return control.Decision{Verdict: w.verdict(s), Reason: control.Fraction}
}

func (w *witness) Observe(_ clock.Instant, e control.Event) {
	id := e.Request.ID
	if w.expected != "" && id != w.pending {
		w.t.Fatalf("%s: told of %d while %d still has to be %s", w.name, id, w.pending, w.expected)
	}
	step := fmt.Sprintf("%s after %q", [...]string{"queued", "started", "finished", "refused"}[e.Kind], w.state[id])
	if e.Kind == control.Refused && e.Stage == control.AtArrival {
		step += " at arrival"
	}
	switch step {
	case `queued after ""`:
		w.state[id] = "queued"
	case `started after "queued"`:
		w.state[id] = "started"
	case `finished after "started"`, `refused after "queued"`, `refused after "" at arrival`:
		w.state[id] = "gone"
		w.setAside--
	default:
		w.t.Fatalf("%s: %d was %s", w.name, id, step)
	}
	w.expected = ""
}

func (w *witness) Tick(clock.Instant, control.Signals) clock.Instant { return clock.Never }

// gateModel drives a Gate at random and keeps its own account of what must be true.
type gateModel struct {
	gate      *control.Gate
	config    control.GateConfig
	now       clock.Instant
	lastID    uint64
	waiting   map[uint64]control.Place
	order     []uint64 // of those waiting
	inService []control.Request
	fates     map[uint64]string
	fifo      bool // no controller lets anybody wait while a slot is free
}

func (m *gateModel) apply(t *rapid.T, actions []control.Action) {
	for _, a := range actions {
		id := a.Request.ID
		switch a.Kind {
		case control.Queue:
			m.waiting[id] = a.Place
			m.order = append(m.order, id)
		case control.Start, control.Refuse:
			if _, waits := m.waiting[id]; waits {
				if m.order[0] != id {
					t.Fatalf("%d left the queue before %d", id, m.order[0])
				}
				m.order = m.order[1:]
				delete(m.waiting, id)
			}
			if a.Kind == control.Start {
				m.inService = append(m.inService, a.Request)
			} else {
				m.end(t, id, a.Reason.String())
			}
		default:
			t.Fatalf("action of kind %d", a.Kind)
		}
	}
}

func (m *gateModel) end(t *rapid.T, id uint64, fate string) {
	if before := m.fates[id]; before != "" {
		t.Fatalf("%d is %s, and was %s already", id, fate, before)
	}
	m.fates[id] = fate
}

func (m *gateModel) step(t *rapid.T) {
	m.now += clock.Instant(rapid.IntRange(0, 5).Draw(t, "pause"))
	switch what := rapid.SampledFrom([]string{"arrive", "arrive", "arrive", "finish", "finish", "withdraw", "tick"}).Draw(t, "event"); {
	case what == "arrive":
		m.lastID++
		r := control.Request{ID: m.lastID}
		if rapid.Bool().Draw(t, "has a deadline") {
			r.Deadline = m.now + clock.Instant(rapid.IntRange(-2, 20).Draw(t, "deadline"))
		}
		m.apply(t, m.gate.Arrive(m.now, r, nil))
	case what == "finish" && len(m.inService) > 0:
		m.finish(t, rapid.IntRange(0, len(m.inService)-1).Draw(t, "which"))
	case what == "withdraw" && len(m.order) > 0:
		i := rapid.IntRange(0, len(m.order)-1).Draw(t, "which")
		id := m.order[i]
		removed, actions := m.gate.Withdraw(m.now, m.waiting[id], nil)
		if !removed {
			t.Fatalf("%d waits, but cannot be withdrawn", id)
		}
		m.order = slices.Delete(m.order, i, i+1)
		delete(m.waiting, id)
		m.end(t, id, "withdrawn")
		m.apply(t, actions)
	case what == "tick":
		actions, _ := m.gate.Tick(m.now, control.Signals{}, nil)
		m.apply(t, actions)
	}
}

func (m *gateModel) finish(t *rapid.T, i int) {
	r := m.inService[i]
	m.inService = slices.Delete(m.inService, i, i+1)
	m.end(t, r.ID, "finished")
	m.apply(t, m.gate.Finish(m.now, r, 1, false, nil))
}

func (m *gateModel) check(t *rapid.T) {
	s := m.gate.Stats()
	if s.Queued != len(m.order) || s.InService != len(m.inService) {
		t.Fatalf("queued %d and in service %d, should be %d and %d", s.Queued, s.InService, len(m.order), len(m.inService))
	}
	if m.config.Slots > 0 && s.InService > m.config.Slots {
		t.Fatalf("%d in service on %d slots", s.InService, m.config.Slots)
	}
	if m.config.Queue > 0 && s.Queued > m.config.Queue {
		t.Fatalf("%d queued, bound %d", s.Queued, m.config.Queue)
	}
	if m.fifo && s.Queued > 0 && (m.config.Slots == 0 || s.InService < m.config.Slots) {
		t.Fatalf("%d wait beside %d of %d slots in use", s.Queued, s.InService, m.config.Slots)
	}
	var shed uint64
	for _, n := range s.Shed {
		shed += n
	}
	if s.Arrived != m.lastID || s.Arrived != s.Started+uint64(s.Queued)+shed || s.Started != s.Finished+uint64(s.InService) {
		t.Fatalf("counts contradict each other: %+v", s)
	}
}

// drain serves all that is left, which must leave nothing behind.
func (m *gateModel) drain(t *rapid.T) {
	actions, _ := m.gate.Tick(m.now, control.Signals{}, nil)
	m.apply(t, actions)
	for len(m.inService) > 0 {
		m.finish(t, 0)
	}
	m.check(t)
	if uint64(len(m.fates)) != m.lastID {
		t.Fatalf("%d requests arrived, %d ended", m.lastID, len(m.fates))
	}
}

func newGateModel(t *rapid.T, c control.Controller) *gateModel {
	config := control.GateConfig{Slots: rapid.IntRange(0, 3).Draw(t, "slots"), Queue: rapid.IntRange(0, 4).Draw(t, "queue")}
	return &gateModel{
		gate: control.NewGate(c, config), config: config,
		waiting: map[uint64]control.Place{}, fates: map[uint64]string{},
	}
}

func (m *gateModel) run(t *rapid.T) {
	for range rapid.IntRange(1, 100).Draw(t, "events") {
		m.step(t)
		m.check(t)
	}
}

func TestGateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newGateModel(t, control.None{})
		m.fifo = true
		m.run(t)
		m.drain(t)
	})
}

// TestChainProperties also covers a single controller, as a chain of one.
func TestChainProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draining := false
		verdict := func(control.Stage) control.Verdict {
			if draining {
				return control.Admit
			}
			return rapid.SampledFrom([]control.Verdict{control.Admit, control.Admit, control.Admit, control.Wait, control.Reject}).Draw(t, "verdict")
		}
		var witnesses []*witness
		var members []control.Controller
		for i := range rapid.IntRange(1, 3).Draw(t, "members") {
			w := newWitness(t, fmt.Sprintf("member %d", i), verdict)
			witnesses = append(witnesses, w)
			members = append(members, w)
		}
		if len(members) > 1 && rapid.Bool().Draw(t, "nested") {
			members = []control.Controller{members[0], control.NewChain(members[1:]...)}
		}
		m := newGateModel(t, control.NewChain(members...))
		m.run(t)
		draining = true
		m.drain(t)
		for _, w := range witnesses {
			if w.setAside != 0 {
				t.Fatalf("%s has %d set aside, with nothing left at the gate", w.name, w.setAside)
			}
		}
	})
}
