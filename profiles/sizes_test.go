package profiles

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const sized = `name: s
on: sim
machine: {cores: 2, bus: {total: 4GB, per_core: 1GB}}
variants:
  - {name: slow, set: {}}
  - {name: fast, set: {machine.cores: 4, window: 9s}}
server: {kind: synthetic}
workload:
  kind: synthetic
  classes: [{name: cpu, share: 1, work: [{compute: 1ms}]}]
load: {rates: [1k, 2k]}
controllers: [{name: none}, {name: fixed, warmup: 9s}]
warmup: 1s
window: 2s
claims:
  - {text: more, metric: goodput_rps, controller: fixed, over: [none], at: 2k, holds_at: 1.5}
quick: {load.rates: [2k], window: 100ms, controllers.1.warmup: 2s, variants.1.set.window: 50ms}
full: {load.rates: [1k, 2k, 3k], repeats: 9}
`

func TestSizes(t *testing.T) {
	t.Parallel()
	p, err := Parse("f.yaml", []byte(sized))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse("again.yaml", p.Resolved()); err != nil || len(again.Quick) != 4 || len(again.Full) != 2 {
		t.Errorf("resolved and read again: %v\n%s", err, p.Resolved())
	}
	quick, err := p.Sized(SizeQuick)
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := quick.Runs()[0], quick.Runs()[1]
	if slow.Window != 100*time.Millisecond || fast.Window != 50*time.Millisecond || fast.Machine.Cores != 4 {
		t.Errorf("windows %v and %v", slow.Window, fast.Window)
	}
	if diff := cmp.Diff([]Rate{2000}, slow.Load.Rates); diff != "" {
		t.Errorf("loads (-want +got):\n%s", diff)
	}
	if w := fast.Controllers[1].WarmUp; w != 2*time.Second {
		t.Errorf("the controller warms up for %v", w)
	}
	full, err := p.Sized(SizeFull)
	if err != nil || full.Repeats != 9 || len(full.Load.Rates) != 3 || full.Window != 2*time.Second {
		t.Errorf("full: %v, %+v", err, full)
	}
	plain, err := p.Sized("")
	if err != nil || plain.Window != p.Window || len(plain.Runs()) != 2 {
		t.Errorf("as it stands: %v, %+v", err, plain)
	}
	for name, q := range map[string]*Profile{"quick": quick, "full": full, "plain": plain} {
		if text := string(q.Resolved()); strings.Contains(text, "quick:") || strings.Contains(text, "full:") {
			t.Errorf("%s: what is run speaks of sizes:\n%s", name, text)
		}
		if q.Text() != p.Text() {
			t.Errorf("%s: the text is not that which was read", name)
		}
	}
	if _, err := p.Sized("huge"); err == nil {
		t.Error("there is a size huge")
	}
	// Flags come after the size.
	if q, err := quick.Set(assignments(t, "window=7s")); err != nil || q.Window != 7*time.Second || q.Runs()[0].Window != 7*time.Second {
		t.Errorf("--set after the size: %v", err)
	}
	if _, err := p.Set(assignments(t, "quick.window=1s")); err == nil || !strings.HasPrefix(err.Error(), "--set quick.window=1s: --quick sets what quick: has") {
		t.Errorf("--set of a size: %v", err)
	}
	if only, err := p.WithControllers([]string{"none"}, nil); err != nil || only.Quick != nil {
		t.Errorf("%v: sizes that set controllers by number are left", err)
	}
}

// TestWrongSizes: a mistake in a size is one of the profile, and is said to be where it stands.
func TestWrongSizes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, want string }{
		"unknown key":       {"quick: {load.rates: [2k]", "quick: {laod.rates: [2k]", `f.yaml:17:9: quick: laod.rates: unknown key "laod"; did you mean "load"?`},
		"wrong value":       {"window: 100ms,", "window: 100,", "f.yaml:17:27: quick: window: "},
		"no such entry":     {"controllers.1.warmup", "controllers.7.warmup", "f.yaml:17:42: quick: controllers.7.warmup: "},
		"claim":             {"repeats: 9", "claims.0.holds_at: 1", "f.yaml:18:53: claims is what the experiment is; a size cannot change it"},
		"ground":            {"repeats: 9", "on: host", "f.yaml:18:38: on is what the experiment is"},
		"size of a size":    {"repeats: 9", "quick.window: 1s", "f.yaml:18:48: quick is what the experiment is"},
		"other controllers": {"repeats: 9", "controllers: [{name: none}]", "f.yaml:18:8: in this size there are other controllers"},
		"of a variant":      {"machine.cores: 4, window: 9s", "quick.window: 9s", "quick is of the whole experiment; a variant cannot change it"},
		"no mapping":        {"full: {load.rates: [1k, 2k, 3k], repeats: 9}", "full: 3", "f.yaml:18:7: full is a mapping, not "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(sized, tt.old, tt.new, 1)
			if text == sized {
				t.Fatalf("the base has no %q", tt.old)
			}
			_, err := Parse("f.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to have %q", err, tt.want)
			}
		})
	}
}

// TestShippedSizes: what is shipped can be run in every size, and what it claims is about loads that it has as it stands and in full.
func TestShippedSizes(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []string{"", SizeQuick, SizeFull} {
			q, err := p.Sized(size)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for i := range q.Claims {
				if c := &q.Claims[i]; c.At != "" && !q.hasLoad(c) {
					t.Errorf("%s, size %q: the claim %q is about the load %s, which is not there", name, size, c.Text, c.At)
				}
			}
		}
	}
}

func (p *Profile) hasLoad(c *Claim) bool {
	for _, loads := range p.loadsOf(c) {
		if _, ok := loads.find(c.At); ok {
			return true
		}
	}
	return false
}
