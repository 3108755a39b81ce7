package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// metric is a number of a point that a claim can be about.
type metric struct {
	name string
	less bool // is better
	unit unit
	of   func(*Row) Value // of one repeat; nil for what comes from the trace

	percentile float64 // of latency: repeats are merged, not averaged; 0 for other metrics
	worst      bool    // of repeats the largest counts: a percentile whose histogram is not kept, or a maximum

	ofTrace func(run *Run, rows []*Row) traced // of repeats together; nil for what is in the rows
	regret  bool                               // it is held against a reference, not turned into a ratio
	above   int                                // 1 or -1 where the figure is by how much it is above, or below, that of a baseline; else 0
}

// unit is how a metric is written for people.
type unit func(Value) string

// traced is a metric that was read off a trace.
type traced struct {
	value   Value
	atLeast bool // the value is only a lower bound
	why     string
}

// The metrics that are no columns of points.csv.
const (
	metricOptimumShare = "optimum_share"
	metricRegret       = "regret"
	metricSettle       = "settle_us"
	metricSettleMax    = "settle_max_us"
	metricSwitches     = "switches_per_s"
	metricServed       = "served_share"
	metricGain         = "served_gain"
	metricLoss         = "served_loss"
	metricGoodput      = "goodput_rps"
	metricShed         = "shed_ratio"
	metricDrops        = "drop_ratio"
)

// Metrics returns the names of what a claim can be about: the numeric columns of points.csv, and what is derived from them and from the
// trace.
func Metrics() (names []string) {
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// metrics are in the order of points.csv, then what is derived.
var metrics = makeMetrics()

func makeMetrics() (list []metric) {
	percentiles := map[string]float64{"latency_p50_us": 50, "latency_p90_us": 90, "latency_p99_us": 99, "latency_p999_us": 99.9}
	for _, c := range columns() {
		if c.number == nil {
			continue
		}
		m := metric{name: c.name, of: c.number, less: lessIsBetter(c.name), unit: unitOf(c.name), percentile: percentiles[c.name]}
		m.worst = m.percentile == 0 && (strings.HasSuffix(c.name, "_p50_us") || strings.HasSuffix(c.name, "_p99_us") || strings.HasSuffix(c.name, "_max_us"))
		list = append(list, m)
	}
	list = append(list,
		metric{name: metricServed, of: servedShare, unit: Value.percent},
		metric{name: metricGain, of: servedShare, above: 1, unit: points},
		metric{name: metricLoss, of: servedShare, above: -1, unit: points})
	list = append(list, allocationMetrics()...)
	return append(list,
		metric{name: metricOptimumShare, of: optimumShare, unit: Value.percent},
		metric{name: metricRegret, of: func(r *Row) Value { return r.GoodputRPS }, less: true, regret: true, unit: Value.percent},
		metric{name: metricSettle, less: true, unit: Value.micros, ofTrace: func(run *Run, rows []*Row) traced { return run.settleTime(rows, 0.5) }},
		metric{name: metricSettleMax, less: true, unit: Value.micros, ofTrace: func(run *Run, rows []*Row) traced { return run.settleTime(rows, 1) }},
		metric{name: metricSwitches, less: true, unit: plain, ofTrace: (*Run).switches})
}

func metricNamed(name string) (metric, bool) {
	i := slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })
	if i < 0 {
		return metric{}, false
	}
	return metrics[i], true
}

// lessIsBetter says so of times and of what became of requests other than an answer in time.
func lessIsBetter(column string) bool {
	for _, prefix := range []string{"latency_", "send_lag_", "queue_", "service_"} {
		if strings.HasPrefix(column, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"shed_ratio", "drop_ratio", "late", "refused", "rejected", "dropped", "expired", "timed_out", "failed", "unsent",
	}, column)
}

func unitOf(column string) unit {
	switch {
	case strings.HasSuffix(column, "_rps"):
		return Value.rate
	case strings.HasSuffix(column, "_us"):
		return Value.micros
	case strings.HasSuffix(column, "_ratio"):
		return Value.percent
	default:
		return plain
	}
}

// plain writes a number that has no unit.
func plain(v Value) string {
	if !v.known {
		return unknown
	}
	return digits(v.number)
}

// times writes a ratio.
func times(v Value) string {
	if !v.known {
		return unknown
	}
	return digits(v.number) + "×"
}

// points writes a difference of shares.
func points(v Value) string {
	if !v.known {
		return unknown
	}
	return digits(100*v.number) + " points"
}

// servedShare is the share of what was offered that was served in time.
func servedShare(r *Row) Value { return over(r.GoodputRPS, r.OfferedRPS) }

// pooled returns the metric of repeats together: percentiles of latency of the merged histograms, for other percentiles, whose histograms are
// not kept, the largest, and for the rest the mean.
func (m *metric) pooled(run *Run, rows []*Row) traced {
	switch {
	case len(rows) == 0:
		return traced{}
	case m.ofTrace != nil:
		return m.ofTrace(run, rows)
	case m.percentile > 0:
		return traced{value: run.mergedPercentile(rows, m.percentile, m.of)}
	}
	sum, largest := 0.0, math.Inf(-1)
	for _, r := range rows {
		v := m.of(r)
		if !v.known {
			return traced{}
		}
		sum += v.number
		largest = max(largest, v.number)
	}
	if m.worst {
		return traced{value: Known(largest)}
	}
	return traced{value: Known(sum / float64(len(rows)))}
}

// settleTime returns the given quantile of the times to settle after the switches of the repeats; 1 is the slowest. A switch that was not
// settled after took at least half its phase. With such a one below it, so is the quantile a lower bound.
func (run *Run) settleTime(rows []*Row, quantile float64) traced {
	type one struct {
		us     float64
		failed bool
	}
	var list []one
	for _, r := range rows {
		if _, ok := run.capacity[traceKey(r)]; !ok {
			return traced{why: "the trace has no " + meterCapacity}
		}
		for n, phase := range run.Manifest.phasesOf(r.Variant()) {
			switch of := run.settling(r, n+1, phase); {
			case of.SettleUS.known:
				list = append(list, one{of.SettleUS.number, false})
			case of.failed():
				list = append(list, one{phase.ForUS / 2, true})
			case n > 0:
				return traced{why: of.Remark}
			}
		}
	}
	if len(list) == 0 {
		return traced{why: "the load has no switches"}
	}
	slices.SortStableFunc(list, func(a, b one) int { return cmp.Compare(a.us, b.us) })
	upTo := list[:max(int(math.Ceil(quantile*float64(len(list)))), 1)]
	return traced{value: Known(upTo[len(upTo)-1].us), atLeast: slices.ContainsFunc(upTo, func(o one) bool { return o.failed })}
}

// switches returns the mean number of changes of the capacity in a second of the window.
func (run *Run) switches(rows []*Row) traced {
	var sum changes
	for _, r := range rows {
		if n := len(run.capacity[traceKey(r)].us); n < settleSamples {
			return traced{why: "the trace has too little of " + meterCapacity}
		}
		c := run.changesOf(r, 0, math.Inf(1))
		sum = changes{sum.count + c.count, sum.us + c.us, sum.atLeast || c.atLeast}
	}
	return traced{value: sum.perS(), atLeast: sum.atLeast}
}
