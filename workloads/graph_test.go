package workloads

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestGraphSpellsQueries(t *testing.T) {
	t.Parallel()
	w, err := NewGraph([]GraphClass{
		{Name: "a", Share: 0.2, Query: "neighbours"},
		{Name: "b", Share: 0.2, Query: "triangles"},
		{Name: "c", Share: 0.2, Query: "two-hop"},
		{Name: "d", Share: 0.2, Query: "path", Hops: 4},
		{Name: "e", Share: 0.2, Query: "pagerank", Accuracy: 0.001},
	}, 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	prefixes := []string{"n/", "t/", "2/", "p/", "r/"}
	counts := make([]int, len(prefixes))
	var op Op
	for range 5000 {
		w.Next(rng, &op)
		counts[op.Class]++
		words := strings.Split(string(op.Key), "/")
		if !strings.HasPrefix(string(op.Key), prefixes[op.Class]) || len(words[1]) != 1 {
			t.Fatalf("class %d asks %q", op.Class, op.Key)
		}
		switch op.Class {
		case 2:
			if words[2] != "0" && words[2] != "1" && words[2] != "2" {
				t.Fatalf("label in %q", op.Key)
			}
		case 3:
			if len(words) != 4 || words[3] != "4" {
				t.Fatalf("hops in %q", op.Key)
			}
		case 4:
			if words[2] != "0.001" {
				t.Fatalf("accuracy in %q", op.Key)
			}
		}
	}
	for class, n := range counts {
		if n < 880 || n > 1120 { // four standard deviations around 1000
			t.Errorf("class %d was asked %d times of 5000", class, n)
		}
	}
}

func TestGraphDoesNotAllocate(t *testing.T) {
	w, err := NewGraph([]GraphClass{{Name: "d", Share: 1, Query: "path", Popularity: "zipf:0.9"}}, 1000, 3)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var op Op
	w.Next(rng, &op)
	if allocs := testing.AllocsPerRun(100, func() { w.Next(rng, &op) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestGraphRefusesWrongClasses(t *testing.T) {
	t.Parallel()
	for want, classes := range map[string][]GraphClass{
		"at least one class": nil,
		"there are":          {{Name: "a", Share: 1, Query: "nearest"}},
		"sum to":             {{Name: "a", Share: 0.5, Query: "path"}},
		"negative":           {{Name: "a", Share: -1, Query: "path"}, {Name: "b", Share: 2, Query: "path"}},
		"accuracy":           {{Name: "a", Share: 1, Query: "path", Accuracy: 0.1}},
		"popularity":         {{Name: "a", Share: 1, Query: "path", Popularity: "nobody"}},
		"hops":               {{Name: "a", Share: 1, Query: "pagerank", Hops: 3}},
	} {
		if _, err := NewGraph(classes, 10, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}
