package plots

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"spillway/report"
)

// scale is the range and the ticks of an axis. It is also what gonum's axis asks for both.
type scale struct {
	low, high float64
	log       bool
	ticks     []plot.Tick
}

// Ticks returns the marks of the axis.
func (s *scale) Ticks(_, _ float64) []plot.Tick { return s.ticks }

// Normalize returns where x stands between the ends of the axis, from 0 to 1. What is beyond them, as 0 is on a logarithmic axis, stands at
// the end.
func (s *scale) Normalize(_, _, x float64) float64 {
	at := func(v float64) float64 { return v }
	if s.log {
		if x <= s.low {
			return 0
		}
		at = math.Log
	}
	return min(max((at(x)-at(s.low))/(at(s.high)-at(s.low)), 0), 1)
}

// least is what counts as 0: below a femtosecond, or a request in thirty years.
const least = 1e-9

// newScale returns a scale for values of an axis; those that are 0 or below do not count on a logarithmic one, unless all are.
func newScale(axis report.Axis, values []float64) *scale {
	if len(axis.Names) > 0 {
		return nameScale(axis.Names)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.Abs(v) < least {
			v = 0
		}
		if math.IsNaN(v) || math.IsInf(v, 0) || axis.Log && v <= 0 {
			continue
		}
		low, high = min(low, v), max(high, v)
	}
	if low > high { // nothing, or nothing but zeros
		low, high = 0, 0
	}
	if axis.Log && high > 0 {
		return logScale(axis, low, high)
	}
	return linearScale(axis, low, high)
}

// nameScale has the names from top to bottom.
func nameScale(names []string) *scale {
	s := &scale{low: -0.7, high: float64(len(names)) - 0.3}
	for i, name := range names {
		s.ticks = append(s.ticks, plot.Tick{Value: float64(len(names) - 1 - i), Label: short(name, 22)})
	}
	return s
}

// linearScale begins at 0, since what is drawn are amounts, and ends at a tick or a little above the largest value.
func linearScale(axis report.Axis, low, high float64) *scale {
	if high <= 0 {
		high = 1
		if axis.Unit == "%" {
			high = 0.01
		}
	}
	if axis.Unit == "%" && high > 0.5 {
		high = max(high, 1)
	}
	s := &scale{low: min(low, 0), high: high}
	step := nice((s.high - s.low) / 4)
	for n := int(math.Floor(s.low / step)); ; n++ {
		v := float64(n) * step
		s.ticks = append(s.ticks, plot.Tick{Value: v, Label: tickText(axis.Unit, v, step)})
		if v >= s.high*(1-1e-9) {
			// The axis reaches its last tick only where the data nearly do.
			if v > s.high*1.1 {
				s.ticks = s.ticks[:len(s.ticks)-1]
				s.high *= 1.05
			} else {
				s.high = v
			}
			break
		}
	}
	s.low = min(s.low, s.ticks[0].Value)
	return s
}

// closeScale is for loads that lie near each other and far from 0: it begins at a tick below them.
func closeScale(axis report.Axis, low, high float64) *scale {
	step := nice((high - low) / 3)
	s := &scale{low: math.Floor((low-step/4)/step) * step, high: high + step/4}
	for n := 0; s.low+float64(n)*step <= s.high; n++ {
		v := s.low + float64(n)*step
		s.ticks = append(s.ticks, plot.Tick{Value: v, Label: tickText(axis.Unit, v, step)})
	}
	return s
}

// nice returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is not below v.
func nice(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logScale goes a little beyond the values on either side, over a factor of 4 at least, so that a single value stands in the middle.
func logScale(axis report.Axis, low, high float64) *scale {
	s := &scale{low: low / 1.15, high: high * 1.15, log: true}
	if s.high < s.low*4 {
		middle := math.Sqrt(low * high)
		s.low, s.high = middle/2.2, middle*2.2
	}
	decades := math.Log10(s.high / s.low)
	labelled := []float64{1}
	switch {
	case decades < 1.3:
		labelled = []float64{1, 2, 5}
	case decades < 2.2:
		labelled = []float64{1, 3}
	}
	every := max(int(math.Ceil(decades/6)), 1) // decades from label to label
	for n := int(math.Floor(math.Log10(s.low))); n <= int(math.Ceil(math.Log10(s.high))); n++ {
		for m := 1.0; m < 10; m++ {
			v := m * pow10(n)
			if v < s.low || v > s.high || decades > 8 && (m > 1 || n%every != 0) {
				continue
			}
			t := plot.Tick{Value: v}
			for _, l := range labelled {
				if m == l && (every == 1 || n%every == 0) {
					t.Label = tickText(axis.Unit, v, v)
				}
			}
			s.ticks = append(s.ticks, t)
		}
	}
	return s
}

// pow10 is exact where a float64 can be.
func pow10(n int) float64 {
	v, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	return v
}

// tickText writes a value of an axis: rates with k and M, times in the unit that fits, shares in percent. step says how many digits tell it
// from the next.
func tickText(unit string, v, step float64) string {
	if v == 0 {
		return "0"
	}
	suffix, factor := "", 1.0
	size := math.Abs(v)
	switch unit {
	case "%":
		suffix, factor = " %", 0.01
	case "µs":
		switch {
		case size >= 0.9999e6:
			suffix, factor = " s", 1e6
		case size >= 0.9999e3:
			suffix, factor = " ms", 1e3
		case size < 0.9999:
			suffix, factor = " ns", 1e-3
		default:
			suffix = " µs"
		}
	default:
		switch {
		case size >= 0.9999e9:
			suffix, factor = "G", 1e9
		case size >= 0.9999e6:
			suffix, factor = "M", 1e6
		case size >= 0.9999e3:
			suffix, factor = "k", 1e3
		}
	}
	decimals := 0
	for s := step / factor; decimals < 9 && math.Abs(s-math.Round(s)) > 1e-6*math.Abs(s); s *= 10 {
		decimals++
	}
	text := strconv.FormatFloat(v/factor, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + suffix
}

// say writes a value for a sentence, with three digits.
func say(axis report.Axis, v float64) string {
	if v == 0 {
		return "0"
	}
	step := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	text := tickText(axis.Unit, math.Round(v/step)*step, step)
	if axis.Unit == "requests/s" {
		return text + "/s"
	}
	return text
}

// short cuts a name that is longer than most letters.
func short(s string, most int) string {
	letters := []rune(clean(s))
	if len(letters) <= most {
		return string(letters)
	}
	return string(letters[:most-1]) + "…"
}
