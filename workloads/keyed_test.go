package workloads

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/machine"
)

// keyed returns a workload of each kind whose classes differ, by kind, with the patterns that tell them apart.
func keyed(t *testing.T) map[string]struct {
	Keyed
	want []string
} {
	t.Helper()
	one := bytesOf(1)
	kv, err := NewKV([]KVClass{{Name: "a", Share: 0.5, Keys: 9, ValueSize: one}, {Name: "b", Share: 0.5, Keys: 9, ValueSize: one, KeyPrefix: "a-b"}})
	if err != nil {
		t.Fatal(err)
	}
	synthetic, err := NewSynthetic([]SyntheticClass{
		{Name: "a", Share: 0.5, Work: []SyntheticStep{{Kind: machine.Compute, Amount: one}}},
		{Name: "b#a", Share: 0.5, Work: []SyntheticStep{{Kind: machine.Compute, Amount: one}}},
	})
	if err == nil {
		err = synthetic.Mark()
	}
	if err != nil {
		t.Fatal(err)
	}
	graph, err := NewGraph([]GraphClass{
		{Name: "a", Share: 0.2, Query: "path"}, {Name: "b", Share: 0.2, Query: "path", Hops: 2}, {Name: "c", Share: 0.2, Query: "pagerank"},
		{Name: "d", Share: 0.2, Query: "pagerank", Accuracy: 1e-4}, {Name: "e", Share: 0.2, Query: "two-hop"},
	}, 30, 4)
	if err != nil {
		t.Fatal(err)
	}
	mailboxes, err := NewMailboxLoad(DefaultMailboxes(), []MailboxClass{
		{Name: "a", Share: 0.5, Boxes: 20}, {Name: "b", Share: 0.5, Bytes: one, Hold: one},
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]struct {
		Keyed
		want []string
	}{
		"kv": {kv, []string{"a-*", "a-b*"}}, "synthetic": {synthetic, []string{"*#a", "*#b#a"}}, "mailbox": {mailboxes, []string{"a-*", "!*"}},
		"graph": {graph, []string{"p/*/6", "p/*/2", "r/*", "r/*/0.0001", "2/*"}},
	}
}

// TestPatternsTellClassesApart draws from each kind of workload: of the patterns that a key matches the longest is that of its class.
func TestPatternsTellClassesApart(t *testing.T) {
	t.Parallel()
	for kind, w := range keyed(t) {
		patterns, err := w.Patterns()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.want, patterns); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		var op Op
		for range 2000 {
			w.Keyed.(Workload).Next(rng, &op)
			class, longest := -1, 0
			for i, p := range patterns {
				prefix, suffix, _ := strings.Cut(p, "*")
				key := string(op.Key)
				if len(key) >= len(prefix)+len(suffix) && strings.HasPrefix(key, prefix) && strings.HasSuffix(key, suffix) && len(p) > longest {
					class, longest = i, len(p)
				}
			}
			if class != int(op.Class) {
				t.Fatalf("%s: key %q of class %d passes for class %d", kind, op.Key, op.Class, class)
			}
		}
	}
}

func TestClassesThatAreAlike(t *testing.T) {
	t.Parallel()
	one := bytesOf(1)
	kv := func(a, b string) Keyed {
		w, err := NewKV([]KVClass{{Name: "a", Share: 0.5, Keys: 9, ValueSize: one, KeyPrefix: a}, {Name: "b", Share: 0.5, Keys: 9, ValueSize: one, KeyPrefix: b}})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	graph, err := NewGraph([]GraphClass{{Name: "a", Share: 0.5, Query: "path"}, {Name: "b", Share: 0.5, Query: "path", Hops: DefaultHops}}, 9, 1)
	if err != nil {
		t.Fatal(err)
	}
	boxes, err := NewMailboxLoad(DefaultMailboxes(), []MailboxClass{{Name: "a", Share: 0.5, Boxes: 9, Prefix: "m"}, {Name: "b", Share: 0.5, Boxes: 9, Prefix: "m1"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Keyed{"one prefix": kv("k", "k"), "digits": kv("k1", "k"), "graph": graph, "mailboxes": boxes} {
		if _, err := w.Patterns(); err == nil || !strings.Contains(err.Error(), "a and b ask for the same keys") &&
			!strings.Contains(err.Error(), "b and a ask for the same keys") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	long := strings.Repeat("x", 250)
	work := []SyntheticStep{{Kind: machine.Compute, Amount: one}}
	s, err := NewSynthetic([]SyntheticClass{{Name: long, Share: 1, Work: work}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Patterns(); err == nil || !strings.Contains(err.Error(), "do not say of which class") {
		t.Errorf("unmarked: %v", err)
	}
	if err := s.Mark(); err == nil || !strings.Contains(err.Error(), "shorter name") {
		t.Errorf("a name that does not fit: %v", err)
	}
}
