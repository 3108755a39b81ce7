//go:build linux

package harness

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spillway/profiles"
)

const webText = `name: shop
on: host
server: {kind: web, settings: {memory: 8MiB}}
workload:
  kind: kv
  connections: 4
  arrivals: poisson
  classes:
    - {name: read, share: 0.9, op: get, keys: 100, value: 100B, slo: 20ms}
    - {name: write, share: 0.1, op: set, keys: 100, value: 100B, priority: 1}
controllers: [{name: none}, {name: codel}]
load: {rates: [100]}
warmup: 100ms
window: 1s
`

func webProfile(t *testing.T, replace ...string) *profiles.Profile {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(webText, replace[i]) {
			t.Fatalf("the profile has no %q", replace[i])
		}
	}
	p, err := profiles.Parse("shop.yaml", []byte(strings.NewReplacer(replace...).Replace(webText)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWebRefused(t *testing.T) {
	t.Parallel()
	if got := Grounds(webProfile(t)); !slices.Equal(got, []string{"host"}) {
		t.Errorf("it runs on %v", got)
	}
	for _, tt := range []struct{ old, new, want string }{
		{"on: host", "on: sim", "shop.yaml:3:10: server.kind: web: not on the ground sim: it is net/http on this computer's sockets"},
		{"on: host", "on: model", "not on the ground model"},
		{"kind: web,", "kind: web, replicas: 2,", "over HTTP there is one server"},
		{"memory: 8MiB", "hold: 8MiB", "hold is of the store for the workload synthetic, and this one is kv"},
		{"memory: 8MiB", "memry: 8MiB", `web has no setting "memry"; did you mean "memory"?`},
		{"memory: 8MiB", "max_item: 8MiB, memory: 8MiB", "at most half of the memory"},
		{"memory: 8MiB", "max_conns: 20", "max_conns: 20 is too few for the 4112"},
		{"slo: 20ms", "slo: {p50: 5ms, p99: 20ms}", "class read: slo: refserver web takes one limit"},
		{"op: set", "op: multiget, batch: 2", "HTTP has no multiget"},
		{"{name: codel}", "{name: dagor}", "shop.yaml:11:30: controllers: dagor: one half of it is at clients"},
		{"{name: codel}", "{name: svalinn, as: credits}", "controllers: credits: one half of it is at clients"},
		{"connections: 4", "connections: 4\n  client: gomemcache", "gomemcache speaks no HTTP"},
		{"keys: 100, value: 100B, slo", "keys: 100000, value: 1kB, slo", "server.settings.memory is 8"},
	} {
		_, err := Run(t.Context(), Config{Profile: webProfile(t, tt.old, tt.new), Refserver: "/nonexistent", Out: filepath.Join(t.TempDir(), "out")})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.new, err, tt.want)
		}
	}
}

func TestWebFlags(t *testing.T) {
	t.Parallel()
	h, err := newHost(&Config{Refserver: "refserver"}, webProfile(t))
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Join(h.flags, " "), "--memory 8MiB --slo 20ms --store kv --class read,slo=20ms --class write,priority=1"
	if got != want {
		t.Errorf("flags %q, want %q", got, want)
	}
	if got := webURL("synthetic", "127.0.0.1:1"); got != "http://127.0.0.1:1/work/{key}" {
		t.Errorf("work is asked for at %s", got)
	}
}
