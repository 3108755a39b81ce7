package dagor_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control"
	"spillway/control/dagor"
)

// Clients that hold back all that is less important leave the histogram empty above the level. One quiet window must not open it wide.
func TestUnseenLevelsBoundTheRise(t *testing.T) {
	t.Parallel()
	for unseen, want := range map[int]int{0: 127, 1: 95, 3: 97} {
		c := paper()
		c.Unseen, c.Requests = unseen, 100
		s := dagor.New(c, dagor.Env{})
		for i := range uint16(100) {
			ask(s, 0, i, 30*ms)
		}
		if s.Level() != 94 {
			t.Fatalf("level %d after overload, want 94", s.Level())
		}
		for range 100 {
			ask(s, 0, 0, 0)
		}
		if s.Level() != want {
			t.Errorf("unseen %d: the level rose to %d, want %d", unseen, s.Level(), want)
		}
	}
}

// A client of one priority that is turned away would never hear that the level has risen: once in a while it tries.
func TestStaleClientTriesOnce(t *testing.T) {
	t.Parallel()
	c := dagor.NewClient(dagor.Default(), 1, rng(1))
	c.Hear(0, control.Notice{Kind: control.Replied, Credits: 10})
	r := control.Outgoing{Priority: 100}
	second := clock.Instant(time.Second)
	for _, tt := range []struct {
		at   clock.Instant
		want control.Verdict
	}{{second - 1, control.Reject}, {second, control.Admit}, {second + 1, control.Reject}, {2*second - 1, control.Reject}, {2 * second, control.Admit}} {
		if got := c.Permit(tt.at, &r); got != tt.want {
			t.Errorf("at %v: verdict %d, want %d", tt.at, got, tt.want)
		}
	}
	c.Hear(2*second, control.Notice{Kind: control.Replied, Shed: true, Credits: 100})
	if c.Permit(2*second, &r) != control.Admit {
		t.Error("rejected though the level has risen to its priority")
	}
}

// What is less important than all levels belongs to the last one, at both ends: it is admitted when everything is.
func TestPriorityBeyondTheLevels(t *testing.T) {
	t.Parallel()
	s := dagor.New(paper(), dagor.Env{})
	if !ask(s, 0, 65535, 0) {
		t.Error("the server rejects at its highest level")
	}
	c := dagor.NewClient(dagor.Default(), 1, rng(1))
	c.Hear(0, control.Notice{Kind: control.Replied, Credits: 127})
	if c.Permit(0, &control.Outgoing{Priority: 65535}) != control.Admit {
		t.Error("the client refuses at the highest level")
	}
	c.Hear(0, control.Notice{Kind: control.Replied, Credits: 126})
	if c.Permit(0, &control.Outgoing{Priority: 65535}) != control.Reject {
		t.Error("the client admits below the highest level")
	}
}

// Business priorities come first: as long as one of the second is admitted, all of the first are.
func TestBusinessBeforeUsers(t *testing.T) {
	t.Parallel()
	s := dagor.New(paper(), dagor.Env{Business: 2})
	for range 10 {
		for i := range uint64(2000) {
			ask(s, 0, control.PriorityOf(uint8(i%2), i), 30*ms)
		}
	}
	if s.Level() < 128 || s.Level() > 230 {
		t.Fatalf("level %d; the second business priority should be partly admitted", s.Level())
	}
	for i := range uint64(100) {
		if !ask(s, 0, control.PriorityOf(0, i), 30*ms) {
			t.Errorf("user %d of the first business priority is rejected at level %d", i, s.Level())
		}
	}
}

// The level is one of those there are whatever happens, replies carry it, and more important requests are admitted whenever less important
// ones are.
func TestLevelProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := dagor.Default()
		if rapid.Bool().Draw(t, "paper") {
			c = paper()
		}
		c.Requests = rapid.IntRange(1, 50).Draw(t, "requests")
		c.Unseen = rapid.IntRange(0, 3).Draw(t, "unseen")
		business := rapid.IntRange(1, 3).Draw(t, "business")
		s := dagor.New(c, dagor.Env{SLO: slo, Business: business})
		var now clock.Instant
		for range 300 {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "pause")) * 10 * us)
			if rapid.Bool().Draw(t, "tick") {
				delay := time.Duration(rapid.IntRange(0, 1000).Draw(t, "delay")) * us
				if next := s.Tick(now, control.Signals{QueueDelay: delay}); next <= now && c.Form == dagor.Compared {
					t.Fatalf("next tick at %v, it is %v", next, now)
				}
			}
			level := s.Level()
			if level < 0 || level >= business*128 || s.Credits(now, 7) != level {
				t.Fatalf("level %d of %d, told %d", level, business*128, s.Credits(now, 7))
			}
			priority := uint16(rapid.IntRange(0, business*128-1).Draw(t, "priority"))
			if ask(s, now, priority, 30*ms) != (int(priority) <= level) {
				t.Fatalf("priority %d at level %d", priority, level)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*dagor.Config){
		`form is "x"`:     func(c *dagor.Config) { c.Form = "x" },
		"threshold is -":  func(c *dagor.Config) { c.Threshold = -1 },
		"interval is -":   func(c *dagor.Config) { c.Interval = -1 },
		"requests is 0":   func(c *dagor.Config) { c.Requests = 0 },
		"alpha is 1":      func(c *dagor.Config) { c.Alpha = 1 },
		"beta is 0":       func(c *dagor.Config) { c.Beta = 0 },
		"period is -1ns":  func(c *dagor.Config) { c.Period = -1 },
		"smoothing is 1":  func(c *dagor.Config) { c.Smoothing = 1 },
		"business is 257": func(c *dagor.Config) { c.Business = 257 },
		"unseen is -1":    func(c *dagor.Config) { c.Unseen = -1 },
		"stale is -1ns":   func(c *dagor.Config) { c.Stale = -1 },
	} {
		c := dagor.Default()
		spoil(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q…", err, want)
		}
	}
	if err := dagor.Default().Check(); err != nil {
		t.Error(err)
	}
}

func TestServerDoesNotAllocate(t *testing.T) {
	for _, c := range []dagor.Config{dagor.Default(), paper()} {
		s := dagor.New(c, dagor.Env{SLO: slo})
		var now clock.Instant
		if n := testing.AllocsPerRun(10_000, func() {
			now += 10_000
			ask(s, now, uint16(now/10_000%128), 30*ms)
			s.Tick(now, control.Signals{QueueDelay: ms})
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.Form, n)
		}
	}
}

// BenchmarkServer measures what a request costs: its arrival and its start.
func BenchmarkServer(b *testing.B) {
	for _, c := range []dagor.Config{dagor.Default(), paper()} {
		b.Run(c.Form, func(b *testing.B) {
			s := dagor.New(c, dagor.Env{SLO: slo})
			var now clock.Instant
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				ask(s, now, uint16(now/1000%128), 0)
			}
		})
	}
}

// TestPeriodFollowsTheInterval: unless it is set, the delay is sampled a hundred times before the level is reconsidered: every 10 µs of the published 1 ms.
func TestPeriodFollowsTheInterval(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ interval, period, want time.Duration }{
		{0, 0, 10 * time.Microsecond},
		{time.Millisecond, 0, 10 * time.Microsecond},
		{20 * time.Millisecond, 0, 200 * time.Microsecond},
		{20 * time.Millisecond, 10 * time.Microsecond, 10 * time.Microsecond},
	} {
		c := dagor.Default()
		c.Interval, c.Period = tc.interval, tc.period
		s := dagor.New(c, dagor.Env{SLO: time.Second})
		if got := s.Tick(clock.Instant(time.Second), control.Signals{}); got != clock.Instant(time.Second+tc.want) {
			t.Errorf("interval %v, period %v: the next tick is after %v, want %v", tc.interval, tc.period, got.Sub(clock.Instant(time.Second)), tc.want)
		}
	}
}
