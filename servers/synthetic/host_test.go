//go:build linux

package synthetic_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"spillway/control"
	"spillway/servers"
	"spillway/servers/servertest"
	"spillway/servers/synthetic"
)

// host serves synthetic requests on this computer, with one loop more than tests occupy.
func host(t testing.TB, loops int) (addr string, stop func() error) {
	t.Helper()
	h, err := synthetic.NewHost(synthetic.Config{Memory: 16 << 20, Buffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, h, control.None{}, func(c *servers.Config) { c.Loops = loops })
}

func TestHostDoesTheWork(t *testing.T) {
	t.Parallel()
	addr, stop := host(t, 2)
	c := servertest.Dial(t, addr)
	c.Do("mg c1us,s100000,s65@1000000000,l5:1us,d1us,m4096,e0,x0 v k\r\nget c1us s10\r\nms d1us 2 O1\r\nab\r\nmd c1us O2\r\n",
		"VA 0 kc1us,s100000,s65@1000000000,l5:1us,d1us,m4096,e0,x0\r\n\r\nVALUE c1us 0 0\r\n\r\nVALUE s10 0 0\r\n\r\nEND\r\nHD O1\r\nHD O2\r\n")
	got := c.Stats("")
	for name, want := range map[string]string{
		"cmd_get": "3", "cmd_set": "1", "delete_hits": "1", "bytes_moved": "100075", "memory_held": "0", "memory_held_max": "4096", "wrong_keys": "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWrongKeys(t *testing.T) {
	t.Parallel()
	addr, _ := host(t, 2)
	c := servertest.Dial(t, addr)
	for key, want := range map[string]string{
		"c1us,q7":        `CLIENT_ERROR step "q7": a step begins with`,
		"c1":             `CLIENT_ERROR step "c1": a duration is written like 72us`,
		"s1.5":           `CLIENT_ERROR step "s1.5": an amount is a whole number of bytes`,
		"l64:1us":        `CLIENT_ERROR step "l64:1us": locks and sections have numbers from 0 to 63`,
		"c11s":           `CLIENT_ERROR step "c11000ms": on a real machine no step may hold a core for longer than 10s`,
		"s100@1":         `CLIENT_ERROR step "s100@1": on a real machine no step may hold a core for longer than 10s`,
		"s1000000000000": `CLIENT_ERROR step "s1000000000000": on a real machine no step may hold a core for longer than 10s`,
		"m17000000":      "SERVER_ERROR out of memory: requests would hold more than 16777216 bytes",
	} {
		c.Send("mg " + key + " v\r\n")
		if got := c.Line(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	c.Send("incr c1us 1\r\n")
	if got := c.Line(); !strings.HasPrefix(got, "SERVER_ERROR command incr is not for a synthetic server") {
		t.Errorf("got %q", got)
	}
}

// TestWaitingTakesNoLoop: with a single loop, others are served while a request waits for time to pass; those behind it on its own
// connection too, though they are answered after it.
func TestWaitingTakesNoLoop(t *testing.T) {
	t.Parallel()
	addr, stop := host(t, 1)
	a, b := servertest.Dial(t, addr), servertest.Dial(t, addr)
	a.Send("mg d5ms O1\r\nmg c1us O2\r\n")
	a.Do("", "HD O1\r\nHD O2\r\n")

	a.Send("mg d1h O1\r\nmg c1us O2\r\n")
	b.Await("spillway", "finished", 3)
	b.Do("mg c1us\r\n", "HD\r\n")
	b.Await("spillway", "in_service", 1)
	a.Abort() // nobody waits an hour
	b.Await("spillway", "in_service", 0)
	if got := b.Stats("spillway"); got["failed"] != "1" || got["finished"] != "5" {
		t.Errorf("%v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestWaitingForALockTakesNoLoop: a request that finds its lock taken leaves its loop to others, and the queue when its client goes.
func TestWaitingForALockTakesNoLoop(t *testing.T) {
	t.Parallel()
	addr, stop := host(t, 3) // one for the holder, one for the stats, one for the others
	watcher := servertest.Dial(t, addr)
	holder, waiter, other := servertest.Dial(t, addr), servertest.Dial(t, addr), servertest.Dial(t, addr)
	holder.Send("mg l0:1s O1\r\n")
	watcher.Await("spillway", "in_service", 1)
	waiter.Send("mg m4096,l0:1us O2\r\n")
	watcher.Await("spillway", "in_service", 2)
	other.Do("mg c1us O3\r\n", "HD O3\r\n")
	watcher.Await("spillway", "in_service", 2)
	watcher.Await("", "memory_held", 4096)
	waiter.Abort()
	watcher.Await("spillway", "in_service", 1)
	watcher.Await("", "memory_held", 0)
	other.Send("mg l0:1us O4\r\n")
	holder.Do("", "HD O1\r\n")
	other.Do("", "HD O4\r\n")
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestMemoryIsHeldUntilTheEnd: until the request is answered, or its client has gone.
func TestMemoryIsHeldUntilTheEnd(t *testing.T) {
	t.Parallel()
	addr, _ := host(t, 2)
	a, b := servertest.Dial(t, addr), servertest.Dial(t, addr)
	a.Send("mg m1048576,m5,d1h\r\n")
	b.Await("", "memory_held", 1048581)
	a.Abort()
	b.Await("", "memory_held", 0)
	b.Do("mg m1048576\r\n", "HD\r\n")
	b.Await("", "memory_held", 0)
}

// TestNothingStaysHeld: whatever clients ask for and whenever they go away, in the end nothing is in service, no memory is held, and every
// lock can be had.
func TestNothingStaysHeld(t *testing.T) {
	t.Parallel()
	addr, stop := host(t, 4)
	var clients sync.WaitGroup
	for i := range 16 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		clients.Go(func() {
			for range 10 {
				c := servertest.Dial(t, addr)
				n := 1 + rng.IntN(20)
				for range n {
					c.Send(fmt.Sprintf("mg m%d,l%d:%dus,d%dus,l%d:3us,c1us\r\n", rng.IntN(9000), rng.IntN(2), rng.IntN(30), rng.IntN(300), rng.IntN(2)))
				}
				switch rng.IntN(3) {
				case 0:
					if _, err := io.CopyN(io.Discard, c.In, int64(n*len("HD\r\n"))); err != nil {
						t.Error(err)
					}
					_ = c.Close()
				case 1: // leaves without waiting for replies
					_ = c.Close()
				default:
					c.Abort()
				}
			}
		})
	}
	clients.Wait()
	c := servertest.Dial(t, addr)
	c.Await("spillway", "in_service", 0)
	c.Await("spillway", "queued", 0)
	c.Await("", "memory_held", 0)
	c.Do("mg l0:1us,l1:1us\r\n", "HD\r\n")
	if got := c.Stats("spillway"); got["started"] != got["finished"] {
		t.Errorf("%s started, %s finished", got["started"], got["finished"])
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestWorkAllocatesNothing counts all allocations of the process while requests compute, move bytes and hold locks.
func TestWorkAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	addr, _ := host(t, 1)
	c := servertest.Dial(t, addr)
	const depth, rounds = 16, 100
	send, got := []byte(strings.Repeat("mg c1us,s640,l0:1us#x O1\r\n", depth)), make([]byte, depth*len("HD O1\r\n"))
	round := func() {
		if _, err := c.Write(send); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.In, got); err != nil {
			t.Fatal(err)
		}
	}
	if each := allocations(t, rounds, round) / depth; each > 0.05 {
		t.Errorf("%.3f allocations a request, want none", each)
	}
}

// allocations returns how many there are in the process for each round, once as many have gone by.
func allocations(t *testing.T, rounds int, round func()) float64 {
	t.Helper()
	for range rounds {
		round()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(rounds)
}
