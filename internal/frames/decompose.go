package frames

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Decompose takes the log returns apart into a trend, a season that repeats with the period q.Window, and what remains: x = trend + season + remainder.
//
// The trend is LOESS of degree 1 (Cleveland and Devlin, "Locally Weighted Regression", 1988): its value at row i is that of the line which fits the q rows nearest to
// i best, by least squares with the weights (1 − |d/h|³)³ of rows that are d away, where h is one row more than the farthest of them. q is
// q.Fraction of all rows, rounded and made odd; at the ends the first and the last q rows are the nearest. It is fitted at every q.Delta-th row and the last
// one, and interpolated by straight lines in between (Cleveland, "LOWESS", 1981), without rounds of robustness. The season is the mean of x − trend over the
// rows at the same place in their period, less the mean of these means, so that it adds up to nothing over a period (classical decomposition
// by moving averages, as in Kendall and Stuart, "The Advanced Theory of Statistics", vol. 3, with LOESS in the place of those).
//
// The parts of the result are trend, season (a period of it) and remainder.
func (w *Worker) Decompose(q *Query) error {
	x, trend := w.f.Column(Return), w.vector(0)
	n, period := len(x), q.Window
	span := q.span(n)
	memory := w.scratch(period + span)
	season, weights := memory[:period], memory[period:]
	var ofTrend, ofRemainder, ofSeason summary
	if err := w.fit(x, trend, weights, q.Delta); err != nil {
		return err
	}
	if err := w.blocks(func(from, to int) {
		for i := from; i < to; i++ {
			season[i%period] += x[i] - trend[i]
		}
		ofTrend.add(trend[from:to])
		w.move(to-from, 2*valueBytes)
	}); err != nil {
		return err
	}
	for p := range season {
		season[p] /= float64((n - p + period - 1) / period) // rows at this place
	}
	floats.AddConst(-floats.Sum(season)/float64(period), season)
	ofSeason.add(season)
	if w.block == nil {
		w.block = make([]float64, blockRows)
	}
	if err := w.blocks(func(from, to int) {
		for i := from; i < to; i++ {
			w.block[i-from] = x[i] - trend[i] - season[i%period]
		}
		ofRemainder.add(w.block[:to-from])
		w.move(to-from, 2*valueBytes)
	}); err != nil {
		return err
	}
	w.add("trend", trend, ofTrend)
	w.add("season", season, ofSeason)
	w.add("remainder", x, ofRemainder)
	w.parts[w.n-1].minus, w.parts[w.n-1].season = trend, season
	return nil
}

// fit computes the trend: fits at every delta-th row and at the last one, straight lines in between. weights has room for those of one fit.
func (w *Worker) fit(x, trend, weights []float64, delta int) error {
	n, span := len(x), len(weights)
	half := span / 2
	tricube(weights, half)
	floats.Scale(1/floats.Sum(weights), weights) // as they are for rows that are not near the ends
	counted, before := 0, 0
	for at := 0; ; at = min(at+delta, n-1) {
		if w.stopped() {
			return ErrStopped
		}
		if at >= half && at+half < n {
			// The line's slope does not matter here: with weights that are the same on both sides its value in the middle is the weighted mean.
			trend[at] = floats.Dot(weights, x[at-half:at+half+1])
		} else {
			trend[at] = atEnd(x, at, span)
		}
		for i := before + 1; i < at; i++ {
			trend[i] = trend[before] + (trend[at]-trend[before])*float64(i-before)/float64(at-before)
		}
		before = at
		if at-counted >= blockRows || at == n-1 {
			end := at
			if at == n-1 {
				end = n
			}
			w.move(end-counted, (1+writeMoves)*valueBytes)
			counted = end
		}
		if at == n-1 {
			return nil
		}
	}
}

// tricube sets the weights of a fit for the row in place middle of those that it is made from.
func tricube(weights []float64, middle int) {
	reach := float64(max(middle, len(weights)-1-middle) + 1)
	for j := range weights {
		u := math.Abs(float64(j-middle)) / reach
		weights[j] = math.Pow(1-u*u*u, 3)
	}
}

// atEnd returns the value at a row that is near an end: that of the line through the first, or the last, span rows.
func atEnd(x []float64, at, span int) float64 {
	from := max(min(at-span/2, len(x)-span), 0)
	middle := at - from
	reach := float64(max(middle, span-1-middle) + 1)
	var s0, s1, s2, t0, t1 float64 // sums of weight·d^k, and of weight·d^k·x
	for j, v := range x[from : from+span] {
		d := float64(j - middle)
		u := math.Abs(d) / reach
		c := 1 - u*u*u
		weight := c * c * c
		s0, s1, s2 = s0+weight, s1+weight*d, s2+weight*d*d
		t0, t1 = t0+weight*v, t1+weight*d*v
	}
	return (s2*t0 - s1*t1) / (s0*s2 - s1*s1)
}
