package seda_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/seda"
)

// queue is a server of fixed service time with one queue, as seen by one client that always has something to send.
type queue struct {
	client  *seda.Client
	service time.Duration
	now     clock.Instant
	free    clock.Instant // when the server has done what it has
	replies []reply       // under way, in order
	sent    int
}

type reply struct {
	at   clock.Instant
	took time.Duration
}

// run lets the client send whatever it may until the given instant.
func (q *queue) run(until clock.Instant) {
	for {
		next := q.client.Next(q.now)
		if len(q.replies) > 0 && q.replies[0].at < next {
			r := q.replies[0]
			q.replies = q.replies[1:]
			q.now = r.at
			q.client.Hear(q.now, control.Notice{Kind: control.Replied, Latency: r.took, Credits: -1})
			continue
		}
		if next > until {
			q.now = until
			return
		}
		q.now = next
		if q.client.Permit(q.now, nil) == control.Admit {
			q.free = max(q.free, q.now).Add(q.service)
			q.replies = append(q.replies, reply{at: q.free, took: q.free.Sub(q.now)})
			q.sent++
		}
	}
}

// A client alone at a server finds its capacity, 5000 a second, and says when it has: not while it climbs, and always after.
func TestConvergenceIsVisible(t *testing.T) {
	t.Parallel()
	g := config()
	g.AdjI = 40
	q := &queue{client: seda.NewClient(g, rng(1)), service: 200 * us}
	var climbing int
	for q.client.Rate() < 4000 {
		q.run(q.now.Add(ms))
		climbing++
		if q.client.Converged() {
			t.Fatalf("converged at %v with a rate of %v", q.now, q.client.Rate())
		}
		if climbing > 10_000 {
			t.Fatalf("after %v the rate is %v", q.now, q.client.Rate())
		}
	}
	q.run(q.now.Add(10 * time.Second))
	sent, converged := q.sent, 0
	const looks = 1000
	for range looks {
		q.run(q.now.Add(10 * ms))
		if q.client.Converged() {
			converged++
		}
	}
	if rate := float64(q.sent-sent) / 10; rate < 2500 || rate > 5000 {
		t.Errorf("sends %v a second, want something below the capacity of 5000", rate)
	}
	if converged < looks*9/10 {
		t.Errorf("converged at %d of %d looks", converged, looks)
	}
}

// A rate that rests within the band has converged, and so has one at its lower bound; one that is cut again and again has not.
func TestConvergedAtRest(t *testing.T) {
	t.Parallel()
	g := config()
	g.Initial = 1e6
	c := seda.NewClient(g, rng(1))
	now := feed(c, 0, us, 1000, 10*ms)
	if c.Converged() {
		t.Errorf("converged while the rate falls, at %v", c.Rate())
	}
	now = feed(c, now, us, 100_000, 10*ms)
	if !c.Converged() {
		t.Error("not converged at the lowest rate")
	}
	g.Initial, g.Smoothing = 1000, 0
	c = seda.NewClient(g, rng(1))
	now = feed(c, now, us, 700, 400*us)
	if c.Converged() {
		t.Error("converged after seven updates")
	}
	feed(c, now, us, 100, 400*us)
	if !c.Converged() || c.Rate() != 1000 {
		t.Errorf("rate %v, converged %v; want 1000, true", c.Rate(), c.Converged())
	}
	for name, value := range c.Meters() {
		if want := map[string]float64{"rate": 1000, "converged": 1}[name]; value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}

// However a client is asked and whatever it hears, it never sends more than its bucket and its highest rate allow, and never less than Next
// promises.
func TestTokensProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := config()
		g.MaxRate = rapid.Float64Range(10, 1e6).Draw(t, "most")
		c := seda.NewClient(g, rng(rapid.Uint64().Draw(t, "seed")))
		var now clock.Instant
		sent := 0
		for range 200 {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(ms)).Draw(t, "pause")))
			case 1:
				latency := time.Duration(rapid.Int64Range(0, int64(ms)).Draw(t, "latency"))
				now = feed(c, now, 0, rapid.IntRange(1, 100).Draw(t, "replies"), latency)
			case 2:
				now = max(now, c.Next(now))
				if c.Permit(now, nil) != control.Admit && c.Permit(c.Next(now), nil) != control.Admit {
					t.Fatalf("no token at %v, as promised", now)
				}
				now = max(now, c.Next(now)-1)
				sent++
			}
			if most := g.MaxRate*now.Seconds() + 4.001; float64(sent) > most {
				t.Fatalf("%d sent by %v, at most %v allowed", sent, now, most)
			}
		}
	})
}

// The client's queue: 16 wait, a newcomer refuses the oldest, and who has waited 100 µs is refused.
func TestClientQueue(t *testing.T) {
	t.Parallel()
	_, client := seda.New(seda.Default(), target)
	box := client(rng(1))
	var out []control.Dispatch
	for token := range uint64(17) {
		out = box.Offer(0, control.Outgoing{Token: token}, out)
	}
	if len(out) != 1 || out[0].Kind != control.Shun || out[0].Token != 0 || box.Len() != 16 {
		t.Fatalf("after 17 offers: %+v, %d wait; want the oldest shunned and 16 waiting", out, box.Len())
	}
	if next := box.Next(); next != clock.Instant(100*us) {
		t.Errorf("next is %v, want 100µs", next)
	}
	if out = box.Tick(clock.Instant(100*us), nil); len(out) != 16 {
		t.Errorf("%d shunned at 100 µs, want 16", len(out))
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*seda.Config){
		`form is "x"`:       func(c *seda.Config) { c.Form = "x" },
		"target is -1ns":    func(c *seda.Config) { c.Target = -1 },
		"percentile is 1.1": func(c *seda.Config) { c.Percentile = 1.1 },
		"samples is 0":      func(c *seda.Config) { c.Samples = 0 },
		"samples is 9223":   func(c *seda.Config) { c.Samples = math.MaxInt },
		"samples is 65537":  func(c *seda.Config) { c.Samples = 1<<16 + 1 },
		"timeout is -1ns":   func(c *seda.Config) { c.Timeout = -1 },
		"smoothing is 1":    func(c *seda.Config) { c.Smoothing = 1 },
		"err_i is 0.1":      func(c *seda.Config) { c.ErrI = 0.1 },
		"c_i is -0.6":       func(c *seda.Config) { c.CI = -0.6 },
		"adj_d is 0.9":      func(c *seda.Config) { c.AdjD = 0.9 },
		"adj_i is -1":       func(c *seda.Config) { c.AdjI = -1 },
		"initial is -1":     func(c *seda.Config) { c.Initial = -1 },
		"min_rate is -1":    func(c *seda.Config) { c.MinRate = -1 },
		"max_rate is 1":     func(c *seda.Config) { c.MaxRate = 1 },
		"burst is 0.5":      func(c *seda.Config) { c.Burst = 0.5 },
		"client_queue is 0": func(c *seda.Config) { c.Queue = 0 },
		"client_delay is -": func(c *seda.Config) { c.MaxAge = -1 },
		"drop_delay is -1":  func(c *seda.Config) { c.DropDelay = -1 },
	} {
		c := seda.Default()
		spoil(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q…", err, want)
		}
	}
	bound := seda.Default()
	bound.Samples = 1 << 16
	for _, c := range []seda.Config{seda.Default(), bound} {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestClientDoesNotAllocate(t *testing.T) {
	c := seda.NewClient(config(), rng(1))
	var now clock.Instant
	r := control.Outgoing{}
	if n := testing.AllocsPerRun(1000, func() {
		now = feed(c, now, us, 3, 100*us)
		c.Permit(now, &r)
		now = c.Next(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkClient measures what a request costs its client: the permit and the reply.
func BenchmarkClient(b *testing.B) {
	c := seda.NewClient(config(), rng(1))
	var now clock.Instant
	r := control.Outgoing{}
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		c.Permit(now, &r)
		c.Hear(now, control.Notice{Kind: control.Replied, Latency: 300 * us, Credits: -1})
	}
}
