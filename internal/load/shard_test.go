package load

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// mixedWorkload has every kind of operation and popularity.
func mixedWorkload(t testing.TB) workloads.Workload {
	t.Helper()
	size := dist.Uniform{Low: 1, High: 50}
	w, err := workloads.NewKV([]workloads.KVClass{
		{Name: "a", Share: 0.5, Mix: workloads.Mix{Get: 0.6, Set: 0.2, Delete: 0.1, MultiGet: 0.1}, Keys: 1000, ValueSize: size, Popularity: "zipf:0.99"},
		{Name: "b", Share: 0.2, Keys: 1000, ValueSize: size, Popularity: "sequential"},
		{Name: "c", Share: 0.3, Keys: 1000, ValueSize: size, Popularity: "hotspot:0.9@0.1", WriteBack: "d"},
		{Name: "d", Mix: workloads.Mix{Set: 1}, KeyPrefix: "c-", Keys: 1000, ValueSize: size},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// opaque hides that a workload can skip.
type opaque struct{ workloads.Workload }

// drawn is one request as text, and when and by whom it is sent.
func drawn(g *Generator) (list []string) {
	for g.Due() != clock.Never {
		rec, client, op := g.Fire()
		list = append(list, fmt.Sprintf("%012d %d client %d %v %d %s %x %d %d", rec.Seq, rec.Intended, client, op.Kind, op.Class, op.Key, op.Value, len(op.More), rec.Keys))
	}
	return list
}

// TestShardsAreOneSequence: whatever the number of threads, the same requests leave at the same instants from the same clients, and every
// shard knows the hash of all of them. Another seed makes another sequence.
func TestShardsAreOneSequence(t *testing.T) {
	t.Parallel()
	shard := func(seed uint64, kind string, hide bool, i, n int) *Generator {
		w := mixedWorkload(t)
		if hide {
			w = opaque{w}
		}
		p, err := arrival.Make(arrival.Config{Arrivals: kind, Rate: 5000, Shape: "sine:0.5@300ms", Window: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGenerator(Config{Seed: seed, Clients: 10, Workload: w, Arrivals: p, End: clock.Instant(time.Second), Shard: i, Shards: n})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, kind := range []string{arrival.KindPoisson, arrival.KindConstant, arrival.KindBursty, arrival.KindPoissonExact} {
		hashes := map[uint64]bool{}
		for _, hide := range []bool{false, true} {
			whole := shard(1, kind, hide, 0, 1)
			want := drawn(whole)
			requests, hash := whole.Sequence()
			if requests != uint64(len(want)) || requests < 4000 {
				t.Fatalf("%s: %d requests, the sequence has %d", kind, len(want), requests)
			}
			hashes[hash] = true
			for _, n := range []int{2, 3, 8} {
				var all []string
				for i := range n {
					g := shard(1, kind, hide, i, n)
					all = append(all, drawn(g)...)
					if r, h := g.Sequence(); r != requests || h != hash {
						t.Errorf("%s, shard %d of %d: hash %x of %d requests, want %x of %d", kind, i, n, h, r, hash, requests)
					}
				}
				slices.Sort(all)
				if !slices.Equal(all, want) {
					i := 0
					for i < min(len(all), len(want)) && all[i] == want[i] {
						i++
					}
					t.Errorf("%s: %d shards send another sequence: %s, want %s", kind, n, all[i], want[i])
				}
			}
			other := shard(2, kind, hide, 0, 1)
			drawn(other)
			_, otherHash := other.Sequence()
			hashes[otherHash] = true
		}
		if len(hashes) != 4 {
			t.Errorf("%s: hashes %v of two seeds, by number and by key", kind, hashes)
		}
	}
}

// TestSequenceOfAPrefix: what has been drawn of a run that was cut short is a prefix of the whole.
func TestSequenceOfAPrefix(t *testing.T) {
	t.Parallel()
	a, b := testGenerator(t, 1, arrival.KindPoisson), testGenerator(t, 1, arrival.KindPoisson)
	for range 100 {
		a.Fire()
		b.Fire()
	}
	n, h := a.Sequence()
	if n != 100 {
		t.Errorf("%d requests drawn", n)
	}
	if n2, h2 := b.Sequence(); n2 != n || h2 != h {
		t.Error("equal prefixes have different hashes")
	}
	b.Fire()
	if _, h2 := b.Sequence(); h2 == h {
		t.Error("different prefixes have equal hashes")
	}
}

func TestMissesWriteBack(t *testing.T) {
	t.Parallel()
	classes, err := workloads.Preset("cache-aside")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workloads.NewKV(classes)
	if err != nil {
		t.Fatal(err)
	}
	const end = clock.Instant(time.Second)
	g, err := NewGenerator(Config{Clients: 4, Workload: w, Arrivals: arrival.NewConstant(1000, 0), End: end})
	if err != nil {
		t.Fatal(err)
	}
	rec, client, op := g.Fire()
	key := string(op.Key)
	rec.Fate = reqlog.OK
	g.Settled(&rec, 300_000) // a miss, known before the next arrival at 1 ms
	if g.Due() != 300_000 {
		t.Fatalf("the write after the miss is due at %v", g.Due())
	}
	back, backClient, op := g.Fire()
	if op.Kind != workloads.Set || string(op.Key) != key || backClient != client || back.Class != 1 || back.Intended != 300_000 || back.Seq < refillSeq {
		t.Errorf("a miss of %q by client %d is followed by %v of %q by %d: %+v", key, client, op.Kind, op.Key, backClient, back)
	}
	g.Settled(&back, 400_000) // a write is followed by nothing

	hit, _, _ := g.Fire()
	hit.Fate, hit.Hits = reqlog.Late, 1
	g.Settled(&hit, 1_100_000)
	shed, _, _ := g.Fire()
	shed.Fate = reqlog.Rejected
	g.Settled(&shed, 1_100_000)
	after, _, _ := g.Fire()
	after.Fate = reqlog.OK
	g.Settled(&after, end) // the run is over
	if g.Due() != 4_000_000 || len(g.waiting) != 0 {
		t.Errorf("a hit, a shed read, or a miss after the end is followed by something at %v; %d reads waiting", g.Due(), len(g.waiting))
	}
	if requests, _ := g.Sequence(); requests != 4 || g.Fired() != 5 {
		t.Errorf("%d requests in the sequence, %d fired", requests, g.Fired())
	}
}

func TestRefillsStayShort(t *testing.T) {
	t.Parallel()
	classes, _ := workloads.Preset("cache-aside")
	w, err := workloads.NewKV(classes)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGenerator(Config{Clients: 4, Workload: w, Arrivals: arrival.NewConstant(1000, 0), End: clock.Never})
	if err != nil {
		t.Fatal(err)
	}
	// Every read misses and its write is late by a few requests, so that the list is never empty.
	for range 20_000 {
		rec, _, op := g.Fire()
		if op.Kind == workloads.Get {
			rec.Fate = reqlog.OK
			g.Settled(&rec, rec.Intended.Add(3500*time.Microsecond))
		}
	}
	if len(g.ready) > 20 || len(g.waiting) > 1 {
		t.Errorf("%d writes in the list, %d reads waiting", len(g.ready), len(g.waiting))
	}
}

// TestClosedLoop: what is offered depends on how fast the answers come, which is what is wrong with it.
func TestClosedLoop(t *testing.T) {
	t.Parallel()
	offered := func(latency time.Duration, shards int) (keys map[string]int) {
		keys = map[string]int{}
		for i := range shards {
			g, err := NewClosed(ClosedConfig{
				Seed: 1, Clients: 10, Workload: testWorkload(t), Think: dist.Exponential{Expect: 10e6}, End: clock.Instant(2 * time.Second), Shard: i, Shards: shards,
			})
			if err != nil {
				t.Fatal(err)
			}
			last := clock.Instant(0)
			for g.Due() != clock.Never {
				rec, client, op := g.Fire()
				if rec.Intended < last || int(client)%shards != i {
					t.Fatalf("request of client %d at %v, after one at %v", client, rec.Intended, last)
				}
				last = rec.Intended
				keys[fmt.Sprint(rec.Seq, client, op.Kind, string(op.Key))]++
				rec.Fate = reqlog.OK
				g.Settled(&rec, rec.Intended.Add(latency))
			}
		}
		return keys
	}
	fast, slow := offered(0, 1), offered(90*time.Millisecond, 1)
	// Ten clients that think for 10 ms on average ask a thousand times a second, a tenth of that when the answer takes 90 ms.
	if n := float64(len(fast)); math.Abs(n-2000) > 250 {
		t.Errorf("%v requests in 2 s at no latency", n)
	}
	if n := float64(len(slow)); math.Abs(n-200) > 40 {
		t.Errorf("%v requests in 2 s at 90 ms", n)
	}
	if sharded := offered(0, 3); len(sharded) != len(fast) {
		t.Errorf("%d requests from three shards, %d from one", len(sharded), len(fast))
	}
	for request := range slow {
		if fast[request] != 1 {
			t.Errorf("request %s is not in the longer run of the same seed", request)
		}
	}
}

func TestClosedLoopPausesAfterFailure(t *testing.T) {
	t.Parallel()
	g, err := NewClosed(ClosedConfig{Clients: 1, Workload: testWorkload(t), Think: dist.Constant{}, End: clock.Instant(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for g.Due() != clock.Never {
		rec, _, _ := g.Fire()
		if g.Due() != clock.Never {
			t.Fatal("a client asks before its answer")
		}
		rec.Fate = reqlog.Failed
		g.Settled(&rec, rec.Intended)
		n++
	}
	if n != 1000 {
		t.Errorf("%d requests to a server that is gone", n)
	}
	if _, err := NewClosed(ClosedConfig{Clients: 1, Workload: testWorkload(t)}); err == nil {
		t.Error("a closed loop without a think time was accepted")
	}
}

func TestAdjustedPercentiles(t *testing.T) {
	t.Parallel()
	tally := NewTally([]Class{{Name: "a"}}, 0, clock.Instant(time.Second))
	add := func(n int, fate reqlog.Fate) {
		for i := range n {
			tally.Add(&reqlog.Record{Intended: 0, Sent: 1, Done: clock.Instant(i+1) * 1000, Fate: fate})
		}
	}
	c := &tally.Classes[0]
	if d, finite := c.Adjusted(99); d != 0 || !finite {
		t.Errorf("of nothing: %v, %v", d, finite)
	}
	add(900, reqlog.OK) // 1 … 900 µs
	for _, fate := range []reqlog.Fate{reqlog.Rejected, reqlog.TimedOut, reqlog.Unsent, reqlog.Failed, reqlog.Refused} {
		add(20, fate)
	}
	for _, tc := range []struct {
		p      float64
		want   time.Duration
		finite bool
	}{{50, 500 * time.Microsecond, true}, {90, 900 * time.Microsecond, true}, {90.1, 0, false}, {99, 0, false}, {100, 0, false}} {
		d, finite := c.Adjusted(tc.p)
		if finite != tc.finite || math.Abs(float64(d-tc.want)) > float64(tc.want)/1000 {
			t.Errorf("p%v: %v, %v; want %v, %v", tc.p, d, finite, tc.want, tc.finite)
		}
	}
	if got := c.Latency.Percentile(99); got < 890*time.Microsecond {
		t.Errorf("p99 of completed requests %v", got)
	}
}

// TestMergedPercentiles: the 99th percentile of a fast and a slow sender together is that of all their requests, not the mean of two.
func TestMergedPercentiles(t *testing.T) {
	t.Parallel()
	tallies := [2]*Tally{}
	for i, slow := range []time.Duration{1, 100} {
		tallies[i] = NewTally([]Class{{Name: "a"}}, 0, clock.Instant(time.Second))
		for k := range 1000 {
			tallies[i].Add(&reqlog.Record{Done: clock.Instant(time.Duration(k+1) * slow * 1000), Fate: reqlog.OK})
		}
	}
	if err := tallies[0].Merge(tallies[1]); err != nil {
		t.Fatal(err)
	}
	// Of 2000 latencies the 1980th: 1 … 1000 µs and 100 µs … 100 ms; 1000 + 980 of them are at most 98 ms.
	if got := tallies[0].Classes[0].Latency.Percentile(99); math.Abs(got.Seconds()-0.098) > 0.0001 {
		t.Errorf("p99 of the union is %v, want 98 ms", got)
	}
}

func TestCountersAdd(t *testing.T) {
	t.Parallel()
	a := Counters{Reconnects: 1, TimedOutWrite: 2, LateMax: 5}
	a.Add(Counters{Reconnects: 2, TimedOutDial: 3, LateMax: 4, Grown: 1})
	if a != (Counters{Reconnects: 3, TimedOutWrite: 2, TimedOutDial: 3, LateMax: 5, Grown: 1}) {
		t.Errorf("%+v", a)
	}
}
