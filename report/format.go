package report

import (
	"math"
	"strconv"
)

// unknown is how tables for people show what is not known. In CSV it is an empty field.
const unknown = "–"

// rate writes requests per second with three significant digits: 31.2k.
func (v Value) rate() string {
	if !v.known {
		return unknown
	}
	switch a := math.Abs(v.number); {
	case a >= 999.5e3:
		return digits(v.number/1e6) + "M"
	case a >= 999.5:
		return digits(v.number/1e3) + "k"
	default:
		return digits(v.number)
	}
}

// micros writes microseconds in the unit that fits: 850 µs, 1.23 ms, 2.5 s.
func (v Value) micros() string {
	if !v.known {
		return unknown
	}
	switch a := math.Abs(v.number); {
	case a >= 999.5e3:
		return digits(v.number/1e6) + " s"
	case a >= 999.5:
		return digits(v.number/1e3) + " ms"
	default:
		return digits(v.number) + " µs"
	}
}

// percent writes a ratio as percent. What is not nothing is not shown as 0, nor what is not all as 100.
func (v Value) percent() string {
	if !v.known {
		return unknown
	}
	p := v.number * 100
	switch {
	case p > 0 && p < 0.05:
		return "<0.1 %"
	case p < 0 && p > -0.05:
		return ">-0.1 %"
	case p < 100 && p > 99.95:
		return ">99.9 %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// digits writes three significant digits, never an exponent.
func digits(n float64) string {
	switch a := math.Abs(n); {
	case a == 0:
		return "0"
	case a < 9.995:
		return strconv.FormatFloat(n, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(n, 'f', 1, 64)
	default:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
}

// with writes a range in the given format: the value alone when nothing varies as far as the format shows.
func (r Range) with(format func(Value) string) string {
	s, low, high := format(r.Value), format(r.Low), format(r.High)
	if !r.Low.known || low == high && low == s {
		return s
	}
	if low == high {
		return s + " (" + low + ")"
	}
	return s + " (" + low + "–" + high + ")"
}
