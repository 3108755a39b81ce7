//go:build linux

package servers_test

import (
	"fmt"
	"io"
	"iter"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/memcached"
)

// bank is an Issuer that gives a client credits when its test says so.
type bank struct {
	control.None
	mu        sync.Mutex // a test looks at it while it works
	demand    map[uint32]int
	credits   map[uint32]int
	news      []uint32 // who is to be told
	forgotten map[uint32]int
	priority  []uint16
}

func newBank() *bank {
	return &bank{demand: map[uint32]int{}, credits: map[uint32]int{}, forgotten: map[uint32]int{}}
}

func (b *bank) give(client uint32, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credits[client] += n
	b.news = append(b.news, client)
}

func (b *bank) Demand(_ clock.Instant, client uint32, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.demand[client] = n
}

func (b *bank) Credits(_ clock.Instant, client uint32) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.credits[client]
}

func (b *bank) Wake(_ clock.Instant, out []control.Action) []control.Action {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, client := range b.news {
		out = append(out, control.Action{Kind: control.Credit, Credits: int32(b.credits[client]), Request: control.Request{Client: client}})
	}
	b.news = b.news[:0]
	return out
}

func (b *bank) Forget(_ clock.Instant, client uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.demand, client)
	delete(b.credits, client)
	b.forgotten[client]++
}

func (b *bank) Decide(_ clock.Instant, s control.Stage, r *control.Request) control.Decision {
	if s == control.AtArrival {
		b.mu.Lock()
		b.priority = append(b.priority, r.Priority)
		b.mu.Unlock()
	}
	return control.Decision{}
}

func (b *bank) Tick(now clock.Instant, _ control.Signals) clock.Instant {
	return now.Add(time.Millisecond)
}

// Meters shows how many clients are known and have been forgotten, so that a test can wait for it.
func (b *bank) Meters() iter.Seq2[string, float64] {
	b.mu.Lock()
	known, gone := len(b.demand), len(b.forgotten)
	b.mu.Unlock()
	return func(yield func(string, float64) bool) {
		_ = yield("known", float64(known)) && yield("forgotten", float64(gone))
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	b := newBank()
	c := start(t, b, nil).dial(t)
	c.do("mg a P4.300\r\nmg a P.7\r\nmg a\r\nget a\r\n", "EN P0\r\nEN\r\nEN\r\nEND\r\n")
	own := control.PriorityOf(0, 1) // of the first connection
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, want := fmt.Sprint(b.priority), fmt.Sprint([]uint16{300, 7, own, own}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestQuestionsAreHeld: mn P<demand> is answered when there are credits, and not before.
func TestQuestionsAreHeld(t *testing.T) {
	t.Parallel()
	b := newBank()
	f := start(t, b, func(c *servers.Config, _ *memcached.Config) { c.Loops = 3 })
	c, watcher := f.dial(t), f.dial(t)
	c.send("mn P4.5\r\n")
	watcher.await("spillway", "meter_known", 1)
	var client uint32
	var demand int
	b.mu.Lock()
	for client, demand = range b.demand {
	}
	b.mu.Unlock()
	b.give(client, 3)
	c.expect("MN P3\r\n")
	if demand != 4 {
		t.Errorf("the demand of client %d is %d, want 4", client, demand)
	}
	c.do("mn P2\r\n", "MN P3\r\n")         // it has some already
	c.do("mg a P1 O1\r\n", "EN P3 O1\r\n") // and a reply says so as well
	b.give(client, 1)                      // nobody has asked: the next reply tells
	c.do("mg a P0\r\n", "EN P4\r\n")
	watcher.do("mg a\r\n", "EN\r\n")
}

// TestNobodyWaitsBehindAQuestion: whatever else a connection says, or if it says nothing more, its open question is answered first, with
// what there is.
func TestNobodyWaitsBehindAQuestion(t *testing.T) {
	t.Parallel()
	f := start(t, newBank(), nil)
	const none = "MN P0\r\n"
	c := f.dial(t)
	c.do("mn P1\r\nmn P2\r\nmg a P1 O1\r\n", none+none+"EN P0 O1\r\n")
	c.do("mn P1\r\nmn\r\n", none+"MN\r\n")
	c.do("mn P1\r\nbogus\r\n", none+"ERROR\r\n")
	c.do("mn P1\r\nset a 0 0 3\r\nabc\r\nmn P1\r\nget a\r\n", none+"STORED\r\n"+none+"VALUE a 0 3\r\nabc\r\nEND\r\n")
	c.do("mn P1\r\nversion\r\nmn P1\r\nversion\r\n", none+"VERSION 1.6.18-spillway\r\n"+none+"VERSION 1.6.18-spillway\r\n")
	// In packets of their own, each of them: the question is known to be held.
	watcher := f.dial(t)
	for _, tc := range [][2]string{{"mg a q\r\nmn\r\n", "MN\r\n"}, {"get b\r\n", "END\r\n"}, {"bogus\r\n", "ERROR\r\n"}, {"mn P7\r\nmn\r\n", none + "MN\r\n"}} {
		asker := f.dial(t)
		known := watcher.number("spillway", "meter_known")
		asker.send("mn P1\r\n")
		watcher.await("spillway", "meter_known", known+1)
		if tc[0] == "mg a q\r\nmn\r\n" {
			asker.do(tc[0], none+"HD\r\nMN\r\n")
			continue
		}
		asker.do(tc[0], none+tc[1])
	}
	last := f.dial(t)
	last.send("mn P1\r\n")
	if err := last.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	last.expectEnd(none)
	// A shutdown is no reason to keep anybody waiting either.
	open := f.dial(t)
	open.send("mn P1\r\n")
	known := watcher.number("spillway", "meter_known")
	for began := time.Now(); time.Since(began) < time.Second && known == 0; {
		known = watcher.number("spillway", "meter_known")
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(open.in); err != nil || string(got) != none && string(got) != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestGoneClientsAreForgotten: a connection that closes takes its question and its credits with it.
func TestGoneClientsAreForgotten(t *testing.T) {
	t.Parallel()
	b := newBank()
	f := start(t, b, nil)
	watcher := f.dial(t)
	watcher.do("mn\r\n", "MN\r\n")
	const clients = 20
	for range clients {
		c := f.dial(t)
		c.send("mn P1\r\n")
		watcher.await("spillway", "meter_known", 1)
		_ = c.Close()
		watcher.await("spillway", "meter_known", 0)
	}
	watcher.await("spillway", "meter_forgotten", clients)
	b.give(5, 3) // one that is not there any more
	watcher.do("mg a P1\r\n", "EN P0\r\n")
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	for client, n := range b.forgotten {
		if n != 1 {
			t.Errorf("client %d was forgotten %d times", client, n)
		}
	}
}

// TestWhereNobodyHandsOutCredits: there a question is any mn.
func TestWhereNobodyHandsOutCredits(t *testing.T) {
	t.Parallel()
	c := start(t, control.None{}, nil).dial(t)
	c.do("mn P4\r\nmn P4.5 L\r\nmg a P4 O1\r\n", "MN\r\nMN\r\nEN O1\r\n")
}

// TestQuestionsInParallel: questions, answers, requests and hang-ups of many connections at once.
func TestQuestionsInParallel(t *testing.T) {
	t.Parallel()
	b := newBank()
	f := start(t, b, func(c *servers.Config, _ *memcached.Config) { c.Loops = 4 })
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for round := range 20 {
				c := f.dial(t)
				c.send("mn P1\r\n")
				switch (i + round) % 3 {
				case 0:
					_ = c.Close()
				case 1:
					c.send("mg a P1 O1\r\n")
					for range 2 {
						if line, err := c.in.ReadString('\n'); err != nil || !strings.Contains(line, " P") {
							t.Errorf("got %q, %v", line, err)
						}
					}
				default:
					for client := range uint32(250) {
						b.give(client, 1)
					}
					if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "MN P") {
						t.Errorf("got %q, %v", line, err)
					}
				}
			}
		})
	}
	all.Wait()
}

// steps is what a command of these tests costs on a modelled machine.
type steps struct{}

func (steps) Steps(dst []machine.Step, _ *memproto.Command) ([]machine.Step, error) {
	return append(dst, machine.Step{Kind: machine.Compute, Duration: time.Microsecond}), nil
}

// TestQuestionsOnAModelledMachine: a question that says when it was sent is answered at a computed instant, and its answer waits for nobody.
// One that does not is answered at once. Whoever goes is forgotten.
func TestQuestionsOnAModelledMachine(t *testing.T) {
	t.Parallel()
	b := newBank()
	f := start(t, b, func(c *servers.Config, _ *memcached.Config) {
		c.Model = &servers.Model{Machine: machine.Spec{Cores: 1, Network: time.Microsecond}, Scale: 10, Costs: steps{}}
	})
	c := f.dial(t)
	c.do("mn P4\r\nmn\r\n", "MN P0\r\nMN\r\n")
	c.send("mn P4 L1\r\nmg a L1 O7\r\n")
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "EN L0.000,1.000,") {
		t.Fatalf("got %q, %v", line, err)
	}
	b.give(1, 2) // the next tick is at a whole millisecond
	line, err = c.in.ReadString('\n')
	var credits int
	var leaves int64
	var held float64
	if n, _ := fmt.Sscanf(line, "MN P%d L%f,0.000,%d", &credits, &held, &leaves); err != nil || n != 3 || credits != 2 || held <= 0 {
		t.Fatalf("got %q, %v", line, err)
	}
	watcher := f.dial(t)
	if now := int64(watcher.number("spillway", "model_now_ns")); leaves > now || now-leaves > int64(time.Minute) {
		t.Errorf("it left at %d, the machine has come to %d", leaves, now)
	}
	open := f.dial(t)
	open.send("mn P9 L1\r\n")
	watcher.await("spillway", "meter_known", 2)
	_, _ = c.Close(), open.Close()
	watcher.await("spillway", "meter_forgotten", 2)
	none := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) {
		c.Model = &servers.Model{Machine: machine.Spec{Cores: 1, Network: time.Microsecond}, Scale: 10, Costs: steps{}}
	}).dial(t)
	none.send("mn P4 L1\r\n")
	if line, err := none.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "MN L0.000,0.000,") {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestNobodyWaitsBehindAHeldQuestion: on a modelled machine a question is not recalled, and what has to be answered in order goes past it.
func TestNobodyWaitsBehindAHeldQuestion(t *testing.T) {
	t.Parallel()
	b := newBank()
	f := start(t, b, func(c *servers.Config, _ *memcached.Config) {
		c.Model = &servers.Model{Machine: machine.Spec{Cores: 1, Network: time.Microsecond}, Scale: 10, Costs: steps{}}
	})
	c, watcher := f.dial(t), f.dial(t)
	c.do("mn P4 L1\r\nmg a\r\nset a 0 0 1\r\nb\r\nbogus\r\nget a\r\n", "EN\r\nSTORED\r\nERROR\r\nVALUE a 0 1\r\nb\r\nEND\r\n")
	b.give(1, 2)
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "MN P2 L") {
		t.Errorf("got %q, %v", line, err)
	}
	// Whoever says nothing more is told what is due, and does not wait for the rest.
	c.send("mn P4 L1\r\nmg a v\r\n")
	if line, err := c.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "MN P2 L") { // it has some
		t.Errorf("got %q, %v", line, err)
	}
	c.expect("VA 1\r\nb\r\n")
	last := f.dial(t)
	last.send("mn P4 L1\r\nmg a v\r\n")
	if err := last.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	last.expectEnd("VA 1\r\nb\r\n")
	watcher.await("spillway", "meter_forgotten", 1)
}

// TestQuestionsDoNotKeepConnections: where connections without traffic are closed, one whose client has asked and gone silent is too. One whose
// client still answers is kept.
func TestQuestionsDoNotKeepConnections(t *testing.T) {
	t.Parallel()
	f := start(t, newBank(), func(c *servers.Config, _ *memcached.Config) { c.IdleTimeout = 200 * time.Millisecond })
	silent, alive := f.dial(t), f.dial(t)
	alive.send("mn P1\r\n")
	silent.send("mn P1\r\n")
	alive.expect("MN P0\r\n")
	alive.do("mn P1\r\n", "MN P0\r\n") // after another while
	silent.expectEnd("MN P0\r\n")
	alive.do("mg a\r\n", "EN\r\n")
}

// TestQuestionsOverUnixSockets: there, too, an open question ends with its connection, and is answered when its client says no more.
func TestQuestionsOverUnixSockets(t *testing.T) {
	t.Parallel()
	b := newBank()
	path := "unix://" + filepath.Join(t.TempDir(), "s")
	f := start(t, b, func(c *servers.Config, _ *memcached.Config) { c.Listen = []string{path} })
	watcher := f.dial(t)
	half := f.dial(t)
	half.send("mg a\r\nmn P1\r\n")
	if err := half.Conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	half.expectEnd("EN\r\nMN P0\r\n")
	watcher.await("spillway", "meter_forgotten", 2-1)
	gone := f.dial(t)
	gone.send("mn P1\r\n")
	watcher.await("spillway", "meter_known", 1)
	_ = gone.Close()
	watcher.await("spillway", "meter_known", 0)
}

// TestAFloodOfQuestions: thousands in one packet are answered one by one, cost a bounded amount of memory, and the demand that they claim is not
// believed beyond reason.
func TestAFloodOfQuestions(t *testing.T) {
	t.Parallel()
	b := newBank()
	f := start(t, b, func(c *servers.Config, _ *memcached.Config) { c.Pipeline = 64 })
	c := f.dial(t)
	const all = 20_000
	go func() { _, _ = io.WriteString(c, strings.Repeat("mn P4294967295\r\n", all)+"mn\r\n") }()
	for i := range all {
		if line, err := c.in.ReadString('\n'); err != nil || line != "MN P0\r\n" {
			t.Fatalf("answer %d: %q, %v", i, line, err)
		}
	}
	c.expect("MN\r\n")
	c.send("mn P99999999999999999999\r\nmn P-1\r\nmn P4.70000\r\nmn P4.\r\nmn P.5\r\nmn P1.2.3\r\n") // no demands, so no questions
	c.expect(strings.Repeat("MN\r\n", 6))
	b.mu.Lock()
	defer b.mu.Unlock()
	for client, demand := range b.demand {
		if demand != 1<<30 {
			t.Errorf("client %d would like to send %d", client, demand)
		}
	}
}
