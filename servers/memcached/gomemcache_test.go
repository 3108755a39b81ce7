//go:build linux

package memcached_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/google/go-cmp/cmp"

	"spillway/servers/memcached"
)

// TestGomemcache uses our server as a program with the usual client would, also under controllers that hand out credits.
func TestGomemcache(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"none", "protego", "svalinn"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			useGomemcache(t, startUnder(t, name, "127.0.0.1:0"))
		})
	}
}

func useGomemcache(t *testing.T, addr string) {
	c := memcache.New(addr)
	c.Timeout = 20 * time.Second
	defer c.Close()
	if err := c.Ping(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get("nothing"); !errors.Is(err, memcache.ErrCacheMiss) {
		t.Errorf("a miss: %v", err)
	}
	if err := c.Set(&memcache.Item{Key: "k", Value: []byte("value\r\n"), Flags: 7, Expiration: 100}); err != nil {
		t.Fatal(err)
	}
	it, err := c.Get("k")
	if err != nil || string(it.Value) != "value\r\n" || it.Flags != 7 || it.CasID == 0 {
		t.Errorf("got %+v, %v", it, err)
	}
	if err := c.Delete("k"); err != nil {
		t.Error(err)
	}
	if err := c.Delete("k"); !errors.Is(err, memcache.ErrCacheMiss) {
		t.Errorf("deleting nothing: %v", err)
	}
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := c.Set(&memcache.Item{Key: "large", Value: large}); err != nil {
		t.Fatal(err)
	}
	if it, err := c.Get("large"); err != nil || !bytes.Equal(it.Value, large) {
		t.Errorf("a large value: %v", err)
	}
	if err := c.Set(&memcache.Item{Key: "large", Value: append(large, large...)}); err == nil {
		t.Error("2 MB were stored under a limit of 1 MiB")
	}
	if _, err := c.Get("large"); !errors.Is(err, memcache.ErrCacheMiss) {
		t.Errorf("what was to be replaced is still there: %v", err)
	}
	var clients sync.WaitGroup
	for id := range 4 {
		clients.Go(func() {
			keys, want := []string{}, map[string]string{}
			for i := range 100 {
				k := fmt.Sprintf("m%d-%d", id, i)
				if err := c.Set(&memcache.Item{Key: k, Value: []byte(k)}); err != nil {
					t.Error(err)
				}
				keys, want[k] = append(keys, k, "none"+k), k
			}
			items, err := c.GetMulti(keys)
			got := map[string]string{}
			for k, it := range items {
				got[k] = string(it.Value)
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	clients.Wait()
}

// TestGomemcacheWhole goes through everything else that the client can do.
func TestGomemcacheWhole(t *testing.T) {
	t.Parallel()
	c := memcache.New(startOurs(t, memcached.DefaultConfig(), "127.0.0.1:0"))
	c.Timeout = 20 * time.Second
	defer c.Close()
	item := func(key, value string) *memcache.Item {
		return &memcache.Item{Key: key, Value: []byte(value), Flags: 3}
	}
	is := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	has := func(key, want string) *memcache.Item {
		t.Helper()
		it, err := c.Get(key)
		if err != nil || string(it.Value) != want {
			t.Fatalf("%s: %v, %v, want %q", key, it, err, want)
		}
		return it
	}
	is("replacing nothing", c.Replace(item("k", "1")), memcache.ErrNotStored)
	is("adding", c.Add(item("k", "2")), nil)
	is("adding again", c.Add(item("k", "3")), memcache.ErrNotStored)
	is("replacing", c.Replace(item("k", "4")), nil)
	is("appending", c.Append(item("k", ">")), nil)
	is("prepending", c.Prepend(item("k", "<")), nil)
	is("appending to nothing", c.Append(item("none", "x")), memcache.ErrNotStored)
	is("prepending to nothing", c.Prepend(item("none", "x")), memcache.ErrNotStored)

	mine, other := has("k", "<4>"), has("k", "<4>")
	mine.Value, other.Value = []byte("mine"), []byte("other")
	is("swapping", c.CompareAndSwap(mine), nil)
	is("swapping an old version", c.CompareAndSwap(other), memcache.ErrCASConflict)
	is("deleting", c.Delete("k"), nil)
	is("swapping nothing", c.CompareAndSwap(mine), memcache.ErrCacheMiss)

	is("touching nothing", c.Touch("none", 10), memcache.ErrCacheMiss)
	is("storing", c.Set(item("t", "x")), nil)
	is("touching", c.Touch("t", 100), nil)
	if it, err := c.GetAndTouch("t", 100); err != nil || string(it.Value) != "x" || it.Flags != 3 {
		t.Errorf("get and touch: %v, %v", it, err)
	}
	is("touching away", c.Touch("t", -1), nil)
	_, err := c.Get("t")
	is("what is over", err, memcache.ErrCacheMiss)
	_, err = c.GetAndTouch("t", 100)
	is("get and touch of what is over", err, memcache.ErrCacheMiss)

	_, err = c.Increment("n", 1)
	is("increment of nothing", err, memcache.ErrCacheMiss)
	is("storing", c.Set(item("n", "41")), nil)
	if n, err := c.Increment("n", 60); n != 101 || err != nil {
		t.Errorf("41 + 60 = %d, %v", n, err)
	}
	if n, err := c.Decrement("n", 200); n != 0 || err != nil {
		t.Errorf("101 - 200 = %d, %v", n, err)
	}
	is("storing", c.Set(item("n", "x")), nil)
	if _, err = c.Increment("n", 1); err == nil || !strings.Contains(err.Error(), "non-numeric") {
		t.Errorf("increment of a text: %v", err)
	}
	is("a bad key", c.Set(item("a b", "")), memcache.ErrMalformedKey)
	is("storing nothing", c.Set(item("empty", "")), nil)
	has("empty", "")
	is("ping", c.Ping(), nil)
	is("deleting everything", c.DeleteAll(), nil)
	is("flushing", c.FlushAll(), nil)
	_, err = c.Get("empty")
	is("what was flushed", err, memcache.ErrCacheMiss)
}

func TestHeaderOnly(t *testing.T) {
	t.Parallel()
	config := memcached.DefaultConfig()
	config.HeaderOnly = true
	path := startOurs(t, config, "unix://"+t.TempDir()+"/s")[len("unix://"):]
	got := ask(t, path, []byte("set a 3 0 5\r\nhello\r\nmg a s v f O1\r\nget a\r\nmg b v\r\n"))
	if want := "STORED\r\nHD s5 f3 O1\r\nVALUE a 3 0\r\n\r\nEND\r\nEN\r\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
