package dagor

import (
	"time"

	"spillway/clock"
)

// histogram is what the form paper knows of one window.
type histogram struct {
	counts   []uint32 // arrivals by level
	admitted int
	waits    time.Duration // sum over those that started
	started  int
	lastMean time.Duration // of the window before, to be plotted
}

func (h *histogram) arrive(level int, admitted bool) {
	h.counts[level]++
	if admitted {
		h.admitted++
	}
}

func (h *histogram) wait(d time.Duration) {
	h.waits += d
	h.started++
}

func (h *histogram) mean() time.Duration {
	if h.started == 0 {
		return 0
	}
	return h.waits / time.Duration(h.started)
}

func (h *histogram) clear() {
	clear(h.counts)
	h.admitted, h.waits, h.started = 0, 0, 0
}

// closeWindow moves the level to where the arrivals of the window would have been the wanted number, and begins another window. A window
// without arrivals says nothing.
func (s *Server) closeWindow(now clock.Instant) {
	h := &s.window
	if s.arrivals > 0 {
		h.lastMean = h.mean()
		if h.lastMean > s.threshold {
			s.lower((1 - s.config.Alpha) * float64(h.admitted))
		} else {
			s.raise(float64(h.admitted) + s.config.Beta*float64(s.arrivals))
		}
	}
	h.clear()
	s.arrivals, s.last = 0, now
}

// lower moves the level down until at most want of the window's arrivals would have been admitted. The most important level stays.
func (s *Server) lower(want float64) {
	level := s.Level()
	for admitted := s.window.admitted; float64(admitted) > want && level > 0; level-- {
		admitted -= int(s.window.counts[level])
	}
	s.level = float64(level)
}

// raise moves the level up until at least want would have been admitted, or there is nothing to be seen further up.
func (s *Server) raise(want float64) {
	level, unseen := s.Level(), 0
	for admitted := s.window.admitted; float64(admitted) < want && level < s.levels-1; {
		level++
		n := int(s.window.counts[level])
		admitted += n
		if n == 0 {
			unseen++
		}
		if unseen > 0 && unseen == s.config.Unseen {
			break
		}
	}
	s.level = float64(level)
}
