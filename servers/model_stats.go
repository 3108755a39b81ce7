//go:build linux

package servers

import "strconv"

// modelStats yields the figures of the modelled machine, as of the instant up to which it has moved.
func (s *Server) modelStats(yield func(name, value string) bool) bool {
	m := s.model
	s.dispatch.mu.Lock()
	hw, at := m.station.Machine(), m.upTo
	busy := int64(hw.BusyTime(at))
	rows := []struct {
		name  string
		value int64
	}{
		{"model_scale", int64(m.clock.Scale())},
		{"model_now_ns", int64(m.base + at)},
		{"model_cores", int64(hw.Spec().Cores)},
		{"model_network_ns", int64(m.network)},
		{"model_busy_ns", busy},
		{"model_busy_cores", int64(hw.BusyCores())},
		{"model_bytes_moved", int64(hw.BytesMoved(at))},
		{"model_streams", int64(hw.Streams())},
		{"model_run_queue", int64(hw.QueueLen())},
		{"model_queue_delay_us", m.station.QueueDelay(at).Microseconds()},
		{"model_ram_bytes", hw.RAM()},
		{"model_held", int64(m.held.Len())},
		{"model_late", int64(m.late)},
		{"model_late_max_us", m.lateMax.Microseconds()},
		{"model_strange", int64(m.strange)},
	}
	s.dispatch.mu.Unlock()
	for _, r := range rows {
		if !yield(r.name, strconv.FormatInt(r.value, 10)) {
			return false
		}
	}
	return true
}
