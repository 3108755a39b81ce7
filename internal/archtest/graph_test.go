package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	graphNode = regexp.MustCompile(`(\w+)\["?([^"\]]+)"?\]`)
	graphEdge = regexp.MustCompile(`^\s*(\w+)(?:\[[^\]]*\])? --> (.+)$`)
)

// checkGraph holds the Mermaid graph in text against what the packages import: every arrow is an import, and every package is drawn.
// A node may stand for several packages, written "a, b".
func checkGraph(text string, list []*source) (bad []string) {
	_, graph, _ := strings.Cut(text, "```mermaid\n")
	graph, _, ok := strings.Cut(graph, "```")
	if !ok {
		return []string{"there is no mermaid graph"}
	}
	packages := map[string][]string{} // by name of the node
	for _, m := range graphNode.FindAllStringSubmatch(graph, -1) {
		packages[m[1]] = strings.Split(m[2], ", ")
	}
	drawn := func(node string) []string {
		if p, ok := packages[node]; ok {
			return p
		}
		return []string{node}
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(graph, "\n") {
		if m := graphNode.FindStringSubmatch(line); m != nil {
			for _, p := range drawn(m[1]) {
				seen[p] = true
			}
		}
		m := graphEdge.FindStringSubmatch(line)
		if m == nil {
			seen[strings.TrimSpace(line)] = true
			continue
		}
		for _, to := range strings.Split(graphNode.ReplaceAllString(m[2], "$1"), " & ") {
			for _, p := range drawn(m[1]) {
				seen[p] = true
				for _, q := range drawn(to) {
					seen[q] = true
					if !imports(list, p, q) {
						bad = append(bad, fmt.Sprintf("the graph has an arrow from %s to %s, and there is no such import", p, q))
					}
				}
			}
		}
	}
	for _, s := range list {
		if !seen[s.pkg] && !forTests(s.pkg) {
			seen[s.pkg] = true
			bad = append(bad, fmt.Sprintf("the graph does not have package %s", s.pkg))
		}
	}
	return bad
}

// imports reports whether a file of package from, tests apart, imports package to.
func imports(list []*source, from, to string) bool {
	return slices.ContainsFunc(list, func(s *source) bool {
		return s.pkg == from && !s.test && slices.ContainsFunc(s.imports, func(i imported) bool { return i.ours == to })
	})
}

func TestArchitectureGraph(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, checkGraph(string(text), tree(t)))
}

func TestPlantedGraph(t *testing.T) {
	t.Parallel()
	list := append(plant(t, "a/a.go", `package a; import ("spillway/b"; "spillway/c/d")`), plant(t, "b/b.go", "package b")...)
	list = append(list, plant(t, "c/d/d.go", "package d")...)
	tests := []struct{ graph, want string }{
		{"  b\n  a --> b & cd[c/d]\n", ""},
		{"  cd[c/d]\n  a --> cd & b\n", ""},
		{"  both[\"b, c/d\"]\n  a --> both\n", ""},
		{"  a --> b\n", "does not have package c/d"},
		{"  a --> b & cd[c/d]\n  b --> cd\n", "from b to c/d"},
	}
	for _, tt := range tests {
		bad := checkGraph("text\n```mermaid\ngraph BT\n"+tt.graph+"```\n", list)
		if (tt.want == "") != (len(bad) == 0) || tt.want != "" && !strings.Contains(bad[0], tt.want) {
			t.Errorf("%q: found %q, want %q", tt.graph, bad, tt.want)
		}
	}
	if bad := checkGraph("no graph", list); len(bad) == 0 {
		t.Error("a document without a graph passes")
	}
}
