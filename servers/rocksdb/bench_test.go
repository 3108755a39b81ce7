//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	"spillway/workloads"
)

// benchEnv makes the test binary a server on the directory that it names, on the address that benchSocket names, with as many loops, and as many workers, as
// benchWidth says: what is measured is then a process of its own.
const (
	benchEnv    = "SPILLWAY_BENCH_ROCKSDB"
	benchSocket = "SPILLWAY_BENCH_LISTEN"
	benchWidth  = "SPILLWAY_BENCH_WIDTH"
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
	width, err := strconv.Atoi(os.Getenv(benchWidth))
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(2*width + 2) // as refserver rocksdb does on as many cores
	config := benchConfig(os.Getenv(benchEnv))
	config.Workers = width
	b, err := Open(config)
	if err != nil {
		return err
	}
	if _, err := b.Load(context.Background(), benchSet(), nil); err != nil { // it has it, and reads it into its cache
		return err
	}
	front := servers.Default()
	front.Listen, front.Loops, front.Slots = []string{os.Getenv(benchSocket)}, width, Slots(width, width)
	s, err := servers.New(b, control.Stack{Controller: control.None{}}, front)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready")
	return s.Serve(ctx)
}

// benchStore loads a directory with the quickstart's data.
func benchStore(b *testing.B) (dir string) {
	b.Helper()
	dir = b.TempDir()
	store := openBackend(b, benchConfig(dir))
	_, err := store.Load(b.Context(), benchSet(), nil)
	if cerr := store.Close(); err != nil || cerr != nil {
		b.Fatal(err, cerr)
	}
	return dir
}

// benchLoad returns what asks for the quickstart's data: four small values to a large one.
func benchLoad(b *testing.B) *workloads.KV {
	b.Helper()
	set := benchSet()
	classes := []workloads.KVClass{{Name: "small", Share: 0.8}, {Name: "large", Share: 0.2}}
	for i := range classes {
		var err error
		classes[i].KeyPrefix, classes[i].Keys = set[i].Prefix, set[i].Count
		if classes[i].ValueSize, err = dist.Parse(set[i].Value, dist.Bytes); err != nil {
			b.Fatal(err)
		}
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		b.Fatal(err)
	}
	return kv
}

// plainLoop is a store that is asked in a loop.
type plainLoop struct {
	store *Backend
	kv    *workloads.KV
	rng   *rand.Rand
	op    workloads.Op
}

func newPlainLoop(b *testing.B) *plainLoop {
	b.Helper()
	l := &plainLoop{store: openBackend(b, benchConfig(benchStore(b))), kv: benchLoad(b), rng: dist.Stream(1, "bench", 0)}
	if _, err := l.store.Load(b.Context(), benchSet(), nil); err != nil { // it has it, and reads it into its cache
		b.Fatal(err)
	}
	l.run(b, time.Second) // what is read often is in memory now
	return l
}

// run returns how many requests a second the store answers, and what each takes of a processor.
func (l *plainLoop) run(b *testing.B, span time.Duration) (rate float64, cpu time.Duration) {
	b.Helper()
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	n, began, s := 0, time.Now(), l.store.store
	for time.Since(began) < span {
		for range 16 {
			l.kv.Next(l.rng, &l.op)
			it, found, err := s.find(s.reading(l.op.Key), l.op.Key)
			if err != nil || !found {
				b.Fatalf("%s: %v, %v", l.op.Key, found, err)
			}
			runtime.KeepAlive(touchLines(it.value))
			s.release(&it)
			n++
		}
	}
	rate = float64(n) / time.Since(began).Seconds()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	return rate, time.Duration(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / time.Duration(n)
}

// used returns the time of processors that a server has had so far, by its own account.
func used(b *testing.B, addr string) (cpu time.Duration) {
	b.Helper()
	network, address, err := target.ParseAddr("memcached://" + addr)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial(network, address)
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

// offer has the load generator ask at a rate for a time, and returns how many requests a second were answered in time, and what each took of a processor.
func offer(b *testing.B, addr string, kv *workloads.KV, rate float64, span time.Duration) (good float64, cpu time.Duration) {
	b.Helper()
	const conns = 16
	slos := []time.Duration{benchSLO, benchSLO}
	generator, err := load.NewGenerator(load.Config{
		Seed: 2, Clients: conns, Workload: kv, Arrivals: arrival.NewPoisson(rate, 0), End: clock.Instant(span),
	})
	if err != nil {
		b.Fatal(err)
	}
	before := used(b, addr)
	r, err := drive.Run(b.Context(), drive.Plan{
		Generator: generator, Classes: []load.Class{{Name: "small", SLO: benchSLO}, {Name: "large", SLO: benchSLO}}, Clock: clock.NewReal(),
		Dial: time.Second, Window: span, Drain: 2 * span, Pace: drive.PaceSleep, // one that spun would take a core from the server
		Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
			return target.Memcached(ctx, target.Config{
				Addr: "memcached://" + addr, Conns: conns, Clock: o.Clock, Timeout: 2 * span, SLOs: slos, Settle: o.Settle, Spin: o.Spin,
			})
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ok, late := int64(0), int64(0)
	for _, fates := range r.Totals.Keys {
		ok, late = ok+fates[reqlog.OK], late+fates[reqlog.Late]
	}
	if r.Counters.Lost > 0 || ok+late == 0 {
		b.Fatalf("%d in time, %d late: %+v, %+v", ok, late, r.Counters, r.Totals.Keys)
	}
	return float64(ok) / span.Seconds(), (used(b, addr) - before) / time.Duration(ok+late)
}

// BenchmarkGoodput holds a server without control against the store alone in a plain loop, on the same data with the same options, from half to all of what
// the loop does. Both do what is asked of them below their capacity, so the ratio is 1 as long as the front end is not what is short. The server has a loop
// and a worker for each core, as by default, or one of each, so that the store has one thread, as in the loop; the generator has what they leave.
//
// Each turn has the plain loop first and the server right after it, because a shared computer is not the same from one second to the next. The ratio is the
// median of the turns, least-ratio the worst.
func BenchmarkGoodput(b *testing.B) {
	kv, plain := benchLoad(b), newPlainLoop(b)
	defer plain.store.Close()
	for _, network := range []string{"unix", "tcp"} {
		for _, width := range slices.Compact([]int{1, runtime.NumCPU()}) {
			b.Run(fmt.Sprintf("%s/workers=%d", network, width), func(b *testing.B) {
				addr := serveBench(b, network, width)
				offer(b, addr, kv, 1000, time.Second)
				for _, share := range []float64{0.5, 0.8, 0.9, 1} {
					b.Run(fmt.Sprintf("load=%v", share), func(b *testing.B) { goodput(b, plain, addr, kv, share) })
				}
			})
		}
	}
}

// goodput reports what a server does of a share of what the plain loop does.
func goodput(b *testing.B, plain *plainLoop, addr string, kv *workloads.KV, share float64) {
	b.Helper()
	var alone, aloneCPU, good, served, ratios []float64
	for range b.N {
		rate, cpu := plain.run(b, time.Second)
		answered, each := offer(b, addr, kv, share*rate, 2*time.Second)
		alone, aloneCPU = append(alone, rate), append(aloneCPU, float64(cpu)/1e3)
		good, served, ratios = append(good, answered), append(served, float64(each)/1e3), append(ratios, answered/(share*rate))
	}
	b.ReportMetric(median(aloneCPU), "alone-cpu-us")
	b.ReportMetric(median(served), "server-cpu-us")
	b.ReportMetric(median(alone), "alone-rps")
	b.ReportMetric(median(good), "goodput-rps")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(slices.Min(ratios), "least-ratio")
	b.ReportMetric(0, "ns/op")
}

// median sorts values and returns the one in the middle, the lower one of two.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// serveBench starts a server as a process of its own, which ends with the benchmark, and returns its address.
func serveBench(b *testing.B, network string, width int) (addr string) {
	b.Helper()
	addr = b.TempDir() + "/s"
	listen := "unix://" + addr
	if network == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0") // for a port that is free
		if err != nil {
			b.Fatal(err)
		}
		addr = l.Addr().String()
		listen = addr
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), benchEnv+"="+benchStore(b), benchSocket+"="+listen, fmt.Sprintf("%s=%d", benchWidth, width))
	server.Stderr = os.Stderr
	said, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "ready\n" {
		b.Fatalf("the server said %q, %v", line, err)
	}
	return addr
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
