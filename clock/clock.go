// Package clock has the one type of instant that all of Spillway computes with, and the clocks that produce it.
//
// Code that decides takes `now` as an argument and never asks a clock; only drivers (servers, the load driver) hold one. That is
// what lets the same controller run under real and under virtual time.
package clock

import "time"

// Instant is a point in time: nanoseconds since the run began. It is a type of its own so that it cannot be mixed up with a
// time.Duration, and eight bytes wide so that records of requests stay small.
type Instant int64

// Never is later than every other instant: the answer of something periodic that has nothing left to do.
const Never = Instant(1<<63 - 1)

// Add returns the instant d after t. Never stays Never, and what would lie beyond it is Never too.
func (t Instant) Add(d time.Duration) Instant {
	if t == Never || d > 0 && t > Never-Instant(d) {
		return Never
	}
	return t + Instant(d)
}

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Seconds returns the time since the run began, in seconds.
func (t Instant) Seconds() float64 { return time.Duration(t).Seconds() }

// String prints the time since the run began, such as "1.5ms", or "never".
func (t Instant) String() string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}

// Clock tells the time. Drivers hold one; code that decides is told `now` instead.
type Clock interface{ Now() Instant }

// Real is the monotonic clock of this computer. It never runs backwards and ignores steps of the calendar clock.
type Real struct{ began time.Time }

// NewReal returns a clock whose instant 0 is now.
func NewReal() *Real { return &Real{began: time.Now()} }

// Now returns the time since the clock was made.
func (c *Real) Now() Instant { return Instant(time.Since(c.began)) }

// Began returns the calendar time of instant 0, for the manifest.
func (c *Real) Began() time.Time { return c.began }
