//go:build linux

package target

import (
	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// asks returns what a request says that leaves its client at an instant, except for its demand.
func (m *MemcachedTarget) asks(rec *reqlog.Record, left clock.Instant) memproto.Asks {
	asks := memproto.Asks{Timings: m.cfg.Timings}
	if m.cfg.Model != nil {
		// How late it really leaves is part of its time on the network.
		asks.Timed, asks.Sent, asks.Patience = true, int64(left), int64(m.patience())
	}
	if m.cfg.Priorities != nil {
		asks.HasPriority, asks.Priority = true, m.priority(rec)
	}
	return asks
}

// priority returns that of a request. Without users of their own, requests stand for users.
func (m *MemcachedTarget) priority(rec *reqlog.Record) uint16 {
	var business uint8
	if int(rec.Class) < len(m.cfg.Priorities) {
		business = m.cfg.Priorities[rec.Class]
	}
	return control.PriorityOf(business, rec.Seq)
}

// encode appends a request to the buffer of a connection.
func (m *MemcachedTarget) encode(c *conn, rec *reqlog.Record, op *workloads.Op, asks memproto.Asks) {
	opaque := rec.Seq
	if m.cfg.Model != nil {
		opaque = c.pending.tail // replies may come out of order; it finds the place of the request
	}
	switch op.Kind {
	case workloads.Get:
		c.out = memproto.AppendMetaGet(c.out, op.Key, opaque, asks)
	case workloads.Set:
		c.out = memproto.AppendMetaSet(c.out, op.Key, op.Value, int64(op.Expire), opaque, asks)
	case workloads.Delete:
		c.out = memproto.AppendMetaDelete(c.out, op.Key, opaque, asks)
	case workloads.MultiGet:
		c.out = memproto.AppendGet(c.out, op.Key, op.More)
	default:
		panic("target: operation of an unknown kind")
	}
}
