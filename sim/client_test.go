package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/limit"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/workloads"
)

const us = time.Microsecond

// scripted is a throttle made of functions; those that are nil do what lets everything pass.
type scripted struct {
	permit func(now clock.Instant, r *control.Outgoing) control.Verdict
	hear   func(now clock.Instant, n control.Notice)
	next   func(now clock.Instant) clock.Instant
	ask    func(now clock.Instant, waiting int) bool
}

func (s *scripted) Permit(now clock.Instant, r *control.Outgoing) control.Verdict {
	if s.permit == nil {
		return control.Admit
	}
	return s.permit(now, r)
}

func (s *scripted) Hear(now clock.Instant, n control.Notice) {
	if s.hear != nil {
		s.hear(now, n)
	}
}

func (s *scripted) Next(now clock.Instant) clock.Instant {
	if s.next == nil {
		return clock.Never
	}
	return s.next(now)
}

func (s *scripted) Ask(now clock.Instant, waiting int) bool {
	return s.ask != nil && s.ask(now, waiting)
}

// issuer admits everybody and logs.
type issuer struct {
	control.None
	log func(now clock.Instant, what string)
}

func (i *issuer) Observe(now clock.Instant, e control.Event) {
	if e.Kind == control.Finished {
		i.log(now, fmt.Sprintf("server: finished for client %d", e.Request.Client))
	}
}

func (i *issuer) Demand(now clock.Instant, client uint32, n int) {
	i.log(now, fmt.Sprintf("server: client %d has a demand of %d", client, n))
}
func (*issuer) Credits(clock.Instant, uint32) int { return 1 }
func (*issuer) Wake(_ clock.Instant, out []control.Action) []control.Action {
	return out
}
func (*issuer) Forget(clock.Instant, uint32) {}

// constant is one class of work that takes always the same time, asked at regular intervals from 0 to end.
func constant(t testing.TB, rate float64, clients int, end time.Duration, work time.Duration) Config {
	t.Helper()
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{{Name: "only", Share: 1, Work: []workloads.SyntheticStep{
		{Kind: machine.Compute, Amount: dist.Constant{Unit: dist.Nanoseconds, Value: float64(work)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{Clients: clients, Workload: w, Arrivals: arrival.NewConstant(rate, 0), End: clock.Instant(end)})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Station: station.Config{Controller: control.None{}, Machine: machine.Spec{Cores: 1, Network: 10 * us}},
		Costs:   OwnSteps{}, Generator: g, Drain: time.Second,
		Tally: load.NewTally([]load.Class{{Name: "only"}}, 0, clock.Instant(end)),
	}
}

// run simulates c, checks the sums, and returns the records in the order in which their fates were decided.
func run(t testing.TB, c Config) (Result, []reqlog.Record) {
	t.Helper()
	var records []reqlog.Record
	c.Settled = func(r *reqlog.Record) { records = append(records, *r) }
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
	return r, records
}

// loggingCosts tells of each request that falls due.
type loggingCosts struct{ log func() }

func (l loggingCosts) Steps(dst []machine.Step, op *workloads.Op) ([]machine.Step, int64) {
	l.log()
	return OwnSteps{}.Steps(dst, op)
}

// TestOrderAtOneInstant has everything happen at 100 µs that can: a question comes in that was sent at 90, the server finishes what came at
// 10, its client gives it up after 100, an alarm of another client is due, and so are a request and a sample.
func TestOrderAtOneInstant(t *testing.T) {
	t.Parallel()
	const instant = clock.Instant(100 * us)
	var log []string
	note := func(now clock.Instant, what string) {
		if now == instant {
			log = append(log, what)
		}
	}
	c := constant(t, 20e3, 2, 101*us, 90*us) // the first and the third request are of client 0, the second of client 1
	c.Station.Controller = &issuer{log: note}
	c.Timeout = 100 * us
	c.SamplePeriod = 100 * us
	c.Sample = func(s Sample) { note(s.Now, fmt.Sprintf("sample: %d waiting", s.Waiting())) }
	c.Costs = loggingCosts{func() { log = append(log, "due") }}
	sent := false
	c.NewClient = func(*rand.Rand) *control.Outbox {
		return control.NewOutbox(&scripted{
			permit: func(now clock.Instant, r *control.Outgoing) control.Verdict {
				note(now, "client: may one go?")
				if sent {
					return control.Wait
				}
				sent = true
				return control.Admit
			},
			hear: func(now clock.Instant, n control.Notice) { note(now, fmt.Sprintf("client: hears %d", n.Kind)) },
			next: func(now clock.Instant) clock.Instant {
				if now < clock.Instant(90*us) {
					return clock.Instant(90 * us)
				}
				return max(now, instant)
			},
			ask: func(now clock.Instant, waiting int) bool { return now == clock.Instant(90*us) },
		}, control.OutboxConfig{})
	}
	_, records := run(t, c)
	want := []string{
		"due", "due", // at 0 and 50 µs
		"server: client 1 has a demand of 1",
		"server: finished for client 0",
		"client: hears 1",     // it gives up
		"client: may one go?", // the alarm of client 1
		"due", "client: may one go?",
		"sample: 2 waiting",
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
	if records[0].Fate != reqlog.TimedOut || records[0].Done != instant {
		t.Errorf("the first record is %+v", records[0])
	}
}

// TestWhatAClientHears: a reply in time is heard as such, with what the server says of credits; a request that is given up is lost, and its
// reply is news of credits alone.
func TestWhatAClientHears(t *testing.T) {
	t.Parallel()
	c := constant(t, 10e3, 1, 301*us, 60*us)
	c.Station.Controller = &issuer{log: func(clock.Instant, string) {}}
	c.Generator = constant(t, 10e3, 1, 101*us, 60*us).Generator // at 0 and 100 µs
	c.Timeout = 120 * us
	c.Costs = slowSecond{new(int)}
	var heard []string
	c.NewClient = func(*rand.Rand) *control.Outbox {
		return control.NewOutbox(&scripted{hear: func(now clock.Instant, n control.Notice) {
			heard = append(heard, fmt.Sprintf("%v %+v", now, n))
		}}, control.OutboxConfig{})
	}
	w := newWorld(c)
	w.run()
	settle(w)
	want := []string{
		"80µs {Kind:0 Shed:false Latency:80µs Credits:1}",
		"220µs {Kind:1 Shed:false Latency:0s Credits:-1}",
		"320µs {Kind:2 Shed:false Latency:0s Credits:1}",
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Error(diff)
	}
	if len(w.unused) != len(w.flights) {
		t.Errorf("%d of %d flights are free when all is over", len(w.unused), len(w.flights))
	}
}

// slowSecond makes the second request take 200 µs, all others 60.
type slowSecond struct{ n *int }

func (s slowSecond) Steps(dst []machine.Step, _ *workloads.Op) ([]machine.Step, int64) {
	*s.n++
	d := 60 * us
	if *s.n == 2 {
		d = 200 * us
	}
	return append(dst, machine.Step{Kind: machine.Compute, Duration: d}), 0
}

// TestServerDiesWithClients: when the server is gone, every client that has met it hears so once, after what it has lost; what is sent all the
// same is lost, and a question is not answered, so that nobody asks for ever.
func TestServerDiesWithClients(t *testing.T) {
	t.Parallel()
	c := constant(t, 20e3, 4, time.Millisecond, 0)
	c.Station.Controller = &issuer{log: func(clock.Instant, string) {}}
	c.Costs = hungry{}
	c.Station.Machine.RAM = 5 // the sixth request is one too many
	const died = clock.Instant(260 * us)
	parted, lost, admitted := 0, 0, 0
	c.NewClient = func(*rand.Rand) *control.Outbox {
		return control.NewOutbox(&scripted{
			permit: func(clock.Instant, *control.Outgoing) control.Verdict { admitted++; return control.Admit },
			hear: func(now clock.Instant, n control.Notice) {
				switch {
				case n.Kind == control.Parted:
					parted++
				case n.Kind == control.Lost:
					lost++
				case now > died:
					t.Errorf("heard %+v at %v", n, now)
				}
			},
			ask: func(clock.Instant, int) bool { return true },
		}, control.OutboxConfig{})
	}
	r, records := run(t, c)
	if r.Died != died {
		t.Errorf("died at %v, want %v", r.Died, died)
	}
	if parted != 4 || lost != admitted || admitted != len(records) {
		t.Errorf("%d of 4 clients parted, %d of %d requests lost, %d records", parted, lost, admitted, len(records))
	}
	for _, rec := range records {
		if rec.Fate != reqlog.Failed {
			t.Errorf("%+v, want all failed", rec)
		}
	}
}

// hungry holds a byte and does nothing for a second.
type hungry struct{}

func (hungry) Steps(dst []machine.Step, _ *workloads.Op) ([]machine.Step, int64) {
	return append(dst, machine.Step{Kind: machine.Memory, Bytes: 1}, machine.Step{Kind: machine.Delay, Duration: time.Second}), 0
}

// window lets a number of requests be under way, and checks that what it hears is what its contract says.
type window struct {
	size, used int
	admitted   int
	over       int // replied or lost
	told       int
	wait       time.Duration // it says that it might change its mind after this
}

func (v *window) Permit(clock.Instant, *control.Outgoing) control.Verdict {
	if v.used == v.size {
		return control.Wait
	}
	v.used++
	v.admitted++
	return control.Admit
}

func (v *window) Hear(_ clock.Instant, n control.Notice) {
	switch n.Kind {
	case control.Replied, control.Lost:
		v.used--
		v.over++
	case control.Told:
		v.told++
	}
	if v.used < 0 {
		panic("more replies than requests")
	}
}

func (v *window) Next(now clock.Instant) clock.Instant { return now.Add(v.wait) }
func (*window) Ask(clock.Instant, int) bool            { return false }

func (v *window) Meters() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("used", float64(v.used)) && yield("size", float64(v.size))
	}
}

// TestEveryRequestHasOneFateAndOneEnd: whatever clients, servers, timeouts and retries do, each arrival has one fate, each request that was
// admitted at a client one end there, no request is sent more than twice, retries keep to their budget, and what is counted in flight is
// what the records say.
func TestEveryRequestHasOneFateAndOneEnd(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		clients, replicas := rapid.IntRange(1, 5).Draw(rt, "clients"), rapid.IntRange(1, 3).Draw(rt, "replicas")
		rate := rapid.Float64Range(1e3, 60e3).Draw(rt, "rate")
		end := 20 * time.Millisecond
		c := constant(t, rate, clients, end, 50*us)
		c.Generator = poisson(t, rapid.Uint64().Draw(rt, "seed"), rate, clients, end, 50*us)
		c.Timeout = time.Duration(rapid.IntRange(0, 20).Draw(rt, "timeout")) * 50 * us
		server := func() station.Config {
			s := c.Station
			s.Controller = limit.NewFixed(limit.FixedConfig{Limit: 1, Queue: rapid.IntRange(0, 4).Draw(rt, "queue")}, 1)
			return s
		}
		c.Station = server()
		for range replicas - 1 {
			c.More = append(c.More, server())
		}
		if replicas > 1 && rapid.Bool().Draw(rt, "retries") {
			c.Retry = &load.Retry{Budget: rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(rt, "budget"), First: rapid.Bool().Draw(rt, "first")}
		}
		var windows []*window
		if rapid.IntRange(0, 3).Draw(rt, "control") > 0 {
			size, wait := rapid.IntRange(1, 3).Draw(rt, "window"), time.Duration(rapid.IntRange(0, 100).Draw(rt, "wait"))*us
			bounds := control.OutboxConfig{Queue: rapid.IntRange(0, 3).Draw(rt, "waiting"), MaxAge: time.Duration(rapid.IntRange(0, 5).Draw(rt, "age")) * 30 * us}
			if wait == 0 {
				wait = time.Hour
			}
			c.NewClient = func(*rand.Rand) *control.Outbox {
				windows = append(windows, &window{size: size, wait: wait})
				return control.NewOutbox(windows[len(windows)-1], bounds)
			}
		}
		arrivals := int64(0)
		c.Settled = func(r *reqlog.Record) {
			arrivals++
			seen[r.Fate.String()]++
			seen[fmt.Sprint("attempts ", r.Attempts)]++
			if sent := r.Fate.Sent(); sent != (r.Attempts > 0) || r.Attempts > 2 || r.Attempts == 2 && c.Retry == nil || r.Sent != 0 && !sent {
				rt.Fatalf("%v after %d attempts, sent at %v", r.Fate, r.Attempts, r.Sent)
			}
			if r.Attempts > 0 && (r.Sent < r.Intended || r.Done < r.Sent) || r.Done < r.Intended {
				rt.Fatalf("due %v, sent %v, done %v", r.Intended, r.Sent, r.Done)
			}
		}
		w := newWorld(c)
		w.run()
		r := w.result
		if err := c.Tally.Check(r.Arrivals); err != nil || r.Arrivals != arrivals {
			rt.Fatalf("%v; %d requests have a fate, %d were due", err, arrivals, r.Arrivals)
		}
		if c.Retry != nil && float64(r.Retries) > c.Retry.Budget*float64(arrivals)+1e-6 {
			rt.Fatalf("%d retries of %d requests, the budget is %v", r.Retries, arrivals, c.Retry.Budget)
		}
		if busy := float64(c.Tally.Busy) / float64(end); r.InFlight-busy > 1e-9 || busy-r.InFlight > 1e-9 {
			rt.Fatalf("%v in flight on average, the records say %v", r.InFlight, busy)
		}
		settle(w)
		for i, v := range windows {
			if v.used != 0 || v.over != v.admitted {
				rt.Fatalf("window %d: %d admitted, %d over, %d under way when all is over", i, v.admitted, v.over, v.used)
			}
			seen["told"] += v.told
		}
		for i, box := range w.boxes {
			if box != nil && box.Len() > 0 && w.alarms.Next() == uint64(clock.Never) {
				rt.Fatalf("outbox %d: %d requests wait, and no alarm is set", i, box.Len())
			}
		}
	})
	for _, what := range []string{"ok", "refused", "rejected", "timed_out", "attempts 0", "attempts 1", "attempts 2", "told"} {
		if seen[what] == 0 {
			t.Errorf("nothing was %s: %v", what, seen)
		}
	}
}

// settle goes on for a second after the end of a run, until all replies have been read.
func settle(w *world) {
	for until := w.result.End.Add(time.Second); ; {
		at, which := w.nextServer()
		switch mail := w.nextMail(); {
		case min(at, mail) > until:
			return
		case mail <= at:
			w.deliver(mail, w.mail.Pop())
		default:
			w.replies(at, which, w.servers[which].station.Advance(at))
		}
	}
}

func poisson(t testing.TB, seed uint64, rate float64, clients int, end time.Duration, work time.Duration) *load.Generator {
	t.Helper()
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{{Name: "only", Share: 1, Work: []workloads.SyntheticStep{
		{Kind: machine.Compute, Amount: dist.Exponential{Unit: dist.Nanoseconds, Expect: float64(work)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{Seed: seed, Clients: clients, Workload: w, Arrivals: arrival.NewPoisson(rate, 0), End: clock.Instant(end)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestClientMeters: what a sample says of clients is the mean over those that have sent.
func TestClientMeters(t *testing.T) {
	t.Parallel()
	c := constant(t, 30e3, 3, 101*us, 50*us) // one request each by 100 µs, and then a second of the first client
	size := 0
	c.NewClient = func(*rand.Rand) *control.Outbox {
		size++
		return control.NewOutbox(&window{size: size - 1, wait: time.Hour}, control.OutboxConfig{})
	}
	c.SamplePeriod = 50 * us
	var log []string
	c.Sample = func(s Sample) {
		line := fmt.Sprintf("%v: %d waiting", s.Now, s.Waiting())
		for name, v := range s.ClientMeters() {
			line += fmt.Sprintf(", %s %g", name, v)
		}
		log = append(log, line)
	}
	r, _ := run(t, c)
	want := []string{
		"0s: 1 waiting, used 0, size 0",
		"50µs: 1 waiting, used 0.5, size 0.5",
		"100µs: 2 waiting, used 0.6666666666666666, size 1",
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
	// The first client's request waits from 0, its second from 100 µs, to the end of the window at 101 µs.
	if want := 102.0 / 101; r.Waiting < want-1e-9 || r.Waiting > want+1e-9 {
		t.Errorf("%v wait on average, want %v", r.Waiting, want)
	}
}

// TestRandomStreamsOfClients: a client's random numbers follow from the seed, its number and its server, and from nothing else.
func TestRandomStreamsOfClients(t *testing.T) {
	t.Parallel()
	draws := func(seed uint64, servers int) string {
		c := constant(t, 10e3, 2, time.Millisecond, us)
		c.Seed = seed
		for range servers - 1 {
			c.More = append(c.More, c.Station)
		}
		var all []string
		c.NewClient = func(rng *rand.Rand) *control.Outbox {
			all = append(all, fmt.Sprint(rng.Uint64()%1000))
			return control.NewOutbox(&scripted{}, control.OutboxConfig{})
		}
		run(t, c)
		return strings.Join(all, " ")
	}
	if a, b := draws(1, 1), draws(1, 1); a != b {
		t.Errorf("%s and then %s", a, b)
	}
	if a, b := draws(1, 1), draws(2, 1); a == b {
		t.Errorf("two seeds draw %s", a)
	}
	// Of two servers the first is that of client 0.
	if a, b := draws(1, 1), draws(1, 2); strings.Fields(a)[0] != strings.Fields(b)[0] || strings.Fields(a)[1] == strings.Fields(b)[1] {
		t.Errorf("with one server %s, with two %s", a, b)
	}
}
