package profiles

import (
	"strings"
	"testing"
)

// TestMistakesHavePlaces: what only others can judge is said of the line where it stands in the file, or of the flag that it came from.
func TestMistakesHavePlaces(t *testing.T) {
	t.Parallel()
	const text = `name: p
server:
  kind: memcached
  settings: {slots: many}
workload: {kind: kv, classes: [{name: a, share: 1, keys: 1, value: 1B}]}
load: {rates: [1]}
controllers:
  - {name: none}
  - name: codel
    settings:
      target: 5
`
	p, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set := func(p *Profile, key, value string) *Profile {
		q, err := p.Set([]Assignment{{Key: key, Value: value, Origin: "--set " + key + "=" + value}})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	only, err := p.WithControllers([]string{"codel", "fixed"}, []string{"codel", "fixed"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		p          *Profile
		path, want string
	}{
		{p, "server.settings.slots", "p.yaml:4:14: wrong"},
		{p, "server.settings.queue", "p.yaml:4:3: wrong"},
		{p, "controllers.1.settings.target", "p.yaml:11:7: wrong"},
		{p, "controllers.0.settings.target", "p.yaml:8:6: wrong"},
		{p, "retry", "p.yaml: wrong"},
		{only, "controllers.0.settings.target", "p.yaml:11:7: wrong"},
		{only, "controllers.1.settings.target", "p.yaml:7:1: wrong"},
		{set(p, "seed", "9"), "controllers.1.settings.target", "p.yaml:11:7: wrong"},
		{set(p, "controllers.1.settings.target", "6"), "controllers.1.settings.target", "--set controllers.1.settings.target=6: wrong"},
		{set(set(p, "seed", "9"), "warmup", "0s"), "server.settings.slots", "p.yaml:4:14: wrong"},
	} {
		if got := tt.p.Mistake(tt.path, "wrong").Error(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
}
