//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/dist"
	"spillway/workloads"
)

func TestParseAddr(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string][2]string{
		"memcached://127.0.0.1:11211":  {"tcp", "127.0.0.1:11211"},
		"memcached://localhost:11211/": {"tcp", "localhost:11211"},
		"memcached://[::1]:11211":      {"tcp", "[::1]:11211"},
		"memcached:///run/m.sock":      {"unix", "/run/m.sock"},
	} {
		network, address, err := ParseAddr(addr)
		if err != nil || network != want[0] || address != want[1] {
			t.Errorf("%s: %s %s, %v", addr, network, address, err)
		}
	}
	for _, addr := range []string{
		"", "127.0.0.1:11211", "http://127.0.0.1:80", "memcached://", "memcached:///", "memcached://host", "memcached://:11211",
		"memcached://host:1/path", "memcached://host:1?x=y", "memcached://me@host:1", "memcached://host:port",
	} {
		if _, _, err := ParseAddr(addr); err == nil || !strings.Contains(err.Error(), "memcached://host:port") && addr != "memcached:///" && addr != "memcached://" {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	f := newFake(t, plain)
	if v, err := Probe(t.Context(), f.addr); err != nil || v != "1.6.fake" {
		t.Errorf("%q, %v", v, err)
	}
	for what, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": `answered "HTTP/1.1 400 Bad Request": not a memcached server but an HTTP server`,
		"-ERR unknown command\r\n":         `answered "-ERR unknown command": not a memcached server but a Redis server`,
		"\x16\x03\x01":                     `answered "\x16\x03\x01": not a memcached server`,
		"\x15\x03\x01\x00\x02\x02\x46":     "a server that wants TLS",
		"SSH-2.0-OpenSSH_9.2\r\n":          "an SSH server",
		"J\x00\x00\x00\x0a8.0.32\x00":      "a MySQL server",
		strings.Repeat("x", 3*readBytes):   "not a memcached server",
		hangUp:                             "closed the connection without an answer",
	} {
		_, err := Probe(t.Context(), shout(t, what))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "memcached://127.0.0.1") {
			t.Errorf("%.30q: %v, want %q", what, err, want)
		}
	}
}

func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	addr := shout(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Probe(ctx, addr)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), addr) {
		t.Errorf("error %v", err)
	}
	if _, err := Preload(ctx, addr, smallStore(t), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(r request) string {
		if r.key == "" {
			return "STAT pid 17\r\nSTAT version 1.6.18 beta\r\nEND\r\n"
		}
		return "ERROR\r\n"
	})
	got, err := Stats(t.Context(), f.addr, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"pid": "17", "version": "1.6.18 beta"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Stats(t.Context(), f.addr, "spillway"); err == nil || !strings.Contains(err.Error(), `answered "ERROR" to stats spillway`) {
		t.Errorf("error %v", err)
	}
}

// smallStore has 300 keys with values of different sizes, one class of which is larger than a read.
func smallStore(t *testing.T) *workloads.KV {
	t.Helper()
	kv, err := workloads.NewKV([]workloads.KVClass{
		{Name: "small", Share: 0.5, Keys: 290, ValueSize: dist.Uniform{Low: 0, High: 100}},
		{Name: "large", Share: 0.5, Keys: 10, ValueSize: dist.Uniform{Low: 200_000, High: 300_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// store is a map behind the protocol. spoil may replace an answer; "" lets it stand.
func store(spoil func(r request, kept map[string]string) string) func(r request) string {
	kept := map[string]string{}
	return func(r request) string {
		if s := spoil(r, kept); s != "" {
			return s
		}
		if r.verb == "ms" {
			kept[r.key] = string(r.value)
			return "HD " + r.opaque + "\r\n"
		}
		v, found := kept[r.key]
		if !found {
			return "EN\r\n"
		}
		return fmt.Sprintf("VA %d s%d %s\r\n%s\r\n", len(v), len(v), r.opaque, v)
	}
}

func nothing(request, map[string]string) string { return "" }

func TestPreload(t *testing.T) {
	t.Parallel()
	kv := smallStore(t)
	var want Stored
	for op := range kv.Preload() {
		want.Items++
		want.Bytes += int64(len(op.Value))
	}
	for name, spoil := range map[string]func(r request, kept map[string]string) string{
		"plain": nothing,
		"under a controller": func(r request, _ map[string]string) string {
			if r.n%3 == 1 {
				return "SERVER_ERROR overloaded limit\r\n"
			}
			return ""
		},
		"header alone": func(r request, kept map[string]string) string {
			if r.verb == "mg" {
				return fmt.Sprintf("HD s%d %s\r\n", len(kept[r.key]), r.opaque)
			}
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, store(spoil))
			var last Stored
			verified := int64(0)
			got, err := Preload(t.Context(), f.addr, smallStore(t), func(s Stored, v int64) { last, verified = s, v })
			if err != nil {
				t.Fatal(err)
			}
			if got != want || last != want || verified != want.Items {
				t.Errorf("stored %+v, progress said %+v and %d verified, want %+v", got, last, verified, want)
			}
		})
	}
}

func TestPreloadNamesWhatWentWrong(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(r request, kept map[string]string) string{
		"raise the server's item size limit, such as with -I 2m": func(r request, _ map[string]string) string {
			if len(r.value) > 1000 {
				return "SERVER_ERROR object too large for cache\r\n"
			}
			return ""
		},
		"out of memory storing object\": raise the server's memory": func(r request, _ map[string]string) string {
			return "SERVER_ERROR out of memory storing object\r\n"
		},
		"small-0000000000000007: was stored, but is gone": func(r request, kept map[string]string) string {
			if r.verb == "mg" {
				delete(kept, "small-0000000000000007")
			}
			return ""
		},
		"differs from what was stored in its bytes 65536 to 131072": func(r request, kept map[string]string) string {
			if v := kept[r.key]; r.verb == "mg" && len(v) > 100_000 {
				kept[r.key] = v[:100_000] + "?" + v[100_001:]
			}
			return ""
		},
		"bytes were stored, the server has 5": func(r request, kept map[string]string) string {
			if r.verb == "mg" && strings.HasPrefix(r.key, "large") {
				kept[r.key] = "short"
			}
			return ""
		},
		"bytes were stored, the server has 4": func(r request, _ map[string]string) string {
			if r.verb == "mg" {
				return "HD s4 " + r.opaque + "\r\n"
			}
			return ""
		},
		"without the size":                func(r request, _ map[string]string) string { return "HD " + r.opaque + "\r\n" },
		"does not know the meta commands": func(request, map[string]string) string { return "ERROR\r\n" },
		"answered \"VA x\" to a get":      func(r request, _ map[string]string) string { return map[string]string{"mg": "VA x\r\n"}[r.verb] },
		"closed the connection: it ended": func(r request, _ map[string]string) string { return map[int]string{5: hangUp}[r.n] },
		"is not followed by the end of":   func(r request, kept map[string]string) string { return noEnd(r, kept) },
		"shed 20 times (limit): preload":  func(request, map[string]string) string { return "SERVER_ERROR overloaded limit\r\n" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, store(spoil))
			_, err := Preload(t.Context(), f.addr, smallStore(t), nil)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.addr) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func noEnd(r request, kept map[string]string) string {
	if r.verb != "mg" {
		return ""
	}
	v := kept[r.key]
	return fmt.Sprintf("VA %d s%d %s\r\n%s!!", len(v), len(v), r.opaque, v)
}
