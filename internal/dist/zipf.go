package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Zipf draws ranks 0 … n−1 with probability proportional to 1/(rank+1)^s: a few keys are asked for all the time, most hardly ever.
//
// It works by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", ACM TOMACS 6(3), 1996). Let h(x) = x^−s and H its integral:
//
//	H(x) = (x^(1−s) − 1) / (1−s),  log x for s = 1
//
//	   h │\            one uniform number is mapped through the inverse of H to a
//	     │ \__         point under the curve; the column of the nearest rank k is
//	     │  │ \__      accepted if the point lies within h(k) below H(k+½),
//	     └──┴──┴──▶ x  which it does nine times in ten and more
//
// Nothing is tabulated, so a billion keys take no more set-up than ten.
type Zipf struct {
	n           uint64
	s           float64
	top, bottom float64 // H(n+½) and H(1½) − 1: the range of the uniform number
	shortcut    float64 // so near below a rank that acceptance needs no evaluation
}

// NewZipf returns the distribution over n ranks with exponent s > 0.
func NewZipf(n uint64, s float64) (*Zipf, error) {
	if n < 1 || n > 1<<53 {
		return nil, fmt.Errorf("zipf over %d ranks: must be 1 to 2^53", n)
	}
	if !(s > 0) || s > 100 {
		return nil, fmt.Errorf("zipf exponent %v: must be above 0 and at most 100", s)
	}
	z := &Zipf{n: n, s: s}
	z.top = z.integral(float64(n) + 0.5)
	z.bottom = z.integral(1.5) - 1
	z.shortcut = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z, nil
}

// Sample draws a rank; 0 is the most popular.
func (z *Zipf) Sample(rng *rand.Rand) uint64 {
	for {
		u := z.top + rng.Float64()*(z.bottom-z.top) // in (bottom, top]
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), float64(z.n))
		if k-x <= z.shortcut || u >= z.integral(k+0.5)-z.density(k) {
			return uint64(k) - 1
		}
	}
}

func (z *Zipf) density(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

// integral is H. Near s = 1 the quotient loses all its digits; expm1(t)/t does not.
func (z *Zipf) integral(x float64) float64 {
	log := math.Log(x)
	return expm1Ratio((1-z.s)*log) * log
}

// inverse is H⁻¹.
func (z *Zipf) inverse(y float64) float64 {
	t := max(y*(1-z.s), -1) // rounding may put it just below the range
	return math.Exp(log1pRatio(t) * y)
}

// expm1Ratio returns (e^t − 1)/t, by its series where t is tiny.
func expm1Ratio(t float64) float64 {
	if math.Abs(t) > 1e-8 {
		return math.Expm1(t) / t
	}
	return 1 + t/2*(1+t/3)
}

// log1pRatio returns log(1+t)/t, by its series where t is tiny.
func log1pRatio(t float64) float64 {
	if math.Abs(t) > 1e-8 {
		return math.Log1p(t) / t
	}
	return 1 - t*(0.5-t/3)
}
