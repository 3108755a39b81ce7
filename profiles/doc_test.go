package profiles

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestReferenceNamesEveryKey: docs/profiles.md is for users to find a key in, so it has all of them, and what stands there can be run.
func TestReferenceNamesEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for _, key := range keysOf(typ) {
			// In code, alone or at the end of a path, or as a key of an example.
			if !regexp.MustCompile("[`.,{ ]" + key + "[`:]").Match(text) {
				t.Errorf("%s of %s is not in docs/profiles.md", key, typ.Name())
			}
		}
		for i := range typ.NumField() {
			look(typ.Field(i).Type)
		}
	}
	look(reflect.TypeFor[Profile]())
	if len(seen) < 15 {
		t.Errorf("only %d kinds of keys were looked at", len(seen))
	}
	for _, m := range []string{MetricShare, MetricRegret, MetricSettle, MetricSlowest, MetricSwitches} {
		if !strings.Contains(string(text), "`"+m+"`") {
			t.Errorf("the metric %s is not in docs/profiles.md", m)
		}
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	for _, b := range blocks {
		if _, err := Parse("docs/profiles.md", b[1]); err != nil {
			t.Error(err)
		}
	}
	if len(blocks) < 2 {
		t.Errorf("%d examples were found", len(blocks))
	}
}
