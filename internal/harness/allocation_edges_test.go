//go:build linux

package harness

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/reqlog"
	"spillway/profiles"
	"spillway/report"
)

const edgesText = `name: shared
on: host
workload:
  kind: allocation
  connections: 4
  arrivals: constant
  classes: [{name: high, share: 0.7}, {name: low, share: 0.3}]
  allocation:
    budget: 100
    locations: 2
    scenarios:
      - {name: steady, demand: {high: {level: 0.8}, low: {level: 1}}}
    faults: [{at: 10s, kill: edge-2}, {at: 20s, kill: allocator}]
controllers: [{name: two-level, settings: {lend: "0.5,1", order: alike, floor: 0.1}}]
warmup: 2s
window: 30s
`

func edgesProfile(t *testing.T, replace ...string) *profiles.Profile {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(edgesText, replace[i]) {
			t.Fatalf("the profile has no %q", replace[i])
		}
	}
	p, err := profiles.Parse("edges.yaml", []byte(strings.NewReplacer(replace...).Replace(edgesText)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEdgesRefused(t *testing.T) {
	t.Parallel()
	if got := Grounds(edgesProfile(t)); !slices.Equal(got, []string{"host"}) {
		t.Errorf("it runs on %v", got)
	}
	for _, tt := range []struct{ old, new, want string }{
		{"locations: 2", "locations: 65", "edges.yaml:10:5: locations: on the ground host each is a process; at most 64"},
		{"budget: 100", "budget: 100k", "at most 20000 are possible on one computer"},
		{"locations: 2", "locations: 2\n    noise: 0.05", "demand varies as workload.arrivals do"},
		{`{name: two-level, settings: {lend: "0.5,1", order: alike, floor: 0.1}}`, "{name: static}", "there is the allocator two-level only"},
		{"floor: 0.1", "whole: true", "two-level: whole is not on the ground host"},
		{"{level: 0.8}", "{level: 0.8, reports: {times: 2, at: [1]}}", "edges report what they are asked for"},
		{"low: {level: 1}}}", "low: {level: 1}}, waiting: {class: low, to: high, clears: 0.1, leaves: 0.1}}", "nobody asks twice"},
		{"    faults", "    surfaces: [{name: f, of: steady, rows: {key: demand.high, values: [1]}, columns: {key: share.high, values: [0.5]}, metric: served_share, class: high, controller: two-level}]\n    faults", "each cell would take as long as the window"},
		{"arrivals: constant", "arrivals: closed", "an open loop"},
	} {
		_, err := Run(t.Context(), Config{Profile: edgesProfile(t, tt.old, tt.new), Out: filepath.Join(t.TempDir(), "out")})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.new, err, tt.want)
		}
	}
	_, err := Run(t.Context(), Config{Profile: edgesProfile(t), Record: true, Out: filepath.Join(t.TempDir(), "out")})
	if !errors.Is(err, ErrUsage) {
		t.Errorf("--record: %v", err)
	}
}

func TestAllocatorFlags(t *testing.T) {
	t.Parallel()
	p := edgesProfile(t).Runs()[0]
	live := p.Workload.Allocation.LiveSettings()
	got := strings.Join(allocatorFlags(p, &p.Controllers[0], &live), " ")
	want := "allocator --listen 127.0.0.1:0 --budget 100 --cycle 1s --lease 6s --keep 2 --absorb 7 --floor 0.1 --alike " +
		"--class high=0.7,lend=0.5 --class low=0.3,lend=1 --location edge-1=0.5 --location edge-2=0.5"
	if got != want {
		t.Errorf("flags %q, want %q", got, want)
	}
}

// TestCrowd: users of an edge that is down are answered by another, and every fate is told from the others.
func TestCrowd(t *testing.T) {
	t.Parallel()
	p := edgesProfile(t, "locations: 2", "locations: 3").Runs()[0]
	var asked [3]atomic.Int64
	f := &fleet{profile: p, policy: policy(&p.Workload, p.Workload.Scenario()), down: make([]atomic.Bool, 3)}
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	for i := range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			switch class := r.Header.Get("X-Class"); {
			case i == 2 && class == "low":
				select {
				case <-hold:
				case <-r.Context().Done():
				}
			case class == "low":
				w.WriteHeader(http.StatusTooManyRequests)
			case i == 2:
				w.WriteHeader(http.StatusInternalServerError)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}))
		t.Cleanup(s.Close)
		f.edges = append(f.edges, &process{addr: strings.TrimPrefix(s.URL, "http://")})
	}
	c, err := newCrowd(f, p, 1, 0, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.began = time.Now()
	for _, tt := range []struct {
		edge, class int
		down        []int
		fate        reqlog.Fate
		to          int
	}{
		{0, 0, nil, reqlog.OK, 0},
		{1, 1, nil, reqlog.Rejected, 1},
		{2, 0, nil, reqlog.Failed, 2},
		{0, 0, []int{0, 2}, reqlog.OK, 1},
		{1, 1, []int{0, 1}, reqlog.TimedOut, 2},
	} {
		for i := range f.down {
			f.down[i].Store(slices.Contains(tt.down, i))
		}
		c.clients[2].Timeout = 50 * time.Millisecond
		a := ask{edge: tt.edge, class: tt.class}
		c.send(t.Context(), &a)
		if a.fate != tt.fate || a.to != tt.to {
			t.Errorf("edge %d, class %d, down %v: %v at %d (%v), want %v at %d", tt.edge, tt.class, tt.down, a.fate, a.to, a.why, tt.fate, tt.to)
		}
	}
	if asked[0].Load() != 1 {
		t.Errorf("an edge that is down was asked %d times", asked[0].Load()-1)
	}
}

// TestCrowdAsksWhenItIsDue: 0.8 and 1 budgets of 100 requests per second are 180 in a second, half at each edge, in order; when the run ends early, what
// was not due yet was not asked.
func TestCrowdAsksWhenItIsDue(t *testing.T) {
	t.Parallel()
	p := edgesProfile(t).Runs()[0]
	f := &fleet{profile: p, policy: policy(&p.Workload, p.Workload.Scenario()), down: make([]atomic.Bool, 2)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(s.Close)
	for range 2 {
		f.edges = append(f.edges, &process{addr: strings.TrimPrefix(s.URL, "http://")})
	}
	c, err := newCrowd(f, p, 1, 0, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	cells := map[[2]int]int{}
	for _, a := range c.asks {
		cells[[2]int{a.edge, a.class}]++
	}
	for cell, n := range map[[2]int]int{{0, 0}: 40, {1, 0}: 40, {0, 1}: 50, {1, 1}: 50} {
		if math.Abs(float64(cells[cell]-n)) > 1 {
			t.Errorf("edge %d, class %d: %d requests, want %d", cell[0], cell[1], cells[cell], n)
		}
	}
	if !slices.IsSortedFunc(c.asks, func(a, b ask) int { return int(a.due - b.due) }) {
		t.Error("they are not in order")
	}
	planned := len(c.asks)
	ctx, cancel := context.WithCancel(t.Context())
	c.began = time.Now().Add(-500 * time.Millisecond) // half of them are overdue
	cancel()
	if !c.run(ctx) || len(c.asks) < planned/3 || len(c.asks) >= planned {
		t.Errorf("%d of %d were asked before the end", len(c.asks), planned)
	}
	for i := range c.asks {
		if c.asks[i].fate != reqlog.OK || c.asks[i].sent < c.asks[i].due {
			t.Fatalf("request %d: %+v", i, c.asks[i])
		}
	}
}

// live is a run as it might have been seen: edge 2 dies at 10 s, is replaced at 15 s; the allocator dies at 20 s, and leases end at 24 s. In each second
// class high asks for 80 and low for 100.
func live(t *testing.T) *liveRun {
	t.Helper()
	p := edgesProfile(t).Runs()[0]
	r := &liveRun{profile: p, controller: profiles.Controller{Name: "two-level"}, warmUp: 2 * time.Second, window: 30 * time.Second}
	r.fleet = &fleet{profile: p, policy: policy(&p.Workload, p.Workload.Scenario()), down: make([]atomic.Bool, 2)}
	r.crowd = &crowd{fleet: r.fleet}
	for second := range 32 {
		at := time.Duration(second) * time.Second
		dead := at >= 12*time.Second
		for k, n := range []int{80, 100} {
			for i := range n {
				// In the first span 70 and 30 are served, as the closed form has it.
				a := ask{due: at + time.Duration(i)*time.Millisecond, class: k, edge: i % 2, to: i % 2, fate: reqlog.Rejected}
				if dead {
					a.to = 0
				}
				if i < []int{70, 30}[k] {
					a.fate = reqlog.OK
				}
				r.crowd.asks = append(r.crowd.asks, a)
			}
		}
		o := round{at: at, granted: []float64{35, 35, 15, 15}, leased: at < 26*time.Second}
		switch {
		case at >= 12*time.Second && at < 17*time.Second, at >= 26*time.Second:
			o.granted = []float64{35, 0, 15, 0}
		case at >= 17*time.Second:
			o.granted = []float64{70, 0, 30, 0}
		}
		r.rounds = append(r.rounds, o)
	}
	slices.SortStableFunc(r.crowd.asks, func(a, b ask) int { return int(a.due - b.due) })
	r.origin = originCounts{SlotMS: 500, Counts: [][]uint32{{10, 40}, {70, 10}, {20, 20}}}
	return r
}

func TestEdgesAccount(t *testing.T) {
	t.Parallel()
	r := live(t)
	point := r.point(&Point{Controller: r.controller, Rate: 180, Repeat: 1, profile: r.profile})
	facts := point.Facts.Allocation
	var spans []string
	for _, s := range facts.Spans {
		text := s.State
		for _, c := range s.Classes {
			text += " " + c.Class + " " + report.Known(c.Served).String() + " of " + report.Known(c.ClosedForm).String()
		}
		spans = append(spans, text)
	}
	want := []string{
		"all up high 0.875 of 0.875 low 0.3 of 0.3",
		"edge-2 is dead, its capacity is kept free",
		"edge-2 is dead, its capacity is in use elsewhere high 0.875 of 0.875 low 0.3 of 0.3",
		"the allocator is dead, grants hold until their leases end",
		"the allocator is dead, every edge has its baseline high 0.875 of 0.4375 low 0.3 of 0.15", // more than there was: a fault, and told
	}
	if diff := cmp.Diff(want, spans); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for name, tt := range map[string]struct {
		got  report.Value
		want float64
	}{
		"takeover":           {facts.TakeoverUS, 5e6},
		"closed form error":  {facts.ClosedFormError, 0.4375},
		"over-commit":        {facts.OverCommit, 0.3}, // 130 in the first second, of a budget of 100
		"utilisation":        {facts.Utilisation, 1},
		"idle":               {facts.Idle, 0},
		"goodput of high":    {point.Rows[0].GoodputRPS, 70},
		"offered of low":     {point.Rows[1].OfferedRPS, 100},
		"demand at edge 1":   {point.Cells[0].Demand, (10*40 + 20*80) / 30.0},
		"granted at edge 2":  {point.Cells[1].Granted, 10 * 35 / 30.0},
		"demand in the span": {facts.Spans[1].Cells[0].Demand, 80},
	} {
		if v := value(t, tt.got); math.Abs(v-tt.want) > 1e-6 {
			t.Errorf("%s is %g, want %g", name, v, tt.want)
		}
	}
	if point.Rows[2].Valid || !slices.Contains(point.Rows[2].Warnings, warnServerCount) {
		t.Errorf("the origin counted 170, 3200 were answered, and the point is valid: %v", point.Rows[2].Warnings)
	}
	names := map[string]int{}
	for _, s := range point.Samples {
		names[s.Name]++
	}
	if names["demand/edge_1"] != 60 || names["served/edge_2"] != 60 || names["granted/edge_1"] != 60 {
		t.Errorf("series %v", names)
	}
}

// TestTakeoverThatNeverComes lasts for as long as was looked.
func TestTakeoverThatNeverComes(t *testing.T) {
	t.Parallel()
	r := live(t)
	for i := range r.rounds {
		r.rounds[i].granted = []float64{35, 0, 15, 0}
	}
	spans, takeover := r.spans()
	if v := value(t, takeover); v != 10e6 || len(spans) != 4 {
		t.Errorf("takeover after %g us, %d spans", v, len(spans))
	}
}

func TestBusiestSecond(t *testing.T) {
	t.Parallel()
	o := originCounts{SlotMS: 100}
	for i := range 40 {
		n := uint32(1)
		if i >= 15 && i < 25 { // a second that begins in the middle of one
			n = 7
		}
		o.Counts = append(o.Counts, []uint32{n, 1})
	}
	if o.busiest() != 80 || o.total() != 40+30+70 {
		t.Errorf("busiest second %d, total %d", o.busiest(), o.total())
	}
}
