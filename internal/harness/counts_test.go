//go:build linux

package harness

import "testing"

// A server that is no server of ours says so before the load and after it: once is enough.
func TestUncounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, want string }{
		{"no statistics", "no statistics", "no statistics"},
		{"no statistics", "", "no statistics"},
		{"", "gone", "gone"},
		{"refused", "gone", "refused; gone"},
	} {
		if got := uncounted(Counts{Why: c.before}, Counts{Why: c.after}); got != c.want {
			t.Errorf("before %q, after %q: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}
