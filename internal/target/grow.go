//go:build linux

package target

import (
	"spillway/clock"
	"spillway/internal/poll"
)

// An open loop sends whether or not the replies have come. When the connection of a client has its bound of requests under way, the next
// one takes another connection, as a client with a pool would: one of those that were added before and has room, or a new one. The new
// one is established without waiting for it; its requests leave when it stands. Only when there may be no more is a request unsent.

// another returns a connection that takes a request in place of c, or nil if there may be no more.
func (m *MemcachedTarget) another(c *conn, now clock.Instant) *conn {
	for len(m.roomy) > 0 {
		last := len(m.roomy) - 1
		other := m.roomy[last]
		if other.State != poll.Down && !other.full(m.cfg.Window) {
			return other
		}
		other.roomy = false
		m.roomy = m.roomy[:last]
	}
	if m.added() >= m.mayAdd() {
		return nil
	}
	fresh := &conn{Conn: c.Another(uint64(len(m.conns))), added: true, fresh: true}
	m.conns = append(m.conns, fresh)
	m.counters.Grown++
	m.connect(fresh, now)
	m.offer(fresh)
	if fresh.State == poll.Down {
		return nil
	}
	return fresh
}

func (m *MemcachedTarget) added() int { return len(m.conns) - m.own }

// mayAdd returns this sender's part of the connections that may be added.
func (m *MemcachedTarget) mayAdd() int {
	all := max(m.cfg.MaxConns-m.cfg.Conns, 0)
	part := all / m.cfg.Shards
	if m.cfg.Shard < all%m.cfg.Shards {
		part++
	}
	return part
}

// offer lets an added connection take requests again.
func (m *MemcachedTarget) offer(c *conn) {
	if c.added && !c.roomy && c.State != poll.Down {
		c.roomy = true
		m.roomy = append(m.roomy, c)
	}
}
