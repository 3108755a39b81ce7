//go:build linux

package harness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/profiles"
)

func TestAdHocProfile(t *testing.T) {
	t.Parallel()
	a := AdHoc{
		Target: "memcached://127.0.0.1:11211", Rate: "20k", Duration: 5 * time.Second, Arrivals: "constant", Connections: 3,
		Timeout: time.Second, Seed: 9,
	}
	p, err := a.Profile()
	if err != nil {
		t.Fatal(err)
	}
	want := []profiles.Class{{Name: "get", Share: 1, Key: "spillway-", Keys: 10_000, Value: "100B", Op: "get"}}
	if diff := cmp.Diff(want, p.Workload.Classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	if p.WarmUp != 0 || p.Window != 5*time.Second || p.Drain != time.Second || p.Seed != 9 || p.Load.Rates[0] != 20e3 || refuse(p) != nil {
		t.Errorf("profile %s\n%v", p.Resolved(), refuse(p))
	}
	a.Classes, a.SLO = "bimodal-get", 7*time.Millisecond
	if p, err = a.Profile(); err != nil || len(p.Workload.Classes) != 2 || p.Workload.Classes[1].SLO.Limit != a.SLO {
		t.Errorf("with a preset: %v, %v", p, err)
	}
	for field, change := range map[string]func(*AdHoc){
		"TLS is not":   func(a *AdHoc) { a.Target = "https://localhost/" },
		"host:port":    func(a *AdHoc) { a.Target = "localhost:11211" },
		"11211":        func(a *AdHoc) { a.Target = "memcached://127.0.0.1" }, // which an example in the message has
		"a port is":    func(a *AdHoc) { a.Target = "memcached://127.0.0.1:99999" },
		"a port is 1":  func(a *AdHoc) { a.Target = "memcached://127.0.0.1:1,h:0" },
		"--rate":       func(a *AdHoc) { a.Rate = "fast" },
		"arrivals":     func(a *AdHoc) { a.Arrivals = "poison" },
		"preset":       func(a *AdHoc) { a.Classes = "bimodal" },
		`"share2"`:     func(a *AdHoc) { a.Classes = "[{name: a, share2: 1}]" },
		"connections":  func(a *AdHoc) { a.Connections = 0 },
		"duration \"-": func(a *AdHoc) { a.Duration = -time.Second },
	} {
		wrong := a
		change(&wrong)
		if _, err := wrong.Profile(); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), field) || strings.HasPrefix(err.Error(), "drive") {
			t.Errorf("error %v, want wrong usage that has %q", err, field)
		}
	}
}
