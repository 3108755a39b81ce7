package profiles

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzParse feeds the loader arbitrary text. Whatever it accepts must survive being written and read again unchanged; whatever it
// refuses must be refused with a place.
func FuzzParse(f *testing.F) {
	f.Add([]byte(base))
	f.Add([]byte(everything))
	for _, name := range Names() {
		text, err := shipped.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("f.yaml", text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is not an *Error", err)
			}
			return
		}
		again, err := Parse("again.yaml", p.Resolved())
		if err != nil {
			t.Fatalf("the resolved form is refused: %v\n%s", err, p.Resolved())
		}
		if diff := cmp.Diff(p, again, cmpopts.IgnoreUnexported(Profile{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("not the same after Resolved (-first +second):\n%s", diff)
		}
	})
}

func FuzzSet(f *testing.F) {
	f.Add("window", "5s")
	f.Add("load", "{of_capacity: [1]}")
	f.Add("controllers.0.settings.a.b", "x")
	p, err := Parse("f.yaml", []byte(base))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		q, err := p.Set([]Assignment{{Key: key, Value: value, Origin: "--set"}})
		if err == nil && q == nil {
			t.Fatal("neither a profile nor an error")
		}
	})
}
