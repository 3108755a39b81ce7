package catalog_test

import (
	"slices"
	"testing"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
	"spillway/control/memsem"
)

// Every controller can be had with a memory section, and those that are not made for one come without.
func TestMemorySectionIsCommonToAll(t *testing.T) {
	t.Parallel()
	for _, name := range catalog.Names() {
		e, _ := catalog.Describe(name)
		common := e.Settings[e.Common:]
		want := "off"
		if name == "svalinn" {
			want = "try"
		}
		if len(common) != 9 || common[0].Name != "section" || common[0].Default != want {
			t.Errorf("%s: settings of the section are %+v, want 9, the first of them section with default %s", name, common, want)
		}
		for section, mode := range map[string]control.Mode{"try": control.Try, "wait-if-uncongested": control.WaitWithinBudget, "wait": control.WaitMode} {
			s, err := catalog.New(name, map[string]any{"section": section}, env)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := s.Memory.(*memsem.Semaphore); !ok || s.Mode != mode {
				t.Errorf("%s with section %s: memory section %T, mode %d", name, section, s.Memory, s.Mode)
			}
			if !slices.Contains(meters(s.Controller), "memsem") {
				t.Errorf("%s with section %s: no meter memsem, so the semaphore gets no ticks", name, section)
			}
		}
		s, err := catalog.New(name, map[string]any{"section": "off"}, env)
		if err != nil || s.Memory != nil || slices.Contains(meters(s.Controller), "memsem") {
			t.Errorf("%s with section off: memory section %v, error %v", name, s.Memory, err)
		}
	}
}

func meters(c control.Controller) (names []string) {
	if m, ok := c.(control.Meter); ok {
		for name := range m.Meters() {
			names = append(names, name)
		}
	}
	return names
}

func TestMemorySectionRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings map[string]any
		want     string
	}{
		{"none", map[string]any{"secton": "try"}, `controller none: unknown setting "secton"; did you mean "section"?`},
		{"none", map[string]any{"section": "maybe"}, `controller none: section is "maybe", must be off, try, wait-if-uncongested or wait`},
		{"none", map[string]any{"bandit": "greedy"}, `controller none: bandit is "greedy", must be one of egreedy, thompson, ucb, fixed, oracle`},
		{"none", map[string]any{"target": 1.5}, `controller none: target is 1.5, must be above 0 and at most 1`},
		{"codel", map[string]any{"section_target": 1.5}, `controller codel: section_target is 1.5, must be above 0 and at most 1`},
		{"none", map[string]any{"alpha": -0.1}, `controller none: alpha is -0.1, must be from 0 to 1`},
		{"none", map[string]any{"omega": 0}, `controller none: omega is 0, must be above 0 and at most 1`},
		{"none", map[string]any{"epsilon": 2}, `controller none: epsilon is 2, must be from 0 to 1`},
		{"none", map[string]any{"period": "0s"}, `controller none: period is 0s, must be at least 1µs`},
		{"none", map[string]any{"period": "1ns"}, `controller none: period is 1ns, must be at least 1µs`},
		{"none", map[string]any{"bw_window": -1}, `controller none: bw_window is -1, must be from 0 to 1048576`},
		{"none", map[string]any{"bandit": "fixed"}, `controller none: capacity is 0, must be at least 1 with bandit fixed`},
		{"none", map[string]any{"capacity": 3}, `controller none: capacity is 3, which only bandit fixed has; set bandit to fixed, or leave capacity out`},
		{"none", map[string]any{"section": "try", "bandit": "oracle"}, `controller none: bandit oracle is told the best capacity by a model of the machine, ` +
			`and there is none here; use it on the grounds sim and model, or choose another bandit`},
	} {
		if _, err := catalog.New(c.name, c.settings, env); err == nil || err.Error() != c.want {
			t.Errorf("%s %v:\n got %v\nwant %s", c.name, c.settings, err, c.want)
		}
	}
	want := `controller none: section is try, and the number of cores, its greatest capacity, is not known here; set section to off`
	if _, err := catalog.New("none", map[string]any{"section": "try"}, catalog.Env{}); err == nil || err.Error() != want {
		t.Errorf("without cores: %v, want %s", err, want)
	}
}

func TestOracleIsAsked(t *testing.T) {
	t.Parallel()
	best := 3
	e := catalog.Env{Cores: 8, Oracle: func(clock.Instant) int { return best }}
	s, err := catalog.New("none", map[string]any{"section": "try", "bandit": "oracle"}, e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{3, 8, 1} { // 8 and 1 are the bounds
		n := 0
		for s.Memory.Enter(0, &control.Request{}, s.Mode).Verdict == control.Admit {
			n++
		}
		if n != want {
			t.Errorf("%d let in, want %d", n, want)
		}
		for range n {
			s.Memory.Leave(0, &control.Request{}, nil)
		}
		best = map[int]int{3: 100, 8: -1, 1: 1}[want]
		s.Controller.Tick(clock.Instant(n), control.Signals{})
	}
}
