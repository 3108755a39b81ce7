//go:build linux

package harness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	metering "spillway/counters"
	"spillway/profiles"
	"spillway/report"
)

// row is a sample without its unit.
type row struct {
	at    float64
	name  string
	value float64
}

func rowsOf(samples []report.Sample) (list []row) {
	for _, s := range samples {
		v, _ := s.Value.Get()
		list = append(list, row{s.TimeUS, s.Name, v})
	}
	return list
}

const ms = clock.Instant(time.Millisecond)

// TestTraceOnOneClock: what is sampled here and in the server stands on one axis, whose beginning is that of the window, and what lies outside of the
// window is left out. What is about our own process is said to be.
func TestTraceOnOneClock(t *testing.T) {
	t.Parallel()
	here := series{
		columns: []metering.Column{{Name: "membw", Unit: "bytes_per_s"}, {Name: "mem_pressure", Unit: "ratio"}, {Name: "cpu_host", Unit: "ratio"}, {Name: "cpu_process", Unit: "cores"}},
		points: []metering.Point{
			{At: 1000 * ms, Column: 1, Value: 0.9}, {At: 1010 * ms, Column: 1, Value: 0.1}, {At: 1012 * ms, Column: 2, Value: 0.5}, {At: 1012 * ms, Column: 3, Value: 0.2},
			{At: 1030 * ms, Column: 1, Value: 0.9},
		},
		cost: metering.Cost{Samples: 3, CPU: time.Millisecond, Elapsed: time.Second, Longest: 50 * time.Microsecond},
	}
	// The point's clock began 1 s after the one that is sampled on; the window is from 5 to 25 ms.
	server := &serverTrail{prefix: "server_"}
	server.take(map[string]string{
		"column_0": "membw bytes_per_s", "column_1": "cpu_process cores", "next": "4", "cost": "4 2000000 1000000000 0",
		"points_0": "1000000000 0 100;1010000000 0 200;", "points_1": "1012000000 1 0.4;1020000000 0 400;nonsense;1021000000 7 1;",
	})
	if server.next != 4 || len(server.points) != 4 || server.cost != 0.002 {
		t.Fatalf("%+v", server)
	}
	tr := &trail{tracing: &tracing{}, offset: -time.Second, servers: []*serverTrail{server}}
	var r Result
	tr.put(here, &r, 5*ms, 25*ms)
	want := []row{
		{5000, "mem_pressure", 0.1}, {7000, "cpu_host", 0.5}, {7000, "loadgen_cpu_process", 0.2},
		{5000, "membw", 200}, {7000, "server_cpu_process", 0.4}, {15000, "membw", 400},
	}
	if diff := cmp.Diff(want, rowsOf(r.Samples), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Of the window, 5 ms had 200 bytes a second and 10 ms 400; nobody knows of the rest.
	if v, ok := r.MemBW.Get(); !ok || v < 333 || v > 334 || r.MemBWSource != "accounted" {
		t.Errorf("membw %v, %v from %q", v, ok, r.MemBWSource)
	}
	if f := r.Sampler; f == nil || f.CPURatio != 0.001 || f.ServerCPURatio != 0.002 || f.LongestUS != 50 || f.Flags != "estimated" {
		t.Errorf("%+v", f)
	}
}

// TestTraceOfSeveralServers: each has its own series, and the bandwidth is that of all.
func TestTraceOfSeveralServers(t *testing.T) {
	t.Parallel()
	var servers []*serverTrail
	for i := range 2 {
		s := &serverTrail{prefix: []string{"server1_", "server2_"}[i]}
		s.take(map[string]string{"column_0": "membw bytes_per_s", "points_0": "10000000 0 100;20000000 0 100;"})
		servers = append(servers, s)
	}
	var r Result
	(&trail{tracing: &tracing{}, servers: servers}).put(series{}, &r, 0, 30*ms)
	if v, _ := r.MemBW.Get(); v != 200 || len(r.Samples) != 4 || r.Samples[0].Name != "server1_membw" || r.Samples[3].Name != "server2_membw" {
		t.Errorf("%v, %+v", v, r.Samples)
	}
	// One of them has said nothing: what all moved is not known then, and has no source.
	servers[1].points = nil
	r = Result{}
	(&trail{tracing: &tracing{}, servers: servers}).put(series{}, &r, 0, 30*ms)
	if _, known := r.MemBW.Get(); known || r.MemBWSource != "" {
		t.Errorf("%v from %q", r.MemBW, r.MemBWSource)
	}
}

func TestTracingIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		on, counter string
		period      time.Duration
		want        string
	}{
		{on: groundHost, period: time.Millisecond},
		{on: groundHost, counter: "self-probe"},
		{on: groundHost, period: time.Microsecond, want: "is between 1ms and 1s"},
		{on: groundHost, period: time.Minute, want: "is between 1ms and 1s"},
		{on: groundHost, counter: "crystal-ball", want: "`loadgen counters` lists the sources"},
		{on: groundSim, period: time.Millisecond, want: "the machine is modelled"},
		{on: groundModel, counter: "self-probe", want: "the machine is modelled"},
		{on: groundSim},
	} {
		c := Config{Profile: &profiles.Profile{On: tc.on}, TracePeriod: tc.period, Counter: tc.counter}
		err := c.checkTracing()
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !errors.Is(err, ErrUsage)) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
