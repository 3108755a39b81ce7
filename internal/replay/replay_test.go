package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/workloads"
)

// flat is a row whose parts belong to nobody else.
type flat struct {
	At    time.Duration
	Class string
	Kind  workloads.Kind
	Keys  []string
	Sizes []int64
}

func flatten(r *Row) flat {
	f := flat{At: r.At, Class: string(r.Class), Kind: r.Kind, Sizes: slices.Clone(r.Sizes)}
	for _, k := range r.Keys {
		f.Keys = append(f.Keys, string(k))
	}
	return f
}

func (f flat) row() *Row {
	r := &Row{At: f.At, Class: []byte(f.Class)}
	r.Kind, r.Sizes = f.Kind, f.Sizes
	for _, k := range f.Keys {
		r.Keys = append(r.Keys, []byte(k))
	}
	return r
}

func scan(text string, rules Rules) (list []flat, bad []BadRow, passed int64, err error) {
	bad, passed, err = Scan(strings.NewReader(text), "log.csv", rules, func(_ int, r *Row) error {
		list = append(list, flatten(r))
		return nil
	})
	return list, bad, passed, err
}

// TestRoundTrip: whatever requests there are, what is written is read again.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	key := rapid.StringMatching(`[!-~]{1,12}`)
	size := rapid.Int64Range(workloads.NoValue, 1<<27)
	row := rapid.Custom(func(t *rapid.T) flat {
		f := flat{
			At: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "gap")), Class: rapid.StringMatching(`[A-Zb-z0-9][A-Za-z0-9._-]{0,8}`).Draw(t, "class"),
			Kind: rapid.SampledFrom([]workloads.Kind{workloads.Get, workloads.Set, workloads.Delete, workloads.MultiGet}).Draw(t, "kind"),
		}
		n := 1
		if f.Kind == workloads.MultiGet {
			n = rapid.IntRange(1, 5).Draw(t, "keys")
		}
		for range n {
			f.Keys = append(f.Keys, key.Draw(t, "key"))
			s := size.Draw(t, "size")
			if f.Kind == workloads.Set {
				s = max(s, 0)
			}
			f.Sizes = append(f.Sizes, s)
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(row, 1, 20).Draw(t, "rows")
		var text bytes.Buffer
		w := NewWriter(&text)
		at := time.Duration(0)
		for i := range want {
			at += want[i].At
			want[i].At = at
			if err := w.Write(want[i].row()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, _, _, err := scan(text.String(), Rules{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-written +read):\n%s\n%s", diff, text.String())
		}
	})
}

func TestReadForms(t *testing.T) {
	t.Parallel()
	got, _, _, err := scan("\xef\xbb\xbftime,class,key,size,operation\r\n# a comment\n\n0.000000001,a,k,5,get\r\n1.5ms,a,\"x,\"\"y\",,get\n2,b,p q r,1 - 3,multiget\n2,b,p q,7,multiget\n2.5,b,k,,delete", Rules{})
	want := []flat{
		{1, "a", workloads.Get, []string{"k"}, []int64{5}},
		{1500 * time.Microsecond, "a", workloads.Get, []string{`x,"y`}, []int64{-1}},
		{2 * time.Second, "b", workloads.MultiGet, []string{"p", "q", "r"}, []int64{1, -1, 3}},
		{2 * time.Second, "b", workloads.MultiGet, []string{"p", "q"}, []int64{7, 7}},
		{2500 * time.Millisecond, "b", workloads.Delete, []string{"k"}, []int64{-1}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// badRows are rows that are no requests, each with a part of what is to be said of it.
var badRows = map[string]string{
	"1,a,k,5":                        "has 4 fields, a row has 5",
	"1,a,k,5,get,x":                  "has 6 fields",
	"x,a,k,5,get":                    `time "x": write seconds`,
	"-1,a,k,5,get":                   `time "-1"`,
	"1.0000000001,a,k,5,get":         "finer than a nanosecond",
	"1585706400123,a,k,5,get":        "must be below a hundred years",
	"99999999999999999999,a,k,5,get": "must be below a hundred years",
	"1.,a,k,5,get":                   "write seconds",
	"0.5,a,k,5,get":                  "is before that of the row above; sort the rows by time",
	"2,nobody,k,5,get":               `class "nobody" is none of the workload's, which are a, b`,
	"2,a,k,5,scan":                   `operation "scan": there are get, set, delete and multiget`,
	"2,a,,5,get":                     "key of 0 bytes",
	"2,a,k l,5,get":                  "must not hold spaces",
	"2,a,k\tl,5,get":                 "must not hold spaces or control characters",
	"2,a," + strings.Repeat("k", 251) + ",5,get": "key of 251 bytes",
	"2,a,k,-5,get":           `size "-5"`,
	"2,a,k,5kB,get":          `size "5kB"`,
	"2,a,k,999999999999,get": "must be 0 to 134217728 bytes",
	"2,a,k,,set":             "a set has a size",
	"2,a,,5,multiget":        "a multiget has keys",
	"2,a,k l,1 2 3,multiget": "3 sizes for 2 keys",
	"2,a,\"k,5,get":          "a quoted field has no end",
	"2,a,\"k\"l,5,get":       "a comma belongs behind a quoted field",
	"2,a," + strings.Repeat("k ", 300) + ",5,multiget": "300 keys: must be 1 to 255",
	"2,a," + strings.Repeat("k", maxLine) + ",5,get":   "is longer than 131072 bytes",
}

// TestBadRows: each is an error with file and line, or is passed over and counted, and what stands around it is read.
func TestBadRows(t *testing.T) {
	t.Parallel()
	for bad, want := range badRows {
		text := "time,class,key,size,operation\n1,a,before,5,get\n" + bad + "\n3,b,after,5,set\n"
		load := Load{Classes: []string{"a", "b"}}
		_, err := Read(strings.NewReader(text), "log.csv", load)
		if err == nil || !strings.HasPrefix(err.Error(), "log.csv:3: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", bad, err, want)
		}
		load.Skip = true
		trace, err := Read(strings.NewReader(text), "log.csv", load)
		if err != nil {
			t.Errorf("%.60q, passed over: %v", bad, err)
			continue
		}
		if trace.Passed != 1 || len(trace.Bad) != 1 || trace.Bad[0].Line != 3 || !strings.Contains(trace.Bad[0].Reason, want) || trace.Len() != 2 {
			t.Errorf("%.60q: passed over %d, %+v, %d requests are left", bad, trace.Passed, trace.Bad, trace.Len())
		}
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	const header = "time,class,key,size,operation\n"
	for text, want := range map[string]string{
		"":                                    "log.csv: is empty; a log begins with the line time,class,key,size,operation",
		"# nothing\n":                         "is empty",
		"0,k,2,3,4,get,0\n":                   "log.csv:1: begins with \"0,k,2,3,4,get,0\", and a log with the line time,class,key,size,operation; `loadgen trace import`",
		"class,time,key,size,operation\n":     "begins with",
		header:                                "log.csv: holds no requests",
		header + "1,a,x,5,get\n":              "needs two requests at different instants",
		header + "1,a,x,5,get\n1,a,x,5,get\n": "needs two requests at different instants",
		header + "1,a,x-1,5,get\n2,b,x-2,5,get\n": `log.csv: request 2 of class b asks for the key x-2, which does not begin with "y"`,
	} {
		_, err := Read(strings.NewReader(text), "log.csv", Load{Classes: []string{"a", "b"}, Prefixes: []string{"x", "y"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := Read(io.MultiReader(strings.NewReader(header), failing{}), "log.csv", Load{})
	if !errors.Is(err, errFailing) || !strings.HasPrefix(err.Error(), "log.csv:2: ") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

var errFailing = errors.New("input/output error")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// TestBadRowsAreCounted: the first are told one by one, the others counted.
func TestBadRowsAreCounted(t *testing.T) {
	t.Parallel()
	text := "time,class,key,size,operation\n" + strings.Repeat("x,a,k,5,get\n", 25) + "1,a,k,5,get\n"
	rows, bad, passed, err := scan(text, Rules{Skip: true})
	if len(rows) != 1 || len(bad) != badKept || passed != 25 || err != nil {
		t.Errorf("%d rows, %d told, %d passed over, %v", len(rows), len(bad), passed, err)
	}
}

// TestPart: a log begins with its first request, or so long after it as is asked for, and ends where it shall.
func TestPart(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("time,class,key,size,operation\n")
	for i := range 10 {
		fmt.Fprintf(&text, "%d,a,k%d,5,get\n", 100+i, i)
	}
	whole, err := Read(strings.NewReader(text.String()), "log.csv", Load{Classes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Times[0] != 0 || whole.Times[9] != 9*time.Second || whole.Round != 10*time.Second || whole.Rate() != 1 {
		t.Errorf("times %v, a round of %v", whole.Times, whole.Round)
	}
	part, err := Read(strings.NewReader(text.String()), "log.csv", Load{Classes: []string{"a"}, From: 2500 * time.Millisecond, For: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var e workloads.Entry
	part.Entry(0, &e)
	want := []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 3500 * time.Millisecond}
	if !slices.Equal(part.Times, want) || part.Round != 4*time.Second || string(e.Keys[0]) != "k3" {
		t.Errorf("times %v from key %s on, a round of %v", part.Times, e.Keys[0], part.Round)
	}
	_, err = Read(strings.NewReader(text.String()), "log.csv", Load{Classes: []string{"a"}, From: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "the part from 1h0m0s on holds no requests") {
		t.Error(err)
	}
}

func logOf(t testing.TB, round time.Duration, times ...time.Duration) *Trace {
	t.Helper()
	rec := workloads.NewRecorder([]string{"a"})
	for i := range times {
		if err := rec.Add(&workloads.Entry{Kind: workloads.Get, Keys: [][]byte{fmt.Appendf(nil, "k%d", i)}, Sizes: []int64{1}}); err != nil {
			t.Fatal(err)
		}
	}
	trace, err := newTrace(rec.Recording(), times, round)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func instants(t *testing.T, trace *Trace, p Pace, n int) (first int, list []clock.Instant) {
	t.Helper()
	a, first, err := NewArrivals(trace, p)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		list = append(list, a.Next(nil))
	}
	return first, list
}

// TestArrivals: the window begins with the log, the warm-up has what comes before, and recorded nanoseconds are kept.
func TestArrivals(t *testing.T) {
	t.Parallel()
	trace := logOf(t, 100, 3, 7, 7, 61)
	for _, tt := range []struct {
		pace  Pace
		first int
		want  []clock.Instant
	}{
		{Pace{Speed: 1}, 0, []clock.Instant{3, 7, 7, 61, 103, 107, 107, 161, 203}},
		{Pace{Speed: 1, WarmUp: 20}, 0, []clock.Instant{23, 27, 27, 81, 123}},
		{Pace{Speed: 1, WarmUp: 39}, 3, []clock.Instant{0, 42, 46, 46, 100, 142}},
		{Pace{Speed: 1, WarmUp: 40}, 3, []clock.Instant{1, 43, 47}},
		{Pace{Speed: 1, WarmUp: 250}, 3, []clock.Instant{11, 53, 57, 57, 111, 153, 157, 157, 211, 253}},
		{Pace{Speed: 2, WarmUp: 20}, 3, []clock.Instant{1, 21, 23, 23, 50, 71}},
		{Pace{Speed: 0.5}, 0, []clock.Instant{6, 14, 14, 122, 206}},
		{Pace{Speed: 1, Stop: true}, 0, []clock.Instant{3, 7, 7, 61, clock.Never, clock.Never}},
		{Pace{Speed: 1, WarmUp: 50, Stop: true}, 3, []clock.Instant{11, 53, 57, 57, 111, clock.Never}},
	} {
		first, got := instants(t, trace, tt.pace, len(tt.want))
		if first != tt.first || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v from %d on, want %v from %d on", tt.pace, got, first, tt.want, tt.first)
		}
	}
	for _, speed := range []float64{0, -1, 1e18, 1e-30} {
		if _, _, err := NewArrivals(trace, Pace{Speed: speed}); err == nil {
			t.Errorf("speed %g was taken", speed)
		}
	}
}

// TestNothingAccumulates: whatever the speed and after however many rounds, instants do not decrease and are where they belong.
func TestNothingAccumulates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// Of long logs a few hundred rounds are more nanoseconds than an integer holds.
		scale := rapid.SampledFrom([]struct {
			gap            time.Duration
			slowest, speed float64
		}{{time.Hour, 1e-3, 1e3}, {longest / 20, 1e3, 1e9}}).Draw(rt, "scale")
		gaps := rapid.SliceOfN(rapid.Int64Range(0, int64(scale.gap)), 1, 20).Draw(rt, "gaps")
		var times []time.Duration
		at := time.Duration(0)
		for _, g := range gaps {
			at += time.Duration(g)
			times = append(times, at)
		}
		trace := logOf(t, at+time.Second, times...)
		p := Pace{Speed: rapid.Float64Range(scale.slowest, scale.speed).Draw(rt, "speed"), WarmUp: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "warm-up"))}
		a, first, err := NewArrivals(trace, p)
		if err != nil {
			rt.Fatal(err)
		}
		before := clock.Instant(0)
		round := float64(a.round) * float64(trace.Round)
		for k := range 200 {
			got := a.Next(nil)
			i := first + k
			exact := (round + float64(i/len(times))*float64(trace.Round) + float64(times[i%len(times)])) / p.Speed
			if got < before || float64(got)-float64(p.WarmUp)-exact > 2+1e-9*max(exact, -exact) || exact-float64(got)+float64(p.WarmUp) > 2+1e-9*max(exact, -exact) {
				rt.Fatalf("request %d at %d after %d, want %g after the warm-up", k, got, before, exact)
			}
			before = got
		}
	})
}

func TestParts(t *testing.T) {
	t.Parallel()
	trace := logOf(t, 10*time.Second, 0, time.Second, 2*time.Second, 3*time.Second, 9*time.Second)
	parts, err := trace.Parts(Pace{Speed: 2, WarmUp: time.Minute}, 5*time.Second, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []Part{{Rate: 1.6, Counts: []float64{4}}, {Rate: 0.4, Counts: []float64{1}}}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Error(diff)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	digests := map[uint64]string{}
	for name, trace := range map[string]*Trace{
		"plain": logOf(t, 100, 3, 7), "later": logOf(t, 100, 3, 8), "longer": logOf(t, 101, 3, 7), "more": logOf(t, 100, 3, 7, 7),
	} {
		d := trace.Digest()
		if other, taken := digests[d]; taken {
			t.Errorf("%s and %s have one digest", name, other)
		}
		digests[d] = name
	}
	if again := logOf(t, 100, 3, 7); digests[again.Digest()] != "plain" {
		t.Error("the same log has two digests")
	}
}

// TestCreate: a file is there as a whole or not at all.
func TestCreate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "log.csv")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Create(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return errFailing
	})
	entries, _ := os.ReadDir(dir)
	text, _ := os.ReadFile(path)
	if !errors.Is(err, errFailing) || string(text) != "old" || len(entries) != 1 {
		t.Errorf("after %v: %q, %d files", err, text, len(entries))
	}
	if err := Create(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("%q was written", text)
	}
	if err := Create("-", nil); err == nil || !strings.Contains(err.Error(), "name a file") {
		t.Errorf("standard output: %v", err)
	}
	if err := Create(dir, nil); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("a folder: %v", err)
	}
	if err := Create(filepath.Join(dir, "none", "log.csv"), nil); err == nil || !strings.Contains(err.Error(), "cannot be written: no such file or directory") {
		t.Errorf("no folder: %v", err)
	}
}

// TestFullDisk: writing to a full device is an error that says so, though it shows only when the buffer is written.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	err = Create(filepath.Join(t.TempDir(), "log.csv"), func(io.Writer) error {
		w := NewWriter(full)
		for range 10 {
			if err := w.Write(flat{Class: "a", Keys: []string{"k"}, Sizes: []int64{1}}.row()); err != nil {
				return err
			}
		}
		return w.Close()
	})
	if err == nil || !strings.Contains(err.Error(), "the disk is full; make room") {
		t.Error(err)
	}
}

// TestNoAllocation: once it runs, neither the instants nor the rows of a file that is read take memory.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	trace := logOf(t, 100, 3, 7, 7, 61)
	a, _, err := NewArrivals(trace, Pace{Speed: 3})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	if n := testing.AllocsPerRun(1000, func() { a.Next(rng) }); n != 0 {
		t.Errorf("an instant takes %g allocations", n)
	}
	text := "time,class,key,size,operation\n" + strings.Repeat("1.000000001,a,\"k,1\",5,get\n", 10_000)
	perScan := testing.AllocsPerRun(3, func() {
		if _, _, err := Scan(strings.NewReader(text), "log.csv", Rules{}, func(int, *Row) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
	if perScan > 100 {
		t.Errorf("reading 10000 rows takes %g allocations", perScan)
	}
}

// FuzzScan feeds the reader arbitrary text. It must not crash, and what it accepts must survive being written and read again.
func FuzzScan(f *testing.F) {
	for bad := range badRows {
		f.Add([]byte("time,class,key,size,operation\n1,a,k,5,get\n" + bad[:min(len(bad), 200)] + "\n"))
	}
	f.Add([]byte("time,class,key,size,operation\r\n1.5ms,a,\"x,\"\"y\",,get\n2,b,p q r,1 - 3,multiget\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, _, _, err := scan(string(text), Rules{Skip: true})
		if err != nil {
			return
		}
		var again bytes.Buffer
		w := NewWriter(&again)
		for _, r := range first {
			if err := w.Write(r.row()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		second, _, _, err := scan(again.String(), Rules{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, again.String())
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
	})
}
