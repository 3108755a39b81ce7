//go:build linux

package drive_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/target"
	"spillway/workloads"
)

// fastSink answers every line with a hit without a value, as fast as package net allows. It runs on another core.
func fastSink(b *testing.B) (addr string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(c)
		}
	}()
	return "memcached://" + l.Addr().String()
}

func answerAll(c net.Conn) {
	defer c.Close()
	in, hits := make([]byte, 64<<10), bytes.Repeat([]byte("HD\r\n"), 64<<10)
	for {
		n, err := c.Read(in)
		if err != nil {
			return
		}
		answer := hits[:4*bytes.Count(in[:n], []byte{'\n'})]
		if in[0] == 'v' {
			answer = []byte("VERSION 1\r\n")
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// benchKeys are the keys that `loadgen drive` asks for by default.
func benchKeys(b *testing.B) *workloads.KV {
	b.Helper()
	kv, err := workloads.NewKV([]workloads.KVClass{{
		Name: "get", Share: 1, KeyPrefix: "spillway-", Keys: 10_000, ValueSize: dist.Constant{Unit: dist.Bytes, Value: 100},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return kv
}

// servers of the benchmarks.
var benchServers = map[string]func(*testing.B) string{
	"sink": fastSink,
	"memcached": func(b *testing.B) string { // Debian's; skipped where it is not installed
		addr, _ := startMemcached(b)
		if _, err := target.Preload(b.Context(), addr, benchKeys(b), nil); err != nil {
			b.Fatal(err)
		}
		return addr
	},
	"ours": func(b *testing.B) string {
		addr := startOurs(b)
		if _, err := target.Preload(b.Context(), addr, benchKeys(b), nil); err != nil {
			b.Fatal(err)
		}
		return addr
	},
}

// BenchmarkSend is how many requests a second one thread draws, sends, reads the replies of and counts: all that a sender does but the
// waiting. Each of its connections has so many requests under way at once, which leave with one write; there are enough connections for
// the thread to have something to do while the server works. requests/core-s divides by the processor time of the thread, so that a
// server that is slower than the client, or shares its core, does not count against it.
func BenchmarkSend(b *testing.B) {
	for _, server := range []string{"sink", "ours", "memcached"} {
		for _, depth := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/depth=%d", server, depth), func(b *testing.B) { benchSend(b, benchServers[server](b), depth) })
		}
	}
}

func benchSend(b *testing.B, addr string, depth int) {
	const conns = 16
	process, err := arrival.New(arrival.KindPoisson, 1e6, 0)
	if err != nil {
		b.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{Seed: 1, Clients: conns, Workload: benchKeys(b), Arrivals: process, End: clock.Never})
	if err != nil {
		b.Fatal(err)
	}
	settled := 0
	now := clock.NewReal()
	tally := load.NewTally([]load.Class{{Name: "get"}}, 0, clock.Instant(time.Hour))
	m, err := target.Memcached(b.Context(), target.Config{
		Addr: addr, Conns: conns, Clock: now, Timeout: time.Hour,
		Settle: func(r *reqlog.Record) { settled++; tally.Add(r) },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var rec reqlog.Record // here, because one in the loop would be allocated anew for each
	var op *workloads.Op
	b.ReportAllocs()
	b.ResetTimer()
	before := threadCPU(b)
	// A connection gets its next batch when the one before has been answered, in turn; that of the others is on its way meanwhile.
	for sent := 0; sent < b.N; {
		at := now.Now()
		for range depth {
			g.Due()
			rec, _, op = g.Fire()
			rec.Intended = at
			m.Issue(at, &rec, op, uint32(sent/depth%conns))
			sent++
		}
		m.Flush(at)
		for settled <= sent-conns*depth {
			m.Wait(now.Now().Add(time.Millisecond))
		}
	}
	used := threadCPU(b) - before
	b.StopTimer()
	b.ReportMetric(float64(settled)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(settled)/used.Seconds(), "requests/core-s")
}

// threadCPU returns the processor time of this thread.
func threadCPU(b *testing.B) time.Duration {
	b.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkPace is how late requests leave at a given rate: a second of Poisson arrivals against the sink of package target, which costs
// nothing, and against our server.
func BenchmarkPace(b *testing.B) {
	for _, pace := range []drive.Pace{drive.PaceSpin, drive.PaceSleep} {
		for _, rate := range []float64{1000, 50_000, 500_000} {
			for _, server := range []string{"none", "sink", "ours"} {
				b.Run(fmt.Sprintf("%s/%s/rate=%.0f", pace, server, rate), func(b *testing.B) { benchPace(b, pace, rate, server) })
			}
		}
	}
}

func benchPace(b *testing.B, pace drive.Pace, rate float64, server string) {
	addr := ""
	if server != "none" {
		addr = benchServers[server](b)
	}
	var last drive.Result
	for b.Loop() {
		process, err := arrival.New(arrival.KindPoisson, rate, 0)
		if err != nil {
			b.Fatal(err)
		}
		const window = time.Second
		g, err := load.NewGenerator(load.Config{Seed: 1, Clients: 4, Workload: benchKeys(b), Arrivals: process, End: clock.Instant(window)})
		if err != nil {
			b.Fatal(err)
		}
		last, err = drive.Run(b.Context(), drive.Plan{
			Generator: g, Classes: []load.Class{{Name: "get"}}, Clock: clock.NewReal(), Dial: time.Second, Window: window, Drain: time.Second, Pace: pace,
			Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
				if server == "none" {
					return target.NewSink(o.Clock, o.Settle, o.Spin)
				}
				return target.Memcached(ctx, target.Config{Addr: addr, Conns: 4, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute})
			},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	all := last.Tally.All()
	b.ReportMetric(float64(all.SendLag.Percentile(50))/1000, "lag-p50-µs")
	b.ReportMetric(float64(all.SendLag.Percentile(99))/1000, "lag-p99-µs")
	b.ReportMetric(float64(all.Completed())/last.Tally.Window().Seconds(), "requests/s")
	b.ReportMetric(100*last.SenderCPU, "core-%")
}
