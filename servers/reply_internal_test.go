//go:build linux

package servers

import (
	"fmt"
	"strings"
	"testing"

	"spillway/internal/memproto"
)

// ask executes a meta get of a value on w.
func ask(t *testing.T, w *memproto.Writer, value string, end bool) {
	t.Helper()
	var cmd memproto.Command
	p := memproto.Parser{MaxItem: 1 << 20}
	if _, s := p.Parse([]byte("mg k v\r\n"), &cmd); s != memproto.Ready {
		t.Fatal(s)
	}
	w.Hit(&cmd, memproto.Item{Value: []byte(value)})
	if end {
		w.End(&cmd, memproto.Extras{})
	}
}

// text returns what is still to be sent of o.
func text(o *output) string {
	var b strings.Builder
	for _, piece := range o.pieces(nil) {
		b.Write(piece)
	}
	return b.String()
}

// TestNobodyGetsWhatAnotherAskedFor: a call whose client went before its reply was completed leaves nothing for the next command.
func TestNobodyGetsWhatAnotherAskedFor(t *testing.T) {
	t.Parallel()
	l := &loop{}
	q := attach(l.takeCall(), &conn{loop: l}, gated)
	ask(t, &q.w, "secret", false)
	l.freeCall(q)
	q = attach(l.takeCall(), &conn{loop: l}, gated)
	ask(t, &q.w, "mine", true)
	if got := string(q.w.Buf); got != "VA 4\r\nmine\r\n" {
		t.Errorf("%q", got)
	}
}

// TestCompactedOutputGoesOn: replies that follow after what has been sent was forgotten have their values in their places.
func TestCompactedOutputGoesOn(t *testing.T) {
	t.Parallel()
	small, large := strings.Repeat("s", 500), strings.Repeat("l", memproto.CopyBytes)
	var o output
	ask(t, &o.w, large, true)
	for range 100 {
		ask(t, &o.w, small, true)
	}
	ask(t, &o.w, large, true)
	o.sent(o.left() - len(large) - 2) // in the middle of the second large value
	o.compact()
	if len(o.w.Refs) != 1 {
		t.Fatalf("%d values are left, want 1: nothing was compacted", len(o.w.Refs))
	}
	want := text(&o)
	ask(t, &o.w, large, true)
	want += fmt.Sprintf("VA %d", len(large)) + "\r\n" + large + "\r\n"
	if got := text(&o); got != want {
		t.Errorf("%d bytes, want %d: they begin to differ at %d", len(got), len(want), differ(got, want))
	}
}

func differ(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
