package profiles_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/profiles"
)

func TestFlat(t *testing.T) {
	t.Parallel()
	got, err := profiles.Flat("x.yaml", []byte("name: a\nno_such_key: {deep: [1, {x: two}], none: null}\nempty: []\nset: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"name": "a", "no_such_key.deep.0": "1", "no_such_key.deep.1.x": "two", "no_such_key.none": "null", "empty": "[]", "set": "{}",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := profiles.Flat("x.yaml", []byte("name: [")); err == nil {
		t.Error("half a profile was read")
	}
}

// TestFlatOfEveryShippedProfile: what is resolved can be read, and is the same again.
func TestFlatOfEveryShippedProfile(t *testing.T) {
	t.Parallel()
	for _, name := range profiles.Names() {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		flat, err := profiles.Flat(name, p.Resolved())
		if err != nil || flat["name"] != name || flat["controllers.0.name"] == "" {
			t.Errorf("%s: %v, %v", name, flat, err)
		}
	}
}
