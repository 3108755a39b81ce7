//go:build linux

package memcached

import (
	"spillway/internal/memproto"
	"spillway/servers"
)

// memorySection is the number of the section that reads of large values go through.
const memorySection = 0

// Sectioned is a Backend under an overload control that reaches into service: a read of a large value goes through the memory section before the
// value is touched, and commands queue, where Config.LockQueues says so, for the lock of their item's shard before they take it. What needs
// neither is better served by the Backend itself, whose commands run to completion without asking anybody.
type Sectioned struct{ *Backend }

var (
	_ servers.Waiting    = Sectioned{}
	_ servers.Ordered    = Sectioned{}
	_ servers.Accountant = Sectioned{}
)

// Step executes a command once it may go where it has to. A call that waits holds nothing of the store's.
func (s Sectioned) Step(c servers.Call) (servers.Pause, error) {
	if c.Gone() {
		return servers.Pause{}, nil
	}
	cmd := c.Command()
	switch {
	case s.readsLarge(cmd):
		// It has the lock of its shard for as long as it takes to find and pin the item, and does not queue for that.
		if in, pause := c.Enter(memorySection); !in {
			return pause, nil
		}
	case s.config.LockQueues && len(cmd.Key) > 0:
		if has, pause := c.Lock(s.cache.ShardOf(cmd.Key)); !has {
			return pause, nil
		}
	}
	return servers.Pause{}, s.Do(cmd, c.Reply())
}

// Cancel ends a call that waits: there is nothing to release.
func (Sectioned) Cancel(servers.Call) bool { return true }

// Alone has whatever changes something keep its place among the commands of its connection: a client that sends a set and a get finds what it
// stored.
func (Sectioned) Alone(cmd *memproto.Command) bool {
	switch cmd.Verb {
	case memproto.Get, memproto.Gets:
		return false
	case memproto.MetaGet:
		return cmd.HasTTL || cmd.HasVivify || cmd.HasRecache
	}
	return true
}

// readsLarge reports whether a command asks for a value that has to go through the memory section. Nothing is counted as an access: should the
// command be refused, it never took place.
func (b *Backend) readsLarge(cmd *memproto.Command) bool {
	if b.config.Large == 0 || !cmd.Verb.Retrieval() {
		return false
	}
	if cmd.Verb == memproto.MetaGet {
		return cmd.WantValue && b.ValueSize(cmd.Key) >= b.config.Large
	}
	for key := range cmd.ItemKeys {
		if b.ValueSize(key) >= b.config.Large {
			return true
		}
	}
	return false
}
