//go:build linux

package harness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/drive"
	"spillway/internal/hist"
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

// stutter makes a probe one that failed by the generator's own fault: its requests left that late.
func stutter(r *Result, lag time.Duration) {
	for i := range r.Load.Tally.Classes {
		h := hist.New()
		h.Record(lag)
		r.Load.Tally.Classes[i].SendLag = h
	}
	r.Load.Invalid = []string{drive.WarnSendLag}
}

// unanswered makes a probe one that the server failed.
func unanswered(r *Result) {
	r.Load.Tally.Classes[0].Fates[reqlog.Failed]++
	r.Load.Tally.Classes[0].Fates[reqlog.OK]--
}

// scripted runs an experiment with loads of 1x and 1.5x whose probes end as script says of each, of its number from 1 and its rate: "ours", "server", or
// "holds". It returns what the run wrote and what it told.
func scripted(t *testing.T, script func(n int, rate float64) string, change func(*Config)) (*fake, *report.Run, Outcome, string, error) {
	t.Helper()
	f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [1, 1.5]", "repeats: 2", "repeats: 1"), latency: quick}
	f.each = func(rate float64, r *Result) {
		switch script(len(f.probes), rate) {
		case "ours":
			stutter(r, 8*time.Millisecond)
		case "server":
			unanswered(r)
		}
	}
	e := newExperiment(t, f)
	var notes []string
	e.config.Observe = func(ev Event) {
		if ev.Kind == Noted {
			notes = append(notes, ev.Note)
		}
	}
	if change != nil {
		change(&e.config)
	}
	out, err := e.run(t.Context())
	told := strings.Join(notes, "\n")
	run, rerr := report.ReadDir(out.Dir)
	if rerr != nil {
		t.Fatalf("%v, after %v, %v", rerr, out, err)
	}
	return f, run, out, told, err
}

// descends reports whether a rate was probed that is lower than the one before it, whose probes all failed by the generator's own fault.
func descends(probes []report.Probe) bool {
	for i := 1; i < len(probes); i++ {
		if probes[i-1].Unknown && probes[i].RPS < probes[i-1].RPS {
			return true
		}
	}
	return false
}

// TestGeneratorSetsNoEnd has a generator that cannot do more than 3000 requests a second: the search must not say that of the server, and what is a
// share of what it found is not valid.
func TestGeneratorSetsNoEnd(t *testing.T) {
	t.Parallel()
	f, run, out, told, err := scripted(t, func(_ int, rate float64) string {
		if rate > 3000 {
			return "ours"
		}
		return "holds"
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{1000, 2000, 4000, 4000, 4000, 8000, 8000, 8000, 2000}; !slices.Equal(f.probes, want) {
		t.Errorf("probes at %v, want %v", f.probes, want)
	}
	c := run.Manifest.Capacity
	if !c.AtLeast || c.RPS != 2000 || c.Low != 2000 || c.High != 0 || c.Uncertain || !strings.Contains(strings.Join(c.Remarks, "\n"), "at 2 rates above 2000 requests per second is not known") {
		t.Errorf("capacity %+v", c)
	}
	if out.Invalid != out.Points || out.Points != 6 {
		t.Errorf("outcome %+v", out)
	}
	for _, r := range run.Rows {
		if r.Valid || !slices.Equal(r.Warnings, []string{warnCapacityUnknown}) {
			t.Errorf("%s at %s: valid %v, warnings %v", r.Controller, r.LoadFactor, r.Valid, r.Warnings)
		}
	}
	for _, want := range []string{
		"capacity search: 2000/s holds, p99 1ms", "capacity search: 4000/s is not known: our sender lagged 8ms (p99), 1ms is allowed",
		"capacity at least 2000 requests per second, which held; no rate failed by the server's own fault",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is missing in\n%s", want, told)
		}
	}
}

// TestStutterIsNoReasonToGoDown: where a rate is failed by the generator only, however low, the search ends without an answer instead of one of a few
// requests a second, and says what to do.
func TestStutterIsNoReasonToGoDown(t *testing.T) {
	t.Parallel()
	always := func(int, float64) string { return "ours" }
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"profile": {nil, "load.rates gives rates"},
		"flags":   {func(c *Config) { c.AdHoc = true }, "--rate offers a rate"},
	} {
		f, run, out, _, err := scripted(t, always, tt.change)
		if err == nil || !strings.Contains(err.Error(), "our sender lagged 8ms") || !strings.Contains(err.Error(), "--pace spin") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v", name, err)
		}
		if strings.Contains(err.Error(), "--rate") != (name == "flags") || out.Points != 0 || descends(run.Manifest.Capacity.Probes) ||
			len(f.probes) != mostUnknown*ownFaults {
			t.Errorf("%s: probes at %v, outcome %+v, %v", name, f.probes, out, err)
		}
	}
}

// TestGeneratorsFaultAmongOthers: a probe that failed by the generator's own fault is repeated, and does not count where another attempt tells more.
func TestGeneratorsFaultAmongOthers(t *testing.T) {
	t.Parallel()
	attempts := map[float64]int{}
	_, run, out, told, err := scripted(t, func(_ int, rate float64) string {
		attempts[rate]++
		switch {
		case attempts[rate] == 1:
			return "ours"
		case rate > 5000:
			return "server"
		}
		return "holds"
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := run.Manifest.Capacity
	if c.AtLeast || c.Uncertain || c.RPS > 5000 || c.RPS < 5000/narrowEnough || c.High <= 5000 || len(c.Remarks) > 0 || out.Invalid > 0 {
		t.Errorf("capacity %+v, outcome %+v", c, out)
	}
	if descends(c.Probes) {
		t.Errorf("it went down on a fault of the generator: %+v", c.Probes)
	}
	if want := "capacity search: 8000/s does not hold: 1 of 8000 requests were not answered"; !strings.Contains(told, want) {
		t.Errorf("%q is missing in\n%s", want, told)
	}
}

// TestHolesInTheBracket: rates of which nothing is known are passed over, upwards; what lies between a rate that held and the server's failure is the
// capacity where they are close, and else it is no less than what held.
func TestHolesInTheBracket(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from, to, broken float64 // what is not known, and from where on the server fails
		least            bool
	}{
		"wide":   {2500, 7000, 7000, true},
		"beyond": {3000, 5000, 9000, false}, // the search finds the end of what is not known above it
		"narrow": {4800, 5000, 5000, false},
	} {
		_, run, out, _, err := scripted(t, func(_ int, rate float64) string {
			switch {
			case rate >= tt.broken:
				return "server"
			case rate >= tt.from && rate < tt.to:
				return "ours"
			}
			return "holds"
		}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		c := run.Manifest.Capacity
		if c.AtLeast != tt.least || (out.Invalid > 0) != tt.least || c.High < tt.broken || c.Low >= tt.broken || !tt.least && c.High > wellBracketed*c.Low {
			t.Errorf("%s: capacity %+v, outcome %+v", name, c, out)
		}
	}
}

// TestLongProbeIsNotKnown: where only the longer probe fails by the generator's own fault, the rate that held is not given up for a lower one.
func TestLongProbeIsNotKnown(t *testing.T) {
	t.Parallel()
	rising := func(_ int, rate float64) string {
		if rate > 5000 {
			return "server"
		}
		return "holds"
	}
	f, _, _, _, err := scripted(t, rising, nil)
	if err != nil {
		t.Fatal(err)
	}
	confirmed := f.probes[len(f.probes)-1]
	n := len(f.probes)
	f, run, _, told, err := scripted(t, func(i int, rate float64) string {
		if i >= n {
			return "ours"
		}
		return rising(i, rate)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := run.Manifest.Capacity
	if !c.Uncertain || c.AtLeast || c.RPS != confirmed || len(f.probes) != n-1+ownFaults || !strings.Contains(told, "failed by the generator's own fault; "+
		"4967 requests per second held for 1s") {
		t.Errorf("capacity %+v, want %v\n%s", c, confirmed, told)
	}
}

// TestPacingIsForeseen: when this computer sends later than the SLO allows, the search says so before its first probe, with what to do.
func TestPacingIsForeseen(t *testing.T) {
	t.Parallel()
	rising := func(_ int, rate float64) string {
		if rate > 5000 {
			return "server"
		}
		return "holds"
	}
	for name, tt := range map[string]struct {
		pace        string
		sleep, spin float64 // p99 in us
		want        string
	}{
		"good":       {"auto", 900, 5000, ""},
		"spin helps": {"auto", 8300, 120, "requests left 8.3ms late (p99, pace sleep), and an SLO of 10ms allows 1ms: probes will fail by the generator's own fault. Remedy: --pace spin (there p99 was 120µs), or an SLO of 83ms or more"},
		"spins":      {"spin", 8300, 2000, "requests left 2ms late (p99, pace spin), and an SLO of 10ms allows 1ms: probes will fail by the generator's own fault. Remedy: a quieter computer, or an SLO of 20ms or more"},
		"spins well": {"spin", 8300, 20, ""},
	} {
		_, run, _, told, err := scripted(t, rising, func(c *Config) {
			c.Pace, c.pacing = tt.pace, []report.Pacing{{Pace: "sleep", LagP99US: tt.sleep}, {Pace: "spin", LagP99US: tt.spin}}
		})
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(told, "\n")
		remarks := strings.Join(run.Manifest.Capacity.Remarks, "\n")
		if strings.Contains(told, "self-test") != (tt.want != "") || !strings.Contains(first, tt.want) || !strings.Contains(remarks, tt.want) {
			t.Errorf("%s: told first\n%s\nremarks\n%s", name, first, remarks)
		}
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
