package reproduce

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spillway/internal/harness"
	"spillway/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write golden files")

// small is an experiment of a paper that takes a moment: more of it comes than two cores can do, and the bus is the bottleneck of a variant.
const small = `name: tiny-one
title: More than two cores can do
source: {paper: tiny, figure: "7"}
on: sim
machine: {cores: 2, bus: {total: 4GB, per_core: 4GB}, network: 10us}
variants:
  - {name: bus4, set: {}}
  - {name: bus8, set: {machine.bus.total: 8GB}}
server: {kind: synthetic}
workload:
  kind: synthetic
  connections: 8
  classes:
    - {name: cpu, share: 0.5, slo: 1ms, work: [{compute: "exp:100us"}]}
    - {name: memory, share: 0.5, slo: 1ms, work: [{stream: 200kB}]}
load: {of_capacity: [0.5, 1.5]}
controllers: [{name: none}, {name: fixed, settings: {limit: 2, queue: 4}}]
timeout: 10ms
drain: 10ms
warmup: 10ms
window: 100ms
repeats: 4
seed: 3
quick: {window: 20ms, repeats: 1}
claims:
  - {text: "a bounded queue | keeps latency down", metric: latency_p99_us, class: cpu, controller: fixed, over: [none], at: 1.5, paper: 3, holds_at: 1.1}
  - {text: nothing is late, metric: late, class: all, controller: none, at: 1.5, holds_under: 0, note: "the queue grows without bound, so all that comes late in the window is late"}
  - {text: what comes below the capacity is served, metric: goodput_rps, class: all, controller: none, at: 0.5, holds_at: 1}
`

// list returns profiles of two papers, one of which needs real servers.
func list(t *testing.T) (list []*profiles.Profile) {
	t.Helper()
	for _, r := range [][]string{
		{},
		{"name: tiny-one", "name: tiny-two", `, figure: "7"`, "", "repeats: 4", "repeats: 1"},
		{"name: tiny-one", "name: tiny-real", "on: sim", "on: model", "[{name: none}, {name: fixed, settings: {limit: 2, queue: 4}}]", "[{name: none}, {name: fixed}]"},
		{"name: tiny-one", "name: other", "paper: tiny", "paper: other", "repeats: 4", "repeats: 1"},
	} {
		p, err := profiles.Parse("tiny.yaml", []byte(strings.NewReplacer(r...).Replace(small)))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// watched collects what a Watcher is told.
type watched struct {
	mu       sync.Mutex
	begun    []string
	finished map[string]int // how often a point was
	notes    []string
	each     func(total int) // is called after each point
	total    int
}

func (w *watched) Begins(profile, dir string, number, of, points int, arrivals float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = append(w.begun, fmt.Sprintf("%s %d of %d, %d points, %s arrivals", profile, number, of, points, Count(arrivals)))
}

func (w *watched) Event(profile string, e harness.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind != harness.Finished {
		return
	}
	if w.finished == nil {
		w.finished = map[string]int{}
	}
	w.finished[profile+" "+e.What]++
	w.total++
	if w.each != nil {
		w.each(w.total)
	}
}

func (w *watched) Ends(string, harness.Outcome, error) {}

func (w *watched) Note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, text)
}

func config(t *testing.T, out string, w *watched, papers ...string) Config {
	t.Helper()
	return Config{
		Profiles: list(t), Papers: papers, Out: out, Jobs: 2, Version: "v1", Watch: w,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// took is the time that a profile took, which differs from run to run.
var took = regexp.MustCompile(`\| [0-9.]+m?s \|`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = took.ReplaceAllString(got, "| … |")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, path), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestReproduction(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	w := &watched{}
	r, err := Run(t.Context(), config(t, out, w, "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Result{Dir: out, Counts: Counts{8, 4, 0}, Papers: []PaperResult{{"tiny", 2, Counts{8, 4, 0}}}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tiny-one 1 of 2, 32 points, 93.9k arrivals", "tiny-two 2 of 2, 8 points, 23.5k arrivals"}, w.begun); diff != "" {
		t.Errorf("begun (-want +got):\n%s", diff)
	}
	golden(t, "reproduction.md", read(t, out, "REPRODUCTION.md"))
	figure := read(t, out, "figures", "tiny-7.md")
	for _, name := range regexp.MustCompile(`\]\(\.\./([^)]*)\)`).FindAllStringSubmatch(figure, -1) {
		if _, err := os.Stat(filepath.Join(out, name[1])); err != nil {
			t.Errorf("the page of figure 7 has a dead link: %v", err)
		}
	}
	if !strings.Contains(figure, "](../tiny-one/plots/") {
		t.Errorf("the page of figure 7 has no plots:\n%s", figure)
	}
	if _, err := os.Stat(filepath.Join(out, "report.html")); err != nil {
		t.Error(err)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, out, "REPRODUCTION.md"), -1) {
		if _, err := os.Stat(filepath.Join(out, link[1])); err != nil {
			t.Errorf("a dead link: %v", err)
		}
	}
}

// TestGoesOn: a reproduction that was interrupted goes on, repeats no point, and ends like one that was not.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	whole, part := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "part")
	uninterrupted, err := Run(t.Context(), config(t, whole, &watched{}, "other", "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	var all watched
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		w := &watched{each: func(total int) {
			if total == 5 {
				cancel()
			}
		}}
		c := config(t, part, w, "other", "tiny")
		c.Jobs = 1
		r, err := Run(ctx, c)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for p, n := range w.finished {
			if all.finished == nil {
				all.finished = map[string]int{}
			}
			all.finished[p] += n
		}
		if !r.Interrupted {
			if i < 2 {
				t.Errorf("it was never interrupted")
			}
			uninterrupted.Dir = part
			if diff := cmp.Diff(uninterrupted, r); diff != "" {
				t.Errorf("result (-uninterrupted +resumed):\n%s", diff)
			}
			break
		}
		if text := read(t, part, "REPRODUCTION.md"); !strings.Contains(text, "was interrupted") {
			t.Errorf("it does not say that it was interrupted:\n%s", text)
		}
	}
	if len(all.finished) != 48 {
		t.Errorf("%d points were simulated", len(all.finished))
	}
	for p, n := range all.finished {
		if n != 1 {
			t.Errorf("%s was simulated %d times", p, n)
		}
	}
	plain := func(dir string) string { return took.ReplaceAllString(read(t, dir, "REPRODUCTION.md"), "") }
	if diff := cmp.Diff(plain(whole), plain(part)); diff != "" {
		t.Errorf("REPRODUCTION.md (-uninterrupted +resumed):\n%s", diff)
	}
	again := &watched{}
	r, err := Run(t.Context(), config(t, part, again, "other", "tiny"))
	if err != nil || again.total != 0 || r.Counts != uninterrupted.Counts {
		t.Errorf("once more: %d points, %+v, %v", again.total, r, err)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	c := config(t, out, &watched{}, "tiny")
	c.Size = profiles.SizeQuick
	seed := uint64(9)
	c.Seed = &seed
	r, err := Run(t.Context(), c)
	if err != nil || r.Counts.All() != 12 {
		t.Fatalf("%+v, %v", r, err)
	}
	text := read(t, out, "tiny-one", "manifest.json")
	if !strings.Contains(text, `window: 20ms`) || !strings.Contains(text, `"seed": 9`) || !strings.Contains(text, `"points_planned": 8`) {
		t.Errorf("the manifest says\n%s", text)
	}
	for want, change := range map[string]func(*Config){
		"the size was --quick and is as shipped":  func(c *Config) { c.Size = "" },
		"the seed was 9 and is those of":          func(c *Config) { c.Seed = nil },
		"the version of loadgen was v1 and is v2": func(c *Config) { c.Version = "v2" },
		"it is not empty and has no reproduction": func(c *Config) { c.Out = filepath.Join(out, "tiny-one") },
	} {
		other := c
		change(&other)
		if _, err := Run(t.Context(), other); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to have %q", err, want)
		}
	}
}

// TestSameCommandGoesOn: without --out the last interrupted reproduction that is the same is taken, and no other.
func TestSameCommandGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, s := range map[string]state{
		"1-reproduce": {Papers: []string{"tiny"}, Version: "v1", State: "complete"},
		"2-reproduce": {Papers: []string{"tiny"}, Version: "v1", State: "cut short"},
		"3-reproduce": {Papers: []string{"tiny"}, Version: "v1", State: "running"},
		"4-reproduce": {Papers: []string{"tiny"}, Version: "v1", State: "cut short", Size: "quick"},
		"5-reproduce": {Papers: []string{"other", "tiny"}, Version: "v1", State: "cut short"},
		"6-reproduce": {Papers: []string{"tiny"}, Version: "v2", State: "cut short"},
		"7-run":       {Papers: []string{"tiny"}, Version: "v1", State: "cut short"},
	} {
		s.dir = filepath.Join(dir, name)
		if err := os.Mkdir(s.dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := s.write(); err != nil {
			t.Fatal(err)
		}
	}
	for want, s := range map[string]state{
		"3-reproduce": {Papers: []string{"tiny"}, Version: "v1"},
		"4-reproduce": {Papers: []string{"tiny"}, Version: "v1", Size: "quick"},
		"5-reproduce": {Papers: []string{"other", "tiny"}, Version: "v1"},
		"":            {Papers: []string{"other"}, Version: "v1"},
	} {
		if got := lastOf(dir, &s); got != "" && filepath.Base(got) != want || got == "" && want != "" {
			t.Errorf("%v goes on in %q, want %q", s, got, want)
		}
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	c := config(t, out, &watched{}, "other")
	s, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "another loadgen is at it") {
		t.Errorf("error %v", err)
	}
}

// TestFailure: a profile that cannot be run does not keep the others from it, and nothing that there is is lost.
func TestFailure(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	c := config(t, out, &watched{}, "tiny")
	s, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if err := os.WriteFile(filepath.Join(out, "tiny-one"), []byte("in the way"), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "tiny-one") || r == nil || r.Counts.All() != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	text := read(t, out, "REPRODUCTION.md")
	if !strings.Contains(text, "There are no results: ") || !strings.Contains(text, "### tiny-two") {
		t.Errorf("it says\n%s", text)
	}
	if s, err := readState(out); err != nil || s.State != "failed" {
		t.Errorf("state %+v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Join(out, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	known := []string{"allocation", "bouncer", "svalinn"}
	for _, tt := range []struct {
		asked, want []string
		err         string
	}{
		{nil, known, ""},
		{[]string{"all"}, known, ""},
		{[]string{"svalinn", "all"}, known, ""},
		{[]string{"svalinn", "bouncer", "svalinn"}, []string{"bouncer", "svalinn"}, ""},
		{[]string{"svallin"}, nil, `no paper "svallin"; did you mean "svalinn"?`},
		{[]string{"quickstart"}, nil, "quickstart is a profile, and this takes papers: loadgen run quickstart --quick"},
		{[]string{"x"}, nil, `no paper "x"; there are allocation, bouncer, svalinn, and all`},
	} {
		got, err := Choose(tt.asked, known)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%v: %v, %v; want %v, %q", tt.asked, got, err, tt.want, tt.err)
		}
	}
}

// The bounds of what is shipped: a simulation takes about a microsecond of a core for an arrival, so that all of it takes a quarter of an hour of one, and
// --quick two and a half minutes.
const (
	mostLoads       = 8
	mostArrivals    = 1000e6
	mostOfQuick     = 180e6
	leastOfProfiles = 15
)

// TestShipped: shipped profiles are sized for a reproduction, and each has its page.
func TestShipped(t *testing.T) {
	t.Parallel()
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []struct {
		name string
		most float64
	}{{"", mostArrivals}, {profiles.SizeQuick, mostOfQuick}} {
		c := Config{Profiles: shipped, Papers: Papers(shipped), Size: size.name}
		here, elsewhere, err := c.parts()
		if err != nil {
			t.Fatal(err)
		}
		if len(here) < leastOfProfiles || len(elsewhere) < 2 {
			t.Errorf("%d profiles here, %d elsewhere", len(here), len(elsewhere))
		}
		sum := 0.0
		for _, p := range here {
			sum += p.arrivals
			for _, run := range p.profile.Runs() {
				if n := len(run.Load.Rates) + len(run.Load.OfCapacity); size.name == "" && n > mostLoads {
					t.Errorf("%s has %d loads", run.RowName(), n)
				}
			}
			t.Logf("%-8s %-28s %4d points %6s arrivals", size.name, p.profile.Name, p.points, Count(p.arrivals))
		}
		t.Logf("%-8s %-28s             %6s arrivals", size.name, "all", Count(sum))
		if sum > size.most {
			t.Errorf("%.3g arrivals in size %q, at most %.3g", sum, size.name, size.most)
		}
	}
}
