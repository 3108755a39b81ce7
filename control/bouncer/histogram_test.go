package bouncer

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The buckets follow each other without gap or overlap, and none is wider than a 128th of what is in it.
func TestBucketsTile(t *testing.T) {
	t.Parallel()
	next := time.Duration(0)
	for i := range buckets {
		low, high := next, upper(i)
		if bucket(uint64(low)) != i || bucket(uint64(high)) != i {
			t.Fatalf("bucket %d is from %d to %d, but those belong to %d and %d", i, low, high, bucket(uint64(low)), bucket(uint64(high)))
		}
		if high > low && float64(high-low+1) > float64(low)/subs {
			t.Fatalf("bucket %d, from %d to %d, is wider than 1/%d", i, low, high, subs)
		}
		next = high + 1
	}
	if next != 1<<37 {
		t.Errorf("the last bucket ends at %v, want 2^37 ns", next)
	}
	if got := bucket(math.MaxUint64); got != buckets-1 {
		t.Errorf("the largest value is in bucket %d", got)
	}
}

// Every quantile is that of the sorted values, at most 1/128 too high, and never above the largest.
func TestQuantileProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(1, 40).Draw(t, "size")).Draw(t, "value"))
		}), 1, 200).Draw(t, "values")
		p := rapid.Float64Range(0.001, 0.999).Draw(t, "p")
		var h histogram
		sum := 0.0
		for _, v := range values {
			h.record(v)
			sum += float64(v)
		}
		slices.Sort(values)
		exact := values[max(int(math.Ceil(p*float64(len(values)))), 1)-1]
		got := h.quantile(p)
		if exact >= 1<<37 {
			if got != values[len(values)-1] {
				t.Fatalf("beyond the last bucket the quantile is %v, want the largest, %v", got, values[len(values)-1])
			}
			return
		}
		if got < exact || got > exact+exact/subs || got > values[len(values)-1] {
			t.Fatalf("quantile %v of %v: %v, want %v", p, values, got, exact)
		}
		if want := sum / float64(len(values)); math.Abs(h.mean()-want) > 1e-9*want+1e-9 {
			t.Fatalf("mean %v, want %v", h.mean(), want)
		}
		h.clear()
		if h != (histogram{}) {
			t.Fatal("something is left after clear")
		}
	})
}

// What is left of a request found running is half of it when all take equally long, and all of it when their times are exponential.
func TestResidual(t *testing.T) {
	t.Parallel()
	var constant, exponential histogram
	for i := range 10_000 {
		constant.record(10 * time.Millisecond)
		exponential.record(time.Duration(-math.Log(1-(float64(i)+0.5)/10_000) * float64(10*time.Millisecond)))
	}
	if got := time.Duration(constant.residual()); got != 5*time.Millisecond {
		t.Errorf("constant: %v, want 5ms", got)
	}
	if got := time.Duration(exponential.residual()); got < 9900*time.Microsecond || got > 10100*time.Microsecond {
		t.Errorf("exponential: %v, want 10ms", got)
	}
	if new(histogram).residual() != 0 || new(histogram).mean() != 0 || new(histogram).quantile(0.5) != 0 {
		t.Error("an empty histogram does not say 0")
	}
}
