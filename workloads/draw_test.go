package workloads

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/internal/dist"
)

// chiSquareBound is the value that a χ² variable of k degrees of freedom exceeds about once in a million times (Wilson and Hilferty).
func chiSquareBound(k int) float64 {
	const z = 4.75
	f := 2 / (9 * float64(k))
	return float64(k) * math.Pow(1-f+z*math.Sqrt(f), 3)
}

// TestPresetsAskWhatTheySay holds the shares of classes and kinds of every preset against the draws, by χ².
func TestPresetsAskWhatTheySay(t *testing.T) {
	t.Parallel()
	want := map[string]map[string]float64{
		"bimodal-get": {"small get": 0.5, "large get": 0.5},
		"bimodal-var": {"set set": 0.82, "small get": 0.09, "large get": 0.09},
		"usr":         {"get get": 0.998, "set set": 0.002},
		"etc":         {"get get": 0.968, "set set": 0.032},
		"var":         {"set set": 0.82, "get get": 0.18},
		"cache-aside": {"get get": 1},
	}
	if len(Presets()) != len(want) {
		t.Errorf("presets %v", Presets())
	}
	for _, name := range Presets() {
		classes := preset(t, name)
		k := mustKV(t, classes...)
		rng, counts := dist.Stream(5, name, 0), map[string]float64{}
		const n = 50_000
		var op Op
		for range n {
			k.Skip(rng, &op)
			counts[classes[op.Class].Name+" "+op.Kind.String()]++
		}
		chi := 0.0
		for cell, share := range want[name] {
			chi += math.Pow(counts[cell]-n*share, 2) / (n * share)
		}
		if len(counts) != len(want[name]) || len(counts) > 1 && chi > chiSquareBound(len(counts)-1) {
			t.Errorf("%s: %v, want %v of %d; χ² %v", name, counts, want[name], n, chi)
		}
	}
}

// TestETC holds keys and values against the published model: the discrete head by χ², the tail and the keys by their quantiles.
func TestETC(t *testing.T) {
	t.Parallel()
	classes := preset(t, "etc")
	k := mustKV(t, classes...)
	head := []float64{0.536, 0.047, 17.820, 9.239, 0.018, 2.740, 0.065, 0.606, 0.023, 0.837, 0.837, 8.989, 0.092, 0.326, 1.980}
	headSum := 0.0
	for _, percent := range head {
		headSum += percent
	}
	counts, n := make([]float64, len(head)), 0.0
	var keys, tail []float64
	for op := range k.Preload() {
		n++
		keys = append(keys, float64(len(op.Key)))
		if len(op.Value) < len(head) {
			counts[len(op.Value)]++
		} else {
			tail = append(tail, float64(len(op.Value)))
		}
	}
	if n != 100_000 {
		t.Fatalf("%v keys", n)
	}
	// A value below 15 bytes may be of the tail too: rounded, the Pareto reaches down to 0.
	pareto := func(x float64) float64 { return 1 - math.Pow(1+0.348238*max(x, 0)/214.476, -1/0.348238) }
	chi := 0.0
	for size, got := range counts {
		p := head[size]/100 + (1-headSum/100)*(pareto(float64(size)+0.5)-pareto(float64(size)-0.5))
		chi += math.Pow(got-n*p, 2) / (n * p)
	}
	if chi > chiSquareBound(len(head)) {
		t.Errorf("values of 0 to 14 bytes: χ² %v, bound %v; %v", chi, chiSquareBound(len(head)), counts)
	}
	slices.Sort(tail)
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		from := pareto(14.5)
		got := pareto(tail[int(q*float64(len(tail)))])
		if want := from + q*(1-from); math.Abs(got-want) > 0.01 {
			t.Errorf("quantile %v of the tail is the model's %v", q, got)
		}
	}
	slices.Sort(keys)
	for _, q := range []float64{0.05, 0.5, 0.95} {
		x := keys[int(q*n)]
		gev := func(x float64) float64 { return math.Exp(-math.Pow(1+0.078688*(x-30.7984)/8.20449, -1/0.078688)) }
		if low, high := gev(x-0.5), gev(x+0.5); q < low-0.01 || q > high+0.01 {
			t.Errorf("%v of the keys are %v bytes and shorter, by the model %v to %v are", q, x, low, high)
		}
	}
	if keys[0] < 2 || keys[len(keys)-1] > maxKey {
		t.Errorf("keys of %v to %v bytes", keys[0], keys[len(keys)-1])
	}
	// The text forms lead back to the same distributions: profiles hold them as text.
	for _, d := range []dist.Dist{classes[0].ValueSize, classes[0].KeySizes} {
		again, err := dist.Parse(fmt.Sprint(d), dist.Bytes)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(d) {
			t.Errorf("%v is read as %v, %v", d, again, err)
		}
	}
}

// TestSkipDrawsWhatNextDraws: a sender that passes over a request must not shift those that follow, nor see others.
func TestSkipDrawsWhatNextDraws(t *testing.T) {
	t.Parallel()
	classes := []KVClass{
		{
			Name: "a", Share: 0.7, Mix: Mix{Get: 0.4, Set: 0.3, Delete: 0.1, MultiGet: 0.2}, Keys: 1000, ValueSize: dist.Exponential{Expect: 50},
			KeySizes: dist.Uniform{Low: 5, High: 40}, Popularity: "zipf:1.1",
		},
		{Name: "b", Share: 0.3, Keys: 7, ValueSize: bytesOf(1), Popularity: "sequential", WriteBack: "c"},
		{Name: "c", Mix: Mix{Set: 1}, Keys: 7, KeyPrefix: "b-", ValueSize: bytesOf(1)},
	}
	next, skip := mustKV(t, classes...), mustKV(t, classes...)
	r1, r2 := dist.Stream(1, "operations", 0), dist.Stream(1, "operations", 0)
	var a, b Op
	for i := range 20_000 {
		next.Next(r1, &a)
		if i%3 == 0 {
			skip.Next(r2, &b)
			if string(a.Key) != string(b.Key) || string(a.Value) != string(b.Value) || len(a.More) != len(b.More) {
				t.Fatalf("draw %d: %q and %q", i, a.Key, b.Key)
			}
		} else {
			skip.Skip(r2, &b)
		}
		if a.Kind != b.Kind || a.Class != b.Class || a.Ref != b.Ref || a.WriteBack != b.WriteBack {
			t.Fatalf("draw %d: %v %v %v and %v %v %v", i, a.Kind, a.Class, a.Ref, b.Kind, b.Class, b.Ref)
		}
	}
}

func TestMultiGet(t *testing.T) {
	t.Parallel()
	k := mustKV(t, KVClass{Name: "a", Share: 1, Mix: Mix{MultiGet: 1}, Batch: 24, Keys: 1 << 40, KeySize: 250, ValueSize: bytesOf(1)})
	rng := dist.Stream(1, "operations", 0)
	var op Op
	refs := map[uint64]bool{}
	for range 100 {
		k.Next(rng, &op)
		if op.Kind != MultiGet || len(op.More) != 23 || op.Value != nil {
			t.Fatalf("%v of %d keys", op.Kind, 1+len(op.More))
		}
		seen := map[string]bool{}
		for _, key := range append([][]byte{op.Key}, op.More...) {
			if len(key) != 250 || !strings.HasPrefix(string(key), "a-0") {
				t.Fatalf("key %q", key)
			}
			seen[string(key)] = true
		}
		if len(seen) != 24 {
			t.Errorf("%d different keys of 24", len(seen))
		}
		refs[op.Ref] = true
	}
	if len(refs) != 100 {
		t.Errorf("%d different refs", len(refs))
	}
}

func TestWriteBack(t *testing.T) {
	t.Parallel()
	k := mustKV(t, preset(t, "cache-aside")...)
	for range k.Preload() {
		t.Fatal("a cache that misses fill is not filled before")
	}
	rng := dist.Stream(1, "operations", 0)
	var get, set Op
	for range 1000 {
		k.Next(rng, &get)
		if !get.WriteBack || get.Kind != Get || get.Class != 0 {
			t.Fatalf("%v of class %d, write back %v", get.Kind, get.Class, get.WriteBack)
		}
		key := string(get.Key)
		k.Refill(get.Class, get.Ref, &set)
		if set.Kind != Set || set.Class != 1 || string(set.Key) != key || len(set.Value) < 50 || set.WriteBack {
			t.Fatalf("a miss of %q is followed by a %v of %q, class %d, with %d bytes", key, set.Kind, set.Key, set.Class, len(set.Value))
		}
		if number, _ := strconv.Atoi(strings.TrimPrefix(key, "aside-")); uint64(number) != get.Ref {
			t.Fatalf("key %q has the ref %d", key, get.Ref)
		}
	}
}

func TestExpire(t *testing.T) {
	t.Parallel()
	k := mustKV(t, KVClass{Name: "a", Share: 1, Mix: Mix{Get: 0.5, Set: 0.5}, Keys: 10, ValueSize: bytesOf(1), Expire: 2 * time.Minute})
	for op := range k.Preload() {
		if op.Expire != 120 {
			t.Fatalf("stored for %d s", op.Expire)
		}
	}
	rng := dist.Stream(1, "operations", 0)
	var op Op
	for range 100 {
		k.Next(rng, &op)
		if want := map[Kind]uint32{Get: 0, Set: 120}[op.Kind]; op.Expire != want {
			t.Fatalf("%v for %d s, want %d", op.Kind, op.Expire, want)
		}
	}
}
