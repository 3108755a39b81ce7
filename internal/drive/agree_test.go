//go:build linux

package drive_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/target"
	"spillway/servers"
	"spillway/servers/memcached"
	"spillway/workloads"
)

// startOurs starts our memcached in this process.
func startOurs(t testing.TB) (addr string) {
	t.Helper()
	c := memcached.DefaultConfig()
	backend, err := memcached.New(c)
	if err != nil {
		t.Fatal(err)
	}
	config := servers.Default()
	config.Listen, config.Loops, config.MaxItem = []string{"127.0.0.1:0"}, 1, c.MaxItem
	s, err := servers.New(backend, control.Stack{Controller: control.None{}}, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "memcached://" + s.Addrs()[0]
}

// watcher reads a server's statistics over one connection that stays, so that it is known which bytes were its own.
type watcher struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func watch(t *testing.T, addr string) *watcher {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(addr, "memcached://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &watcher{t, conn, bufio.NewReader(conn)}
}

// stats returns the statistics, and how long the answer was.
func (w *watcher) stats() (all map[string]int64, length int64) {
	w.t.Helper()
	if _, err := w.conn.Write([]byte("stats\r\n")); err != nil {
		w.t.Fatal(err)
	}
	all = map[string]int64{}
	for {
		line, err := w.in.ReadString('\n')
		if err != nil {
			w.t.Fatal(err)
		}
		length += int64(len(line))
		if line == "END\r\n" {
			return all, length
		}
		if f := strings.Fields(line); len(f) == 3 {
			if n, err := strconv.ParseInt(f[2], 10, 64); err == nil {
				all[f[1]] = n
			}
		}
	}
}

// everything asks for all kinds of operation; a tenth of its keys is never stored.
func everything() []workloads.KVClass {
	size := dist.Uniform{Unit: dist.Bytes, Low: 0, High: 300}
	return []workloads.KVClass{
		{Name: "mixed", Share: 0.8, Mix: workloads.Mix{Get: 0.5, Set: 0.2, Delete: 0.1, MultiGet: 0.2}, Batch: 7, KeyPrefix: "k-", Keys: 900, ValueSize: size},
		{Name: "missing", Share: 0.2, KeyPrefix: "absent-", Keys: 100, ValueSize: size, Mix: workloads.Mix{Get: 0.9, Delete: 0.1}},
	}
}

// stored leaves out what shall be missing.
func stored(t testing.TB) *workloads.KV {
	t.Helper()
	classes := everything()[:1]
	classes[0].Share = 1
	kv, err := workloads.NewKV(classes)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// sharded returns a plan with several senders.
func sharded(t testing.TB, senders int, seed uint64, rate float64, window time.Duration, open func(context.Context, drive.Opening) (load.Target, error)) drive.Plan {
	t.Helper()
	p := drive.Plan{
		Classes: []load.Class{{Name: "mixed"}, {Name: "missing"}}, Clock: clock.NewReal(), Open: open,
		Dial: 10 * time.Second, Window: window, Drain: 30 * time.Second, Pace: drive.PaceSleep,
	}
	for i := range senders {
		kv, err := workloads.NewKV(everything())
		if err != nil {
			t.Fatal(err)
		}
		process, err := arrival.New(arrival.KindPoisson, rate, 0)
		if err != nil {
			t.Fatal(err)
		}
		g, err := load.NewGenerator(load.Config{
			Seed: seed, Clients: 8, Workload: kv, Arrivals: process, End: clock.Instant(window), Shard: i, Shards: senders,
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p.Generator = g
		} else {
			p.More = append(p.More, g)
		}
	}
	return p
}

// opener returns a way to open our own client on addr.
func opener(addr string) func(context.Context, drive.Opening) (load.Target, error) {
	return func(ctx context.Context, o drive.Opening) (load.Target, error) {
		return target.Memcached(ctx, target.Config{
			Addr: addr, Conns: 8, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute, Shard: o.Shard, Shards: o.Shards,
		})
	}
}

// TestAgreesWithTheServer holds counts, bytes and hits against the server's own statistics, to the unit, with one sender and with several:
// of Debian's memcached and of ours.
func TestAgreesWithTheServer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{
		"memcached": func(t *testing.T) string { addr, _ := startMemcached(t); return addr },
		"ours":      func(t *testing.T) string { return startOurs(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := start(t)
			hashes := map[drive.Sequence]bool{}
			for _, senders := range []int{1, 3} {
				if _, err := target.Preload(t.Context(), addr, stored(t), nil); err != nil {
					t.Fatal(err)
				}
				w := watch(t, addr)
				before, answered := w.stats()
				r, err := drive.Run(t.Context(), sharded(t, senders, 5, 4000, 500*time.Millisecond, opener(addr)))
				if err != nil {
					t.Fatal(err)
				}
				after, _ := w.stats()
				all := r.Tally.All()
				if all.Completed() != r.Arrivals || uint64(r.Arrivals) != r.Sequence.Requests || r.Senders != senders {
					t.Fatalf("%d of %d answered, the sequence has %d, %d senders", all.Completed(), r.Arrivals, r.Sequence.Requests, r.Senders)
				}
				hashes[r.Sequence] = true
				const probe, version = int64(len("version\r\n")), "VERSION 1.6.18\r\n"
				versionBytes := int64(len(version))
				if name == "ours" {
					versionBytes += int64(len("-spillway"))
				}
				n := int64(senders) + 8 // one by each sender, and one on each connection
				k := &r.Totals.Keys
				sum := func(kind workloads.Kind) int64 { return k[kind][reqlog.OK] }
				want := map[string]int64{
					"cmd_get":    sum(workloads.Get) + sum(workloads.MultiGet),
					"cmd_set":    sum(workloads.Set),
					"get_hits":   r.Totals.Hits,
					"get_misses": sum(workloads.Get) + sum(workloads.MultiGet) - r.Totals.Hits,
				}
				if name == "memcached" { // ours is held to the bytes of its own counting elsewhere
					want["bytes_read"] = all.BytesOut + n*probe + int64(len("stats\r\n"))
					want["bytes_written"] = all.BytesIn + n*versionBytes + answered
				}
				for stat, n := range want {
					if got := after[stat] - before[stat]; got != n {
						t.Errorf("%d senders: the server counts %s %d, we count %d", senders, stat, got, n)
					}
				}
				if got := after["delete_hits"] + after["delete_misses"] - before["delete_hits"] - before["delete_misses"]; got != sum(workloads.Delete) {
					t.Errorf("%d senders: the server counts %d deletes, we count %d", senders, got, sum(workloads.Delete))
				}
				if all.Hits != r.Totals.Hits || all.Reads == all.Hits || all.Hits == 0 {
					t.Errorf("%d hits of %d reads in the window, %d in all", all.Hits, all.Reads, r.Totals.Hits)
				}
			}
			if len(hashes) != 1 {
				t.Errorf("one seed, several numbers of senders, several sequences: %v", hashes)
			}
		})
	}
}

// TestSendersShareASequence against a target that answers at once: whatever the number of senders, the same is asked; another seed asks
// something else.
func TestSendersShareASequence(t *testing.T) {
	t.Parallel()
	sink := func(_ context.Context, o drive.Opening) (load.Target, error) {
		return target.NewSink(o.Clock, o.Settle, o.Spin)
	}
	seen := map[uint64][]drive.Sequence{}
	for _, seed := range []uint64{1, 2} {
		for _, senders := range []int{1, 2, 5} {
			r, err := drive.Run(t.Context(), sharded(t, senders, seed, 20_000, 100*time.Millisecond, sink))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Tally.Check(r.Arrivals); err != nil {
				t.Error(err)
			}
			if uint64(r.Arrivals) != r.Sequence.Requests {
				t.Errorf("%d arrivals, the sequence has %d", r.Arrivals, r.Sequence.Requests)
			}
			seen[seed] = append(seen[seed], r.Sequence)
		}
	}
	for seed, list := range seen {
		if list[0] != list[1] || list[1] != list[2] || list[0].Requests < 1800 {
			t.Errorf("seed %d: %v", seed, list)
		}
	}
	if seen[1][0] == seen[2][0] {
		t.Error("two seeds, one sequence")
	}
}

// TestSeveralSendersCutShort: the window ends at one instant for all, and every request due before has its fate.
func TestSeveralSendersCutShort(t *testing.T) {
	t.Parallel()
	sink := func(_ context.Context, o drive.Opening) (load.Target, error) {
		return target.NewSink(o.Clock, o.Settle, o.Spin)
	}
	p := sharded(t, 3, 1, 5000, time.Hour, sink)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.Progress = func(s drive.Snapshot) {
		if s.Phase == drive.Measuring && s.Elapsed > 100*time.Millisecond {
			cancel()
		}
	}
	r, err := drive.Run(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.CutShort || r.Tally.Window() > 30*time.Second || r.Arrivals < 100 {
		t.Errorf("cut short %v, %d arrivals in %v", r.CutShort, r.Arrivals, r.Tally.Window())
	}
	if err := r.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
}

// What TestIndependentClient holds its medians to.
const (
	holdFor = 20 * time.Millisecond // from the arrival of a request at the server to its reply
	// slack covers what is not service: the way through the loopback interface, and how late a timer and three threads wake up.
	slack = 3 * time.Millisecond
)

// startHolding starts a server that answers each get after holdFor, kept by a timer, whatever else it has to do.
func startHolding(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { hold(c) }) // until its client closes the connection
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}

func hold(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		reply := "VERSION 1.6.fake\r\n"
		if words := strings.Fields(line); words[0] == "mg" { // mg KEY s v OOPAQUE
			<-time.NewTimer(holdFor).C
			reply = "VA 3 s3 " + words[4] + "\r\nabc\r\n"
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// agree tells what is wrong with the medians of a client of ours and of the independent one. Each must lie in [holdFor, holdFor+slack),
// which is as wide as slack: a client whose clock is off by slack, in either direction, is found out whatever the noise.
func agree(ours, plain time.Duration) error {
	for name, median := range map[string]time.Duration{"our": ours, "the independent client's": plain} {
		if median < holdFor || median >= holdFor+slack {
			return fmt.Errorf("%s median is %v: the server takes %v, anything else less than %v", name, median, holdFor, slack)
		}
	}
	if off := (ours - plain).Abs(); off >= slack {
		return fmt.Errorf("medians of %v and %v differ by %v", ours, plain, off)
	}
	return nil
}

// TestIndependentClient: our latencies are those that a plain loop over package net measures on the same server, and those that the server
// is known to cause. The two clients take turns at a low rate. It runs with no other test of this package; a host that is preempted all the
// same gets another try, never a wider bound.
func TestIndependentClient(t *testing.T) {
	addr := startHolding(t)
	var err error
	for range 5 {
		service, response, plain := bothClients(t, addr)
		t.Logf("median from send to reply %v, from intended instant to reply %v, by a plain loop %v", service, response, plain)
		if err = errors.Join(agree(service, plain), agree(response, plain)); err != nil {
			continue
		}
		for _, off := range []time.Duration{slack, -slack} { // the test would not have passed over it
			if agree(service+off, plain) == nil || agree(response+off, plain) == nil || agree(service, plain+off) == nil {
				t.Errorf("an error of %v is not noticed", off)
			}
		}
		return
	}
	t.Error(err)
}

// bothClients returns the medians that our client and a plain loop measure. A turn of the loop begins with the end of one of ours.
func bothClients(t *testing.T, addr string) (service, response, plain time.Duration) {
	t.Helper()
	const turns, interval = 30, 50 * time.Millisecond // of which 20 ms are ours, 20 ms the loop's
	kv, err := workloads.NewKV([]workloads.KVClass{{Name: "get", Share: 1, Keys: 10, ValueSize: dist.Constant{Unit: dist.Bytes, Value: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{
		Seed: 1, Clients: 1, Workload: kv, Arrivals: arrival.NewConstant(float64(time.Second/interval), 0),
		End: clock.Instant(turns * interval),
	})
	if err != nil {
		t.Fatal(err)
	}
	turn := make(chan struct{}, turns) // a place for each, so that the sender never waits
	measured := make(chan []time.Duration)
	go func() { measured <- plainLoop(t, addr, turn) }()
	var services, responses []time.Duration
	_, err = drive.Run(t.Context(), drive.Plan{
		Generator: g, Classes: []load.Class{{Name: "get"}}, Clock: clock.NewReal(), Pace: drive.PaceSleep,
		Dial: 10 * time.Second, Window: turns * interval, Drain: 30 * time.Second,
		Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
			return target.Memcached(ctx, target.Config{
				Addr: "memcached://" + addr, Conns: 1, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute,
			})
		},
		Record: func(_ int, r *reqlog.Record) {
			services = append(services, r.Done.Sub(r.Sent))
			responses = append(responses, r.Done.Sub(r.Intended))
			turn <- struct{}{}
		},
	})
	close(turn)
	plains := <-measured
	if err != nil {
		t.Fatal(err)
	}
	if len(services) != turns || len(plains) != turns {
		t.Fatalf("%d and %d requests were measured, not %d", len(services), len(plains), turns)
	}
	return median(services), median(responses), median(plains)
}

// plainLoop asks once a turn, and returns how long each answer took.
func plainLoop(t *testing.T, addr string, turn <-chan struct{}) (took []time.Duration) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for range turn {
		began := time.Now()
		if _, err = io.WriteString(conn, "mg key s v O1\r\n"); err != nil {
			t.Error(err)
			return took
		}
		for _, want := range []string{"VA 3 s3 O1\r\n", "abc\r\n"} {
			if line, err := in.ReadString('\n'); err != nil || line != want {
				t.Errorf("%q: %v", line, err)
				return took
			}
		}
		took = append(took, time.Since(began))
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// TestGomemcacheTarget: the same load through the client that Go services use gives the same counts.
func TestGomemcacheTarget(t *testing.T) {
	t.Parallel()
	addr, _ := startMemcached(t)
	if _, err := target.Preload(t.Context(), addr, stored(t), nil); err != nil {
		t.Fatal(err)
	}
	w := watch(t, addr)
	before, _ := w.stats()
	r, err := drive.Run(t.Context(), sharded(t, 2, 5, 1000, 500*time.Millisecond, func(ctx context.Context, o drive.Opening) (load.Target, error) {
		return target.Gomemcache(ctx, target.Config{
			Addr: addr, Conns: 1000, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute, Shard: o.Shard, Shards: o.Shards,
		})
	}))
	if err != nil {
		t.Fatal(err)
	}
	after, _ := w.stats()
	all := r.Tally.All()
	if all.Completed() != r.Arrivals || r.Counters.WindowFull != 0 {
		t.Errorf("%d of %d answered, %+v", all.Completed(), r.Arrivals, r.Counters)
	}
	k := &r.Totals.Keys
	for stat, want := range map[string]int64{
		"cmd_get": k[workloads.Get][reqlog.OK] + k[workloads.MultiGet][reqlog.OK], "cmd_set": k[workloads.Set][reqlog.OK], "get_hits": r.Totals.Hits,
	} {
		if got := after[stat] - before[stat]; got != want {
			t.Errorf("the server counts %s %d, we count %d", stat, got, want)
		}
	}
}

// TestSelfTest is about the figures being there; what they are is this machine's business.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	for _, pace := range []drive.Pace{drive.PaceSleep, drive.PaceSpin} {
		p, err := drive.SelfTest(t.Context(), pace, 5000, 50*time.Millisecond, func(_ context.Context, o drive.Opening) (load.Target, error) {
			return target.NewSink(o.Clock, o.Settle, o.Spin)
		})
		if err != nil || p.Requests < 150 || p.P50 > p.P99 || p.P99 > p.Max || p.Max <= 0 {
			t.Errorf("%v, %v", p, err)
		}
	}
	if _, err := drive.SelfTest(t.Context(), drive.PaceSleep, 0, time.Second, nil); err == nil {
		t.Error("a rate of 0 was accepted")
	}
}
