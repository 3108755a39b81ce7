//go:build linux

package web

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spillway/control"
)

// newMetrics returns the /metrics page.
func newMetrics(s *Server) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads a server's figures when the page is asked for; the names are those of the other servers.
type collector struct{ server *Server }

var (
	descArrivals  = desc("arrivals_total", "Requests that came to the gate.")
	descStarted   = desc("started_total", "Requests that were given a slot.")
	descFinished  = desc("finished_total", "Requests that have been served, the failed ones included.")
	descFailed    = desc("failed_total", "Requests whose execution failed.")
	descShed      = desc("shed_total", "Requests that were refused, by class and reason.", "class", "reason")
	descClass     = desc("class_arrivals_total", "Requests that came to the gate, by class.", "class")
	descInService = desc("in_service", "Requests that hold a slot.")
	descQueued    = desc("queued", "Requests that wait in the gate.")
	descDelay     = desc("queue_delay_seconds", "Age of the oldest request that waits, 0 when none does.")
	descQueueing  = desc("queueing_seconds", "Time from arrival to the start of service, of finished requests.")
	descService   = desc("service_seconds", "Time from start to end of service, of finished requests.")
	descMeter     = desc("controller_meter", "What the controller shows of itself.", "meter")
	descConns     = desc("connections", "Open connections.")
	descConnTotal = desc("connections_total", "Connections accepted.")
	descConnsTurn = desc("connections_rejected_total", "Connections turned away at the connection limit.")
	descStore     = desc("store", "The services' figures, by their name in memcached's stats where it has one.", "stat")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spillway_"+name, help, labels, nil)
}

// Describe sends nothing: the collector is unchecked, because which meters there are depends on the controller.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the figures.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.server
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gate := s.guard.Stats()
	counter(descArrivals, gate.Arrived)
	counter(descStarted, gate.Started)
	counter(descFinished, gate.Finished)
	counter(descFailed, gate.Failed)
	gauge(descInService, float64(gate.InService))
	gauge(descQueued, float64(gate.Queued))
	delay, _ := s.cores.look(s.clock.Now())
	gauge(descDelay, max(delay, s.guard.QueueDelay()).Seconds())
	classes, queueing, service := s.figures.read()
	for i := range classes {
		counter(descClass, classes[i].arrived, s.config.Classes[i])
		for r := control.NoReason + 1; r < control.NumReasons; r++ {
			counter(descShed, classes[i].shed[r], s.config.Classes[i], r.String())
		}
	}
	out <- queueing.metric(descQueueing)
	out <- service.metric(descService)
	for name, value := range s.guard.Meters() {
		gauge(descMeter, value, name)
	}
	gauge(descConns, float64(s.connections.open.Load()))
	counter(descConnTotal, s.connections.total.Load())
	counter(descConnsTurn, s.connections.turned.Load())
	sums := map[string]uint64{}
	for _, service := range s.services {
		for name, value := range service.Stats {
			sums[name] += value
		}
	}
	for name, value := range sums {
		out <- prometheus.MustNewConstMetric(descStore, prometheus.UntypedValue, float64(value), name)
	}
}

// metric renders t as a histogram in seconds.
func (t *timing) metric(d *prometheus.Desc) prometheus.Metric {
	buckets := make(map[float64]uint64, timingBuckets)
	sum := uint64(0)
	for i, n := range t.buckets {
		sum += n
		buckets[(time.Duration(1<<i) * time.Microsecond).Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(d, t.count, t.sum.Seconds(), buckets)
}
