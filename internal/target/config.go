//go:build linux

package target

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/reqlog"
)

// Config says where requests go and how.
type Config struct {
	Addr        string               // memcached://host:port or memcached:///path.sock; several are used in turn, see Resolve
	Conns       int                  // connections; client i uses connection i mod Conns
	Shard       int                  // of Shards senders, which one this is: it has the connections whose number is Shard modulo Shards
	Shards      int                  // 0 means 1
	MaxConns    int                  // up to how many connections there may be, of all senders, once those asked for have their Window; 0 means Conns
	Window      int                  // bound on requests under way on one connection, beyond which they are unsent; 0 means DefaultWindow
	Clock       clock.Clock          // of the run
	Timeout     time.Duration        // from the intended instant, after which the client stops waiting
	SLOs        []time.Duration      // latency limit by class, 0 for none
	Settle      func(*reqlog.Record) // is handed each record once; the record is valid during the call
	Spin        time.Duration        // how long before an instant Wait polls instead of sleeping; load.SpinAlways for all the time
	DialTimeout time.Duration        // for establishing one connection; 0 means DefaultDialTimeout
	Timings     bool                 // ask for the server's queueing delay and service time, which memcached does not tell
	Model       *Model               // the server runs on a modelled machine; nil for a real one. Clock is then a stretched one

	// NewClient returns the half of the overload control that every client has for every server; nil when clients just send. Each client then
	// has one connection to each of its servers, which is what the server knows it by: Conns is the number of clients, and none are added.
	// rng is drawn from Seed, the number of the client and that of the server.
	NewClient  func(rng *rand.Rand) *control.Outbox
	Seed       uint64
	Priorities []uint8 // business priority by class, 0 the most important, which requests say; nil when they say none

	// Retry is of requests that were refused; nil for none. Addr then lists the servers in their order, and every client is connected to each.
	Retry *load.Retry
}

// Values for what a Config leaves open.
const (
	// DefaultWindow lets a queue form at the server, as open loop demands, rather than at the client. Memory for it is taken
	// when it is needed.
	DefaultWindow = 1 << 16
	// Most bounds connections, and requests under way on one of them: what one server's port and one process's descriptors may allow.
	Most               = 1 << 16
	DefaultDialTimeout = 5 * time.Second
)

func (c *Config) check() error {
	switch {
	case c.Clock == nil || c.Settle == nil:
		return errors.New("target: a clock and a function to settle records are needed")
	case c.Conns < 1:
		return fmt.Errorf("%d connections: at least one is needed", c.Conns)
	case c.Window < 0 || c.Window > Most:
		return fmt.Errorf("window of %d requests a connection: must be between 0, for the default, and %d", c.Window, Most)
	case c.Conns > Most || c.MaxConns > Most || c.MaxConns != 0 && c.MaxConns < c.Conns:
		return fmt.Errorf("%d connections, at most %d: must not fall and not be above %d", c.Conns, c.MaxConns, Most)
	case c.Shard < 0 || c.Shard >= c.Shards || c.Conns < c.Shards:
		return fmt.Errorf("sender %d of %d with %d connections: each sender needs one", c.Shard, c.Shards, c.Conns)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout %v: must be longer than 0", c.Timeout)
	case c.Retry != nil:
		return c.Retry.Check(len(split(c.Addr)))
	}
	return nil
}

// controlled reports whether requests may wait at their clients, or be sent twice.
func (c *Config) controlled() bool { return c.NewClient != nil || c.Retry != nil }

// judge decides a record's fate and hands it over.
func (c *Config) judge(rec *reqlog.Record, r load.Reply) {
	var slo time.Duration
	if int(rec.Class) < len(c.SLOs) {
		slo = c.SLOs[rec.Class]
	}
	load.Judge(rec, r, slo)
	c.Settle(rec)
}
