//go:build linux

package cache

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func BenchmarkGet(b *testing.B) {
	c := newCache(b, Config{Memory: 256 << 20, MaxItem: 1 << 20})
	keys := make([][]byte, 100_000)
	for n := range keys {
		keys[n] = fmt.Appendf(nil, "key-%016d", n)
		l := c.Acquire(keys[n])
		if err := l.store(0, make([]byte, 100), 1); err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
	b.RunParallel(func(pb *testing.PB) {
		dst := make([]byte, 0, 200)
		for n := 0; pb.Next(); n++ {
			l := c.Acquire(keys[n*7919%len(keys)])
			if i, ok := l.Find(int64(n >> 16)); ok {
				l.Bump(i, int64(n>>16))
				dst = i.AppendTo(dst[:0])
			}
			l.Release()
		}
	})
}

func BenchmarkSet(b *testing.B) {
	c := newCache(b, Config{Memory: 64 << 20, MaxItem: 1 << 20}) // full before long, so that it evicts
	var key [8]byte
	body := make([]byte, 100)
	for n := uint64(0); b.Loop(); n++ {
		binary.BigEndian.PutUint64(key[:], n*2654435761%5_000_000)
		l := c.Acquire(key[:])
		if err := l.store(0, body, int64(n>>16)); err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

// resident returns the memory that the process has of the computer's.
func resident(b *testing.B) (bytes int64) {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkTenMillionItems stores ten million items of 16 B keys and 32 B values, reads each once, and says what an item takes and how
// long the slowest operation took, the collector and the operating system included.
func BenchmarkTenMillionItems(b *testing.B) {
	const items, keyBytes, valueBytes = 10_000_000, 16, 32
	for b.Loop() {
		runtime.GC()
		before := resident(b)
		c, err := New(Config{Memory: 2 << 30, MaxItem: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		var key [keyBytes]byte
		var body [valueBytes]byte
		worst := [2]time.Duration{}
		spent := [2]time.Duration{}
		for pass := range worst {
			began := time.Now()
			last := began
			for n := range uint64(items) {
				binary.BigEndian.PutUint64(key[:], n*0x9e3779b97f4a7c15)
				l := c.Acquire(key[:])
				if pass == 0 {
					if err := l.store(0, body[:], 1); err != nil {
						b.Fatal(err)
					}
				} else if i, ok := l.Find(2); !ok {
					b.Fatal("an item is missing")
				} else {
					l.Bump(i, 2)
				}
				l.Release()
				now := time.Now()
				worst[pass] = max(worst[pass], now.Sub(last))
				last = now
			}
			spent[pass] = last.Sub(began)
		}
		s := c.Stats()
		if s.Items != items || s.Evictions != 0 {
			b.Fatalf("%+v", s)
		}
		b.ReportMetric(float64(resident(b)-before)/items, "RSS-B/item")
		b.ReportMetric(float64(spent[0])/items, "set-ns")
		b.ReportMetric(float64(spent[1])/items, "get-ns")
		b.ReportMetric(float64(worst[0].Microseconds()), "worst-set-us")
		b.ReportMetric(float64(worst[1].Microseconds()), "worst-get-us")
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
