package profiles

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/workloads"
)

const graphText = `name: g
server: {kind: graph}
workload:
  kind: graph
  classes:
    - {name: near, share: 0.9, slo: {p50: 1ms, p99: 5ms}, query: neighbours, popularity: "zipf:0.9"}
    - {name: far, share: 0.06, query: path, hops: 4}
    - {name: rank, share: 0.04, query: pagerank, accuracy: 0.00001}
load: {rates: [1k]}
controllers: [{name: none}]
`

func TestGraphClasses(t *testing.T) {
	t.Parallel()
	p, err := Parse("g.yaml", []byte(graphText))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", p.Resolved())
	if err != nil {
		t.Fatal(err)
	}
	want := []workloads.GraphClass{
		{Name: "near", Share: 0.9, SLO: 5e6, Query: "neighbours", Popularity: "zipf:0.9"},
		{Name: "far", Share: 0.06, Query: "path", Hops: 4},
		{Name: "rank", Share: 0.04, Query: "pagerank", Accuracy: 1e-5},
	}
	for _, p := range []*Profile{p, again} {
		got, err := p.Workload.GraphClasses()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", p.File(), err, diff)
		}
	}
	if _, err := (&Workload{Kind: kindKV}).GraphClasses(); err == nil {
		t.Error("a workload of another kind has graph classes")
	}
}

func TestGraphMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ old, new, want string }{
		{"query: neighbours", "query: neighbors", `g.yaml:6:66: unknown query "neighbors"; did you mean "neighbours"?`},
		{", query: neighbours", "", "g.yaml:6:8: workload.classes.0.query is missing; it is one of neighbours, triangles"},
		{"hops: 4", "hops: 65", "hops is for path, from 1 to 64"},
		{"query: path", "query: two-hop", "hops is for path"},
		{"accuracy: 0.00001", "accuracy: 2", "accuracy is for pagerank, from 1e-8 to 1"},
		{"zipf:0.9", "zpf:1", `popularity "zpf:1"`},
		{"hops: 4", "keys: 9", "g.yaml:7:51: keys belongs to the workload kind kv, this is graph"},
		{"hops: 4", "work: [{compute: 1us}]", "g.yaml:7:51: work belongs to the workload kind synthetic, this is graph"},
		{"  kind: graph", "  kind: synthetic", "g.yaml:6:66: query belongs to the workload kind graph, this is synthetic"},
		{"  kind: graph", "  kind: kv", "g.yaml:6:66: query belongs to the workload kind graph, this is kv"},
	} {
		if !strings.Contains(graphText, tt.old) {
			t.Fatalf("the profile has no %q", tt.old)
		}
		_, err := Parse("g.yaml", []byte(strings.Replace(graphText, tt.old, tt.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want it to have %q", tt.new, err, tt.want)
		}
	}
}
