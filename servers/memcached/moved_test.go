//go:build linux

package memcached_test

import (
	"strconv"
	"strings"
	"testing"
)

// TestMovedBytes: large values are accounted for, read once and stored twice; small ones, and what is asked without its value, are not.
func TestMovedBytes(t *testing.T) {
	t.Parallel()
	b, path := startBackend(t)
	s := newStepper(t, path)
	set := func(key string, n int) {
		s.do("set " + key + " 0 0 " + strconv.Itoa(n) + "\r\n" + strings.Repeat("v", n) + "\r\n")
	}
	for _, step := range []struct {
		what string
		do   func()
		want uint64 // more than before
	}{
		{"a small value", func() { set("a", 3999) }, 0},
		{"a large one", func() { set("b", 4000) }, 8000},
		{"one beyond what is copied", func() { set("c", 100_000) }, 200_000},
		{"read small", func() { s.do("get a\r\n") }, 0},
		{"read large", func() { s.do("get b\r\n") }, 4000},
		{"read both", func() { s.do("get b c\r\n") }, 104_000},
		{"read by mg", func() { s.do("mg c v\r\n") }, 100_000},
		{"without the value", func() { s.do("mg c s\r\n") }, 0},
		{"a miss", func() { s.do("get d\r\n") }, 0},
	} {
		before := b.BytesMoved()
		step.do()
		if got := b.BytesMoved() - before; got != step.want {
			t.Errorf("%s: %d bytes moved, want %d", step.what, got, step.want)
		}
	}
}
