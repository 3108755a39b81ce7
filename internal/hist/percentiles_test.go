package hist

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPercentilesTogether: asked for together they are what each is by itself.
func TestPercentilesTogether(t *testing.T) {
	t.Parallel()
	ps := []float64{0, 1, 25, 50, 50, 90, 99, 99.9, 99.999, 100}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 10, 1000, 20_000} {
		h := New()
		for range n {
			h.Record(time.Duration(rng.ExpFloat64() * 1e6))
		}
		got := h.Percentiles(ps)
		for i, p := range ps {
			if want := h.Percentile(p); got[i] != want {
				t.Errorf("of %d values, percentile %v is %v together and %v alone", n, p, got[i], want)
			}
		}
		if !slices.IsSorted(got) || got[len(got)-1] != h.Max() {
			t.Errorf("of %d values, percentiles are %v, the maximum %v", n, got, h.Max())
		}
	}
}
