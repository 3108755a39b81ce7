//go:build linux

package memcached_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/cache"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/memcached"
)

// room is a section of so many places that holds its books to account. Its server serialises the calls, and the lock is for the test.
type room struct {
	mu      sync.Mutex
	places  int
	inside  map[uint64]bool
	waiting *control.Parked
	why     control.Reason // for which those are refused that find it full
	entered int
	fault   string
}

func newRoom(places int, why control.Reason) *room {
	return &room{places: places, inside: map[uint64]bool{}, waiting: control.NewParked(), why: why}
}

func (r *room) Enter(now clock.Instant, q *control.Request, m control.Mode) control.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.inside[q.ID]:
		r.fault = "somebody enters twice"
	case len(r.inside) < r.places:
		r.inside[q.ID] = true
		r.entered++
	case m == control.WaitMode:
		r.waiting.Push(now, q)
		return control.Decision{Verdict: control.Wait}
	default:
		return control.Decision{Verdict: control.Reject, Reason: r.why}
	}
	return control.Decision{}
}

func (r *room) Leave(now clock.Instant, q *control.Request, out []control.Action) []control.Action {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.inside[q.ID] {
		r.fault = "somebody leaves who is not in"
	}
	delete(r.inside, q.ID)
	if r.waiting.Len() == 0 {
		return out
	}
	next := r.waiting.Pop(now)
	r.inside[next.ID] = true
	r.entered++
	return append(out, control.Action{Kind: control.Resume, Request: next})
}

func (r *room) Withdraw(_ clock.Instant, id uint64, out []control.Action) (bool, []control.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting.Withdraw(id), out
}

func (r *room) check(t *testing.T, entered int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != "" || len(r.inside) > 0 || r.waiting.Len() > 0 || r.entered != entered {
		t.Errorf("%s; %d are inside, %d wait, %d have entered, want %d", r.fault, len(r.inside), r.waiting.Len(), r.entered, entered)
	}
}

// serveSectioned serves a store under a stack.
func serveSectioned(t *testing.T, store memcached.Config, stack control.Stack) (*memcached.Backend, string) {
	t.Helper()
	backend, err := memcached.New(store)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	config := servers.Default()
	config.Listen, config.Loops, config.MaxItem = []string{"unix://" + path}, 3, store.MaxItem
	s, err := servers.New(memcached.Sectioned{Backend: backend}, stack, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return backend, path
}

func setText(key string, n int) string {
	return fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, n, strings.Repeat("v", n))
}

// TestLargeReadsAreRefusedUntouched: who finds the section full is refused for want of memory bandwidth before anything is read, counted or
// moved. What does not ask for a large value does not go there.
func TestLargeReadsAreRefusedUntouched(t *testing.T) {
	t.Parallel()
	store := memcached.DefaultConfig()
	store.HeaderOnly = true
	full := newRoom(0, control.Memory)
	b, path := serveSectioned(t, store, control.Stack{Controller: control.None{}, Memory: full, Mode: control.Try})
	s := newStepper(t, path)
	const edge = memcached.DefaultLarge
	s.do(setText("small", edge-1) + setText("large", edge) + setText("tiny", 3))
	counts, moved := s.stats("cmd_get", "get_hits", "get_misses", "cmd_touch"), b.BytesMoved()
	const refused = "SERVER_ERROR overloaded memory\r\n"
	for _, command := range []string{"get large", "gets large", "get tiny large none", "gat 100 large", "mg large v", "mg large O1 v t s k", "mg large v T5"} {
		if got := string(s.do(command + "\r\n")); got != refused {
			t.Errorf("%s: %q", command, got)
		}
	}
	if after := s.stats("cmd_get", "get_hits", "get_misses", "cmd_touch"); fmt.Sprint(after) != fmt.Sprint(counts) || b.BytesMoved() != moved || b.Pinned() != 0 {
		t.Errorf("before %v and %d bytes, after %v and %d; %d items are pinned", counts, moved, after, b.BytesMoved(), b.Pinned())
	}
	if got := string(s.do("mg large t\r\n")); got != "HD t-1\r\n" {
		t.Errorf("its time of expiry has been changed: %q", got)
	}
	for _, of := range [][2]string{
		{"get small", "VALUE small 0 0\r\n\r\nEND\r\n"}, {"mg large s", fmt.Sprintf("HD s%d\r\n", edge)}, {"get none", "END\r\n"},
		{"mg small v", "HD\r\n"}, {"touch large 0", "TOUCHED\r\n"}, {strings.TrimSuffix(setText("large", edge), "\r\n"), "STORED\r\n"},
		{"delete large", "DELETED\r\n"},
	} {
		if got := string(s.do(of[0] + "\r\n")); got != of[1] {
			t.Errorf("%.20s: %q, want %q", of[0], got, of[1])
		}
	}
	full.check(t, 0)
}

// TestLargeReadsTakeTheirPlace: each goes in once and leaves, whatever comes of it.
func TestLargeReadsTakeTheirPlace(t *testing.T) {
	t.Parallel()
	for _, header := range []bool{true, false} {
		store := memcached.DefaultConfig()
		store.HeaderOnly, store.Large = header, 5000
		places := newRoom(8, control.Memory)
		b, path := serveSectioned(t, store, control.Stack{Controller: control.None{}, Memory: places, Mode: control.Try})
		s := newStepper(t, path)
		s.do(setText("large", 5000))
		moved := b.BytesMoved()
		s.do("get large\r\nmg large v\r\nget large large\r\nmg large v k q\r\n")
		if got := b.BytesMoved() - moved; got != 5*5000 {
			t.Errorf("%d bytes moved, want those of five reads", got)
		}
		places.check(t, 4)
	}
}

// TestLargeReadsWait: in the modes that wait, whoever waits holds up nobody but what comes later on its own connection and depends on it, and
// replies stay in order. Who goes meanwhile is withdrawn.
func TestLargeReadsWait(t *testing.T) {
	t.Parallel()
	store := memcached.DefaultConfig()
	store.HeaderOnly = true
	memory := newRoom(1, control.Memory)
	const somebody = 1 << 60
	memory.inside[somebody] = true
	_, path := serveSectioned(t, store, control.Stack{Controller: control.None{}, Memory: memory, Mode: control.WaitMode})
	other := newStepper(t, path)
	other.do(setText("large", memcached.DefaultLarge) + setText("tiny", 1))
	queued := func() int {
		memory.mu.Lock()
		defer memory.mu.Unlock()
		return memory.waiting.Len()
	}
	dial := func(text string, waiters int) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		for queued() != waiters {
			other.do("")
		}
		return conn, bufio.NewReader(conn)
	}
	_, first := dial("mg large v O1\r\nmg tiny O2\r\nset tiny 0 0 2\r\nab\r\nmg tiny s O3\r\n", 1)
	gone, _ := dial("get large\r\n", 2)
	_ = gone.Close()
	for queued() != 1 {
		other.do("")
	}
	if got := string(other.do("mg tiny s\r\n")); got != "HD s1\r\n" {
		t.Errorf("what is stored behind a read that waits has been stored before: %q", got)
	}
	// Somebody leaves: the server has to be told, which it is when another call is at the section.
	memory.mu.Lock()
	delete(memory.inside, somebody)
	memory.mu.Unlock()
	other.do("get large\r\n")
	for _, want := range []string{"HD O1\r\n", "HD O2\r\n", "STORED\r\n", "HD s2 O3\r\n"} {
		if got, err := first.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	memory.check(t, 2)
}

// TestLockQueues: commands wait for the lock of their item where control can refuse them; reads of large values do not, and there is a queue for
// each shard that a cache may have.
func TestLockQueues(t *testing.T) {
	t.Parallel()
	if cache.MaxShards > machine.MaxIndex+1 {
		t.Fatalf("%d shards, and only %d locks to queue for", cache.MaxShards, machine.MaxIndex+1)
	}
	store := memcached.DefaultConfig()
	store.LockQueues, store.HeaderOnly = true, true
	var mu sync.Mutex
	var locks []*room
	_, path := serveSectioned(t, store, control.Stack{Controller: control.None{}, NewLock: func() control.Section {
		mu.Lock()
		defer mu.Unlock()
		locks = append(locks, newRoom(1, control.Lock))
		return locks[len(locks)-1]
	}})
	s := newStepper(t, path)
	s.do(setText("large", memcached.DefaultLarge) + setText("a", 1))
	mu.Lock()
	if len(locks) != 1 && len(locks) != 2 {
		t.Errorf("%d locks for two keys", len(locks))
	}
	for _, l := range locks {
		l.check(t, 2/len(locks))
		l.mu.Lock()
		l.places = 0 // somebody has them
		l.mu.Unlock()
	}
	mu.Unlock()
	const refused = "SERVER_ERROR overloaded lock\r\n"
	for _, command := range []string{"get a", "mg a v", "set a 0 0 1\r\nb", "delete a", "incr a 1", "touch a 1", "get a b"} {
		if got := string(s.do(command + "\r\n")); got != refused {
			t.Errorf("%s: %q", command, got)
		}
	}
	for command, want := range map[string]string{"get large": "VALUE large 0 0\r\n\r\nEND\r\n", "flush_all": "OK\r\n"} {
		if got := string(s.do(command + "\r\n")); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestSectionedDoesTheSame: many clients at once get from a server with a section and lock queues what they would get from one without, and
// nothing stays held.
func TestSectionedDoesTheSame(t *testing.T) {
	t.Parallel()
	store := memcached.DefaultConfig()
	store.LockQueues, store.Large = true, 5000
	memory := newRoom(2, control.Memory)
	b, path := serveSectioned(t, store, control.Stack{Controller: control.None{}, Memory: memory, Mode: control.WaitMode})
	var clients sync.WaitGroup
	for id := range 8 {
		s, rng := newStepper(t, path), rand.New(rand.NewPCG(9, uint64(id)))
		clients.Go(func() {
			sizes := map[string]int{}
			for range 40 {
				var ask, want strings.Builder
				for range 1 + rng.IntN(12) {
					key := fmt.Sprintf("c%d-%d", id, rng.IntN(6))
					if n := rng.IntN(9000); rng.IntN(2) == 0 {
						sizes[key] = n
						ask.WriteString(setText(key, n))
						want.WriteString("STORED\r\n")
						continue
					}
					fmt.Fprintf(&ask, "mg %s v s\r\n", key)
					if n, ok := sizes[key]; ok {
						fmt.Fprintf(&want, "VA %d s%d\r\n%s\r\n", n, n, strings.Repeat("v", n))
					} else {
						want.WriteString("EN\r\n")
					}
				}
				if got := string(s.do(ask.String())); got != want.String() {
					t.Errorf("client %d: got %.80q, want %.80q", id, got, want.String())
					return
				}
			}
		})
	}
	clients.Wait()
	memory.mu.Lock()
	entered := memory.entered
	memory.mu.Unlock()
	memory.check(t, entered)
	if entered == 0 || b.Pinned() != 0 {
		t.Errorf("%d large reads, %d items are pinned", entered, b.Pinned())
	}
}
