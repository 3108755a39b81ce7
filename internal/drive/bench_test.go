//go:build linux

package drive_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// benchServers are the servers of the benchmarks; each call starts one. What needs building is built once, for the b that this is called with.
func benchServers(b *testing.B) map[string]func(*testing.B) string {
	b.Helper()
	refserver := sync.OnceValues(func() (path string, err error) {
		path = filepath.Join(b.TempDir(), "refserver")
		if out, err := exec.Command("go", "build", "-o", path, "spillway/cmd/refserver").CombinedOutput(); err != nil {
			return "", fmt.Errorf("building refserver: %w\n%s", err, out)
		}
		return path, nil
	})
	return map[string]func(*testing.B) string{
		"sink": fastSink,
		"memcached": func(b *testing.B) string { // Debian's; skipped where it is not installed
			addr, _ := startMemcached(b)
			return preloaded(b, addr)
		},
		"refserver": func(b *testing.B) string {
			path, err := refserver()
			if err != nil {
				b.Fatal(err)
			}
			return preloaded(b, startRefserver(b, path))
		},
	}
}

func preloaded(b *testing.B, addr string) string {
	b.Helper()
	if _, err := target.Preload(b.Context(), addr, benchKeys(b), nil); err != nil {
		b.Fatal(err)
	}
	return addr
}

// startRefserver starts our server as a process of its own with one event loop.
func startRefserver(b *testing.B, path string) (addr string) {
	b.Helper()
	cmd := exec.Command(path, "memcached", "--listen", "127.0.0.1:0", "--threads", "1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "refserver: listening on ")
	if err != nil || !found {
		b.Fatalf("refserver said %q: %v", line, err)
	}
	return "memcached://" + addr
}

// BenchmarkSend is how many requests a second one thread draws, sends, reads the replies of and counts: all that a sender does but the
// waiting. Each of its connections has so many requests under way at once, which leave with one write; there are enough connections for
// the thread to have something to do while the server works. requests/core-s divides by the processor time of the thread, so that a
// server that is slower than the client, or shares its core, does not count against it.
func BenchmarkSend(b *testing.B) {
	start := benchServers(b)
	for _, server := range []string{"sink", "refserver", "memcached"} {
		for _, depth := range benchDepths {
			b.Run(fmt.Sprintf("%s/depth=%d", server, depth), func(b *testing.B) { benchSend(b, start[server](b), depth) })
		}
	}
}

// The connections of the benchmarks and the depths of their pipelines.
const benchConns = 16

var benchDepths = []int{1, 16, 64}

// flood sends without waiting for instants.
type flood struct {
	depth   int
	clock   *clock.Real
	source  *load.Generator
	target  *target.MemcachedTarget
	settled int
	rec     reqlog.Record // here, because one in the loop would be allocated anew for each
}

// newFlood connects to addr. The connections are closed with b.
func newFlood(b *testing.B, addr string, depth int) *flood {
	b.Helper()
	process, err := arrival.New(arrival.KindPoisson, 1e6, 0)
	if err != nil {
		b.Fatal(err)
	}
	f := &flood{depth: depth, clock: clock.NewReal()}
	f.source, err = load.NewGenerator(load.Config{Seed: 1, Clients: benchConns, Workload: benchKeys(b), Arrivals: process, End: clock.Never})
	if err != nil {
		b.Fatal(err)
	}
	tally := load.NewTally([]load.Class{{Name: "get"}}, 0, clock.Instant(time.Hour))
	f.target, err = target.Memcached(b.Context(), target.Config{
		Addr: addr, Conns: benchConns, Clock: f.clock, Timeout: time.Hour,
		Settle: func(r *reqlog.Record) { f.settled++; tally.Add(r) },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.target.Close() })
	return f
}

// send sends while more says so, and returns the processor time of that. The calling goroutine is locked to its thread.
func (f *flood) send(b *testing.B, more func(sent int) bool) (cpu time.Duration) {
	b.Helper()
	before := threadCPU(b)
	// A connection gets its next batch when the one before has been answered, in turn; that of the others is on its way meanwhile.
	for sent := 0; more(sent); {
		at := f.clock.Now()
		var op *workloads.Op
		for range f.depth {
			f.source.Due()
			f.rec, _, op = f.source.Fire()
			f.rec.Intended = at
			f.target.Issue(at, &f.rec, op, uint32(sent/f.depth%benchConns))
			sent++
		}
		f.target.Flush(at)
		for f.settled <= sent-benchConns*f.depth {
			f.target.Wait(f.clock.Now().Add(time.Millisecond))
		}
	}
	return threadCPU(b) - before
}

func benchSend(b *testing.B, addr string, depth int) {
	f := newFlood(b, addr, depth)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	b.ResetTimer()
	used := f.send(b, func(sent int) bool { return sent < b.N })
	b.StopTimer()
	b.ReportMetric(float64(f.settled)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(f.settled)/used.Seconds(), "requests/core-s")
}

// BenchmarkHalf is how late requests leave at half of the rate that the sender was just seen to reach, with the same server and depth of
// the pipeline: depth requests fall due at one instant, on one connection. These instants are evenly spaced, so that the sender has sent one
// bundle before the next is due and the lag is that of pacing; and then a Poisson process, in which bundles also queue for a sender that is
// half busy. max-requests/s is the rate that was reached, requests/core-s what was answered for the processor time of the paced sender, its
// waiting included: with spin that is all of the core. allocs/request are those of the whole process, setting up included.
func BenchmarkHalf(b *testing.B) {
	start := benchServers(b)
	for _, server := range []string{"sink", "refserver"} {
		for _, depth := range benchDepths {
			b.Run(fmt.Sprintf("%s/depth=%d", server, depth), func(b *testing.B) {
				addr := start[server](b)
				most := maxRate(b, addr, depth)
				for _, pace := range []drive.Pace{drive.PaceSpin, drive.PaceSleep} {
					for _, kind := range []string{arrival.KindConstant, arrival.KindPoisson} {
						b.Run(fmt.Sprintf("%s/%s", pace, kind), func(b *testing.B) {
							benchPace(b, pace, kind, most/2, addr, depth)
							b.ReportMetric(most, "max-requests/s")
						})
					}
				}
			})
		}
	}
}

// maxRate returns how many requests a second one thread gets answered.
func maxRate(b *testing.B, addr string, depth int) float64 {
	b.Helper()
	f := newFlood(b, addr, depth)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	f.send(b, func(sent int) bool { return time.Since(began) < 500*time.Millisecond })
	return float64(f.settled) / time.Since(began).Seconds()
}

// bundles is a process of which size arrivals at a time are due at one instant.
type bundles struct {
	arrival.Process
	size, left int
	at         clock.Instant
}

func (p *bundles) Next(rng *rand.Rand) clock.Instant {
	if p.left == 0 {
		p.at, p.left = p.Process.Next(rng), p.size
	}
	p.left--
	return p.at
}

// bundled gives each bundle to one client; they take turns.
type bundled struct {
	*load.Generator
	size, fired int
}

func (s *bundled) Fire() (rec reqlog.Record, client uint32, op *workloads.Op) {
	rec, _, op = s.Generator.Fire()
	client = uint32(s.fired / s.size % benchConns)
	s.fired++
	return rec, client, op
}

// BenchmarkBeside is the generator beside the two of libmemcached, each in turn against one server process that stays. ops/core-s divides
// by the processor time of the tool. It is not like for like:
//   - All have 16 connections. Ours and memcaslap serve them from one thread. memcslap takes a thread for each, which use every core there
//     is and take it from the server.
//   - The two have one request under way on a connection, as ours at depth 1. They know no pipelining of reads; the multi-gets that they can
//     do instead are another request to the server.
//   - They send the classic get, ours the meta get with an opaque, whose requests and replies are longer.
//   - Values are of 100 bytes, but of up to several KiB with memcslap, which cannot be told otherwise. Keys are memcslap's own, too.
//   - memcaslap counts its initial sets as operations. The processor time of both includes making up keys and values and storing them,
//     ours leaves that out.
//   - They are closed loops, and ours is one here so that they can be compared; it still draws each request from a seed, matches its reply,
//     judges it and enters it in histograms.
func BenchmarkBeside(b *testing.B) {
	start := benchServers(b)
	for _, server := range []string{"refserver", "memcached"} {
		b.Run(server, func(b *testing.B) {
			addr := start[server](b)
			for _, depth := range []int{1, 16} {
				b.Run(fmt.Sprintf("loadgen/depth=%d", depth), func(b *testing.B) { benchBeside(b, addr, depth) })
			}
			b.Run("memcslap", func(b *testing.B) { benchMemcslap(b, addr) })
			b.Run("memcaslap", func(b *testing.B) { benchMemcaslap(b, addr) })
		})
	}
}

// besideSpan is how long ours and memcaslap run; memcslap knows no time, and gets a number of requests that takes about as long.
const besideSpan = 2 * time.Second

func benchBeside(b *testing.B, addr string, depth int) {
	f := newFlood(b, addr, depth)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var used time.Duration
	for b.Loop() {
		end := time.Now().Add(besideSpan)
		used += f.send(b, func(int) bool { return time.Now().Before(end) })
	}
	b.ReportMetric(float64(f.settled)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(f.settled)/used.Seconds(), "ops/core-s")
}

func benchMemcslap(b *testing.B, addr string) {
	const each = 6000 // requests of a thread
	report := regexp.MustCompile(`Time to get\s+(\d+) keys by\s+\d+ threads:\s+([\d.]+) seconds`)
	for b.Loop() {
		found, used := slap(b, report, "memcslap", "-s", strings.TrimPrefix(addr, "memcached://"), "-t", "get",
			"-c", strconv.Itoa(benchConns), "-e", strconv.Itoa(each))
		b.ReportMetric(found[0]/found[1], "ops/s")
		b.ReportMetric(found[0]/used.Seconds(), "ops/core-s")
	}
}

func benchMemcaslap(b *testing.B, addr string) {
	// Lengths from, to and share, of keys and of values; then shares of set (0) and get (1).
	config := filepath.Join(b.TempDir(), "memcaslap.cnf")
	if err := os.WriteFile(config, []byte("key\n20 20 1\nvalue\n100 100 1\ncmd\n0 0.0\n1 1.0\n"), 0o666); err != nil {
		b.Fatal(err)
	}
	report := regexp.MustCompile(`Ops: (\d+) TPS: (\d+)`)
	for b.Loop() {
		found, used := slap(b, report, "memcaslap", "-s", strings.TrimPrefix(addr, "memcached://"), "-F", config,
			"-T", "1", "-c", strconv.Itoa(benchConns), "-w", "1k", "-t", fmt.Sprintf("%.0fs", besideSpan.Seconds()))
		b.ReportMetric(found[1], "ops/s")
		b.ReportMetric(found[0]/used.Seconds(), "ops/core-s")
	}
}

// slap runs one of libmemcached's generators, and returns the two numbers of its report and its processor time.
func slap(b *testing.B, report *regexp.Regexp, name string, args ...string) (found [2]float64, used time.Duration) {
	b.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		// The reason of a skipped benchmark is not printed without -v.
		fmt.Fprintf(os.Stderr, "%s: not measured, %s is not installed (apt-get install libmemcached-tools)\n", b.Name(), name)
		b.SkipNow()
	}
	ctx, cancel := context.WithTimeout(b.Context(), 10*besideSpan)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	out, err := cmd.CombinedOutput()
	m := report.FindSubmatch(out)
	if err != nil || m == nil {
		b.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	for i := range found {
		if found[i], err = strconv.ParseFloat(string(m[i+1]), 64); err != nil {
			b.Fatal(err)
		}
	}
	return found, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
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
	start := benchServers(b)
	for _, pace := range []drive.Pace{drive.PaceSpin, drive.PaceSleep} {
		for _, rate := range []float64{1000, 50_000, 500_000} {
			for _, server := range []string{"none", "sink", "refserver"} {
				b.Run(fmt.Sprintf("%s/%s/rate=%.0f", pace, server, rate), func(b *testing.B) {
					addr := ""
					if server != "none" {
						addr = start[server](b)
					}
					benchPace(b, pace, arrival.KindPoisson, rate, addr, 1)
				})
			}
		}
	}
}

// benchPace measures a second in which bundles of depth requests make up the rate. Without an address there is no server.
func benchPace(b *testing.B, pace drive.Pace, kind string, rate float64, addr string, depth int) {
	var last drive.Result
	var before, after runtime.MemStats
	for b.Loop() {
		process, err := arrival.New(kind, rate/float64(depth), 0)
		if err != nil {
			b.Fatal(err)
		}
		const window = time.Second
		g, err := load.NewGenerator(load.Config{
			Seed: 1, Clients: benchConns, Workload: benchKeys(b), Arrivals: &bundles{Process: process, size: depth}, End: clock.Instant(window),
		})
		if err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&before)
		last, err = drive.Run(b.Context(), drive.Plan{
			Generator: &bundled{Generator: g, size: depth}, Classes: []load.Class{{Name: "get"}},
			Clock: clock.NewReal(), Dial: time.Second, Window: window, Drain: time.Second, Pace: pace,
			Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
				if addr == "" {
					return target.NewSink(o.Clock, o.Settle, o.Spin)
				}
				return target.Memcached(ctx, target.Config{
					Addr: addr, Conns: benchConns, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute,
				})
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&after)
	}
	all := last.Tally.All()
	answered := float64(all.Completed()) / last.Tally.Window().Seconds()
	b.ReportMetric(float64(all.SendLag.Percentile(50))/1000, "lag-p50-µs")
	b.ReportMetric(float64(all.SendLag.Percentile(99))/1000, "lag-p99-µs")
	b.ReportMetric(answered, "requests/s")
	b.ReportMetric(answered/last.SenderCPU, "requests/core-s")
	b.ReportMetric(100*last.SenderCPU, "core-%")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(last.Arrivals), "allocs/request")
}
