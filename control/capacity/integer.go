package capacity

import "math"

// Whole turns shares into whole numbers that sum to total exactly, by largest remainder: each gets the whole part of its share, and what
// is left goes, one each, to those whose share lost most; of equals, to the first. order is room for as many numbers as there are shares.
//
// The shares must not be negative. Where they do not sum to total they are taken in proportion, except that shares of zero stay at zero
// unless all are.
func Whole(total int64, shares []float64, out []int64, order []int32) {
	scale, all := 1.0, sum(shares)
	if all > 0 {
		scale = float64(total) / all
	}
	left := total
	for i, s := range shares {
		out[i] = int64(math.Floor(s * scale))
		left -= out[i]
		order[i] = int32(i)
	}
	n := len(shares)
	for ; left < 0; left++ { // rounding made a whole part too large, at most by one each and hardly ever
		out[largest(out)]--
	}
	if n == 0 || left == 0 {
		return
	}
	if each := left / int64(n); each > 0 { // only when all shares are zero
		for i := range out {
			out[i] += each
		}
		left -= each * int64(n)
	}
	lost := func(i int32) float64 { return shares[i]*scale - float64(out[i]) }
	selectFirst(order[:n], int(left), func(a, b int32) bool {
		x, y := lost(a), lost(b)
		return x > y || x == y && a < b
	})
	for _, i := range order[:left] {
		out[i]++
	}
}

func largest(list []int64) (at int) {
	for i, x := range list {
		if x > list[at] {
			at = i
		}
	}
	return at
}

// selectFirst puts those k of list to its front that come first in the order of before, in linear time on average (Hoare's selection, with
// the middle of three as pivot).
func selectFirst(list []int32, k int, before func(a, b int32) bool) {
	low, high := 0, len(list)-1
	for low < high {
		mid := low + (high-low)/2
		if before(list[mid], list[low]) {
			list[mid], list[low] = list[low], list[mid]
		}
		if before(list[high], list[low]) {
			list[high], list[low] = list[low], list[high]
		}
		if before(list[high], list[mid]) {
			list[high], list[mid] = list[mid], list[high]
		}
		pivot := list[mid]
		i, j := low, high
		for i <= j {
			for before(list[i], pivot) {
				i++
			}
			for before(pivot, list[j]) {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			high = j
		case k > i:
			low = i
		default:
			return
		}
	}
}
