package profiles

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"spillway/internal/dist"
)

// Rate is a number of requests per second, written with an optional k or M.
type Rate float64

// maxRate bounds an offered rate. One machine's generator stops far below it; what is larger is a slip of the keyboard.
const maxRate = 1e9

// ParseRate reads an offered rate such as 250, 50k or 1.2M.
func ParseRate(s string) (Rate, error) {
	v, err := dist.ParseRate(s)
	if err != nil {
		return 0, err
	}
	if v <= 0 || v > maxRate {
		return 0, fmt.Errorf("rate %s is outside 0 (excluded) to 1000M requests per second", s)
	}
	return Rate(v), nil
}

// String writes r as profiles do.
func (r Rate) String() string { return dist.FormatRate(float64(r)) }

// Size is a number of bytes, or of bytes per second.
type Size int64

// String writes s as profiles do.
func (s Size) String() string { return dist.FormatSize(int64(s)) }

// Factor is a share of capacity as the profile writes it: column load_factor repeats the text.
type Factor string

// ParseFactor reads a factor such as 0.5 or 2.
func ParseFactor(s string) (Factor, error) {
	v, err := parseNumber(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a factor; write a number such as 0.5 or 2", s)
	}
	if v <= 0 || v > 100 {
		return "", fmt.Errorf("factor %s is outside 0 (excluded) to 100", s)
	}
	return Factor(s), nil
}

// Value returns the factor as a number.
func (f Factor) Value() float64 {
	v, err := parseNumber(string(f))
	if err != nil {
		panic("profiles: a Factor that ParseFactor did not make: " + string(f))
	}
	return v
}

// parseNumber accepts plain decimal numbers only: neither hexadecimal nor NaN nor infinity has a meaning in a profile, and no number
// of one is negative.
func parseNumber(s string) (float64, error) {
	if strings.Trim(s, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a plain number", s)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a plain number", s)
	}
	return v, nil
}
