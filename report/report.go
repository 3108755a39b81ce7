// Package report reads and writes result directories, and turns them into tables and documents.
//
// A report is made from files alone: a directory copied from another machine gives the same report there. The path from requests to a
// reader is
//
//  1. the harness counts a point and writes its Rows (points.csv), its time series (trace.csv), its latency histograms
//     (histograms.hlog) and the circumstances (manifest.json) through a Writer;
//  2. ReadDir reads such a directory into a Run;
//  3. Pool puts the repeats of each point together; Claims, Attributions, Settlings and Attainments say what follows from them;
//  4. Table, Markdown and CSV show the result, and WriteClaims and its like what followed; Charts and Distributions are the data of figures;
//  5. packages plots and html draw them, document writes all that belongs beside the measurements, and export what other programs read.
//
// A value that is not known is an empty field, never 0, and no field is ever NaN or infinite.
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// AllClasses is the class of the rows that pool the classes of a point.
const AllClasses = "all"

// Value is a number that may be unknown. Its zero value is unknown.
type Value struct {
	number float64
	known  bool
}

// Known returns the value v; what is not a finite number is unknown.
func Known(v float64) Value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Value{}
	}
	return Value{number: v, known: true}
}

// Get returns the number; ok is false when it is unknown.
func (v Value) Get() (number float64, ok bool) { return v.number, v.known }

// decimals is the precision of what is written: a thousandth of a request per second, a nanosecond of the microseconds and a millionth
// of a ratio all fit.
const decimals = 6

// String returns v as it stands in a CSV field: empty when unknown, in plain decimals otherwise.
func (v Value) String() string {
	if !v.known {
		return ""
	}
	scale := math.Pow10(decimals)
	n := v.number
	if r := math.Round(n*scale) / scale; !math.IsInf(r, 0) {
		n = r
	}
	if n == 0 {
		n = 0 // -0 is no number a reader wants to see
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// parseValue is the inverse of String.
func parseValue(s string) (Value, error) {
	if s == "" {
		return Value{}, nil
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return Value{}, fmt.Errorf("%q is not a number", s)
	}
	return Known(n), nil
}

// Fates are the counts of requests by what became of them. They sum to the arrivals of the window.
type Fates struct {
	OK, Late, Refused, Rejected, Dropped, Expired, TimedOut, Failed, Unsent int64
}

// Arrivals returns the sum of the fates.
func (f Fates) Arrivals() int64 {
	return f.OK + f.Late + f.Refused + f.Rejected + f.Dropped + f.Expired + f.TimedOut + f.Failed + f.Unsent
}

// Completed returns how many requests were answered.
func (f Fates) Completed() int64 { return f.OK + f.Late }

// Sent returns how many requests reached the wire.
func (f Fates) Sent() int64 { return f.Arrivals() - f.Refused - f.Unsent }

// Shed returns how many requests were refused, rejected, dropped or expired.
func (f Fates) Shed() int64 { return f.Refused + f.Rejected + f.Dropped + f.Expired }

// Lost returns how many requests got no answer at all: they timed out, failed or were never sent.
func (f Fates) Lost() int64 { return f.TimedOut + f.Failed + f.Unsent }

// Add returns the sums of f and o.
func (f Fates) Add(o Fates) Fates {
	return Fates{
		OK: f.OK + o.OK, Late: f.Late + o.Late, Refused: f.Refused + o.Refused, Rejected: f.Rejected + o.Rejected,
		Dropped: f.Dropped + o.Dropped, Expired: f.Expired + o.Expired, TimedOut: f.TimedOut + o.TimedOut,
		Failed: f.Failed + o.Failed, Unsent: f.Unsent + o.Unsent,
	}
}

// Row is one line of points.csv: one class of one point, or all of its classes together. Rates are per second of the window, times
// in microseconds.
type Row struct {
	Profile, Ground, Controller string
	OfferedTargetRPS            Value
	LoadFactor                  string // as the profile writes it; empty when the load is not a share of capacity
	Repeat                      int    // from 1
	Seed                        uint64
	Class                       string
	SLO                         Value
	OfferedRPS, SentRPS         Value
	ThroughputRPS, GoodputRPS   Value
	OptimumRPS, CeilingRPS      Value
	Fates                       Fates
	ShedRatio, DropRatio        Value
	Latency                     Latency
	SendLagP50, SendLagP99      Value
	QueueMean, QueueP99         Value
	ServiceMean, ServiceP99     Value
	CPURatio                    Value
	MemBWBytesPerS              Value
	MemBWSource                 string
	CreditsMean, MemSemMean     Value
	Valid                       bool
	Warnings                    []string // codes; see Explain
}

// Latency is the distribution of the latency of completed requests.
type Latency struct{ Mean, P50, P90, P99, P999, Max Value }

// Load names the load of r within a comparison: its factor of capacity where there is one, the rate otherwise.
func (r *Row) Load() string {
	if r.LoadFactor != "" {
		return r.LoadFactor + "x"
	}
	if r.OfferedTargetRPS.known {
		return r.OfferedTargetRPS.String()
	}
	return "-"
}

// Variant returns the variant of the profile that r is of; empty where the profile has none.
func (r *Row) Variant() string {
	_, variant, _ := strings.Cut(r.Profile, "/")
	return variant
}

// Point names the point that r is of: what PointLabel says, after its variant where there is one.
func (r *Row) Point() string {
	return variantPrefix(r.Variant()) + PointLabel(r.Controller, r.Load(), r.Repeat)
}

// Tag names the latency histogram of r in histograms.hlog: its Point and its class with a slash between them.
func (r *Row) Tag() string { return r.Point() + "/" + r.Class }

func variantPrefix(variant string) string {
	if variant == "" {
		return ""
	}
	return variant + "/"
}

// point names the point that f is of, as Row.Point does.
func (f *PointFacts) point() string {
	return variantPrefix(f.Variant) + PointLabel(f.Controller, f.Load, f.Repeat)
}
