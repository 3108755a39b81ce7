//go:build linux

package memcached_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/control/catalog"
	"spillway/servers"
	"spillway/servers/memcached"
)

// serverEnv makes the test binary a server of one loop, under the controller that it names, on the socket that socketEnv names: what is
// measured is then a process of its own, as memcached is. NAME+section and NAME+locks have large reads go through a memory section, and
// commands queue for the lock of their item.
//
// With SPILLWAY_BENCH_PROFILE=DIR in the environment, our servers write profiles of the processor there.
const (
	serverEnv  = "SPILLWAY_BENCH_CONTROL"
	socketEnv  = "SPILLWAY_BENCH_LISTEN"
	profileEnv = "SPILLWAY_BENCH_PROFILE"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(serverEnv); name != "" {
		if err := benchServer(name, os.Getenv(socketEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func benchServer(controller, listen string) error {
	controller, inside, _ := strings.Cut(controller, "+")
	var settings map[string]any
	if inside == "section" {
		settings = map[string]any{"section": "try"}
	}
	stack, err := catalog.New(controller, settings, catalog.Env{Cores: 1})
	if err != nil {
		return err
	}
	store := memcached.DefaultConfig()
	store.Memory = 256 << 20
	store.MaxItem, store.LockQueues = 4<<20, inside == "locks"
	backend, err := memcached.New(store)
	if err != nil {
		return err
	}
	config := servers.Default()
	config.Listen, config.Loops, config.MaxItem, config.MaxConns = []string{listen}, 1, store.MaxItem, 20_000
	var served servers.Backend = backend
	if inside != "" {
		served, config.Slots = memcached.Sectioned{Backend: backend}, 1
	}
	s, err := servers.New(served, stack, config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if dir := os.Getenv(profileEnv); dir != "" {
		f, err := os.CreateTemp(dir, "server-*.pprof")
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return s.Serve(ctx)
}

// opponent is a server process with the connections that the benchmark has to it.
type opponent struct {
	port  int
	conns []int // descriptors of blocking sockets
	admin net.Conn
	lines *bufio.Reader
	turns []time.Duration // wall-clock times
	cpu   time.Duration   // of the process, in all turns
}

// startProcess starts a server process and ends it with the benchmark.
func startProcess(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// benchOurs starts our server with one loop and one processor.
func benchOurs(b *testing.B, controller string, conns int) *opponent {
	b.Helper()
	addr := "127.0.0.1:" + strconv.Itoa(freePort(b))
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", serverEnv+"="+controller, socketEnv+"="+addr)
	startProcess(b, cmd)
	return connect(b, addr, conns)
}

// benchTheirs starts Debian's memcached with one thread.
func benchTheirs(b *testing.B, conns int) *opponent {
	b.Helper()
	if _, err := os.Stat(debian); err != nil {
		b.Skipf("not compared with memcached: %v (apt-get install memcached)", err)
	}
	port := strconv.Itoa(freePort(b))
	args := []string{"-l", "127.0.0.1", "-p", port, "-m", "256", "-I", "4m", "-t", "1"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root")
	}
	startProcess(b, exec.Command(debian, args...))
	return connect(b, "127.0.0.1:"+port, conns)
}

func freePort(b *testing.B) int {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func connect(b *testing.B, addr string, conns int) *opponent {
	b.Helper()
	o := &opponent{}
	for end := time.Now().Add(10 * time.Second); ; {
		var err error
		if o.admin, err = net.Dial("tcp", addr); err == nil {
			break
		}
		if time.Now().After(end) {
			b.Fatal(err)
		}
		<-time.After(2 * time.Millisecond)
	}
	b.Cleanup(func() { _ = o.admin.Close() })
	o.port = o.admin.RemoteAddr().(*net.TCPAddr).Port
	o.lines = bufio.NewReader(o.admin)
	for range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		f, err := c.(*net.TCPConn).File() // a blocking descriptor: the client costs as little as it can
		_ = c.Close()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = f.Close() })
		o.conns = append(o.conns, int(f.Fd()))
	}
	return o
}

// stats yields the rows of the server's stats.
func (o *opponent) stats(b *testing.B) iter.Seq2[string, string] {
	b.Helper()
	if _, err := io.WriteString(o.admin, "stats\r\n"); err != nil {
		b.Fatal(err)
	}
	return func(yield func(name, value string) bool) {
		more := true
		for {
			line, err := o.lines.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			words := strings.Fields(line)
			if words[0] == "END" {
				return
			}
			more = more && yield(words[1], words[2])
		}
	}
}

// cpuTime returns the processor time that the server has used.
func (o *opponent) cpuTime(b *testing.B) (t time.Duration) {
	b.Helper()
	for name, value := range o.stats(b) {
		if strings.HasPrefix(name, "rusage_") {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			t += time.Duration(seconds * 1e9)
		}
	}
	return t
}

// round sends one batch on every connection, then reads every reply.
func (o *opponent) round(b *testing.B, batch, reply, buf []byte) {
	for _, fd := range o.conns {
		for rest := batch; len(rest) > 0; {
			n, err := syscall.Write(fd, rest)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
	for _, fd := range o.conns {
		for left := len(reply); left > 0; {
			n, err := syscall.Read(fd, buf[:min(left, len(buf))])
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			left -= n
		}
	}
}

// check sends one batch on every connection and looks at what comes back.
func (o *opponent) check(b *testing.B, batch, reply []byte) {
	b.Helper()
	for _, fd := range o.conns {
		if _, err := syscall.Write(fd, batch); err != nil {
			b.Fatal(err)
		}
		got := make([]byte, len(reply))
		for at := 0; at < len(got); {
			n, err := syscall.Read(fd, got[at:])
			if err != nil || n == 0 {
				b.Fatal(n, err)
			}
			at += n
		}
		if !bytes.Equal(got, reply) {
			b.Fatalf("got %.100q", got)
		}
	}
}

// task is what both sides are asked to do.
type task struct {
	name          string
	setup, stored string // sent once, and what is answered
	send, reply   string
	conns, depth  int
}

func tasks() (list []task) {
	small, large := strings.Repeat("v", 100), strings.Repeat("v", 1<<20)
	for _, depth := range []int{1, 16, 64} {
		list = append(list,
			task{"GET-100B", "set key-0123456789 0 0 100\r\n" + small + "\r\n", "STORED\r\n", "get key-0123456789\r\n", "VALUE key-0123456789 0 100\r\n" + small + "\r\nEND\r\n", 16, depth},
			task{"SET-100B", "", "", "set key-0123456789 0 0 100\r\n" + small + "\r\n", "STORED\r\n", 16, depth})
	}
	return append(list, task{"GET-1MiB", fmt.Sprintf("set large 0 0 %d\r\n%s\r\n", len(large), large), "STORED\r\n", "get large\r\n", fmt.Sprintf("VALUE large 0 %d\r\n%s\r\nEND\r\n", len(large), large), 4, 1})
}

// duel lets two servers do the same, in turns, and reports how much faster the second is.
func duel(b *testing.B, first, second *opponent, t task) {
	batch, reply := []byte(strings.Repeat(t.send, t.depth)), []byte(strings.Repeat(t.reply, t.depth))
	buf := make([]byte, 1<<20)
	both := []*opponent{first, second}
	for _, o := range both {
		if t.setup != "" {
			if _, err := io.WriteString(o.admin, t.setup); err != nil {
				b.Fatal(err)
			}
			if line, err := o.lines.ReadString('\n'); err != nil || line != t.stored {
				b.Fatal(line, err)
			}
		}
		o.check(b, batch, reply)
	}
	// A turn takes some milliseconds: long enough for caches to settle, short enough for whatever else the machine does to meet both.
	turn := max(1, 4000/(t.conns*t.depth))
	if len(t.reply) > 1<<16 {
		turn = 4
	}
	cpu := []time.Duration{first.cpuTime(b), second.cpuTime(b)}
	requests := 0
	for b.Loop() {
		for _, o := range both {
			began := time.Now()
			for range turn {
				o.round(b, batch, reply, buf)
			}
			o.turns = append(o.turns, time.Since(began))
		}
		requests += turn * t.conns * t.depth
	}
	for i, o := range both {
		o.cpu = o.cpuTime(b) - cpu[i]
	}
	n := float64(requests)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(first.median()/float64(turn*t.conns*t.depth), "1st-ns/req")
	b.ReportMetric(second.median()/float64(turn*t.conns*t.depth), "2nd-ns/req")
	b.ReportMetric(float64(first.cpu)/n, "1st-cpu-ns/req")
	b.ReportMetric(float64(second.cpu)/n, "2nd-cpu-ns/req")
	b.ReportMetric(first.median()/second.median(), "x-faster")
	b.ReportMetric(float64(first.cpu)/float64(second.cpu), "x-less-cpu")
}

// median returns the time of the turn in the middle: what else the machine did in the slow ones says nothing about the server.
func (o *opponent) median() float64 {
	slices.Sort(o.turns)
	return float64(o.turns[len(o.turns)/2])
}

// BenchmarkAgainstMemcached compares Debian's memcached (1st) with our server without control (2nd).
func BenchmarkAgainstMemcached(b *testing.B) {
	for _, t := range tasks() {
		b.Run(fmt.Sprintf("%s/depth=%d", t.name, t.depth), func(b *testing.B) {
			duel(b, benchTheirs(b, t.conns), benchOurs(b, "none", t.conns), t)
		})
	}
}

// BenchmarkControl compares our server under codel (1st) with the same without control (2nd): what control costs.
func BenchmarkControl(b *testing.B) {
	for _, t := range tasks() {
		b.Run(fmt.Sprintf("%s/depth=%d", t.name, t.depth), func(b *testing.B) {
			duel(b, benchOurs(b, "codel", t.conns), benchOurs(b, "none", t.conns), t)
		})
	}
}

// BenchmarkSections compares our server with a memory section, or with queues for the locks of items (1st), with the same without (2nd): what
// it costs those who need neither, and large reads that find the section free.
func BenchmarkSections(b *testing.B) {
	for _, inside := range []string{"section", "locks"} {
		for _, t := range tasks() {
			b.Run(fmt.Sprintf("%s/%s/depth=%d", inside, t.name, t.depth), func(b *testing.B) {
				duel(b, benchOurs(b, "none+"+inside, t.conns), benchOurs(b, "none", t.conns), t)
			})
		}
	}
}

// BenchmarkIdleConnections opens ten thousand connections, has each do one get, and says what they take of the server's memory while
// they are idle. What the kernel has for their sockets is not in it.
func BenchmarkIdleConnections(b *testing.B) {
	const count = 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	if limit.Max < count+500 {
		b.Skipf("needs %d open files, may have %d (ulimit -Hn)", count+500, limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		o := benchOurs(b, "none", 1)
		before := o.resident(b)
		for range count {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = syscall.Close(fd) })
			if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: o.port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
				b.Fatal(err)
			}
			o.conns = append(o.conns, fd)
		}
		o.check(b, []byte("get none\r\n"), []byte("END\r\n"))
		b.ReportMetric(float64(o.resident(b)-before)/count, "RSS-B/conn")
	}
}

// resident returns the memory that the server has of the computer's.
func (o *opponent) resident(b *testing.B) (bytes int64) {
	b.Helper()
	pid := 0
	for name, value := range o.stats(b) {
		if name == "pid" {
			pid, _ = strconv.Atoi(value)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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
