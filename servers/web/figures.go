//go:build linux

package web

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"spillway/control"
)

// figures are what became of requests.
type figures struct {
	mu struct {
		sync.Mutex
		classes  []classFigures
		queueing timing
		service  timing
	}
}

// classFigures are those of one class.
type classFigures struct {
	arrived uint64
	shed    [control.NumReasons]uint64
}

func (f *figures) init(classes int) { f.mu.classes = make([]classFigures, classes) }

func (f *figures) arrive(class uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.classes[class].arrived++
}

func (f *figures) shed(class uint16, why control.Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.classes[class].shed[why]++
}

func (f *figures) finish(queued, service time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.queueing.Add(queued)
	f.mu.service.Add(service)
}

func (f *figures) read() (classes []classFigures, queueing, service timing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]classFigures(nil), f.mu.classes...), f.mu.queueing, f.mu.service
}

// stats returns every figure by name: those of the services in memcached's names, those of overload control as the other servers have them under
// "stats spillway".
func (s *Server) stats() map[string]float64 {
	all := map[string]float64{}
	for _, service := range s.services {
		for name, value := range service.Stats {
			all[name] += float64(value)
		}
	}
	gate := s.guard.Stats()
	all["arrivals"], all["started"], all["finished"], all["failed"] = float64(gate.Arrived), float64(gate.Started), float64(gate.Finished), float64(gate.Failed)
	all["in_service"], all["queued"], all["max_queued"] = float64(gate.InService), float64(gate.Queued), float64(gate.MaxQueued)
	classes, queueing, service := s.figures.read()
	for i := range classes {
		all["arrivals_"+s.config.Classes[i]] = float64(classes[i].arrived)
		for r := control.NoReason + 1; r < control.NumReasons; r++ {
			all["shed_"+r.String()] += float64(classes[i].shed[r])
			all["shed_"+s.config.Classes[i]+"_"+r.String()] = float64(classes[i].shed[r])
		}
	}
	delay, _ := s.cores.look(s.clock.Now())
	all["queue_delay_us"] = float64(max(delay, s.guard.QueueDelay()).Microseconds())
	all["queue_mean_us"], all["service_mean_us"] = float64(queueing.Mean().Microseconds()), float64(service.Mean().Microseconds())
	all["curr_connections"], all["total_connections"] = float64(s.connections.open.Load()), float64(s.connections.total.Load())
	all["rejected_connections"], all["max_connections"] = float64(s.connections.turned.Load()), float64(s.config.MaxConns)
	for name, value := range s.guard.Meters() {
		all["meter_"+name] = value
	}
	if s.extra != nil {
		for name, value := range s.extra {
			all[name] = value
		}
	}
	return all
}

func (s *Server) serveStats(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s.stats()) // whoever does not take it has gone
}
