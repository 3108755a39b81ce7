package workloads

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/dist"
)

func bytesOf(n float64) dist.Dist { return dist.Constant{Unit: dist.Bytes, Value: n} }

func mustKV(t *testing.T, classes ...KVClass) *KV {
	t.Helper()
	k, err := NewKV(classes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func preset(t *testing.T, name string) []KVClass {
	t.Helper()
	classes, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return classes
}

func TestBimodalGetIsAsPublished(t *testing.T) {
	t.Parallel()
	k := mustKV(t, preset(t, "bimodal-get")...)
	rng := dist.Stream(1, "operations", 0)
	const n = 20_000
	counts, keys := [2]float64{}, map[string]bool{}
	var op Op
	for range n {
		k.Next(rng, &op)
		if op.Kind != Get || op.Value != nil {
			t.Fatalf("%v with a value of %d bytes, want a get", op.Kind, len(op.Value))
		}
		want := [2]string{"skey-", "lkey-"}[op.Class]
		if len(op.Key) != 21 || !strings.HasPrefix(string(op.Key), want) || strings.Trim(string(op.Key[5:]), "0123456789") != "" {
			t.Fatalf("class %d asks for %q", op.Class, op.Key)
		}
		counts[op.Class]++
		keys[string(op.Key)] = true
	}
	if math.Abs(counts[0]-n/2) > 5*math.Sqrt(n/4) {
		t.Errorf("%v of %v are small", counts[0], n)
	}
	// 10 000 uniform draws hit 5 000·(1−e⁻²) ≈ 4 323 large and 100 000·(1−e^−0.1) ≈ 9 516 small keys.
	if got := float64(len(keys)); math.Abs(got-13_839) > 200 {
		t.Errorf("%v different keys, want about 13 839", got)
	}
	items, size := k.Footprint()
	if items != 105_000 || math.Abs(float64(size)/(100_000*502.5+5_000*1e6)-1) > 1e-6 {
		t.Errorf("footprint of %d items, %d bytes", items, size)
	}
}

func TestPreloadStoresWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	small := preset(t, "bimodal-get")
	small[0].Keys, small[1].Keys = 2000, 20
	k := mustKV(t, small...)
	sizes := [2][]int{}
	values := map[string]string{}
	for op := range k.Preload() {
		if op.Kind != Set {
			t.Fatal("preload must set")
		}
		sizes[op.Class] = append(sizes[op.Class], len(op.Value))
		if _, twice := values[string(op.Key)]; twice {
			t.Fatalf("%q is stored twice", op.Key)
		}
		values[string(op.Key)] = string(op.Value)
	}
	if len(sizes[0]) != 2000 || len(sizes[1]) != 20 {
		t.Fatalf("%d small and %d large keys", len(sizes[0]), len(sizes[1]))
	}
	for i, limits := range [2][2]int{{5, 1000}, {800_000, 1_200_000}} {
		sum := 0.0
		for _, n := range sizes[i] {
			if n < limits[0] || n > limits[1] {
				t.Fatalf("class %d has a value of %d bytes", i, n)
			}
			sum += float64(n)
		}
		mean, width := float64(limits[0]+limits[1])/2, float64(limits[1]-limits[0])
		if n := float64(len(sizes[i])); math.Abs(sum/n-mean) > 5*width/math.Sqrt(12*n) {
			t.Errorf("class %d: mean size %v, want about %v", i, sum/n, mean)
		}
	}
	rng := dist.Stream(1, "operations", 0)
	var op Op
	for range 1000 {
		k.Next(rng, &op)
		if _, stored := values[string(op.Key)]; !stored {
			t.Fatalf("%q is asked for and was not stored", op.Key)
		}
	}
	// Another workload of the same keys, whatever its seed, has the same values: a store may be used again.
	again := mustKV(t, small...)
	for op := range again.Preload() {
		if values[string(op.Key)] != string(op.Value) {
			t.Fatalf("%q has another value the second time", op.Key)
		}
	}
	distinct := map[string]bool{}
	for _, v := range values {
		if len(v) >= 8 {
			distinct[v] = true
		}
	}
	long := 0
	for _, v := range values {
		if len(v) >= 8 {
			long++
		}
	}
	if len(distinct) != long {
		t.Errorf("%d values of 8 bytes and more, %d of them different", long, len(distinct))
	}
}

func TestPreloadStops(t *testing.T) {
	t.Parallel()
	k := mustKV(t, KVClass{Name: "a", Share: 1, Keys: 100, ValueSize: bytesOf(10)})
	n := 0
	for range k.Preload() {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d operations", n)
	}
}

func TestValuesLongerThanTheNoise(t *testing.T) {
	t.Parallel()
	const size = 2*noiseBytes + 12345
	k := mustKV(t, KVClass{Name: "huge", Share: 1, Keys: 2, ValueSize: bytesOf(size)})
	for op := range k.Preload() {
		if len(op.Value) != size || !bytes.Equal(op.Value[100:1000], op.Value[100+noiseBytes:1000+noiseBytes]) {
			t.Fatalf("value of %d bytes", len(op.Value))
		}
	}
}

func TestMixAndSharedKeys(t *testing.T) {
	t.Parallel()
	k := mustKV(t,
		KVClass{Name: "write", Share: 0.25, Mix: Mix{Set: 1}, Keys: 50, KeyPrefix: "k-", ValueSize: bytesOf(30)},
		KVClass{Name: "any", Share: 0.75, Mix: Mix{Get: 0.5, Set: 0.3, Delete: 0.2}, Keys: 80, KeyPrefix: "k-", KeySize: 18, ValueSize: bytesOf(30), Popularity: "zipf:0.99"},
	)
	if items, _ := k.Footprint(); items != 80 {
		t.Errorf("%d items, want the 80 of the larger class", items)
	}
	stored := map[string]string{}
	for op := range k.Preload() {
		stored[string(op.Key)] = string(op.Value)
	}
	if len(stored) != 80 {
		t.Errorf("%d keys stored", len(stored))
	}
	rng, counts, first := dist.Stream(1, "operations", 0), map[[2]int]float64{}, 0.0
	const n = 40_000
	var op Op
	for range n {
		k.Next(rng, &op)
		counts[[2]int{int(op.Class), int(op.Kind)}]++
		if op.Kind == Set && stored[string(op.Key)] != string(op.Value) {
			t.Fatalf("%q is set to something else than was preloaded", op.Key)
		}
		if op.Class == 1 && string(op.Key) == "k-0000000000000000" {
			first++
		}
	}
	for cell, p := range map[[2]int]float64{{0, int(Set)}: 0.25, {1, int(Get)}: 0.375, {1, int(Set)}: 0.225, {1, int(Delete)}: 0.15} {
		if math.Abs(counts[cell]-n*p) > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%v: %v of %d, want %v", cell, counts[cell], n, n*p)
		}
	}
	if len(counts) != 4 {
		t.Errorf("cells %v", counts)
	}
	if first < 0.75*n*0.15 { // 1/H(80, 0.99) is 0.198
		t.Errorf("the most popular key was asked for %v times", first)
	}
}

func TestNewKVRefuses(t *testing.T) {
	t.Parallel()
	good := KVClass{Name: "a", Share: 1, Keys: 10, ValueSize: bytesOf(1)}
	change := func(f func(*KVClass)) []KVClass { c := good; f(&c); return []KVClass{c} }
	half := func(f func(*KVClass)) []KVClass {
		a, b := good, good
		a.Share, b.Share, b.Name = 0.5, 0.5, "b"
		f(&b)
		return []KVClass{a, b}
	}
	for want, classes := range map[string][]KVClass{
		"no name":          change(func(c *KVClass) { c.Name = "" }),
		"sum to 0.5":       change(func(c *KVClass) { c.Share = 0.5 }),
		"between 0 and 1":  change(func(c *KVClass) { c.Share = math.NaN() }),
		"at least 1":       change(func(c *KVClass) { c.Keys = 0 }),
		"no value size":    change(func(c *KVClass) { c.ValueSize = nil }),
		"must sum to 1":    change(func(c *KVClass) { c.Mix = Mix{Get: 0.5} }),
		"none negative":    change(func(c *KVClass) { c.Mix = Mix{Get: 2, Set: -1} }),
		"one of uniform":   change(func(c *KVClass) { c.Popularity = "hot" }),
		"exponent":         change(func(c *KVClass) { c.Popularity = "zipf:0" }),
		"control":          change(func(c *KVClass) { c.KeyPrefix = "a b" }),
		"need 3 to 250":    change(func(c *KVClass) { c.KeySize = 2 }),
		"both one key":     change(func(c *KVClass) { c.KeySize, c.KeySizes = 20, bytesOf(20) }),
		"whole seconds":    change(func(c *KVClass) { c.Expire = 1500 * time.Millisecond }),
		"for a date":       change(func(c *KVClass) { c.Expire = 31 * 24 * time.Hour }),
		"between 2 and":    change(func(c *KVClass) { c.Batch = 256 }),
		"there is not":     change(func(c *KVClass) { c.WriteBack = "b" }),
		"has other keys":   half(func(c *KVClass) { c.WriteBack = "a" }),
		"several keys":     half(func(c *KVClass) { c.KeyPrefix, c.WriteBack, c.Mix = "a-", "a", Mix{MultiGet: 1} }),
		"key size 251":     change(func(c *KVClass) { c.KeySize = 251 }),
		"two of that name": half(func(c *KVClass) { c.Name = "a" }),
		"share the keys":   half(func(c *KVClass) { c.KeyPrefix, c.ValueSize = "a-", bytesOf(2) }),
		"sum to 0,":        {},
	} {
		if _, err := NewKV(classes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := NewKV(change(func(c *KVClass) { c.KeySize = 250 })); err != nil {
		t.Errorf("a key of 250 bytes: %v", err)
	}
	if _, err := Preset("bimodal"); err == nil || !strings.Contains(err.Error(), "bimodal-get") {
		t.Errorf("unknown preset: %v", err)
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	k := mustKV(t,
		KVClass{Name: "a", Share: 0.5, Mix: Mix{Get: 0.5, Set: 0.5}, Keys: 1000, ValueSize: dist.Uniform{Low: 5, High: 1000}, Popularity: "zipf:0.99"},
		KVClass{Name: "b", Share: 0.5, Mix: Mix{Get: 0.5, MultiGet: 0.5}, Batch: 24, Keys: 1 << 40, KeySize: 250, ValueSize: bytesOf(1)})
	rng := dist.Stream(1, "operations", 0)
	var op Op
	for range 1000 { // the value buffer grows to its size
		k.Next(rng, &op)
	}
	if n := testing.AllocsPerRun(1000, func() { k.Next(rng, &op) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestKindNames(t *testing.T) {
	t.Parallel()
	var names []string
	for k := Get; k <= NumKinds; k++ {
		names = append(names, k.String())
	}
	if diff := cmp.Diff([]string{"get", "set", "delete", "multiget", "unknown"}, names); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkNext(b *testing.B) {
	classes, err := Preset("bimodal-get")
	if err != nil {
		b.Fatal(err)
	}
	k, err := NewKV(classes)
	if err != nil {
		b.Fatal(err)
	}
	rng := dist.Stream(1, "operations", 0)
	var op Op
	for b.Loop() {
		k.Next(rng, &op)
	}
}
