package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// report fails the test with every violation on a line of its own.
func report(t *testing.T, bad []string) {
	t.Helper()
	for _, line := range bad {
		t.Error(line)
	}
}

func TestArrows(t *testing.T) {
	t.Parallel()
	list := tree(t)
	report(t, checkArrows(list))
	report(t, checkRows(list, mayImport))
}

func TestThirdParty(t *testing.T) {
	t.Parallel()
	report(t, checkModules(tree(t)))
}

func TestForbiddenImports(t *testing.T) {
	t.Parallel()
	report(t, checkImports(tree(t)))
}

func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	report(t, checkCalls(tree(t)))
}

func TestGoroutines(t *testing.T) {
	t.Parallel()
	report(t, checkGoroutines(tree(t)))
}

func TestSizes(t *testing.T) {
	t.Parallel()
	report(t, checkSizes(tree(t)))
}

func TestInit(t *testing.T) {
	t.Parallel()
	report(t, checkInit(tree(t)))
}

func TestDocComments(t *testing.T) {
	t.Parallel()
	report(t, checkDocs(tree(t)))
}

// TestNetIsOutOfReach asks the go command for everything that the controllers and the workloads are built from, however far away. os
// and context are not asked about: fmt brings them in.
func TestNetIsOutOfReach(t *testing.T) {
	t.Parallel()
	dir := root(t)
	var patterns []string
	for _, p := range []string{"control", "workloads", "sim", "machine"} {
		if _, err := os.Stat(filepath.Join(dir, p)); err == nil {
			patterns = append(patterns, "./"+p+"/...")
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-deps", "-json=ImportPath"}, patterns...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); packages++ {
		var p struct{ ImportPath string }
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "net" || strings.HasPrefix(p.ImportPath, "net/") && p.ImportPath != "net/url" && p.ImportPath != "net/netip" {
			t.Errorf("%s is built into %s: what decides must not be able to reach a socket", p.ImportPath, strings.Join(patterns, " "))
		}
	}
	if packages < 10 {
		t.Errorf("go list named %d packages; it can hardly have seen the tree", packages)
	}
}

var text = regexp.MustCompile(`(\.(go|md|sh|yaml|yml|mod|txt|txtar|tmpl|html|css|js)|^Makefile|^\.ci/run|^\.gitignore)$`)

func TestText(t *testing.T) {
	t.Parallel()
	dir := root(t)
	list := files(t, dir)
	adrs := map[string]bool{}
	for _, name := range list {
		if number, _, ok := strings.Cut(path.Base(name), "-"); ok && path.Dir(name) == "docs/adr" {
			if adrs[number] {
				t.Errorf("two decisions have the number %s", number)
			}
			adrs[number] = true
		}
	}
	for _, name := range list {
		// The rules themselves name what they look for.
		if !text.MatchString(name) || path.Dir(name) == "internal/archtest" && path.Ext(name) == ".go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkText(name, string(content), adrs))
		if n := strings.Count(string(content), "\n"); n > maxFileLines && (strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css")) {
			t.Errorf("%s: %d lines of a script or a sheet, more than %d", name, n, maxFileLines)
		}
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, target := range relativeLinks(string(content)) {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path.Join(path.Dir(name), target)))); err != nil {
				t.Errorf("%s: links to %s, which is not there", name, target)
			}
		}
	}
}

// TestDecisionsAreShort keeps every decision record on a page and in the agreed form.
func TestDecisionsAreShort(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root(t), "docs", "adr")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	form := []string{"# ", "## Context", "## Decision", "## Consequences"}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var heads []string
		lines := strings.Split(string(content), "\n")
		for _, line := range lines {
			if strings.HasPrefix(line, "#") {
				heads = append(heads, line)
			}
		}
		if len(heads) != len(form) || !strings.HasPrefix(heads[0], "# ") || !slices.Equal(heads[1:], form[1:]) {
			t.Errorf("%s: headings are %q, want a title, Context, Decision, Consequences", e.Name(), heads)
		}
		if len(lines) > 60 {
			t.Errorf("%s: %d lines, more than a page of 60", e.Name(), len(lines))
		}
	}
}
