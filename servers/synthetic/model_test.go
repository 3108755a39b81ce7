//go:build linux

package synthetic_test

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/internal/target"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/servertest"
	"spillway/servers/synthetic"
	"spillway/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves backend on a free port until the test ends, and returns its address and what stops it and returns what Serve returned.
func serve(t testing.TB, backend servers.Backend, c control.Controller, change func(*servers.Config)) (addr string, stop func() error) {
	t.Helper()
	return servertest.Serve(t, backend, control.Stack{Controller: c}, change)
}

// modelled serves synthetic requests on a modelled machine.
func modelled(t testing.TB, spec machine.Spec, scale int, c control.Controller) (addr string, stop func() error) {
	t.Helper()
	return serve(t, synthetic.New(), c, func(config *servers.Config) {
		config.Model = &servers.Model{Machine: spec, Scale: scale, Costs: synthetic.Costs{Bus: spec.Bus.Total > 0}}
	})
}

// experiment is load on a modelled server.
type experiment struct {
	spec     machine.Spec
	scale    int
	control  control.Controller
	work     []workloads.SyntheticStep
	arrivals arrival.Process
	clients  int
	conns    int
	window   time.Duration
	timeout  time.Duration
	drain    time.Duration
	prompt   bool // see target.Model
}

// run returns what was measured and the records of all requests by their number.
func (e experiment) run(t *testing.T) (drive.Result, []reqlog.Record) {
	t.Helper()
	if e.control == nil {
		e.control = control.None{}
	}
	if e.timeout == 0 {
		e.timeout = time.Second
	}
	addr, stop := modelled(t, e.spec, e.scale, e.control)
	w, err := workloads.NewSynthetic([]workloads.SyntheticClass{{Name: "all", Share: 1, Work: e.work}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := load.NewGenerator(load.Config{Seed: 1, Clients: e.clients, Workload: w, Arrivals: e.arrivals, End: clock.Instant(e.window)})
	if err != nil {
		t.Fatal(err)
	}
	stretched, err := clock.NewStretched(e.scale)
	if err != nil {
		t.Fatal(err)
	}
	var records []reqlog.Record
	r, err := drive.Run(t.Context(), drive.Plan{
		Generator: g, Classes: []load.Class{{Name: "all"}}, Clock: stretched, Dial: 10 * time.Second,
		Window: e.window, Drain: max(e.drain, time.Millisecond), Pace: drive.PaceSleep,
		Open: func(ctx context.Context, o drive.Opening) (load.Target, error) {
			return target.Memcached(ctx, target.Config{
				Addr: "memcached://" + addr, Conns: e.conns, Clock: o.Clock, Timeout: e.timeout, Spin: o.Spin,
				Model: &target.Model{Network: e.spec.Network, Prompt: e.prompt},
				Settle: func(rec *reqlog.Record) {
					records = append(records, *rec)
					o.Settle(rec)
				},
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	slices.SortFunc(records, func(a, b reqlog.Record) int { return int(a.Seq) - int(b.Seq) })
	return r, records
}

// compute is a step that takes d every time.
func compute(d string) workloads.SyntheticStep {
	amount, err := dist.Parse(d, dist.Nanoseconds)
	if err != nil {
		panic(err)
	}
	return workloads.SyntheticStep{Kind: machine.Compute, Amount: amount}
}

// A modelled network this slow gives messages ten milliseconds of the wall clock at scale 100, which is enough on a busy computer.
const slowNetwork = 100 * time.Microsecond

// TestConstantLoadIsExact: evenly spaced requests that find an idle core take their service time and twice the network, to the nanosecond,
// whatever this computer's sockets and scheduler do.
func TestConstantLoadIsExact(t *testing.T) {
	process := arrival.NewConstant(10_000, 0)
	r, records := experiment{
		spec: machine.Spec{Cores: 1, Network: slowNetwork}, scale: 100, work: []workloads.SyntheticStep{compute("50.123us")},
		arrivals: process, clients: 7, conns: 3, window: 8 * time.Millisecond,
	}.run(t)
	if len(records) != 80 {
		t.Errorf("%d requests, want 80", len(records))
	}
	const want = 50123*time.Nanosecond + 2*slowNetwork
	if r.Counters.Disturbed > 0 {
		t.Skipf("this computer was too busy: %+v", r.Counters)
	}
	for _, rec := range records {
		if rec.Fate != reqlog.OK || rec.Latency() != want || rec.Queued != 0 || rec.Service != 50123 {
			t.Fatalf("request %d: %v after %v, want %v; queued %v, served for %v", rec.Seq, rec.Fate, rec.Latency(), want, rec.Queued, rec.Service)
		}
	}
	if !r.Valid() {
		t.Errorf("invalid: %v", r.Invalid)
	}
}

// TestQueueIsExact: at a single core every latency follows from the arrivals by Lindley's recursion.
func TestQueueIsExact(t *testing.T) {
	process := arrival.NewPoisson(18_000, 0)
	r, records := experiment{
		spec: machine.Spec{Cores: 1, Network: slowNetwork}, scale: 100, work: []workloads.SyntheticStep{compute("50us")},
		arrivals: process, clients: 20, conns: 4, window: 10 * time.Millisecond, drain: 10 * time.Millisecond,
	}.run(t)
	if r.Counters.Disturbed > 0 {
		t.Skipf("this computer was too busy: %+v", r.Counters)
	}
	if len(records) < 100 {
		t.Errorf("%d requests", len(records))
	}
	free := clock.Instant(math.MinInt64)
	for _, rec := range records {
		arrived := rec.Intended.Add(slowNetwork)
		began := max(arrived, free)
		free = began.Add(50 * time.Microsecond)
		if want := free.Add(slowNetwork); rec.Done != want || rec.Queued != began.Sub(arrived) || rec.Service != 50*time.Microsecond {
			t.Fatalf("request %d: done %v after its arrival, want %v; queued %v, want %v", rec.Seq, rec.Latency(), want.Sub(rec.Intended), rec.Queued,
				began.Sub(arrived))
		}
	}
	if !r.Valid() {
		t.Errorf("invalid: %v", r.Invalid)
	}
}

// TestScaleTooSmall: five microseconds are too few for a real loopback, so without any stretching of time, and with a client that waits for
// its replies, the run is not valid, and the result says what scale would have done.
func TestScaleTooSmall(t *testing.T) {
	process := arrival.NewPoisson(50_000, 0)
	r, _ := experiment{
		spec: machine.Spec{Cores: 2, Network: machine.DefaultNetwork}, scale: 1, work: []workloads.SyntheticStep{compute("20us")},
		arrivals: process, clients: 20, conns: 4, window: 200 * time.Millisecond, drain: 200 * time.Millisecond, prompt: true,
	}.run(t)
	if !slices.Contains(r.Invalid, drive.WarnScale) || r.SmallestScale < 2 || r.Counters.Disturbed == 0 || r.Counters.LateMax < 5*time.Microsecond {
		t.Errorf("invalid %v, smallest scale %d, %+v", r.Invalid, r.SmallestScale, r.Counters)
	}
}

// TestTimeoutsAreComputed: a client gives up at its deadline, not when it next looks at the clock.
func TestTimeoutsAreComputed(t *testing.T) {
	process := arrival.NewConstant(10_000, 0)
	r, records := experiment{
		spec: machine.Spec{Cores: 1, Network: slowNetwork}, scale: 100, work: []workloads.SyntheticStep{compute("200us")},
		arrivals: process, clients: 4, conns: 2, window: 4 * time.Millisecond, drain: 10 * time.Millisecond, timeout: time.Millisecond,
	}.run(t)
	if r.Counters.Disturbed > 0 {
		t.Skipf("this computer was too busy: %+v", r.Counters)
	}
	// Request k waits for k times the 100 µs by which the server falls behind, and takes 200 µs and the network.
	for i, rec := range records {
		fate, latency := reqlog.OK, time.Duration(i)*100*time.Microsecond+400*time.Microsecond
		if latency > time.Millisecond {
			fate, latency = reqlog.TimedOut, time.Millisecond
		}
		if rec.Fate != fate || rec.Latency() != latency {
			t.Errorf("request %d: %v after %v, want %v after %v", i, rec.Fate, rec.Latency(), fate, latency)
		}
	}
	if len(records) != 40 {
		t.Errorf("%d requests, want 40", len(records))
	}
}

// TestServerDiesWithItsMemory: beyond the machine's RAM the server is dead, and its clients notice.
func TestServerDiesWithItsMemory(t *testing.T) {
	addr, stop := modelled(t, machine.Spec{Cores: 1, Network: time.Microsecond, RAM: 1000}, 10, control.None{})
	c := servertest.Dial(t, addr)
	c.Do("mg m600 v\r\n", "VA 0\r\n\r\n") // given back at its end
	c.Do("mg m600,d1us v\r\n", "VA 0\r\n\r\n")
	c.Send("mg m600,d1s v\r\nmg m600 v\r\n")
	c.Closed()
	if err := stop(); err == nil || !strings.Contains(err.Error(), "ran out of memory") || !strings.Contains(err.Error(), "1000 bytes") {
		t.Errorf("it ended with %v", err)
	}
}

// TestAnyClient: requests without an instant of sending count as sent now, and are answered in their order.
func TestAnyClient(t *testing.T) {
	addr, stop := modelled(t, machine.Spec{Cores: 4, Network: time.Microsecond, Bus: machine.Bus{Total: 4e9, PerCore: 1e9}}, 10, control.None{})
	c := servertest.Dial(t, addr)
	c.Do("mg c1ms O1\r\nmg c1us O2\r\nget c1us,s100,l3:1us,d1us,e0,x0#x\r\nset c1us 0 0 2\r\nab\r\ndelete c1us\r\nmg bad O3\r\nmg c1us O4 k\r\n",
		"HD O1\r\nHD O2\r\nVALUE c1us,s100,l3:1us,d1us,e0,x0#x 0 0\r\n\r\nEND\r\nSTORED\r\nDELETED\r\n")
	if line := c.Line(); !strings.HasPrefix(line, `CLIENT_ERROR step "bad": a step begins with`) {
		t.Errorf("to a bad key: %q", line)
	}
	c.Do("", "HD O4 kc1us\r\n")
	stats := c.Stats("spillway")
	if stats["model_scale"] != "10" || stats["model_cores"] != "4" || stats["model_bytes_moved"] != "100" || stats["finished"] != "6" {
		t.Errorf("%v", stats)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestTimedRequestsPassEachOther: a reply of this ground leaves when it is due and says what it answers, so a slow request before it on the
// same connection does not hold it up. An error, which cannot say that, comes in its turn.
func TestTimedRequestsPassEachOther(t *testing.T) {
	addr, _ := modelled(t, machine.Spec{Cores: 4, Network: 0}, 10, control.None{})
	c := servertest.Dial(t, addr)
	c.Send("mg d20ms L1 O1\r\nmg d1us L1 O2\r\nmg bad L1 O3\r\nmg d2us L1 O4 P7\r\n")
	for _, want := range []string{"HD L0.000,1.000,* O2", "HD L0.000,2.000,* O4", "HD L0.000,20000.000,* O1", "CLIENT_ERROR*"} {
		line := c.Line()
		head, tail, _ := strings.Cut(want, "*")
		if !strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) {
			t.Errorf("got %q, want %q", line, want)
		}
	}
	stats := c.Stats("spillway")
	if stats["model_held"] != "0" || stats["in_service"] != "0" {
		t.Errorf("%v", stats)
	}
}

// TestLocksAreFIFO: requests get a lock in the order of their arrival, and wait for it without a core.
func TestLocksAreFIFO(t *testing.T) {
	addr, _ := modelled(t, machine.Spec{Cores: 2, Network: 0}, 10, control.None{})
	c := servertest.Dial(t, addr)
	// They come in one packet, so at one instant. The second and third find the lock taken and leave their core to the fourth.
	c.Send("mg l0:10us L1 O1\r\nmg l0:10us,c1us L1 O2\r\nmg l0:10us L1 O3\r\nmg c5us L1 O4\r\n")
	for _, want := range []string{"HD L0.000,5.000,* O4", "HD L0.000,10.000,* O1", "HD L0.000,21.000,* O2", "HD L0.000,30.000,* O3"} {
		line := c.Line()
		if head, tail, _ := strings.Cut(want, "*"); !strings.HasPrefix(line, head) || !strings.HasSuffix(line, tail) {
			t.Errorf("got %q, want %q", line, want)
		}
	}
}

// TestOtherGround: a client of the model ground does not begin with a server that is not on it, or in another time.
func TestOtherGround(t *testing.T) {
	t.Parallel()
	real, _ := host(t, 1)
	slow, _ := modelled(t, machine.Spec{Cores: 1}, 7, control.None{})
	stretched, err := clock.NewStretched(10)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		real: "runs on no modelled machine; start it with --machine and --time-scale 10",
		slow: "runs on a modelled machine with --time-scale 7; start it with --machine and --time-scale 10",
	} {
		_, err := target.Memcached(t.Context(), target.Config{
			Addr: "memcached://" + addr, Conns: 1, Clock: stretched, Timeout: time.Second, Settle: func(*reqlog.Record) {}, Model: &target.Model{},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something about %q", err, want)
		}
	}
}

// TestModelledRequestsAllocateNothing counts all allocations of the process while requests go through sockets, gate and machine.
func TestModelledRequestsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	addr, _ := modelled(t, machine.Spec{Cores: 2, Bus: machine.Bus{Total: 2e9, PerCore: 1e9}}, 1, control.None{})
	c := servertest.Dial(t, addr)
	const reply = "HD L0.000,2.640,"
	requests, gets := []byte(strings.Repeat("mg c1us,s640,l0:1us#x L1 O1\r\n", 16)), 0
	round := func() {
		if _, err := c.Write(requests); err != nil {
			t.Fatal(err)
		}
		for range 16 {
			line, err := c.In.ReadSlice('\n')
			if err != nil || !bytes.HasPrefix(line, []byte("HD L")) {
				t.Fatalf("got %q, %v, want something like %q", line, err, reply)
			}
			gets++
		}
	}
	for range 100 {
		round()
	}
	gets = 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		round()
	}
	runtime.ReadMemStats(&after)
	if each := float64(after.Mallocs-before.Mallocs) / float64(gets); each > 0.05 {
		t.Errorf("%.3f allocations a request, want none", each)
	}
}
