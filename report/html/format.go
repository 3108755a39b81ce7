package html

import (
	"math"
	"strconv"

	"spillway/report"
)

// unknown is how people are shown what is not known.
const unknown = "–"

func number(n int) string { return strconv.Itoa(n) }

// digits writes three significant digits without an exponent, and no more zeros than it needs.
func digits(n float64) string {
	decimals := 0
	switch a := math.Abs(n); {
	case a >= 99.95 || a == 0:
	case a >= 9.995:
		decimals = 1
	default:
		decimals = 2
	}
	return strconv.FormatFloat(n, 'f', decimals, 64)
}

// rate writes requests per second: 31.2k.
func rate(v report.Value) string {
	n, ok := v.Get()
	switch a := math.Abs(n); {
	case !ok:
		return unknown
	case a >= 999.5e6:
		return digits(n/1e9) + "G"
	case a >= 999.5e3:
		return digits(n/1e6) + "M"
	case a >= 999.5:
		return digits(n/1e3) + "k"
	}
	return digits(n)
}

// micros writes microseconds in the unit that fits.
func micros(v report.Value) string {
	n, ok := v.Get()
	switch a := math.Abs(n); {
	case !ok:
		return unknown
	case a >= 999.5e3:
		return digits(n/1e6) + " s"
	case a >= 999.5:
		return digits(n/1e3) + " ms"
	case a > 0 && a < 0.9995:
		return digits(n*1e3) + " ns"
	}
	return digits(n) + " µs"
}

// percent writes a share. What is not nothing is not shown as 0, nor what is not all as 100.
func percent(v report.Value) string {
	n, ok := v.Get()
	switch p := n * 100; {
	case !ok:
		return unknown
	case p > 0 && p < 0.05:
		return "<0.1 %"
	case p < 100 && p > 99.95:
		return ">99.9 %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// inUnit writes a coordinate of a chart.
func inUnit(v report.Value, unit string) string {
	switch unit {
	case "µs":
		return micros(v)
	case "%":
		return percent(v)
	}
	return rate(v)
}
