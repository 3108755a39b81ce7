package main

import (
	"testing"

	"spillway/control"
	"spillway/control/memsem"
	"spillway/servers"
	"spillway/servers/memcached"
)

// TestWhatIsServed: the store itself, unless the controller reaches into service; and as many slots as loops where nobody waits halfway.
func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		stack  control.Stack
		change func(*memcached.Config, *servers.Config)
		inside bool
		slots  int
	}{
		{"no section", control.Stack{}, func(*memcached.Config, *servers.Config) {}, false, 0},
		{"a section", control.Stack{Memory: new(memsem.Semaphore)}, func(*memcached.Config, *servers.Config) {}, true, 3},
		{"slots that were asked for", control.Stack{Memory: new(memsem.Semaphore)}, func(_ *memcached.Config, c *servers.Config) { c.Slots = 9 }, true, 9},
		{"one that is waited for", control.Stack{Memory: new(memsem.Semaphore), Mode: control.WaitMode}, func(*memcached.Config, *servers.Config) {}, true, 0},
		{"nothing is large", control.Stack{Memory: new(memsem.Semaphore)}, func(c *memcached.Config, _ *servers.Config) { c.Large = 0 }, false, 0},
		{"lock queues", control.Stack{}, func(c *memcached.Config, _ *servers.Config) { c.LockQueues = true }, true, 0},
		{"a modelled machine", control.Stack{Memory: new(memsem.Semaphore)}, func(_ *memcached.Config, c *servers.Config) { c.Model = new(servers.Model) }, false, 0},
	} {
		store, front := memcached.DefaultConfig(), servers.Default()
		front.Loops = 3
		tc.change(&store, &front)
		_, inside := sectioned(nil, &store, tc.stack, &front).(memcached.Sectioned)
		if inside != tc.inside || front.Slots != tc.slots {
			t.Errorf("%s: under control inside %v, %d slots; want %v and %d", tc.name, inside, front.Slots, tc.inside, tc.slots)
		}
	}
}
