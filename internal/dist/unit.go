package dist

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration such as "72us", "1.5ms" or "1m30s". The units are ns, us, ms, s, m and h; one is required, and a
// negative duration is refused.
func ParseDuration(text string) (time.Duration, error) {
	if text != "0" && strings.Trim(text, "0123456789.") == "" {
		return 0, fmt.Errorf("duration %q has no unit: write ns, us, ms, s, m or h behind the number", text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %q: write a number and one of ns, us, ms, s, m, h, such as 1.5ms", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q: must not be negative", text)
	}
	return d, nil
}

// FormatDuration writes d so that ParseDuration reads it back, in the units of this project: "72us" where Go says "72µs".
func FormatDuration(d time.Duration) string {
	text := strings.Replace(d.String(), "µ", "u", 1)
	if d >= time.Minute { // 1m0s and 1h0m0s say what 1m and 1h say
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
	}
	return text
}

// unitScale is a suffix and what it stands for: 10 to the power ten, or 2 to the power two.
type unitScale struct {
	suffix   string
	ten, two int
}

var sizeUnits = []unitScale{ // the larger first, for FormatSize
	{suffix: "GiB", two: 30}, {suffix: "GB", ten: 9},
	{suffix: "MiB", two: 20}, {suffix: "MB", ten: 6},
	{suffix: "KiB", two: 10}, {suffix: "kB", ten: 3},
	{suffix: "B"},
}

// ParseSize reads a number of bytes such as "819200B", "36GB" or "2MiB": B, kB, MB, GB are powers of 1000, KiB, MiB, GiB powers
// of 1024. A unit is required and the result must be whole.
func ParseSize(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	for _, u := range sizeUnits {
		number, found := strings.CutSuffix(text, u.suffix)
		if !found || strings.Trim(number, "0123456789.") != "" {
			continue // "5kB" ends in B too
		}
		v, err := scaled(number, u)
		if err != nil {
			break
		}
		if v != math.Trunc(v) || v > 1<<62 {
			return 0, fmt.Errorf("size %q: must be a whole number of bytes below 2^62", text)
		}
		return int64(v), nil
	}
	return 0, fmt.Errorf("size %q: write a number and one of B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (of 1024), such as 512MiB", text)
}

// FormatSize writes a number of bytes exactly, in the largest unit that divides it.
func FormatSize(bytes int64) string {
	for _, u := range sizeUnits {
		scale := int64(math.Pow10(u.ten)) << u.two
		if bytes != 0 && bytes%scale == 0 {
			return strconv.FormatInt(bytes/scale, 10) + u.suffix
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// ParseRate reads a number per second such as "166666", "0.5", "50k" or "1.2M".
func ParseRate(text string) (float64, error) {
	u := unitScale{}
	number := text
	for _, s := range []unitScale{{suffix: "k", ten: 3}, {suffix: "M", ten: 6}} {
		if n, found := strings.CutSuffix(text, s.suffix); found {
			number, u = n, s
		}
	}
	v, err := scaled(number, u)
	if err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("rate %q: write a number per second, with k or M for thousands or millions, such as 50k", text)
	}
	return v, nil
}

// FormatRate writes a rate so that ParseRate reads it back.
func FormatRate(perSecond float64) string {
	for _, s := range []unitScale{{suffix: "M", ten: 6}, {suffix: "k", ten: 3}} {
		text := strconv.FormatFloat(perSecond/math.Pow10(s.ten), 'f', -1, 64) + s.suffix
		if back, err := ParseRate(text); err == nil && back == perSecond && perSecond >= math.Pow10(s.ten) && len(text) <= 8 {
			return text
		}
	}
	return strconv.FormatFloat(perSecond, 'f', -1, 64)
}

// scaled reads a plain decimal number times a unit. The power of ten goes into the number's own exponent, so that the result is the
// float64 nearest to what was written: 1.1 times 1000 is not always that.
func scaled(number string, u unitScale) (float64, error) {
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(number+"e"+strconv.Itoa(u.ten), 64)
	return math.Ldexp(v, u.two), err
}

// ParseMemcachedSize reads a size with a unit, or in memcached's form: a number that counts units of plain, or with k, m or g behind it, which
// are powers of 1024.
func ParseMemcachedSize(text string, plain int64) (int64, error) {
	number, unit := text, plain
	for suffix, scale := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30} {
		if head, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			number, unit = head, scale
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q is out of range", text)
		}
		return n * unit, nil
	}
	return ParseSize(text)
}
