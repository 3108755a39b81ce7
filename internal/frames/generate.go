package frames

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Shape says what bars Generate makes.
type Shape struct {
	Rows  int
	Price float64 // at which the first bar opens
	Year  float64 // volatility of log returns over a year of minutes, as a share: 0.07 for a calm pair of currencies

	// Shock and Persistence are α and β of the variance: how strongly one minute's surprise raises that of the next, and how slowly it
	// forgets. Their sum is below 1.
	Shock, Persistence float64

	Volume float64 // of a bar, in the median of a minute of usual volatility
	Seed   uint64
}

// YearRows is a year of minutes on which the currency market is open: 7200 in a week, from Sunday evening to Friday evening, and 51.7 weeks,
// since a few days are holidays.
const YearRows = 372_000

// DefaultShape is a year of a pair of currencies. The figures are assumed; they are of the size that is usual for EUR/USD.
func DefaultShape() Shape {
	return Shape{Rows: YearRows, Price: 1.2, Year: 0.07, Shock: 0.05, Persistence: 0.94, Volume: 100, Seed: 1}
}

// Check says what is wrong with s, nil if nothing is.
func (s *Shape) Check() error {
	switch {
	case s.Rows < MinRows || s.Rows > MaxRows:
		return fmt.Errorf("frames: rows must be between %d and %d", MinRows, MaxRows)
	case !(s.Price > 0) || s.Price > 1e9:
		return errors.New("frames: the first price must be above 0 and at most 1e9")
	case !(s.Year > 0) || s.Year > 10:
		return errors.New("frames: the volatility of a year must be above 0 and at most 10")
	case !(s.Shock >= 0) || !(s.Persistence >= 0) || s.Shock+s.Persistence >= 1:
		return errors.New("frames: shock and persistence must not be negative, and below 1 together: the variance would have no bound")
	case !(s.Volume >= 1) || s.Volume > 1e12:
		return errors.New("frames: the median volume must be between 1 and 1e12")
	}
	return nil
}

// MinRows is how many rows a Frame has at least: with fewer, hardly an operation has a meaning.
const MinRows = 16

// pips is how many steps of a price there are in 1: prices are quoted with five decimals.
const pips = 1e5

// Generate makes up bars whose close is a geometric Brownian motion with volatility that comes in clusters, as that of markets does
// (Bollerslev, "Generalized Autoregressive Conditional Heteroskedasticity", 1986): the log return of minute t is r = σ(t)·z − σ(t)²/2 with z normal, which
// leaves the expected price where it is, and
//
//	σ(t+1)² = ω + Shock·(σ(t)·z)² + Persistence·σ(t)²,  ω = σ²·(1 − Shock − Persistence)
//
// for σ² the variance of a minute that comes to Year in YearRows. A bar opens where the last one closed. Its high and low are draws from the law of the
// highest and of the lowest point of a Brownian bridge between open and close, (r ± √(r² − 2σ²·ln u))/2 away from the open, each by itself. Volume
// is lognormal and grows with σ(t). Bars are of all minutes from Monday, 1 January 2018, but for those from Friday to Sunday, 22:00 UTC.
// One Shape gives one Frame.
func Generate(s Shape) (*Frame, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0xbb67ae8584caa73b))
	f := newFrame(s.Rows)
	usual := s.Year * s.Year / YearRows
	omega, variance := usual*(1-s.Shock-s.Persistence), usual
	at := time.Date(2018, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	price := round(s.Price)
	for range s.Rows {
		at = nextOpen(at)
		surprise := math.Sqrt(variance) * rng.NormFloat64()
		r := surprise - variance/2
		reach := func(sign float64) float64 {
			return (r + sign*math.Sqrt(r*r-2*variance*math.Log(1-rng.Float64()))) / 2
		}
		b := bar{at: at, open: price, close: round(price * math.Exp(r))}
		b.high, b.low = round(price*math.Exp(reach(1))), round(price*math.Exp(reach(-1)))
		b.high, b.low = max(b.high, b.open, b.close), min(b.low, b.open, b.close)
		b.volume = math.Ceil(s.Volume * math.Sqrt(variance/usual) * math.Exp(rng.NormFloat64()/2))
		f.add(&b)
		price = b.close
		variance = omega + s.Shock*surprise*surprise + s.Persistence*variance
		at += minute
	}
	return f, nil
}

// round returns the price that is quoted: a whole number of pips, at least one.
func round(price float64) float64 { return max(math.Round(price*pips), 1) / pips }

const (
	minute   = 60
	day      = 24 * 60 * minute
	closesAt = 22 * 60 * minute // UTC, of a Friday; it opens at the same time on Sunday
	friday   = day + closesAt   // of the first week of unix time, which began on a Thursday
)

// nextOpen returns the first minute from at on at which the market is open.
func nextOpen(at int64) int64 {
	since := (at - friday) % (7 * day) // since Friday evening
	if since < 2*day {
		at += 2*day - since
	}
	return at
}
