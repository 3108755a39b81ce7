//go:build linux

package perf

import "math"

var nan = math.NaN()

// Delta returns how far a counter of width bits has moved from prev to cur, and Wrapped, Reset or Saturated where it did not just count on.
//
// A smaller value is a wrap when the counter has moved by less than half of its range, which whoever reads it often enough is sure of; else, and
// with 64 bits, it is a reset, and there is no difference to speak of.
func Delta(prev, cur uint64, width int) (uint64, Flags) {
	full := ^uint64(0) >> (64 - width)
	switch {
	case cur > full || prev > full:
		return 0, Reset // not a value of this counter
	case cur == full && prev == full:
		return 0, Saturated
	case cur >= prev:
		return cur - prev, 0
	case width == 64:
		return 0, Reset
	}
	if d := (cur - prev) & full; d <= full/2 {
		return d, Wrapped
	}
	return 0, Reset
}
