package workloads

import (
	"fmt"
	"math"
	"time"
)

// Shares says which shares of all requests the classes of a workload have as time goes by: constant over one span after the other, or
// drifting to and fro. It does not change, so several workloads may use one.
type Shares struct {
	from  time.Duration // where the warm-up ends, on the scale of Varying.Shift
	spans []Span

	period time.Duration // of a drift
	a, b   []float64     // the shares between which it drifts
}

// Span is a stretch of time in which the shares stay as they are.
type Span struct {
	For    time.Duration
	Shares []float64 // by class; they sum to 1
}

// SharesInSteps returns shares that change from span to span. The first span begins at from; before it, in the warm-up, its shares hold too,
// and those of the last go on.
func SharesInSteps(from time.Duration, spans []Span) (*Shares, error) {
	if len(spans) == 0 {
		return nil, fmt.Errorf("shares in steps need at least one span")
	}
	for i, s := range spans {
		if s.For <= 0 {
			return nil, fmt.Errorf("span %d lasts %v: must be longer than 0", i+1, s.For)
		}
		if err := checkShares(s.Shares, len(spans[0].Shares)); err != nil {
			return nil, fmt.Errorf("span %d: %w", i+1, err)
		}
	}
	return &Shares{from: from, spans: spans}, nil
}

// SharesDrifting returns shares that swing as a cosine between a, which they are at from, and b, which they are half a period later. They
// drift in the warm-up too, so that whoever follows them has begun to when the window begins.
func SharesDrifting(from, period time.Duration, a, b []float64) (*Shares, error) {
	if period <= 0 {
		return nil, fmt.Errorf("drift with a period of %v: must be longer than 0", period)
	}
	for _, shares := range [][]float64{a, b} {
		if err := checkShares(shares, len(a)); err != nil {
			return nil, fmt.Errorf("drift: %w", err)
		}
	}
	return &Shares{from: from, period: period, a: a, b: b}, nil
}

func checkShares(shares []float64, classes int) error {
	if len(shares) != classes {
		return fmt.Errorf("%d shares of %d classes", len(shares), classes)
	}
	sum := 0.0
	for _, s := range shares {
		if !(s >= 0) {
			return fmt.Errorf("share %v: must not be negative", s)
		}
		sum += s
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("the shares sum to %v, must sum to 1", sum)
	}
	return nil
}

// Classes returns how many classes there are shares of.
func (s *Shares) Classes() int {
	if s.period > 0 {
		return len(s.a)
	}
	return len(s.spans[0].Shares)
}

// At appends the shares at an instant to dst.
func (s *Shares) At(at time.Duration, dst []float64) []float64 {
	if s.period > 0 {
		return s.mixed(dst, (1-math.Cos(s.angle(at)))/2)
	}
	span, _ := s.span(at)
	return append(dst, s.spans[span].Shares...)
}

// Mean appends the mean shares over a stretch of time to dst. Weighting spans by their rates is up to whoever knows the rates.
func (s *Shares) Mean(from, to time.Duration, dst []float64) []float64 {
	if to <= from {
		return s.At(from, dst)
	}
	if s.period > 0 {
		begin, end := s.angle(from), s.angle(to)
		return s.mixed(dst, (1-(math.Sin(end)-math.Sin(begin))/(end-begin))/2)
	}
	base := len(dst)
	dst = append(dst, make([]float64, s.Classes())...)
	for at := from; at < to; {
		span, until := s.span(at)
		until = min(until, to)
		for i, share := range s.spans[span].Shares {
			dst[base+i] += share * float64(until-at) / float64(to-from)
		}
		at = until
	}
	return dst
}

// mixed appends the shares that are so far on the way from a to b.
func (s *Shares) mixed(dst []float64, way float64) []float64 {
	for i := range s.a {
		dst = append(dst, s.a[i]+(s.b[i]-s.a[i])*way)
	}
	return dst
}

func (s *Shares) angle(at time.Duration) float64 {
	return 2 * math.Pi * float64(at-s.from) / float64(s.period)
}

// span returns the number of the span at an instant, and when it ends.
func (s *Shares) span(at time.Duration) (i int, until time.Duration) {
	until = s.from
	for i = range s.spans {
		if until += s.spans[i].For; at < until {
			return i, until
		}
	}
	return i, math.MaxInt64
}

// upTo is the cumulative shares of classes as they are now: class i is drawn by the numbers below upTo[i] that no class before it takes.
type upTo struct {
	shares  *Shares // nil when they do not change
	bounds  []float64
	now     []float64
	settled time.Duration // until when they stay as they are
}

// set takes in shares. The last class that has one takes what rounding leaves of the sum.
func (u *upTo) set(shares []float64) {
	u.bounds = u.bounds[:0]
	sum, last := 0.0, 0
	for i, s := range shares {
		sum += s
		u.bounds = append(u.bounds, sum)
		if s > 0 {
			last = i
		}
	}
	for i := last; i < len(u.bounds); i++ {
		u.bounds[i] = math.Inf(1)
	}
}

// vary has shares change with time from now on.
func (u *upTo) vary(s *Shares) error {
	if got, want := s.Classes(), len(u.bounds); got != want {
		return fmt.Errorf("shares of %d classes, the workload has %d", got, want)
	}
	u.shares, u.settled = s, math.MinInt64
	return nil
}

// Shift implements Varying.
func (u *upTo) Shift(at time.Duration) {
	if u.shares == nil || at < u.settled {
		return
	}
	u.now = u.shares.At(at, u.now[:0])
	u.set(u.now)
	u.settled = at
	if u.shares.period == 0 {
		_, u.settled = u.shares.span(at)
	}
}

// pick returns the class that a number from 0 to 1 stands for.
func (u *upTo) pick(x float64) (class int) {
	for x >= u.bounds[class] {
		class++
	}
	return class
}
