package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/machine"
)

// entry is a request of one key.
func entry(class int, kind Kind, key string, size int64) *Entry {
	return &Entry{Class: class, Kind: kind, Keys: [][]byte{[]byte(key)}, Sizes: []int64{size}}
}

func several(class int, sizes []int64, keys ...string) *Entry {
	e := &Entry{Class: class, Kind: MultiGet, Sizes: sizes}
	for _, k := range keys {
		e.Keys = append(e.Keys, []byte(k))
	}
	return e
}

// smallLog has every kind of request.
func smallLog(t testing.TB) *Recording {
	t.Helper()
	r := NewRecorder([]string{"a", "b"})
	for _, e := range []*Entry{
		entry(0, Get, "a-there", 100),
		entry(0, Get, "a-absent", NoValue),
		entry(1, Set, "b-new", 3000),
		entry(1, Get, "b-new", 3000),
		several(0, []int64{100, 50, NoValue}, "a-there", "a-other", "a-absent"),
		entry(1, Delete, "b-new", 3000),
		entry(1, Delete, "b-gone", NoValue),
		entry(0, Get, "a-absent", 7),
	} {
		if err := r.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return r.Recording()
}

func replayOf(t testing.TB, r *Recording) *Replay {
	t.Helper()
	w, err := NewReplay(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestReplayAsksWhatWasRecorded: all requests in their order, and again from the first.
func TestReplayAsksWhatWasRecorded(t *testing.T) {
	t.Parallel()
	rec := smallLog(t)
	w := replayOf(t, rec)
	var op Op
	var e Entry
	for i := range 2*rec.Len() + 3 {
		w.Next(nil, &op)
		rec.Entry(i%rec.Len(), &e)
		keys := append([][]byte{op.Key}, op.More...)
		if int(op.Class) != e.Class || op.Kind != e.Kind || !slices.EqualFunc(keys, e.Keys, bytes.Equal) || op.WriteBack || op.Expire != 0 {
			t.Fatalf("request %d: %+v, want %+v", i, op, e)
		}
		if op.Kind == Set && int64(len(op.Value)) != e.Sizes[0] || op.Kind != Set && op.Value != nil {
			t.Fatalf("request %d: a value of %d bytes, want %d", i, len(op.Value), e.Sizes[0])
		}
	}
	w.Start(5)
	if w.Next(nil, &op); op.Kind != Delete || string(op.Key) != "b-new" {
		t.Errorf("request 5 is %v %s", op.Kind, op.Key)
	}
}

// TestReplaySkipsAsItAsks: what is passed over has the refs of what is asked, so that senders of parts of a log have one hash.
func TestReplaySkipsAsItAsks(t *testing.T) {
	t.Parallel()
	rec := smallLog(t)
	asks, skips := replayOf(t, rec), replayOf(t, rec)
	var a, b Op
	refs := map[uint64]string{}
	for i := range 2 * rec.Len() {
		asks.Next(nil, &a)
		skips.Skip(nil, &b)
		if a.Kind != b.Kind || a.Class != b.Class || a.Ref != b.Ref {
			t.Fatalf("request %d: asked %+v, passed over %+v", i, a, b)
		}
		name := fmt.Sprintf("%s %s", a.Key, a.More)
		if other, known := refs[a.Ref]; known && other != name {
			t.Errorf("%s and %s have one ref", name, other)
		}
		refs[a.Ref] = name
	}
}

// TestReplayStoresWhatIsReadFirst: keys that a read finds before they are written, with the size that it finds, and values that stay the same.
func TestReplayStoresWhatIsReadFirst(t *testing.T) {
	t.Parallel()
	rec := smallLog(t)
	w := replayOf(t, rec)
	got := map[string]int{}
	values := map[string]string{}
	for op := range w.Preload() {
		if op.Kind != Set {
			t.Errorf("%v is stored", op.Kind)
		}
		got[string(op.Key)] = len(op.Value)
		values[string(op.Key)] = string(op.Value)
	}
	// a-absent is found at last, though nobody wrote it: it was written past the log.
	if diff := cmp.Diff(map[string]int{"a-there": 100, "a-other": 50, "a-absent": 7}, got); diff != "" {
		t.Error(diff)
	}
	for op := range replayOf(t, rec).Preload() {
		if values[string(op.Key)] != string(op.Value) {
			t.Errorf("%s has another value the second time", op.Key)
		}
	}
	items, size, largest := rec.Stored()
	if items != 3 || size != 157 || largest != 100 {
		t.Errorf("%d keys, %d bytes, the largest %d", items, size, largest)
	}
	if items, size, largest := rec.Footprint(); items != 4 || size != 3157 || largest != 3000 {
		t.Errorf("a server holds %d keys, %d bytes, the largest %d", items, size, largest)
	}
	if rec.Keys() != 5 {
		t.Errorf("%d keys", rec.Keys())
	}
}

// TestReplayCostsByRequest: each request costs what its own operation and size do.
func TestReplayCostsByRequest(t *testing.T) {
	t.Parallel()
	rec := smallLog(t)
	w := replayOf(t, rec)
	w.WithoutValues()
	table := map[string]Cost{
		"get": {Compute: 5000, MovedPerByte: 1}, "set": {Compute: 6000, ComputePerByte: 1, MovedPerByte: 2}, "delete": {Compute: 1000},
	}
	c, err := NewReplayCosts(w, table)
	if err != nil {
		t.Fatal(err)
	}
	compute := func(d time.Duration) machine.Step { return machine.Step{Kind: machine.Compute, Duration: d} }
	stream := func(n int64) machine.Step { return machine.Step{Kind: machine.Stream, Bytes: n} }
	var op Op
	for i, want := range [][]machine.Step{
		{compute(5000), stream(100)},
		{compute(5000)},
		{compute(9000), stream(6000)},
		{compute(5000), stream(3000)},
		{compute(5000), stream(100), compute(5000), stream(50), compute(5000)},
		{compute(1000)},
		{compute(1000)},
		{compute(5000), stream(7)},
	} {
		w.Next(nil, &op)
		if op.Value != nil {
			t.Errorf("request %d has a value", i)
		}
		if got, _ := c.Steps(nil, &op); !cmp.Equal(want, got) {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
	bus := machine.Bus{Total: 1e10, PerCore: 1e9} // a byte a nanosecond
	demands, shares := c.Mean(bus)
	if !slices.Equal(shares, []float64{0.5, 0.5}) {
		t.Errorf("shares %v", shares)
	}
	// Class a: 100, none, 150 and 7 bytes in 6 reads; class b: a set, a read, two deletes.
	if a, b := demands[0], demands[1]; a.Bytes != 257.0/4 || a.Core != (30000+257)/4 || b.Bytes != 9000.0/4 || b.Core != (9000+6000+5000+3000+2000)/4 {
		t.Errorf("mean work %+v", demands)
	}
	delete(table, "delete")
	if _, err := NewReplayCosts(w, table); err == nil || !strings.Contains(err.Error(), "no cost of the operation delete, which class b of the log asks for") {
		t.Error(err)
	}
}

func TestReplayPatterns(t *testing.T) {
	t.Parallel()
	rec := smallLog(t)
	w := replayOf(t, rec)
	if _, err := w.Patterns(); err == nil {
		t.Error("nothing is known of the keys, and they tell the classes apart")
	}
	rec.Prefixes = []string{"a-", "b-"}
	if got, err := w.Patterns(); err != nil || !slices.Equal(got, []string{"a-*", "b-*"}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := rec.CheckPrefixes(); err != nil {
		t.Error(err)
	}
	rec.Prefixes = []string{"a-", "a-"}
	if _, err := w.Patterns(); err == nil {
		t.Error("two classes with one prefix are told apart")
	}
	if err := rec.CheckPrefixes(); err == nil || !strings.Contains(err.Error(), `request 3 of class b asks for the key b-new`) {
		t.Error(err)
	}
}

func TestRecorderRefuses(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*Entry{
		"class 2 of 2":                           entry(2, Get, "k", 1),
		"an operation is":                        entry(0, NumKinds, "k", 1),
		"only a multiget has several":            {Kind: Get, Keys: [][]byte{{'a'}, {'b'}}, Sizes: []int64{1, 1}},
		"1 sizes for 2 keys":                     several(0, []int64{1}, "a", "b"),
		"0 keys: must be 1 to 255":               {Kind: Get},
		"a set has a size":                       entry(0, Set, "k", NoValue),
		"size -2":                                entry(0, Get, "k", -2),
		"size 134217729: must be 0 to 134217728": entry(0, Set, "k", maxValue+1),
		"must not hold spaces or control":        entry(0, Get, "k\x7f", 1),
		"key of 251 bytes: must have 1 to 250":   entry(0, Get, strings.Repeat("k", 251), 1),
	} {
		r := NewRecorder([]string{"a", "b"})
		if err := r.Add(e); err == nil || !strings.Contains(err.Error(), want) || r.Recording().Len() != 0 {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := NewReplay(NewRecorder(nil).Recording()); err == nil {
		t.Error("a log without requests was taken")
	}
	r := NewRecorder([]string{"a"})
	r.rec.keys = make([]byte, MaxKeyBytes) // untouched pages take nothing
	if err := r.Add(entry(0, Get, "k", 1)); !errors.Is(err, ErrRecordingFull) {
		t.Errorf("beyond the bound: %v", err)
	}
	r = NewRecorder([]string{"a"})
	r.rec.parts = make([]part, maxParts-1)
	several := entry(0, MultiGet, "k", 1)
	several.Keys, several.Sizes = append(several.Keys, []byte("l")), append(several.Sizes, 1)
	if err := r.Add(several); !errors.Is(err, ErrRecordingFull) {
		t.Errorf("more keys in requests for several than there is room for: %v", err)
	}
	if err := r.Add(entry(0, Get, "k", 1)); err != nil {
		t.Errorf("a request for one key takes no such room: %v", err)
	}
}

// TestReplayAllocatesNothing: neither asking nor passing over nor what it costs.
func TestReplayAllocatesNothing(t *testing.T) {
	rec := smallLog(t)
	w := replayOf(t, rec)
	c, err := NewReplayCosts(w, map[string]Cost{"get": {Compute: 1, MovedPerByte: 1}, "set": {Compute: 1}, "delete": {Compute: 1}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var op Op
	steps := make([]machine.Step, 0, 64)
	for range 20 {
		w.Next(rng, &op)
	}
	if n := testing.AllocsPerRun(1000, func() {
		w.Next(rng, &op)
		steps, _ = c.Steps(steps[:0], &op)
		w.Skip(rng, &op)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
