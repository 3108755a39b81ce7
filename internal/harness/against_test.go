//go:build linux

package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"spillway/profiles"
	"spillway/report"
)

// logging notes which side measures what.
type logging struct {
	Runner
	name string
	log  *[]string
	mu   *sync.Mutex
	fail int // the point, from 1, that fails; 0 for none
	ran  int
}

func (l *logging) Run(ctx context.Context, p Point) (Result, error) {
	l.mu.Lock()
	*l.log = append(*l.log, l.name+" "+p.String())
	l.mu.Unlock()
	if l.ran++; l.ran == l.fail {
		return Result{}, errors.New("no server")
	}
	return l.Runner.Run(ctx, p)
}

// inTurnsOfFakes runs two sides of fakes and returns what was measured in which order.
func inTurnsOfFakes(t *testing.T, fail int) (log []string, base, candidate Outcome, err error) {
	t.Helper()
	var mu sync.Mutex
	side := func(name string, fail int) *experiment {
		f := &fake{profile: profile(t), latency: quick}
		e := newExperiment(t, f)
		e.runner = &logging{Runner: f, name: name, log: &log, mu: &mu, fail: fail}
		return e
	}
	base, candidate, err = together(t.Context(), side("base", 0), side("candidate", fail))
	return log, base, candidate, err
}

func TestTwoRunsTakeTurns(t *testing.T) {
	t.Parallel()
	log, base, candidate, err := inTurnsOfFakes(t, 0)
	if err != nil || base.Points != 12 || candidate.Points != 12 || base.CutShort || candidate.CutShort {
		t.Fatalf("%+v, %+v, %v", base, candidate, err)
	}
	if len(log) != 24 {
		t.Fatalf("%d points were measured, want 24", len(log))
	}
	for i := 0; i < len(log); i += 2 {
		first, second := "base ", "candidate "
		if i/2%2 == 1 {
			first, second = second, first
		}
		a, okA := strings.CutPrefix(log[i], first)
		b, okB := strings.CutPrefix(log[i+1], second)
		if !okA || !okB || a != b {
			t.Errorf("points %d and %d are %q and %q", i+1, i+2, log[i], log[i+1])
		}
	}
	for _, out := range []Outcome{base, candidate} {
		run, err := report.ReadDir(out.Dir)
		if err != nil || run.Manifest.State != report.StateComplete {
			t.Errorf("%s: %v", out.Dir, err)
		}
	}
}

func TestASideThatFailsEndsTheOther(t *testing.T) {
	t.Parallel()
	log, base, candidate, err := inTurnsOfFakes(t, 2)
	if err == nil || !strings.Contains(err.Error(), "no server") {
		t.Errorf("error %v", err)
	}
	// The second pair begins with the candidate, which fails: the base has measured one point and waits for its turn.
	if len(log) != 3 || base.Points != 1 || !base.CutShort || candidate.Points != 1 {
		t.Errorf("%q, %+v, %+v", log, base, candidate)
	}
}

func TestAnInterruptionEndsBothSides(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var experiments []*experiment
	for range 2 {
		experiments = append(experiments, newExperiment(t, &fake{profile: profile(t), latency: quick}))
	}
	base, candidate, err := together(ctx, experiments[0], experiments[1])
	if err != nil || base.Points+candidate.Points != 0 || !base.CutShort || !candidate.CutShort {
		t.Errorf("%+v, %+v, %v", base, candidate, err)
	}
}

func TestWhatCannotTakeTurnsIsRefused(t *testing.T) {
	t.Parallel()
	p := profile(t)
	set := func(p *profiles.Profile, key, value string) *profiles.Profile {
		changed, err := p.Set([]profiles.Assignment{{Key: key, Value: value, Origin: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	external := set(p, "server", `{kind: external, settings: {target: "memcached://127.0.0.1:1"}}`)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config Config
		base   Against
		says   string
	}{
		"other loads": {Config{Profile: p}, Against{Profile: set(p, "load.rates", "[123]")}, "other points"},
		"a folder in use": {
			Config{Profile: p, Out: full}, Against{Profile: p, Out: filepath.Join(full, "a")}, "not empty",
		},
		"resumed":        {Config{Profile: p, Resume: true}, Against{Profile: p}, "cannot be gone on with"},
		"a server there": {Config{Profile: external}, Against{Profile: external, Refserver: "refserver"}, "already"},
	} {
		if _, _, err := RunAgainst(t.Context(), c.config, c.base); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventsOfBothSidesAreOneStream(t *testing.T) {
	t.Parallel()
	var told []Event
	b := &both{observe: func(e Event) { told = append(told, e) }}
	base, candidate := b.side(0, "base"), b.side(1, "candidate")
	base(Event{Kind: Noted, Note: "this computer has two cores"})
	candidate(Event{Kind: Noted, Note: "this computer has two cores"})
	base(Event{What: "none at 10", Total: 3, Left: 30})
	candidate(Event{What: "none at 10", Total: 3, Left: 20})
	base(Event{What: "none at 20", Done: 1, Total: 3, Left: 10})
	want := []Event{
		{Kind: Noted, Note: "this computer has two cores"},
		{What: "base, none at 10", Total: 6, Left: 60},
		{What: "candidate, none at 10", Total: 6, Left: 50},
		{What: "base, none at 20", Done: 1, Total: 6, Left: 30},
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %+v\nwant %+v", told, want)
	}
}

func TestTheCanaryDoesItsWork(t *testing.T) {
	t.Parallel()
	c, err := newCanary()
	if err != nil {
		t.Fatal(err)
	}
	if s := c.sing(); s.ComputeUS <= 0 || s.StreamUS <= 0 {
		t.Errorf("fixed work took %+v", s)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	var none *canary
	if none.sing() != nil || none.close() != nil {
		t.Error("a canary that is not there sang")
	}
}
