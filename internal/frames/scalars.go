package frames

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Max returns the greatest value of a column.
func (w *Worker) Max(c Column) float64 { return floats.Max(w.f.Column(c)) }

// Mean returns the arithmetic mean of a column.
func (w *Worker) Mean(c Column) float64 { return stat.Mean(w.f.Column(c), nil) }

// Quantile returns the p-quantile of a column by linear interpolation of its empirical distribution (definition 4 of Hyndman and Fan, "Sample Quantiles in
// Statistical Packages", 1996): with the values in order, x(1) to x(n), it is x(j) + (np − j)·(x(j+1) − x(j)) for j = ⌊np⌋, and x(1) where np < 1.
func (w *Worker) Quantile(p float64, c Column) float64 {
	sorted := w.vector(0)
	copy(sorted, w.f.Column(c))
	slices.Sort(sorted)
	return stat.Quantile(p, stat.LinInterp, sorted, nil)
}

// Correlation returns Pearson's coefficient of two columns, Σ(x−x̄)(y−ȳ) / √(Σ(x−x̄)²·Σ(y−ȳ)²). A column whose values are all the same has none.
func (w *Worker) Correlation(a, b Column) (float64, error) {
	x, y := w.f.Column(a), w.f.Column(b)
	for i, v := range [...][]float64{x, y} {
		if floats.Max(v) == floats.Min(v) {
			return 0, fmt.Errorf("all values of %s are the same, so nothing correlates with it", [...]Column{a, b}[i])
		}
	}
	return stat.Correlation(x, y, nil), nil
}

// VWAP returns the volume-weighted average price, Σ Close·Volume / Σ Volume.
func (w *Worker) VWAP() (float64, error) {
	if floats.Max(w.f.Column(Volume)) == 0 {
		return 0, errors.New("all volumes are 0, so nothing can be weighted by them")
	}
	return stat.Mean(w.f.Column(Close), w.f.Column(Volume)), nil
}
