//go:build linux

package servers

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spillway/control"
	"spillway/internal/memproto"
	"spillway/internal/metrics"
)

// counts are the figures of the dispatcher at one instant.
type counts struct {
	gate       control.Stats
	ready      int // started, and not yet executed
	queueDelay time.Duration
	queueing   metrics.Timing
	service    metrics.Timing
	classes    []classCounts
	meters     []meter
}

type meter struct {
	name  string
	value float64
}

// count reads the dispatcher's figures. The loops wait meanwhile, for as long as a few hundred bytes take to copy.
func (d *dispatch) count() counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.at(d.clock.Now())
	c := counts{
		gate: d.mu.gate.Stats(), ready: d.mu.ready.n, queueDelay: d.mu.gate.QueueDelay(now),
		queueing: d.mu.queueing, service: d.mu.service, classes: slices.Clone(d.mu.classes),
	}
	c.queueDelay = max(c.queueDelay, d.runQueueDelay(now))
	if d.meter != nil {
		for name, value := range d.meter.Meters() {
			c.meters = append(c.meters, meter{name: name, value: value})
		}
	}
	return c
}

func writeStats(w *memproto.Writer, stats iter.Seq2[string, string]) {
	for name, value := range stats {
		w.Stat(name, value)
	}
	w.Line("END")
}

// stats yields what the plain stats command shows, in memcached's names and meaning.
func (s *Server) stats() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		var usage unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // cannot fail with these arguments
		now := time.Now()
		received, sent := s.traffic()
		yields, kicks := s.events()
		accepting := "1"
		if !s.accepting.Load() {
			accepting = "0"
		}
		number := func(v uint64) string { return strconv.FormatUint(v, 10) }
		for _, row := range [][2]string{
			{"pid", strconv.Itoa(os.Getpid())},
			{"uptime", strconv.FormatInt(int64(now.Sub(s.clock.Began()).Seconds()), 10)},
			{"time", strconv.FormatInt(now.Unix(), 10)},
			{"version", s.config.Version},
			{"pointer_size", strconv.Itoa(strconv.IntSize)},
			{"rusage_user", fmt.Sprintf("%d.%06d", usage.Utime.Sec, usage.Utime.Usec)},
			{"rusage_system", fmt.Sprintf("%d.%06d", usage.Stime.Sec, usage.Stime.Usec)},
			{"max_connections", strconv.Itoa(s.config.MaxConns)},
			{"curr_connections", strconv.FormatInt(s.conns.Load(), 10)},
			{"total_connections", number(s.total.Load())},
			{"rejected_connections", number(s.turned.Load())},
			{"auth_cmds", "0"},
			{"auth_errors", "0"},
			{"bytes_read", number(received)},
			{"bytes_written", number(sent)},
			{"accepting_conns", accepting},
			{"listen_disabled_num", number(s.disabled.Load())},
			{"time_in_listen_disabled_us", number(s.disabled.Load() * uint64(acceptPause.Microseconds()))},
			{"threads", strconv.Itoa(len(s.loops))},
			{"conn_yields", number(yields)},
		} {
			if !yield(row[0], row[1]) {
				return
			}
		}
		if s.config.IdleTimeout > 0 && !yield("idle_kicks", number(kicks)) {
			return
		}
		for name, value := range s.backend.Stats {
			if !yield(name, number(value)) {
				return
			}
		}
	}
}

// spillwayStats yields the figures of overload control. Sheds are listed by reason, those that did not happen too, so that whoever
// adds them up finds every name. What was dropped halfway, at a section or a lock, has been started too: it is among the failed.
func (s *Server) spillwayStats() iter.Seq2[string, string] {
	c := s.dispatch.count()
	return func(yield func(string, string) bool) {
		row := func(name string, value uint64) bool { return yield(name, strconv.FormatUint(value, 10)) }
		g := &c.gate
		if s.config.Control != "" && !yield("control", s.config.Control) {
			return
		}
		if !row("arrivals", g.Arrived) || !row("started", g.Started) || !row("finished", g.Finished) || !row("failed", g.Failed) ||
			!row("in_service", uint64(g.InService)) || !row("queued", uint64(g.Queued)) || !row("max_queued", uint64(g.MaxQueued)) {
			return
		}
		for r := control.NoReason + 1; r < control.NumReasons; r++ {
			sum := uint64(0)
			for i := range c.classes {
				sum += c.classes[i].shed[r]
			}
			if !row("shed_"+r.String(), sum) {
				return
			}
		}
		if !classStats(s.dispatch.classes.names, c.classes, row) {
			return
		}
		if !row("queue_delay_us", uint64(c.queueDelay.Microseconds())) || !row("queue_mean_us", uint64(c.queueing.Mean().Microseconds())) ||
			!row("service_mean_us", uint64(c.service.Mean().Microseconds())) {
			return
		}
		if s.dispatch.moved != nil && !row("accounted_bytes", s.dispatch.moved.BytesMoved()) {
			return
		}
		for _, m := range c.meters {
			if !yield("meter_"+m.name, strconv.FormatFloat(m.value, 'g', -1, 64)) {
				return
			}
		}
		if s.model != nil {
			s.modelStats(yield)
		}
	}
}

// traffic returns the bytes read and written by all loops.
func (s *Server) traffic() (received, sent uint64) {
	for _, l := range s.loops {
		received += l.bytesRead.Load()
		sent += l.bytesWritten.Load()
	}
	return received, sent
}

// events returns how often a connection had to wait because too much of it was pending, and how many were closed for being idle.
func (s *Server) events() (yields, idleKicks uint64) {
	for _, l := range s.loops {
		yields += l.yields.Load()
		idleKicks += l.idleKicks.Load()
	}
	return yields, idleKicks
}
