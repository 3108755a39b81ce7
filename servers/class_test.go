//go:build linux

package servers_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/control"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/memcached"
	"spillway/servers/synthetic"
)

// rules are of three classes, one of which has two patterns.
var rules = []servers.ClassRule{
	{Class: "users", Pattern: "user:*"}, {Class: "photos", Pattern: "*.jpg"}, {Class: "big", Pattern: "user:*.jpg"}, {Class: "big", Pattern: "it"},
}

// TestClassesByKey: with rules the longest pattern that a key matches says the class, whatever is done with the key, and counts are by that class.
func TestClassesByKey(t *testing.T) {
	t.Parallel()
	seen := &classes{}
	f := start(t, seen, func(c *servers.Config, _ *memcached.Config) { c.Classes = rules })
	c := f.dial(t)
	const shed = "SERVER_ERROR overloaded fraction\r\n"
	// The class is 0 for users, 1 for photos, 2 for big, 3 for what matches no rule.
	c.do("get user:1\r\nmg user:\r\nset user:2 0 0 1\r\nx\r\nget a.jpg\r\nget .jpg\r\nget user:1.jpg\r\nget user:.jpg\r\ndelete it\r\nget its\r\n"+
		"get user:5 a.jpg\r\nget user\r\nincr a.jp 1\r\n", strings.Repeat(shed, 12))
	if want := "[0 0 0 1 1 2 2 2 3 0 3 3] [0 0 1 0 0 0 0 0 0 0 0 0]"; seen.String() != want {
		t.Errorf("the controller saw classes and bytes %v, want %s", seen, want)
	}
	got := c.stats("spillway")
	for name, want := range map[string]string{
		"arrivals_users": "4", "arrivals_photos": "2", "arrivals_big": "3", "arrivals_unclassed": "3", "shed_users_fraction": "4",
		"shed_photos_fraction": "2", "shed_big_fraction": "3", "shed_unclassed_fraction": "3", "arrivals_get": "", "arrivals": "12",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// TestClassesOfModelledRequests: on a modelled machine the same rules hold, and what is shed there is of the class of its request.
func TestClassesOfModelledRequests(t *testing.T) {
	t.Parallel()
	config := servers.Default()
	config.Listen = []string{"127.0.0.1:0"}
	config.Classes = []servers.ClassRule{{Class: "a", Pattern: "*#a"}, {Class: "b", Pattern: "*#b"}}
	config.Model = &servers.Model{Machine: machine.Spec{Cores: 1}, Scale: 1, Costs: synthetic.Costs{}}
	seen := &classes{}
	f := serveConfig(t, synthetic.New(), control.Stack{Controller: seen}, config)
	c := f.dial(t)
	const shed = "SERVER_ERROR overloaded fraction\r\n"
	c.do("mg c1us#a v\r\nget c1us#b\r\nmg c1us#b v\r\nmg c1us v\r\n", strings.Repeat(shed, 4))
	if want := "[0 1 1 2] [0 0 0 0]"; seen.String() != want {
		t.Errorf("the controller saw classes and bytes %v, want %s", seen, want)
	}
	if got := c.stats("spillway"); got["shed_a_fraction"] != "1" || got["shed_b_fraction"] != "2" || got["shed_unclassed_fraction"] != "1" {
		t.Errorf("counts %v", got)
	}
}

// TestClassCountsAddUp: whatever becomes of requests, those of the classes together are all there are; also of those that are withdrawn
// because their client has gone.
func TestClassCountsAddUp(t *testing.T) {
	t.Parallel()
	hold := &holding{}
	f := start(t, hold, func(c *servers.Config, _ *memcached.Config) { c.Classes = rules })
	gone, c := f.dial(t), f.dial(t)
	gone.send("get user:1\r\nget a.jpg\r\nget a.jpg\r\n")
	c.await("spillway", "queued", 3)
	if err := gone.Conn.(*net.TCPConn).SetLinger(0); err != nil { // so that Close says reset
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	c.await("spillway", "queued", 0)
	hold.release()
	c.do("get user:1\r\nget x\r\n", "END\r\nEND\r\n")
	sums := map[string]int{}
	for name, text := range c.stats("spillway") {
		n, _ := strconv.Atoi(text)
		for _, class := range []string{"users", "photos", "big", servers.Unclassed} {
			if rest, ok := strings.CutPrefix(name, "shed_"+class+"_"); ok {
				sums["shed_"+rest] += n
				sums[class] += n
			}
			if name == "arrivals_"+class {
				sums["arrivals"] += n
			}
		}
	}
	got := map[string]int{
		"arrivals": sums["arrivals"], "cancelled": sums["shed_cancelled"], "of users": sums["users"], "of photos": sums["photos"],
		"of the rest": sums["big"] + sums[servers.Unclassed],
	}
	want := map[string]int{"arrivals": 5, "cancelled": 3, "of users": 1, "of photos": 2, "of the rest": 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestClassRulesAreChecked(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]servers.ClassRule{
		"PREFIX*SUFFIX":    {Class: "a", Pattern: "x*y*z"},
		`pattern "" is no`: {Class: "a"},
		"choose another":   {Class: servers.Unclassed, Pattern: "x*"},
		"a name has":       {Class: "a b", Pattern: "x*"},
	} {
		c := servers.Default()
		c.Classes = []servers.ClassRule{rule}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %s", rule, err, want)
		}
	}
	if diff := cmp.Diff([]string{"users", "photos", "big", servers.Unclassed}, servers.ClassNames(rules, []string{"own"})); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"own"}, servers.ClassNames(nil, []string{"own"})); diff != "" {
		t.Errorf("names of a backend's own (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get", "set", "delete", "other"}, servers.ClassNames(nil, nil)); diff != "" {
		t.Errorf("names of verbs (-want +got):\n%s", diff)
	}
}
