//go:build linux

package harness

import (
	"errors"
	"strings"
	"testing"
)

// TestHTTPTargets: what an HTTP server is asked where nobody says, and what it cannot be asked.
func TestHTTPTargets(t *testing.T) {
	t.Parallel()
	adHoc := AdHoc{Target: "http://127.0.0.1:8080/kv/{key}", Rate: "1k", Duration: 1e9, Arrivals: "poisson", Connections: 4, Timeout: 1e9}
	p, err := adHoc.Profile()
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Workload.Classes; len(c) != 1 || c[0].Keys != 10_000 || refuse(p) != nil {
		t.Errorf("%+v, %v", c, refuse(p))
	}
	adHoc.Target = "http://127.0.0.1:8080/page"
	if p, err = adHoc.Profile(); err != nil {
		t.Fatal(err)
	}
	if c := p.Workload.Classes; len(c) != 1 || c[0].Keys != 1 || refuse(p) != nil {
		t.Errorf("%+v, %v", c, refuse(p))
	}
	for want, change := range map[string]func(*AdHoc){
		"gomemcache speaks no HTTP": func(a *AdHoc) { a.Client = "gomemcache" },
		"one request under way":     func(a *AdHoc) { a.InFlight = 2 },
		"HTTP has no multiget":      func(a *AdHoc) { a.Classes = "[{name: a, share: 1, keys: 10, value: 10B, op: multiget, batch: 3}]" },
		"is only read":              func(a *AdHoc) { a.Classes = "[{name: a, share: 1, keys: 10, value: 10B, op: set}]" },
		"TLS is not spoken here":    func(a *AdHoc) { a.Target = "https://127.0.0.1" },
		"in braces there may be":    func(a *AdHoc) { a.Target = "http://127.0.0.1/{user}" },
	} {
		wrong := adHoc
		change(&wrong)
		p, err := wrong.Profile()
		if err == nil {
			err = refuse(p)
		}
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want wrong usage that has %q", err, want)
		}
	}
	// One that runs already is on the ground host only.
	moved := *p
	moved.On = groundSim
	if grounds := Grounds(&moved); len(grounds) != 1 || grounds[0] != groundHost {
		t.Errorf("grounds %v", grounds)
	}
}
