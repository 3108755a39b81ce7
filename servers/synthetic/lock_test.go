//go:build linux

package synthetic_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
	"spillway/servers"
	"spillway/servers/servertest"
	"spillway/servers/synthetic"
)

// TestContendedLock: on a real computer requests really queue for a lock, one holds it at a time, and under a policy those that would wait too long are
// dropped at once, with what they held of memory. Without one nobody is.
func TestContendedLock(t *testing.T) {
	const clients, each, hold = 6, 8, 4 * time.Millisecond
	for policy, drops := range map[string]bool{"off": false, "qdelay": true, "qlen": true} {
		stack := control.Stack{NewLock: func() control.Section {
			return aqm.NewLock(aqm.LockConfig{Policy: policy, Budget: time.Millisecond})
		}}
		if policy == "off" {
			stack.NewLock = nil
		}
		h, err := synthetic.NewHost(synthetic.Config{Memory: 16 << 20, Buffer: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		addr, stop := servertest.Serve(t, h, stack, func(c *servers.Config) { c.Loops = 3 })
		var served, dropped atomic.Int64
		// Where connections happen to be served one after the other, nobody meets anybody at the lock: then they come again.
		rounds, began := int64(0), time.Now()
		for ok := true; ok; ok = drops && dropped.Load() == 0 && rounds < 40 {
			rounds++
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					c := servertest.Dial(t, addr)
					c.Send(strings.Repeat("mg m4096,l0:4ms\r\n", each))
					for range each {
						switch got := c.Line(); got {
						case "HD":
							served.Add(1)
						case "SERVER_ERROR overloaded lock":
							dropped.Add(1)
						default:
							t.Errorf("%s: got %q", policy, got)
						}
					}
				})
			}
			all.Wait()
		}
		took := time.Since(began)
		c := servertest.Dial(t, addr)
		c.Await("spillway", "in_service", 0)
		c.Await("", "memory_held", 0)
		if n := served.Load(); n+dropped.Load() != rounds*clients*each || n == 0 || drops != (dropped.Load() > 0) {
			t.Errorf("%s: %d were served and %d dropped", policy, n, dropped.Load())
		}
		// Had two of the three loops held it at once, it would have taken half of that.
		if least := time.Duration(served.Load()) * hold * 3 / 4; took < least {
			t.Errorf("%s: %d held the lock for %v each, within %v", policy, served.Load(), hold, took)
		}
		c.Do("mg l0:1us\r\n", "HD\r\n") // it is free
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestDropsLeaveNothingBehind: memory does not grow over a million drops, half of them at a section and half at a lock; nor over fewer that hold memory.
func TestDropsLeaveNothingBehind(t *testing.T) {
	drops := 500_000
	if testing.Short() || raceEnabled {
		drops = 30_000
	}
	atLock := control.Stack{NewLock: func() control.Section { return shut{newRoom(0)} }}
	for _, tc := range []struct {
		key, why string
		stack    control.Stack
		drops    int
	}{
		{"e0,c1us,x0", "memory", control.Stack{Memory: newRoom(0), Mode: control.Try}, drops},
		{"l0:1us", "lock", atLock, drops},
		{"m9000,l0:1us", "lock", atLock, drops / 20},
	} {
		h, err := synthetic.NewHost(synthetic.Config{Memory: 1 << 30, Buffer: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		addr, stop := servertest.Serve(t, h, tc.stack, func(c *servers.Config) { c.Loops = 1 })
		servertest.Drops(t, addr, "mg "+tc.key+"\r\n", "SERVER_ERROR overloaded "+tc.why+"\r\n", tc.drops)
		if got := servertest.Dial(t, addr).Stats(""); got["memory_held"] != "0" {
			t.Errorf("%s: %s bytes are held", tc.key, got["memory_held"])
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// shut is the queue of a lock that lets nobody wait, and that somebody always holds.
type shut struct{ *room }

func (shut) Enter(clock.Instant, *control.Request, control.Mode) control.Decision {
	return control.Decision{Verdict: control.Reject, Reason: control.Lock}
}
