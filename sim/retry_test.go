package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine/station"
	"spillway/workloads"
)

// turnsAway rejects everybody for a reason, and counts them.
type turnsAway struct {
	control.None
	why  control.Reason
	seen []control.Request
}

func (t *turnsAway) Decide(_ clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s != control.AtArrival {
		return control.Decision{}
	}
	t.seen = append(t.seen, *r)
	if t.why != control.NoReason {
		return control.Decision{Verdict: control.Reject, Reason: t.why}
	}
	return control.Decision{}
}

// replica returns a server like s under another controller.
func replica(s station.Config, c control.Controller) station.Config {
	s.Controller = c
	return s
}

// shuns returns clients that refuse everything that is for the given server, which the order of their making tells.
func shuns(server int, servers int) func(*rand.Rand) *control.Outbox {
	n := 0
	return func(*rand.Rand) *control.Outbox {
		verdict := control.Admit
		if n%servers == server {
			verdict = control.Reject
		}
		n++
		return control.NewOutbox(&scripted{permit: func(clock.Instant, *control.Outgoing) control.Verdict { return verdict }}, control.OutboxConfig{})
	}
}

// TestRetry: what is shed or refused goes to the other server, once and at once, and fate and latency are those of the whole.
func TestRetry(t *testing.T) {
	t.Parallel()
	const trip, work = 20 * us, 50 * us // a network of 10 µs each way
	for _, tc := range []struct {
		name      string
		why       [2]control.Reason // for which the servers turn away
		newClient func(*rand.Rand) *control.Outbox
		want      reqlog.Record // Fate, Reason, Attempts
		latency   time.Duration
	}{
		{name: "served by the first", want: reqlog.Record{Fate: reqlog.OK, Attempts: 1}, latency: trip + work},
		{name: "shed by the first", why: [2]control.Reason{control.Limit}, want: reqlog.Record{Fate: reqlog.OK, Attempts: 2}, latency: 2*trip + work},
		{
			name: "shed by both", why: [2]control.Reason{control.Limit, control.CoDel},
			want: reqlog.Record{Fate: reqlog.Dropped, Reason: uint8(control.CoDel), Attempts: 2}, latency: 2 * trip,
		},
		{name: "refused for the first", newClient: shuns(0, 2), want: reqlog.Record{Fate: reqlog.OK, Attempts: 1}, latency: trip + work},
		{
			name: "refused for the first, shed by the second", newClient: shuns(0, 2), why: [2]control.Reason{0, control.SLO},
			want: reqlog.Record{Fate: reqlog.Rejected, Reason: uint8(control.SLO), Attempts: 1}, latency: trip,
		},
		{
			name: "shed by the first, refused for the second", newClient: shuns(1, 2), why: [2]control.Reason{control.Limit},
			want: reqlog.Record{Fate: reqlog.Rejected, Reason: uint8(control.Limit), Attempts: 1}, latency: trip,
		},
		{name: "refused for both", newClient: shuns(0, 1), want: reqlog.Record{Fate: reqlog.Refused}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := constant(t, 1e3, 1, 1001*us, work)
			first, second := &turnsAway{why: tc.why[0]}, &turnsAway{why: tc.why[1]}
			c.Station, c.More = replica(c.Station, first), []station.Config{replica(c.Station, second)}
			c.Retry = &load.Retry{Budget: 1}
			c.NewClient = tc.newClient
			_, records := run(t, c)
			if len(records) != 2 {
				t.Fatalf("%d records", len(records))
			}
			got := records[1]
			if got.Fate != tc.want.Fate || got.Reason != tc.want.Reason || got.Attempts != tc.want.Attempts || got.Latency() != tc.latency {
				t.Errorf("%v for reason %d after %d attempts and %v, want %v, %d, %d, %v",
					got.Fate, got.Reason, got.Attempts, got.Latency(), tc.want.Fate, tc.want.Reason, tc.want.Attempts, tc.latency)
			}
		})
	}
}

// TestRetryBudget: with a budget of a quarter, every fourth of those that are shed gets a second chance, and a client that has saved up
// ten of them does not save more.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	c := constant(t, 1e3, 2, time.Second, us)
	c.Station, c.More = replica(c.Station, &turnsAway{why: control.Limit}), []station.Config{c.Station}
	c.Retry = &load.Retry{Budget: 0.25, First: true}
	r, _ := run(t, c)
	if all := c.Tally.All(); all.Fates[reqlog.OK] != 250 || all.Fates[reqlog.Rejected] != 750 || r.Retries != 250 {
		t.Errorf("%d ok, %d rejected, %d retries of 1000 requests", all.Fates[reqlog.OK], all.Fates[reqlog.Rejected], r.Retries)
	}

	c = constant(t, 1e3, 1, time.Second, us)
	moody := &turnsAway{}
	c.Station, c.More = replica(c.Station, moody), []station.Config{c.Station}
	c.Retry = &load.Retry{Budget: 0.1, First: true}
	c.SamplePeriod = 500 * time.Millisecond
	c.Sample = func(s Sample) {
		if s.Now > 0 {
			moody.why = control.Limit
		}
	}
	if r, _ = run(t, c); r.Retries != 10+49 {
		t.Errorf("%d retries of 500 requests that were shed after 500 that were not, want ten that were saved and a tenth of the rest", r.Retries)
	}
}

// TestReplicas: clients are spread over servers by their number, or all go to the first.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		c := constant(t, 10e3, 6, 3*time.Millisecond, us)
		servers := []*turnsAway{{}, {}, {}}
		for i, s := range servers {
			if i == 0 {
				c.Station = replica(c.Station, s)
			} else {
				c.More = append(c.More, replica(c.Station, s))
			}
		}
		if first {
			c.Retry = &load.Retry{First: true}
		}
		r, _ := run(t, c)
		for i, s := range servers {
			want := 10
			if first {
				want = 30 * max(0, 1-i)
			}
			if len(s.seen) != want {
				t.Errorf("first %v: server %d has %d requests of 30, want %d", first, i, len(s.seen), want)
			}
			for _, q := range s.seen {
				if !first && int(q.Client)%3 != i {
					t.Errorf("client %d is at server %d", q.Client, i)
				}
			}
		}
		if r.Gate.Finished != 30 {
			t.Errorf("the servers' counts sum to %d", r.Gate.Finished)
		}
		// One core of three is busy for 30 of 3000 µs.
		if want := 30.0 / 3000 / 3; r.CPURatio < want*0.999 || r.CPURatio > want*1.001 {
			t.Errorf("cores are busy %v of the time, want %v", r.CPURatio, want)
		}
	}
}

func TestRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Config){
		"retry without another server": func(c *Config) { c.Retry = &load.Retry{Budget: 0.1} },
		"more retries than requests":   func(c *Config) { c.More = []station.Config{c.Station}; c.Retry = &load.Retry{Budget: 1.1} },
		"too many servers":             func(c *Config) { c.More = make([]station.Config, maxServers) },
		"no tally":                     func(c *Config) { c.Tally = nil },
		"negative drain":               func(c *Config) { c.Drain = -1 },
	} {
		c := constant(t, 1e3, 1, time.Millisecond, us)
		spoil(&c)
		if _, err := Run(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestWhatIsKnownOfARequest: the priority of its class spread over users, and the bytes that it is about, on both sides of the wire.
func TestWhatIsKnownOfARequest(t *testing.T) {
	t.Parallel()
	const end = 2 * time.Millisecond
	kv, err := workloads.NewKV([]workloads.KVClass{
		{Name: "a", Share: 0.5, Keys: 100, ValueSize: dist.Uniform{Unit: dist.Bytes, Low: 100, High: 1000}},
		{Name: "b", Share: 0.5, Keys: 100, ValueSize: dist.Constant{Unit: dist.Bytes, Value: 77}, Mix: workloads.Mix{Set: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	costs, err := workloads.NewCosts(kv, map[string]workloads.Cost{"get": {Compute: us}, "set": {Compute: us}})
	if err != nil {
		t.Fatal(err)
	}
	c := constant(t, 100e3, 3, end, us)
	if c.Generator, err = load.NewGenerator(load.Config{Clients: 3, Workload: kv, Arrivals: arrival.NewConstant(100e3, 0), End: clock.Instant(end)}); err != nil {
		t.Fatal(err)
	}
	c.Costs = costs
	c.Tally = load.NewTally([]load.Class{{Name: "a", Priority: 2}, {Name: "b"}}, 0, clock.Instant(end))
	server := &turnsAway{}
	c.Station.Controller = server
	var left []string
	c.NewClient = func(*rand.Rand) *control.Outbox {
		return control.NewOutbox(&scripted{permit: func(_ clock.Instant, r *control.Outgoing) control.Verdict {
			left = append(left, fmt.Sprintf("class %d, priority %d", r.Class, r.Priority))
			return control.Admit
		}}, control.OutboxConfig{})
	}
	run(t, c)
	var arrived, want []string
	sizes := map[int64]bool{}
	for seq, r := range server.seen { // one after the other, so in the order of the sequence
		arrived = append(arrived, fmt.Sprintf("class %d, priority %d", r.Class, r.Priority))
		business := uint8(2)
		if r.Class == 1 {
			business = 0
		}
		want = append(want, fmt.Sprintf("class %d, priority %d", r.Class, control.PriorityOf(business, uint64(seq))))
		if r.Class == 1 && r.Bytes != 77 || r.Class == 0 && (r.Bytes < 100 || r.Bytes > 1000) {
			t.Errorf("a request of class %d is about %d bytes", r.Class, r.Bytes)
		}
		sizes[r.Bytes] = true
	}
	if diff := cmp.Diff(want, arrived); diff != "" {
		t.Errorf("at the server:\n%s", diff)
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("at the client:\n%s", diff)
	}
	if len(sizes) < 50 || len(want) != 200 {
		t.Errorf("%d requests of %d sizes", len(want), len(sizes))
	}

	var op workloads.Op
	synthetic := twoClasses(t, 1, 1e3, time.Second)
	for range 100 {
		_, _, drawn := synthetic.Generator.Fire()
		op = *drawn
		if _, bytes := (OwnSteps{}).Steps(nil, &op); bytes != int64(op.Class)*819200 {
			t.Fatalf("a request of class %d is about %d bytes", op.Class, bytes)
		}
	}
}
