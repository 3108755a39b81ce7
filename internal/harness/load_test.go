//go:build linux

package harness

import (
	"strings"
	"testing"
	"time"

	"spillway/profiles"
)

func TestFindCapacityIsAProfile(t *testing.T) {
	t.Parallel()
	a := AdHoc{
		Target: "memcached://127.0.0.1:1,127.0.0.1:2", FindCapacity: true, SLO: time.Millisecond, Duration: time.Second, Arrivals: "poisson", Connections: 4,
		Timeout: time.Second, Shape: "sine:0.5@1s", CatchUp: "skip:1ms", Client: "gomemcache", MaxConnections: 9, InFlight: 3, Senders: 2,
	}
	p, err := a.Profile()
	if err != nil {
		t.Fatal(err)
	}
	w := &p.Workload
	if len(p.Load.OfCapacity) != 1 || p.Load.OfCapacity[0].Value() != 1 || w.Shape != a.Shape || w.CatchUp != a.CatchUp || w.Client != a.Client ||
		w.MaxConnections != 9 || w.InFlight != 3 || w.Senders != 2 {
		t.Errorf("%+v, %+v", p.Load, w)
	}
	if err := refuse(p); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*AdHoc){
		"needs --slo":    func(a *AdHoc) { a.SLO = 0 },
		"leave --rate":   func(a *AdHoc) { a.Rate = "5k" },
		"--rate 20k, or": func(a *AdHoc) { a.FindCapacity = false },
		"a closed loop":  func(a *AdHoc) { a.Arrivals, a.Shape = "closed", "" },
	} {
		b := a
		change(&b)
		p, err := b.Profile()
		if err == nil {
			err = refuse(p)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestGroundsRefuseLoads: what a ground cannot do is refused by name, not left out.
func TestGroundsRefuseLoads(t *testing.T) {
	t.Parallel()
	const text = `name: p
on: %s
machine: {cores: 1}
server: {kind: memcached, settings: {costs: "memcached"}}
workload: {kind: kv, arrivals: poisson, %s}
load: {rates: [1k]}
controllers: [{name: none}]
`
	const plain = "classes: [{name: a, share: 1, keys: 10, value: 10B, op: get}]"
	for _, tc := range []struct{ on, load, want string }{
		{"sim", "classes: [{name: a, share: 1, keys: 10, value: 10B, write_back: b, key: k-}, {name: b, share: 0, keys: 10, value: 10B, op: set, key: k-}]", "misses"},
		{"model", "classes: [{name: a, share: 1, keys: 10, value: 10B, op: multiget}]", "modelled instants"},
		{"sim", "client: gomemcache, " + plain, "modelled time"},
	} {
		doc := strings.Replace(strings.Replace(text, "%s", tc.on, 1), "%s", tc.load, 1)
		p, err := profiles.Parse("p", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := refuseLoad(p); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s on %s: %v, want %q", tc.load, tc.on, err, tc.want)
		}
	}
}

func TestMemcachedFlags(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"memcached-external": "-I 2m -m 512", "quickstart": "-I 2m -m 256"} {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := memcachedFlags(p); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	p, err := (&AdHoc{Target: "memcached://127.0.0.1:1", Rate: "1k", Duration: time.Second, Arrivals: "poisson", Connections: 1, Timeout: time.Second}).Profile()
	if err != nil {
		t.Fatal(err)
	}
	if got := memcachedFlags(p); got != "" {
		t.Errorf("ten thousand keys of 100 B need %q", got)
	}
}
