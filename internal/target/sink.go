//go:build linux

package target

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// Sink is a target without a server: it answers everything as soon as it is flushed, and waits as the real client does. What a run against
// it shows is the pacing of this computer alone.
type Sink struct {
	clock   clock.Clock
	settle  func(*reqlog.Record)
	spin    time.Duration
	poller  *poll.Poller
	pending []reqlog.Record
}

var _ load.Target = (*Sink)(nil)

// NewSink returns a sink; the arguments are as in Config.
func NewSink(c clock.Clock, settle func(*reqlog.Record), spin time.Duration) (*Sink, error) {
	poller, err := poll.New()
	if err != nil {
		return nil, err
	}
	return &Sink{clock: c, settle: settle, spin: spin, poller: poller}, nil
}

// Issue takes a request.
func (s *Sink) Issue(_ clock.Instant, rec *reqlog.Record, _ *workloads.Op, _ uint32) {
	s.pending = append(s.pending, *rec)
}

// Flush answers all that were issued.
func (s *Sink) Flush(clock.Instant) {
	now := s.clock.Now()
	for i := range s.pending {
		rec := &s.pending[i]
		rec.Sent, rec.Attempts = now, 1
		load.Judge(rec, load.Reply{At: now, Queued: -1, Service: -1}, 0)
		s.settle(rec)
	}
	s.pending = s.pending[:0]
}

// Wait waits.
func (s *Sink) Wait(until clock.Instant) {
	var events [1]poll.Event
	for {
		now := s.clock.Now()
		pause := time.Duration(0)
		if s.spin != load.SpinAlways {
			pause = max(clock.Wall(s.clock, until.Sub(now))-s.spin, 0)
		}
		if _, _, err := s.poller.Wait(events[:], pause); err != nil {
			panic(fmt.Sprintf("target: %v", err))
		}
		if now >= until {
			return
		}
	}
}

// Close frees the poller.
func (s *Sink) Close() error {
	s.Flush(s.clock.Now())
	return s.poller.Close()
}
