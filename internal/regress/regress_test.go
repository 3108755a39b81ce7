package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"spillway/control/catalog"
	"spillway/profiles"
	"spillway/report"
)

const (
	repository = "../.."
	suite      = repository + "/profiles/regress"
	baselines  = suite + "/baseline"
)

// experiments returns the profiles of the suite by their names.
func experiments(t *testing.T) map[string]*profiles.Profile {
	t.Helper()
	files, err := filepath.Glob(suite + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no profiles: %v", err)
	}
	list := map[string]*profiles.Profile{}
	for _, file := range files {
		p, err := profiles.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		list[p.Name] = p
	}
	return list
}

// TestEveryControllerIsCovered wants every controller of the catalog in some experiment, and of the settings that name an algorithm every value that a
// simulation can have.
func TestEveryControllerIsCovered(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name, p := range experiments(t) {
		if p.On != "sim" || p.Repeats < 6 {
			t.Errorf("%s runs on %s, with %d repeats: want sim, and six or more, which is what decides", name, p.On, p.Repeats)
		}
		for _, c := range p.Controllers {
			seen[c.Name] = true
			for _, setting := range []string{"section", "bandit", "utility", "lock", "order"} {
				value := c.Settings[setting]
				if entry, ok := catalog.Describe(c.Name); ok && value == "" {
					for _, s := range entry.Settings {
						if s.Name == setting {
							value = s.Default
						}
					}
				}
				seen[setting+" "+value] = true
			}
		}
	}
	want := catalog.Names()
	for setting, values := range map[string]string{
		"section": "off try wait-if-uncongested wait", "bandit": "egreedy thompson ucb fixed oracle",
		"utility": "throughput goodput drop delay", "lock": "off qdelay qlen",
	} {
		for value := range strings.FieldsSeq(values) {
			want = append(want, setting+" "+value)
		}
	}
	for _, name := range append(want, "two-level") {
		if !seen[name] {
			t.Errorf("%s is in no profile of profiles/regress", name)
		}
	}
}

// TestBaseline wants a baseline for every experiment and no other; in it what a comparison needs and nothing of the computer that made it.
func TestBaseline(t *testing.T) {
	t.Parallel()
	list := experiments(t)
	kept, err := os.ReadDir(baselines)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != len(list) {
		t.Errorf("%d baselines for %d experiments", len(kept), len(list))
	}
	private := regexp.MustCompile(`"(started|ended|argv|machine|kernel|versions|jobs)":|(^|[ "':])/[a-z]+/`)
	size := int64(0)
	for name, p := range list {
		dir := filepath.Join(baselines, name)
		run, err := report.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		perRepeat := len(run.Rows) / p.Repeats
		if perRepeat*p.Repeats != len(run.Rows) || perRepeat < len(p.Controllers) {
			t.Errorf("%s: %d rows of %d repeats and %d controllers; make regress-accept", name, len(run.Rows), p.Repeats, len(p.Controllers))
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			size += int64(len(text))
			if f.Name() != "manifest.json" && f.Name() != "points.csv" {
				t.Errorf("%s has %s", dir, f.Name())
			}
			if found := private.Find(text); f.Name() == "manifest.json" && found != nil {
				t.Errorf("%s/%s says more than it needs to: %q", dir, f.Name(), found)
			}
		}
	}
	if size > 300_000 {
		t.Errorf("the baseline has %d bytes; whoever clones the repository takes them along", size)
	}
}

// loadgen builds the command once, for all tests that measure.
var loadgen = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spillway")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "loadgen")
	if out, err := exec.Command("go", "build", "-o", path, "spillway/cmd/loadgen").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building loadgen: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	m.Run()
	if path, err := loadgen(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
}

// script runs scripts/regress.sh and returns what it printed and its exit code.
func script(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	path, err := loadgen()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", append([]string{repository + "/scripts/regress.sh"}, args...)...)
	cmd.Env = append(os.Environ(), append([]string{"LOADGEN=" + path}, env...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// measured runs an experiment and returns what is kept of it.
func measured(t *testing.T, name string, env []string, flags ...string) string {
	t.Helper()
	path, err := loadgen()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(path, append([]string{"run", suite + "/" + name + ".yaml", "--quiet", "--out", dir + "/run"}, flags...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := keep(dir+"/run", dir+"/kept"); err != nil {
		t.Fatal(err)
	}
	return dir + "/kept"
}

func content(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{"manifest.json", "points.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

// TestSameOnEveryComputer: what is kept does not depend on how many cores there are, nor on how many points are simulated at once.
func TestSameOnEveryComputer(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about the numbers, which the race detector does not change")
	}
	one := measured(t, "step", []string{"GOMAXPROCS=1"}, "--repeats", "1", "--jobs", "1")
	many := measured(t, "step", []string{"GOMAXPROCS=4"}, "--repeats", "1", "--jobs", "5")
	if !bytes.Equal(content(t, one), content(t, many)) {
		t.Error("one core and one job give other results than four cores and five jobs")
	}
}

// TestWorseControllerIsFound doubles the delay budget of one controller, which makes it slower, and finds that.
func TestWorseControllerIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about the numbers, which the race detector does not change")
	}
	base := t.TempDir()
	if err := os.CopyFS(base+"/lock", os.DirFS(measured(t, "lock", nil))); err != nil {
		t.Fatal(err)
	}
	which := slices.IndexFunc(experiments(t)["lock"].Controllers, func(c profiles.Controller) bool { return c.Label() == "svalinn" })
	out, code := script(t, []string{"BASELINE=" + base}, "check", "lock", "--", "--set", fmt.Sprintf("controllers.%d.settings.budget=400us", which))
	if code != 1 || !regexp.MustCompile(`svalinn +locked +latency_p99_us .* worse`).MatchString(out) || !strings.Contains(out, "worse than before: lock") {
		t.Errorf("a doubled budget: exit code %d\n%s", code, out)
	}
}

// TestAcceptNeedsAReason: a baseline changes only with a reason, which is written down with the day, the commit and what moved.
func TestAcceptNeedsAReason(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about a script, which the race detector does not see")
	}
	dir := t.TempDir()
	env := []string{"BASELINE=" + dir + "/baseline", "CHANGES=" + dir + "/CHANGES.md"}
	for _, reason := range []string{"", " \t"} {
		out, code := script(t, append(env, "REASON="+reason), "accept", "staging")
		if _, err := os.Stat(dir + "/baseline"); code != 1 || !strings.Contains(out, "needs a reason") || err == nil {
			t.Errorf("reason %q: exit code %d\n%s", reason, code, out)
		}
	}
	if out, code := script(t, env, "check", "staging"); code != 1 || !strings.Contains(out, "no baseline") {
		t.Errorf("without a baseline: exit code %d\n%s", code, out)
	}
	for i, reason := range []string{`"quoted" and 'so' $HOME`, "the second"} {
		if i == 1 { // as if a request more had been answered
			file := dir + "/baseline/staging/points.csv"
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, bytes.Replace(text, []byte(",0,0,0"), []byte(",1,0,0"), 1), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if out, code := script(t, append(env, "REASON="+reason), "accept", "staging"); code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
	}
	text, err := os.ReadFile(dir + "/CHANGES.md")
	if err != nil {
		t.Fatal(err)
	}
	want := `(?s)^# What moved.*\n\n## \d{4}-\d\d-\d\d, on \w+.*\n\nthe second\n\n- staging: same \(.*\n\n## \d{4}-\d\d-\d\d, on .*\n\n"quoted" and 'so' \$HOME\n\n- staging: new\n$`
	if !regexp.MustCompile(want).Match(text) || strings.Count(string(text), "# What moved") != 1 {
		t.Errorf("CHANGES.md:\n%s", text)
	}
	if out, code := script(t, env, "check", "staging"); code != 0 || !strings.HasPrefix(out, "staging: same (") || strings.Count(out, "\n") != 1 {
		t.Errorf("what was accepted: exit code %d\n%s", code, out)
	}
	if out, code := script(t, append(env, "REASON=once more"), "accept", "staging"); code != 0 || !strings.Contains(out, "nothing has moved") {
		t.Errorf("nothing moved: exit code %d\n%s", code, out)
	}
	if out, code := script(t, append(env, "REASON=with flags"), "accept", "staging", "--", "--seed", "2"); code != 1 || !strings.Contains(out, "without flags") {
		t.Errorf("flags: exit code %d\n%s", code, out)
	}
}

// TestKeepRefuses what nothing could be held against.
func TestKeepRefuses(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"measured on host":  `{"schema_version": 2, "name": "x", "ground": "host", "state": "complete"}`,
		"is not complete":   `{"schema_version": 2, "name": "x", "ground": "sim", "state": "cut short"}`,
		"has no points.csv": "",
	} {
		dir := t.TempDir()
		points := strings.Join(report.Header(), ",") + "\n"
		if text == "" {
			text, points = `{"schema_version": 2, "name": "x", "ground": "sim", "state": "complete"}`, ""
		}
		if err := os.WriteFile(dir+"/manifest.json", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if points != "" {
			if err := os.WriteFile(dir+"/points.csv", []byte(points), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := run([]string{dir, t.TempDir()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
	if err := run(nil); err == nil {
		t.Error("no arguments are no error")
	}
}
