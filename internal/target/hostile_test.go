//go:build linux

package target

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// bucket is a client's half that has so many tokens from an instant on. Nothing gives a token back.
type bucket struct {
	free
	tokens int
	from   clock.Instant
}

func (b *bucket) Permit(now clock.Instant, _ *control.Outgoing) control.Verdict {
	if b.tokens == 0 || now < b.from {
		return control.Wait
	}
	b.tokens--
	return control.Admit
}

func (b *bucket) Next(now clock.Instant) clock.Instant {
	if b.tokens == 0 {
		return clock.Never
	}
	return max(now, b.from)
}

// TestGivenUpAtAClientTakesNoToken: a request whose client stopped waiting for it before it could leave takes nothing from those that still may.
func TestGivenUpAtAClientTakesNoToken(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	b := new(bucket)
	c := newClient(t, s.addr, func(cfg *Config) {
		cfg.Timeout = 30 * time.Millisecond
		cfg.NewClient = func(*rand.Rand) *control.Outbox { return control.NewOutbox(b, control.OutboxConfig{}) }
	})
	p := <-s.peers
	for range 3 {
		c.issue(0, workloads.Set, "k")
	}
	c.wait(3)
	if waits, flights := c.clients.boxes[0].Len(), len(c.clients.unused); waits != 0 || flights != 3 {
		t.Errorf("%d wait though all are given up, %d of 3 flights are free", waits, flights)
	}
	c.cfg.Timeout = time.Minute
	b.tokens = 1
	c.issue(0, workloads.Get, "k")
	p.expect("mg k s v O3 P0")
	p.say("EN O3")
	c.wait(4)
	if diff := cmp.Diff([]string{"refused", "refused", "refused", "ok"}, c.fates()); diff != "" {
		t.Error(diff)
	}
}

// TestLateAlarmsAreLag: what a client's control would have let go while this thread was elsewhere is late by the generator's fault, and by no
// more than that.
func TestLateAlarmsAreLag(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	b := &bucket{tokens: 1}
	c := newClient(t, s.addr, func(cfg *Config) {
		cfg.NewClient = func(*rand.Rand) *control.Outbox { return control.NewOutbox(b, control.OutboxConfig{}) }
	})
	p := <-s.peers
	const kept, stalled = 5 * time.Millisecond, 25 * time.Millisecond
	began := c.clock.Now()
	b.from = (began - c.clients.base).Add(kept)
	c.issue(0, workloads.Get, "k")
	for c.clock.Now() < began.Add(stalled) {
	}
	c.until(func() bool { return c.Waiting() == 0 })
	p.expect("mg k s v O0 P0")
	p.say("EN O0")
	c.wait(1)
	r := c.settled[0]
	if left := began.Add(kept) - r.Intended; r.Held != time.Duration(left) || r.SendLag() < stalled-kept-time.Duration(r.Intended-began) {
		t.Errorf("kept back for %v, want %v; send lag %v", r.Held, time.Duration(left), r.SendLag())
	}
}

// TestRetryToAServerThatIsAway: what one server shed has been shed, also when the one that it would be sent to next does not answer. No retry is
// spent on that.
func TestRetryToAServerThatIsAway(t *testing.T) {
	t.Parallel()
	a, b := newFake(t, shedding), newFake(t, plain)
	both := a.addr + "," + strings.TrimPrefix(b.addr, "memcached://")
	c := newClient(t, both, func(cfg *Config) { cfg.Retry, cfg.Conns = &load.Retry{Budget: 1, First: true}, 1 })
	b.close()
	c.until(func() bool { return c.conns[1].State != poll.Up })
	for i := range 3 {
		c.issue(0, workloads.Get, "k")
		c.wait(i + 1)
	}
	for _, r := range c.settled {
		if r.Fate != reqlog.Rejected || control.Reason(r.Reason) != control.Fraction || r.Attempts != 1 {
			t.Errorf("%+v", r)
		}
	}
	saved := 0
	for ; c.clients.saved.Has(0); saved++ {
		c.clients.saved.Spend(0)
	}
	if saved != 3 {
		t.Errorf("%d retries are saved, want 3", saved)
	}
}

// TestServersThatAnswerNonsense: whatever a server says to a client with a wallet, the client comes to an end, and each request has one fate.
func TestServersThatAnswerNonsense(t *testing.T) {
	t.Parallel()
	lines := []string{
		"MN", "MN P0", "MN P2147483647", "MN P99999999999999999999", "MN P-1", "MN P3", "EN O0 P1", "EN P1", "HD O1", "SERVER_ERROR overloaded nonsense P4",
		"SERVER_ERROR overloaded", "VA 3 O0", "END", "VALUE k 0 3", "MN L1,2,3", "MN L9999999999999999999,1 P1", "ERROR", "\x00\x01",
	}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(5, seed))
			f := newFake(t, func(r request) string {
				switch rng.IntN(12) {
				case 0:
					return hangUp
				case 1:
					return "" // nothing at all
				case 2, 3:
					return lines[rng.IntN(len(lines))] + "\r\n"
				}
				if r.verb == "mn" {
					return fmt.Sprintf("MN P%d\r\n", 1+rng.IntN(3))
				}
				return fmt.Sprintf("EN %s P%d\r\n", r.opaque, rng.IntN(3))
			})
			c := newClient(t, f.addr, func(cfg *Config) {
				cfg.Conns, cfg.Timeout = 3, 50*time.Millisecond
				cfg.NewClient = wallet(control.OutboxConfig{Queue: 4, MaxAge: 10 * time.Millisecond})
			})
			const all = 300
			for i := range all {
				c.issue(uint32(i%3), workloads.Get, "k")
				if i%8 == 0 {
					c.Wait(c.clock.Now().Add(time.Millisecond))
				}
			}
			c.wait(all)
			seen := map[uint64]int{}
			for _, r := range c.settled {
				seen[r.Seq]++
			}
			if len(seen) != all || len(c.settled) != all || c.Waiting() != 0 {
				t.Errorf("%d requests have %d fates, %d wait", len(seen), len(c.settled), c.Waiting())
			}
			under := 0
			for _, conn := range c.conns {
				under += conn.pending.len()
			}
			if free := len(c.clients.unused); len(c.clients.list)-free > under {
				t.Errorf("of %d flights %d are free, and %d messages are under way", len(c.clients.list), free, under)
			}
			if n := c.Counters(); n.Lost == 0 && n == (load.Counters{}) {
				t.Error("nothing was ever out of step")
			}
		})
	}
}
