package bouncer

import (
	"time"

	"spillway/clock"
)

// maxSteps bounds the memory of shares.
const maxSteps = 10_000

// shares counts how many requests of each class came and were admitted over the last stretch of time, which moves on in steps.
type shares struct {
	step   time.Duration
	ring   []tally // the steps of class 0, those of class 1, and so on
	steps  int
	at     int64   // the number of the current step since the run began
	totals []tally // over all steps, by class
	mean   [2]float64
}

type tally struct{ received, accepted uint32 }

func newShares(classes int, history, step time.Duration) shares {
	steps := int(history / step)
	return shares{step: step, steps: steps, ring: make([]tally, classes*steps), totals: make([]tally, classes)}
}

// slot returns the current step of class i.
func (s *shares) slot(i int) *tally { return &s.ring[i*s.steps+int(s.at%int64(s.steps))] }

// receive counts an arrival.
func (s *shares) receive(now clock.Instant, i int) {
	s.advance(int64(now) / int64(s.step))
	s.slot(i).received++
	s.totals[i].received++
}

// accept counts an admission of what has just been received.
func (s *shares) accept(i int) {
	s.slot(i).accepted++
	s.totals[i].accepted++
}

// advance moves on to a step and forgets what has become too old.
func (s *shares) advance(to int64) {
	if to <= s.at {
		return
	}
	if to-s.at >= int64(s.steps) {
		clear(s.ring)
		clear(s.totals)
		s.at = to
	}
	for s.at < to {
		s.at++
		for i := range s.totals {
			old := s.slot(i)
			s.totals[i].received -= old.received
			s.totals[i].accepted -= old.accepted
			*old = tally{}
		}
	}
	s.average()
}

// average works out the average share, once a step: of the classes of which something came, and of all requests.
func (s *shares) average() {
	var sum float64
	var active int
	var pooled tally
	for i := range s.totals {
		t := &s.totals[i]
		if t.received == 0 {
			continue
		}
		active++
		sum += t.share()
		pooled.received += t.received
		pooled.accepted += t.accepted
	}
	s.mean[0] = sum / max(float64(active), 1)
	s.mean[1] = pooled.share()
}

func (t *tally) share() float64 { return float64(t.accepted) / max(float64(t.received), 1) }

// below reports whether less than the share a of class i has been admitted, the request in question counted as not.
func (s *shares) below(i int, a float64) bool {
	t := &s.totals[i]
	return float64(t.accepted) < a*float64(t.received)
}

// lag returns by how much of the average share that of class i is behind it, from 0 to 1.
func (s *shares) lag(i int, pooled bool) float64 {
	mean := s.mean[0]
	if pooled {
		mean = s.mean[1]
	}
	if mean <= 0 {
		return 0
	}
	return max((mean-s.totals[i].share())/mean, 0)
}
