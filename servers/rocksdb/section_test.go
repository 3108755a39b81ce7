//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spillway/clock"
	"spillway/control"
	"spillway/servers"
	"spillway/servers/servertest"
)

// room is a section of so many places. Its server serialises the calls.
type room struct {
	places, inside, most int
	waiting              *control.Parked
}

func newRoom(places int) *room { return &room{places: places, waiting: control.NewParked()} }

func (r *room) Enter(now clock.Instant, q *control.Request, m control.Mode) control.Decision {
	switch {
	case r.inside < r.places:
		r.inside++
		r.most = max(r.most, r.inside)
		return control.Decision{Verdict: control.Admit}
	case m == control.Try:
		return control.Decision{Verdict: control.Reject, Reason: control.Memory}
	}
	r.waiting.Push(now, q)
	return control.Decision{Verdict: control.Wait}
}

func (r *room) Leave(now clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	if r.waiting.Len() == 0 {
		r.inside--
		return out
	}
	return append(out, control.Action{Kind: control.Resume, Request: r.waiting.Pop(now)})
}

func (r *room) Withdraw(_ clock.Instant, id uint64, out []control.Action) (bool, []control.Action) {
	return r.waiting.Withdraw(id), out
}

// signals is a controller that keeps what it is told.
type signals struct {
	control.None
	bytes atomic.Uint64
}

func (s *signals) Tick(now clock.Instant, g control.Signals) clock.Instant {
	s.bytes.Store(g.MemBytes)
	return now
}

// gate has workers wait at the end of their tasks.
type gate struct {
	mu   sync.Mutex
	open sync.Cond
	shut bool
	at   int
}

func newGate(b *Backend) *gate {
	g := &gate{}
	g.open.L = &g.mu
	during := func(*task) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.at++
		for g.shut {
			g.open.Wait()
		}
		g.at--
	}
	b.during.Store(&during)
	return g
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	g.open.Broadcast()
}

func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at
}

var large = strings.Repeat("0123456789", 20_000)

// TestLargeReadsEnterTheSection: reads of large values go through the memory section, of whatever form they are, and nothing else does. Who
// finds it full is dropped in the mode Try, and the next one finds it empty again.
func TestLargeReadsEnterTheSection(t *testing.T) {
	t.Parallel()
	r, told := newRoom(1), &signals{}
	config := testConfig(t)
	b, addr, stop := serve(t, config, control.Stack{Controller: told, Memory: r, Mode: control.Try}, nil)
	g := newGate(b)
	c, other := servertest.Dial(t, addr), servertest.Dial(t, addr)
	set(c, "large", large)
	set(c, "small", "x")
	set(c, "almost", large[:99_999])
	before := b.BytesMoved()
	g.set(true)
	c.Send("get large\r\n")
	other.Await("spillway", "in_service", 1)
	const dropped = "SERVER_ERROR overloaded memory\r\n"
	other.Do("get large\r\nmg large v O7\r\nget small large\r\nget small\r\n", dropped+dropped+dropped+valueReply("small", "x"))
	g.set(false)
	c.Want("get large", valueReply("large", large))
	other.Do("mg large v\r\nget almost\r\n", "VA 200000\r\n"+large+"\r\n"+valueReply("almost", large[:99_999]))
	other.Do("get small large\r\n", "VALUE small 0 1\r\nx\r\nVALUE large 0 200000\r\n"+large+"\r\nEND\r\n")
	if moved := b.BytesMoved() - before; moved != 3*200_000+99_999+2 {
		t.Errorf("%d bytes were moved", moved)
	}
	if s := other.Stats("spillway"); s["shed_memory"] != "3" || s["accounted_bytes"] != fmt.Sprint(b.BytesMoved()) {
		t.Errorf("%v", s)
	}
	set(other, "large", "small now")
	g.set(true)
	c.Send("get large\r\n") // in no section any more, and in memory
	c.Want("get large", valueReply("large", "small now"))
	g.set(false)
	stop()
	if r.inside != 0 || r.most != 1 {
		t.Errorf("%d are still inside, there were %d", r.inside, r.most)
	}
	if told.bytes.Load() == 0 {
		t.Error("the controller was told of nothing that moved")
	}
}

// TestWaitingForTheSection: those that wait have their turn one after the other, and who goes away meanwhile leaves nothing behind.
func TestWaitingForTheSection(t *testing.T) {
	t.Parallel()
	r := newRoom(1)
	b, addr, stop := serve(t, testConfig(t), control.Stack{Memory: r, Mode: control.WaitMode}, func(c *servers.Config) { c.Slots = 16 })
	g := newGate(b)
	writer := servertest.Dial(t, addr)
	set(writer, "large", large)
	g.set(true)
	var all []*servertest.Client
	for i := range 6 {
		c := servertest.Dial(t, addr)
		c.Send("get large\r\nmg large v\r\n")
		all = append(all, c)
		writer.Await("spillway", "in_service", 2*(i+1))
	}
	all[0].Abort()                            // being served
	all[3].Abort()                            // waiting
	writer.Await("spillway", "in_service", 9) // of the first client the one that is being served is left
	g.set(false)
	for _, i := range []int{1, 2, 4, 5} {
		all[i].Want("get large", valueReply("large", large)+"VA 200000\r\n"+large+"\r\n")
	}
	writer.Await("spillway", "in_service", 0)
	stop()
	if r.inside != 0 || r.most != 1 || r.waiting.Len() != 0 {
		t.Errorf("%d are inside, %d wait, %d were inside at once", r.inside, r.waiting.Len(), r.most)
	}
}

// TestStoreDoesNotBlockTheLoops: while all workers are busy for as long as it takes, connections are accepted, and what is in memory is read.
func TestStoreDoesNotBlockTheLoops(t *testing.T) {
	t.Parallel()
	b, addr, _ := serve(t, testConfig(t), control.Stack{}, func(c *servers.Config) { c.Loops, c.Slots = 1, 8 })
	g := newGate(b)
	c := servertest.Dial(t, addr)
	set(c, "large", large)
	set(c, "small", "x")
	g.set(true)
	c.Send("get large\r\nget large\r\nget large\r\n")
	for g.waiting() < 2 {
		servertest.Dial(t, addr).Do("get small\r\n", valueReply("small", "x"))
	}
	servertest.Dial(t, addr).Do("get small\r\nget none\r\nmn\r\n", valueReply("small", "x")+"END\r\nMN\r\n")
	g.set(false)
	c.Want("get large", strings.Repeat(valueReply("large", large), 3))
}

// TestPinsAreGivenBackOnce: clients that read slowly, go away at any moment, ask for what is dropped, and workers that panic: in the end nothing
// is pinned and no slot is taken. The stop of the server checks the former.
func TestPinsAreGivenBackOnce(t *testing.T) {
	t.Parallel()
	for _, mmap := range []bool{false, true} {
		r := newRoom(2)
		config := testConfig(t)
		config.MmapReads = mmap
		b, addr, _ := serve(t, config, control.Stack{Memory: r, Mode: control.Try}, nil)
		var tasks atomic.Uint64
		panics := func(t *task) {
			if t.kind == kindRead && tasks.Add(1)%7 == 0 {
				panic("planned by the test")
			}
		}
		b.during.Store(&panics)
		writer := servertest.Dial(t, addr)
		set(writer, "large", large)
		set(writer, "middle", large[:50_000])
		var clients sync.WaitGroup
		for i := range 24 {
			clients.Go(func() {
				c := servertest.Dial(t, addr)
				const ask = "get large\r\nget middle large\r\nmg middle v\r\nmg large v\r\n"
				if _, err := io.WriteString(c, strings.Repeat(ask, 10)+"mn\r\n"); err != nil {
					t.Error(err)
				}
				switch i % 4 {
				case 0:
					c.Abort()
				case 1:
					if _, err := io.CopyN(io.Discard, c, 300_000); err != nil {
						t.Error(err)
					}
					c.Abort()
				default:
					if !awaitLine(c.In, "MN") {
						t.Error("the last reply did not come")
					}
				}
			})
		}
		for i := range 50 { // versions of what is being sent change
			set(writer, "middle", strings.Repeat(string(rune('a'+i%26)), 50_000))
		}
		clients.Wait()
		writer.Await("spillway", "in_service", 0)
		if got := writer.Stats(""); got["panics"] == "0" || got["values_pinned"] != "0" {
			t.Errorf("panics %s, pinned %s", got["panics"], got["values_pinned"])
		}
	}
}

// awaitLine reads up to a line.
func awaitLine(in *bufio.Reader, want string) bool {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.TrimRight(line, "\r\n") == want {
			return true
		}
	}
}

// TestDropsLeaveNothingBehind: memory does not grow over a million drops, neither Go's nor that of the store, and all are counted.
func TestDropsLeaveNothingBehind(t *testing.T) {
	drops := 1_000_000
	if testing.Short() || raceEnabled {
		drops = 60_000
	}
	b, addr, _ := serve(t, testConfig(t), control.Stack{Memory: newRoom(0), Mode: control.Try}, func(c *servers.Config) { c.Loops = 1 })
	c := servertest.Dial(t, addr)
	set(c, "large", large)
	asked := servertest.Drops(t, addr, "mg large v\r\n", "SERVER_ERROR overloaded memory\r\n", drops)
	if got := c.Stats("spillway")["shed_memory"]; got != fmt.Sprint(asked) {
		t.Errorf("%s were dropped, of %d", got, asked)
	}
	if ever, now := b.pinned(); now != 0 {
		t.Errorf("%d of %d values are pinned", now, ever)
	}
}
