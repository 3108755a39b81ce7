package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSpelling(t *testing.T) {
	t.Parallel()
	steps := []Step{
		{Kind: Compute, Duration: 72 * time.Microsecond},
		{Kind: Enter, Index: 3},
		{Kind: Stream, Bytes: 819200},
		{Kind: Stream, Bytes: 7, Rate: 3e9},
		{Kind: Leave, Index: 3},
		{Kind: Lock, Index: 63, Duration: 1234567},
		{Kind: Delay, Duration: 2 * time.Millisecond},
		{Kind: Memory, Bytes: 4096},
	}
	text := AppendSteps(nil, steps)
	if want := "c72us,e3,s819200,s7@3000000000,x3,l63:1234567ns,d2ms,m4096"; string(text) != want {
		t.Errorf("spelled %s, want %s", text, want)
	}
	got, err := ParseSteps(nil, append(text, "#17,anything"...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestSpellingErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"q1", "c", "c72", "c-1us", "c2h", ",", "c1us,", "s-1", "s1@0", "s1@x", "s1@NaN", "s99999999999999", "l0", "l64:1us", "l:1us", "e", "e-1", "x64", "m", "m1kB",
	} {
		if got, err := ParseSteps(nil, []byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func FuzzParseSteps(f *testing.F) {
	for _, seed := range []string{"c72us,s819200", "l0:10us,d1ms", "e0,m4096,x0#1", "s1@0.5", ",,", "c1.5us"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		steps, err := ParseSteps(nil, text)
		if err != nil {
			return
		}
		again, err := ParseSteps(nil, AppendSteps(nil, steps))
		if err != nil {
			t.Fatalf("what %q spells cannot be read back: %v", text, err)
		}
		if diff := cmp.Diff(steps, again); diff != "" {
			t.Fatalf("%q read twice differs:\n%s", text, diff)
		}
	})
}
