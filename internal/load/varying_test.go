package load

import (
	"slices"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// varying returns a workload whose shares change, in steps or drifting.
func varying(t *testing.T, drifts bool) *workloads.KV {
	t.Helper()
	size := dist.Uniform{Low: 1, High: 50}
	k, err := workloads.NewKV([]workloads.KVClass{
		{Name: "a", Share: 0.5, Keys: 1000, ValueSize: size},
		{Name: "b", Share: 0.5, Keys: 1000, ValueSize: size, Mix: workloads.Mix{Get: 0.5, MultiGet: 0.5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	shares, err := workloads.SharesInSteps(200*time.Millisecond, []workloads.Span{
		{For: 300 * time.Millisecond, Shares: []float64{0.9, 0.1}}, {For: 500 * time.Millisecond, Shares: []float64{0.2, 0.8}},
	})
	if drifts {
		shares, err = workloads.SharesDrifting(200*time.Millisecond, 70*time.Millisecond, []float64{0.5, 0.5}, []float64{0, 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Vary(shares); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestShardsOfVaryingLoad: shares and rates that change with time leave one sequence, however many shards draw it.
func TestShardsOfVaryingLoad(t *testing.T) {
	t.Parallel()
	for _, drifts := range []bool{false, true} {
		shard := func(i, n int, vary bool) *Generator {
			k := varying(t, drifts)
			if !vary {
				k, _ = workloads.NewKV([]workloads.KVClass{
					{Name: "a", Share: 0.5, Keys: 1000, ValueSize: dist.Constant{Value: 1}},
					{Name: "b", Share: 0.5, Keys: 1000, ValueSize: dist.Constant{Value: 1}, Mix: workloads.Mix{Get: 0.5, MultiGet: 0.5}},
				})
			}
			p, err := arrival.Make(arrival.Config{
				Arrivals: arrival.KindPoisson, WarmUp: 200 * time.Millisecond, Window: 800 * time.Millisecond,
				Phases: []arrival.Phase{{For: 300 * time.Millisecond, Rate: 3000}, {For: 500 * time.Millisecond, Rate: 9000}},
			})
			if err != nil {
				t.Fatal(err)
			}
			g, err := NewGenerator(Config{Seed: 1, Clients: 10, Workload: k, Arrivals: p, End: clock.Instant(time.Second), Shard: i, Shards: n})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		whole := shard(0, 1, true)
		want := drawn(whole)
		requests, hash := whole.Sequence()
		for _, n := range []int{2, 5} {
			var all []string
			for i := range n {
				g := shard(i, n, true)
				all = append(all, drawn(g)...)
				if r, h := g.Sequence(); r != requests || h != hash {
					t.Errorf("drifts %v, shard %d of %d: hash %x of %d requests, want %x of %d", drifts, i, n, h, r, hash, requests)
				}
			}
			slices.Sort(all)
			if !slices.Equal(all, want) {
				t.Errorf("drifts %v: %d shards send another sequence", drifts, n)
			}
		}
		plain := shard(0, 1, false)
		drawn(plain)
		if _, h := plain.Sequence(); h == hash {
			t.Errorf("drifts %v: constant shares have the hash of shares that change", drifts)
		}
	}
}

// TestSharesFollowTheDueInstant: the class of a request is drawn by the shares at the instant at which it is due, in an open loop and in a
// closed one.
func TestSharesFollowTheDueInstant(t *testing.T) {
	t.Parallel()
	open, err := NewGenerator(Config{Clients: 3, Workload: varying(t, false), Arrivals: arrival.NewConstant(20_000, 0), End: clock.Instant(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	closed, err := NewClosed(ClosedConfig{
		Clients: 20, Workload: varying(t, false), Think: dist.Constant{Value: 1e6}, End: clock.Instant(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	type source interface {
		Due() clock.Instant
		Fire() (reqlog.Record, uint32, *workloads.Op)
		Settled(rec *reqlog.Record, at clock.Instant)
	}
	for name, g := range map[string]source{"open": open, "closed": closed} {
		var first, all [2]float64 // of class 0, and in all, before and after the step at 500 ms
		for g.Due() != clock.Never {
			rec, _, _ := g.Fire()
			after := 0
			if rec.Intended >= clock.Instant(500*time.Millisecond) {
				after = 1
			}
			all[after]++
			if rec.Class == 0 {
				first[after]++
			}
			g.Settled(&rec, rec.Intended)
		}
		for after, want := range []float64{0.9, 0.2} {
			if got := first[after] / all[after]; got < want-0.02 || got > want+0.02 || all[after] < 5000 {
				t.Errorf("%s: class 0 has %v of %v requests, want %v", name, got, all[after], want)
			}
		}
	}
}
