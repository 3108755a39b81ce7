//go:build linux

package servers

import (
	"net/http"

	"spillway/internal/metrics"
)

// MetricsHandler returns the /metrics page of s.
func (s *Server) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Page(s.figures))
	return mux
}

// figures reads what the page shows.
func (s *Server) figures() metrics.Figures {
	n := s.dispatch.count()
	received, sent := s.traffic()
	f := metrics.Figures{
		Control: s.config.Control,
		Gate:    n.gate, QueueDelay: n.queueDelay, Queueing: n.queueing, Service: n.service,
		Connections: s.conns.Load(), Accepted: s.total.Load(), Turned: s.turned.Load(), Traffic: &metrics.Traffic{Received: received, Sent: sent},
		Store: s.backend.Stats,
	}
	for i := range n.classes {
		f.Classes = append(f.Classes, metrics.Class{Name: s.dispatch.classes.names[i], Arrived: n.classes[i].arrived, Shed: n.classes[i].shed})
	}
	f.Meters = func(yield func(string, float64) bool) {
		for _, m := range n.meters {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
	return f
}
