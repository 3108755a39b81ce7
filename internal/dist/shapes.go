package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Constant is always the same value.
type Constant struct {
	Unit  Unit
	Value float64
}

// Sample returns the value.
func (c Constant) Sample(*rand.Rand) float64 { return c.Value }

// Mean returns the value.
func (c Constant) Mean() float64 { return c.Value }

// String returns the text form.
func (c Constant) String() string { return c.Unit.format(c.Value) }

// Exponential is the memoryless distribution.
type Exponential struct {
	Unit   Unit
	Expect float64 // its mean
}

// Sample draws a value.
func (e Exponential) Sample(rng *rand.Rand) float64 { return rng.ExpFloat64() * e.Expect }

// Mean returns the mean.
func (e Exponential) Mean() float64 { return e.Expect }

// String returns the text form.
func (e Exponential) String() string { return "exp:" + e.Unit.format(e.Expect) }

// Uniform takes every value between two alike.
type Uniform struct {
	Unit      Unit
	Low, High float64
}

// Sample draws a value.
func (u Uniform) Sample(rng *rand.Rand) float64 { return u.Low + rng.Float64()*(u.High-u.Low) }

// Mean returns the middle.
func (u Uniform) Mean() float64 { return u.Low + (u.High-u.Low)/2 }

// String returns the text form.
func (u Uniform) String() string {
	return "uniform:" + u.Unit.format(u.Low) + ".." + u.Unit.format(u.High)
}

// Mode is one value of a Bimodal and its probability.
type Mode struct {
	Share, Value float64
}

// Bimodal is one of a few values, in most uses two.
type Bimodal struct {
	unit  Unit
	modes []Mode
}

// NewBimodal returns the distribution over modes, whose shares must sum to 1.
func NewBimodal(unit Unit, modes []Mode) (Bimodal, error) {
	sum := 0.0
	for _, m := range modes {
		sum += m.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		return Bimodal{}, fmt.Errorf("probabilities sum to %v, must sum to 1", sum)
	}
	return Bimodal{unit, modes}, nil
}

// Sample draws a value.
func (b Bimodal) Sample(rng *rand.Rand) float64 {
	left := rng.Float64()
	for _, m := range b.modes[:len(b.modes)-1] {
		if left < m.Share {
			return m.Value
		}
		left -= m.Share
	}
	return b.modes[len(b.modes)-1].Value
}

// Mean returns the mean.
func (b Bimodal) Mean() float64 {
	sum := 0.0
	for _, m := range b.modes {
		sum += m.Share * m.Value
	}
	return sum
}

// String returns the text form.
func (b Bimodal) String() string {
	parts := make([]string, len(b.modes))
	for i, m := range b.modes {
		parts[i] = strconv.FormatFloat(m.Share, 'g', -1, 64) + "@" + b.unit.format(m.Value)
	}
	return "bimodal:" + strings.Join(parts, ",")
}

// LogNormal is e to the power of a normal variable: many small values and a long tail, as service times often have.
type LogNormal struct {
	text      string
	mu, sigma float64 // of the normal variable
}

// newLogNormal solves value = exp(mu + sigma·z) for two quantiles, where z is the standard normal quantile.
func newLogNormal(text string, at, value [2]float64) LogNormal {
	z := func(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
	sigma := math.Log(value[1]/value[0]) / (z(at[1]) - z(at[0]))
	return LogNormal{text: text, mu: math.Log(value[0]) - sigma*z(at[0]), sigma: sigma}
}

// Sample draws a value.
func (l LogNormal) Sample(rng *rand.Rand) float64 { return math.Exp(l.mu + l.sigma*rng.NormFloat64()) }

// Mean returns exp(mu + sigma²/2).
func (l LogNormal) Mean() float64 { return math.Exp(l.mu + l.sigma*l.sigma/2) }

// String returns the text form.
func (l LogNormal) String() string { return l.text }

// Empirical draws from measured values, each as likely as the others.
type Empirical struct {
	path   string
	values []float64
	mean   float64
}

// Sample draws a value.
func (e Empirical) Sample(rng *rand.Rand) float64 { return e.values[rng.IntN(len(e.values))] }

// Mean returns the mean of the values.
func (e Empirical) Mean() float64 { return e.mean }

// String returns the text form.
func (e Empirical) String() string { return "empirical:" + e.path }

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
