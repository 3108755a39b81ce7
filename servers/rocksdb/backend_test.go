//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"spillway/control"
	"spillway/internal/memproto"
	"spillway/servers/servertest"
)

// TestCommands: what the commands say, in memcached's words.
func TestCommands(t *testing.T) {
	t.Parallel()
	_, addr, _ := serve(t, testConfig(t), control.Stack{}, nil)
	c := servertest.Dial(t, addr)
	for _, tc := range []struct{ ask, want string }{
		{"get k\r\n", "END\r\n"},
		{"set k 7 0 3\r\nabc\r\n", "STORED\r\n"},
		{"get k\r\n", "VALUE k 7 3\r\nabc\r\nEND\r\n"},
		{"add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n"},
		{"replace k 0 0 2\r\nde\r\n", "STORED\r\n"},
		{"replace none 0 0 2\r\nde\r\n", "NOT_STORED\r\n"},
		{"add l 1 0 0\r\n\r\n", "STORED\r\n"},
		{"get l none k\r\n", "VALUE l 1 0\r\n\r\nVALUE k 0 2\r\nde\r\nEND\r\n"},
		{"set q 0 0 1 noreply\r\nx\r\nget q\r\n", "VALUE q 0 1\r\nx\r\nEND\r\n"},
		{"delete q\r\n", "DELETED\r\n"},
		{"delete q\r\n", "NOT_FOUND\r\n"},
		{"cas none 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\n"},
		{"cas k 0 0 1 5\r\nx\r\n", "EXISTS\r\n"},
		{"mg k v s f t k O9\r\n", "VA 2 s2 f0 t-1 kk O9\r\nde\r\n"},
		{"mg k s\r\n", "HD s2\r\n"},
		{"mg none v\r\n", "EN\r\n"},
		{"mg none v q\r\nmn\r\n", "MN\r\n"},
		{"ms m 3 T0 F4\r\nabc\r\n", "HD\r\n"},
		{"mg m v f\r\n", "VA 3 f4\r\nabc\r\n"},
		{"ms m 1 ME\r\nx\r\n", "NS\r\n"},
		{"ms m 1 MR C1\r\nx\r\n", "EX\r\n"},
		{"md m q\r\nmg m v\r\n", "EN\r\n"},
		{"set e 0 -1 1\r\nx\r\nget e\r\n", "STORED\r\nEND\r\n"},
		{"incr k 1\r\n", "CLIENT_ERROR command incr is not for this store: it has get, gets, set, add, replace, cas, delete, mg, ms and md\r\n"},
		{"mg k T9\r\n", "CLIENT_ERROR mg has no flags T, N and R here: items do not change by being read\r\n"},
		{"ms k 1 MA\r\nx\r\n", "CLIENT_ERROR ms and md have no flag I here, and ms no modes A and P\r\n"},
		{"mg AGZvcm1hdA== v b\r\n", "CLIENT_ERROR keys that begin with a zero byte are the store's own; choose another\r\n"},
		{"set scan:1: 0 0 1\r\nx\r\n", "CLIENT_ERROR keys that begin with scan: or keys: are scans and cannot be stored; choose another\r\n"},
		{"mg dG9rw6k= b v\r\n", "EN\r\n"},
		{"ms dG9rw6k= 1 b\r\nx\r\nmg dG9rw6k= b v k\r\n", "HD\r\nVA 1 kdG9rw6k= b\r\nx\r\n"},
	} {
		c.Do(tc.ask, tc.want)
	}
	got := c.Stats("")
	for name, want := range map[string]string{"cmd_set": "13", "delete_hits": "2", "delete_misses": "1", "wrong_commands": "5", "workers": "2"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	// A client asked for a scan with a get, and compares its gets with the server's.
	c.Do("get keys:1:zzz*\r\n", "VALUE keys:1:zzz* 0 0\r\n\r\nEND\r\n")
	before, after := statOf(t, got, "cmd_get"), c.Stats("")
	if n := statOf(t, after, "cmd_get"); n != before+1 || after["scans"] != "1" || after["get_hits"] != got["get_hits"] || after["get_misses"] != got["get_misses"] {
		t.Errorf("after a scan there are %d gets, before %d: %v", n, before, after)
	}
	if p := c.Stats("rocksdb"); p["rocksdb.estimate-num-keys"] == "" || p["rocksdb.block-cache-capacity"] != "8388608" {
		t.Errorf("%v", p)
	}
	if s := c.Stats("settings"); s["wal"] != "on" || s["large"] != "100000" {
		t.Errorf("%v", s)
	}
}

// TestVersions: gets and cas go together, and a version is never seen again.
func TestVersions(t *testing.T) {
	t.Parallel()
	config := testConfig(t)
	_, addr, stop := serve(t, config, control.Stack{}, nil)
	c := servertest.Dial(t, addr)
	version := func(c *servertest.Client) string {
		c.Send("mg k c\r\n")
		return strings.TrimPrefix(c.Line(), "HD c")
	}
	set(c, "k", "a")
	first := version(c)
	c.Do("cas k 0 0 1 "+first+"\r\nb\r\n", "STORED\r\n")
	c.Do("cas k 0 0 1 "+first+"\r\nc\r\n", "EXISTS\r\n")
	c.Do("md k C"+first+"\r\nget k\r\n", "EX\r\n"+valueReply("k", "b"))
	second := version(c)
	stop()
	_, addr, _ = serve(t, config, control.Stack{}, nil)
	c = servertest.Dial(t, addr)
	if again := version(c); again != second {
		t.Errorf("version %s became %s", second, again)
	}
	set(c, "k", "d")
	if third := version(c); third == first || third == second || len(third) < len(second) || len(third) == len(second) && third < second {
		t.Errorf("versions %s, %s, %s", first, second, third)
	}
	c.Do("md k C"+version(c)+"\r\n", "HD\r\n")
}

// TestClientOfRecord: the usual client for Go works.
func TestClientOfRecord(t *testing.T) {
	t.Parallel()
	_, addr, _ := serve(t, testConfig(t), control.Stack{}, nil)
	mc := memcache.New(addr)
	defer mc.Close()
	mc.Timeout = 10 * time.Second
	large := strings.Repeat("x", 300_000)
	for key, value := range map[string]string{"a": "1", "b": "", "c": large} {
		if err := mc.Set(&memcache.Item{Key: key, Value: []byte(value), Flags: 3}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := mc.GetMulti([]string{"a", "b", "c", "d"})
	if err != nil || len(items) != 3 || string(items["c"].Value) != large || items["a"].Flags != 3 {
		t.Errorf("%v: %d items", err, len(items))
	}
	if err := mc.Add(&memcache.Item{Key: "a"}); err != memcache.ErrNotStored {
		t.Errorf("add: %v", err)
	}
	it, err := mc.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	it.Value = []byte("2")
	if err := mc.CompareAndSwap(it); err != nil {
		t.Error(err)
	}
	if err := mc.CompareAndSwap(it); err != memcache.ErrCASConflict {
		t.Errorf("cas: %v", err)
	}
	if err := mc.Delete("a"); err != nil {
		t.Error(err)
	}
	if _, err := mc.Get("a"); err != memcache.ErrCacheMiss {
		t.Errorf("get: %v", err)
	}
}

// TestOrderOfAConnection: a client that sends all in one packet finds what it stored, on several loops and with several workers.
func TestOrderOfAConnection(t *testing.T) {
	t.Parallel()
	_, addr, _ := serve(t, testConfig(t), control.Stack{}, nil)
	c := servertest.Dial(t, addr)
	var ask, want strings.Builder
	for i := range 2000 {
		value := fmt.Sprint(i)
		if i%100 == 0 {
			value += strings.Repeat("x", 20_000)
		}
		fmt.Fprintf(&ask, "set k 0 0 %d noreply\r\n%s\r\nget k\r\nget k\r\ndelete k\r\nget k\r\n", len(value), value)
		want.WriteString(valueReply("k", value) + valueReply("k", value) + "DELETED\r\nEND\r\n")
	}
	go c.Send(ask.String())
	c.Want("many", want.String())

	// Those that wait for each other do not keep their slots when their client goes away.
	for range 20 {
		gone := servertest.Dial(t, addr)
		gone.Send(strings.Repeat("set g 0 0 1\r\nx\r\nget g\r\n", 100))
		gone.Abort()
	}
	c.Await("spillway", "in_service", 0)
	c.Do("get none\r\n", "END\r\n")
}

func statOf(t *testing.T, stats map[string]string, name string) int {
	t.Helper()
	n, err := strconv.Atoi(stats[name])
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return n
}

func TestScan(t *testing.T) {
	t.Parallel()
	config := testConfig(t)
	d := newDirect(t, config)
	d.want("set b 1 0 2\r\nbb\r\nset a 0 0 1\r\na\r\nset c1 0 0 0\r\n\r\nset c2 0 0 3\r\nccc\r\nset gone 0 -1 1\r\nx\r\n", strings.Repeat("STORED\r\n", 5))
	answer := func(key, text string) string {
		return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(text), text)
	}
	for key, want := range map[string]string{
		"scan:9:":       "a 0 1\na\nb 1 2\nbb\nc1 0 0\n\nc2 0 3\nccc\n",
		"scan:2:":       "a 0 1\na\nb 1 2\nbb\n",
		"keys:9:b":      "b 1 2\nc1 0 0\nc2 0 3\n",
		"keys:9:c*":     "c1 0 0\nc2 0 3\n",
		"keys:1:c1*":    "c1 0 0\n",
		"scan:10000:d":  "",
		"scan:1:c2":     "c2 0 3\nccc\n",
		"keys:1:no*":    "",
		"keys:10000:b*": "b 1 2\n",
	} {
		d.want("get "+key+"\r\n", answer(key, want))
	}
	d.want("mg keys:1:a v k\r\n", "VA 6 kkeys:1:a\r\na 0 1\n\r\n")
	for _, wrong := range []string{"scan:", "scan:1", "scan:0:a", "scan:10001:a", "scan:-1:a", "keys:x:a", "scan:99999999999999999999:a"} {
		d.want("get "+wrong+"\r\n", "CLIENT_ERROR "+errScan.Error()+"\r\n")
	}
	d.want("get a scan:1:a\r\n", "CLIENT_ERROR "+errScanAlone.Error()+"\r\n")
	d.want("get scan:1:a a\r\n", "CLIENT_ERROR "+errScanAlone.Error()+"\r\n")

	// An answer is bounded, except that it has one item at least.
	big := strings.Repeat("x", 5<<20)
	for _, key := range []string{"x1", "x2"} {
		d.want(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(big), big), "STORED\r\n")
	}
	d.want("get scan:2:x1\r\n", answer("scan:2:x1", fmt.Sprintf("x1 0 %d\n%s\n", len(big), big)))
}

// TestManyKeysAreBounded: a get whose values would not fit into memory is refused, and holds nothing.
func TestManyKeysAreBounded(t *testing.T) {
	t.Parallel()
	config := testConfig(t)
	d := newDirect(t, config)
	big := strings.Repeat("x", 8<<20)
	d.want(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", len(big), big), "STORED\r\n")
	if got := d.do("get" + strings.Repeat(" k", maxReply>>23) + "\r\n"); len(got) < maxReply {
		t.Errorf("got %d bytes, %.100q", len(got), got)
	}
	if got := d.do("get" + strings.Repeat(" k", maxReply>>23+1) + "\r\n"); !strings.Contains(got, "ask for fewer at a time") {
		t.Errorf("got %d bytes, %.100q", len(got), got)
	}
	d.want(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", len(big)+1, big+"x"), "SERVER_ERROR object too large for cache\r\n")
}

// TestAgainstAMap: random commands give what a map would, and the same after the store was closed and opened again.
func TestAgainstAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 0))
		config := testConfig(t)
		config.MmapReads = seed%2 == 1
		if seed >= 2 {
			config.Compaction = CompactionOff
		}
		open := func() *direct {
			return &direct{Backend: openBackend(t, config), t: t, p: memproto.Parser{MaxItem: config.ItemLimit()}}
		}
		d, model := open(), map[string]string{}
		for range 150 {
			key := string(rune('a' + rng.IntN(4)))
			old, there := model[key]
			switch n := rng.IntN(100); {
			case n < 40:
				value := strings.Repeat(key, []int{0, 1, 500, 5000, 16 << 10, 120_000}[rng.IntN(6)])
				verb, want := []string{"set", "add", "replace"}[rng.IntN(3)], "STORED\r\n"
				if verb == "add" && there || verb == "replace" && !there {
					want = "NOT_STORED\r\n"
				} else {
					model[key] = value
				}
				d.want(fmt.Sprintf("%s %s 0 0 %d\r\n%s\r\n", verb, key, len(value), value), want)
			case n < 55:
				want := "NOT_FOUND\r\n"
				if there {
					want = "DELETED\r\n"
				}
				d.want("delete "+key+"\r\n", want)
				delete(model, key)
			case n < 57:
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				d = open()
			default:
				want := "END\r\n"
				if there {
					want = valueReply(key, old)
				}
				d.want("get "+key+"\r\n", want)
			}
			if size := d.store.large.size([]byte(key)); size != 0 && size != int64(len(model[key])) || size == 0 && len(model[key]) >= leastLarge {
				t.Fatalf("seed %d: %s has %d bytes and is known for %d", seed, key, len(model[key]), size)
			}
			if size := d.ValueSize([]byte(key)); size != len(model[key]) {
				t.Fatalf("seed %d: %s has %d bytes, not %d", seed, key, len(model[key]), size)
			}
		}
		if ever, now := d.pinned(); now != 0 || ever == 0 {
			t.Errorf("seed %d: %d of %d values are pinned", seed, now, ever)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	d := newDirect(t, testConfig(t))
	now := time.Now().Unix()
	d.want(fmt.Sprintf("set soon 0 100 1\r\nx\r\nset past 0 %d 1\r\nx\r\nset later 0 %d 1\r\nx\r\n", now-1, now+5000), "STORED\r\nSTORED\r\nSTORED\r\n")
	if got := d.do("mg soon t\r\n"); got != "HD t100\r\n" && got != "HD t99\r\n" {
		t.Error(got)
	}
	d.want("get past later\r\n", valueReply("later", "x"))
	if it, found, err := d.store.find(d.store.read, []byte("past")); found || err != nil {
		t.Errorf("what has expired is kept after it was asked for: %v, %v", it.header, err)
	}
	d.want("set past 0 -1 1\r\nx\r\nadd past 0 0 1\r\ny\r\nget past\r\n", "STORED\r\nSTORED\r\n"+valueReply("past", "y"))
	d.want("set past 0 -1 1\r\nx\r\ndelete past\r\nreplace past 0 0 1\r\ny\r\n", "STORED\r\nNOT_FOUND\r\nNOT_STORED\r\n")
}
