//go:build linux

package memcached

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"spillway/internal/memproto"
)

const second = 1_700_000_000

// fake is a Backend at a time that the test sets.
type fake struct {
	*Backend
	t testing.TB
	p memproto.Parser
	w memproto.Writer
}

func newFake(t testing.TB, c Config) *fake {
	t.Helper()
	b, err := newBackend(c)
	if err != nil {
		t.Fatal(err)
	}
	b.began = second
	b.setTime(second)
	t.Cleanup(func() {
		if n := b.cache.Stats().Pinned; n != 0 {
			t.Errorf("%d items are still pinned", n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fake{Backend: b, t: t, p: memproto.Parser{MaxItem: c.MaxItem}}
}

// do executes the commands in text and returns the replies.
func (f *fake) do(text string) string {
	f.t.Helper()
	var out strings.Builder
	for buf := []byte(text); len(buf) > 0; {
		var c memproto.Command
		n, s := f.p.Parse(buf, &c)
		if s != memproto.Ready {
			f.t.Fatalf("%.60q: status %v %s", buf, s, c.Error)
		}
		buf = buf[n:]
		if err := f.Do(&c, &f.w); err != nil {
			f.t.Fatal(err)
		}
		f.w.End(&c, memproto.Extras{})
		at := 0
		for _, ref := range f.w.Refs {
			out.Write(f.w.Buf[at:ref.At])
			out.Write(ref.Data)
			at = ref.At
		}
		out.Write(f.w.Buf[at:])
		f.w.Reset()
	}
	return out.String()
}

func (f *fake) want(text, want string) {
	f.t.Helper()
	if got := f.do(text); got != want {
		f.t.Errorf("%.100q: got %.300q, want %.300q", text, got, want)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		exptime int64
		last    int64 // second at which it is still there; -1 for never there, 0 for always
	}{
		{0, 0}, {1, second}, {10, second + 9}, {relative, second + relative - 1}, {relative + 1, -1}, {second, -1}, {second + 5, second + 4}, {-1, -1},
	} {
		f := newFake(t, DefaultConfig())
		f.want(fmt.Sprintf("set k 0 %d 1\r\nx\r\n", tc.exptime), "STORED\r\n")
		there := func(at int64) bool {
			f.setTime(at)
			return f.do("get k\r\n") != "END\r\n"
		}
		switch {
		case tc.last == 0 && !there(1<<32-1):
			t.Errorf("exptime %d: gone", tc.exptime)
		case tc.last < 0 && there(second):
			t.Errorf("exptime %d: there", tc.exptime)
		case tc.last > 0 && (!there(tc.last) || there(tc.last+1)):
			t.Errorf("exptime %d: not from and to the right second", tc.exptime)
		}
		if s := f.cache.Stats(); tc.last != 0 && s.Items != 0 {
			t.Errorf("exptime %d: %+v", tc.exptime, s)
		}
	}
}

// TestTimePasses: what counts seconds counts the right ones.
func TestTimePasses(t *testing.T) {
	t.Parallel()
	f := newFake(t, DefaultConfig())
	f.want("ms k 1 T100\r\nx\r\n", "HD\r\n")
	f.setTime(second + 40)
	f.want("mg k t l h\r\nmg k t l h\r\nme k\r\n", "HD t60 l40 h0\r\nHD t60 l0 h1\r\nME k exp=-60 la=0 cas=1 fetch=yes cls=1 size=61\r\n")
	f.want("mg k R60\r\nmg k R61\r\nmg k R61\r\n", "HD\r\nHD W\r\nHD Z\r\n")
	f.want("touch k 10\r\nmg k t\r\n", "TOUCHED\r\nHD t10 Z\r\n")
	f.setTime(second + 50)
	f.want("mg k t\r\nms k 1 ME T5\r\ny\r\nmg k t\r\n", "EN\r\nHD\r\nHD t5\r\n")
}

func TestFlushToCome(t *testing.T) {
	t.Parallel()
	f := newFake(t, DefaultConfig())
	const hit, miss = "HD\r\n", "EN\r\n"
	f.want("set k 0 0 1\r\nx\r\nflush_all 10\r\nmg k\r\n", "STORED\r\nOK\r\n"+hit)
	f.setTime(second + 9)
	f.want("mg k\r\nset l 0 0 1\r\nx\r\n", hit+"STORED\r\n")
	f.setTime(second + 10)
	f.want("mg k\r\nmg l\r\nset k 0 0 1\r\nx\r\nmg k\r\n", miss+miss+"STORED\r\n"+hit)
	f.setTime(second + 20)
	f.want("mg k\r\n", hit) // it was only once
	f.want(fmt.Sprintf("flush_all %d\r\nmg k\r\n", second+25), "OK\r\n"+hit)
	f.want("flush_all 0\r\nmg k\r\nset k 0 0 1\r\nx\r\n", "OK\r\n"+miss+"STORED\r\n")
	f.setTime(second + 30)
	f.want("mg k\r\n", hit) // the flush to come was replaced by the one at once
	f.want(fmt.Sprintf("flush_all %d\r\nmg k\r\n", second-5), "OK\r\n"+hit)
	f.want(fmt.Sprintf("flush_all %d\r\nmg k\r\n", second+29), "OK\r\n"+miss)
}

// TestPinsNeverLeak: whatever is done with large values, and whichever replies are never sent, nothing stays pinned and all memory comes
// back.
func TestPinsNeverLeak(t *testing.T) {
	t.Parallel()
	f := newFake(t, Config{Memory: 8 << 20, MaxItem: 1 << 20})
	rng := rand.New(rand.NewPCG(1, 1))
	large := strings.Repeat("v", 600_000)
	var unsent []*memproto.Writer
	for i := range 2000 {
		key := fmt.Sprint("k", rng.IntN(8))
		size := rng.IntN(100_000) * (1 + 5*(i%10/9))
		var text string
		switch rng.IntN(6) {
		case 0, 1:
			text = fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, size, large[:size])
		case 2:
			text = fmt.Sprintf("append %s 0 0 %d\r\n%s\r\n", key, size/10, large[:size/10])
		case 3:
			text = "delete " + key + "\r\n"
		default:
			text = fmt.Sprintf("get %s k1 k2 %s\r\n", key, key)
			if i%2 == 0 {
				text = "mg " + key + " v s\r\n"
			}
		}
		var c memproto.Command
		if _, s := f.p.Parse([]byte(text), &c); s != memproto.Ready {
			t.Fatal(s)
		}
		w := &memproto.Writer{}
		if err := f.Do(&c, w); err != nil {
			t.Fatal(err)
		}
		w.End(&c, memproto.Extras{})
		for j := range w.Refs {
			if !bytes.Equal(w.Refs[j].Data, []byte(large[:len(w.Refs[j].Data)])) {
				t.Fatal("a value that is to be sent was overwritten")
			}
		}
		unsent = append(unsent, w)
		if n := rng.IntN(len(unsent)); rng.IntN(3) > 0 {
			unsent[n].Reset()
			unsent[n] = unsent[len(unsent)-1]
			unsent = unsent[:len(unsent)-1]
		}
		if len(unsent) > 3 {
			unsent[0].Reset()
			unsent = unsent[1:]
		}
	}
	for _, w := range unsent {
		w.Reset()
	}
	for i := range 8 {
		f.do(fmt.Sprintf("delete k%d\r\n", i))
	}
	if s := f.cache.Stats(); s.Pinned != 0 || s.Items != 0 || s.Pages != 0 {
		t.Errorf("%+v", s)
	}
}

// TestManyAtOnce: the sum of what many clients add up is right, and appended values are whole.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t, DefaultConfig())
	f.do("set n 0 0 1\r\n0\r\nset s 0 0 0\r\n\r\nset large 0 0 20000\r\n" + strings.Repeat(".", 20000) + "\r\n")
	var all sync.WaitGroup
	const clients, rounds = 4, 300
	for id := range clients {
		all.Go(func() {
			mine := &fake{Backend: f.Backend, t: t}
			for range rounds {
				mine.do("incr n 1\r\n")
				mine.do(fmt.Sprintf("append s 0 0 4\r\n<%d%d>\r\n", id, id))
				mine.do(fmt.Sprintf("append large 0 0 4\r\n<%d%d>\r\nget large\r\n", id, id))
			}
		})
	}
	all.Wait()
	f.want("mg n v\r\n", "VA 4\r\n1200\r\n")
	for _, key := range []string{"s", "large"} {
		got := f.do("get " + key + "\r\n")
		for id := range clients {
			if n := strings.Count(got, fmt.Sprintf("<%d%d>", id, id)); n != rounds {
				t.Errorf("%s: client %d appended %d times, %d are there", key, id, rounds, n)
			}
		}
	}
}

// TestHeaderOnlyLarge: a large value is read through and let go; of a hit only what is known of it is sent.
func TestHeaderOnlyLarge(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.HeaderOnly = true
	f := newFake(t, c)
	f.want("set k 1 0 300000\r\n"+strings.Repeat("v", 300_000)+"\r\n", "STORED\r\n")
	f.want("mg k v s f\r\nget k\r\nmg k s\r\n", "HD s300000 f1\r\nVALUE k 1 0\r\n\r\nEND\r\nHD s300000\r\n")
}

func TestNoEvict(t *testing.T) {
	t.Parallel()
	f := newFake(t, Config{Memory: 2 << 20, MaxItem: 1 << 20, NoEvict: true})
	value := strings.Repeat("v", 400_000)
	set := func(verb, key string) string {
		return fmt.Sprintf("%s %s 0 0 %d\r\n%s\r\n", verb, key, len(value), value)
	}
	const full = "SERVER_ERROR out of memory storing object\r\n"
	f.want(set("set", "a")+set("set", "b")+set("set", "c")+set("add", "d")+set("add", "e"), strings.Repeat("STORED\r\n", 5))
	f.want(set("add", "f")+"mg a\r\n", full+"HD\r\n")
	f.want(set("replace", "a")+"mg a\r\n", full+"HD\r\n")
	f.want(set("append", "a")+"mg a\r\n", "NOT_STORED\r\nHD\r\n")
	f.want(set("set", "a")+"mg a\r\n", full+"EN\r\n") // what was to be replaced is gone
	f.want("ms f 400000 ME\r\n"+value+"\r\n", "HD\r\n")
	f.want("mg none N30\r\nincr none 1\r\n", "HD W\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n") // small ones find room
	s := f.cache.Stats()
	if s.Evictions != 0 || s.Counters[storeNoMemory] != 3 {
		t.Errorf("%+v", s)
	}
}

// TestNoEvictAfterFlush: what was flushed makes room for items of another size too, when nothing may be evicted.
func TestNoEvictAfterFlush(t *testing.T) {
	t.Parallel()
	f := newFake(t, Config{Memory: 2 << 20, MaxItem: 1 << 20, NoEvict: true})
	small, large := strings.Repeat("s", 1000), strings.Repeat("l", 200_000)
	for i := 0; !strings.HasPrefix(f.do(fmt.Sprintf("set s%d 0 0 1000\r\n%s\r\n", i, small)), "SERVER_ERROR"); i++ {
	}
	set := fmt.Sprintf("set large 0 0 %d\r\n%s\r\n", len(large), large)
	f.want(set, noMemoryText+"\r\n")
	f.want("flush_all\r\n"+set+"mg large\r\n", "OK\r\nSTORED\r\nHD\r\n")
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	f := newFake(t, Config{Memory: 4 << 20, MaxItem: 2 << 10})
	big := strings.Repeat("v", 2048)
	const large = "SERVER_ERROR object too large for cache\r\n"
	f.want("set k 0 0 1\r\nx\r\nadd k 0 0 2048\r\n"+big+"\r\nget k\r\n", "STORED\r\n"+large+"VALUE k 0 1\r\nx\r\nEND\r\n")
	f.want("set k 0 0 2048\r\n"+big+"\r\nget k\r\n", large+"END\r\n")
	f.want("set k 0 0 1900\r\n"+big[:1900]+"\r\nappend k 0 0 100\r\n"+big[:100]+"\r\n", "STORED\r\nNOT_STORED\r\n")
	for _, c := range []Config{{}, {Memory: 64 << 20}, {Memory: 64 << 20, MaxItem: 33 << 20}, {Memory: 1 << 40, MaxItem: 1<<30 + 1}, {Memory: 10, MaxItem: 5}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// TestHugeItem: an item of thousands of chunks is stored and read back, under the largest limits.
func TestHugeItem(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("takes half a GiB of memory")
	}
	f := newFake(t, Config{Memory: 2 << 30, MaxItem: 1 << 30})
	value := make([]byte, 200<<20+1234)
	for i := 0; i < len(value); i += 4096 {
		value[i] = byte(i >> 12)
	}
	c := memproto.Command{Verb: memproto.Set, Key: []byte("k"), Value: value, Length: len(value)}
	if err := f.Do(&c, &f.w); err != nil {
		t.Fatal(err)
	}
	f.w.End(&c, memproto.Extras{})
	if got := string(f.w.Buf); got != "STORED\r\n" {
		t.Fatal(got)
	}
	f.w.Reset()
	c = memproto.Command{Verb: memproto.Get, Key: []byte("k")}
	if err := f.Do(&c, &f.w); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, ref := range f.w.Refs {
		if !bytes.Equal(ref.Data, value[at:at+len(ref.Data)]) {
			t.Fatalf("different at %d", at)
		}
		at += len(ref.Data)
	}
	if at != len(value) {
		t.Errorf("%d of %d bytes", at, len(value))
	}
	f.w.Reset()
	runtime.GC()
}

func TestExecutionAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := newFake(t, DefaultConfig())
	f.do("set large 0 0 100000\r\n" + strings.Repeat("v", 100_000) + "\r\nset n 0 0 2\r\n10\r\n")
	for _, text := range []string{
		"set abc 0 0 3\r\nxyz\r\n", "ms abc 3 T100 c\r\nxyz\r\n", "mg abc v s t h l O1\r\n", "get abc x abc\r\n", "get large\r\n", "mg large v\r\n", "gat 100 abc\r\n", "touch abc 5\r\n",
		"incr n 1\r\n", "ma n v\r\n", "append abc 0 0 1\r\nx\r\n", "delete x\r\n", "md x q\r\n", "me abc\r\n", "mg abc T30 R20 N5 v t\r\n",
	} {
		var c memproto.Command
		if _, s := f.p.Parse([]byte(text), &c); s != memproto.Ready {
			t.Fatal(text, s)
		}
		c.Hold(nil)
		w := memproto.Writer{Buf: make([]byte, 0, 1024), Refs: make([]memproto.Ref, 0, 8)}
		do := func() {
			w.Reset()
			if err := f.Do(&c, &w); err != nil {
				t.Fatal(err)
			}
			w.End(&c, memproto.Extras{})
		}
		do()
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
		w.Reset()
	}
}
