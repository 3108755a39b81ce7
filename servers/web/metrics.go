//go:build linux

package web

import (
	"maps"
	"net/http"

	"spillway/internal/metrics"
)

// timing is a histogram of durations.
type timing = metrics.Timing

// newMetrics returns the /metrics page, whose names are those of the other servers.
func newMetrics(s *Server) http.Handler { return metrics.Page(s.shown) }

// shown reads what the page shows.
func (s *Server) shown() metrics.Figures {
	delay, _ := s.cores.look(s.clock.Now())
	f := metrics.Figures{
		Control: s.config.Control,
		Gate:    s.guard.Stats(), QueueDelay: max(delay, s.guard.QueueDelay()), Meters: maps.All(s.guard.Meters()),
		Connections: s.connections.open.Load(), Accepted: s.connections.total.Load(), Turned: s.connections.turned.Load(),
	}
	var classes []classFigures
	classes, f.Queueing, f.Service = s.figures.read()
	for i := range classes {
		f.Classes = append(f.Classes, metrics.Class{Name: s.config.Classes[i], Arrived: classes[i].arrived, Shed: classes[i].shed})
	}
	sums := map[string]uint64{}
	for _, service := range s.services {
		for name, value := range service.Stats {
			sums[name] += value
		}
	}
	f.Store = maps.All(sums)
	return f
}
