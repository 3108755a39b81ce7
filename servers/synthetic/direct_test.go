//go:build linux

package synthetic_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/servers/synthetic"
)

// site writes down what is asked of it, and gives up at a word.
type site struct {
	said []string
	stop string
}

var errStopped = errors.New("stopped")

func (s *site) note(text string) error {
	s.said = append(s.said, text)
	if text == s.stop {
		return errStopped
	}
	return nil
}

func (s *site) Core(f func()) error {
	f()
	return s.note("core")
}

func (s *site) Wait(d time.Duration) error { return s.note("wait " + d.String()) }

func (s *site) Enter(n int) (func(), error) {
	if err := s.note(fmt.Sprintf("enter %d", n)); err != nil {
		return nil, err
	}
	return func() { s.said = append(s.said, fmt.Sprintf("leave %d", n)) }, nil
}

func (s *site) Lock(n int) (func(), error) {
	if err := s.note(fmt.Sprintf("lock %d", n)); err != nil {
		return nil, err
	}
	return func() { s.said = append(s.said, fmt.Sprintf("unlock %d", n)) }, nil
}

// TestRunOnAGoroutine: steps in their order, and whatever ends a request, what it is in is left and what it holds given back.
func TestRunOnAGoroutine(t *testing.T) {
	t.Parallel()
	h, err := synthetic.NewHost(synthetic.Config{Memory: 1 << 20, Buffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct{ key, stop, want, err string }{
		{"c1us,s4096,d2ms#x", "", "core; core; wait 2ms", ""},
		{"m4096,e3,l1:1us,x3,c1us", "", "enter 3; lock 1; core; unlock 1; leave 3; core", ""},
		{"e3,e3,c1us", "", "enter 3; core; leave 3", ""},
		{"e3,m65536,d1ms,x3", "wait 1ms", "enter 3; wait 1ms; leave 3", "stopped"},
		{"l1:1us,c1us", "core", "lock 1; core; unlock 1", "stopped"},
		{"e1,e2,c1us", "enter 2", "enter 1; enter 2; leave 1", "stopped"},
		{"l1:1us", "lock 1", "lock 1", "stopped"},
		{"m2097152", "", "", "out of memory"},
		{"q1", "", "", "a step begins with"},
		{"c20s", "", "", "for longer than"},
	} {
		s := &site{stop: c.stop}
		err := h.Run([]byte(c.key), s)
		if got := strings.Join(s.said, "; "); got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q and %v, want %q and %q", c.key, got, err, c.want, c.err)
		}
		var malformed *synthetic.Malformed
		if wrong := c.key == "q1" || c.key == "c20s"; errors.As(err, &malformed) != wrong {
			t.Errorf("%s: %T", c.key, err)
		}
	}
	h.Stats(func(name string, value uint64) bool {
		if want, ok := map[string]uint64{"memory_held": 0, "cmd_get": 3, "wrong_keys": 2, "bytes_moved": 4096}[name]; ok && value != want {
			t.Errorf("%s is %d, want %d", name, value, want)
		}
		return true
	})
}
