package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/control/catalog"
)

func TestClassFlags(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	queries := []string{"neighbours", "pagerank"}
	for name, tt := range map[string]struct {
		flags classFlags
		want  []catalog.Class
	}{
		"nothing is known":         {classFlags{}, nil},
		"the server's own classes": {classFlags{own: queries}, []catalog.Class{{Name: "neighbours", Limit: 5 * ms}, {Name: "pagerank", Limit: 5 * ms}}},
		"objectives of the server's own classes": {
			classFlags{own: queries, slos: []string{"pagerank=p50:18ms,p99.9:50ms"}},
			[]catalog.Class{
				{Name: "neighbours"},
				{Name: "pagerank", Limit: 50 * ms, SLO: []catalog.Objective{{Percentile: 0.5, Limit: 18 * ms}, {Percentile: 0.9990000000000001, Limit: 50 * ms}}},
			},
		},
		"objectives of verbs": {
			classFlags{slos: []string{"set=2ms"}}, []catalog.Class{{Name: "get"}, {Name: "set", Limit: 2 * ms}, {Name: "delete"}, {Name: "other"}},
		},
		"rules": {
			classFlags{own: queries, rules: []string{"b=x*", "a=y=*", "b=z*"}, slos: []string{"a=3ms", "unclassed=4ms"}},
			[]catalog.Class{{Name: "b"}, {Name: "a", Limit: 3 * ms}, {Name: "unclassed", Limit: 4 * ms}},
		},
	} {
		rules, err := tt.flags.parse()
		if err != nil {
			t.Fatal(err)
		}
		got, err := tt.flags.classes(rules, 5*ms)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestClassUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"memcached --class a":                               "write NAME=PREFIX*SUFFIX",
		"memcached --class a=x*y*z":                         "is not PREFIX*SUFFIX",
		"memcached --class unclassed=x*":                    "choose another",
		"memcached --class-slo get":                         "write NAME=10ms",
		"memcached --class-slo got=5ms":                     "there is no class got; there are get, set, delete, other",
		"memcached --class a=b* --class-slo get=5ms":        "there is no class get; there are a, unclassed",
		"graph --vertices 9 --class-slo get=5ms":            "there are neighbours, triangles, two-hop, path, pagerank",
		"memcached --class-slo get=5ms --class-slo get=6ms": "class get has an objective already",
		"memcached --class-slo get=5":                       "has no unit",
		"memcached --class-slo get=0s":                      "an objective is above 0",
		"memcached --class-slo get=p50:5ms,q90:9ms":         `"q90" is not a percentile`,
		"memcached --class-slo get=p100:5ms":                `"p100" is not a percentile`,
		"memcached --class-slo get=p50:0s":                  "an objective is above 0",
		"memcached --class a=x* --control bouncer":          "no class has an SLO",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, stderr %q, want something about %q", args, code, stderr.String(), want)
		}
	}
}

// TestBouncerKnowsTheClasses: of two classes by key the one is promised what no server can keep. Once a request has been served it is rejected,
// and the other is not.
func TestBouncerKnowsTheClasses(t *testing.T) {
	t.Parallel()
	_, addrs, _ := launch(t, "memcached", "--listen", "127.0.0.1:0", "--class", "easy=e*", "--class", "vain=v*", "--class-slo", "easy=1h",
		"--class-slo", "vain=p50:1ns,p90:1h", "--control", "bouncer", "--control-set", "samples=1", "--control-set", "probe=0s")
	const shed = "SERVER_ERROR overloaded slo\r\n"
	talk(t, addrs[0], "get v1\r\n", "END\r\n")
	talk(t, addrs[0], "get v2\r\nget e1\r\nget x1\r\nset v3 0 0 1\r\nx\r\n", shed+"END\r\nEND\r\n"+shed)
}
