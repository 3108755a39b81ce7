//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spillway/control"
	"spillway/internal/dist"
	"spillway/servers"
	"spillway/workloads"
)

// benchEnv makes the test binary a server of one loop and one worker on the directory that it names, on the socket that benchSocket names: what
// is measured is then a process of its own.
const (
	benchEnv    = "SPILLWAY_BENCH_ROCKSDB"
	benchSocket = "SPILLWAY_BENCH_LISTEN"
)

// benchSLO is what counts as good. It is long beside what a request takes: this is about what gets done.
const benchSLO = 50 * time.Millisecond

func benchConfig(dir string) Config {
	c := Default()
	c.Dir, c.Create, c.HeaderOnly = dir, true, true
	return c
}

// benchSet is the quickstart's data.
func benchSet() Dataset { return Published(100_000, 200) }

func benchServer() error {
	runtime.GOMAXPROCS(4) // as refserver rocksdb on one core does
	b, err := Open(benchConfig(os.Getenv(benchEnv)))
	if err != nil {
		return err
	}
	if _, err := b.Load(context.Background(), benchSet(), nil); err != nil { // it has it, and reads it into its cache
		return err
	}
	front := servers.Default()
	front.Listen, front.Loops, front.Slots = []string{"unix://" + os.Getenv(benchSocket)}, 1, 2
	s, err := servers.New(b, control.Stack{Controller: control.None{}}, front)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready")
	return s.Serve(ctx)
}

// benchStore loads a directory with the quickstart's data, and returns what asks for it: four small values to a large one.
func benchStore(b *testing.B) (dir string, kv *workloads.KV) {
	b.Helper()
	dir = b.TempDir()
	set := benchSet()
	store := openBackend(b, benchConfig(dir))
	_, err := store.Load(b.Context(), set, nil)
	if cerr := store.Close(); err != nil || cerr != nil {
		b.Fatal(err, cerr)
	}
	classes := []workloads.KVClass{{Name: "small", Share: 0.8}, {Name: "large", Share: 0.2}}
	for i := range classes {
		classes[i].KeyPrefix, classes[i].Keys = set[i].Prefix, set[i].Count
		if classes[i].ValueSize, err = dist.Parse(set[i].Value, dist.Bytes); err != nil {
			b.Fatal(err)
		}
	}
	if kv, err = workloads.NewKV(classes); err != nil {
		b.Fatal(err)
	}
	return dir, kv
}

// alone returns how many requests a second the store answers in a plain loop, and what each takes of a processor.
func alone(b *testing.B, dir string, kv *workloads.KV) (rate float64, cpu time.Duration) {
	b.Helper()
	store := openBackend(b, benchConfig(dir))
	defer store.Close()
	if _, err := store.Load(b.Context(), benchSet(), nil); err != nil {
		b.Fatal(err)
	}
	rng := dist.Stream(1, "bench", 0)
	var op workloads.Op
	run := func(span time.Duration) float64 {
		n, began := 0, time.Now()
		for time.Since(began) < span {
			for range 16 {
				kv.Next(rng, &op)
				it, found, err := store.store.find(store.store.reading(op.Key), op.Key)
				if err != nil || !found {
					b.Fatalf("%s: %v, %v", op.Key, found, err)
				}
				runtime.KeepAlive(touchLines(it.value))
				store.store.release(&it)
				n++
			}
		}
		return float64(n) / time.Since(began).Seconds()
	}
	run(time.Second) // what is read often is in memory now
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	const span = 2 * time.Second
	rate = run(span)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	return rate, time.Duration(float64(used) / (rate * span.Seconds()))
}

// used returns the time of processors that a server has had so far, by its own account.
func used(b *testing.B, socket string) (cpu time.Duration) {
	b.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("stats\r\n")); err != nil {
		b.Fatal(err)
	}
	for in := bufio.NewScanner(conn); in.Scan() && in.Text() != "END"; {
		if words := strings.Fields(in.Text()); len(words) == 3 && strings.HasPrefix(words[1], "rusage_") {
			seconds, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				b.Fatal(err)
			}
			cpu += time.Duration(seconds * 1e9)
		}
	}
	return cpu
}

// load is an open loop on one server: requests leave when they are due, over several connections.
type load struct {
	good, late atomic.Int64
}

// offer asks at a rate for a time and returns how many requests a second were answered in time, and what each took of a processor.
func offer(b *testing.B, socket string, kv *workloads.KV, rate float64, span time.Duration) (good float64, cpu time.Duration) {
	b.Helper()
	const conns = 16
	before := used(b, socket)
	var l load
	var readers sync.WaitGroup
	out := make([]*bufio.Writer, conns)
	due := make([]chan time.Time, conns)
	for i := range conns {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		out[i], due[i] = bufio.NewWriterSize(conn, 64<<10), make(chan time.Time, 1<<15)
		readers.Go(func() {
			in := bufio.NewReaderSize(conn, 64<<10)
			for at := range due[i] {
				line, err := in.ReadSlice('\n')
				if err != nil || !strings.HasPrefix(string(line), "HD") {
					b.Errorf("%q, %v", line, err)
					return
				}
				if time.Since(at) <= benchSLO {
					l.good.Add(1)
				} else {
					l.late.Add(1)
				}
			}
		})
	}
	rng := dist.Stream(2, "bench", 0)
	var op workloads.Op
	turn := time.NewTicker(500 * time.Microsecond) // a loop that spun would take a core from the server
	defer turn.Stop()
	began, sent := time.Now(), 0
	for now := began; now.Sub(began) < span; now = <-turn.C {
		for ; float64(sent) < now.Sub(began).Seconds()*rate; sent++ {
			kv.Next(rng, &op)
			i := sent % conns
			due[i] <- began.Add(time.Duration(float64(sent) / rate * 1e9))
			if _, err := fmt.Fprintf(out[i], "mg %s s v\r\n", op.Key); err != nil {
				b.Fatal(err)
			}
		}
		for i := range out {
			if err := out[i].Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range due {
		close(due[i])
	}
	readers.Wait()
	return float64(l.good.Load()) / span.Seconds(), (used(b, socket) - before) / time.Duration(max(sent, 1))
}

// BenchmarkGoodput holds a server of one core without control against the store alone in a plain loop, on the same data with the same
// options, from half to all of what the store alone does. Both do what is asked of them below their capacity, so the ratio is 1
// as long as the front end is not what is short. It takes two cores: the other one asks.
func BenchmarkGoodput(b *testing.B) {
	dir, kv := benchStore(b)
	socket := b.TempDir() + "/s"
	capacity, cpu := alone(b, dir, kv)
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), benchEnv+"="+dir, benchSocket+"="+socket, "GOMAXPROCS=1")
	server.Stderr = os.Stderr
	said, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "ready\n" {
		b.Fatalf("the server said %q, %v", line, err)
	}
	offer(b, socket, kv, capacity/4, time.Second)
	for _, share := range []float64{0.5, 0.8, 0.9, 1} {
		b.Run(fmt.Sprintf("load=%v", share), func(b *testing.B) {
			good, served := 0.0, time.Duration(0)
			for range b.N {
				answered, each := offer(b, socket, kv, share*capacity, 2*time.Second)
				good, served = good+answered/float64(b.N), served+each/time.Duration(b.N)
			}
			b.ReportMetric(float64(cpu)/1e3, "alone-cpu-us")
			b.ReportMetric(float64(served)/1e3, "server-cpu-us")
			b.ReportMetric(capacity, "alone-rps")
			b.ReportMetric(good, "goodput-rps")
			b.ReportMetric(good/min(share*capacity, capacity), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkAlone is the store in a plain loop, and beside it RocksDB's own benchmark on as many values of the same sizes with the same options.
func BenchmarkAlone(b *testing.B) {
	for _, class := range []struct {
		name string
		set  Dataset
		args []string
	}{
		{"small", Published(100_000, 1)[:1], []string{"--num=100000", "--value_size_distribution_type=uniform", "--value_size_min=5", "--value_size_max=1000", "--cache_size=268435456"}},
		{"large", Published(1, 200)[1:], []string{"--num=200", "--value_size_distribution_type=uniform", "--value_size_min=800000", "--value_size_max=1200000", "--cache_size=0"}}, // which large values pass by here,
	} {
		b.Run("loop/"+class.name, func(b *testing.B) {
			config := benchConfig(b.TempDir())
			store := openBackend(b, config)
			defer store.Close()
			if _, err := store.Load(b.Context(), class.set, nil); err != nil {
				b.Fatal(err)
			}
			kv, err := class.set.workload()
			if err != nil {
				b.Fatal(err)
			}
			rng := dist.Stream(1, "bench", 0)
			var op workloads.Op
			b.ResetTimer()
			for range b.N {
				kv.Next(rng, &op)
				it, found, err := store.store.find(store.store.reading(op.Key), op.Key)
				if err != nil || !found {
					b.Fatalf("%s: %v, %v", op.Key, found, err)
				}
				store.store.release(&it)
			}
		})
		b.Run("db_bench/"+class.name, func(b *testing.B) {
			tool, err := exec.LookPath("db_bench")
			if err != nil {
				b.Skip("db_bench is not installed; Debian has it in the package rocksdb-tools")
			}
			nanos := dbBench(b, tool, class.args)
			b.ReportMetric(nanos, "ns/op")
		})
	}
}

var dbBenchLine = regexp.MustCompile(`readrandom +: +([0-9.]+) micros/op`)

// dbBench has RocksDB's own benchmark fill a store like ours, compact it, and read from it with one thread.
func dbBench(b *testing.B, tool string, args []string) (nanos float64) {
	b.Helper()
	c := exec.Command(tool, append([]string{
		"--db=" + b.TempDir(), "--benchmarks=fillseq,compact,readrandom,readrandom", "--key_size=21", "--compression_type=none", "--bloom_bits=10",
		"--block_size=4096", "--write_buffer_size=67108864", "--open_files=-1", "--threads=1", "--duration=2", "--disable_wal=true",
	}, args...)...)
	text, err := c.CombinedOutput()
	found := dbBenchLine.FindAllSubmatch(text, -1)
	if err != nil || len(found) == 0 {
		b.Fatalf("db_bench: %v\n%s", err, text)
	}
	micros, err := strconv.ParseFloat(string(found[len(found)-1][1]), 64) // of the second time: the first one fills the cache
	if err != nil {
		b.Fatal(err)
	}
	return 1000 * micros
}
