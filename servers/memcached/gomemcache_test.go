//go:build linux

package memcached_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/google/go-cmp/cmp"

	"spillway/servers/memcached"
)

// TestGomemcache uses our server as a program with the usual client would.
func TestGomemcache(t *testing.T) {
	t.Parallel()
	c := memcache.New(startOurs(t, memcached.DefaultConfig(), "127.0.0.1:0"))
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
