package frames

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestMadeUpBars: they are bars, of the minutes at which the market is open, and the same for the same seed.
func TestMadeUpBars(t *testing.T) {
	t.Parallel()
	s := DefaultShape()
	s.Rows = 20_000
	f, err := Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Rows {
		b := bar{open: f.Column(Open)[i], high: f.Column(High)[i], low: f.Column(Low)[i], close: f.Column(Close)[i], volume: f.Column(Volume)[i]}
		if reason := b.check(); reason != "" || b.volume < 1 {
			t.Fatalf("row %d: %s: %+v", i, reason, b)
		}
		at := time.Unix(f.Times()[i], 0).UTC()
		week := at.Weekday() != time.Saturday && !(at.Weekday() == time.Friday && at.Hour() >= 22) && !(at.Weekday() == time.Sunday && at.Hour() < 22)
		if !week || i > 0 && f.Times()[i] <= f.Times()[i-1] {
			t.Fatalf("row %d is of %v", i, at)
		}
		if i > 0 && b.open != f.Column(Close)[i-1] {
			t.Fatalf("row %d opens at %v, and the one before closed at %v", i, b.open, f.Column(Close)[i-1])
		}
	}
	// A week from Monday, 0:00, has five days but for the last two hours of Friday, and the first two of the next begin on Sunday evening.
	if got, want := f.Times()[7200-120]-f.Times()[0], int64(7*24-2)*3600; got != want {
		t.Errorf("the second week begins %d s after the first bar, want %d", got, want)
	}
	again, err := Generate(s)
	if err != nil || !slices.Equal(again.Column(Close), f.Column(Close)) || !slices.Equal(again.Column(Volume), f.Column(Volume)) {
		t.Errorf("the same shape gives another frame: %v", err)
	}
	s.Seed++
	if again, _ = Generate(s); slices.Equal(again.Column(Close), f.Column(Close)) {
		t.Error("another seed gives the same frame")
	}
}

// TestVolatilityComesInClusters: returns have the volatility that was asked for, no memory of their own, and squares that have one and tails that are heavy; without
// shocks they are normal.
func TestVolatilityComesInClusters(t *testing.T) {
	t.Parallel()
	s := DefaultShape()
	s.Rows, s.Price = 200_000, 100 // so that rounding to pips does not matter
	for _, clustered := range []bool{true, false} {
		if !clustered {
			s.Shock, s.Persistence = 0, 0
		}
		f, err := Generate(s)
		if err != nil {
			t.Fatal(err)
		}
		r := f.Column(Return)[1:]
		var m2, m4, lag, square, squareVar float64
		for _, v := range r {
			m2 += v * v / float64(len(r))
			m4 += v * v * v * v / float64(len(r))
		}
		for i := 1; i < len(r); i++ {
			lag += r[i] * r[i-1] / m2 / float64(len(r))
			square += (r[i]*r[i] - m2) * (r[i-1]*r[i-1] - m2) / float64(len(r))
			squareVar += (r[i]*r[i] - m2) * (r[i]*r[i] - m2) / float64(len(r))
		}
		if year := math.Sqrt(m2 * YearRows); math.Abs(year-s.Year) > 0.1*s.Year {
			t.Errorf("volatility of a year: %v, want %v", year, s.Year)
		}
		if math.Abs(lag) > 0.02 {
			t.Errorf("returns correlate with the one before: %v", lag)
		}
		// Of the model with α = 0.05 and β = 0.94 the squares correlate by α(1−αβ−β²)/(1−2αβ−β²) = 0.16 and the kurtosis is 3(1−(α+β)²)/(1−(α+β)²−2α²) = 4.
		corr, kurtosis := square/squareVar, m4/m2/m2
		if clustered && (corr < 0.08 || corr > 0.24 || kurtosis < 3.4 || kurtosis > 4.8) || !clustered && (math.Abs(corr) > 0.02 || math.Abs(kurtosis-3) > 0.1) {
			t.Errorf("clustered %v: squares correlate by %v, kurtosis %v", clustered, corr, kurtosis)
		}
	}
}

func TestShapesAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Shape){
		"rows": func(s *Shape) { s.Rows = MinRows - 1 }, "more rows": func(s *Shape) { s.Rows = MaxRows + 1 }, "price": func(s *Shape) { s.Price = 0 },
		"volatility": func(s *Shape) { s.Year = math.NaN() }, "shock": func(s *Shape) { s.Shock = -1 }, "both": func(s *Shape) { s.Shock = 0.06 }, "volume": func(s *Shape) { s.Volume = 0 },
	} {
		s := DefaultShape()
		change(&s)
		if _, err := Generate(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
