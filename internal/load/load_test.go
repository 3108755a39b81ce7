package load

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const slo = 10 * time.Microsecond
	for _, tc := range []struct {
		name   string
		reply  Reply
		slo    time.Duration
		fate   reqlog.Fate
		reason control.Reason
	}{
		{"in time to the nanosecond", Reply{At: 11_000, Outcome: Answered}, slo, reqlog.OK, 0},
		{"late by one", Reply{At: 11_001, Outcome: Answered}, slo, reqlog.Late, 0},
		{"no limit", Reply{At: 1 << 60, Outcome: Answered}, 0, reqlog.OK, 0},
		{"rejected", Reply{At: 2000, Outcome: Shed, Reason: control.QueueFull}, slo, reqlog.Rejected, control.QueueFull},
		{"dropped, though late", Reply{At: 99_000, Outcome: Shed, Reason: control.CoDel}, slo, reqlog.Dropped, control.CoDel},
		{"expired", Reply{At: 2000, Outcome: Shed, Reason: control.Expired}, slo, reqlog.Expired, control.Expired},
		{"shed for no known reason", Reply{At: 2000, Outcome: Shed}, slo, reqlog.Failed, 0},
		{"shed for a reason of the future", Reply{At: 2000, Outcome: Shed, Reason: control.NumReasons}, slo, reqlog.Failed, 0},
		{"broken", Reply{At: 2000, Outcome: Broken}, slo, reqlog.Failed, 0},
		{"abandoned", Reply{At: 2000, Outcome: Abandoned}, slo, reqlog.TimedOut, 0},
		{"not sent", Reply{At: 2000, Outcome: NotSent}, slo, reqlog.Unsent, 0},
	} {
		rec := reqlog.Record{Intended: 1000, Sent: 5000, Reason: 77, Keys: 1, Hits: 1}
		tc.reply.Queued, tc.reply.Service, tc.reply.Bytes = 3, -1, 40
		Judge(&rec, tc.reply, tc.slo)
		if rec.Fate != tc.fate || rec.Reason != uint8(tc.reason) {
			t.Errorf("%s: %v for reason %d, want %v for %v", tc.name, rec.Fate, rec.Reason, tc.fate, tc.reason)
		}
		if rec.Done != tc.reply.At || rec.Queued != 3 || rec.Service != -1 || rec.BytesIn != 40 || rec.Hits != 0 {
			t.Errorf("%s: %+v", tc.name, rec)
		}
	}
}

// TestEveryReasonHasItsFate: a reason that is added must land in one of the three fates of shed requests.
func TestEveryReasonHasItsFate(t *testing.T) {
	t.Parallel()
	for r := control.NoReason + 1; r < control.NumReasons; r++ {
		rec := reqlog.Record{}
		Judge(&rec, Reply{Outcome: Shed, Reason: r}, 0)
		want := map[control.Shed]reqlog.Fate{
			control.ShedRejected: reqlog.Rejected, control.ShedDropped: reqlog.Dropped, control.ShedExpired: reqlog.Expired,
		}[r.Shed()]
		if want == reqlog.Pending || rec.Fate != want {
			t.Errorf("%v: %v, want %v", r, rec.Fate, want)
		}
	}
}

func testWorkload(t testing.TB) workloads.Workload {
	t.Helper()
	w, err := workloads.NewKV([]workloads.KVClass{
		{Name: "a", Share: 0.7, Mix: workloads.Mix{Get: 0.9, Set: 0.1}, Keys: 1000, ValueSize: dist.Constant{Value: 10}},
		{Name: "b", Share: 0.3, Keys: 1000, ValueSize: dist.Constant{Value: 10}, Popularity: "zipf:0.99"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func testGenerator(t testing.TB, seed uint64, kind string) *Generator {
	t.Helper()
	p, err := arrival.New(kind, 10_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGenerator(Config{Seed: seed, Clients: 7, Workload: testWorkload(t), Arrivals: p, End: clock.Instant(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSequenceIsPinned: one seed gives one sequence of instants, clients and operations, today and next year. A change here changes
// what every published seed means.
func TestSequenceIsPinned(t *testing.T) {
	t.Parallel()
	sequence := func(seed uint64, kind string) string {
		g, sum := testGenerator(t, seed, kind), fnv.New64a()
		for g.Due() != clock.Never {
			due := g.Due()
			rec, client, op := g.Fire()
			if rec.Intended != due {
				t.Fatalf("due at %v, fired for %v", due, rec.Intended)
			}
			fmt.Fprintln(sum, rec.Seq, int64(rec.Intended), client, op.Kind, op.Class, string(op.Key), string(op.Value))
		}
		return fmt.Sprintf("%d requests, %016x", g.Fired(), sum.Sum64())
	}
	for _, tc := range []struct {
		seed uint64
		kind string
		want string
	}{
		{1, arrival.KindPoisson, "9930 requests, 23e68d3ae6762fff"},
		{2, arrival.KindPoisson, "10062 requests, 946c2bcd59127872"},
		{1, arrival.KindConstant, "10000 requests, 9a56698bc785214f"},
	} {
		if got := sequence(tc.seed, tc.kind); got != tc.want {
			t.Errorf("seed %d, %s: %s, want %s", tc.seed, tc.kind, got, tc.want)
		}
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	for _, kind := range arrival.Kinds() {
		g, counts := testGenerator(t, 1, kind), [7]int{}
		for i := 0; g.Due() != clock.Never; i++ {
			_, client, _ := g.Fire()
			counts[client]++
			if kind == arrival.KindConstant && int(client) != i%7 {
				t.Fatalf("arrival %d went to client %d: evenly spaced arrivals go round", i, client)
			}
		}
		for c, n := range counts {
			if n < 1428-175 || n > 1428+175 { // five sigma of a binomial
				t.Errorf("%s: client %d has %d of 10 000 arrivals", kind, c, n)
			}
		}
	}
}

func TestNewGeneratorRefuses(t *testing.T) {
	t.Parallel()
	w, p := testWorkload(t), arrival.NewConstant(1, 0)
	for _, c := range []Config{{Workload: w, Arrivals: p}, {Clients: 1, Arrivals: p}, {Clients: 1, Workload: w}} {
		if _, err := NewGenerator(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestFireAfterTheEndPanics(t *testing.T) {
	t.Parallel()
	g, err := NewGenerator(Config{Clients: 1, Workload: testWorkload(t), Arrivals: arrival.NewConstant(1, 0), End: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	g.Fire()
}

func TestFireAllocatesNothing(t *testing.T) {
	g := testGenerator(t, 1, arrival.KindPoisson)
	for range 1000 {
		g.Fire()
	}
	if n := testing.AllocsPerRun(1000, func() { g.Fire() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// settled draws a record with a fate, as a target would hand it over.
func settled(t *rapid.T, classes int) reqlog.Record {
	intended := clock.Instant(rapid.Int64Range(0, int64(time.Second)).Draw(t, "intended"))
	sent := intended.Add(time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "lag")))
	rec := reqlog.Record{
		Intended: intended, Sent: sent,
		Class: uint16(rapid.IntRange(0, classes-1).Draw(t, "class")), Kind: rapid.Uint8Range(0, 2).Draw(t, "kind"),
	}
	outcome := Outcome(rapid.IntRange(int(Answered), int(NotSent)).Draw(t, "outcome"))
	if outcome == NotSent {
		rec.Sent = 0
	}
	Judge(&rec, Reply{
		At: sent.Add(time.Duration(rapid.Int64Range(0, 5e8).Draw(t, "after"))), Outcome: outcome,
		Reason: control.Reason(rapid.IntRange(0, int(control.NumReasons)).Draw(t, "reason")),
		Hit:    rapid.Bool().Draw(t, "hit"), Queued: -1, Service: time.Duration(rapid.Int64Range(-1, 100).Draw(t, "service")),
	}, 100*time.Millisecond)
	if rapid.IntRange(0, 9).Draw(t, "wallet") == 0 { // refused by the client's own control: never sent
		rec.Fate, rec.Sent, rec.Reason = reqlog.Refused, 0, 0
	}
	return rec
}

// TestFatesSumToArrivals: whatever happens to requests, each that was due in the window is counted once, in one fate, and every sum
// that can be formed of them agrees.
func TestFatesSumToArrivals(t *testing.T) {
	t.Parallel()
	classes := []Class{{Name: "a", SLO: 100 * time.Millisecond}, {Name: "b", SLO: 50 * time.Millisecond}, {Name: "c"}}
	from, to := clock.Instant(250*time.Millisecond), clock.Instant(790*time.Millisecond)
	rapid.Check(t, func(t *rapid.T) {
		one, two := NewTally(classes, from, to), NewTally(classes, from, to)
		arrivals, busy := int64(0), time.Duration(0)
		for i := range rapid.IntRange(0, 100).Draw(t, "requests") {
			rec := settled(t, len(classes))
			if rec.Intended >= from && rec.Intended < to {
				arrivals++
			}
			if rec.Fate.Sent() {
				busy += max(min(rec.Done, to).Sub(max(rec.Sent, from)), 0)
			}
			[]*Tally{one, two}[i%2].Add(&rec)
		}
		if err := one.Merge(two); err != nil {
			t.Fatal(err)
		}
		if err := one.Check(arrivals); err != nil {
			t.Fatal(err)
		}
		if one.Check(arrivals+1) == nil {
			t.Fatal("a lost request went unnoticed")
		}
		if one.Busy != busy {
			t.Fatalf("busy for %v, want %v", one.Busy, busy)
		}
		all := one.All()
		if all.Arrivals() != arrivals || all.Arrivals() != all.Sent()+all.Fates[reqlog.Refused]+all.Fates[reqlog.Unsent] {
			t.Fatalf("pooled: %d arrivals, %d sent, want %d", all.Arrivals(), all.Sent(), arrivals)
		}
		if all.Latency.Count() != all.Completed() || all.SendLag.Count() != all.Sent() || all.Queue.Count() != 0 {
			t.Fatal("histograms and counts differ")
		}
		if all.SLO != 0 || all.Name != AllName {
			t.Fatalf("pooled class is %+v", all.Class)
		}
	})
}

func TestTally(t *testing.T) {
	t.Parallel()
	ms := func(n float64) clock.Instant { return clock.Instant(n * float64(time.Millisecond)) }
	tally := NewTally([]Class{{Name: "a", SLO: 10 * time.Millisecond}}, ms(1000), ms(1250))
	add := func(intended, sent, done float64, fate reqlog.Fate, reason control.Reason) {
		tally.Add(&reqlog.Record{
			Intended: ms(intended), Sent: ms(sent), Done: ms(done), Fate: fate, Reason: uint8(reason),
			Queued: 2 * time.Millisecond, Service: -1, BytesOut: 10, BytesIn: 100, Keys: 1, Hits: map[bool]uint8{true: 1}[fate == reqlog.OK],
		})
	}
	add(999, 999, 1002, reqlog.OK, 0)     // of the warm-up, in flight for 2 ms of the window
	add(1000, 1001, 1005, reqlog.OK, 0)   // the first instant belongs to the window
	add(1099, 1099, 1119, reqlog.Late, 0) // in the bucket in which it was due
	add(1100, 1100, 1101, reqlog.Rejected, control.Limit)
	add(1249, 1249, 1349, reqlog.TimedOut, 0) // 1 ms of the window
	add(1250, 1250, 1251, reqlog.OK, 0)       // the last instant does not
	c := tally.Classes[0]
	if err := tally.Check(4); err != nil {
		t.Error(err)
	}
	want := []Bucket{{OK: 1, Completed: 2, Latency: 25 * time.Millisecond}, {Shed: 1}, {}}
	if fmt.Sprint(c.Buckets) != fmt.Sprint(want) {
		t.Errorf("buckets %v, want %v", c.Buckets, want)
	}
	if tally.Busy != (2+4+20+1+1)*time.Millisecond {
		t.Errorf("busy for %v", tally.Busy)
	}
	if c.Reasons[control.Limit] != 1 || c.Shed() != 1 || c.ServerShed() != 1 || c.Sent() != 4 || c.Completed() != 2 {
		t.Errorf("%+v", c.Fates)
	}
	if c.Reads != 2 || c.Hits != 1 || c.BytesOut != 40 || c.BytesIn != 400 {
		t.Errorf("reads %d, hits %d, bytes %d and %d", c.Reads, c.Hits, c.BytesOut, c.BytesIn)
	}
	if c.Latency.Max() != 20*time.Millisecond || c.SendLag.Max() != time.Millisecond || c.Queue.Count() != 2 || c.Service.Count() != 0 {
		t.Errorf("latency %v, send lag %v, %d queueing delays, %d service times", c.Latency.Max(), c.SendLag.Max(), c.Queue.Count(), c.Service.Count())
	}
	completed, latency := c.Series(tally.Window())
	if fmt.Sprint(completed) != "[2 0]" || fmt.Sprint(latency) != "[1.25e+07]" {
		t.Errorf("series %v and %v", completed, latency)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	at := func(ms int64) clock.Instant { return clock.Instant(ms * int64(time.Millisecond)) }
	for _, tc := range []struct {
		cut, to clock.Instant
		buckets int
	}{{at(500), at(1000), 0}, {at(1000), at(1000), 0}, {at(1001), at(1001), 1}, {at(1100), at(1100), 1}, {at(1101), at(1101), 2}, {at(9000), at(1250), 3}} {
		tally := NewTally([]Class{{Name: "a"}}, at(1000), at(1250))
		tally.Cut(tc.cut)
		if tally.To != tc.to || len(tally.Classes[0].Buckets) != tc.buckets {
			t.Errorf("cut at %v: window to %v with %d buckets", tc.cut, tally.To, len(tally.Classes[0].Buckets))
		}
		tally.Add(&reqlog.Record{Intended: tc.to, Fate: reqlog.OK})
		tally.Add(&reqlog.Record{Intended: tc.to - 1, Fate: reqlog.OK})
		if err := tally.Check(int64(min(tc.buckets, 1))); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(c *ClassTally){
		"no fate":      func(c *ClassTally) { c.Fates[reqlog.OK]--; c.Fates[reqlog.Pending]++ },
		"extra":        func(c *ClassTally) { c.Fates[reqlog.Unsent]++ },
		"trip":         func(c *ClassTally) { c.Trip.Record(1) },
		"latency":      func(c *ClassTally) { c.Latency.Record(1) },
		"send lag":     func(c *ClassTally) { c.SendLag.Record(1) },
		"another fate": func(c *ClassTally) { c.Fates[reqlog.OK]--; c.Fates[reqlog.Late]++ },
	} {
		tally := NewTally([]Class{{Name: "a"}}, 0, 1000)
		tally.Add(&reqlog.Record{Intended: 1, Sent: 2, Done: 3, Fate: reqlog.OK})
		if err := tally.Check(1); err != nil {
			t.Fatal(err)
		}
		spoil(&tally.Classes[0])
		if tally.Check(1) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestMergeRefusesOtherWindows(t *testing.T) {
	t.Parallel()
	a := NewTally([]Class{{Name: "a"}}, 0, 1000)
	if a.Merge(NewTally([]Class{{Name: "a"}}, 0, 1001)) == nil || a.Merge(NewTally(nil, 0, 1000)) == nil {
		t.Error("tallies of different windows or classes were merged")
	}
}

func TestTightestSLO(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		slos []time.Duration
		want time.Duration
	}{{nil, 0}, {[]time.Duration{0, 0}, 0}, {[]time.Duration{0, 5, 3}, 3}} {
		var classes []Class
		for _, s := range tc.slos {
			classes = append(classes, Class{SLO: s})
		}
		if got := NewTally(classes, 0, 1).TightestSLO(); got != tc.want {
			t.Errorf("%v: %v", tc.slos, got)
		}
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	tally := NewTally([]Class{{Name: "a"}}, 0, clock.Instant(time.Second))
	rec := reqlog.Record{Intended: 1, Sent: 2, Done: 3, Fate: reqlog.OK}
	if n := testing.AllocsPerRun(100, func() { tally.Add(&rec) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFireAndAdd(b *testing.B) {
	p, err := arrival.New(arrival.KindPoisson, 1e6, 0)
	if err != nil {
		b.Fatal(err)
	}
	g, err := NewGenerator(Config{Clients: 10, Workload: testWorkload(b), Arrivals: p, End: clock.Never})
	if err != nil {
		b.Fatal(err)
	}
	tally := NewTally([]Class{{Name: "a"}, {Name: "b"}}, 0, clock.Instant(time.Hour))
	for b.Loop() {
		rec, _, _ := g.Fire()
		rec.Sent = rec.Intended
		Judge(&rec, Reply{At: rec.Intended.Add(100 * time.Microsecond), Queued: 1000, Service: 2000}, time.Millisecond)
		tally.Add(&rec)
	}
}
