//go:build linux

package drive_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/target"
	"spillway/workloads"
)

// startMemcached starts the distribution's memcached on a free port of the loopback interface and returns its address and process.
func startMemcached(t testing.TB) (addr string, server *exec.Cmd) {
	t.Helper()
	path, err := exec.LookPath("memcached")
	if err != nil {
		t.Skip("memcached is not installed: apt-get install memcached")
	}
	for range 5 { // another process may take the port before memcached does
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		cmd := exec.Command(path, "-u", "nobody", "-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0", "-t", "1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		stop := func() { _ = cmd.Process.Kill(); <-ended }
		addr = fmt.Sprintf("memcached://127.0.0.1:%d", port)
		if listening(t.Context(), addr, ended) {
			t.Cleanup(stop)
			return addr, cmd
		}
		stop()
	}
	t.Fatal("memcached does not start")
	return "", nil
}

// listening asks until memcached answers or has ended.
func listening(ctx context.Context, addr string, ended <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ask := time.NewTicker(5 * time.Millisecond)
	defer ask.Stop()
	for {
		select {
		case <-ask.C:
			if _, err := target.Probe(ctx, addr); err == nil {
				return true
			}
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func stat(t *testing.T, addr, name string) int64 {
	t.Helper()
	all, err := target.Stats(t.Context(), addr, "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(all[name], 10, 64)
	if err != nil {
		t.Fatalf("%s is %q", name, all[name])
	}
	return n
}

const memcachedRate = 500

// plan returns a plan of constant arrivals against a preloaded memcached.
func plan(t *testing.T, addr string, window time.Duration) drive.Plan {
	t.Helper()
	classes := []workloads.KVClass{
		{Name: "small", Share: 0.8, Keys: 100, ValueSize: dist.Uniform{Low: 5, High: 1000}},
		{Name: "large", Share: 0.2, Keys: 10, ValueSize: dist.Uniform{Low: 100_000, High: 200_000}},
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := target.Preload(t.Context(), addr, kv, nil)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Items != 110 || stat(t, addr, "curr_items") != 110 {
		t.Fatalf("stored %+v, the server has %d items", stored, stat(t, addr, "curr_items"))
	}
	const warmUp = 100 * time.Millisecond
	g, err := load.NewGenerator(load.Config{
		Seed: 1, Clients: 4, Workload: kv, Arrivals: arrival.NewConstant(memcachedRate, 0), End: clock.Instant(warmUp + window),
	})
	if err != nil {
		t.Fatal(err)
	}
	return drive.Plan{
		Generator: g, Classes: []load.Class{{Name: "small"}, {Name: "large"}}, Clock: clock.NewReal(),
		Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
			return target.Memcached(ctx, target.Config{
				Addr: addr, Conns: 4, Clock: o.Clock, Settle: o.Settle, Spin: o.Spin, Timeout: time.Minute, Timings: true,
			})
		},
		Dial: 10 * time.Second, WarmUp: warmUp, Window: window, Drain: 30 * time.Second, Pace: drive.PaceAuto,
	}
}

// TestMemcachedAgrees holds our counts against those of the server, to the unit.
func TestMemcachedAgrees(t *testing.T) {
	t.Parallel()
	addr, _ := startMemcached(t)
	p := plan(t, addr, time.Second)
	before, written := stat(t, addr, "cmd_get"), stat(t, addr, "bytes_read")
	r, err := drive.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	all := r.Tally.All()
	if got, want := stat(t, addr, "cmd_get")-before, int64(p.Generator.(*load.Generator).Fired()); got != want || want != memcachedRate*11/10 {
		t.Errorf("the server counts %d gets, %d were sent", got, want)
	}
	if r.Arrivals != memcachedRate || all.Fates[reqlog.OK] != memcachedRate || all.Hits != memcachedRate || all.Reads != memcachedRate {
		t.Errorf("%d arrivals, %d ok, %d hits", r.Arrivals, all.Fates[reqlog.OK], all.Hits)
	}
	if err := r.Tally.Check(r.Arrivals); err != nil {
		t.Error(err)
	}
	if got := stat(t, addr, "bytes_read") - written; got < all.BytesOut {
		t.Errorf("the server read %d bytes, %d were sent in the window alone", got, all.BytesOut)
	}
	if all.Latency.Count() != memcachedRate || all.Latency.Percentile(50) <= 0 || all.Queue.Count() != 0 {
		t.Errorf("%d latencies, median %v, %d queueing delays from a server that tells none", all.Latency.Count(), all.Latency.Percentile(50), all.Queue.Count())
	}
	if r.Counters.Lost != 0 || r.Undrained != 0 || r.CutShort {
		t.Errorf("%+v", r.Counters)
	}
}

// TestMemcachedStopped stops the server for a while. Every request that was due meanwhile waited for it to go on; how many waited how
// long at least is arithmetic. What else the machine does can only make it more.
func TestMemcachedStopped(t *testing.T) {
	t.Parallel()
	addr, server := startMemcached(t)
	p := plan(t, addr, time.Second)
	var stopped, resumed clock.Instant
	done := make(chan struct{})
	started := make(chan struct{})
	measuring := false
	p.Progress = func(s drive.Snapshot) {
		if s.Phase == drive.Measuring && !measuring {
			measuring = true
			close(started)
		}
	}
	go func() {
		defer close(done)
		select {
		case <-started:
		case <-t.Context().Done():
			return
		}
		// The server is certainly stopped from some time after the first call on, and until the second.
		if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		stopped = p.Clock.Now().Add(20 * time.Millisecond)
		<-time.NewTimer(320 * time.Millisecond).C
		resumed = p.Clock.Now()
		if err := server.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	r, err := drive.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	all := r.Tally.All()
	if all.Arrivals() != memcachedRate || all.Fates[reqlog.OK] != memcachedRate {
		t.Errorf("%d arrivals, %d answered", all.Arrivals(), all.Fates[reqlog.OK])
	}
	// Those due at least 100 ms before the server went on waited at least so long.
	const wait = 100 * time.Millisecond
	span := min(resumed, r.Tally.To).Sub(stopped)
	if resumed <= r.Tally.To && span > wait {
		atLeast := int64((span-wait).Seconds()*memcachedRate) - 2
		p := 100*(1-float64(atLeast)/float64(all.Arrivals())) + 0.5
		if got := all.Latency.Percentile(p); got < wait*99/100 {
			t.Errorf("stopped for %v: %d of %d requests waited for %v and longer, but p%.1f is %v", span, atLeast, all.Arrivals(), wait, p, got)
		}
	}
	if all.Latency.Max() < span-20*time.Millisecond {
		t.Errorf("stopped for %v, the longest latency is %v", span, all.Latency.Max())
	}
}
