package clock

import "time"

// Scale returns how many nanoseconds of the wall clock one nanosecond of c takes: 1 unless c says otherwise.
func Scale(c Clock) int {
	if s, ok := c.(interface{ Scale() int }); ok {
		return s.Scale()
	}
	return 1
}

// Wall returns how long d on c takes on the wall clock. What would be longer than a time.Duration holds is as long as that.
func Wall(c Clock, d time.Duration) time.Duration {
	const longest = time.Duration(1<<63 - 1)
	scale := time.Duration(Scale(c))
	if d > longest/scale {
		return longest
	}
	return d * scale
}

// On returns what wall, a duration of the wall clock, is on c.
func On(c Clock, wall time.Duration) time.Duration { return wall / time.Duration(Scale(c)) }
