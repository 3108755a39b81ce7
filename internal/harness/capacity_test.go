//go:build linux

package harness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/drive"
	"spillway/internal/reqlog"
	"spillway/report"
)

// TestCapacityThatHeldWasProbed takes a server that holds 900 requests a second for longer, and anything for a second: the answer must have
// held in a probe of the full length, however far below the bracket it lies.
func TestCapacityThatHeldWasProbed(t *testing.T) {
	t.Parallel()
	choking := func(rate float64, at time.Duration) time.Duration {
		if at > time.Second && rate > 900 {
			return time.Second
		}
		return saturating(rate, at)
	}
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]", "window: 1s", "window: 3s"), latency: choking}
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := e.writer.Manifest.Capacity
	last := c.Probes[len(c.Probes)-1]
	if c.RPS > 900 || c.RPS < 700 || c.RPS != last.RPS || !last.Holds || c.Uncertain {
		t.Errorf("capacity %+v", c)
	}
}

// TestCapacityThatIsNotCertain takes a server that holds nothing for longer than a second: what held in a short probe is reported as that.
func TestCapacityThatIsNotCertain(t *testing.T) {
	t.Parallel()
	choking := func(rate float64, at time.Duration) time.Duration {
		if at > time.Second {
			return time.Second
		}
		return saturating(rate/10, at)
	}
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]", "window: 1s", "window: 3s"), latency: choking}
	e := newExperiment(t, f)
	var notes []string
	e.config.Observe = func(ev Event) { notes = append(notes, ev.Note) }
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := e.writer.Manifest.Capacity
	held := slices.ContainsFunc(c.Probes, func(p report.Probe) bool { return p.RPS == c.RPS && p.Holds })
	if !c.Uncertain || !held || c.RPS >= c.High || len(c.Remarks) != 1 || !strings.Contains(c.Remarks[0], "held for 1s") {
		t.Errorf("capacity %+v, probed %v", c, held)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, c.Remarks[0]) || !strings.Contains(text, "not certain to hold") {
		t.Errorf("notes:\n%s", text)
	}
}

// TestOneNoisyProbeDoesNotDecide fails a probe far below the capacity once, by no fault of the generator that it knows of.
func TestOneNoisyProbeDoesNotDecide(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]"), latency: saturating, at: 2}
	f.special = func(r *Result) error {
		r.Load.Tally.Classes[0].Fates[reqlog.Failed]++
		r.Load.Tally.Classes[0].Fates[reqlog.OK]--
		return nil
	}
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := e.writer.Manifest.Capacity; f.probes[1] != f.probes[2] || c.RPS < 4000 || len(c.Remarks) > 0 {
		t.Errorf("probes at %v, capacity %+v", f.probes, c)
	}
}

// TestGeneratorSetsTheBracket has a generator that cannot do more than 3000 requests a second: the search must not say that of the server.
func TestGeneratorSetsTheBracket(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]"), latency: saturating}
	f.each = func(rate float64, r *Result) {
		if rate > 3000 {
			r.Load.Invalid = []string{drive.WarnSendLag}
		}
	}
	e := newExperiment(t, f)
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := e.writer.Manifest.Capacity
	if c.RPS > 3000 || c.RPS < 2700 || len(c.Remarks) != 1 || !strings.Contains(c.Remarks[0], "generator") {
		t.Errorf("capacity %+v", c)
	}
}

// TestServerThatDiesInAProbe: the search goes on and says it.
func TestServerThatDiesInAProbe(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1]"), latency: saturating, at: 2}
	f.special = func(r *Result) error { r.Died, r.LastWord = true, "signal: killed"; return nil }
	e := newExperiment(t, f)
	var notes []string
	e.config.Observe = func(ev Event) { notes = append(notes, ev.Note) }
	if _, err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "the server died at 2000 requests per second: signal: killed"; !strings.Contains(strings.Join(notes, "\n"), want) ||
		!slices.Contains(e.writer.Manifest.Capacity.Remarks, want) {
		t.Errorf("notes %q, capacity %+v", notes, e.writer.Manifest.Capacity)
	}
}
