// Package dist draws random numbers: seeded streams, distributions with the text forms of profiles, Zipf ranks. It also has the one
// reader of durations, sizes and rates that all text written by users goes through.
package dist

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Dist is a distribution of non-negative numbers.
type Dist interface {
	Sample(rng *rand.Rand) float64
	Mean() float64 // of the distribution, exactly; not of what was sampled
}

// Unit says what the numbers of a distribution are, and so how its text form writes them.
type Unit uint8

// The units.
const (
	Nanoseconds Unit = iota // written as durations: 72us
	Bytes                   // written as sizes: 5B, 1MB
	Number                  // written plainly
)

func (u Unit) parse(text string) (float64, error) {
	switch u {
	case Nanoseconds:
		d, err := ParseDuration(text)
		return float64(d), err
	case Bytes:
		n, err := ParseSize(text)
		return float64(n), err
	default:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("number %q: must be a finite number, not negative", text)
		}
		return v, nil
	}
}

func (u Unit) format(v float64) string {
	switch u {
	case Nanoseconds:
		return FormatDuration(time.Duration(v))
	case Bytes:
		return FormatSize(int64(v))
	default:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
}

// Forms lists the text forms that Parse takes, for messages.
const Forms = "72us, exp:72us, uniform:10us..90us, bimodal:0.9@10us,0.1@100us, lognormal:p50=10us,p90=50us, gpareto:LOCATION,SCALE,SHAPE, " +
	"gev:LOCATION,SCALE,SHAPE, mix:SHARE@FORM;SHARE@FORM, empirical:FILE"

// Parse reads a distribution from its text form; numbers in it are in unit. The forms are:
//
//	72us                          always this
//	exp:72us                      exponential with this mean
//	uniform:10us..90us            uniform between the two
//	bimodal:0.9@10us,0.1@100us    one of several values, with probabilities that sum to 1
//	lognormal:p50=10us,p90=50us   log-normal through two quantiles
//	gpareto:0B,214.5B,0.35        generalised Pareto: location, scale, shape
//	gev:30.8B,8.2B,0.08           generalised extreme value, likewise
//	mix:0.9@10us;0.1@exp:1ms      one of several distributions, with probabilities that sum to 1
//	empirical:FILE                drawn from the values in a file, one a line
func Parse(text string, unit Unit) (Dist, error) {
	d, err := parse(text, unit)
	if err != nil {
		return nil, fmt.Errorf("distribution %q: %w", text, err)
	}
	return d, nil
}

func parse(text string, unit Unit) (Dist, error) {
	form, rest, found := strings.Cut(text, ":")
	if !found {
		v, err := unit.parse(text)
		return Constant{unit, v}, err
	}
	switch form {
	case "exp":
		v, err := unit.parse(rest)
		return Exponential{unit, v}, err
	case "uniform":
		return parseUniform(rest, unit)
	case "bimodal":
		return parseBimodal(rest, unit)
	case "lognormal":
		return parseLogNormal(rest, unit)
	case "gpareto":
		location, scale, shape, err := parseThree(form, rest, unit)
		return GeneralisedPareto{unit, location, scale, shape}, err
	case "gev":
		location, scale, shape, err := parseThree(form, rest, unit)
		return GEV{unit, location, scale, shape}, err
	case "mix":
		return parseMixture(rest, unit)
	case "empirical":
		return openEmpirical(rest, unit)
	default:
		return nil, fmt.Errorf("unknown form %q; the forms are %s", form, Forms)
	}
}

func parseUniform(text string, unit Unit) (Dist, error) {
	lowText, highText, found := strings.Cut(text, "..")
	if !found {
		return nil, fmt.Errorf("write uniform:LOW..HIGH")
	}
	low, err := unit.parse(lowText)
	if err != nil {
		return nil, err
	}
	high, err := unit.parse(highText)
	if err != nil {
		return nil, err
	}
	if low > high {
		return nil, fmt.Errorf("the lower end %s is above the upper end %s", lowText, highText)
	}
	return Uniform{unit, low, high}, nil
}

func parseBimodal(text string, unit Unit) (Dist, error) {
	var modes []Mode
	for part := range strings.SplitSeq(text, ",") {
		shareText, valueText, found := strings.Cut(part, "@")
		share, err := strconv.ParseFloat(shareText, 64)
		if !found || err != nil || !(share >= 0) {
			return nil, fmt.Errorf("%q: write PROBABILITY@VALUE", part)
		}
		value, err := unit.parse(valueText)
		if err != nil {
			return nil, err
		}
		modes = append(modes, Mode{share, value})
	}
	return NewBimodal(unit, modes)
}

func parseLogNormal(text string, unit Unit) (Dist, error) {
	var at, value [2]float64
	parts := strings.Split(text, ",")
	if len(parts) != 2 {
		return nil, fmt.Errorf("write lognormal:p50=VALUE,p90=VALUE with two quantiles")
	}
	for i, part := range parts {
		name, valueText, _ := strings.Cut(part, "=")
		digits, found := strings.CutPrefix(name, "p")
		if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
			return nil, fmt.Errorf("%q: write a quantile as p50=VALUE; p999 is the quantile 0.999", part)
		}
		var err error
		if at[i], err = strconv.ParseFloat("0."+digits, 64); err != nil {
			return nil, err
		}
		if value[i], err = unit.parse(valueText); err != nil {
			return nil, err
		}
	}
	if !(at[0] > 0 && at[0] < at[1] && value[0] > 0 && value[0] <= value[1]) {
		return nil, fmt.Errorf("quantiles must rise and values must be positive and not fall")
	}
	return newLogNormal("lognormal:"+text, at, value), nil
}

func openEmpirical(path string, unit Unit) (Dist, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values, err := readValues(f, unit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return Empirical{path, values, mean(values)}, nil
}

// readValues reads one value a line; empty lines and those that begin with # are skipped.
func readValues(r io.Reader, unit Unit) ([]float64, error) {
	var values []float64
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		v, err := unit.parse(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		values = append(values, v)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("holds no values")
	}
	return values, nil
}
