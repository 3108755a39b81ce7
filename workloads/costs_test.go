package workloads

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/dist"
	"spillway/machine"
)

func TestCostSteps(t *testing.T) {
	t.Parallel()
	c := Cost{Compute: 5 * time.Microsecond, ComputePerByte: 0.5, MovedPerByte: 2, CachedBelow: 1000, At: 3e9}
	compute := func(d time.Duration) machine.Step { return machine.Step{Kind: machine.Compute, Duration: d} }
	stream := func(n int64) machine.Step { return machine.Step{Kind: machine.Stream, Bytes: n, Rate: 3e9} }
	for _, tt := range []struct {
		cost Cost
		size int64
		want []machine.Step
	}{
		{c, 0, []machine.Step{compute(5000)}},
		{c, 999, []machine.Step{compute(5500)}}, // 499.5 is rounded up
		{c, 1000, []machine.Step{compute(5500), stream(2000)}},
		{Cost{MovedPerByte: 1}, 7, []machine.Step{{Kind: machine.Stream, Bytes: 7}}},
		{Cost{}, 7, nil},
	} {
		if diff := cmp.Diff(tt.want, tt.cost.Steps(nil, tt.size)); diff != "" {
			t.Errorf("%+v of %d (-want +got):\n%s", tt.cost, tt.size, diff)
		}
	}
}

// costed is a workload of all kinds of operation, with its costs.
func costed(t *testing.T) (*KV, *Costs) {
	t.Helper()
	sizes := dist.Uniform{Unit: dist.Bytes, Low: 100, High: 300}
	k := mustKV(t,
		KVClass{Name: "a", Share: 0.5, Mix: Mix{Get: 0.4, Set: 0.3, Delete: 0.1, MultiGet: 0.2}, Batch: 3, Keys: 500, ValueSize: sizes},
		KVClass{Name: "b", Share: 0.5, Keys: 1 << 40, KeySize: 40, ValueSize: sizes, Popularity: "zipf:0.9"})
	c, err := NewCosts(k, map[string]Cost{
		"get": {Compute: 1000, ComputePerByte: 1, MovedPerByte: 1, CachedBelow: 200}, "set": {Compute: 2000, MovedPerByte: 2},
		"delete": {Compute: 500},
	})
	if err != nil {
		t.Fatal(err)
	}
	return k, c
}

// TestCostsFollowTheValue holds the steps of what is drawn against the sizes of the values that Preload would store.
func TestCostsFollowTheValue(t *testing.T) {
	t.Parallel()
	k, c := costed(t)
	stored := map[string]int64{}
	for op := range k.Preload() {
		if op.Class > 0 {
			break // of the other class there are too many to store
		}
		stored[string(op.Key)] = int64(len(op.Value))
	}
	rng, seen := dist.Stream(1, "operations", 0), map[Kind]int{}
	var op Op
	for range 2000 {
		k.Next(rng, &op)
		if op.Class != 0 {
			continue
		}
		seen[op.Kind]++
		sizes := []int64{stored[string(op.Key)]}
		for _, key := range op.More {
			sizes = append(sizes, stored[string(key)])
		}
		if op.Kind == Set && int64(len(op.Value)) != sizes[0] {
			t.Fatalf("%q is set to %d bytes, stored with %d", op.Key, len(op.Value), sizes[0])
		}
		if op.Kind == MultiGet && len(sizes) != 3 {
			t.Fatalf("a read of %d keys, want 3", len(sizes))
		}
		var want []machine.Step
		sum := int64(0)
		for _, size := range sizes {
			want = c.kinds[op.Kind].Steps(want, size)
			sum += size
		}
		steps, bytes := c.Steps(nil, &op)
		if bytes != sum {
			t.Fatalf("%s of %q is about %d bytes, want %d", op.Kind, op.Key, bytes, sum)
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Fatalf("%s of %q (-want +got):\n%s", op.Kind, op.Key, diff)
		}
	}
	if len(seen) != int(NumKinds) {
		t.Errorf("only %v were drawn", seen)
	}
}

// TestMeanCosts holds the means, which the capacity is computed from, against those of what is drawn.
func TestMeanCosts(t *testing.T) {
	t.Parallel()
	k, c := costed(t)
	bus := machine.Bus{Total: 1e9, PerCore: 0.5e9}
	want, shares := c.Mean(bus)
	if diff := cmp.Diff([]float64{0.5, 0.5}, shares); diff != "" {
		t.Errorf("shares: %s", diff)
	}
	k.WithoutValues()
	rng := dist.Stream(7, "operations", 0)
	var core, bytes, n [2]float64
	var op Op
	for range 200_000 {
		k.Next(rng, &op)
		if op.Value != nil {
			t.Fatal("a value, although there should be none")
		}
		var d machine.Demand
		steps, _ := c.Steps(nil, &op)
		for _, s := range steps {
			d.Mean(s, bus)
		}
		core[op.Class] += float64(d.Core)
		bytes[op.Class] += d.Bytes
		n[op.Class]++
	}
	for i, d := range want {
		if got := core[i] / n[i]; math.Abs(got/float64(d.Core)-1) > 0.02 {
			t.Errorf("class %d: %g ns of core-time are drawn on average, Mean says %v", i, got, d.Core)
		}
		if got := bytes[i] / n[i]; math.Abs(got/d.Bytes-1) > 0.02 {
			t.Errorf("class %d: %g bytes are drawn on average, Mean says %g", i, got, d.Bytes)
		}
	}
}

func TestCostsMustCoverWhatIsAsked(t *testing.T) {
	t.Parallel()
	k := mustKV(t, KVClass{Name: "w", Share: 1, Mix: Mix{Get: 0.5, Set: 0.5}, Keys: 10, ValueSize: bytesOf(1)})
	_, err := NewCosts(k, map[string]Cost{"get": {Compute: 1}})
	if err == nil || !strings.Contains(err.Error(), "no cost of the operation set, which class w asks for") {
		t.Errorf("error %v", err)
	}
}

func TestCostsAllocateNothing(t *testing.T) {
	k, c := costed(t)
	rng := dist.Stream(1, "operations", 0)
	var op Op
	var steps []machine.Step
	for range 1000 {
		k.Next(rng, &op)
		steps, _ = c.Steps(steps[:0], &op)
	}
	if n := testing.AllocsPerRun(1000, func() { k.Next(rng, &op); steps, _ = c.Steps(steps[:0], &op) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
