package report

import (
	"fmt"
	"strconv"
	"strings"
)

// column is one field of points.csv: its name, where it lives in a Row, and its written form.
type column struct {
	name   string
	get    func(r *Row) string
	set    func(r *Row, s string) error
	number func(r *Row) Value // nil where it is not a number that was measured
}

func text(name string, at func(*Row) *string) column {
	return column{name: name, get: func(r *Row) string { return *at(r) }, set: func(r *Row, s string) error { *at(r) = s; return nil }}
}

func value(name string, at func(*Row) *Value) column {
	return column{name, func(r *Row) string { return at(r).String() }, func(r *Row, s string) (err error) {
		*at(r), err = parseValue(s)
		return err
	}, func(r *Row) Value { return *at(r) }}
}

func count(name string, at func(*Row) *int64) column {
	return column{name, func(r *Row) string { return strconv.FormatInt(*at(r), 10) }, func(r *Row, s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a count", s)
		}
		*at(r) = n
		return nil
	}, func(r *Row) Value { return Known(float64(*at(r))) }}
}

// columns are the fields of points.csv in the order of the file, which other tools rely on.
func columns() []column {
	return []column{
		text("profile", func(r *Row) *string { return &r.Profile }),
		text("ground", func(r *Row) *string { return &r.Ground }),
		text("controller", func(r *Row) *string { return &r.Controller }),
		value("offered_target_rps", func(r *Row) *Value { return &r.OfferedTargetRPS }),
		text("load_factor", func(r *Row) *string { return &r.LoadFactor }),
		repeatColumn(),
		seedColumn(),
		text("class", func(r *Row) *string { return &r.Class }),
		value("slo_us", func(r *Row) *Value { return &r.SLO }),
		value("offered_rps", func(r *Row) *Value { return &r.OfferedRPS }),
		value("sent_rps", func(r *Row) *Value { return &r.SentRPS }),
		value("throughput_rps", func(r *Row) *Value { return &r.ThroughputRPS }),
		value("goodput_rps", func(r *Row) *Value { return &r.GoodputRPS }),
		value("optimum_rps", func(r *Row) *Value { return &r.OptimumRPS }),
		value("ceiling_rps", func(r *Row) *Value { return &r.CeilingRPS }),
		count("ok", func(r *Row) *int64 { return &r.Fates.OK }),
		count("late", func(r *Row) *int64 { return &r.Fates.Late }),
		count("refused", func(r *Row) *int64 { return &r.Fates.Refused }),
		count("rejected", func(r *Row) *int64 { return &r.Fates.Rejected }),
		count("dropped", func(r *Row) *int64 { return &r.Fates.Dropped }),
		count("expired", func(r *Row) *int64 { return &r.Fates.Expired }),
		count("timed_out", func(r *Row) *int64 { return &r.Fates.TimedOut }),
		count("failed", func(r *Row) *int64 { return &r.Fates.Failed }),
		count("unsent", func(r *Row) *int64 { return &r.Fates.Unsent }),
		value("shed_ratio", func(r *Row) *Value { return &r.ShedRatio }),
		value("drop_ratio", func(r *Row) *Value { return &r.DropRatio }),
		value("latency_mean_us", func(r *Row) *Value { return &r.Latency.Mean }),
		value("latency_p50_us", func(r *Row) *Value { return &r.Latency.P50 }),
		value("latency_p90_us", func(r *Row) *Value { return &r.Latency.P90 }),
		value("latency_p99_us", func(r *Row) *Value { return &r.Latency.P99 }),
		value("latency_p999_us", func(r *Row) *Value { return &r.Latency.P999 }),
		value("latency_max_us", func(r *Row) *Value { return &r.Latency.Max }),
		value("send_lag_p50_us", func(r *Row) *Value { return &r.SendLagP50 }),
		value("send_lag_p99_us", func(r *Row) *Value { return &r.SendLagP99 }),
		value("queue_mean_us", func(r *Row) *Value { return &r.QueueMean }),
		value("queue_p99_us", func(r *Row) *Value { return &r.QueueP99 }),
		value("service_mean_us", func(r *Row) *Value { return &r.ServiceMean }),
		value("service_p99_us", func(r *Row) *Value { return &r.ServiceP99 }),
		value("cpu_ratio", func(r *Row) *Value { return &r.CPURatio }),
		value("membw_bytes_per_s", func(r *Row) *Value { return &r.MemBWBytesPerS }),
		text("membw_source", func(r *Row) *string { return &r.MemBWSource }),
		value("credits_mean", func(r *Row) *Value { return &r.CreditsMean }),
		value("memsem_mean", func(r *Row) *Value { return &r.MemSemMean }),
		validColumn(),
		warningsColumn(),
	}
}

func repeatColumn() column {
	return column{name: "repeat", get: func(r *Row) string { return strconv.Itoa(r.Repeat) }, set: func(r *Row, s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a repeat; they count from 1", s)
		}
		r.Repeat = n
		return nil
	}}
}

func seedColumn() column {
	return column{name: "seed", get: func(r *Row) string { return strconv.FormatUint(r.Seed, 10) }, set: func(r *Row, s string) (err error) {
		if r.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			return fmt.Errorf("%q is not a seed", s)
		}
		return nil
	}}
}

func validColumn() column {
	return column{name: "valid", get: func(r *Row) string { return strconv.FormatBool(r.Valid) }, set: func(r *Row, s string) error {
		if s != "true" && s != "false" {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		r.Valid = s == "true"
		return nil
	}}
}

func warningsColumn() column {
	return column{name: "warnings", get: func(r *Row) string { return strings.Join(r.Warnings, ";") }, set: func(r *Row, s string) error {
		r.Warnings = nil
		if s != "" {
			r.Warnings = strings.Split(s, ";")
		}
		return nil
	}}
}
