package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// GeneralisedPareto has a power-law tail: what is left above a threshold of many measured sizes and times.
//
//	P(X > x) = (1 + Shape·(x − Location)/Scale)^(−1/Shape)
type GeneralisedPareto struct {
	Unit                   Unit
	Location, Scale, Shape float64
}

// Sample draws a value, by inversion.
func (g GeneralisedPareto) Sample(rng *rand.Rand) float64 {
	e := rng.ExpFloat64() // minus the logarithm of a uniform number
	if g.Shape == 0 {
		return g.Location + g.Scale*e
	}
	return g.Location + g.Scale*math.Expm1(g.Shape*e)/g.Shape
}

// Mean returns Location + Scale/(1 − Shape); parsing refuses the shapes that have none.
func (g GeneralisedPareto) Mean() float64 { return g.Location + g.Scale/(1-g.Shape) }

// String returns the text form.
func (g GeneralisedPareto) String() string {
	return "gpareto:" + formatThree(g.Unit, g.Location, g.Scale, g.Shape)
}

// GEV is the generalised extreme value distribution, which Facebook's key lengths were found to follow.
//
//	P(X ≤ x) = exp(−(1 + Shape·(x − Location)/Scale)^(−1/Shape))
//
// What it draws below 0 counts as 0.
type GEV struct {
	Unit                   Unit
	Location, Scale, Shape float64
}

// Sample draws a value, by inversion.
func (g GEV) Sample(rng *rand.Rand) float64 {
	e := rng.ExpFloat64()
	for e == 0 { // its logarithm would be infinite
		e = rng.ExpFloat64()
	}
	y := -math.Log(e)
	if g.Shape == 0 {
		return max(g.Location+g.Scale*y, 0)
	}
	return max(g.Location+g.Scale*math.Expm1(g.Shape*y)/g.Shape, 0)
}

// Mean returns Location + Scale·(Γ(1 − Shape) − 1)/Shape, which leaves out that draws below 0 count as 0.
func (g GEV) Mean() float64 {
	if g.Shape == 0 {
		const euler = 0.57721566490153286
		return g.Location + g.Scale*euler
	}
	return g.Location + g.Scale*(math.Gamma(1-g.Shape)-1)/g.Shape
}

// String returns the text form.
func (g GEV) String() string { return "gev:" + formatThree(g.Unit, g.Location, g.Scale, g.Shape) }

// Part is one distribution of a Mixture and its probability.
type Part struct {
	Share float64
	Of    Dist
}

// Mixture draws from one of several distributions.
type Mixture struct {
	parts []Part
}

// NewMixture returns the mixture of parts, whose shares must sum to 1.
func NewMixture(parts []Part) (Mixture, error) {
	sum := 0.0
	for _, p := range parts {
		if !(p.Share >= 0) {
			return Mixture{}, fmt.Errorf("probability %v: must not be negative", p.Share)
		}
		sum += p.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		return Mixture{}, fmt.Errorf("probabilities sum to %v, must sum to 1", sum)
	}
	return Mixture{parts}, nil
}

// Sample draws a value.
func (m Mixture) Sample(rng *rand.Rand) float64 {
	left := rng.Float64()
	for _, p := range m.parts[:len(m.parts)-1] {
		if left < p.Share {
			return p.Of.Sample(rng)
		}
		left -= p.Share
	}
	return m.parts[len(m.parts)-1].Of.Sample(rng)
}

// Mean returns the mean.
func (m Mixture) Mean() float64 {
	sum := 0.0
	for _, p := range m.parts {
		sum += p.Share * p.Of.Mean()
	}
	return sum
}

// String returns the text form.
func (m Mixture) String() string {
	texts := make([]string, len(m.parts))
	for i, p := range m.parts {
		texts[i] = strconv.FormatFloat(p.Share, 'g', -1, 64) + "@" + fmt.Sprint(p.Of)
	}
	return "mix:" + strings.Join(texts, ";")
}

func parseMixture(text string, unit Unit) (Dist, error) {
	var parts []Part
	for part := range strings.SplitSeq(text, ";") {
		shareText, of, found := strings.Cut(part, "@")
		share, err := strconv.ParseFloat(shareText, 64)
		if !found || err != nil {
			return nil, fmt.Errorf("%q: write PROBABILITY@DISTRIBUTION", part)
		}
		d, err := parse(of, unit)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{share, d})
	}
	return NewMixture(parts)
}

// parseThree reads LOCATION,SCALE,SHAPE.
func parseThree(form, text string, unit Unit) (location, scale, shape float64, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return 0, 0, 0, fmt.Errorf("write %s:LOCATION,SCALE,SHAPE", form)
	}
	if location, err = unit.parseFraction(parts[0]); err != nil {
		return 0, 0, 0, err
	}
	if scale, err = unit.parseFraction(parts[1]); err != nil {
		return 0, 0, 0, err
	}
	if shape, err = strconv.ParseFloat(parts[2], 64); err != nil {
		return 0, 0, 0, fmt.Errorf("shape %q: write a number", parts[2])
	}
	if !(scale > 0) || !(shape >= 0 && shape < 1) {
		return 0, 0, 0, fmt.Errorf("scale %v must be above 0, shape %v at least 0 and below 1, where the mean ends", parts[1], parts[2])
	}
	return location, scale, shape, nil
}

func formatThree(u Unit, location, scale, shape float64) string {
	return u.formatFraction(location) + "," + u.formatFraction(scale) + "," + strconv.FormatFloat(shape, 'g', -1, 64)
}

// parseFraction is parse, except that a parameter of a distribution of bytes need not be a whole number of them.
func (u Unit) parseFraction(text string) (float64, error) {
	if number, found := strings.CutSuffix(text, "B"); found && u == Bytes {
		if v, err := scaled(number, unitScale{}); err == nil {
			return v, nil
		}
	}
	return u.parse(text)
}

func (u Unit) formatFraction(v float64) string {
	if u == Bytes && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64) + "B"
	}
	return u.format(v)
}
