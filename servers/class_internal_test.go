//go:build linux

package servers

import (
	"testing"

	"spillway/internal/memproto"
)

// TestClassesDoNotAllocate: every request is asked for its class.
func TestClassesDoNotAllocate(t *testing.T) {
	c := newClasses([]ClassRule{{Class: "a", Pattern: "user:*"}, {Class: "b", Pattern: "*.jpg"}, {Class: "c", Pattern: "r/*/1e-06"}}, nil)
	keys := [][]byte{[]byte("user:1"), []byte("x.jpg"), []byte("r/7/1e-06"), []byte("r/7")}
	cmd, i := &memproto.Command{Verb: memproto.Get}, 0
	if n := testing.AllocsPerRun(1000, func() {
		cmd.Key = keys[i%len(keys)]
		if got := c.of(cmd); int(got) != i%len(keys) {
			t.Fatalf("%s is of class %d", cmd.Key, got)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkClassOf measures what telling the class of a request costs with sixteen rules, of which the last matches.
func BenchmarkClassOf(b *testing.B) {
	var rules []ClassRule
	for i := range 16 {
		rules = append(rules, ClassRule{Class: string(rune('a' + i)), Pattern: string(rune('a'+i)) + "*#name"})
	}
	c := newClasses(rules, nil)
	cmd := &memproto.Command{Verb: memproto.Get, Key: []byte("p:0000000000000001#name")}
	b.ReportAllocs()
	for b.Loop() {
		c.of(cmd)
	}
}
