package metrics

import (
	"iter"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spillway/control"
)

// Figures are those of a server at one instant.
type Figures struct {
	Control           string // name of the controller; "" for one that nobody named
	Gate              control.Stats
	Classes           []Class
	QueueDelay        time.Duration
	Queueing, Service Timing
	Meters            iter.Seq2[string, float64] // of the controller

	Connections      int64
	Accepted, Turned uint64   // connections ever; those that were turned away
	Traffic          *Traffic // nil where nobody counts it

	Store iter.Seq2[string, uint64] // by name in memcached's stats where it has one
}

// Class is one class of requests.
type Class struct {
	Name    string
	Arrived uint64
	Shed    [control.NumReasons]uint64
}

// Traffic is the bytes of all connections so far.
type Traffic struct{ Received, Sent uint64 }

// Page returns the page. read is called when it is asked for; nothing is kept up for it on the request path.
func Page(read func() Figures) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{read}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

type collector struct{ read func() Figures }

var (
	descArrivals   = desc("arrivals_total", "Requests that came to the gate.")
	descStarted    = desc("started_total", "Requests that were given a slot.")
	descFinished   = desc("finished_total", "Requests that have been served, the failed ones included.")
	descFailed     = desc("failed_total", "Requests whose execution failed.")
	descShed       = desc("shed_total", "Requests that were refused, by class and reason.", "class", "reason")
	descClass      = desc("class_arrivals_total", "Requests that came to the gate, by class.", "class")
	descInService  = desc("in_service", "Requests that hold a slot.")
	descQueued     = desc("queued", "Requests that wait in the gate.")
	descInFlight   = desc("in_flight", "Requests admitted and not yet finished: queued and in service.")
	descDelay      = desc("queue_delay_seconds", "Age of the oldest request that waits, 0 when none does.")
	descQueueing   = desc("queueing_seconds", "Time from arrival to the start of execution, of requests that were started and have ended.")
	descService    = desc("service_seconds", "Time from start to end of execution, of requests that were started and have ended, those dropped halfway among them.")
	descControl    = desc("control_info", "Which controller the server has; always 1.", "control")
	descMeter      = desc("controller_meter", "What the controller shows of itself.", "meter")
	descConns      = desc("connections", "Open connections.")
	descConnsTotal = desc("connections_total", "Connections accepted.")
	descConnsTurn  = desc("connections_rejected_total", "Connections turned away at the connection limit.")
	descReceived   = desc("received_bytes_total", "Bytes read from connections.")
	descSent       = desc("sent_bytes_total", "Bytes written to connections.")
	descStore      = desc("store", "The store's figures, by their name in memcached's stats; bytes and curr_items among them.", "stat")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spillway_"+name, help, labels, nil)
}

// Describe sends nothing: the collector is unchecked, because which meters there are depends on the controller.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the figures.
func (c collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	f := c.read()
	if f.Control != "" {
		gauge(descControl, 1, f.Control)
	}
	g := &f.Gate
	counter(descArrivals, g.Arrived)
	counter(descStarted, g.Started)
	counter(descFinished, g.Finished)
	counter(descFailed, g.Failed)
	for i := range f.Classes {
		class := &f.Classes[i]
		counter(descClass, class.Arrived, class.Name)
		for r := control.NoReason + 1; r < control.NumReasons; r++ {
			counter(descShed, class.Shed[r], class.Name, r.String())
		}
	}
	gauge(descInService, float64(g.InService))
	gauge(descQueued, float64(g.Queued))
	gauge(descInFlight, float64(g.Queued+g.InService))
	gauge(descDelay, f.QueueDelay.Seconds())
	out <- f.Queueing.metric(descQueueing)
	out <- f.Service.metric(descService)
	for name, value := range f.Meters {
		gauge(descMeter, value, name)
	}
	gauge(descConns, float64(f.Connections))
	counter(descConnsTotal, f.Accepted)
	counter(descConnsTurn, f.Turned)
	if f.Traffic != nil {
		counter(descReceived, f.Traffic.Received)
		counter(descSent, f.Traffic.Sent)
	}
	for name, value := range f.Store {
		out <- prometheus.MustNewConstMetric(descStore, prometheus.UntypedValue, float64(value), name)
	}
}

// metric renders t as a histogram in seconds.
func (t *Timing) metric(d *prometheus.Desc) prometheus.Metric {
	buckets := make(map[float64]uint64, timingBuckets)
	sum := uint64(0)
	for i, n := range t.buckets {
		sum += n
		buckets[(time.Duration(1<<i) * time.Microsecond).Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(d, t.count, t.sum.Seconds(), buckets)
}
